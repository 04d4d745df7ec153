"""Accuracy floors that hold on unseen queries.

Estimates are corrected for selection optimism.

Choosing by estimates is optimistically biased; the bias is larger if a classifier gets few queries. The optimism on
holdout rows is known as a function of the budget, but the cost of an assignment is known only afterward. So the
assignment is repeated. The first one uses a guess of the optimism. Each further one uses the optimism at the cost of
the previous assignment, until the floors hold.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int64s
from solvers.portfolio.constrained import ConflictingConstraints, ConstrainedChoice, Constraint

MAX_ROUNDS = 6
"""Maximum number of assignments; two are typical."""
FLOOR_TOLERANCE = 1e-6
"""Relative violation up to which a floor holds."""
OptimismFunction = Callable[[float], Floats]
"""Returns the optimism of each classifier's values, (m,), given the mean cost of a choice by mean costs."""


@dataclass(frozen=True, slots=True, eq=False)
class AccuracyFloors:
    """Queries with accuracy floors.

    Attributes:
        values: (n, m).
        means: (m,), mean cost of each classifier. The optimism of choices is looked up at the mean of these costs, also
            if queries have other costs.
        groups: (n,), from 0.
        group_count: the number of groups.
        optimism: returns the optimism of values, given the mean cost.
    """

    values: Floats
    means: Floats
    groups: Int64s
    group_count: int
    optimism: OptimismFunction

    def list_optimism(self, costs: Sequence[float]) -> Floats:
        """Return the optimism in each group, (g, m), at the mean cost of the group's choices."""
        return np.array([self.optimism(cost) for cost in costs])

    def subtract_optimism(self, optimism: Floats) -> Floats:
        """Return the values minus the optimism of each row's group: (n, m)."""
        return np.asarray(self.values - optimism[self.groups])

    def solve(
        self,
        start: Sequence[float],
        floors: Sequence[Constraint],
        solve: Callable[[Floats], ConstrainedChoice],
        most_accurate: Callable[[], ConstrainedChoice],
    ) -> ConstrainedChoice:
        """Repeat the assignment, each time with the optimism at the cost of the previous one, until the floors hold.

        Args:
            start: (g,), first guess of the mean cost of each group.
            floors: the constraints.
            solve: returns an assignment, given the values minus optimism.
            most_accurate: returns the assignment of highest accuracy without floors. If the floors are impossible with
                the guessed optimism, they are tried again with the optimism at the cost of this assignment.
        Raises:
            ConflictingConstraints: the floors are impossible.
        """
        optimism, possible, is_surest = self.list_optimism(start), None, not floors
        for _ in range(MAX_ROUNDS):
            try:
                solution = solve(self.subtract_optimism(optimism))
            except ConflictingConstraints:
                if possible is not None:
                    optimism = (possible + optimism) / 2  # bisect between too little and too much
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
        """Return the mean cost of each group; for empty groups, the guess."""
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
