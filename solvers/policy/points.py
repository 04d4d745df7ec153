"""Operating points of a policy.

Selects the point for a query, estimates its outcome, and bars actions that exceed limits.
"""

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
from solvers.base import check_excluded_names
from solvers.budget_mixture import Mixture
from solvers.policy.contents import PolicyContents
from solvers.policy.graph import Graph
from solvers.policy.item_draw import ItemDraw
from solvers.policy.item_limits import ItemLimits
from solvers.policy.learned_limits import RELATIVE_TOLERANCE, exceeds_limits
from solvers.statistics import standard_error

LIMITS = tuple(PolicyTarget.model_fields)
LIMITS_CACHE_SIZE = 256
"""Different limits of queries for which the choice of points is kept."""


def list_limits(target: PolicyTarget) -> list[Any]:
    """Return the limits of a query in the order of ``LIMITS``.

    Sensors that are already acquired are no longer excluded.
    """
    return [target.left_out if name == "excluded" else getattr(target, name) for name in LIMITS]


def make_target(limits: tuple[Any, ...]) -> PolicyTarget:
    return PolicyTarget.model_construct(**dict(zip(LIMITS, limits, strict=True)))


@dataclass(frozen=True, eq=False)
class PolicyPoints(PolicyContents):
    """Points of the trade-off curve, and decisions for hard budgets and deadlines."""

    @cached_property
    def _graph(self) -> Graph:
        return Graph(self.members, self.offsets, self.targets, self.setup)

    @cached_property
    def _limits(self) -> ItemLimits:
        return ItemLimits.from_plan(self)

    @cached_property
    def losses(self) -> Losses:
        """The loss matrix of answers with classes."""
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
        return lru_cache(LIMITS_CACHE_SIZE)(lambda *limits: self._find_mixture(make_target(limits)))

    @cached_property
    def _outcomes(self) -> Callable[..., tuple[float | None, float | None, float | None]]:
        return lru_cache(LIMITS_CACHE_SIZE)(lambda *limits: self._find_outcome(make_target(limits)))

    def select_mixture(self, target: PolicyTarget) -> Mixture:
        """Return the points that a query's limits select; by default the point of the lowest error rate.

        Results are cached by limits.

        A budget has no effect if the hard budget per item is not larger.

        Raises:
            Infeasible: the accuracy is not reached within the budget, the deadline is too short for any sensor, or
                an answer is required but no sensor can give one within the limits.
            InvalidRequest: a deadline is set but times are unknown.
        """
        check_excluded_names(target.excluded, self.sensors)
        return self._mixtures(*list_limits(target))

    def _find_mixture(self, target: PolicyTarget) -> Mixture:
        self._limits.check_deadline(target, self.time_unit or self.unit, can_reject=self.can_reject)
        if self.has_to_acquire:
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

        The point with the fewest errors may then start with sensors whose successors are barred. So points with the
        hard budget as mean cost decide.
        """
        learned_none = self.embedding_projection is not None and not (len(self.caps) or self.classless)
        return target.max_item_cost is not None and target.deadline is None and learned_none

    def _check_answerable(self, target: PolicyTarget) -> None:
        """Raise Infeasible if no sensor can answer within the limits; accuracies are not checked."""
        firsts = self._graph.list_actions(0)
        costs, fastest = self._limits.costs_by_set[firsts], self._limits.set_times[firsts].min()
        if target.max_item_cost is not None and target.max_item_cost * (1 + RELATIVE_TOLERANCE) < costs.min():
            self._raise_too_expensive("answer", float(costs.min()), "hard budget", target.max_item_cost)
        if target.deadline is not None and bool(exceeds_limits(fastest, target.deadline)):
            fastest_first = f"the fastest sensor that can answer takes up to {fastest:.4g} {self.time_unit}"
            raise Infeasible(f"{fastest_first}; the deadline is {target.deadline:g}")
        if target.left_out and bool(self._limits.need_excluded_sensor(firsts, target).all()):
            raise Infeasible(f"all sensors that can answer are excluded: {', '.join(target.left_out)}")
        able = ~self._limits.exceed_requested_limits(firsts, target)
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
        """Return the cheapest point that is accurate enough, minus one standard error.

        Accuracies are those of ``choose_selection_rows``.
        """
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

        Cost and standard error are None if only a hard limit decides. All values are None if limits or exclusions may
        prevent actions that the point used on validation rows.
        """
        return self._outcomes(*list_limits(target))

    def _find_outcome(self, target: PolicyTarget) -> tuple[float | None, float | None, float | None]:
        mixture = self.select_mixture(target)
        first, second = mixture.first, mixture.second
        if self._limits.can_forbid_actions(first, target) or self._limits.can_forbid_actions(second, target):
            return None, None, None
        if first >= len(self.tradeoffs) and (alone := self._limits.expected_error(target)) is not None:
            return 1 - alone, None, None  # all members decide; costs are of single ones

        def mixed(points: Floats) -> float:
            return float(points[first] + mixture.share * (points[second] - points[first]))

        errors = self.expected_errors if target.min_accuracy is None else self.point_reached[:, 1]
        return 1 - mixed(errors), mixed(self.point_costs), mixed(self.point_cost_errors)

    def expected_coverage(self, target: PolicyTarget) -> float | None:
        """Return the expected share of items that get an answer; None if all do, or where the cost is not expected."""
        if not len(self.point_coverages) or self.expected_outcome(target)[1] is None:
            return None
        mixture = self.select_mixture(target)
        low, high = self.point_coverages[[mixture.first, mixture.second]].tolist()
        return float(low + mixture.share * (high - low))

    def _draw_point(self, mixture: Mixture, draw: ItemDraw, target: PolicyTarget) -> int:
        """Draw a point of a mixture for an item.

        If an answer is required and limits bar the point's first action, a lower point is used.
        """
        point = mixture.second if draw.uniform < mixture.share else mixture.first
        if not self.has_to_acquire:
            return point
        if point >= len(self.tradeoffs) and self._cannot_begin(point, target):
            point = len(self.tradeoffs) - 1
        while 0 < point < len(self.tradeoffs) and self._cannot_begin(point, target):
            point -= 1
        return point

    def _cannot_begin(self, point: int, target: PolicyTarget) -> bool:
        forbidden = self._limits.forbidden_actions(self._graph.list_actions(0), point, target)
        if forbidden is None:
            return False
        return bool(
            forbidden.all() if self._constant_action(point) is None else forbidden[self._constant_action(point)]
        )

    def _constant_action(self, point: int) -> int | None:
        """Return the first action of a point that always answers with one sensor; None for other points."""
        if not self.has_to_acquire or point >= len(self.tradeoffs) or self.tradeoffs[point] >= 0:
            return None
        return int(self.base[: len(self._graph.list_actions(0)), 0, point].argmin())

    def _barred_actions(self, node: int, point: int, target: PolicyTarget, known: Bools | None = None) -> Bools | None:
        """Return which actions of a node the limits bar, (A,).

        At a point that always answers with one sensor, the cheapest allowed sensor replaces a barred one. If the
        point's own limit bars all sensors that can answer, only the requested limits apply.
        """
        targets = self._graph.list_actions(node)
        forbidden, always = self._limits.forbidden_actions(targets, point, target, known), self._constant_action(point)
        if forbidden is None or node or not self.has_to_acquire:
            return forbidden
        if forbidden.all():
            return (
                forbidden
                if known is not None and known.any()
                else self._limits.exceed_requested_limits(targets, target)
            )
        if always is None or not forbidden[always]:
            return forbidden
        costs = np.where(forbidden, np.inf, self._limits.costs_by_set[targets])
        return np.asarray(np.arange(len(targets)) != costs.argmin())
