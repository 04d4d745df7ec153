"""From prices to an assignment: HiGHS on the few rows that are nearly undecided at them, and what both prove.

1. The relaxation's solution has no more undecided rows than there are constraints that bind. With these, the rows that
   are nearest to undecided are left open, and HiGHS finds whole choices for them that keep every constraint; if there
   are none, more rows are left open, in the end all.
2. No better assignment contains a choice that loses, at the prices, as much as the best one known is below the bound
   (reduced-cost fixing). If that is more than the gap that is allowed, HiGHS searches what is left for better ones, and
   its bound is one of the whole programme. Where rows use alike, it branches on how many rows have a choice.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats, Int64s
from models.errors import SolverTimeout
from solvers.portfolio.constrained.highs import ProgramSolution, minimize
from solvers.portfolio.constrained.moves import RowMoves
from solvers.portfolio.constrained.prices import MIN_SECONDS, Relaxation, solve_relaxation
from solvers.portfolio.constrained.problem import ConstrainedProblem
from solvers.portfolio.knapsack.problem import MIN_VALUE

VIOLATION_TOLERANCE = 1e-7
"""Constraints that the relaxation misses by less, of the largest single use, it keeps."""
EPSILON = 1e-14
"""What sums of worths are off by is a smaller share of them."""
PENALTY = 1e5
"""What missing a constraint by the largest single use costs in the relaxation, in differences of the worths."""
MIN_OPEN, OPEN_GROWTH = 200, 5
"""Choices that are left open beside those that are undecided, and by what they grow until there is an assignment."""
MAX_NODES = 500
"""Nodes of the search among them; the last, among all choices, has no such limit."""
RELAXATION_GAP_SHARE = 0.3
"""Of the gap that is allowed, what the relaxation may leave of it."""
MAX_SEARCHED = 200_000
"""Choices that are searched for a proof; of more HiGHS would not come to an end."""


@dataclass(frozen=True, slots=True, eq=False)
class AssignmentSolution:
    """choice: (n,) which keeps every constraint; its value, and what none is worth more than; prices: (k,) at least 0,
    of one more unit of each constraint's bound."""

    choice: Int64s
    value: float
    bound: float
    prices: Floats

    @property
    def gap(self) -> float:
        """How far the bound is from the value, relative to it."""
        return max(self.bound - self.value, 0.0) / max(abs(self.value), MIN_VALUE)


class InfeasibleProblem(Exception):
    """No assignment keeps every constraint, in the relaxation or as whole choices."""


def solve(problem: ConstrainedProblem, gap: float, remaining_s: Callable[[], float]) -> AssignmentSolution:
    """Solve a programme to a relative gap, or as near to it as there is time.

    left_s: seconds that are left. Raises Impossible if nothing seems to keep every constraint, of which ``conflict``
    has the proof, and SolverTimeout if nothing was found in time.
    """
    sizes, spread = np.abs(problem.values).max(axis=1), float(np.ptp(problem.values)) or 1.0
    penalties = np.full(len(problem.constraints), PENALTY * spread)
    close = RELAXATION_GAP_SHARE * gap * float(sizes.mean()) + 1e-12 * spread
    relaxation = solve_relaxation(problem, penalties, close, remaining_s)
    if float(relaxation.violations.max(initial=0.0)) > VIOLATION_TOLERANCE:
        raise InfeasibleProblem
    nothing = AssignmentSolution(
        np.empty(0, dtype=np.int64), -np.inf, relaxation.bound + EPSILON * float(sizes.sum()), relaxation.prices
    )
    better = _rounded(problem, relaxation, nothing, gap, remaining_s)
    allowed = gap * max(abs(better.value), MIN_VALUE)
    if better.bound - better.value <= allowed or remaining_s() <= 0:
        return better
    return _searched(problem, relaxation, better, allowed, remaining_s)


