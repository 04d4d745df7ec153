"""Floors of accuracy that come true on queries never seen: what is taken off estimates before they count for a floor.

Whoever chooses by estimates chooses those that are too high, the more so the fewer queries a classifier gets. By how
much they were on held-out items is known for budgets; what an assignment costs is known when it is made. So it is made
with what was taken off at a guess, and again with what has to be taken off at its cost, until its floors hold so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int64s
from solvers.portfolio.constrained import ConflictingConstraints, ConstrainedChoice, Constraint

MAX_ROUNDS = 6
"""Assignments that are made at most; two are usual."""
FLOOR_TOLERANCE = 1e-6
"""A floor that is missed by less, as a share of it, holds."""
OptimismFunction = Callable[[float], Floats]
"""Given what a choice costs on average by the means, what is taken off the values of each classifier, (m,)."""


@dataclass(frozen=True, slots=True, eq=False)
class AccuracyFloors:
    """Queries whose floors are to come true. values: (n, m); means: (m,) what queries cost each classifier on average,
    which tells choices apart whatever these queries cost; groups: (n,), of which there are ``labels``; too_high: what
    is taken off."""

    values: Floats
    means: Floats
    groups: Int64s
    group_count: int
    optimism: OptimismFunction

    def list_optimism(self, costs: Sequence[float]) -> Floats:
        """Say what is taken off in each group, given what its choice costs by the means: (g, m)."""
        return np.array([self.optimism(cost) for cost in costs])

    def subtract_optimism(self, optimism: Floats) -> Floats:
        """Give what counts for floors, (n, m)."""
        return np.asarray(self.values - optimism[self.groups])

    def solve(
        self,
        start: Sequence[float],
        floors: Sequence[Constraint],
        solve: Callable[[Floats], ConstrainedChoice],
        most_accurate: Callable[[], ConstrainedChoice],
    ) -> ConstrainedChoice:
        """Assign until floors hold with what has to be taken off at the cost of the assignment.

        start: (g,) the first guess of what a query of each group costs. floors: the constraints. solve: assigns, given
        what counts for floors. most_accurate: assigns without floors, as accurately as can be: where a guess makes
        floors impossible, they are so only if they are at the cost of that. Raises ConflictingConstraints.
        """
        optimism, possible, is_surest = self.list_optimism(start), None, not floors
        for _ in range(MAX_ROUNDS):
            try:
                solution = solve(self.subtract_optimism(optimism))
            except ConflictingConstraints:
                if possible is not None:
                    optimism = (possible + optimism) / 2  # between what was not enough and what is too much
                    continue
                if is_surest:
                    raise
                optimism, is_surest = self.list_optimism(self._mean_costs(most_accurate().choice, start)), True
                continue
            needed = self.list_optimism(self._mean_costs(solution.choice, start))
            if self._are_met(solution.choice, needed, floors):
                break
            optimism, possible = np.maximum(optimism, needed), optimism
        return solution

    def _mean_costs(self, choice: Int64s, start: Sequence[float]) -> list[float]:
        """Give what a query of each group costs on average; of a group without queries the guess."""
        each = self.means[choice]
        sums, counts = (
            np.bincount(self.groups, each, self.group_count),
            np.bincount(self.groups, minlength=self.group_count),
        )
        return [s / c if c else guess for s, c, guess in zip(sums.tolist(), counts.tolist(), start, strict=True)]

    def _are_met(self, choice: Int64s, optimism: Floats, floors: Sequence[Constraint]) -> bool:
        each = self.values[np.arange(len(choice)), choice] - optimism[self.groups, choice]
        of_groups = np.bincount(self.groups, each, self.group_count)
        reached = [float(each.sum() if one.group is None else of_groups[one.group]) for one in floors]
        return all(sum_ >= one.bound * (1 - FLOOR_TOLERANCE) for sum_, one in zip(reached, floors, strict=True))
