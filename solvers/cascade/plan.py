"""Cascade plan: decisions by the step function from deadlines to cascades, or by the frontier."""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from typing import Any, NamedTuple

import numpy as np

from models.arrays import Bools, Floats, Int32s, Int64s
from models.cascade import (
    CascadeQuery,
    CascadeRunDecision,
    CascadeShare,
    CascadeStep,
    DeadlineRange,
    Discarded,
)
from models.errors import Infeasible
from parsimony.runs.steps import REJECT
from solvers.base import check_excluded_names, format_number, prepare_plan, round_up
from solvers.cascade.contents import CascadeContents
from solvers.cascade.continuation import Continuations
from solvers.cascade.frontier.point_selection import PointMixture, PointSelector
from solvers.shared_setup import SetupContents


class HoldoutResult(NamedTuple):
    """Results of a cascade on holdout rows: accuracy, mean duration, and its standard error."""

    accuracy: float
    duration: float
    duration_error: float


@dataclass(frozen=True, eq=False)
class CascadePlan(CascadeContents):
    """Precomputed cascades: one per deadline, and the frontier's operating points for budgets and accuracies."""

    def __post_init__(self) -> None:
        self.check()
        prepare_plan(self, lazy=("continuations",))

    @cached_property
    def _maxima(self) -> list[float]:
        """``maximum_durations`` as a list, which is faster to search."""
        maxima: list[float] = self.maximum_durations.tolist()
        return maxima

    @cached_property
    def _holdout_results(self) -> dict[tuple[str, ...], HoldoutResult]:
        columns = self.accuracies.tolist(), self.durations.tolist(), self.duration_errors.tolist()
        return {self._cascade(step): HoldoutResult(*each) for step, each in enumerate(zip(*columns, strict=True))}

    @cached_property
    def step_setup(self) -> SetupContents:
        """The set-up groups with the costs and times of the build half, which cascades for deadlines have."""
        return SetupContents(
            setup_names=self.setup_names,
            setup_classifiers=self.setup_classifiers,
            setup_costs=self.step_setup_costs,
            setup_worst_times=self.step_setup_worst_times,
        )

    @cached_property
    def step_times(self) -> dict[str, tuple[float, float]]:
        """Mean and worst-case time of each classifier alone in cascades for deadlines, with its set-up groups."""
        columns = self.execution_times.tolist(), self.worst_case_times.tolist()
        return dict(zip(self.names, zip(*columns, strict=True), strict=True))

    @cached_property
    def times_alone(self) -> dict[str, tuple[float, float]]:
        """Mean and worst-case time of each classifier alone in points, else in cascades for deadlines."""
        columns = self.point_times.tolist(), self.point_worst_times.tolist()
        return self.step_times | dict(zip(self.point_names, zip(*columns, strict=True), strict=True))

    @cached_property
    def _step_answers(self) -> list[dict[str, Any] | None]:
        return [None] * len(self.maximum_durations)

    @cached_property
    def point_coverages(self) -> Floats:
        """(p,) share of items that get an answer at each point; (0,) if no point rejects items, as its last call."""
        last = self.point_offsets[1:] - 1
        is_reject = np.array(self.point_names, dtype=str)[self.point_members[last]] == REJECT
        return 1 - np.where(is_reject, self.point_reaching[last], 0.0) if is_reject.any() else np.empty(0)

    @cached_property
    def _selector(self) -> PointSelector:
        return PointSelector(self)

    @cached_property
    def _point_answers(self) -> dict[int, dict[str, Any]]:
        return {}

    def decide(self, query: CascadeQuery) -> CascadeRunDecision:
        """Return the best cascade for a deadline, or the best point for a budget or an accuracy.

        If no cascade with the deterministic classifier is within the deadline, and the query has no ``min_accuracy``,
        the most accurate point within the deadline is returned.

        Raises:
            Infeasible: no cascade is within the limits.
            InvalidRequest: an excluded classifier is unknown.
        Complexity: O(log k) for k steps or points; O(k) with an accuracy or excluded classifiers.
        """
        if query.excluded:
            check_excluded_names(query.excluded, tuple(dict.fromkeys((*self.names, *self.point_names))))
        chosen = self.select_points(query)
        if chosen is not None:
            return self._to_decision(chosen, query)
        step = self._find_step(query)
        answer = self._step_answers[step]
        if answer is None:
            answer = self._step_answers[step] = self._step_answer(step)
        if query.excluded:  # cascades outside the plan may be better
            answer = {**answer, "optimal": False, "lower_bound": self.lower_bound}
        return CascadeRunDecision.model_construct(**answer, deadline=query.deadline)

    def skip_classifiers(self, decision: CascadeRunDecision, left_out: Sequence[str]) -> CascadeRunDecision:
        """Remove classifiers from a decided cascade, except for its last one.

        Afterward, probabilities of reaching later steps are upper bounds.
        """
        skipped = tuple(step.classifier for step in decision.steps[:-1] if step.classifier in left_out)
        if not skipped:
            return decision
        steps, most = list[CascadeStep](), 0.0
        for step in decision.steps:
            if step.classifier in skipped:
                most = max(most, step.probability_of_reaching)
            else:
                reached = max(most, step.probability_of_reaching)
                steps.append(step.model_copy(update={"probability_of_reaching": reached}))
        steps = self._update_times(steps, of_point=decision.algorithm == "frontier")
        changed = {
            "cascade": tuple(step.classifier for step in steps),
            "steps": tuple(steps),
            "skipped": skipped,
            "expected_duration": sum(step.execution_time * step.probability_of_reaching for step in steps),
            "maximum_duration": sum(step.worst_case_time for step in steps),
            "optimal": False,
            "lower_bound": self.lower_bound,
        }
        return decision.model_copy(update=changed)

    def _find_step(self, query: CascadeQuery) -> int:
        """Return the step of least expected duration within the deadline that calls no excluded classifier."""
        able = self._list_steps_without(query.excluded) if query.excluded else range(len(self._maxima))
        maxima = self._maxima if not query.excluded else [self._maxima[step] for step in able]
        deadline = query.deadline
        at = len(maxima) - 1 if deadline is None else bisect_right(maxima, deadline) - 1
        if at < 0:
            shortest = f"{round_up(min([maxima[0], *self.point_maxima.tolist()])):.6g} {self.unit}"
            fastest = f"the fastest cascade takes at most {shortest}, the deadline is {format_number(deadline or 0.0)}"
            raise Infeasible(f"{fastest}; to tolerate rare slow calls, build with worst_case_quantile below 1")
        return able[at]

    def _list_steps_without(self, left_out: Sequence[str]) -> list[int]:
        able = np.flatnonzero(~_call_any(self.names, self.members, self.offsets, left_out)).tolist()
        if not able:
            raise Infeasible(f"every cascade calls an excluded classifier: {', '.join(left_out)}")
        return list(able)

    def select_points(self, query: CascadeQuery) -> PointMixture | None:
        """Return the operating points for a query; None if the step function decides.

        Points decide if the query has a budget or an accuracy, or if no step is within its deadline.
        """
        if query.mean_budget is None and query.min_accuracy is None and not self._needs_frontier(query):
            return None
        return (self._selector_without(query.excluded) if query.excluded else self._selector).choose(query)

    def _needs_frontier(self, query: CascadeQuery) -> bool:
        """Return whether a point is within the deadline, but no step without excluded classifiers is."""
        deadline = query.deadline
        if deadline is None or (not query.excluded and self._maxima[0] <= deadline):
            return False
        if query.excluded:
            steps = ~_call_any(self.names, self.members, self.offsets, query.excluded)
            if bool((self.maximum_durations[steps] <= deadline).any()):
                return False
        points = ~_call_any(self.point_names, self.point_members, self.point_offsets, query.excluded)
        return bool((self.point_maxima[points] <= deadline).any())

    def _selector_without(self, left_out: Sequence[str]) -> PointSelector:
        among = ~_call_any(self.point_names, self.point_members, self.point_offsets, left_out)
        if len(among) and not among.any():
            raise Infeasible(f"every cascade calls an excluded classifier: {', '.join(left_out)}")
        return PointSelector(self, among)

    def min_budget_excluding(self, left_out: Collection[str]) -> float:
        """Return the least feasible ``budget`` without some classifiers.

        Raises:
            Infeasible: every cascade calls an excluded classifier.
        """
        return self._selector_without(tuple(left_out)).list_min_budgets(None)[0][0]

    def list_points_within(self, deadline: float | None) -> list[tuple[float, int]]:
        """Return the operating points that a budget can select within a deadline.

        Each entry is (least budget that selects the point, index of the point).

        Raises:
            Infeasible: no point is within the deadline.
        """
        return self._selector.list_min_budgets(deadline)

    def list_reachable_points(self) -> list[tuple[dict[str, float], int]]:
        """Return operating points, as (limits that select the point, index of the point).

        These are the points on the cost-accuracy hull of all points, which a budget selects. For each maximum duration
        as a deadline, they also include the points on the hull of the points within it.
        """
        if not len(self.point_maxima):
            return []
        points: list[tuple[dict[str, float], int]] = [
            ({"budget": cost}, i) for cost, i in self._selector.list_min_budgets(None)
        ]
        for most in np.unique(self.point_maxima[self.point_maxima > 0]).tolist():
            own = ((cost, i) for cost, i in self._selector.list_min_budgets(most) if self.point_maxima[i] == most)
            points += [({"deadline": most, "budget": cost}, i) for cost, i in own]
        return points

    def describe_point(self, i: int) -> dict[str, Any]:
        """Return the cascade of a point, the thresholds of its calls, and its maximum duration."""
        return {
            "cascade": self._point_cascade(i),
            "thresholds": tuple(_nan_to_none(t) for t in self.point_thresholds[self.call_slice(i)].tolist()),
            "label_thresholds": tuple(self._list_label_thresholds(i)),
            "maximum_duration": float(self.point_maxima[i]),
        }

    def _to_decision(self, chosen: PointMixture, query: CascadeQuery) -> CascadeRunDecision:
        answer = self._kept_answer(chosen.choose_for_item(query.item))
        shared = ((chosen.first, 1 - chosen.share), (chosen.second, chosen.share)) if chosen.share else ()
        answers = [(self._kept_answer(i), share) for i, share in shared]
        shares = tuple(
            CascadeShare.model_construct(cascade=one["cascade"], share=share, steps=one["steps"])
            for one, share in answers
        )
        return CascadeRunDecision.model_construct(**answer, deadline=query.deadline, shares=shares)

    def _kept_answer(self, i: int) -> dict[str, Any]:
        answer = self._point_answers.get(i)
        if answer is None:
            answer = self._point_answers[i] = self._point_answer(i)
        return answer

    def _point_answer(self, i: int) -> dict[str, Any]:
        """Return the decision of a point, ignoring the query's limits."""
        calls = self.call_slice(i)
        arrays = self.point_members, self.point_thresholds, self.point_reaching
        reached = zip(*(each[calls].tolist() for each in arrays), self._list_label_thresholds(i), strict=True)
        steps = [
            CascadeStep(
                classifier=self.point_names[k],
                confidence_threshold=_nan_to_none(threshold),
                label_thresholds=by_label,
                execution_time=float(self.point_times[k]),
                worst_case_time=float(self.point_worst_times[k]),
                probability_of_reaching=reaching,
            )
            for k, threshold, reaching, by_label in reached
        ]
        return {
            "cascade": self._point_cascade(i),
            "expected_duration": float(self.point_expected[i]),
            "maximum_duration": float(self.point_maxima[i]),
            "algorithm": "frontier",
            "optimal": False,
            "lower_bound": float(self.point_times.min()),
            "discarded": (),
            "steps": tuple(self._update_times(steps, of_point=True)),
        }

    @property
    def label_thresholds(self) -> Floats:
        """Accept thresholds of each call by label, (r, L)."""
        return self.point_label_thresholds.reshape(len(self.point_members), len(self.point_labels))

    def _list_label_thresholds(self, i: int) -> list[dict[str, float]]:
        """Return the thresholds of each call of a point by label, where they differ from the common one."""
        calls = self.call_slice(i)
        return [
            {
                label: own
                for label, own in zip(self.point_labels, by_label, strict=True)
                if not isnan(own) and own != common
            }
            for common, by_label in zip(
                self.point_thresholds[calls].tolist(), self.label_thresholds[calls].tolist(), strict=True
            )
        ]

    def call_slice(self, i: int) -> slice:
        """Return the slice of a point's calls."""
        return slice(int(self.point_offsets[i]), int(self.point_offsets[i + 1]))

    def _point_cascade(self, i: int) -> tuple[str, ...]:
        return tuple(self.point_names[k] for k in self.point_members[self.call_slice(i)])

    def holdout_result(self, cascade: tuple[str, ...]) -> HoldoutResult | None:
        """Return the holdout results of a cascade; None if not measured."""
        return self._holdout_results.get(cascade)

    @cached_property
    def continuations(self) -> Continuations:
        """States from which a run can continue; computed at first use."""
        times = self.execution_times, self.worst_case_times
        setup = self.step_setup.share_setup(self.names)
        return Continuations.from_plan_arrays(*times, self.offsets, self.members, self.reaching, setup)

    def continue_from(self, called: Sequence[str], remaining_time: float) -> tuple[CascadeStep, ...] | None:
        """Return the continuation of a run with the least expected duration (see ``continuation``).

        Args:
            called: classifiers that have been called.
            remaining_time: in the plan's unit.
        Returns:
            The steps; None if the deterministic classifier may exceed the remaining time.
        """
        continuations = self.continuations
        state = frozenset(self.names.index(name) for name in called)
        continuation = continuations.find_best(state, remaining_time)
        if continuation is None:
            return None
        steps: list[CascadeStep] = []
        for k in continuation:
            steps.append(self._step(k, continuations.reaching.get(state, 1.0)))
            state |= {k}
        return tuple(self._update_times(steps, called, of_point=False))

    def keep_steps_in_time(
        self, steps: Sequence[CascadeStep], called: Sequence[str], remaining_time: float
    ) -> list[CascadeStep]:
        """Return the last of the further steps of a point, and before it those that are in time.

        Args:
            called: classifiers that have been called; they have set up their groups.
            remaining_time: in the plan's unit.
        """
        *others, last = (step for step in steps if step.classifier not in called)
        kept: list[CascadeStep] = []
        for step in others:
            tried = self._update_times([*kept, step, last], called, of_point=True)
            if sum(each.worst_case_time for each in tried) <= remaining_time:
                kept.append(step)
        return self._update_times([*kept, last], called, of_point=True)

    def _update_times(
        self, steps: Sequence[CascadeStep], called: Sequence[str] = (), *, of_point: bool
    ) -> list[CascadeStep]:
        """Return consecutive steps with their times after the earlier calls, which have set up their groups.

        of_point: whether the steps are those of a point; otherwise they are of a cascade for a deadline.
        """
        if not self.setup_names:
            return list(steps)
        names, updated = [*called, *(step.classifier for step in steps)], list[CascadeStep]()
        setup = (self if of_point else self.step_setup).share_setup(names)
        alone = self.times_alone if of_point else self.step_times
        for at, step in enumerate(steps, start=len(called)):
            saved = float(setup.compute_saved_costs(at, range(at))), setup.compute_saved_worst(at, range(at))
            time, worst = alone[step.classifier]
            times = {"execution_time": time - saved[0], "worst_case_time": worst - saved[1]}
            updated.append(step.model_copy(update=times))
        return updated

    def list_deadline_ranges(self) -> tuple[DeadlineRange, ...]:
        """Return the step function, by rising deadline."""
        ends = [*self._maxima[1:], None]
        return tuple(
            DeadlineRange(
                deadline_from=start,
                deadline_to=end,
                cascade=self._cascade(step),
                expected_duration=float(self.expected_durations[step]),
                maximum_duration=start,
                accuracy=float(self.accuracies[step]) if len(self.accuracies) else None,
            )
            for step, (start, end) in enumerate(zip(self._maxima, ends, strict=True))
        )

    def _cascade(self, step: int) -> tuple[str, ...]:
        return tuple(self.names[k] for k in self.members[self.offsets[step] : self.offsets[step + 1]])

    def _step_answer(self, step: int) -> dict[str, Any]:
        """Return the decision of a step, ignoring the query's deadline."""
        expected = float(self.expected_durations[step])
        calls = range(int(self.offsets[step]), int(self.offsets[step + 1]))
        return {
            "cascade": self._cascade(step),
            "expected_duration": expected,
            "maximum_duration": self._maxima[step],
            "algorithm": self.algorithm,
            "optimal": self.optimal,
            "lower_bound": expected if self.optimal else self.lower_bound,
            "discarded": tuple(Discarded(name=name, reason=reason) for name, reason in self.discarded),
            "steps": tuple(
                self._update_times(
                    [self._step(int(self.members[i]), float(self.reaching[i])) for i in calls], of_point=False
                )
            ),
        }

    def _step(self, k: int, reaching: float) -> CascadeStep:
        return CascadeStep(
            classifier=self.names[k],
            confidence_threshold=_nan_to_none(float(self.thresholds[k])),
            execution_time=float(self.execution_times[k]),
            worst_case_time=float(self.worst_case_times[k]),
            probability_of_reaching=reaching,
        )


def _call_any(names: Sequence[str], members: Int32s, offsets: Int64s, left_out: Sequence[str]) -> Bools:
    """Return which of k cascades call any excluded classifier, (k,)."""
    are_out = np.isin(members, [place for place, name in enumerate(names) if name in left_out])
    return np.asarray(np.logical_or.reduceat(are_out, offsets[:-1]))


def _nan_to_none(threshold: float) -> float | None:
    return None if isnan(threshold) else threshold
