"""What a cascade build keeps, and how it answers: the step function from deadlines to cascades."""

from bisect import bisect_right
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models import Fault, InvalidRequest
from models.arrays import Floats, Int32s, Int64s
from models.cascade import Algorithm, CascadeQuery, CascadeRunDecision, CascadeStep, DeadlineRange, Discarded
from models.errors import Infeasible
from solvers.base import complete
from solvers.cascade.solve import number


class HeldOut(NamedTuple):
    """What a cascade did with held-out rows: the share that it answers rightly, the mean duration and its standard
    error; None: built before that was kept."""

    accuracy: float
    duration: float | None
    duration_error: float | None


@dataclass(frozen=True, slots=True, eq=False)
class CascadePlan:
    """The best cascade for every deadline: k steps, of which each holds from its longest duration up to the next one's.

    There are n classifiers, and r calls in the cascades of all steps together.
    """

    names: tuple[str, ...]
    """n different names, that of the deterministic classifier last."""
    thresholds: Floats
    """(n,) the confidence from which on an answer is accepted, NaN where every answer is."""
    execution_times: Floats
    """(n,) the time that each classifier takes on average."""
    worst_case_times: Floats
    """(n,) the time that each takes at most."""
    maximum_durations: Floats
    """(k,) how long the cascade of each step takes at most, strictly increasing: its least deadline."""
    expected_durations: Floats
    """(k,) how long it takes on average, strictly decreasing."""
    offsets: Int64s
    """(k + 1,) cuts ``members`` and ``reaching`` into steps."""
    members: Int32s
    """(r,) the classifiers that each step calls, in their order, as places in ``names``."""
    reaching: Floats
    """(r,) how likely it is that the call is made."""
    algorithm: Algorithm
    """What put the cascades in order."""
    optimal: bool
    """Whether the cascades are proved to be the best."""
    unit: str
    """The unit of all times."""
    discarded: tuple[tuple[str, str], ...]
    """Classifiers set aside before solving, each with the reason."""
    lower_bound: float
    """No cascade has a smaller expected duration, whatever the deadline."""
    accuracies: Floats = field(default_factory=lambda: np.empty(0))
    """(k,) the share of held-out rows that each step's cascade answers rightly; (0,): built before that was kept."""
    durations: Floats = field(default_factory=lambda: np.empty(0))
    """(k,) how long held-out rows take on average; (0,): built before that was kept."""
    duration_errors: Floats = field(default_factory=lambda: np.empty(0))
    """(k,) the standard errors of these; (0,): built before that was kept."""
    _maxima: list[float] = field(init=False, repr=False, metadata={"derived": True})
    """``maximum_durations``, in which a list is searched faster."""
    _measured: dict[tuple[str, ...], HeldOut] = field(init=False, repr=False, metadata={"derived": True})
    """What each cascade did with held-out rows, where that was kept."""
    _answers: list[dict[str, Any] | None] = field(init=False, repr=False, metadata={"derived": True})
    """What each of the k steps answers, from when it was first asked."""

    def __post_init__(self) -> None:
        self.check()
        maxima = self.maximum_durations.tolist()
        measured = {self._cascade(step): self._held_out(step) for step in range(len(self.accuracies))}
        complete(self, {"_maxima": maxima, "_measured": measured, "_answers": [None] * len(maxima)})

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        times = self.thresholds, self.execution_times, self.worst_case_times
        durations = self.maximum_durations, self.expected_durations
        measured = self.accuracies, self.durations, self.duration_errors
        return *times, *durations, self.offsets, self.members, self.reaching, *measured

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
            "accuracies from 0 to 1 of all steps or none": self.accuracies.shape in ((0,), (k,))
            and bool(np.all((self.accuracies >= 0) & (self.accuracies <= 1))),
            "measured durations of all steps or none": self.durations.shape == self.duration_errors.shape
            and self.durations.shape in ((0,), (k,))
            and all(bool(np.all(np.isfinite(e) & (e >= 0))) for e in (self.durations, self.duration_errors)),
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
        """Answer with the best cascade for the query's deadline, of those that are as accurate as it asks on the
        held-out rows; raises Infeasible, with the numbers, if none fits.

        O(log k) for k steps, O(k) where accuracy is asked for. What a step answers is made once, when it is first asked
        for.
        """
        deadline = query.deadline
        step = len(self._maxima) - 1 if deadline is None else bisect_right(self._maxima, deadline) - 1
        if step < 0:
            shortest = f"{_no_less(self._maxima[0])} {self.unit}"
            asked = f"the fastest cascade takes at most {shortest}, the deadline is {number(deadline or 0.0)}"
            raise Infeasible(f"{asked}; where single slow calls may be late, build with worst_case_quantile below 1")
        if query.min_accuracy is not None:
            step = self._accurate(step, query.min_accuracy)
        answer = self._answers[step]
        if answer is None:
            answer = self._answers[step] = self._answer(step)
        return CascadeRunDecision.model_construct(**answer, deadline=deadline)

    def _held_out(self, step: int) -> HeldOut:
        accuracy = float(self.accuracies[step])
        if not len(self.durations):
            return HeldOut(accuracy, None, None)
        return HeldOut(accuracy, float(self.durations[step]), float(self.duration_errors[step]))

    def measured(self, cascade: tuple[str, ...]) -> HeldOut | None:
        """Say what a cascade did with the held-out rows; None if that was not kept."""
        return self._measured.get(cascade)

    def _accurate(self, latest: int, wanted: float) -> int:
        """Find the step up to the latest that takes least time, which is the last, and is accurate enough."""
        if not len(self.accuracies):
            fault = "is not known of this artifact, which an older version built: build it again"
            raise InvalidRequest.at(Fault(("min_accuracy",), fault))
        able = np.flatnonzero(self.accuracies[: latest + 1] >= wanted)
        if not len(able):
            best = float(self.accuracies[: latest + 1].max())
            within = f"of those that take at most {number(self._maxima[latest])} {self.unit} "
            raise Infeasible(f"{within}the most accurate cascade is right {best:.4g} of the time, asked is {wanted:g}")
        return int(able[-1])

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
                accuracy=float(self.accuracies[step]) if len(self.accuracies) else None,
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


def _no_less(value: float) -> str:
    """Write a deadline that can be asked for, in six digits.

    >>> _no_less(109.10362300000997), _no_less(36.0)
    ('109.104', '36')
    """
    return f"{float(Context(prec=6, rounding=ROUND_CEILING).create_decimal_from_float(value)):.6g}"
