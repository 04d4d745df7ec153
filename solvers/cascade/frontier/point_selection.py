"""Selection of operating points of the frontier within a deadline, a budget, and an accuracy."""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from models import InvalidRequest
from models.arrays import Bools, Floats, Int64s
from models.cascade import CascadeQuery
from models.errors import Infeasible
from solvers.base import format_number
from solvers.budget_mixture import Mixture, lower_hull, tie_break_from_id
from solvers.cascade.frontier.contents import FrontierContents

RELATIVE_TOLERANCE = 1e-12
"""A budget covers a cost that exceeds it only by rounding: means of equal prices are not exact."""


@dataclass(frozen=True, slots=True)
class PointMixture:
    """Two operating points, and the share of items that use the second, more expensive one.

    The share is 0 if all items use the first point.
    """

    first: int
    second: int
    share: float

    def choose_for_item(self, item: str | None) -> int:
        """Return the index of the point for an item; deterministic in the item's id."""
        return self.second if self.share and item is not None and tie_break_from_id(item) < self.share else self.first

    def mix(self, values: Floats) -> float:
        """Return the weighted mean of a quantity over both points.

        For standard errors, the result is an upper bound.
        """
        return float((1 - self.share) * values[self.first] + self.share * values[self.second])


class PointSelector:
    """Selects operating points of a plan among those on the hull within a deadline."""

    def __init__(self, contents: FrontierContents, among: Bools | None = None) -> None:
        self._points = contents
        self._among = np.ones(len(contents.point_maxima), dtype=bool) if among is None else among
        self._maxima: list[float] = np.unique(contents.point_maxima[self._among]).tolist()
        self._hulls: list[Int64s | None] = [None] * len(self._maxima)
        self._safe_costs = contents.point_costs + contents.point_cost_errors
        self._safe_accuracies = contents.point_accuracies - contents.point_accuracy_errors

    def find_hull(self, deadline: float | None) -> Int64s:
        """Return the points on the hull of cost and accuracy within a deadline, by rising cost.

        Cost and accuracy are those of the build half. Holdout rows do not select points, so holdout results are
        unbiased. Hulls are cached.

        Raises:
            Infeasible: no point is within the deadline.
        """
        if not self._maxima:
            raise InvalidRequest("the artifact has no frontier, because an older version built it; build it again")
        place = len(self._maxima) if deadline is None else bisect_right(self._maxima, deadline)
        if not place:
            fastest = f"the fastest cascade takes at most {format_number(self._maxima[0])}"
            raise Infeasible(f"{fastest}, the deadline is {format_number(deadline or 0.0)}")
        hull = self._hulls[place - 1]
        if hull is None:
            within = np.flatnonzero(self._among & (self._points.point_maxima <= self._maxima[place - 1]))
            learned = self._points.point_expected[within], 1 - self._points.point_learned_accuracies[within]
            hull = within[lower_hull(*learned)]
            self._hulls[place - 1] = hull
        return hull

    def list_min_budgets(self, deadline: float | None) -> list[tuple[float, int]]:
        """Return the points that a budget can select within a deadline.

        Each entry is (least budget that selects the point, index of the point).
        """
        hull = self.find_hull(deadline)
        costs = np.maximum.accumulate(self._safe_costs[hull])
        last = np.append(costs[1:] > costs[:-1], True)
        return list(zip(costs[last].tolist(), hull[last].tolist(), strict=True))

    def choose(self, query: CascadeQuery) -> PointMixture:
        """Choose the most accurate point within ``budget``, or the cheapest that reaches ``min_accuracy``.

        Limits hold on holdout rows with a margin of one standard error. With an item id in the query, two neighboring
        points are mixed. Without one, the single point within the limits is used.

        Raises:
            Infeasible: no point is within the limits.
        Complexity: O(log p), or O(p) with an accuracy.
        """
        hull = self.find_hull(query.deadline)
        if query.min_accuracy is None:
            chosen = self._choose_within(hull, np.inf if query.mean_budget is None else query.mean_budget)
            return chosen if query.item is not None else PointMixture(chosen.first, chosen.first, 0.0)
        chosen = self._choose_accurate(hull, query.min_accuracy)
        if query.item is None and chosen.share:
            chosen = PointMixture(chosen.second, chosen.second, 0.0)
        needed = chosen.mix(self._safe_costs)
        if query.mean_budget is not None and needed > query.mean_budget:
            wanted = f"an accuracy of {query.min_accuracy:g} needs {needed:.6g} per item"
            raise Infeasible(
                f"{wanted}, the budget is {format_number(query.mean_budget)}; both include one standard error"
            )
        return chosen

    def _choose_within(self, hull: Int64s, most: float) -> PointMixture:
        costs, most = np.maximum.accumulate(self._safe_costs[hull]), most * (1 + RELATIVE_TOLERANCE)
        if most < costs[0]:
            least = f"the cheapest cascade costs {costs[0]:.6g} per item, including one standard error"
            raise Infeasible(f"{least}; the budget is {format_number(most)}")
        mixture = Mixture.from_budget(costs, most)
        return PointMixture(int(hull[mixture.first]), int(hull[mixture.second]), mixture.share)

    def _choose_accurate(self, hull: Int64s, wanted: float) -> PointMixture:
        accuracies = self._safe_accuracies[hull]
        able = np.flatnonzero(accuracies >= wanted)
        if not len(able):
            best = f"the accuracy is at most {accuracies.max():.4g}, minus one standard error"
            raise Infeasible(f"{best}; requested: {wanted:g}")
        j = int(able[0])
        if not j:
            return PointMixture(int(hull[0]), int(hull[0]), 0.0)
        share = (wanted - accuracies[j - 1]) / (accuracies[j] - accuracies[j - 1])
        return PointMixture(int(hull[j - 1]), int(hull[j]), float(share))
