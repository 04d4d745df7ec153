"""The look-up: which candidate for this size and budget, by two binary searches or by a look at all of them.

At a breakpoint, where curves meet, all candidates are looked at. Elsewhere too rounding can have put two curves in the
wrong order. Costs on the skyline rise, so an answer can only be wrong if the next cost is above the budget by no more
than rounding; then, and only then, all candidates are looked at. No answer ever costs more than the budget.
"""

from bisect import bisect_right
from dataclasses import dataclass
from math import inf, prod
from typing import Any

import numpy as np

from models.arrays import Floats, Int64s
from models.index import sizes_of
from solvers.index.costs import evaluate
from solvers.index.crossings import Index
from solvers.index.skyline import skyline

Choice = tuple[int, float, int]
"""A candidate's place, its cost, and its place on the skyline."""

AT = 1e-12
"""At sizes closer than this share to a breakpoint, all candidates are looked at: curves meet there."""
NEAR = 1e-9
"""Costs that exceed the budget by less than this share are computed again for all candidates."""


@dataclass(frozen=True, slots=True, eq=False)
class LookUp:
    """The candidates' cost curves (c, t) over the terms powers (t, k), by preference; accuracies (R, c) in each region
    of sizes, and the extents where regions begin, edges (R - 1,); the index.

    _polynomials: for each its curve with the highest power first, as Horner's rule wants it. _hot:
    what ``find`` needs, in one tuple: where the closeness of each breakpoint begins and ends, in turn; the index's
    offsets and members; the curves; whether they are quadratic.
    """

    curves: Floats
    powers: Int64s
    accuracies: Floats
    edges: list[float]
    _polynomials: list[tuple[float, ...]]
    _hot: tuple[Any, ...]

    @classmethod
    def of(cls, curves: Floats, powers: Int64s, accuracies: Floats, index: Index, edges: Floats) -> "LookUp":
        """Prepare the searches."""
        padding = (0.0,) * (3 - len(powers))  # quadratics have three coefficients, also those that are lines
        polynomials = [(*padding, *curve[::-1]) for curve in curves.tolist()]
        close = np.stack((index.sizes * (1 - AT), index.sizes * (1 + AT)), axis=1)
        close[:1] = 0.0  # at the first, where sizes begin, no curves need to meet
        rising = np.maximum.accumulate(close.ravel())
        hot = (rising.data, index.offsets.data, index.members.data, polynomials, len(powers) <= 3)
        return cls(curves, powers, accuracies, edges.tolist(), polynomials, hot)

    def region(self, size: float | tuple[float, ...] | None) -> int:
        """Find the region of a size: 0 where accuracies do not depend on it."""
        return bisect_right(self.edges, prod(sizes_of(size))) if self.edges else 0

    def undominated(self, costs: Floats, region: int) -> Int64s:
        """List the skyline among the candidates by their costs, (c,), in a region: by falling cost and accuracy."""
        levels = self.accuracies[region]
        order = np.argsort(-levels, kind="stable")
        return np.asarray(order[skyline(costs[order], levels[order])])

    def find(self, size: float, budget: float) -> Choice:
        """Search twice (Theorem 3.13's index): O(log b + log c) for b breakpoints and skylines of c candidates."""
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
        if above <= budget + budget * NEAR or low < start:
            return self.scan(size, budget)
        return members[low], cost, low - start

    def scan(self, size: float | tuple[float, ...] | None, budget: float) -> Choice:
        """Look at all candidates: the most accurate that fits, and its place on the skyline at this very size."""
        costs = evaluate(self.curves, self.powers, sizes_of(size))
        undominated = self.undominated(costs, self.region(size))
        place = int(np.argmax(costs[undominated] <= budget))
        choice = int(undominated[place])
        return choice, float(costs[choice]), len(undominated) - 1 - place

    def naive(self, size: float, budget: float) -> tuple[int, float]:
        """Go through all candidates one by one (Naive-Lookup): a place and its cost."""
        best, least, level = 0, inf, -inf
        quadratic = self._hot[-1]
        levels = self.accuracies[self.region(size)].tolist()
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