def _rounded(
    problem: ConstrainedProblem,
    relaxation: Relaxation,
    best: AssignmentSolution,
    gap: float,
    remaining_s: Callable[[], float],
) -> AssignmentSolution:
    """Find whole choices near to the relaxation's; those that are good enough, or any at all."""
    base = relaxation.moves.apply(relaxation.made)
    best = _better(problem, best, base)
    target = best.bound - gap / (1 + gap) * max(abs(best.bound), MIN_VALUE)
    losses, undecided = _losses(relaxation.net), relaxation.find_undecided()
    losses[np.arange(len(base)), base] = -1.0
    last = losses.size - len(base)
    for many in _widths(last):
        if best.value >= target or remaining_s() <= 0 or (len(best.choice) and many > MIN_OPEN):
            break
        start = best.choice if len(best.choice) else base
        moves = RowMoves.from_problem(problem, start, _lowest(losses, len(base) + many) | undecided)
        nodes = MAX_NODES if many < last else None
        better, impossible = _whole(problem, moves, remaining_s(), target_value=target, nodes=nodes)
        if many == last and impossible:
            raise InfeasibleProblem
        best = _taken(problem, best, moves, better, proves=many == last)
    if not len(best.choice):
        raise SolverTimeout("no assignment that keeps every constraint was found in time; none was proved impossible")
    return best


def _widths(last: int) -> Iterator[int]:
    """Say how many choices to leave open, one time after the other, up to all."""
    many = 0
    while many < last:
        yield many
        many = OPEN_GROWTH * many or MIN_OPEN
    yield last


def _searched(
    problem: ConstrainedProblem,
    relaxation: Relaxation,
    best: AssignmentSolution,
    allowed: float,
    remaining_s: Callable[[], float],
) -> AssignmentSolution:
    """Search all choices that a better assignment can contain."""
    open_ = _losses(relaxation.net) < best.bound - best.value
    if int(open_.sum()) - len(open_) > MAX_SEARCHED:
        return best
    moves = RowMoves.from_problem(problem, best.choice, open_)
    return _taken(problem, best, moves, _whole(problem, moves, remaining_s(), gap=allowed)[0], proves=True)


def _whole(
    problem: ConstrainedProblem,
    moves: RowMoves,
    limit_s: float,
    *,
    target_value: float = np.inf,
    gap: float = 0.0,
    nodes: int | None = None,
) -> tuple[ProgramSolution | None, bool]:
    """Let HiGHS make whole moves, beginning with none, if that is a solution. worth: what is good enough."""
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
        time_limit_s=max(limit_s, MIN_SECONDS),
        presolve=counted is None,
    )


def _taken(
    problem: ConstrainedProblem,
    best: AssignmentSolution,
    moves: RowMoves,
    better: ProgramSolution | None,
    *,
    proves: bool,
) -> AssignmentSolution:
    """Take what HiGHS found, if it is better, and its bound, if the moves are all that a better one can contain."""
    if better is None:
        return best
    best = _better(problem, best, moves.apply(better.columns))
    if not proves:
        return best
    bound = max(min(best.bound, problem.sum_values(moves.base) - better.bound), best.value)
    return AssignmentSolution(best.choice, best.value, bound, best.prices)


def _better(problem: ConstrainedProblem, best: AssignmentSolution, choice: Int64s) -> AssignmentSolution:
    """Take an assignment if it keeps every constraint and is worth more than the best so far."""
    value = problem.sum_values(choice)
    if value <= best.value or not problem.is_feasible(choice):
        return best
    return AssignmentSolution(choice, value, max(best.bound, value), best.prices)


def _losses(net: Floats) -> Floats:
    """Tell what choices lose against the best of their row, (n, m)."""
    return np.asarray(net.max(axis=1, keepdims=True) - net)


def _lowest(losses: Floats, many: int) -> Bools:
    """Allow so many choices that lose least, (n, m)."""
    if many >= losses.size:
        return np.ones(losses.shape, dtype=np.bool_)
    return np.asarray(losses <= np.partition(losses.ravel(), many)[many])
