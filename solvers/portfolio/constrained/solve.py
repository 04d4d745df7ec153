"""Rounding and search: from the relaxation to an assignment with a proved gap, by HiGHS.

1. The relaxation has at most as many undecided rows as binding constraints. HiGHS searches feasible choices for these
rows, and for the rows closest to being undecided. If there are none, more rows are left open, and finally all.
2. The difference is the bound minus the best value. No better assignment contains a choice whose loss, at the prices,
is at least this difference (reduced-cost fixing). If the difference exceeds the allowed gap, HiGHS searches the other
choices, and its bound holds for the whole problem. If rows have equal uses, HiGHS branches on the number of rows with
each choice.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats, Int64s
from models.errors import SolverTimeout
from solvers.portfolio.constrained.highs import ProgramSolution, minimize
from solvers.portfolio.constrained.moves import RowMoves
from solvers.portfolio.constrained.prices import MIN_HIGHS_S, Relaxation, solve_relaxation
from solvers.portfolio.constrained.problem import ConstrainedProblem
from solvers.portfolio.knapsack.problem import MIN_VALUE

VIOLATION_TOLERANCE = 1e-7
"""Violations of the relaxation below this, relative to the largest single use, count as 0."""
EPSILON = 1e-14
"""Relative rounding error of sums of values."""
PENALTY = 1e5
"""Penalty of violating a constraint by the largest single use, in units of the values' range."""
MIN_OPEN, OPEN_GROWTH = 200, 5
"""Open choices in addition to undecided ones, and their growth until there is an assignment."""
MAX_NODES = 500
"""Maximum number of search nodes; the last search, among all choices, is unlimited."""
RELAXATION_GAP_SHARE = 0.3
"""Share of the allowed gap that the relaxation may use."""
MAX_SEARCHED = 200_000
"""Maximum number of choices in the final search; HiGHS would not finish with more."""


@dataclass(frozen=True, slots=True, eq=False)
class AssignmentSolution:
    """A feasible assignment.

    Attributes:
        choice: (n,).
        value: objective value.
        bound: upper bound of the objective.
        prices: (k,), shadow prices of the constraints' bounds, at least 0.
    """

    choice: Int64s
    value: float
    bound: float
    prices: Floats

    @property
    def gap(self) -> float:
        """The relative optimality gap."""
        return max(self.bound - self.value, 0.0) / max(abs(self.value), MIN_VALUE)


class InfeasibleProblem(Exception):
    """No assignment satisfies every constraint, in the relaxation or with integer choices."""


def solve(problem: ConstrainedProblem, gap: float, remaining_s: Callable[[], float]) -> AssignmentSolution:
    """Solve a problem to a relative gap, or as close as time permits.

    Args:
        remaining_s: returns the remaining seconds.
    Raises:
        InfeasibleProblem: the constraints seem to conflict; ``conflict`` proves it.
        SolverTimeout: no assignment was found in time.
    """
    sizes, spread = np.abs(problem.values).max(axis=1), float(np.ptp(problem.values)) or 1.0
    penalties = np.full(len(problem.constraints), PENALTY * spread)
    close = RELAXATION_GAP_SHARE * gap * float(sizes.mean()) + 1e-12 * spread
    relaxation = solve_relaxation(problem, penalties, close, remaining_s)
    if float(relaxation.violations.max(initial=0.0)) > VIOLATION_TOLERANCE:
        raise InfeasibleProblem
    initial = AssignmentSolution(
        np.empty(0, dtype=np.int64), -np.inf, relaxation.bound + EPSILON * float(sizes.sum()), relaxation.prices
    )
    better = _round_relaxation(problem, relaxation, initial, gap, remaining_s)
    allowed = gap * max(abs(better.value), MIN_VALUE)
    if better.bound - better.value <= allowed or remaining_s() <= 0:
        return better
    return _search_choose_better(problem, relaxation, better, allowed, remaining_s)


