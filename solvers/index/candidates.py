"""Which expanded sets stay: the candidates, of which every other set is alpha-dominated (Algorithm 1, Definition 3.1).

A kept set t may replace s if it costs no more at any size and (1 + alpha) · A(t) ≥ D(s), the demand of s: the largest
accuracy that s stands in for (``lattice``). Then t takes D(s) over. So every feature set, trained or not, has a
candidate that costs no more and is as accurate within one factor 1 + alpha, however long the chain of replacements. A
reading of Properties 3.6 and 3.7 that compares with A(s) loses a factor at every step of a chain of near-ties.
"""

from collections.abc import Sequence
from math import inf

import numpy as np

from models.arrays import Floats, Int64s
from solvers.index.costs import members_of
from solvers.index.dominance import never_above, never_above_by_terms
from solvers.index.lattice import Expanded


def choose_candidates(
    expanded: Expanded,
    curves: Floats,
    powers: Int64s,
    names: Sequence[str],
    *,
    alpha: float = 0.0,
    own_alpha: float = inf,
    largest: float = inf,
) -> Int64s:
    """Choose which expanded sets to keep: their places in ``expanded``, in order of preference.

    curves: (m, t) the sets' cost coefficients over the terms ``powers`` (t, k). own_alpha: the factor, less 1, by which
    a set may besides be more accurate than one that replaces it, where ``alpha`` is larger than was asked for. Sets are
    taken from the cheapest on, so that a kept set is never replaced itself. Sizes of several dimensions are compared by
    terms (``dominance``).

    O(m · c · t) time for m expanded sets and c candidates.

    >>> expanded = Expanded(1, np.array([0, 1]), np.array([0.7, 0.7]), np.array([0.7, 0.7]))
    >>> choose_candidates(expanded, np.array([[0.0], [2.0]]), np.zeros((1, 0), dtype=np.int64), ["f"]).tolist()
    [0]
    """
    rank = preference(expanded.masks, expanded.accuracies, names)
    kept: list[int] = []
    demands = expanded.demands.copy()
    reaches, own = (1 + alpha) * expanded.accuracies, (1 + own_alpha) * expanded.accuracies
    for s in _cheapest_first(curves, powers, rank).tolist():
        places = np.array(kept, dtype=np.int64)
        able = places[(reaches[places] >= demands[s]) & (own[places] >= expanded.accuracies[s])]
        if powers.shape[1] > 1:
            cheaper = able[never_above_by_terms(curves[able], curves[s], powers)]
        else:
            cheaper = able[never_above(curves[able], curves[s], largest)]
        if len(cheaper):
            best = int(cheaper[np.argmin(rank[cheaper])])
            demands[best] = max(demands[best], demands[s])
        else:
            kept.append(s)
    return np.array(sorted(kept, key=lambda place: int(rank[place])), dtype=np.int64)


def never_replaced(expanded: Expanded, *, alpha: float = 0.0, own_alpha: float = inf) -> Int64s:
    """Choose the sets that can be the best one once some features are computed: places in ``expanded``, rising.

    What is computed costs nothing more, so only a subset surely costs no more than a set, whatever is computed: a set
    goes if a subset of it stays that meets its demand within alpha, and its accuracy within ``own_alpha``. Sets are
    taken layer by layer from the empty one, so that a set that stays is never replaced itself.

    O(F² · 2^F) time, O(2^F) memory.

    >>> levels = np.array([0.5, 0.7, 0.7, 0.7])
    >>> never_replaced(Expanded(2, np.arange(4), levels, levels)).tolist()
    [0, 1, 2]
    """
    sizes = np.bitwise_count(expanded.masks)
    wanted = np.maximum(expanded.demands / (1 + alpha), expanded.accuracies / (1 + own_alpha))
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


def preference(masks: Int64s, accuracies: Floats, names: Sequence[str]) -> Int64s:
    """Rank sets that cost the same: the most accurate first, then fewer features, then by their names. (m,)"""
    keys = [
        (-accuracy, mask.bit_count(), tuple(sorted(names[f] for f in members_of(mask))))
        for mask, accuracy in zip(masks.tolist(), accuracies.tolist(), strict=True)
    ]
    rank = np.empty(len(keys), dtype=np.int64)
    rank[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return rank


def _cheapest_first(curves: Floats, powers: Int64s, rank: Int64s) -> Int64s:
    """Order sets so that what costs no more at any size comes first: by cost at a few sizes, among equals by rank."""
    sizes = [1.0, 2.0, 8.0, 64.0, 1e6]
    values = curves @ np.array([[size ** float(p) for size in sizes] for p in powers.sum(axis=1)])
    return np.lexsort((rank, *values.T[::-1]))
