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

MOST_MEMBERS = 2_000_000
"""Members of all states together, so that a plan which is somebody's bytes fills no memory."""
State = frozenset[int]
Way = tuple[float, tuple[int, ...]]
"""What is expected of it, and its calls."""


@dataclass(slots=True)
class Continuations:
    """The states of a plan with deadlines: how likely each is reached, and what its cascades call from there."""

    reaching: dict[State, float] = field(default_factory=dict)
    following: dict[State, set[int]] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)
    worst: list[float] = field(default_factory=list)
    last: int = 0

    @classmethod
    def of(
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
            state: State = frozenset()
            for i in range(begin, end):
                continuations.reaching[state] = chances[i]
                ways = continuations.following.setdefault(state, {continuations.last})
                if called[i] in state:
                    break  # no cascade calls one twice: these are somebody's bytes
                ways.add(called[i])
                state |= {called[i]}
                size += len(state)
            if size > MOST_MEMBERS:
                break  # the rest is as if it were not known
        return continuations

    def best(self, called: State, left: float) -> tuple[int, ...] | None:
        """Give what to call from a state within the time left, the deterministic classifier last, so that the rest is
        expected to take the least; None if not even that one surely fits.

        From a state that the plan does not know only the deterministic one is left. O(e) for e ways between states.
        """
        if called not in self.reaching:
            return (self.last,) if self.worst[self.last] <= left else None
        way = self._best(called, left, {})[1]
        return way or None

    def _best(self, state: State, left: float, solved: dict[State, Way]) -> Way:
        """Give the time expected from here on for all items, those that do not get here counted as nothing, and the
        way; infinite and none if no way fits."""
        if state in solved:
            return solved[state]
        best: Way = (inf, ())
        for k in sorted(self.following.get(state, {self.last})):
            rest = left - self.worst[k]
            if rest < 0:
                continue
            after: Way = (0.0, ())
            if k != self.last:
                after = self._best(state | {k}, rest, solved)
            expected = self.reaching.get(state, 1.0) * self.times[k] + after[0]
            if expected < best[0]:
                best = (expected, (k, *after[1]))
        solved[state] = best
        return best
