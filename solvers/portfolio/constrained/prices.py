"""Dual prices of the constraints, by linear relaxation and sifting.

Sifting proceeds from small samples to all rows.

At given prices, each row takes the choice with the highest value minus use times prices. The Lagrangian dual, the sum
of these over the rows, bounds the value of any assignment. The prices of the linear relaxation give the least bound.

Prices from a sample of s rows have an error of about 1/√s. So in a sample of 4 s rows, only rows whose two best choices
differ by less than this error remain undecided: some thousands at every size. HiGHS solves the relaxation of these
rows, with all other rows fixed. The dual bound of all rows at the resulting prices measures the quality of the prices.

Source: Bixby, Gregory, Lustig, Marsten, Shanno, *Operations Research* 40, 1992 (sifting).
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np

from models.arrays import Bools, Floats, Int64s
from models.errors import SolverTimeout
from solvers.portfolio.constrained.highs import LinearProgram, ProgramSolution, minimize
from solvers.portfolio.constrained.moves import RowMoves
from solvers.portfolio.constrained.problem import ConstrainedProblem

FIRST_SAMPLE, GROWTH = 256, 4
"""Rows of the first sample, and growth factor of samples."""
MIN_MOVES, MOVES_PER_ROOT = 2_000, 10
"""Moves of one step: a constant plus a multiple of √n; more if these are too few."""
FRACTION_TOLERANCE = 1e-7
"""Fractions of moves below this count as 0."""
MAX_STEPS = 30
"""Maximum number of steps at one size; about three are typical."""
MIN_HIGHS_S = 0.01
"""Minimum time limit of HiGHS."""
MIN_GROUP_ROWS = 16
"""Minimum number of rows of each group in every sample."""


@dataclass(frozen=True, slots=True, eq=False)
class Relaxation:
    """Solution of the linear relaxation.

    Attributes:
        prices: (k,), at least 0, of the unscaled constraints.
        net: (n, m), values minus use times prices.
        bound: upper bound of the value of any assignment.
        moves, fractions: the c possible moves, and the fraction of each in the solution, (c,).
        violations: (k,), scaled violation of each constraint.
    """

    prices: Floats
    net: Floats
    bound: float
    moves: RowMoves
    fractions: Floats
    violations: Floats

    def find_undecided(self) -> Bools:
        """Return the mask of choices, (n, m), between which the solution splits rows."""
        split = np.zeros(self.net.shape, dtype=np.bool_)
        part = (self.fractions > FRACTION_TOLERANCE) & (self.fractions < 1 - FRACTION_TOLERANCE)
        rows = self.moves.rows[part]
        split[rows, self.moves.choices[part]] = split[rows, self.moves.base[rows]] = True
        return split


def solve_relaxation(
    problem: ConstrainedProblem, penalties: Floats, close: float, remaining_s: Callable[[], float]
) -> Relaxation:
    """Solve the relaxation until bound and value differ by at most ``close`` per row, or time is up.

    Samples are every k-th row, so values and uses must not depend on the order of rows.

    Args:
        penalties: (k,), cost of violating each constraint.
        remaining_s: returns the remaining seconds.
    """
    prices = np.zeros(len(problem.constraints))
    for rows, weights in _draw_samples(problem):
        prices = _solve_level(problem.take_rows(rows, weights), prices, penalties, 0.1 * close, remaining_s).prices
    return _solve_level(problem, prices, penalties, close, remaining_s)


def _draw_samples(problem: ConstrainedProblem) -> list[tuple[Int64s, Floats]]:
    """Return samples of growing sizes, stratified by group, with row weights."""
    n, order = len(problem.values), np.argsort(problem.groups, kind="stable")
    counts = np.bincount(problem.groups, minlength=problem.group_count)
    samples: list[tuple[Int64s, Floats]] = []
    while (size := FIRST_SAMPLE * GROWTH ** len(samples)) * 2 < n:
        taken = np.minimum(counts, np.maximum(-(-size * counts // n), MIN_GROUP_ROWS))
        starts = np.cumsum(counts) - counts
        rows = [order[s + (np.arange(t) * c) // max(t, 1)] for s, t, c in zip(starts, taken, counts, strict=True)]
        weights = np.repeat(counts / np.maximum(taken, 1), taken)
        samples.append((np.concatenate(rows), weights))
    return samples


def _solve_level(
    problem: ConstrainedProblem, prices: Floats, penalties: Floats, close: float, remaining_s: Callable[[], float]
) -> Relaxation:
    """Solve the relaxation of these rows, starting from approximate prices."""
    many, k = MIN_MOVES + int(MOVES_PER_ROOT * sqrt(len(problem.values))), len(prices)
    best = _price_choices(problem, prices)
    base = best.net.argmax(axis=1)
    allowed = _find_near_best(best.net, many)
    for step in range(MAX_STEPS):
        moves = RowMoves.from_problem(problem, base, allowed)
        solution = _minimize(moves.to_program(penalties), remaining_s())
        value = problem.sum_values(base) - solution.value
        current = _price_choices(problem, solution.prices[:k] / problem.scales)
        best = min(best, current, key=lambda one: one.bound)
        if best.bound - value <= close * float(problem.weights.sum()) or remaining_s() <= 0 or step == MAX_STEPS - 1:
            break
        allowed = allowed | _find_near_best(current.net, many) | _find_near_best(best.net, many)
    made, missed = np.split(solution.columns, [len(moves.rows)])
    return Relaxation(best.prices, best.net, best.bound, moves, made, missed)


def _minimize(columns: LinearProgram, limit_s: float) -> ProgramSolution:
    minimum, _ = minimize(columns, time_limit_s=max(limit_s, MIN_HIGHS_S))
    if minimum is None:  # violations are allowed, so a solution exists
        raise SolverTimeout("relaxation not solved within the time limit")
    return minimum


@dataclass(frozen=True, slots=True, eq=False)
class _Priced:
    """Values minus priced use, and the dual bound."""

    prices: Floats
    net: Floats
    bound: float


def _price_choices(problem: ConstrainedProblem, prices: Floats) -> _Priced:
    net = problem.subtract_prices(prices)
    return _Priced(prices, net, problem.compute_bound(prices, net))


def _find_near_best(net: Floats, many: int) -> Bools:
    """Return the mask, (n, m), of each row's best choice and of its ``many`` next best choices."""
    losses = np.asarray(net.max(axis=1, keepdims=True) - net)
    if losses.size - len(losses) <= many:
        return np.ones(losses.shape, dtype=np.bool_)
    limit = np.partition(losses.ravel(), len(losses) + many)[len(losses) + many]
    return np.asarray((losses <= 0) | (losses < limit))
