"""Fields of a cascade plan: the step function from deadlines to cascades, and the frontier."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models import InvalidRequest
from models.arrays import Amounts, Int32s, Int64s, Probabilities, Thresholds
from models.cascade import Algorithm
from solvers.base import check_array_ranges
from solvers.cascade.frontier.contents import FrontierContents

MAX_CALLS = 500
"""Maximum number of calls of a cascade."""


@dataclass(frozen=True, slots=True, eq=False)
class CascadeContents(FrontierContents):
    """The best cascade for every deadline, as k steps, and the frontier for budgets and accuracies.

    A step applies to deadlines from its own maximum duration up to that of the next step. n is the number of
    classifiers. r is the number of calls in all steps.
    """

    names: tuple[str, ...]
    """n different names, the deterministic classifier last."""
    thresholds: Thresholds
    """(n,) accept thresholds, NaN where every answer is accepted."""
    execution_times: Amounts
    """(n,) mean times of each classifier alone, with its set-up groups."""
    worst_case_times: Amounts
    """(n,) worst-case times of each classifier alone."""
    maximum_durations: Amounts
    """(k,) maximum duration of each step, its least deadline, strictly increasing."""
    expected_durations: Amounts
    """(k,) expected duration, strictly decreasing."""
    offsets: Int64s
    """(k + 1,) offsets of steps in ``members`` and ``reaching``."""
    members: Int32s
    """(r,) classifiers of each step in calling order, as indices of ``names``."""
    reaching: Probabilities
    """(r,) probability that the call is made."""
    algorithm: Algorithm
    """The algorithm that ordered the cascades."""
    optimal: bool
    """Whether the cascades are proved optimal."""
    unit: str
    """The unit of all times."""
    discarded: tuple[tuple[str, str], ...]
    """Classifiers discarded before solving, each with the reason."""
    lower_bound: float
    """Lower bound of the expected duration of every cascade, without a deadline."""
    accuracies: Probabilities = field(default_factory=lambda: np.empty(0))
    """(k,) accuracy of each step's cascade on holdout rows; (0,) if not measured."""
    durations: Amounts = field(default_factory=lambda: np.empty(0))
    """(k,) mean duration on holdout rows."""
    duration_errors: Amounts = field(default_factory=lambda: np.empty(0))
    """(k,) standard errors of ``durations``."""
    step_setup_costs: Amounts = field(default_factory=lambda: np.empty(0))
    """(G,) mean costs of set-up groups on the build half, which ``execution_times`` include."""
    step_setup_worst_times: Amounts = field(default_factory=lambda: np.empty(0))
    """(G,) worst-case times of set-up groups on the build half."""

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        times = self.thresholds, self.execution_times, self.worst_case_times
        durations = self.maximum_durations, self.expected_durations
        measured = self.accuracies, self.durations, self.duration_errors
        setup = self.step_setup_costs, self.step_setup_worst_times
        return *times, *durations, self.offsets, self.members, self.reaching, *measured, *setup

    def check(self) -> None:
        """Raise InvalidRequest for inconsistent arrays, because plans may come from untrusted bytes."""
        if any(array.ndim != 1 for array in self._arrays()):
            raise InvalidRequest("not a valid cascade plan: arrays must have one dimension")
        check_array_ranges(self)
        n, k, calls = len(self.names), len(self.maximum_durations), len(self.members)
        ends = self.offsets
        invariants = {
            "different names": len(set(self.names)) == n,
            "times and thresholds for each name": {self.thresholds.shape, self.execution_times.shape} == {(n,)}
            and self.worst_case_times.shape == (n,),
            "accuracies of all steps or none": self.accuracies.shape in ((0,), (k,)),
            "measured durations of all steps or none": self.durations.shape
            == self.duration_errors.shape
            == self.accuracies.shape,
            "a lower bound of at least 0": self.lower_bound >= 0,
            "set-up groups with costs and worst-case times": self.has_valid_setup((*self.names, *self.point_names))
            and self.setup_costs.shape == self.setup_worst_times.shape
            and self.step_setup_costs.shape == self.step_setup_worst_times.shape == self.setup_costs.shape,
            "at least one step": k > 0 and self.maximum_durations.shape == self.expected_durations.shape == (k,),
            "increasing maximum durations": bool((self.maximum_durations[1:] > self.maximum_durations[:-1]).all()),
            f"at most {MAX_CALLS} calls per step": bool((ends[1:] - ends[:-1] <= MAX_CALLS).all()),
            "offsets that cut the members into steps": ends.shape == (k + 1,)
            and ends.dtype == np.int64
            and int(ends[0]) == 0
            and int(ends[-1]) == calls
            and bool((ends[1:] > ends[:-1]).all()),
            "valid members": self.members.dtype == np.int32
            and self.members.shape == self.reaching.shape == (calls,)
            and bool(((self.members >= 0) & (self.members < n)).all()),
        }
        broken = [name for name, kept in invariants.items() if not kept]
        if broken:
            raise InvalidRequest(f"not a valid cascade plan; missing: {', '.join(broken)}")
        self.check_frontier()
