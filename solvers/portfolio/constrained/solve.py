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
from solvers.portfolio.constrained.highs import Found, minimise
from solvers.portfolio.constrained.moves import Moves
from solvers.portfolio.constrained.prices import LEAST_S, Relaxed, relax
from solvers.portfolio.constrained.programme import Programme
from solvers.portfolio.knapsack.programme import LEAST_VALUE

MISSED = 1e-7
"""Constraints that the relaxation misses by less, of the largest single use, it keeps."""
EPSILON = 1e-14
"""What sums of worths are off by is a smaller share of them."""
PENALTY = 1e5
"""What missing a constraint by the largest single use costs in the relaxation, in differences of the worths."""
FEW, WIDER = 200, 5
"""Choices that are left open beside those that are undecided, and by what they grow until there is an assignment."""
NODES = 500
"""Nodes of the search among them; the last, among all choices, has no such limit."""
SHARE = 0.3
"""Of the gap that is allowed, what the relaxation may leave of it."""
MOST_SEARCHED = 200_000
"""Choices that are searched for a proof; of more HiGHS would not come to an end."""


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """choice: (n,) which keeps every constraint; its value, and what none is worth more than; prices: (k,) at least 0,
    of one more unit of each constraint's bound."""

    choice: Int64s
    value: float
    bound: float
    prices: Floats

    @property
    def gap(self) -> float:
        """How far the bound is from the value, relative to it."""
        return max(self.bound - self.value, 0.0) / max(abs(self.value), LEAST_VALUE)


class Impossible(Exception):
    """No assignment keeps every constraint, in the relaxation or as whole choices."""


def solve(programme: Programme, gap: float, left_s: Callable[[], float]) -> Solution:
    """Solve a programme to a relative gap, or as near to it as there is time.

    left_s: seconds that are left. Raises Impossible if nothing seems to keep every constraint, of which ``conflict``
    has the proof, and SolverTimeout if nothing was found in time.
    """
    sizes, spread = np.abs(programme.worths).max(axis=1), float(np.ptp(programme.worths)) or 1.0
    penalties = np.full(len(programme.constraints), PENALTY * spread)
    close = SHARE * gap * float(sizes.mean()) + 1e-12 * spread
    relaxed = relax(programme, penalties, close, left_s)
    if float(relaxed.missed.max(initial=0.0)) > MISSED:
        raise Impossible
    nothing = Solution(
        np.empty(0, dtype=np.int64), -np.inf, relaxed.bound + EPSILON * float(sizes.sum()), relaxed.prices
    )
    better = _rounded(programme, relaxed, nothing, gap, left_s)
    allowed = gap * max(abs(better.value), LEAST_VALUE)
    if better.bound - better.value <= allowed or left_s() <= 0:
        return better
    return _searched(programme, relaxed, better, allowed, left_s)


def _rounded(
    programme: Programme, relaxed: Relaxed, best: Solution, gap: float, left_s: Callable[[], float]
) -> Solution:
    """Find whole choices near to the relaxation's; those that are good enough, or any at all."""
    base = relaxed.moves.made(relaxed.made)
    best = _better(programme, best, base)
    target = best.bound - gap / (1 + gap) * max(abs(best.bound), LEAST_VALUE)
    losses, undecided = _losses(relaxed.net), relaxed.undecided()
    losses[np.arange(len(base)), base] = -1.0
    last = losses.size - len(base)
    for many in _widths(last):
        if best.value >= target or left_s() <= 0 or (len(best.choice) and many > FEW):
            break
        start = best.choice if len(best.choice) else base
        moves = Moves.of(programme, start, _lowest(losses, len(base) + many) | undecided)
        nodes = NODES if many < last else None
        better, impossible = _whole(programme, moves, left_s(), target_value=target, nodes=nodes)
        if many == last and impossible:
            raise Impossible
        best = _taken(programme, best, moves, better, proves=many == last)
    if not len(best.choice):
        raise SolverTimeout("no assignment that keeps every constraint was found in time; none was proved impossible")
    return best


def _widths(last: int) -> Iterator[int]:
    """Say how many choices to leave open, one time after the other, up to all."""
    many = 0
    while many < last:
        yield many
        many = WIDER * many or FEW
    yield last


def _searched(
    programme: Programme, relaxed: Relaxed, best: Solution, allowed: float, left_s: Callable[[], float]
) -> Solution:
    """Search all choices that a better assignment can contain."""
    open_ = _losses(relaxed.net) < best.bound - best.value
    if int(open_.sum()) - len(open_) > MOST_SEARCHED:
        return best
    moves = Moves.of(programme, best.choice, open_)
    return _taken(programme, best, moves, _whole(programme, moves, left_s(), gap=allowed)[0], proves=True)


def _whole(
    programme: Programme,
    moves: Moves,
    limit_s: float,
    *,
    target_value: float = np.inf,
    gap: float = 0.0,
    nodes: int | None = None,
) -> tuple[Found | None, bool]:
    """Let HiGHS make whole moves, beginning with none, if that is a solution. worth: what is good enough."""
    counted = moves.with_counts(programme) if nodes is None and len(moves.rows) and programme.is_counted else None
    columns, begin = counted or (moves.columns(None), np.zeros(len(moves.rows)))
    return minimise(
        columns,
        len(columns.costs),
        start=begin if programme.holds(moves.base) else None,
        target=programme.worth_of(moves.base) - target_value,
        gap=gap,
        nodes=nodes,
        time_limit_s=max(limit_s, LEAST_S),
        presolve=counted is None,
    )


def _taken(programme: Programme, best: Solution, moves: Moves, better: Found | None, *, proves: bool) -> Solution:
    """Take what HiGHS found, if it is better, and its bound, if the moves are all that a better one can contain."""
    if better is None:
        return best
    best = _better(programme, best, moves.made(better.columns))
    if not proves:
        return best
    bound = max(min(best.bound, programme.worth_of(moves.base) - better.bound), best.value)
    return Solution(best.choice, best.value, bound, best.prices)


def _better(programme: Programme, best: Solution, choice: Int64s) -> Solution:
    """Take an assignment if it keeps every constraint and is worth more than the best so far."""
    value = programme.worth_of(choice)
    if value <= best.value or not programme.holds(choice):
        return best
    return Solution(choice, value, max(best.bound, value), best.prices)


def _losses(net: Floats) -> Floats:
    """Tell what choices lose against the best of their row, (n, m)."""
    return np.asarray(net.max(axis=1, keepdims=True) - net)


def _lowest(losses: Floats, many: int) -> Bools:
    """Allow so many choices that lose least, (n, m)."""
    if many >= losses.size:
        return np.ones(losses.shape, dtype=np.bool_)
    return np.asarray(losses <= np.partition(losses.ravel(), many)[many])
