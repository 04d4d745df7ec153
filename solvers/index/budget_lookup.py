"""Look-up of the candidate for a size and budget: two binary searches, or a linear scan.

At a breakpoint, where curves meet, all candidates are scanned. Elsewhere, rounding can put two curves in the wrong
order. This matters only if the next cost on the skyline exceeds the budget by at most a rounding error. In this case,
all candidates are scanned, too. The result never costs more than the budget.
"""

from bisect import bisect_right
from dataclasses import dataclass
from math import inf, prod
from typing import Any

import numpy as np

from models.arrays import Floats, Int64s
from models.index import size_to_tuple
from solvers.index.costs import evaluate_curves
from solvers.index.crossings import SkylineIndex
from solvers.index.skyline import find_skyline

Choice = tuple[int, float, int]
"""A candidate's place, its cost, and its place on the skyline."""

BREAKPOINT_SHARE = 1e-12
"""Sizes within this share of a breakpoint are scanned, because curves meet there."""
ROUNDING_SHARE = 1e-9
"""Costs that exceed the budget by less than this share cause a scan."""


@dataclass(frozen=True, slots=True, eq=False)
class BudgetLookup:
    """Cost curves and accuracies of the candidates, with the index over them.

    Attributes:
        curves: (c, t), cost curves over the terms, by preference.
        powers: (t, k), powers of the terms.
        accuracies: (R, c), accuracies in each region of sizes.
        edges: R - 1 extents where regions begin; an extent is the product of a size's numbers.
        _polynomials: the curves with the highest power first, for Horner's rule.
        _hot: inputs of ``find_choice``: start and end of the scanned range at each breakpoint, alternately; the index's
            offsets and members; the curves; whether they are at most quadratic.
    """

    curves: Floats
    powers: Int64s
    accuracies: Floats
    edges: list[float]
    _polynomials: list[tuple[float, ...]]
    _hot: tuple[Any, ...]

    @classmethod
    def from_curves(
        cls, curves: Floats, powers: Int64s, accuracies: Floats, index: SkylineIndex, edges: Floats
    ) -> "BudgetLookup":
        """Prepare the searches."""
        padding = (0.0,) * (3 - len(powers))  # quadratics have three coefficients, also those that are lines
        polynomials = [(*padding, *curve[::-1]) for curve in curves.tolist()]
        close = np.stack((index.sizes * (1 - BREAKPOINT_SHARE), index.sizes * (1 + BREAKPOINT_SHARE)), axis=1)
        close[:1] = 0.0  # at the first breakpoint, curves need not meet
        rising = np.maximum.accumulate(close.ravel())
        hot = (rising.data, index.offsets.data, index.members.data, polynomials, len(powers) <= 3)
        return cls(curves, powers, accuracies, edges.tolist(), polynomials, hot)

    def find_region(self, size: float | tuple[float, ...] | None) -> int:
        """Return the index of a size's region; 0 if accuracies do not depend on size."""
        return bisect_right(self.edges, prod(size_to_tuple(size))) if self.edges else 0

    def find_skyline(self, costs: Floats, region: int) -> Int64s:
        """Return the candidates on the skyline of a region, by falling cost and accuracy.

        costs: (c,), at one size.
        """
        levels = self.accuracies[region]
        order = np.argsort(-levels, kind="stable")
        return np.asarray(order[find_skyline(costs[order], levels[order])])

    def find_choice(self, size: float, budget: float) -> Choice:
        """Return the choice by two binary searches (Theorem 3.13).

        Complexity: O(log b + log c) for b breakpoints and skylines of c candidates.
        """
        edges, offsets, members, polynomials, quadratic = self._hot
        place = bisect_right(edges, size)
        if place & 1:
            return self.scan(size, budget)
        segment = place >> 1
        start = offsets[segment - 1]
        high = offsets[segment]
        low = start - 1
        cost, above = 0.0, inf  # of the last member that fits, and the first that does not
        while quadratic and high - low > 1:  # Horner's rule, as below, written out: half the time
            middle = (low + high) >> 1
            two, one, none = polynomials[members[middle]]
            value = (two * size + one) * size + none
            if value <= budget:
                low, cost = middle, value
            else:
                high, above = middle, value
        while high - low > 1:
            middle = (low + high) >> 1
            value = 0.0
            for coefficient in polynomials[members[middle]]:
                value = value * size + coefficient
            if value <= budget:
                low, cost = middle, value
            else:
                high, above = middle, value
        if above <= budget + budget * ROUNDING_SHARE or low < start:
            return self.scan(size, budget)
        return members[low], cost, low - start

    def scan(self, size: float | tuple[float, ...] | None, budget: float) -> Choice:
        """Return the most accurate candidate that fits, by a scan of the skyline at this size."""
        costs = evaluate_curves(self.curves, self.powers, size_to_tuple(size))
        undominated = self.find_skyline(costs, self.find_region(size))
        place = int(np.argmax(costs[undominated] <= budget))
        choice = int(undominated[place])
        return choice, float(costs[choice]), len(undominated) - 1 - place

    def scan_naively(self, size: float, budget: float) -> tuple[int, float]:
        """Return index and cost of the candidate by Naive-Lookup.

        Naive-Lookup visits all candidates one by one.
        """
        best, least, level = 0, inf, -inf
        quadratic = self._hot[-1]
        levels = self.accuracies[self.find_region(size)].tolist()
        for choice, (curve, accuracy) in enumerate(zip(self._polynomials, levels, strict=True)):
            if quadratic:  # as in ``find``
                two, one, none = curve
                value = (two * size + one) * size + none
            else:
                value = 0.0
                for coefficient in curve:
                    value = value * size + coefficient
            if value <= budget and (accuracy > level or (accuracy == level and value < least)):
                best, least, level = choice, value, accuracy
        return best, least
