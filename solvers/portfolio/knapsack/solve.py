"""Solving the assignment programme: the relaxation, the core around it, and what both prove.

The relaxed solution is an assignment already, off the dual bound by less than one step of one row is worth. With many
queries that is mostly within the gap; else the best single move is tried, then the core is searched.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np

from models.arrays import Int64s
from solvers.portfolio.knapsack.core import Reduced, core_of
from solvers.portfolio.knapsack.core_search import explore
from solvers.portfolio.knapsack.programme import LEAST_VALUE, Assignment, Programme
from solvers.portfolio.knapsack.relaxation import climb, relaxed

EPSILON = float(np.finfo(np.float64).eps)


def solve(programme: Programme, gap: float, in_time: Callable[[], bool]) -> Assignment:
    """Solve a checked programme to a relative gap."""
    base, price = relaxed(programme, climb(programme))
    if price == 0:  # nothing is left to climb: every row has its most valuable choice
        return programme.answer(base, math.fsum(programme.values.max(axis=1).tolist()), price)
    reduced = Reduced.at(programme, base, price)
    ceiling = programme.value_of(base) + reduced.deficit
    slop = reduced.slop + 4 * EPSILON * (abs(ceiling) + reduced.deficit)

    def allowed(deficit: float) -> float:
        return max(gap * max(abs(ceiling - deficit), LEAST_VALUE) - 4 * slop, slop)  # rounding counts as gap too

    moved, deficit = _move_once(programme, reduced)
    limit = deficit - allowed(deficit)
    if limit <= 0:
        return programme.answer(moved, ceiling + slop, price)
    search = explore(core_of(programme, reduced, limit), reduced, deficit, allowed, in_time)
    moves = search.moves()
    choice = first_within(programme, [_moved(base, moves) if moves else moved, moved, base])
    return programme.answer(choice, ceiling - min(search.best, search.proved) + slop + search.slop, price)


def _move_once(programme: Programme, reduced: Reduced) -> tuple[Int64s, float]:
    """Make the one move, or none, that leaves the least deficit and is sure to fit; give that deficit too."""
    left, base = reduced.left[0], reduced.base
    extra = programme.costs - programme.costs[np.arange(len(base)), base][:, None]
    deficits = reduced.losses + reduced.price * (left - extra)
    deficits[extra > left * (1 - 4 * EPSILON)] = np.inf
    row, choice = np.unravel_index(deficits.argmin(), deficits.shape)
    least = float(deficits[row, choice])
    if least >= reduced.deficit:
        return base, reduced.deficit
    return _moved(base, [(np.array([row]), int(choice))]), least


def _moved(base: Int64s, moves: Iterable[tuple[Int64s, int]]) -> Int64s:
    choice = base.copy()
    for rows, to in moves:
        choice[rows] = to
    return choice


def first_within(programme: Programme, candidates: Iterable[Int64s]) -> Int64s:
    """Take the first assignment within the budget: the last resort if the cost of a better one rounds after all."""
    return next(choice for choice in candidates if programme.cost_of(choice) <= programme.budget)
