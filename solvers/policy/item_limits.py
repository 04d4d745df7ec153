"""Hard budgets and deadlines of an item: excluded actions, and the learned decisions for a limit."""

from dataclasses import dataclass

import numpy as np

from models import Fault, InvalidRequest
from models.arrays import Bools, Floats, Int32s
from models.errors import Infeasible
from models.policy import PolicyTarget
from solvers.policy.contents import PolicyContents
from solvers.policy.learned_limits import RELATIVE_TOLERANCE, LearnedLimits, exceeds_limits
from solvers.policy.sensor_times import compute_set_times
from solvers.setup_groups import NO_GROUPS, SetupGroups


@dataclass(frozen=True, slots=True, eq=False)
class ItemLimits:
    """Costs and times of sets of sensors, and the limits of each point.

    Attributes:
        sensors: M names.
        members: (S, M), whether a set contains a sensor.
        costs: (M + G,), of sensors, then of set-up groups.
        times: (M + G,), maximum times of sensors, then of set-up groups; (0,) if unknown.
        fetches: (M,), sensors with the same number are acquired together.
        costs_by_set: (S,), sums of the costs of sensors and of the set-up groups that they touch.
        set_times: (S,), maximum durations of sets.
        budgets: (P,), hard budget of each point, infinite if none.
        deadlines: (P,), deadline of each point, infinite if none.
        points: index ranges of the points of the curve, of hard budgets, and of deadlines.
        served: learned hard budgets and deadlines, which are also used for limits between them.
        are_costs: whether every set takes as long as it costs.
        groups: the sensors of each set-up group.
    """

    sensors: tuple[str, ...]
    members: Bools
    costs: Floats
    times: Floats
    fetches: Int32s
    costs_by_set: Floats
    set_times: Floats
    budgets: Floats
    deadlines: Floats
    points: tuple[range, range, range]
    served: tuple[LearnedLimits, LearnedLimits]
    are_costs: bool
    groups: SetupGroups = NO_GROUPS

    @classmethod
    def from_plan(cls, plan: PolicyContents) -> "ItemLimits":
        """Read the limits of a plan."""
        curve, hard, timed = len(plan.tradeoffs), len(plan.caps), len(plan.deadlines)
        fetches = plan.fetches if len(plan.fetches) else np.arange(len(plan.sensors), dtype=np.int32)
        of_curve = plan.point_caps if len(plan.point_caps) else np.full(curve, -1.0)
        times, groups = np.concatenate((plan.times, plan.setup_times)), plan.setup
        costs_by_set = groups.append_groups(plan.members) @ plan.extended_costs
        set_times = compute_set_times(plan.members, times, fetches, groups)
        return cls(
            plan.sensors,
            plan.members,
            plan.extended_costs,
            times,
            fetches,
            costs_by_set,
            set_times,
            np.concatenate([np.where(of_curve < 0, np.inf, of_curve), plan.caps, np.full(timed, np.inf)]),
            np.concatenate([np.full(curve + hard, np.inf), plan.deadlines]),
            (range(curve), range(curve, curve + hard), range(curve + hard, curve + hard + timed)),
            (
                LearnedLimits.from_errors(plan.caps, plan.cap_errors),
                LearnedLimits.from_errors(plan.deadlines, plan.deadline_errors),
            ),
            bool(np.allclose(set_times, costs_by_set, rtol=RELATIVE_TOLERANCE, atol=0)),
            groups,
        )

    def time_of(self, members: Bools, known: Bools | None = None) -> float | None:
        """Return the maximum time of sensors, (M,), after known ones, (M,); None if times are unknown.

        Groups of known sensors are set up.
        """
        if not len(self.times):
            return None
        whole = float(compute_set_times(members[None], self.times, self.fetches, self.groups)[0])
        if known is None or not len(self.groups):
            return whole
        shared = (self.groups.append_groups(known) & self.groups.append_groups(members))[len(known) :]
        return whole - float(self.times[len(known) :][shared].sum())

    def requested_limits(self, target: PolicyTarget) -> tuple[float, float]:
        """Return the requested (max_item_cost, deadline); inf if there is none.

        If costs are times, both limit the same quantity. Then return (the smaller one, inf).
        """
        budget = np.inf if target.max_item_cost is None else target.max_item_cost
        deadline = np.inf if target.deadline is None else target.deadline
        return (min(budget, deadline), np.inf) if self.are_costs else (budget, deadline)

    def forbidden_actions(
        self, targets: Int32s, point: int, target: PolicyTarget, known: Bools | None = None
    ) -> Bools | None:
        """Return which actions are excluded by the request or exceed limits, (A,).

        Return None if there are no exclusions and no limits.

        Args:
            targets: (A,), nodes of the actions.
            point: point of the curve; its limits also apply.
            known: (M,), sensors that are already paid for.
        """
        budget, deadline = self._effective_limits(point, target)
        lacking = self.need_excluded_sensor(targets, target) if target.left_out else None
        if budget == deadline == np.inf:
            return lacking
        costs, times = self.costs_by_set[targets], self.set_times[targets]
        if known is not None:
            after = self.groups.append_groups(known | self.members[targets])
            costs = costs + (after & ~self.groups.append_groups(self.members[targets])) @ self.costs
            times = compute_set_times(known | self.members[targets], self.times, self.fetches, self.groups)
        forbidden = exceeds_limits(costs, budget) | exceeds_limits(times, deadline)
        return forbidden if lacking is None else forbidden | lacking

    def need_excluded_sensor(self, targets: Int32s, target: PolicyTarget) -> Bools:
        """Return which nodes, (A,), need an excluded sensor."""
        return np.asarray((self.members[targets] & np.isin(self.sensors, target.left_out)).any(axis=1))

    def exceed_requested_limits(self, targets: Int32s, target: PolicyTarget) -> Bools:
        """Return which nodes, (A,), exceed the requested limits or need an excluded sensor."""
        budget, deadline = self.requested_limits(target)
        beyond_limits = exceeds_limits(self.costs_by_set[targets], budget) | exceeds_limits(
            self.set_times[targets], deadline
        )
        return beyond_limits | self.need_excluded_sensor(targets, target)

    def can_forbid_actions(self, point: int, target: PolicyTarget) -> bool:
        """Return whether limits or exclusions may prevent actions that the point used on validation rows."""
        if target.left_out:
            return True
        (budget, deadline), (_, hard, timed) = self.requested_limits(target), self.points
        most_cost = min(float(self.budgets[point]), float(self.costs_by_set.max()))
        most_time = min(float(self.deadlines[point]), float(self.set_times.max()))
        is_expensive = point not in hard and bool(exceeds_limits(np.array(most_cost), budget))
        return is_expensive or (point not in timed and bool(exceeds_limits(np.array(most_time), deadline)))

    def choose_point(self, target: PolicyTarget) -> int:
        """Return the point for a request with hard limits, but without budget or trade-off.

        If no point keeps the limits, return the point with the lowest error rate.
        """
        serving = self._find_serving(target)
        return serving[1] if serving else self.points[0].stop - 1

    def expected_error(self, target: PolicyTarget) -> float | None:
        """Return the error rate of the point for a request with hard limits, but without budget or trade-off.

        Return None without such a point.
        """
        serving = self._find_serving(target)
        return serving[0] if serving else None

    def _find_serving(self, target: PolicyTarget) -> tuple[float, int] | None:
        """Return the error rate and the point that serve the requested limits.

        With two limits, the point with the higher error rate is used.
        """
        able = [
            (float(served.errors[place]), own[int(served.places[place])])
            for requested, own, served in zip(self.requested_limits(target), self.points[1:], self.served, strict=True)
            if requested < np.inf and (place := served.find_largest_within(requested)) is not None
        ]
        return max(able, key=lambda each: each[0], default=None)

    def _effective_limits(self, point: int, target: PolicyTarget) -> tuple[float, float]:
        (budget, deadline), (_, hard, timed) = self.requested_limits(target), self.points
        if point in hard:
            budget = self.served[0].effective_limit(budget)
        if point in timed:
            deadline = self.served[1].effective_limit(deadline)
        return min(float(self.budgets[point]), budget), min(float(self.deadlines[point]), deadline)

    def check_deadline(self, target: PolicyTarget, unit: str, *, can_reject: bool) -> None:
        """Check that times are known and that a sensor is fast enough for a deadline.

        Args:
            can_reject: whether items may be rejected, which takes no time.
        Raises:
            InvalidRequest: times are not known.
            Infeasible: the deadline is too short.
        """
        if target.deadline is None:
            return
        if not len(self.times):
            reason = f"is not supported: costs are in {unit}, and times are unknown; set time in the dataset's spec"
            raise InvalidRequest.from_faults(Fault(("deadline",), reason))
        every = np.arange(int(self.fetches.max()) + 1)[:, None] == self.fetches
        longest = compute_set_times(every, self.times, self.fetches, self.groups)
        least = int(longest.argmin())
        if not can_reject and bool(exceeds_limits(np.array(longest[least]), target.deadline)):
            fastest = " with ".join(self.sensors[m] for m in np.flatnonzero(self.fetches == least).tolist())
            time = f"takes up to {longest[least]:.4g} {unit}"
            raise Infeasible(f"the fastest sensor, {fastest}, {time}; the deadline is {target.deadline:g}")
        if target.min_accuracy is not None and bool(exceeds_limits(np.array(self.set_times.max()), target.deadline)):
            measured = f"accuracies were measured without a deadline, with times up to {self.set_times.max():.4g}"
            raise Infeasible(
                f"{measured}; with min_accuracy, the deadline must be at least as long, got {target.deadline:g}"
            )
