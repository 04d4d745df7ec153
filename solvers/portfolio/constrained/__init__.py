"""Constrained assignment of one classifier per query, to a proved gap (beyond OCCAM).

Constraints are budgets, capacities, floors, and shares. Each constraint couples all queries, or those of a group. For a
single budget, ``knapsack`` is much faster.

==============  ==========================================================================================
module          purpose
==============  ==========================================================================================
``problem``     constraints, their use by choices, and dual bounds
``prices``      the linear relaxation: dual prices of all constraints, from samples to all rows
``moves``       rows that change their choice, as columns of a small linear program
``highs``       the HiGHS solver
``solve``       rounding of the relaxation, and search for better assignments
``conflict``    minimal sets of conflicting constraints, and their violations
==============  ==========================================================================================

The result is deterministic and does not depend on the order of queries, unless time runs out.
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
    """An assignment, and the use of each constraint, ``used``: (k,)."""

    used: Floats


class ConflictingConstraints(Exception):
    """No assignment satisfies all constraints; ``conflicts`` is a minimal conflicting set."""

    def __init__(self, conflicting: tuple[ConstraintConflict, ...]) -> None:
        super().__init__("conflicting constraints: " + ", ".join(".".join(c.constraint.name) for c in conflicting))
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
    """Maximize the sum of values subject to constraints.

    Constraints hold up to ``problem.ROUNDING``.

    Args:
        values: (n, m), finite, of any sign.
        constraints: k constraints.
        uses: matrices of use per query and classifier, (n, m), or (m,) if it is equal for all queries. A constraint
            refers to a matrix by its index.
        groups: (n,), from 0.
        gap: relative optimality gap.
        time_limit_s: seconds by ``clock`` after which the best assignment so far is returned with its proved gap.
    Raises:
        ConflictingConstraints: no assignment satisfies all constraints.
        SolverTimeout: no assignment was found in time.
    Complexity: some dozen times O(n m u) for u matrices, and HiGHS on some thousand columns. Exponential in the worst
    case if the gap is small.

    >>> one_each = [Constraint(("at_most",), None, 1.0, classifier=1)]
    >>> solution = assign_constrained([[0.5, 0.9], [0.5, 0.6], [0.7, 0.9]], one_each)
    >>> solution.choice.tolist(), round(solution.value, 9), solution.prices.round(9).tolist()
    ([1, 0, 0], 2.1, [0.2])
    """
    numbers = np.asarray(values, dtype=np.float64)
    uses_of_all = [np.broadcast_to(np.asarray(use, dtype=np.float64), numbers.shape) for use in uses]
    labels = np.zeros(len(numbers), dtype=np.int64) if groups is None else groups
    order = _sort_rows([numbers, *uses_of_all], labels)
    unit = float(np.ptp(numbers)) or 1.0  # rescale values: HiGHS treats 1e20 as infinite
    problem = ConstrainedProblem(
        numbers[order] / unit,
        tuple(use if use.strides[0] == 0 else use[order] for use in uses_of_all),
        labels[order],
        max([int(labels.max()), *(c.group for c in constraints if c.group is not None)]) + 1,
        tuple(constraints),
        np.ones(len(numbers)),
    )
    end = np.inf if time_limit_s is None else clock() + time_limit_s
    remaining_s = (lambda: np.inf) if time_limit_s is None else (lambda: end - clock())
    try:
        solution = solve(problem, gap, remaining_s)
    except InfeasibleProblem:
        conflicting = find_conflicts(problem, remaining_s)
        if not conflicting:
            raise SolverTimeout("no assignment and no conflict found within the time limit") from None
        raise ConflictingConstraints(conflicting) from None
    choice = np.empty(len(numbers), dtype=np.int64)
    choice[order] = solution.choice
    choice.flags.writeable = False
    used = problem.sum_uses(solution.choice)
    return ConstrainedChoice(choice, unit * solution.value, unit * solution.bound, unit * solution.prices, used)


def _sort_rows(matrices: Sequence[Floats], groups: Int64s) -> Int64s:
    """Return an order of the rows, (n,), that depends only on their numbers, not on the input order."""
    key = np.zeros(len(groups))
    weights = np.random.default_rng(0).random((len(matrices), matrices[0].shape[1]))
    for table, each in zip(matrices, weights, strict=True):
        scale = float(np.abs(table).max()) or 1.0
        for weight, column in zip((each / scale).tolist(), table.T, strict=True):
            key += weight * column
    return np.lexsort((key, groups))
