"""What a cascade build keeps, and how it answers: the step function from deadlines to cascades."""

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models import InvalidRequest
from models.cascade import Algorithm, CascadeQuery, CascadeRunDecision, CascadeStep, DeadlineRange, Discarded
from models.errors import Infeasible
from solvers.arrays import Floats, Int32s, Int64s
from solvers.base import complete
from solvers.cascade.solve import number


@dataclass(frozen=True, slots=True, eq=False)
class CascadePlan:
    """The best cascade for every deadline. All times are in ``unit``.

    names: the n classifiers, the deterministic one last. thresholds: (n,) confidence at which an answer is accepted,
    NaN where every answer is. execution_times, worst_case_times: (n,). Step i holds for deadlines from
    maximum_durations[i] (k,), strictly increasing, up to the next; it expects expected_durations[i] (k,), strictly
    decreasing, and calls
    members[offsets[i] : offsets[i + 1]], indices into names, reached with the probabilities of the same places in
    reaching. lower_bound: no cascade has a smaller expected duration, whatever the deadline.
    """

    names: tuple[str, ...]
    thresholds: Floats
    execution_times: Floats
    worst_case_times: Floats
    maximum_durations: Floats
    expected_durations: Floats
    offsets: Int64s
    members: Int32s
    reaching: Floats
    algorithm: Algorithm
    optimal: bool
    unit: str
    discarded: tuple[tuple[str, str], ...]
    lower_bound: float
    _maxima: list[float] = field(init=False, repr=False, metadata={"derived": True})
    _answers: list[dict[str, Any] | None] = field(init=False, repr=False, metadata={"derived": True})

    def __post_init__(self) -> None:
        self.check()
        maxima = self.maximum_durations.tolist()
        complete(self, {"_maxima": maxima, "_answers": [None] * len(maxima)})

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        times = self.thresholds, self.execution_times, self.worst_case_times
        return *times, self.maximum_durations, self.expected_durations, self.offsets, self.members, self.reaching

    def check(self) -> None:
        """Raise InvalidRequest if the arrays do not fit each other: a plan may come from anybody's bytes."""
        if any(array.ndim != 1 for array in self._arrays()):
            raise InvalidRequest("this is no cascade plan: its arrays must have one dimension")
        n, k, calls = len(self.names), len(self.maximum_durations), len(self.members)
        ends = self.offsets
        promises = {
            "different names": len(set(self.names)) == n,
            "thresholds that can be reached": not bool(np.any(np.isinf(self.thresholds))),
            "times and thresholds for each name": {self.thresholds.shape, self.execution_times.shape} == {(n,)}
            and self.worst_case_times.shape == (n,),
            "at least one step": k > 0 and self.maximum_durations.shape == self.expected_durations.shape == (k,),
            "increasing maximum durations": bool(np.all(np.diff(self.maximum_durations) > 0)),
            "finite times": all(
                bool(np.all(np.isfinite(times)))
                for times in (self.execution_times, self.worst_case_times, self.maximum_durations, self.reaching)
            )
            and bool(np.all(np.isfinite(self.expected_durations))),
            "offsets that cut the members into steps": ends.shape == (k + 1,)
            and ends.dtype == np.int64
            and int(ends[0]) == 0
            and int(ends[-1]) == calls
            and bool(np.all(np.diff(ends) > 0)),
            "members that are names": self.members.dtype == np.int32
            and self.members.shape == self.reaching.shape == (calls,)
            and bool(np.all((self.members >= 0) & (self.members < n))),
        }
        broken = [promise for promise, kept in promises.items() if not kept]
        if broken:
            raise InvalidRequest(f"this is no cascade plan: it lacks {', '.join(broken)}")

    def decide(self, query: CascadeQuery) -> CascadeRunDecision:
        """Answer with the best cascade for the query's deadline; raises Infeasible, with the numbers, if none fits.

        O(log k) for k steps. What a step answers is made once, when it is first asked for.
        """
        deadline = query.deadline
        step = len(self._maxima) - 1 if deadline is None else bisect_right(self._maxima, deadline) - 1
        if step < 0:
            shortest = f"{number(self._maxima[0])} {self.unit}"
            raise Infeasible(f"the fastest cascade takes at most {shortest}, the deadline is {number(deadline or 0.0)}")
        answer = self._answers[step]
        if answer is None:
            answer = self._answers[step] = self._answer(step)
        return CascadeRunDecision.model_construct(**answer, deadline=deadline)

    def ranges(self) -> tuple[DeadlineRange, ...]:
        """List the whole step function, from the tightest deadline on."""
        ends = [*self._maxima[1:], None]
        return tuple(
            DeadlineRange(
                deadline_from=start,
                deadline_to=end,
                cascade=self._cascade(step),
                expected_duration=float(self.expected_durations[step]),
                maximum_duration=start,
            )
            for step, (start, end) in enumerate(zip(self._maxima, ends, strict=True))
        )

    def _cascade(self, step: int) -> tuple[str, ...]:
        return tuple(self.names[k] for k in self.members[self.offsets[step] : self.offsets[step + 1]])

    def _answer(self, step: int) -> dict[str, Any]:
        """Make everything of a decision but the deadline that was asked for."""
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
            "steps": tuple(self._step(int(self.members[i]), float(self.reaching[i])) for i in calls),
        }

    def _step(self, k: int, reaching: float) -> CascadeStep:
        threshold = float(self.thresholds[k])
        return CascadeStep(
            classifier=self.names[k],
            confidence_threshold=None if np.isnan(threshold) else threshold,
            execution_time=float(self.execution_times[k]),
            worst_case_time=float(self.worst_case_times[k]),
            probability_of_reaching=reaching,
        )