def _round_relaxation(
    problem: ConstrainedProblem,
    relaxation: Relaxation,
    best: AssignmentSolution,
    gap: float,
    remaining_s: Callable[[], float],
) -> AssignmentSolution:
    """Return an integer assignment close to the relaxation."""
    base = relaxation.moves.apply(relaxation.fractions)
    best = _choose_better(problem, best, base)
    target = best.bound - gap / (1 + gap) * max(abs(best.bound), MIN_VALUE)
    losses, undecided = _compute_losses(relaxation.net), relaxation.find_undecided()
    losses[np.arange(len(base)), base] = -1.0
    last = losses.size - len(base)
    for many in _list_widths(last):
        if best.value >= target or remaining_s() <= 0 or (len(best.choice) and many > MIN_OPEN):
            break
        start = best.choice if len(best.choice) else base
        moves = RowMoves.from_problem(problem, start, _find_lowest(losses, len(base) + many) | undecided)
        nodes = MAX_NODES if many < last else None
        better, impossible = _solve_integer(problem, moves, remaining_s(), target_value=target, nodes=nodes)
        if many == last and impossible:
            raise InfeasibleProblem
        best = _update_solution(problem, best, moves, better, proves=many == last)
    if not len(best.choice):
        raise SolverTimeout("no feasible assignment found within the time limit")
    return best


def _list_widths(last: int) -> Iterator[int]:
    """Yield increasing numbers of choices to leave open, up to all."""
    many = 0
    while many < last:
        yield many
        many = OPEN_GROWTH * many or MIN_OPEN
    yield last


def _search_choose_better(
    problem: ConstrainedProblem,
    relaxation: Relaxation,
    best: AssignmentSolution,
    allowed: float,
    remaining_s: Callable[[], float],
) -> AssignmentSolution:
    """Search all choices that may be part of a better assignment."""
    is_open = _compute_losses(relaxation.net) < best.bound - best.value
    if int(is_open.sum()) - len(is_open) > MAX_SEARCHED:
        return best
    moves = RowMoves.from_problem(problem, best.choice, is_open)
    return _update_solution(
        problem, best, moves, _solve_integer(problem, moves, remaining_s(), gap=allowed)[0], proves=True
    )


def _solve_integer(
    problem: ConstrainedProblem,
    moves: RowMoves,
    limit_s: float,
    *,
    target_value: float = np.inf,
    gap: float = 0.0,
    nodes: int | None = None,
) -> tuple[ProgramSolution | None, bool]:
    """Solve for integer moves with HiGHS; if feasible, start from no moves."""
    counted = (
        moves.to_counted_program(problem) if nodes is None and len(moves.rows) and problem.has_uniform_uses else None
    )
    columns, begin = counted or (moves.to_program(None), np.zeros(len(moves.rows)))
    return minimize(
        columns,
        len(columns.costs),
        start=begin if problem.is_feasible(moves.base) else None,
        target=problem.sum_values(moves.base) - target_value,
        gap=gap,
        nodes=nodes,
        time_limit_s=max(limit_s, MIN_HIGHS_S),
        presolve=counted is None,
    )


def _update_solution(
    problem: ConstrainedProblem,
    best: AssignmentSolution,
    moves: RowMoves,
    better: ProgramSolution | None,
    *,
    proves: bool,
) -> AssignmentSolution:
    """Return the better of two solutions.

    HiGHS' bound is used if its moves are exhaustive (``proves``).
    """
    if better is None:
        return best
    best = _choose_better(problem, best, moves.apply(better.columns))
    if not proves:
        return best
    bound = max(min(best.bound, problem.sum_values(moves.base) - better.bound), best.value)
    return AssignmentSolution(best.choice, best.value, bound, best.prices)


def _choose_better(problem: ConstrainedProblem, best: AssignmentSolution, choice: Int64s) -> AssignmentSolution:
    """Return the assignment if it is feasible and better, else the best one so far."""
    value = problem.sum_values(choice)
    if value <= best.value or not problem.is_feasible(choice):
        return best
    return AssignmentSolution(choice, value, max(best.bound, value), best.prices)


def _compute_losses(net: Floats) -> Floats:
    """Return the loss of each choice compared with the best choice of its row, (n, m)."""
    return np.asarray(net.max(axis=1, keepdims=True) - net)


def _find_lowest(losses: Floats, many: int) -> Bools:
    """Return the mask, (n, m), of the choices with the lowest losses."""
    if many >= losses.size:
        return np.ones(losses.shape, dtype=np.bool_)
    return np.asarray(losses <= np.partition(losses.ravel(), many)[many])
