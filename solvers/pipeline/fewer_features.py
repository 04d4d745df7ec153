"""Feature selection for ``search: auto``: configurations that never acquire some features.

Ordered partitions acquire all features, but a feature may not be useful enough for its cost. Forward selection orders
the features, once by gain per cost and once by gain. For each number k, the first k features of an order form
candidates. If the search of all features was exact, these are all configurations of the k features; otherwise they are
chains. Further candidates are chains of the cheapest features, single features, pairs if there are few features, and
configurations of the front without their last stages.

If every item is answered, non-dominated candidates join the front. If items may be rejected, candidates with few
features have low coverage and are often non-dominated only because they are cheap. Then a candidate joins the front
only if it dominates a configuration of the front.
"""

from collections.abc import Callable
from functools import partial
from itertools import permutations

import numpy as np

from models.arrays import Bools, Floats, Int8s, Int64s
from solvers.base import Progress, no_progress, scale_progress
from solvers.pipeline.configurations import REMOVED, make_single_stage
from solvers.pipeline.exact_front import find_packed_front
from solvers.pipeline.forward_selection import order_by_forward_selection, split_into_stages
from solvers.pipeline.objectives import ConfigurationScores, Evaluator

MAX_PAIRED = 32
"""Maximum number of features for evaluating all pairs."""

SubsetSearch = Callable[[Int64s], Int8s]
"""Returns configurations, (c, k), of some features, (k,), by increasing index."""


def make_exact_search(evaluator: Evaluator, max_stages: int) -> SubsetSearch:
    """Return a function that finds the exact front of some features."""
    prices, answers, n = evaluator.unit_costs, evaluator.answers, len(evaluator.unit_costs.by_feature)

    def find_subset_front(features: Int64s) -> Int8s:
        bits = answers.get_lattice(features, evaluator.threshold, always_answers=evaluator.always_answers)
        costs = np.concatenate((prices.extended_costs[features], prices.extended_costs[n:]))
        groups = prices.groups.select(features)
        return find_packed_front(*bits, answers.rows, costs, max_stages, groups=groups).chromosomes

    return find_subset_front


def make_chain_search(order: Int64s, max_stages: int) -> SubsetSearch:
    """Return a function that cuts given features into 1 to ``max_stages`` stages, in a given order of all, (n,)."""

    def list_subset_chains(features: Int64s) -> Int8s:
        ordered = np.searchsorted(features, order[np.isin(order, features)])
        return np.array(list(dict.fromkeys(map(tuple, split_into_stages(ordered, max_stages)))), dtype=np.int8)

    return list_subset_chains


def find_forward_orders(evaluator: Evaluator, progress: Progress = no_progress) -> tuple[Int64s, Int64s]:
    """Order features by forward selection: by gain per cost, and by gain; (n,) each."""
    prices, start = evaluator.unit_costs, evaluator.answers.quality_without_features
    halves = scale_progress(progress, 0, 50, 100), scale_progress(progress, 50, 100, 100)
    order = partial(order_by_forward_selection, evaluator, prices.extended_costs, groups=prices.groups, start=start)
    return order(halves[0]), order(halves[1], for_its_cost=False)


def search_first_features(orders: tuple[Int64s, ...], search: SubsetSearch, progress: Progress = no_progress) -> Int8s:
    """Return the configurations, (c, n), that ``search`` finds for the first features of each order.

    Each order, (n,), is cut after 1 to n - 1 features. Each subset is searched once.
    """
    n = len(orders[0])
    searched: set[bytes] = set()
    parts = [np.zeros((0, n), dtype=np.int8)]
    for length in range(1, n):
        progress(length, n, f"searching subsets of {length} features")
        for order in orders:
            features = np.sort(order[:length])
            if features.tobytes() not in searched:
                searched.add(features.tobytes())
                parts.append(_expand(search(features), features, n))
    return np.concatenate(parts)


def list_chains(evaluator: Evaluator, orders: tuple[Int64s, ...], max_stages: int) -> Int8s:
    """List chains, (c, n), of the first features of each order, for each number of features.

    The orders, (n,), are the given ones and the order by cost.
    """
    n = len(orders[0])
    along = [*orders, evaluator.unit_costs.groups.order_by_cost(evaluator.unit_costs.extended_costs)]
    first = [search_first_features((order,), make_chain_search(order, max_stages)) for order in along]
    return np.concatenate([*first, *(make_chain_search(order, max_stages)(np.arange(n)) for order in along)])


def list_singles_and_pairs(n: int, max_stages: int) -> Int8s:
    """List single features and, if there are few features, pairs of features.

    Each is acquired in one stage. Pairs are also acquired in two stages, if allowed.

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


def list_truncations(chromosomes: Int8s) -> Int8s:
    """List all truncations of configurations, (c, n), to fewer stages, at least one.

    >>> list_truncations(np.array([[0, 1, 2], [0, 0, 0]], dtype=np.int8)).tolist()
    [[0, -1, -1], [0, 1, -1]]
    """
    cut = [np.where(chromosomes <= last, chromosomes, REMOVED) for last in range(int(chromosomes.max()))]
    every = np.concatenate([chromosomes[:0], *cut])
    return np.unique(every[(every < 0).any(axis=1)], axis=0)


def merge_fronts(
    evaluator: Evaluator, front: Int8s, fewer: Int8s, *, only_where_they_dominate: bool
) -> tuple[Int8s, ConfigurationScores]:
    """Merge configurations, (c, n), into a front by non-dominance on the evaluator's rows.

    In ties, configurations of the front are kept.

    only_where_they_dominate: whether a merged configuration must dominate a configuration of the front.
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
    """Return which values, (v, o), are at least as large as any of the others, (w, o), in all objectives, (v,)."""
    reaching = np.zeros(len(values), dtype=bool)
    for other in others:
        reaching |= np.all(values >= other, axis=1)
    return reaching


def _expand(part: Int8s, features: Int64s, n: int) -> Int8s:
    """Expand configurations of some features to all n, with the others removed."""
    genes = np.full((len(part), n), REMOVED, dtype=np.int8)
    genes[:, features] = part
    return genes
