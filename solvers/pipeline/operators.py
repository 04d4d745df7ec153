"""EMSCO's operators on whole populations: selection, recombination, and mutation (EMSCO, Section 3.2).

Inputs and outputs are compressed chromosomes. A removed feature (gene -1) is inherited unchanged.
"""

from math import comb, exp, lgamma

import numpy as np

from models.arrays import Floats, Int8s, Int64s
from solvers.pipeline.configurations import REMOVED, compress_chromosomes, count_stage_features, count_stages


def beta_binomial(last: int, beta: float) -> Floats:
    """Return the probabilities of the stages 0 to ``last``, BB(1, beta), decreasing if beta > 1 (Eq. 7).

    >>> beta_binomial(2, 2.0).round(6).tolist()
    [0.5, 0.333333, 0.166667]
    """
    return np.array(
        [comb(last, j) * exp(_log_beta(j + 1, last - j + beta) - _log_beta(1, beta)) for j in range(last + 1)]
    )


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def draw_parents(log_fitness: Floats, count: int, rng: np.random.Generator) -> Int64s:
    """Draw ``count`` parents by roulette selection, from logarithmic fitness.

    >>> draw_parents(np.array([-np.inf, 0.0, -np.inf]), 3, np.random.default_rng(0)).tolist()
    [1, 1, 1]
    """
    return rng.choice(len(log_fitness), size=count, p=selection_probabilities(log_fitness))


def selection_probabilities(log_fitness: Floats) -> Floats:
    """Return selection probabilities, proportional to fitness; uniform if all fitness is 0.

    >>> selection_probabilities(np.log([1.0, 3.0])).round(9).tolist()
    [0.25, 0.75]
    """
    best = log_fitness.max()
    weights = np.exp(log_fitness - best) if best > -np.inf else np.ones(len(log_fitness))
    return np.asarray(weights / weights.sum())


def recombine_parents(first: Int8s, second: Int8s, rate: float, rng: np.random.Generator) -> Int8s:
    """Recombine pairs of parents, (c, n) each, with normalized stages (Algorithm 2).

    Without a crossover, the child is a copy of a parent.

    The number of stages of a child is that of the first parent, that of the second, or half their sum rounded down,
    with equal probability. Each gene comes from either parent. Its stage is scaled by that parent's number of stages;
    halves are rounded to even. Gaps are closed (Section 3.1.1). A child without features is replaced by the first
    parent.

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
    from_either, cross = rng.random((c, 1)) < 0.5, rng.random((c, 1)) < rate
    children = np.where(cross, crossed, np.where(from_either, first, second))
    bare = (children == REMOVED).all(axis=1, keepdims=True)
    return compress_chromosomes(np.where(bare, first, children))


def mutate_genes(chromosomes: Int8s, rate: float, stages: int, beta: float, rng: np.random.Generator) -> Int8s:
    """Mutate each gene, with probability ``rate``, to a randomly drawn stage (Algorithm 1).

    The stage is drawn from BB(min(|Q|, k - 1), 1, beta). A feature that is alone in its stage is not mutated, so no
    stage becomes empty. A gene that is set to |Q| opens a new stage for later genes. Genes are processed in order. The
    t-th mutations of all chromosomes are made together, in about n · rate rounds of O(c k).
    """
    genes = chromosomes.copy()
    c, n = genes.shape
    cumulative = _cumulative(stages, beta)
    chosen = rng.random((c, n)) < rate
    order, counts = np.argsort(~chosen, axis=1, kind="stable"), chosen.sum(axis=1)
    sizes, used = count_stage_features(genes, stages), count_stages(genes)
    for t in range(int(counts.max(initial=0))):
        rows = np.flatnonzero(counts > t)
        indices = order[rows, t]
        old = genes[rows, indices].astype(np.intp)
        movable = (old == REMOVED) | (sizes[rows, old] > 1)
        rows, indices, old = rows[movable], indices[movable], old[movable]
        limits = np.minimum(used[rows], stages - 1)
        new = (rng.random(len(rows))[:, None] >= cumulative[limits]).sum(axis=1)
        genes[rows, indices] = new
        np.subtract.at(sizes, (rows[old >= 0], old[old >= 0]), 1)
        np.add.at(sizes, (rows[new >= 0], new[new >= 0]), 1)
        used[rows] = np.maximum(used[rows], new + 1)
    return genes


def _cumulative(stages: int, beta: float) -> Floats:
    """Return the cumulative distribution of drawn stages, by highest stage: (stages, stages)."""
    table = np.ones((stages, stages))
    for last in range(1, stages):
        table[last, :last] = np.cumsum(beta_binomial(last, beta))[:last]
    return table
