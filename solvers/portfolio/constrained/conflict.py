"""Why nothing keeps all constraints: a smallest set of them that conflict, and by how much each would have to give.

Prices at which the relaxation of a programme without worths is bounded below 0 prove that the priced constraints cannot
hold together (Farkas). Of these one after the other is left out, for good if the others still conflict (the deletion
filter of Chinneck and Dravnieks, ORSA Journal on Computing 3, 1991): in the end no one can be left out.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from models.errors import SolverTimeout
from solvers.portfolio.constrained.highs import minimise
from solvers.portfolio.constrained.moves import Moves
from solvers.portfolio.constrained.prices import LEAST_S, relax
from solvers.portfolio.constrained.programme import Constraint, Programme, counted
from solvers.portfolio.constrained.solve import MISSED, Impossible, solve

SMALL = 20_000
"""Choices of a programme that is held to be impossible only as whole choices: larger ones nearly never are."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """One of the constraints that cannot hold together, and by how much its bound would have to move, with the others
    as they are; None if there was no time to tell."""

    constraint: Constraint
    give: float | None


def conflicts(programme: Programme, left_s: Callable[[], float]) -> tuple[Conflict, ...]:
    """Find a smallest set of constraints that cannot hold together: without any one of them the others can. None if
    all can, or there is no time to tell."""
    kept = _blamed(programme, left_s)
    for constraint in kept if len(kept) > 1 else ():
        without = tuple(each for each in kept if each is not constraint)
        if len(without) < len(kept) and (smaller := _blamed(programme.with_constraints(without), left_s)):
            kept = smaller
    return tuple(Conflict(each, _give(programme, kept, each, left_s)) for each in kept)


def _blamed(programme: Programme, left_s: Callable[[], float]) -> tuple[Constraint, ...]:
    """Name constraints that cannot hold together; none if it is not certain that all cannot."""
    free = replace(programme, worths=np.zeros_like(programme.worths))
    k = len(free.constraints)
    if not k or left_s() <= 0:
        return ()
    close = 0.1 * MISSED / len(free.worths)
    relaxed = relax(free, np.ones(k), close, left_s)
    if relaxed.bound < -0.5 * MISSED:
        return tuple(each for each, price in zip(free.constraints, relaxed.prices.tolist(), strict=True) if price > 0)
    return free.constraints if _has_no_whole(free, left_s) else ()


def _has_no_whole(programme: Programme, left_s: Callable[[], float]) -> bool:
    """Tell whether it is certain that whole choices miss some constraint."""
    if programme.worths.size > SMALL:
        return False
    base = np.zeros(len(programme.worths), dtype=np.int64)
    moves = Moves.of(programme, base, np.ones(programme.worths.shape, dtype=np.bool_))
    if not len(moves.rows):
        return not programme.holds(base)
    return minimise(moves.columns(None), len(moves.rows), time_limit_s=max(left_s(), LEAST_S))[1]


def _give(
    programme: Programme, kept: tuple[Constraint, ...], one: Constraint, left_s: Callable[[], float]
) -> float | None:
    """Find by how much one constraint must be missed while the others of a set are kept."""
    n, m = programme.worths.shape
    rows, choices = np.divmod(np.arange(n * m), m)
    use = counted(programme, one, rows, choices).reshape(n, m)
    unit = float(np.abs(use).max()) or 1.0
    others = tuple(each for each in kept if each is not one)
    try:
        solution = solve(replace(programme, worths=-use / unit, constraints=others), GIVE_GAP, left_s)
    except (Impossible, SolverTimeout):
        return None
    return max(-unit * solution.value - one.sign * one.bound, 0.0)


GIVE_GAP = 1e-6
"""How near to the least that a constraint must give what is told is, as a share of its use."""
