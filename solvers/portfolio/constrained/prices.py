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
from solvers.portfolio.constrained.highs import Columns, Found, minimise
from solvers.portfolio.constrained.moves import Moves
from solvers.portfolio.constrained.programme import Programme

FIRST, GROWTH = 256, 4
"""Rows of the first sample, and by what samples grow."""
FEW_MOVES, SPREAD = 2_000, 10
"""Moves that are looked at in one step: so many, and so many times √n; more if they turn out too few."""
PART = 1e-7
"""Moves that are made by less are not made."""
STEPS = 30
"""Steps at one size; some three are usual."""
LEAST_S = 0.01
"""Seconds that HiGHS gets, at least."""
OF_A_GROUP = 16
"""Rows of a group, at least, in every sample."""


@dataclass(frozen=True, slots=True, eq=False)
class Relaxed:
    """prices: (k,), at least 0, of the constraints as they are. net: (n, m) worths less what is priced. bound: no
    assignment is worth more. moves and made, (c,): the relaxation's solution, with some rows fixed. missed: (k,) how
    far it misses constraints, scaled."""

    prices: Floats
    net: Floats
    bound: float
    moves: Moves
    made: Floats
    missed: Floats

    def undecided(self) -> Bools:
        """Tell between which choices rows are split, (n, m)."""
        split = np.zeros(self.net.shape, dtype=np.bool_)
        part = (self.made > PART) & (self.made < 1 - PART)
        rows = self.moves.rows[part]
        split[rows, self.moves.choices[part]] = split[rows, self.moves.base[rows]] = True
        return split


def relax(programme: Programme, penalties: Floats, close: float, left_s: Callable[[], float]) -> Relaxed:
    """Solve the relaxation, in which each constraint may be missed at a penalty, (k,), until bound and value differ by
    at most ``close`` a row, or no seconds are left (``left_s``).

    Rows should be in an order that does not tell of their numbers alone: samples are every so many-th of them.
    """
    prices = np.zeros(len(programme.constraints))
    for rows, weights in _samples(programme):
        prices = _level(programme.take(rows, weights), prices, penalties, 0.1 * close, left_s).prices
    return _level(programme, prices, penalties, close, left_s)


def _samples(programme: Programme) -> list[tuple[Int64s, Floats]]:
    """Take samples of growing sizes, with what each row stands for: as many of each group as its share, or a few."""
    n, order = len(programme.worths), np.argsort(programme.groups, kind="stable")
    counts = np.bincount(programme.groups, minlength=programme.labels)
    samples: list[tuple[Int64s, Floats]] = []
    while (size := FIRST * GROWTH ** len(samples)) * 2 < n:
        taken = np.minimum(counts, np.maximum(-(-size * counts // n), OF_A_GROUP))
        starts = np.cumsum(counts) - counts
        rows = [order[s + (np.arange(t) * c) // max(t, 1)] for s, t, c in zip(starts, taken, counts, strict=True)]
        weights = np.repeat(counts / np.maximum(taken, 1), taken)
        samples.append((np.concatenate(rows), weights))
    return samples


def _level(
    programme: Programme, prices: Floats, penalties: Floats, close: float, left_s: Callable[[], float]
) -> Relaxed:
    """Solve the relaxation of these rows, beginning with prices that are nearly right."""
    many, k = FEW_MOVES + int(SPREAD * sqrt(len(programme.worths))), len(prices)
    best = _priced(programme, prices)
    base = best.net.argmax(axis=1)
    allowed = _near(best.net, many)
    for step in range(STEPS):
        moves = Moves.of(programme, base, allowed)
        solution = _minimum(moves.columns(penalties), left_s())
        value = programme.worth_of(base) - solution.value
        current = _priced(programme, solution.prices[:k] / programme.scales)
        best = min(best, current, key=lambda one: one.bound)
        if best.bound - value <= close * float(programme.weights.sum()) or left_s() <= 0 or step == STEPS - 1:
            break
        allowed = allowed | _near(current.net, many) | _near(best.net, many)
    made, missed = np.split(solution.columns, [len(moves.rows)])
    return Relaxed(best.prices, best.net, best.bound, moves, made, missed)


def _minimum(columns: Columns, limit_s: float) -> Found:
    minimum, _ = minimise(columns, time_limit_s=max(limit_s, LEAST_S))
    if minimum is None:  # all constraints may be missed, so there is one
        raise SolverTimeout("the relaxation was not solved in time")
    return minimum


@dataclass(frozen=True, slots=True, eq=False)
class _Priced:
    """Worths less what is used at prices, and the bound that this gives."""

    prices: Floats
    net: Floats
    bound: float


def _priced(programme: Programme, prices: Floats) -> _Priced:
    net = programme.priced(prices)
    return _Priced(prices, net, programme.bound_at(prices, net))


def _near(net: Floats, many: int) -> Bools:
    """Allow the best choice of each row, and so many others as lose least: (n, m)."""
    losses = np.asarray(net.max(axis=1, keepdims=True) - net)
    if losses.size - len(losses) <= many:
        return np.ones(losses.shape, dtype=np.bool_)
    limit = np.partition(losses.ravel(), len(losses) + many)[len(losses) + many]
    return np.asarray((losses <= 0) | (losses < limit))
