"""Optimal continuation of a running cascade, given the called classifiers and the remaining time.

A *state* is the set of classifiers that a cascade of the plan has called before some step. The probability of reaching
each state is known. From a state, a run may continue like any cascade that passes through it, or with the deterministic
classifier. A sum of worst-case times does not depend on their order, so the remaining time depends only on the state.
So one pass over the reachable states finds the best continuation (Bellman's principle).
"""

from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

from models.arrays import Floats, Int32s, Int64s
from solvers.shared_setup import NO_SETUP, SharedSetup

MAX_MEMBERS = 2_000_000
"""Maximum total size of all states; it limits the memory for untrusted plans."""
CalledSet = frozenset[int]
ExpectedCalls = tuple[float, tuple[int, ...]]
"""Expected duration, and calls."""


@dataclass(slots=True)
class Continuations:
    """States of a plan, with their reaching probabilities and possible next calls."""

    reaching: dict[CalledSet, float] = field(default_factory=dict)
    following: dict[CalledSet, set[int]] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)
    worst: list[float] = field(default_factory=list)
    last: int = 0
    setup: SharedSetup = NO_SETUP

    @classmethod
    def from_plan_arrays(
        cls,
        execution_times: Floats,
        worst_case_times: Floats,
        offsets: Int64s,
        members: Int32s,
        reaching: Floats,
        setup: SharedSetup = NO_SETUP,
    ) -> "Continuations":
        """Collect the states from a plan's arrays.

        Complexity: O(r n) for r calls in all cascades and n classifiers.
        """
        size = 0
        times, worst = execution_times.tolist(), worst_case_times.tolist()
        continuations = cls(times=times, worst=worst, last=len(times) - 1, setup=setup)
        called, probabilities = members.tolist(), reaching.tolist()
        for begin, end in pairwise(offsets.tolist()):
            state: CalledSet = frozenset()
            for i in range(begin, end):
                continuations.reaching[state] = probabilities[i]
                next_calls = continuations.following.setdefault(state, {continuations.last})
                if called[i] in state:
                    break  # invalid: a cascade calls no classifier twice
                next_calls.add(called[i])
                state |= {called[i]}
                size += len(state)
            if size > MAX_MEMBERS:
                break  # treat further states as unknown
        return continuations

    def find_best(self, called: CalledSet, remaining_time: float) -> tuple[int, ...] | None:
        """Return the calls of least expected duration within the remaining time.

        The last call is the deterministic classifier; in an unknown state it is the only call. Returns None if the
        worst-case time of the deterministic classifier exceeds the remaining time.

        Complexity: O(e) for e transitions between states.
        """
        if called not in self.reaching:
            return (self.last,) if self._find_times(self.last, called)[1] <= remaining_time else None
        calls = self._solve_state(called, remaining_time, {})[1]
        return calls or None

    def _find_times(self, k: int, state: CalledSet) -> tuple[float, float]:
        """Return the mean and the worst-case time of a call after others, which have set up their groups."""
        if not len(self.setup):
            return self.times[k], self.worst[k]
        earlier = sorted(state)
        saved = float(self.setup.compute_saved_costs(k, earlier)), self.setup.compute_saved_worst(k, earlier)
        return self.times[k] - saved[0], self.worst[k] - saved[1]

    def _solve_state(
        self, state: CalledSet, remaining_time: float, solved: dict[CalledSet, ExpectedCalls]
    ) -> ExpectedCalls:
        """Return the expected duration from a state, times its reaching probability, and the calls.

        The duration is inf if no calls fit in the remaining time.
        """
        if state in solved:
            return solved[state]
        best: ExpectedCalls = (inf, ())
        for k in sorted(self.following.get(state, {self.last})):
            time, worst = self._find_times(k, state)
            rest = remaining_time - worst
            if rest < 0:
                continue
            after: ExpectedCalls = (0.0, ())
            if k != self.last:
                after = self._solve_state(state | {k}, rest, solved)
            expected = self.reaching.get(state, 1.0) * time + after[0]
            if expected < best[0]:
                best = (expected, (k, *after[1]))
        solved[state] = best
        return best
