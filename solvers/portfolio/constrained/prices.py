"""Prices of the constraints: the linear relaxation, solved by prices, from small samples to all rows.

At prices a row takes the choice whose worth, less what its use is priced at, is the highest; that bounds what any
assignment can be worth (the Lagrangian dual), and the best such bound is that of the linear relaxation. Prices learned
from a sample of s rows are off by some 1/√s, so of 4 s rows only those need be looked at again whose best two choices
are that near to each other at these prices: some thousands, at every size. HiGHS solves the relaxation with all others
fixed, and the bound of all rows tells how good its prices are (*sifting*: Bixby, Gregory, Lustig, Marsten, Shanno,
Operations Research 40, 1992).
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
"""Rows of the first sample, and by what samples grow."""
MIN_MOVES, MOVES_PER_ROOT = 2_000, 10
"""Moves that are looked at in one step: so many, and so many times √n; more if they turn out too few."""
FRACTION_TOLERANCE = 1e-7
"""RowMoves that are made by less are not made."""
MAX_STEPS = 30
"""Steps at one size; some three are usual."""
MIN_SECONDS = 0.01
"""Seconds that HiGHS gets, at least."""
MIN_GROUP_ROWS = 16
"""Rows of a group, at least, in every sample."""


@dataclass(frozen=True, slots=True, eq=False)
class Relaxation:
    """prices: (k,), at least 0, of the constraints as they are. net: (n, m) worths less what is priced. bound: no
    assignment is worth more. moves and made, (c,): the relaxation's solution, with some rows fixed. missed: (k,) how
    far it misses constraints, scaled."""

    prices: Floats
    net: Floats
    bound: float
    moves: RowMoves
    made: Floats
    violations: Floats

    def find_undecided(self) -> Bools:
        """Tell between which choices rows are split, (n, m)."""
        split = np.zeros(self.net.shape, dtype=np.bool_)
        part = (self.made > FRACTION_TOLERANCE) & (self.made < 1 - FRACTION_TOLERANCE)
        rows = self.moves.rows[part]
        split[rows, self.moves.choices[part]] = split[rows, self.moves.base[rows]] = True
        return split


def solve_relaxation(
    problem: ConstrainedProblem, penalties: Floats, close: float, remaining_s: Callable[[], float]
) -> Relaxation:
    """Solve the relaxation, in which each constraint may be missed at a penalty, (k,), until bound and value differ by
    at most ``close`` a row, or no seconds are left (``left_s``).

    Rows should be in an order that does not tell of their numbers alone: samples are every so many-th of them.
    """
    prices = np.zeros(len(problem.constraints))
    for rows, weights in _samples(problem):
        prices = _level(problem.take_rows(rows, weights), prices, penalties, 0.1 * close, remaining_s).prices
    return _level(problem, prices, penalties, close, remaining_s)


def _samples(problem: ConstrainedProblem) -> list[tuple[Int64s, Floats]]:
    """Take samples of growing sizes, with what each row stands for: as many of each group as its share, or a few."""
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


def _level(
    problem: ConstrainedProblem, prices: Floats, penalties: Floats, close: float, remaining_s: Callable[[], float]
) -> Relaxation:
    """Solve the relaxation of these rows, beginning with prices that are nearly right."""
    many, k = MIN_MOVES + int(MOVES_PER_ROOT * sqrt(len(problem.values))), len(prices)
    best = _priced(problem, prices)
    base = best.net.argmax(axis=1)
    allowed = _near(best.net, many)
    for step in range(MAX_STEPS):
        moves = RowMoves.from_problem(problem, base, allowed)
        solution = _minimum(moves.to_program(penalties), remaining_s())
        value = problem.sum_values(base) - solution.value
        current = _priced(problem, solution.prices[:k] / problem.scales)
        best = min(best, current, key=lambda one: one.bound)
        if best.bound - value <= close * float(problem.weights.sum()) or remaining_s() <= 0 or step == MAX_STEPS - 1:
            break
        allowed = allowed | _near(current.net, many) | _near(best.net, many)
    made, missed = np.split(solution.columns, [len(moves.rows)])
    return Relaxation(best.prices, best.net, best.bound, moves, made, missed)


def _minimum(columns: LinearProgram, limit_s: float) -> ProgramSolution:
    minimum, _ = minimize(columns, time_limit_s=max(limit_s, MIN_SECONDS))
    if minimum is None:  # all constraints may be missed, so there is one
        raise SolverTimeout("the relaxation was not solved in time")
    return minimum


@dataclass(frozen=True, slots=True, eq=False)
class _Priced:
    """Worths less what is used at prices, and the bound that this gives."""

    prices: Floats
    net: Floats
    bound: float


def _priced(problem: ConstrainedProblem, prices: Floats) -> _Priced:
    net = problem.subtract_prices(prices)
    return _Priced(prices, net, problem.compute_bound(prices, net))


def _near(net: Floats, many: int) -> Bools:
    """Allow the best choice of each row, and so many others as lose least: (n, m)."""
    losses = np.asarray(net.max(axis=1, keepdims=True) - net)
    if losses.size - len(losses) <= many:
        return np.ones(losses.shape, dtype=np.bool_)
    limit = np.partition(losses.ravel(), len(losses) + many)[len(losses) + many]
    return np.asarray((losses <= 0) | (losses < limit))
