"""What is best to call next when some classifiers of a cascade were called already, and so much time is left.

The plan's own *states* are the sets of classifiers that its cascades have called at some step: of these the plan knows
how likely an item gets there. From a state a run may go on as any cascade that passed it does, or straight to the
deterministic classifier. Worst-case times add up whatever the order, so the time left at a state depends on the state
alone, and the best continuation is found by one pass over the states that can be reached (Bellman's principle).
"""

from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

from models.arrays import Floats, Int32s, Int64s

MAX_MEMBERS = 2_000_000
"""Members of all states together, so that a plan which is somebody's bytes fills no memory."""
CalledSet = frozenset[int]
ExpectedCalls = tuple[float, tuple[int, ...]]
"""What is expected of it, and its calls."""


@dataclass(slots=True)
class Continuations:
    """The states of a plan with deadlines: how likely each is reached, and what its cascades call from there."""

    reaching: dict[CalledSet, float] = field(default_factory=dict)
    following: dict[CalledSet, set[int]] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)
    worst: list[float] = field(default_factory=list)
    last: int = 0

    @classmethod
    def from_plan_arrays(
        cls, execution_times: Floats, worst_case_times: Floats, offsets: Int64s, members: Int32s, reaching: Floats
    ) -> "Continuations":
        """Collect them from a plan's arrays, as ``CascadePlan`` has them: O(r) for r calls in all cascades of the plan,
        each set of at most n classifiers."""
        size = 0
        continuations = cls(
            times=execution_times.tolist(), worst=worst_case_times.tolist(), last=len(execution_times) - 1
        )
        called, chances = members.tolist(), reaching.tolist()
        for begin, end in pairwise(offsets.tolist()):
            state: CalledSet = frozenset()
            for i in range(begin, end):
                continuations.reaching[state] = chances[i]
                next_calls = continuations.following.setdefault(state, {continuations.last})
                if called[i] in state:
                    break  # no cascade calls one twice: these are somebody's bytes
                next_calls.add(called[i])
                state |= {called[i]}
                size += len(state)
            if size > MAX_MEMBERS:
                break  # the rest is as if it were not known
        return continuations

    def find_best(self, called: CalledSet, remaining_time: float) -> tuple[int, ...] | None:
        """Give what to call from a state within the time left, the deterministic classifier last, so that the rest is
        expected to take the least; None if not even that one surely fits.

        From a state that the plan does not know only the deterministic one is left. O(e) for e ways between states.
        """
        if called not in self.reaching:
            return (self.last,) if self.worst[self.last] <= remaining_time else None
        way = self._solve_state(called, remaining_time, {})[1]
        return way or None

    def _solve_state(
        self, state: CalledSet, remaining_time: float, solved: dict[CalledSet, ExpectedCalls]
    ) -> ExpectedCalls:
        """Give the time expected from here on for all items, those that do not get here counted as nothing, and the
        way; infinite and none if no way fits."""
        if state in solved:
            return solved[state]
        best: ExpectedCalls = (inf, ())
        for k in sorted(self.following.get(state, {self.last})):
            rest = remaining_time - self.worst[k]
            if rest < 0:
                continue
            after: ExpectedCalls = (0.0, ())
            if k != self.last:
                after = self._solve_state(state | {k}, rest, solved)
            expected = self.reaching.get(state, 1.0) * self.times[k] + after[0]
            if expected < best[0]:
                best = (expected, (k, *after[1]))
        solved[state] = best
        return best
