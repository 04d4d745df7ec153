"""Solve the knapsack problem: relaxation, best single move, then the core search.

The rounded relaxed solution is an assignment. Its distance from the dual bound is less than one step of one row. With
many queries, this distance is mostly within the gap. Otherwise, the best single move is tried, then the core is
searched.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np

from models.arrays import Int64s
from solvers.portfolio.knapsack.core import ReducedLosses, build_knapsack_core
from solvers.portfolio.knapsack.core_search import search_core
from solvers.portfolio.knapsack.problem import MIN_VALUE, KnapsackAssignment, KnapsackProblem
from solvers.portfolio.knapsack.relaxation import compute_steps, round_relaxation

EPSILON = float(np.finfo(np.float64).eps)


def solve(problem: KnapsackProblem, gap: float, in_time: Callable[[], bool]) -> KnapsackAssignment:
    """Solve a validated problem to a relative gap."""
    base, price = round_relaxation(problem, compute_steps(problem))
    if price == 0:  # every row has its most valuable choice
        return problem.make_assignment(base, math.fsum(problem.values.max(axis=1).tolist()), price)
    reduced = ReducedLosses.from_base(problem, base, price)
    ceiling = problem.sum_values(base) + reduced.deficit
    rounding_slack = reduced.rounding_slack + 4 * EPSILON * (abs(ceiling) + reduced.deficit)

    def allowed(deficit: float) -> float:
        # rounding counts as gap too
        return max(gap * max(abs(ceiling - deficit), MIN_VALUE) - 4 * rounding_slack, rounding_slack)

    moved, deficit = _move_once(problem, reduced)
    limit = deficit - allowed(deficit)
    if limit <= 0:
        return problem.make_assignment(moved, ceiling + rounding_slack, price)
    search = search_core(build_knapsack_core(problem, reduced, limit), reduced, deficit, allowed, in_time)
    moves = search.list_moves()
    choice = choose_affordable(problem, [_apply_moves(base, moves) if moves else moved, moved, base])
    return problem.make_assignment(
        choice, ceiling - min(search.best, search.proved) + rounding_slack + search.rounding_slack, price
    )


def _move_once(problem: KnapsackProblem, reduced: ReducedLosses) -> tuple[Int64s, float]:
    """Return the assignment with the best single move that certainly fits, and its deficit.

    If no move is better, the assignment is unchanged.
    """
    remaining, base = reduced.remaining[0], reduced.base
    extra = problem.costs - problem.costs[np.arange(len(base)), base][:, None]
    deficits = reduced.losses + reduced.price * (remaining - extra)
    deficits[extra > remaining * (1 - 4 * EPSILON)] = np.inf
    row, choice = np.unravel_index(deficits.argmin(), deficits.shape)
    least = float(deficits[row, choice])
    if least >= reduced.deficit:
        return base, reduced.deficit
    return _apply_moves(base, [(np.array([row]), int(choice))]), least


def _apply_moves(base: Int64s, moves: Iterable[tuple[Int64s, int]]) -> Int64s:
    choice = base.copy()
    for rows, to in moves:
        choice[rows] = to
    return choice


def choose_affordable(problem: KnapsackProblem, candidates: Iterable[Int64s]) -> Int64s:
    """Return the first candidate within the budget.

    Better candidates come first, but rounding can make them exceed the budget.
    """
    return next(choice for choice in candidates if problem.sum_costs(choice) <= problem.budget)
