"""Choice of the feature sets to keep, the candidates (Algorithm 1, Definition 3.1).

A is the accuracy of a set. The demand D of a set is the largest accuracy of the sets that it replaces (``lattice``). A
candidate t may replace a set s if t costs no more at any size and (1 + alpha) · A(t) ≥ D(s). Then D(t) becomes at least
D(s).

So for every feature set, trained or not, a candidate exists that costs no more and is as accurate within a single
factor 1 + alpha, even after a chain of replacements. Properties 3.6 and 3.7 could also be read with A(s) in place of
D(s). Then each replacement of a chain would add a factor.
"""

from collections.abc import Sequence
from math import inf

import numpy as np

from models.arrays import Floats, Int64s
from solvers.index.costs import list_members
from solvers.index.dominance import is_at_most_everywhere, is_at_most_termwise
from solvers.index.lattice import ExpandedSets


def choose_candidates(
    expanded: ExpandedSets,
    curves: Floats,
    powers: Int64s,
    names: Sequence[str],
    *,
    alpha: float = 0.0,
    requested_alpha: float = inf,
    largest: float = inf,
) -> Int64s:
    """Return the indices in ``expanded`` of the sets to keep, by preference.

    Sets are visited by rising cost, so that a kept set is never replaced itself. Sizes of several dimensions are
    compared by terms (``dominance``).

    Args:
        curves: (m, t), cost coefficients of the sets over the terms ``powers``, (t, k).
        requested_alpha: the alpha of the request, which ``alpha`` may exceed; a replaced set is more accurate than its
            replacement by at most the factor 1 + requested_alpha.
    Complexity: O(m · c · t) for m expanded sets and c candidates.

    >>> expanded = ExpandedSets(1, np.array([0, 1]), np.array([0.7, 0.7]), np.array([0.7, 0.7]))
    >>> choose_candidates(expanded, np.array([[0.0], [2.0]]), np.zeros((1, 0), dtype=np.int64), ["f"]).tolist()
    [0]
    """
    rank = rank_by_preference(expanded.masks, expanded.accuracies, names)
    kept: list[int] = []
    demands = expanded.demands.copy()
    reaches, own = (1 + alpha) * expanded.accuracies, (1 + requested_alpha) * expanded.accuracies
    for s in _cheapest_first(curves, powers, rank).tolist():
        places = np.array(kept, dtype=np.int64)
        able = places[(reaches[places] >= demands[s]) & (own[places] >= expanded.accuracies[s])]
        if powers.shape[1] > 1:
            cheaper = able[is_at_most_termwise(curves[able], curves[s], powers)]
        else:
            cheaper = able[is_at_most_everywhere(curves[able], curves[s], largest)]
        if len(cheaper):
            best = int(cheaper[np.argmin(rank[cheaper])])
            demands[best] = max(demands[best], demands[s])
        else:
            kept.append(s)
    return np.array(sorted(kept, key=lambda place: int(rank[place])), dtype=np.int64)


def choose_any_time_sets(expanded: ExpandedSets, *, alpha: float = 0.0, requested_alpha: float = inf) -> Int64s:
    """Return the indices in ``expanded`` of sets that can be the best once some features are computed.

    Computed features have no further cost. So only subsets of a set are certain to cost no more, whichever features are
    computed. A set is dropped if a kept subset reaches the set's demand within alpha, and the set's accuracy within
    ``requested_alpha``. Sets are visited layer by layer from the empty set, so that a kept set is never replaced
    itself.

    Complexity: O(F² · 2^F) time, O(2^F) memory.

    >>> levels = np.array([0.5, 0.7, 0.7, 0.7])
    >>> choose_any_time_sets(ExpandedSets(2, np.arange(4), levels, levels)).tolist()
    [0, 1, 2]
    """
    sizes = np.bitwise_count(expanded.masks)
    wanted = np.maximum(expanded.demands / (1 + alpha), expanded.accuracies / (1 + requested_alpha))
    stays: list[Int64s] = []
    best = np.full(1 << expanded.features, -inf)  # of all subsets that stay, by mask
    for size in range(expanded.features + 1):
        layer = np.flatnonzero(sizes == size)
        below = best.copy()
        for bit in range(expanded.features):
            halves = below.reshape(-1, 2, 1 << bit)
            np.maximum(halves[:, 1], halves[:, 0], out=halves[:, 1])
        fresh = layer[below[expanded.masks[layer]] < wanted[layer]]
        best[expanded.masks[fresh]] = expanded.accuracies[fresh]
        stays.append(fresh)
    return np.sort(np.concatenate(stays))


def rank_by_preference(masks: Int64s, accuracies: Floats, names: Sequence[str]) -> Int64s:
    """Return the rank, (m,), of each set: by accuracy, then fewer features, then names."""
    keys = [
        (-accuracy, mask.bit_count(), tuple(sorted(names[f] for f in list_members(mask))))
        for mask, accuracy in zip(masks.tolist(), accuracies.tolist(), strict=True)
    ]
    rank = np.empty(len(keys), dtype=np.int64)
    rank[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return rank


def _cheapest_first(curves: Floats, powers: Int64s, rank: Int64s) -> Int64s:
    """Order sets so that one that costs no more at any size comes first: by cost at a few sizes, ties by rank."""
    sizes = [1.0, 2.0, 8.0, 64.0, 1e6]
    values = curves @ np.array([[size ** float(p) for size in sizes] for p in powers.sum(axis=1)])
    return np.lexsort((rank, *values.T[::-1]))
