"""The limits of an item as a plan keeps them: what hard budgets and deadlines bar, and which decisions suit them."""

from dataclasses import dataclass

import numpy as np

from models import Fault, InvalidRequest
from models.arrays import Bools, Floats, Int32s
from models.errors import Infeasible
from models.policy import PolicyTarget
from solvers.policy.contents import PolicyContents
from solvers.policy.hard_budgets import RELATIVE_TOLERANCE, LearnedLimits, exceeds_limits
from solvers.policy.sensor_times import compute_set_times


@dataclass(frozen=True, slots=True, eq=False)
class ItemLimits:
    """What sets of sensors cost and take, and what they may. sensors: M names; members: (S, M); costs, times: (M,),
    times (0,) where they are not known; fetches: (M,); set_costs, set_times: (S,); budgets, deadlines: (P,) what no
    item exceeds under each point, infinite without; points: of trade-offs, hard budgets and deadlines, the places of
    each; served: hard budgets and deadlines that serve those between them; are_costs: whether every set takes as long
    as it costs."""

    sensors: tuple[str, ...]
    members: Bools
    costs: Floats
    times: Floats
    fetches: Int32s
    set_costs: Floats
    set_times: Floats
    budgets: Floats
    deadlines: Floats
    points: tuple[range, range, range]
    served: tuple[LearnedLimits, LearnedLimits]
    are_costs: bool

    @classmethod
    def from_plan(cls, plan: PolicyContents) -> "ItemLimits":
        """Read them of a plan."""
        curve, hard, timed = len(plan.tradeoffs), len(plan.caps), len(plan.deadlines)
        fetches = plan.fetches if len(plan.fetches) else np.arange(len(plan.sensors), dtype=np.int32)
        of_curve = plan.point_caps if len(plan.point_caps) else np.full(curve, -1.0)
        set_costs, set_times = plan.members @ plan.costs, compute_set_times(plan.members, plan.times, fetches)
        return cls(
            plan.sensors,
            plan.members,
            plan.costs,
            plan.times,
            fetches,
            set_costs,
            set_times,
            np.concatenate([np.where(of_curve < 0, np.inf, of_curve), plan.caps, np.full(timed, np.inf)]),
            np.concatenate([np.full(curve + hard, np.inf), plan.deadlines]),
            (range(curve), range(curve, curve + hard), range(curve + hard, curve + hard + timed)),
            (
                LearnedLimits.from_errors(plan.caps, plan.cap_errors),
                LearnedLimits.from_errors(plan.deadlines, plan.deadline_errors),
            ),
            bool(np.allclose(set_times, set_costs, rtol=RELATIVE_TOLERANCE, atol=0)),
        )

    def time_of(self, members: Bools) -> float | None:
        """Tell how long sensors, (M,), take at most; None where times are not known."""
        return float(compute_set_times(members[None], self.times, self.fetches)[0]) if len(self.times) else None

    def requested_limits(self, target: PolicyTarget) -> tuple[float, float]:
        """Give the hard budget and the deadline that are asked for, infinite without; where sensors take as long as
        they cost, both are hard budgets."""
        budget = np.inf if target.max_item_cost is None else target.max_item_cost
        deadline = np.inf if target.deadline is None else target.deadline
        return (min(budget, deadline), np.inf) if self.are_costs else (budget, deadline)

    def barred_actions(
        self, targets: Int32s, point: int, target: PolicyTarget, known: Bools | None = None
    ) -> Bools | None:
        """Tell which actions, that lead to these nodes, (A,), need what is left out, or would exceed a limit that is
        asked for or the point's, (A,), with what is known beside, (M,), paid for; None if there is no limit."""
        budget, deadline = self._effective_limits(point, target)
        lacking = self.need_excluded(targets, target) if target.left_out else None
        if budget == deadline == np.inf:
            return lacking
        costs, times = self.set_costs[targets], self.set_times[targets]
        if known is not None:
            costs = costs + (known & ~self.members[targets]) @ self.costs
            times = compute_set_times(known | self.members[targets], self.times, self.fetches)
        barred = exceeds_limits(costs, budget) | exceeds_limits(times, deadline)
        return barred if lacking is None else barred | lacking

    def need_excluded(self, targets: Int32s, target: PolicyTarget) -> Bools:
        """Tell which nodes, (A,), need what is left out, (A,)."""
        return np.asarray((self.members[targets] & np.isin(self.sensors, target.left_out)).any(axis=1))

    def exceed_requested(self, targets: Int32s, target: PolicyTarget) -> Bools:
        """Tell which nodes, (A,), no item may reach within the limits that are asked for, (A,)."""
        budget, deadline = self.requested_limits(target)
        beyond_limits = exceeds_limits(self.set_costs[targets], budget) | exceeds_limits(
            self.set_times[targets], deadline
        )
        return beyond_limits | self.need_excluded(targets, target)

    def can_bar(self, point: int, target: PolicyTarget) -> bool:
        """Tell whether limits asked for, or what is left out, may bar what a point does where it was measured."""
        if target.left_out:
            return True
        (budget, deadline), (_, hard, timed) = self.requested_limits(target), self.points
        most_cost = min(float(self.budgets[point]), float(self.set_costs.max()))
        most_time = min(float(self.deadlines[point]), float(self.set_times.max()))
        is_dear = point not in hard and bool(exceeds_limits(np.array(most_cost), budget))
        return is_dear or (point not in timed and bool(exceeds_limits(np.array(most_time), deadline)))

    def choose_point(self, target: PolicyTarget) -> int:
        """Take the decisions that serve limits asked for alone; those for the fewest errors where nothing does."""
        serving = self._serving(target)
        return serving[1] if serving else self.points[0].stop - 1

    def expected_error(self, target: PolicyTarget) -> float | None:
        """Tell how often the decisions err that serve limits asked for alone; None where nothing does."""
        serving = self._serving(target)
        return serving[0] if serving else None

    def _serving(self, target: PolicyTarget) -> tuple[float, int] | None:
        """Give the errors and the point of the decisions that serve limits asked for alone; of a hard budget and a
        deadline of those under which more errs, for that limit leaves less."""
        able = [
            (float(served.errors[place]), own[int(served.places[place])])
            for asked, own, served in zip(self.requested_limits(target), self.points[1:], self.served, strict=True)
            if asked < np.inf and (place := served.find_largest_within(asked)) is not None
        ]
        return max(able, key=lambda each: each[0], default=None)

    def _effective_limits(self, point: int, target: PolicyTarget) -> tuple[float, float]:
        """Give the hard budget and the deadline that items keep under a point: its own and those asked for, or, of the
        kind that it was learned for, the one that it serves."""
        (budget, deadline), (_, hard, timed) = self.requested_limits(target), self.points
        if point in hard:
            budget = self.served[0].effective_limit(budget)
        if point in timed:
            deadline = self.served[1].effective_limit(deadline)
        return min(float(self.budgets[point]), budget), min(float(self.deadlines[point]), deadline)

    def check_deadline(self, target: PolicyTarget, unit: str) -> None:
        """Refuse a deadline where times are not known, and one before which no sensor can be had. Raises
        InvalidRequest, and Infeasible with the numbers."""
        if target.deadline is None:
            return
        if not len(self.times):
            asked = f"means nothing here: costs are in {unit}, and no times are known: tell them in the spec, as time"
            raise InvalidRequest.at(Fault(("deadline",), asked))
        longest = np.zeros(int(self.fetches.max()) + 1)
        np.maximum.at(longest, self.fetches, self.times)
        least = int(longest.argmin())
        if bool(exceeds_limits(np.array(longest[least]), target.deadline)):
            named = " with ".join(self.sensors[m] for m in np.flatnonzero(self.fetches == least).tolist())
            took = f"the fastest sensor, {named}, takes up to {longest[least]:.4g} {unit}"
            raise Infeasible(f"{took}; the deadline is {target.deadline:g}")
        if target.min_accuracy is not None and bool(exceeds_limits(np.array(self.set_times.max()), target.deadline)):
            counted = f"accuracies were counted where sensors take up to {self.set_times.max():.4g} {unit}"
            raise Infeasible(f"{counted}; with min_accuracy the deadline cannot be {target.deadline:g}")
