"""The points of a policy's curve: which of them a query asks for, what they reach, and what limits bar under them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from models.arrays import Bools, Floats
from models.errors import Infeasible
from models.policy import PolicyTarget
from models.policy_curves import PolicyPoint
from solvers.base import refuse_unknown
from solvers.budget_mixture import Mixture
from solvers.policy.contents import PolicyContents
from solvers.policy.graph import Graph
from solvers.policy.hard_budgets import RELATIVE_TOLERANCE, exceeds_limits
from solvers.policy.item_draw import ItemDraw
from solvers.policy.item_limits import ItemLimits
from solvers.statistics import standard_error


@dataclass(frozen=True, eq=False)
class PolicyPoints(PolicyContents):
    """Trade-offs on the hull of cost and error, and what was learned for hard budgets and deadlines."""

    @cached_property
    def _graph(self) -> Graph:
        return Graph(self.members, self.offsets, self.targets)

    @cached_property
    def _limits(self) -> ItemLimits:
        return ItemLimits.from_plan(self)

    def curve(self) -> tuple[PolicyPoint, ...]:
        """List the points of the trade-off curve by rising cost."""
        columns = (self.point_costs, self.point_bounds, self.expected_errors, self.point_sensors)
        return tuple(
            PolicyPoint(tradeoff=self._tradeoff(at), cost=cost, cost_bound=bound, error=error, sensors=sensors)
            for at, (cost, bound, error, sensors) in enumerate(zip(*(each.tolist() for each in columns), strict=True))
        )

    def _tradeoff(self, point: int) -> float | None:
        tradeoff = float(np.concatenate([self.tradeoffs, self.cap_tradeoffs, self.deadline_tradeoffs])[point])
        return tradeoff if tradeoff >= 0 else None

    @property
    def expected_errors(self) -> Floats:
        """The errors to expect of the points, (H,): of rows that did not choose them."""
        share = self.choosing / self.rows
        return np.asarray(self.point_reached @ np.array([share, 1 - share]))

    def mixture(self, target: PolicyTarget) -> Mixture:
        """Find the points of the curve that a trade-off, a budget or an accuracy asks for, or that of a hard budget or
        a deadline where these stand alone; nothing asks for the fewest errors. Raises Infeasible, with the numbers, for
        an accuracy that none reaches within the budget, for a deadline shorter than any sensor, and for limits within
        which nothing answers where something has to; InvalidRequest for a deadline where times are not known."""
        refuse_unknown(target.excluded, self.sensors)
        self._limits.check_deadline(target, self.time_unit or self.unit)
        if self.classless:
            self._check_answerable(target)
        if target.min_accuracy is not None:
            return self._choose_accurate(target.min_accuracy, target.mean_budget)
        if target.mean_budget is not None:
            return Mixture.of(self.point_bounds, target.mean_budget)
        if target.tradeoff is not None:
            point = int((self.point_errors + target.tradeoff * self.point_costs).argmin())
        elif self._is_unlearned(target):
            return Mixture.of(self.point_bounds, target.max_item_cost or 0.0)
        else:
            point = self._limits.choose_point(target)
        return Mixture(point, point, 0.0)

    def _is_unlearned(self, target: PolicyTarget) -> bool:
        """Tell whether a hard budget stands alone where none was learned for and embeddings say where items go at once:
        what errs least begins with what is of use only with what that bars, so the points that cost as much on average
        decide."""
        learned_none = self.embedding is not None and not (len(self.caps) or self.classless)
        return target.max_item_cost is not None and target.deadline is None and learned_none

    def _check_answerable(self, target: PolicyTarget) -> None:
        """Refuse limits within which no sensor can answer; what an accuracy needs is refused as that."""
        firsts = self._graph.list_actions(0)
        costs, fastest = self._limits.set_costs[firsts], self._limits.set_times[firsts].min()
        if target.max_item_cost is not None and target.max_item_cost * (1 + RELATIVE_TOLERANCE) < costs.min():
            self._raise_too_expensive("answer", float(costs.min()), "hard budget", target.max_item_cost)
        if target.deadline is not None and bool(exceeds_limits(fastest, target.deadline)):
            took = f"the fastest that is ever asked takes up to {fastest:.4g} {self.time_unit}"
            raise Infeasible(f"{took}; the deadline is {target.deadline:g}")
        if target.left_out and bool(self._limits.need_excluded(firsts, target).all()):
            raise Infeasible(f"nothing that answers is left without {', '.join(target.left_out)}")
        able = ~self._limits.exceed_requested(firsts, target)
        if not able.any() and target.left_out:
            raise Infeasible(f"nothing that answers is within the limits without {', '.join(target.left_out)}")
        if not able.any():
            within = f"the hard budget of {target.max_item_cost:g} and the deadline of {target.deadline:g}"
            raise Infeasible(f"nothing that answers is within both {within}")
        least = max(float(costs[able].min()), float(self.point_bounds[0]))
        if (
            target.mean_budget is not None
            and target.min_accuracy is None
            and target.mean_budget * (1 + RELATIVE_TOLERANCE) < least
        ):
            self._raise_too_expensive(
                "answer" if able.all() else "answer within the limits", least, "budget", target.mean_budget
            )

    def _raise_too_expensive(self, what: str, cost: float, limit: str, amount: float) -> None:
        raise Infeasible(f"the cheapest {what} costs {cost:.6g} {self.unit}, the {limit} is {amount:g}")

    def _choose_accurate(self, wanted: float, budget: float | None) -> Mixture:
        """Take the cheapest point that is accurate enough, by the rows that choose, with a standard error to spare."""
        accuracies = 1 - self.point_reached[:, 0]
        safe = accuracies - standard_error(accuracies, self.independence * self.choosing)
        able = np.flatnonzero(safe >= wanted)
        if not len(able):
            most = f"the policy is right {safe.max():.4g} of the time at most, a standard error to spare"
            raise Infeasible(f"{most}; asked is {wanted:g}")
        place = int(able[0])
        if budget is not None and self.point_bounds[place] > budget:
            needed = f"{wanted:g} of the answers right need a budget of {self.point_bounds[place]:.4g} {self.unit}"
            raise Infeasible(f"{needed} an item, it is {budget:g}")
        return Mixture(place, place, 0.0)

    def expected_outcome(self, target: PolicyTarget) -> tuple[float | None, float | None, float | None]:
        """Give the accuracy that a trade-off or a budget reaches on rows that chose nothing, the cost of an item,
        and its standard error, at most; None for both where a limit decides alone,
        and for all where a hard budget, a deadline or what is left out may bar more than was where this was counted."""
        mixture = self.mixture(target)
        first, second = mixture.first, mixture.second
        if self._limits.can_bar(first, target) or self._limits.can_bar(second, target):
            return None, None, None
        if first >= len(self.tradeoffs) and (alone := self._limits.expected_error(target)) is not None:
            return 1 - alone, None, None  # all members decide, costs are of each

        def mixed(points: Floats) -> float:
            return float(points[first] + mixture.share * (points[second] - points[first]))

        errors = self.expected_errors if target.min_accuracy is None else self.point_reached[:, 1]
        return 1 - mixed(errors), mixed(self.point_costs), mixed(self.point_cost_errors)

    def _draw_point(self, mixture: Mixture, draw: ItemDraw, target: PolicyTarget) -> int:
        """Draw a point of a mixture; where something has to answer and limits bar all that a point would begin with,
        the next one below that may decide."""
        point = mixture.second if draw.uniform < mixture.share else mixture.first
        if not self.classless:
            return point
        if point >= len(self.tradeoffs) and self._cannot_begin(point, target):
            point = len(self.tradeoffs) - 1
        while 0 < point < len(self.tradeoffs) and self._cannot_begin(point, target):
            point -= 1
        return point

    def _cannot_begin(self, point: int, target: PolicyTarget) -> bool:
        """Tell whether limits bar the one sensor that always answers under a point, or all that may be the first."""
        barred = self._limits.barred_actions(self._graph.list_actions(0), point, target)
        if barred is None:
            return False
        return bool(barred.all() if self._constant_action(point) is None else barred[self._constant_action(point)])

    def _constant_action(self, point: int) -> int | None:
        """Give the action of the start that leads to the one sensor that always answers under a point; None: none."""
        if not self.classless or point >= len(self.tradeoffs) or self.tradeoffs[point] >= 0:
            return None
        return int(self.base[: len(self._graph.list_actions(0)), 0, point].argmin())

    def _barred_actions(self, node: int, point: int, target: PolicyTarget, known: Bools | None = None) -> Bools | None:
        """Return which actions of a node limits bar, (A,). Where they bar the one that would
        always answer, the cheapest of those that are left does; where the point's own would leave none that answers, it
        gives way."""
        targets = self._graph.list_actions(node)
        barred, always = self._limits.barred_actions(targets, point, target, known), self._constant_action(point)
        if barred is None or node or not self.classless:
            return barred
        if barred.all():
            return barred if known is not None and known.any() else self._limits.exceed_requested(targets, target)
        if always is None or not barred[always]:
            return barred
        left = np.where(barred, np.inf, self._limits.set_costs[targets])
        return np.asarray(np.arange(len(targets)) != left.argmin())
