"""Configurations that leave features out, where ``auto`` was asked for.

A feature whose cost no answer repays is better never acquired, which no ordered partition of all features can say.
Looked at are those of the features that forward selection puts first, so many as there are, by gain for the cost and by
gain alone: every configuration where that was done for all features, else chains. Beside these there are chains of the
cheapest features, single features, pairs where there are few, and configurations of the front without their last
stages.

Where every item is answered, what is not dominated joins the front. Where items may be rejected, what acquires little
answers few, and is not dominated for its cost alone: only what dominates a configuration of the front joins it.
"""

from collections.abc import Callable
from itertools import permutations

import numpy as np

from models.arrays import Bools, Floats, Int8s, Int64s
from solvers.base import Progress, no_progress, part_of
from solvers.pipeline.chains import cut_into_stages, order_by_forward_selection
from solvers.pipeline.configurations import REMOVED, make_single_stage
from solvers.pipeline.exact_front import find_packed_front
from solvers.pipeline.objectives import Evaluator, Scores

MAX_PAIRED = 32
"""Features up to which all pairs of them are looked at."""

SubsetSearch = Callable[[Int64s], Int8s]
"""Gives configurations, (c, k), of some features, (k,), rising."""


def make_exact_search(evaluator: Evaluator, max_stages: int) -> SubsetSearch:
    """Give the exact front of some features."""
    costs, answers = _costs(evaluator), evaluator.answers

    def of(features: Int64s) -> Int8s:
        bits = answers.get_lattice(features, evaluator.threshold, answers_at_the_end=evaluator.answers_at_the_end)
        return find_packed_front(*bits, answers.rows, costs[features], max_stages).chromosomes

    return of


def make_chain_search(order: Int64s, max_stages: int) -> SubsetSearch:
    """Give chains of some features in their order among all, (n,)."""

    def of(features: Int64s) -> Int8s:
        ordered = np.searchsorted(features, order[np.isin(order, features)])
        return np.array(list(dict.fromkeys(map(tuple, cut_into_stages(ordered, max_stages)))), dtype=np.int8)

    return of


def find_forward_orders(evaluator: Evaluator, progress: Progress = no_progress) -> tuple[Int64s, Int64s]:
    """Put features in order by forward selection, (n,): by gain for the cost, and by gain."""
    costs, halves = _costs(evaluator), (part_of(progress, 0, 50, 100), part_of(progress, 50, 100, 100))
    by_cost = order_by_forward_selection(evaluator, costs, halves[0])
    return by_cost, order_by_forward_selection(evaluator, costs, halves[1], for_its_cost=False)


def search_first_features(orders: tuple[Int64s, ...], of: SubsetSearch, progress: Progress = no_progress) -> Int8s:
    """List configurations, (c, n), of each number of first features of orders, (n,), but all of them; of features that
    several orders begin with once.

    progress: told each number of features, may raise to cancel.
    """
    n = len(orders[0])
    looked_at: set[bytes] = set()
    parts = [np.zeros((0, n), dtype=np.int8)]
    for length in range(1, n):
        progress(length, n, f"leaving out all but {length} features")
        for order in orders:
            features = np.sort(order[:length])
            if features.tobytes() not in looked_at:
                looked_at.add(features.tobytes())
                parts.append(_among_all(of(features), features, n))
    return np.concatenate(parts)


def list_chains(evaluator: Evaluator, orders: tuple[Int64s, ...], max_stages: int) -> Int8s:
    """List chains, (c, n), of each number of first features of orders, (n,), and of the cheapest features; all
    features in these orders, too."""
    n = len(orders[0])
    along = [*orders, np.argsort(_costs(evaluator), kind="stable")]
    first = [search_first_features((order,), make_chain_search(order, max_stages)) for order in along]
    return np.concatenate([*first, *(make_chain_search(order, max_stages)(np.arange(n)) for order in along)])


def list_singles_and_pairs(n: int, max_stages: int) -> Int8s:
    """List each of n features alone, and of few features each pair: at once, and, if two stages are allowed, one after
    the other.

    >>> list_singles_and_pairs(2, 2).tolist()
    [[0, -1], [-1, 0], [0, 0], [0, 1], [1, 0]]
    """
    rows = [make_single_stage([feature], n) for feature in range(n)]
    for first, second in permutations(range(n if n <= MAX_PAIRED else 0), 2):
        both = make_single_stage([first, second], n)
        rows += [both] if first < second else []
        if max_stages > 1:
            both = both.copy()
            both[second] = 1
            rows.append(both)
    return np.array(rows, dtype=np.int8)


def drop_last_stages(chromosomes: Int8s) -> Int8s:
    """List configurations, (c, n), without their last stages: all numbers of stages but none.

    >>> drop_last_stages(np.array([[0, 1, 2], [0, 0, 0]], dtype=np.int8)).tolist()
    [[0, -1, -1], [0, 1, -1]]
    """
    cut = [np.where(chromosomes <= last, chromosomes, REMOVED) for last in range(int(chromosomes.max()))]
    every = np.concatenate([chromosomes[:0], *cut])
    return np.unique(every[(every < 0).any(axis=1)], axis=0)


def join_fronts(
    evaluator: Evaluator, front: Int8s, fewer: Int8s, *, only_where_they_dominate: bool
) -> tuple[Int8s, Scores]:
    """Join configurations to those found, (c, n): what of both no other dominates, on the evaluator's rows, and its
    scores. Of equal objectives those found stay.

    only_where_they_dominate: whether what leaves features out must dominate one that was found.
    """
    import moocore

    every = np.concatenate((front, fewer))
    scores = evaluator(every)
    values = scores.stack_objectives()
    best = moocore.is_nondominated(values, maximise=True, keep_weakly=False)
    if only_where_they_dominate:
        beaten = values[: len(front)][~best[: len(front)]]
        best[len(front) :] &= _reach_any(values[len(front) :], beaten) | (fewer >= 0).all(axis=1)
    kept = np.flatnonzero(best)
    return every[kept], scores.take(kept)


def _reach_any(values: Floats, others: Floats) -> Bools:
    """Tell which values, (v, o), are at least those of any other, (w, o), in everything: (v,)."""
    reaching = np.zeros(len(values), dtype=bool)
    for other in others:
        reaching |= np.all(values >= other, axis=1)
    return reaching


def _among_all(part: Int8s, features: Int64s, n: int) -> Int8s:
    """Write configurations of some features as of all n, the others removed."""
    genes = np.full((len(part), n), REMOVED, dtype=np.int8)
    genes[:, features] = part
    return genes


def _costs(evaluator: Evaluator) -> Floats:
    return np.asarray(evaluator.unit_costs.by_feature / evaluator.unit_costs.units)
