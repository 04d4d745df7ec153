"""Infeasibility analysis: a minimal set of conflicting constraints, and the violation of each.

Set all values to 0. If the dual bound is then negative at some dual prices, the constraints with positive prices
conflict (Farkas' lemma). The deletion filter then tries to drop each constraint. A constraint stays dropped if the
remaining ones still conflict.

Source: Chinneck, Dravnieks, *ORSA Journal on Computing* 3, 1991.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from models.errors import SolverTimeout
from solvers.portfolio.constrained.highs import minimize
from solvers.portfolio.constrained.moves import RowMoves
from solvers.portfolio.constrained.prices import MIN_HIGHS_S, solve_relaxation
from solvers.portfolio.constrained.problem import ConstrainedProblem, Constraint, count_uses
from solvers.portfolio.constrained.solve import VIOLATION_TOLERANCE, InfeasibleProblem, solve

MAX_WHOLE_SIZE = 20_000
"""Maximum number of choices for which integer infeasibility is tested; larger problems are hardly ever affected."""


@dataclass(frozen=True, slots=True)
class ConstraintConflict:
    """A constraint of a conflicting set.

    Attributes:
        constraint: the constraint.
        violation: change of this bound that resolves the conflict if all other bounds stay; None if time ran out.
    """

    constraint: Constraint
    violation: float | None


def find_conflicts(problem: ConstrainedProblem, remaining_s: Callable[[], float]) -> tuple[ConstraintConflict, ...]:
    """Return a minimal set of conflicting constraints; empty if none conflict, or time runs out."""
    kept = _find_conflicting(problem, remaining_s)
    for constraint in kept if len(kept) > 1 else ():
        others = tuple(each for each in kept if each is not constraint)
        if len(others) < len(kept) and (smaller := _find_conflicting(problem.with_constraints(others), remaining_s)):
            kept = smaller
    return tuple(ConstraintConflict(each, _minimize_violation(problem, kept, each, remaining_s)) for each in kept)


def _find_conflicting(problem: ConstrainedProblem, remaining_s: Callable[[], float]) -> tuple[Constraint, ...]:
    """Return conflicting constraints; empty if no conflict is proved."""
    free = replace(problem, values=np.zeros_like(problem.values))
    k = len(free.constraints)
    if not k or remaining_s() <= 0:
        return ()
    close = 0.1 * VIOLATION_TOLERANCE / len(free.values)
    relaxation = solve_relaxation(free, np.ones(k), close, remaining_s)
    if relaxation.bound < -0.5 * VIOLATION_TOLERANCE:
        return tuple(
            each for each, price in zip(free.constraints, relaxation.prices.tolist(), strict=True) if price > 0
        )
    return free.constraints if _is_integer_infeasible(free, remaining_s) else ()


def _is_integer_infeasible(problem: ConstrainedProblem, remaining_s: Callable[[], float]) -> bool:
    """Return whether infeasibility with integer assignments is proved."""
    if problem.values.size > MAX_WHOLE_SIZE:
        return False
    base = np.zeros(len(problem.values), dtype=np.int64)
    moves = RowMoves.from_problem(problem, base, np.ones(problem.values.shape, dtype=np.bool_))
    if not len(moves.rows):
        return not problem.is_feasible(base)
    return minimize(moves.to_program(None), len(moves.rows), time_limit_s=max(remaining_s(), MIN_HIGHS_S))[1]


def _minimize_violation(
    problem: ConstrainedProblem, kept: tuple[Constraint, ...], one: Constraint, remaining_s: Callable[[], float]
) -> float | None:
    """Return the least violation of one constraint if all others of the set hold."""
    n, m = problem.values.shape
    rows, choices = np.divmod(np.arange(n * m), m)
    use = count_uses(problem, one, rows, choices).reshape(n, m)
    unit = float(np.abs(use).max()) or 1.0
    others = tuple(each for each in kept if each is not one)
    try:
        solution = solve(replace(problem, values=-use / unit, constraints=others), VIOLATION_GAP, remaining_s)
    except (InfeasibleProblem, SolverTimeout):
        return None
    return max(-unit * solution.value - one.sign * one.bound, 0.0)


VIOLATION_GAP = 1e-6
"""Relative optimality gap of reported violations."""
