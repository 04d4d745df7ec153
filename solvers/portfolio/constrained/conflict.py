"""Why nothing keeps all constraints: a smallest set of them that conflict, and by how much each would have to give.

Prices at which the relaxation of a programme without worths is bounded below 0 prove that the priced constraints cannot
hold together (Farkas). Of these one after the other is left out, for good if the others still conflict (the deletion
filter of Chinneck and Dravnieks, ORSA Journal on Computing 3, 1991): in the end no one can be left out.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from models.errors import SolverTimeout
from solvers.portfolio.constrained.highs import minimize
from solvers.portfolio.constrained.moves import RowMoves
from solvers.portfolio.constrained.prices import MIN_SECONDS, solve_relaxation
from solvers.portfolio.constrained.problem import ConstrainedProblem, Constraint, count_uses
from solvers.portfolio.constrained.solve import VIOLATION_TOLERANCE, InfeasibleProblem, solve

MAX_WHOLE_SIZE = 20_000
"""Choices of a programme that is held to be impossible only as whole choices: larger ones nearly never are."""


@dataclass(frozen=True, slots=True)
class ConstraintConflict:
    """One of the constraints that cannot hold together, and by how much its bound would have to move, with the others
    as they are; None if there was no time to tell."""

    constraint: Constraint
    violation: float | None


def find_conflicts(problem: ConstrainedProblem, remaining_s: Callable[[], float]) -> tuple[ConstraintConflict, ...]:
    """Find a smallest set of constraints that cannot hold together: without any one of them the others can. None if
    all can, or there is no time to tell."""
    kept = _blamed(problem, remaining_s)
    for constraint in kept if len(kept) > 1 else ():
        without = tuple(each for each in kept if each is not constraint)
        if len(without) < len(kept) and (smaller := _blamed(problem.with_constraints(without), remaining_s)):
            kept = smaller
    return tuple(ConstraintConflict(each, _give(problem, kept, each, remaining_s)) for each in kept)


def _blamed(problem: ConstrainedProblem, remaining_s: Callable[[], float]) -> tuple[Constraint, ...]:
    """Name constraints that cannot hold together; none if it is not certain that all cannot."""
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
    return free.constraints if _has_no_whole(free, remaining_s) else ()


def _has_no_whole(problem: ConstrainedProblem, remaining_s: Callable[[], float]) -> bool:
    """Tell whether it is certain that whole choices miss some constraint."""
    if problem.values.size > MAX_WHOLE_SIZE:
        return False
    base = np.zeros(len(problem.values), dtype=np.int64)
    moves = RowMoves.from_problem(problem, base, np.ones(problem.values.shape, dtype=np.bool_))
    if not len(moves.rows):
        return not problem.is_feasible(base)
    return minimize(moves.to_program(None), len(moves.rows), time_limit_s=max(remaining_s(), MIN_SECONDS))[1]


def _give(
    problem: ConstrainedProblem, kept: tuple[Constraint, ...], one: Constraint, remaining_s: Callable[[], float]
) -> float | None:
    """Find by how much one constraint must be missed while the others of a set are kept."""
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
"""How near to the least that a constraint must give what is told is, as a share of its use."""
