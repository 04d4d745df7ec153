"""Operating points of a policy: the point that a query selects, its expected outcome, and actions that exceed
limits."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from models.arrays import Bools, Floats
from models.errors import Infeasible
from models.losses import Losses
from models.policy import PolicyTarget
from models.policy_curves import PolicyPoint
from solvers.base import refuse_unknown_names
from solvers.budget_mixture import Mixture
from solvers.policy.contents import PolicyContents
from solvers.policy.graph import Graph
from solvers.policy.hard_budgets import RELATIVE_TOLERANCE, exceeds_limits
from solvers.policy.item_draw import ItemDraw
from solvers.policy.item_limits import ItemLimits
from solvers.statistics import standard_error

LIMITS = tuple(PolicyTarget.model_fields)
KEPT_LIMITS = 256
"""Different limits of queries for which the choice of points is kept."""


def limits_of(target: PolicyTarget) -> list[Any]:
    """Return the limits of a query in the order of ``LIMITS``; sensors that are acquired are not excluded any more."""
    return [target.left_out if name == "excluded" else getattr(target, name) for name in LIMITS]


def to_target(limits: tuple[Any, ...]) -> PolicyTarget:
    return PolicyTarget.model_construct(**dict(zip(LIMITS, limits, strict=True)))


@dataclass(frozen=True, eq=False)
class PolicyPoints(PolicyContents):
    """Points of the trade-off curve, and decisions for hard budgets and deadlines."""

    @cached_property
    def _graph(self) -> Graph:
        return Graph(self.members, self.offsets, self.targets)

    @cached_property
    def _limits(self) -> ItemLimits:
        return ItemLimits.from_plan(self)

    @cached_property
    def losses(self) -> Losses:
        """The loss matrix of answers that are classes."""
        if not len(self.loss_matrix):
            return Losses.zero_one(self.class_base.shape[2])
        truths, answers = self.loss_matrix.shape
        return Losses(self.loss_matrix, self.loss_scale, answers > truths)

    def curve(self) -> tuple[PolicyPoint, ...]:
        """Return the points of the trade-off curve by rising cost."""
        columns = (self.point_costs, self.point_bounds, self.expected_errors, self.point_sensors)
        return tuple(
            PolicyPoint(
                tradeoff=self._tradeoff(at),
                cost=cost,
                cost_bound=bound,
                error=error,
                loss=error * self.loss_scale if self.has_losses else None,
                sensors=sensors,
            )
            for at, (cost, bound, error, sensors) in enumerate(zip(*(each.tolist() for each in columns), strict=True))
        )

    def _tradeoff(self, point: int) -> float | None:
        tradeoff = float(np.concatenate([self.tradeoffs, self.cap_tradeoffs, self.deadline_tradeoffs])[point])
        return tradeoff * self.loss_scale if tradeoff >= 0 else None

    @property
    def expected_errors(self) -> Floats:
        """Expected error rates of the points, (H,), cross-validated."""
        share = self.choosing / self.rows
        return np.asarray(self.point_reached @ np.array([share, 1 - share]))

    @cached_property
    def _mixtures(self) -> Callable[..., Mixture]:
        return lru_cache(KEPT_LIMITS)(lambda *limits: self._find_mixture(to_target(limits)))

    @cached_property
    def _outcomes(self) -> Callable[..., tuple[float | None, float | None, float | None]]:
        return lru_cache(KEPT_LIMITS)(lambda *limits: self._find_outcome(to_target(limits)))

    def select_mixture(self, target: PolicyTarget) -> Mixture:
        """Return the points that a query's limits select; by default the one of fewest errors.

        Results are cached by limits.

        A budget has no effect if the hard budget of an item already keeps it.

        Raises:
            Infeasible: the accuracy is not reached within the budget, the deadline is too short for any sensor, or
                an answer is required, and no sensor can give one within the limits.
            InvalidRequest: a deadline is set but times are unknown.
        """
        refuse_unknown_names(target.excluded, self.sensors)
        return self._mixtures(*limits_of(target))

    def _find_mixture(self, target: PolicyTarget) -> Mixture:
        self._limits.check_deadline(target, self.time_unit or self.unit)
        if self.classless:
            self._check_answerable(target)
        if target.min_accuracy is not None:
            return self._choose_accurate(target.min_accuracy, target.mean_budget)
        if target.mean_budget is not None and (
            target.max_item_cost is None or target.mean_budget < target.max_item_cost
        ):
            return Mixture.from_budget(self.point_bounds, target.mean_budget)
        if target.tradeoff is not None:
            point = int((self.point_errors + target.tradeoff / self.loss_scale * self.point_costs).argmin())
        elif self._is_unlearned(target):
            return Mixture.from_budget(self.point_bounds, target.max_item_cost or 0.0)
        else:
            point = self._limits.choose_point(target)
        return Mixture(point, point, 0.0)

    def _is_unlearned(self, target: PolicyTarget) -> bool:
        """Return whether a hard budget without learned decisions is the only limit, and items have embeddings.

        The point of fewest errors may then start with sensors whose successors are barred, so the points of that mean
        cost decide.
        """
        learned_none = self.embedding_projection is not None and not (len(self.caps) or self.classless)
        return target.max_item_cost is not None and target.deadline is None and learned_none

    def _check_answerable(self, target: PolicyTarget) -> None:
        """Raise Infeasible for limits within which no sensor can answer, except accuracies."""
        firsts = self._graph.list_actions(0)
        costs, fastest = self._limits.costs_by_set[firsts], self._limits.set_times[firsts].min()
        if target.max_item_cost is not None and target.max_item_cost * (1 + RELATIVE_TOLERANCE) < costs.min():
            self._raise_too_expensive("answer", float(costs.min()), "hard budget", target.max_item_cost)
        if target.deadline is not None and bool(exceeds_limits(fastest, target.deadline)):
            fastest_first = f"the fastest sensor that can answer takes up to {fastest:.4g} {self.time_unit}"
            raise Infeasible(f"{fastest_first}; the deadline is {target.deadline:g}")
        if target.left_out and bool(self._limits.need_excluded(firsts, target).all()):
            raise Infeasible(f"all sensors that can answer are excluded: {', '.join(target.left_out)}")
        able = ~self._limits.exceed_requested(firsts, target)
        if not able.any() and target.left_out:
            excluded = ", ".join(target.left_out)
            raise Infeasible(f"no sensor that can answer is within the limits if these are excluded: {excluded}")
        if not able.any():
            within = f"the hard budget of {target.max_item_cost:g} and the deadline of {target.deadline:g}"
            raise Infeasible(f"no sensor that can answer is within both {within}")
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
        """Return the cheapest point that is accurate enough on selecting rows, minus one standard error."""
        accuracies = 1 - self.point_reached[:, 0]
        safe = accuracies - standard_error(accuracies, self.independence * self.choosing)
        able = np.flatnonzero(safe >= wanted)
        if not len(able):
            most = f"the policy's accuracy is at most {safe.max():.4g}, minus one standard error"
            raise Infeasible(f"{most}; requested: {wanted:g}")
        place = int(able[0])
        if budget is not None and self.point_bounds[place] > budget:
            needed = f"an accuracy of {wanted:g} needs a budget of {self.point_bounds[place]:.4g} {self.unit}"
            raise Infeasible(f"{needed} per item, got {budget:g}")
        return Mixture(place, place, 0.0)

    def expected_outcome(self, target: PolicyTarget) -> tuple[float | None, float | None, float | None]:
        """Return the expected accuracy, mean cost, and its standard error.

        The costs are None if only a hard limit decides. All values are None if limits or exclusions may prevent actions
        that the point used on validation rows.
        """
        return self._outcomes(*limits_of(target))

    def _find_outcome(self, target: PolicyTarget) -> tuple[float | None, float | None, float | None]:
        mixture = self.select_mixture(target)
        first, second = mixture.first, mixture.second
        if self._limits.can_bar(first, target) or self._limits.can_bar(second, target):
            return None, None, None
        if first >= len(self.tradeoffs) and (alone := self._limits.expected_error(target)) is not None:
            return 1 - alone, None, None  # all members decide; costs are of single ones

        def mixed(points: Floats) -> float:
            return float(points[first] + mixture.share * (points[second] - points[first]))

        errors = self.expected_errors if target.min_accuracy is None else self.point_reached[:, 1]
        return 1 - mixed(errors), mixed(self.point_costs), mixed(self.point_cost_errors)

    def _draw_point(self, mixture: Mixture, draw: ItemDraw, target: PolicyTarget) -> int:
        """Draw a point of a mixture; if limits bar its start and an answer is required, a lower one."""
        point = mixture.second if draw.uniform < mixture.share else mixture.first
        if not self.classless:
            return point
        if point >= len(self.tradeoffs) and self._cannot_begin(point, target):
            point = len(self.tradeoffs) - 1
        while 0 < point < len(self.tradeoffs) and self._cannot_begin(point, target):
            point -= 1
        return point

    def _cannot_begin(self, point: int, target: PolicyTarget) -> bool:
        barred = self._limits.barred_actions(self._graph.list_actions(0), point, target)
        if barred is None:
            return False
        return bool(barred.all() if self._constant_action(point) is None else barred[self._constant_action(point)])

    def _constant_action(self, point: int) -> int | None:
        """Return the first action of a point that always answers with one sensor; None for others."""
        if not self.classless or point >= len(self.tradeoffs) or self.tradeoffs[point] >= 0:
            return None
        return int(self.base[: len(self._graph.list_actions(0)), 0, point].argmin())

    def _barred_actions(self, node: int, point: int, target: PolicyTarget, known: Bools | None = None) -> Bools | None:
        """Return which actions of a node limits bar, (A,).

        If they bar the sensor that always answers, the cheapest other one replaces it. If the point's own limit bars
        all sensors that can answer, only the requested limits count.
        """
        targets = self._graph.list_actions(node)
        barred, always = self._limits.barred_actions(targets, point, target, known), self._constant_action(point)
        if barred is None or node or not self.classless:
            return barred
        if barred.all():
            return barred if known is not None and known.any() else self._limits.exceed_requested(targets, target)
        if always is None or not barred[always]:
            return barred
        costs = np.where(barred, np.inf, self._limits.costs_by_set[targets])
        return np.asarray(np.arange(len(targets)) != costs.argmin())
