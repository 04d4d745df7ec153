"""EMSCO's operators on a whole population at once: selection, recombination, mutation (EMSCO, Section 3.2).

All work on compressed chromosomes and give compressed ones. A removed feature, gene -1, is inherited as it is.
"""

from math import comb, exp, lgamma

import numpy as np

from models.arrays import Floats, Int8s, Int64s
from solvers.pipeline.configurations import REMOVED, compress_chromosomes, count_stage_features, count_stages


def beta_binomial(most: int, beta: float) -> Floats:
    """Give the probabilities of the stages 0 to ``most``, BB(1, beta), falling if beta > 1 (Eq. 7).

    >>> beta_binomial(2, 2.0).round(6).tolist()
    [0.5, 0.333333, 0.166667]
    """
    return np.array([comb(most, j) * exp(_beta(j + 1, most - j + beta) - _beta(1, beta)) for j in range(most + 1)])


def _beta(a: float, b: float) -> float:
    """Give the logarithm of the beta function."""
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def draw_parents(log_fitness: Floats, count: int, rng: np.random.Generator) -> Int64s:
    """Select so many, each with a probability in proportion to its fitness; told as logarithms, for fitness overflows.

    >>> draw_parents(np.array([-np.inf, 0.0, -np.inf]), 3, np.random.default_rng(0)).tolist()
    [1, 1, 1]
    """
    return rng.choice(len(log_fitness), size=count, p=selection_probabilities(log_fitness))


def selection_probabilities(log_fitness: Floats) -> Floats:
    """Give the probabilities of selection; all alike if nothing has any fitness.

    >>> selection_probabilities(np.log([1.0, 3.0])).round(9).tolist()
    [0.25, 0.75]
    """
    best = log_fitness.max()
    weights = np.exp(log_fitness - best) if best > -np.inf else np.ones(len(log_fitness))
    return np.asarray(weights / weights.sum())


def recombine_parents(first: Int8s, second: Int8s, rate: float, rng: np.random.Generator) -> Int8s:
    """Cross pairs of parents, (c, n) each, with stages normalised (Algorithm 2); without a cross, either parent.

    A child has the stages of either parent or half their sum, rounded down, each as likely. A gene comes from either
    parent, its stage in proportion to that parent's number of stages, halves rounded to even. Gaps are closed
    (Section 3.1.1), so the child may have fewer stages. A child that would have no feature at all is the first parent.

    >>> pair = np.array([[0, 0, 1]], dtype=np.int8), np.array([[2, 1, 0]], dtype=np.int8)
    >>> recombine_parents(*pair, 0.0, np.random.default_rng(1)).tolist()
    [[0, 0, 1]]
    """
    c, n = first.shape
    from_first = rng.random((c, n)) < 0.5
    genes = np.where(from_first, first, second)
    stages = np.stack((count_stages(first), count_stages(second)))
    wanted = np.concatenate((stages, stages.sum(axis=0, keepdims=True) // 2))[rng.integers(3, size=c), np.arange(c)]
    shares = (genes + 1.0) * wanted[:, None] / np.where(from_first, stages[0][:, None], stages[1][:, None])
    crossed = np.where(genes == REMOVED, REMOVED, np.maximum(np.rint(shares) - 1, 0)).astype(np.int8)
    coin, cross = rng.random((c, 1)) < 0.5, rng.random((c, 1)) < rate
    children = np.where(cross, crossed, np.where(coin, first, second))
    bare = (children == REMOVED).all(axis=1, keepdims=True)
    return compress_chromosomes(np.where(bare, first, children))


def mutate_genes(chromosomes: Int8s, rate: float, stages: int, beta: float, rng: np.random.Generator) -> Int8s:
    """Give each gene, with probability ``rate``, a new stage from BB(min(|Q|, k - 1), 1, beta) (Algorithm 1).

    stages: k. A feature that is alone in its stage stays, so no stage becomes empty; a gene set to |Q| opens one, which
    counts for the genes after it. Genes are taken in order, the t-th chosen ones of all chromosomes together: about
    n rate rounds of O(c k) time.
    """
    genes = chromosomes.copy()
    c, n = genes.shape
    cumulative = _cumulative(stages, beta)
    chosen = rng.random((c, n)) < rate
    order, counts = np.argsort(~chosen, axis=1, kind="stable"), chosen.sum(axis=1)
    sizes, used = count_stage_features(genes, stages), count_stages(genes)
    for t in range(int(counts.max(initial=0))):
        rows = np.flatnonzero(counts > t)
        places = order[rows, t]
        old = genes[rows, places].astype(np.intp)
        movable = (old == REMOVED) | (sizes[rows, old] > 1)
        rows, places, old = rows[movable], places[movable], old[movable]
        limits = np.minimum(used[rows], stages - 1)
        new = (rng.random(len(rows))[:, None] >= cumulative[limits]).sum(axis=1)
        genes[rows, places] = new
        np.subtract.at(sizes, (rows[old >= 0], old[old >= 0]), 1)
        np.add.at(sizes, (rows[new >= 0], new[new >= 0]), 1)
        used[rows] = np.maximum(used[rows], new + 1)
    return genes


def _cumulative(stages: int, beta: float) -> Floats:
    """Tabulate for each largest stage the odds that a draw is no larger than each stage; 1 from the largest on."""
    table = np.ones((stages, stages))
    for most in range(1, stages):
        table[most, :most] = np.cumsum(beta_binomial(most, beta))[:most]
    return table
