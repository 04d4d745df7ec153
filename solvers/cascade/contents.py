"""What a cascade plan keeps: the step function from deadlines to cascades, and the frontier beside it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models import InvalidRequest
from models.arrays import Amounts, Int32s, Int64s, Probabilities, Thresholds
from models.cascade import Algorithm
from solvers.base import refuse_out_of_range
from solvers.cascade.frontier.contents import FrontierContents

MAX_CALLS = 500
"""The most classifiers that a cascade calls."""


@dataclass(frozen=True, slots=True, eq=False)
class CascadeContents(FrontierContents):
    """The best cascade for every deadline: k steps, of which each holds from its longest duration up to the next one's.
    Beside them the frontier, for who asks for a cost or an accuracy.

    There are n classifiers, and r calls in the cascades of all steps together.
    """

    names: tuple[str, ...]
    """n different names, that of the deterministic classifier last."""
    thresholds: Thresholds
    """(n,) the confidence from which on an answer is accepted, NaN where every answer is."""
    execution_times: Amounts
    """(n,) the time that each classifier takes on average."""
    worst_case_times: Amounts
    """(n,) the time that each takes at most."""
    maximum_durations: Amounts
    """(k,) how long the cascade of each step takes at most, strictly increasing: its least deadline."""
    expected_durations: Amounts
    """(k,) how long it takes on average, strictly decreasing."""
    offsets: Int64s
    """(k + 1,) cuts ``members`` and ``reaching`` into steps."""
    members: Int32s
    """(r,) the classifiers that each step calls, in their order, as places in ``names``."""
    reaching: Probabilities
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
    accuracies: Probabilities = field(default_factory=lambda: np.empty(0))
    """(k,) the share of held-out rows that each step's cascade answers rightly; (0,): not measured."""
    durations: Amounts = field(default_factory=lambda: np.empty(0))
    """(k,) how long held-out rows take on average."""
    duration_errors: Amounts = field(default_factory=lambda: np.empty(0))
    """(k,) the standard errors of these."""

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        times = self.thresholds, self.execution_times, self.worst_case_times
        durations = self.maximum_durations, self.expected_durations
        measured = self.accuracies, self.durations, self.duration_errors
        return *times, *durations, self.offsets, self.members, self.reaching, *measured

    def check(self) -> None:
        """Raise InvalidRequest if the arrays do not fit each other: a plan may come from anybody's bytes."""
        if any(array.ndim != 1 for array in self._arrays()):
            raise InvalidRequest("this is no cascade plan: its arrays must have one dimension")
        refuse_out_of_range(self)
        n, k, calls = len(self.names), len(self.maximum_durations), len(self.members)
        ends = self.offsets
        promises = {
            "different names": len(set(self.names)) == n,
            "times and thresholds for each name": {self.thresholds.shape, self.execution_times.shape} == {(n,)}
            and self.worst_case_times.shape == (n,),
            "accuracies of all steps or none": self.accuracies.shape in ((0,), (k,)),
            "measured durations of the same": self.durations.shape
            == self.duration_errors.shape
            == self.accuracies.shape,
            "a lower bound of at least 0": self.lower_bound >= 0,
            "at least one step": k > 0 and self.maximum_durations.shape == self.expected_durations.shape == (k,),
            "increasing maximum durations": bool((self.maximum_durations[1:] > self.maximum_durations[:-1]).all()),
            f"at most {MAX_CALLS} calls a step": bool((ends[1:] - ends[:-1] <= MAX_CALLS).all()),
            "offsets that cut the members into steps": ends.shape == (k + 1,)
            and ends.dtype == np.int64
            and int(ends[0]) == 0
            and int(ends[-1]) == calls
            and bool((ends[1:] > ends[:-1]).all()),
            "members that are names": self.members.dtype == np.int32
            and self.members.shape == self.reaching.shape == (calls,)
            and bool(((self.members >= 0) & (self.members < n)).all()),
        }
        broken = [promise for promise, kept in promises.items() if not kept]
        if broken:
            raise InvalidRequest(f"this is no cascade plan: it lacks {', '.join(broken)}")
        self.check_frontier()
