"""Greedy sequences at look-up: where to start, and how far the budget goes (Section "Greedy", Retrieval)."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from solvers.index.costs import Costs
from solvers.index.skyline import skyline

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Sequences:
    """Sequences of l features, one for each λ, each prefix a feature set.

    lambdas: q, 0 first and inf last. masks: for each sequence its l + 1 prefixes, accuracies the same. curves: their
    cost polynomials, highest power first (with several dimensions: by terms). skyline_costs, skyline_sequences: the
    prefixes that are undominated at the median size, by rising cost, and the sequence that each is from.
    """

    lambdas: list[float]
    masks: list[list[int]]
    accuracies: list[list[float]]
    curves: list[list[tuple[float, ...]]]
    skyline_costs: list[float]
    skyline_sequences: list[int]

    @classmethod
    def of(cls, costs: Costs, lambdas: Floats, orders: Ints, accuracies: Floats, size: Sequence[float]) -> "Sequences":
        """Make the index of sequences. orders: (q, l) features in order; accuracies: (q, l + 1) of the prefixes."""
        bits = np.concatenate((np.zeros((len(orders), 1), dtype=np.int64), np.left_shift(1, orders)), axis=1)
        masks = np.cumsum(bits, axis=1)
        curves = costs.of_sets(masks.ravel())
        at_median = costs.at(curves, size)
        flat = accuracies.ravel()
        rank = np.lexsort((np.arange(len(flat)), -flat))
        found = rank[skyline(at_median[rank], flat[rank])][::-1]
        width = masks.shape[1]
        return cls(
            lambdas.tolist(),
            masks.tolist(),
            accuracies.tolist(),
            [[tuple(curve[::-1]) for curve in rows] for rows in curves.reshape(*masks.shape, -1).tolist()],
            at_median[found].tolist(),
            (found // width).tolist(),
        )

    def pick(self, method: str, budget: float) -> int:
        """Choose the sequence: the method's own, or the one of the best set within the budget at the median size."""
        if method == "greedy-acc":
            return self.lambdas.index(0.0)
        if method == "greedy-cost":
            return self.lambdas.index(inf)
        place = bisect_right(self.skyline_costs, budget) - 1
        return self.skyline_sequences[max(place, 0)]

    def reach(self, sequence: int, size: float, budget: float) -> tuple[int, float]:
        """Add features in order while they fit an item of one size: the number of features, and their cost.

        Costs never fall along a sequence, so the last prefix that fits is found by bisection.
        """
        curves = self.curves[sequence]
        low, high, cost = 0, len(curves), 0.0
        while high - low > 1:
            middle = (low + high) // 2
            value = 0.0
            for coefficient in curves[middle]:
                value = value * size + coefficient
            if value <= budget:
                low, cost = middle, value
            else:
                high = middle
        return low, cost


def walk(orders: Sequence[int], mask: int, costs: Sequence[float], budget: float) -> tuple[int, float]:
    """Go on along a sequence when some features are computed already: the set reached, and what is still to pay.

    orders: the features in order; mask: those computed, which cost nothing more; costs: (F,) of each feature. Stops at
    the first feature that does not fit.

    >>> walk([2, 0, 1], 0b001, [5.0, 9.0, 1.0], 2.0)
    (5, 1.0)
    """
    reached, paid = 0, 0.0
    for f in orders:
        price = 0.0 if mask >> f & 1 else costs[f]
        if paid + price > budget and price > 0:
            break
        reached, paid = reached | 1 << f, paid + price
    return reached, paid
