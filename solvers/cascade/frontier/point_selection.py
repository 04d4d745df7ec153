"""Picking from the frontier: the cascade, or the two that share items, that keep a deadline, a cost and an accuracy."""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from models import InvalidRequest
from models.arrays import Bools, Floats, Int64s
from models.cascade import CascadeQuery
from models.errors import Infeasible
from solvers.base import number
from solvers.budget_mixture import Mixture, lot_of, lower_hull
from solvers.cascade.frontier.contents import FrontierContents


@dataclass(frozen=True, slots=True)
class PointMixture:
    """Two points, and the share of all items that the second, dearer one is for: 0 where one serves all."""

    first: int
    second: int
    share: float

    def choose_for_item(self, item: str | None) -> int:
        """Say which of the two an item gets, always the same one."""
        return self.second if self.share and item is not None and lot_of(item) < self.share else self.first

    def mix(self, values: Floats) -> float:
        """Mix what is known of the two; of standard errors this is a bound, for the two err together."""
        return float((1 - self.share) * values[self.first] + self.share * values[self.second])


class PointSelector:
    """The points of a plan, or some among them, (p,), and their hulls under the deadlines that were asked for."""

    def __init__(self, contents: FrontierContents, among: Bools | None = None) -> None:
        self._points = contents
        self._among = np.ones(len(contents.point_maxima), dtype=bool) if among is None else among
        self._maxima: list[float] = np.unique(contents.point_maxima[self._among]).tolist()
        self._hulls: list[Int64s | None] = [None] * len(self._maxima)
        self._safe_costs = contents.point_costs + contents.point_cost_errors
        self._safe_accuracies = contents.point_accuracies - contents.point_accuracy_errors

    def find_hull(self, deadline: float | None) -> Int64s:
        """List the points below which no mixture lies on the build half, by rising cost and accuracy there, among those
        that always keep a deadline; raises Infeasible if none does. Held-out rows choose none of them, so what these
        say of them is true. Found once for each deadline that makes a difference."""
        if not self._maxima:
            raise InvalidRequest("this artifact has no frontier, for an older version built it: build it again")
        place = len(self._maxima) if deadline is None else bisect_right(self._maxima, deadline)
        if not place:
            fastest = f"the fastest cascade takes at most {number(self._maxima[0])}"
            raise Infeasible(f"{fastest}, the deadline is {number(deadline or 0.0)}")
        hull = self._hulls[place - 1]
        if hull is None:
            within = np.flatnonzero(self._among & (self._points.point_maxima <= self._maxima[place - 1]))
            learned = self._points.point_expected[within], 1 - self._points.point_learned_accuracies[within]
            hull = within[lower_hull(*learned)]
            self._hulls[place - 1] = hull
        return hull

    def list_min_budgets(self, deadline: float | None) -> list[tuple[float, int]]:
        """List the points that a cost alone can ask for, with the least such cost."""
        hull = self.find_hull(deadline)
        costs = np.maximum.accumulate(self._safe_costs[hull])
        last = np.append(costs[1:] > costs[:-1], True)
        return list(zip(costs[last].tolist(), hull[last].tolist(), strict=True))

    def choose(self, query: CascadeQuery) -> PointMixture:
        """Choose the most accurate within ``budget``, or the cheapest that reaches ``min_accuracy``: both are kept
        with a standard error to spare, by held-out rows. Two neighbours share the items where the query says which item
        it is; else the one is taken that keeps the limits alone. Raises Infeasible, with the numbers. O(log p), or O(p)
        for an accuracy."""
        hull = self.find_hull(query.deadline)
        if query.min_accuracy is None:
            chosen = self._choose_within(hull, np.inf if query.mean_budget is None else query.mean_budget)
            return chosen if query.item is not None else PointMixture(chosen.first, chosen.first, 0.0)
        chosen = self._choose_accurate(hull, query.min_accuracy)
        if query.item is None and chosen.share:
            chosen = PointMixture(chosen.second, chosen.second, 0.0)
        needed = chosen.mix(self._safe_costs)
        if query.mean_budget is not None and needed > query.mean_budget:
            wanted = f"an accuracy of {query.min_accuracy:g} needs {needed:.6g} an item"
            raise Infeasible(
                f"{wanted}, asked is at most {number(query.mean_budget)}; both with a standard error to spare"
            )
        return chosen

    def _choose_within(self, hull: Int64s, most: float) -> PointMixture:
        costs = np.maximum.accumulate(self._safe_costs[hull])
        if most < costs[0]:
            least = f"the cheapest cascade costs {costs[0]:.6g} an item, a standard error included"
            raise Infeasible(f"{least}; asked is at most {number(most)}")
        mixture = Mixture.of(costs, most)
        return PointMixture(int(hull[mixture.first]), int(hull[mixture.second]), mixture.share)

    def _choose_accurate(self, hull: Int64s, wanted: float) -> PointMixture:
        accuracies = self._safe_accuracies[hull]
        able = np.flatnonzero(accuracies >= wanted)
        if not len(able):
            best = f"the most accurate cascade is right {accuracies.max():.4g} of the time, a standard error to spare"
            raise Infeasible(f"{best}; asked is {wanted:g}")
        j = int(able[0])
        if not j:
            return PointMixture(int(hull[0]), int(hull[0]), 0.0)
        share = (wanted - accuracies[j - 1]) / (accuracies[j] - accuracies[j - 1])
        return PointMixture(int(hull[j - 1]), int(hull[j]), float(share))
