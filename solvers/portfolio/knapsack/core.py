"""The core: the moves away from the relaxed solution that a better assignment can contain.

At a price, a row that leaves its choice in the relaxed solution loses some of value - price · cost, and never gains.
An assignment is worth what the dual bound says, less its deficit: the price of the budget it leaves unused, and the
losses of its rows. So once an assignment is known, no move that loses as much as its deficit is in a better one
(reduced-cost fixing), and few rows have any other.

Rows with the same moves are one kind. Values that are means of 40 answers make many rows alike, and searching a kind
at once takes little longer than searching one row.
"""

from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats, Int64s
from solvers.portfolio.knapsack.exact_sums import choose_unit, compute_room, compute_shortfall, split_amounts
from solvers.portfolio.knapsack.problem import KnapsackProblem

GRAIN = 2.0**-49
"""Numbers that differ by less than this share of what they were computed from count as equal."""
_SMALL = 2.0**-30
"""Losses below this share of what they were computed from may be nothing but rounding."""
_LEAST = 1e-290
"""Numbers below this are too near to 0 for relative errors to mean anything."""


@dataclass(frozen=True, slots=True, eq=False)
class MoveGroup:
    """Rows, (r,), with the same moves: per move, (a,), the choice it leads to, what it costs more, and its loss."""

    rows: Int64s
    choices: Int64s
    high: Floats
    low: Floats
    losses: Floats

    def select_below(self, limit: float) -> "MoveGroup":
        """Keep the moves that lose less than a limit."""
        keep = self.losses < limit
        if keep.all():
            return self
        return MoveGroup(self.rows, self.choices[keep], self.high[keep], self.low[keep], self.losses[keep])


@dataclass(frozen=True, slots=True, eq=False)
class Core:
    """kinds: by the least loss for each unit of cost that a move spends or saves. up and down: (k + 1,) that least loss
    over the kinds from each on, for moves that spend and that save. unit: of highs."""

    groups: list[MoveGroup]
    up: Floats
    down: Floats
    unit: float


@dataclass(frozen=True, slots=True, eq=False)
class ReducedLosses:
    """The relaxed solution, (n,), its price, and the losses of all choices against it, (n, m), at least 0.

    left: what it leaves of the budget (``exact_sums.room``); short: what to take from that
    (``exact_sums.too_little``). scale: the largest change of value plus that of price · cost among moves that lose no
    more than the price of what is left.
    slop: what rounding can add to the dual bound.
    """

    base: Int64s
    price: float
    remaining: tuple[float, float]
    shortfall: float
    losses: Floats
    scale: float
    slop: float

    @classmethod
    def from_base(cls, problem: KnapsackProblem, base: Int64s, price: float) -> "ReducedLosses":
        """Compute the losses: O(n m) time."""
        chosen = np.arange(len(base)), base
        remaining = compute_room(problem.budget, problem.list_costs(base))
        gains = problem.values - problem.values[chosen][:, None]
        losses = problem.costs - problem.costs[chosen][:, None]
        losses *= price
        sizes = np.abs(gains) + np.abs(losses)
        losses -= gains
        scale = float(sizes.max(where=losses < np.maximum(price * remaining[0], _SMALL * sizes), initial=_LEAST))
        excess = -float(np.minimum(losses.min(axis=1), 0.0).sum())
        slop = excess + len(base) * 3 * GRAIN * scale
        losses[losses <= GRAIN * scale] = 0.0
        return cls(base, price, remaining, compute_shortfall(problem.budget), losses, scale, slop)

    @property
    def deficit(self) -> float:
        """The dual bound less the value of the relaxed solution."""
        return self.price * self.remaining[0]


def build_core(problem: KnapsackProblem, reduced: ReducedLosses, limit: float) -> Core:
    """Collect the moves that lose less than ``limit``: O(n m) time.

    Rows whose losses differ by rounding may be taken for one kind.
    """
    paid = problem.costs[np.arange(len(reduced.base)), reduced.base]
    near = (reduced.losses < limit) & (problem.costs != paid[:, None])
    rows = np.flatnonzero(near.any(axis=1))
    near, losses, paid = near[rows], reduced.losses[rows], paid[rows]
    costs = np.where(near, problem.costs[rows], paid[:, None])
    unit = choose_unit(reduced.remaining[0] + float(costs.max(axis=1, initial=0.0).sum()))
    (high, low), (paid_high, paid_low) = split_amounts(costs, unit), split_amounts(paid, unit)
    groups = _kinds(rows, near, high - paid_high[:, None], low - paid_low[:, None], losses, GRAIN * reduced.scale)
    return _ordered(groups, unit)


def _kinds(rows: Int64s, near: Bools, high: Floats, low: Floats, losses: Floats, grain: float) -> list[MoveGroup]:
    marks = np.stack([high, low, np.where(near, np.rint(np.where(near, losses, 0.0) / grain), -1.0)], axis=2)
    alike: dict[bytes, list[int]] = {}
    for i, mark in enumerate(marks):
        alike.setdefault(mark.tobytes(), []).append(i)
    groups = []
    for members in alike.values():
        first, moves = members[0], np.flatnonzero(near[members[0]])
        groups.append(MoveGroup(rows[members], moves, high[first, moves], low[first, moves], losses[first, moves]))
    return groups


def _ordered(groups: list[MoveGroup], unit: float) -> Core:
    """Put the kinds in order, and find what moves lose at least from each on.

    Where moves lose nothing, it is the rows that spend and the rows that save without loss that make states many. The
    side that has fewer goes first: it reaches less far, and once it is through states beyond the budget on that side
    have to pay.
    """
    up, down = (np.array([_least_rate(group, way) for group in groups]) for way in (1, -1))
    rates, spends, rows = np.minimum(up, down), up <= down, np.array([len(group.rows) for group in groups])
    free = rates == 0
    fewer = rows[free & spends].sum() <= rows[free & ~spends].sum()
    order = np.lexsort((spends != fewer, rates))
    return Core([groups[k] for k in order], _from_each(up[order]), _from_each(down[order]), unit)


def _least_rate(group: MoveGroup, way: int) -> float:
    """Find what the kind's moves that cost more (way 1) or less (-1) lose at least for each unit of that."""
    extra = way * (group.high + group.low)
    return float((group.losses / np.abs(extra)).min(where=extra > 0, initial=np.inf))


def _from_each(least: Floats) -> Floats:
    return np.minimum.accumulate(np.append(least, np.inf)[::-1])[::-1]
