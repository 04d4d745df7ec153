"""Assign each query to one classifier under several constraints at once, to a proved gap (beyond OCCAM's Equation 4).

Budgets, capacities, floors and shares, of all queries or of groups of them, couple the queries. With only one budget
``knapsack`` is far faster still.

==============  ==========================================================================================
module          what it does
==============  ==========================================================================================
``programme``   what constraints are, what choices use of them, what prices prove
``prices``      the linear relaxation: prices of all constraints, from samples to all rows
``moves``       rows that leave a choice for another, as columns of a small programme
``highs``       HiGHS by its Python interface
``solve``       an assignment near to the relaxation's, and a search of what a better one can contain
``conflict``    constraints that cannot hold together, and by how much they would have to give
==============  ==========================================================================================

The answer is the same for the same input, whatever the order of the queries, unless time runs out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

import numpy as np
from numpy.typing import ArrayLike

from models.arrays import Floats, Int64s
from models.errors import SolverTimeout
from solvers.portfolio.constrained.conflict import ConstraintConflict, find_conflicts
from solvers.portfolio.constrained.problem import ConstrainedProblem, Constraint
from solvers.portfolio.constrained.solve import AssignmentSolution, InfeasibleProblem, solve

__all__ = ["ConflictingConstraints", "ConstrainedChoice", "Constraint", "ConstraintConflict", "assign_constrained"]


@dataclass(frozen=True, slots=True, eq=False)
class ConstrainedChoice(AssignmentSolution):
    """A solution, and used: (k,) what it uses of each constraint."""

    used: Floats


class ConflictingConstraints(Exception):
    """No assignment keeps all constraints; ``conflicts`` are a smallest set of them that cannot hold together."""

    def __init__(self, conflicting: tuple[ConstraintConflict, ...]) -> None:
        super().__init__(
            "constraints that cannot hold together: " + ", ".join(".".join(c.constraint.name) for c in conflicting)
        )
        self.conflicts = conflicting


def assign_constrained(
    values: ArrayLike,
    constraints: Sequence[Constraint],
    *,
    uses: Sequence[ArrayLike] = (),
    groups: Int64s | None = None,
    gap: float = 1e-4,
    time_limit_s: float | None = None,
    clock: Callable[[], float] = monotonic,
) -> ConstrainedChoice:
    """Maximise the sum of worths so that every constraint holds.

    worths: (n, m) finite, of any sign. uses: matrices of (n, m), or (m,) where all queries use alike, that constraints
    count by their place. groups: (n,) from 0. gap: how far the value may be from the best there is, relative to it.
    time_limit_s: after that many seconds by ``clock`` the best assignment found is returned; ``gap`` of the solution
    says what was proved of the whole programme, always. Constraints hold up to ``programme.ROUNDING``.

    O(n m u) for u matrices, some dozen times, and HiGHS on some thousand columns; exponential in the worst case where
    the gap is small. Raises ConflictingConstraints, and SolverTimeout if nothing was found in time.

    >>> one_each = [Constraint(("at_most",), None, 1.0, classifier=1)]
    >>> solution = assign_constrained([[0.5, 0.9], [0.5, 0.6], [0.7, 0.9]], one_each)
    >>> solution.choice.tolist(), round(solution.value, 9), solution.prices.round(9).tolist()
    ([1, 0, 0], 2.1, [0.2])
    """
    numbers = np.asarray(values, dtype=np.float64)
    uses_of_all = [np.broadcast_to(np.asarray(use, dtype=np.float64), numbers.shape) for use in uses]
    labels = np.zeros(len(numbers), dtype=np.int64) if groups is None else groups
    order = _order([numbers, *uses_of_all], labels)
    unit = float(np.ptp(numbers)) or 1.0  # worths of any size are counted in it: HiGHS takes 1e20 for infinite
    problem = ConstrainedProblem(
        numbers[order] / unit,
        tuple(use if use.strides[0] == 0 else use[order] for use in uses_of_all),
        labels[order],
        max([int(labels.max()), *(c.group for c in constraints if c.group is not None)]) + 1,
        tuple(constraints),
        np.ones(len(numbers)),
    )
    end = np.inf if time_limit_s is None else clock() + time_limit_s
    left = (lambda: np.inf) if time_limit_s is None else (lambda: end - clock())
    try:
        solution = solve(problem, gap, left)
    except InfeasibleProblem:
        conflicting = find_conflicts(problem, left)
        if not conflicting:
            raise SolverTimeout("no assignment was found, and no constraints that conflict, in time") from None
        raise ConflictingConstraints(conflicting) from None
    choice = np.empty(len(numbers), dtype=np.int64)
    choice[order] = solution.choice
    choice.flags.writeable = False
    used = problem.sum_uses(solution.choice)
    return ConstrainedChoice(choice, unit * solution.value, unit * solution.bound, unit * solution.prices, used)


def _order(matrices: Sequence[Floats], groups: Int64s) -> Int64s:
    """Order rows by their numbers alone, so that the order in which queries come makes no difference: (n,)."""
    key = np.zeros(len(groups))
    weights = np.random.default_rng(0).random((len(matrices), matrices[0].shape[1]))
    for table, each in zip(matrices, weights, strict=True):
        scale = float(np.abs(table).max()) or 1.0
        for weight, column in zip((each / scale).tolist(), table.T, strict=True):
            key += weight * column
    return np.lexsort((key, groups))
