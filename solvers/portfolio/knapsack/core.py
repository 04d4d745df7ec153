"""Core of the knapsack problem: the moves that a better assignment can contain.

A move changes the choice of a row from that in the relaxed solution. The relaxed solution maximizes value - price ·
cost in each row, so a move never increases it. The decrease is the loss of the move. The deficit of an assignment is
price · unused budget plus the losses of all moves. Its value is the dual bound minus the deficit. So a move whose loss
reaches the deficit of a known assignment is not part of a better assignment (reduced-cost fixing). Few rows have other
moves.

Rows with equal moves form a group. Values are often means of 40 answers, so many rows are equal. Searching a group
takes hardly longer than searching one row.
"""

from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats, Int64s
from solvers.portfolio.knapsack.exact_sums import choose_unit, compute_room, compute_shortfall, split_amounts
from solvers.portfolio.knapsack.problem import KnapsackProblem

RELATIVE_PRECISION = 2.0**-49
"""Numbers within this share of their terms are equal."""
_SMALL = 2.0**-30
"""Losses below this share of their terms may be rounding errors."""
_LEAST = 1e-290
"""Lower bound of scales, where relative errors are still meaningful."""


@dataclass(frozen=True, slots=True, eq=False)
class MoveGroup:
    """Rows with equal moves.

    Attributes:
        rows: (r,), indices of the rows.
        choices: (a,), the choice of each move.
        high, low: (a,), additional cost of each move as an exact sum.
        losses: (a,), loss of each move.
    """

    rows: Int64s
    choices: Int64s
    high: Floats
    low: Floats
    losses: Floats

    def select_below(self, limit: float) -> "MoveGroup":
        """Return the group with only the moves whose loss is below a limit."""
        keep = self.losses < limit
        if keep.all():
            return self
        return MoveGroup(self.rows, self.choices[keep], self.high[keep], self.low[keep], self.losses[keep])


@dataclass(frozen=True, slots=True, eq=False)
class KnapsackCore:
    """Groups of moves in search order.

    Attributes:
        groups: k groups, by least loss per unit of cost spent or saved.
        loss_per_spent: (k + 1,), least loss per unit of cost that a move of group i or a later group spends.
        loss_per_saved: (k + 1,), least loss per unit of cost that a move of group i or a later group saves.
        rounding_unit: the unit of ``high``.
    """

    groups: list[MoveGroup]
    loss_per_spent: Floats
    loss_per_saved: Floats
    rounding_unit: float


@dataclass(frozen=True, slots=True, eq=False)
class ReducedLosses:
    """The relaxed solution and the losses of all choices.

    Attributes:
        base: (n,), the relaxed solution.
        price: dual price of the budget.
        remaining: the remaining budget as an exact sum (``exact_sums.compute_room``).
        shortfall: subtracted from ``remaining`` in comparisons (``exact_sums.compute_shortfall``).
        losses: (n, m), loss of each choice compared with ``base``, at least 0.
        scale: largest sum of changes of value and of price · cost, among moves with a loss of at most price · remaining
            budget.
        rounding_slack: upper bound of the rounding error of the dual bound.
    """

    base: Int64s
    price: float
    remaining: tuple[float, float]
    shortfall: float
    losses: Floats
    scale: float
    rounding_slack: float

    @classmethod
    def from_base(cls, problem: KnapsackProblem, base: Int64s, price: float) -> "ReducedLosses":
        """Return the loss of every choice relative to the base choice, at this price. O(n m)."""
        chosen = np.arange(len(base)), base
        remaining = compute_room(problem.budget, problem.list_costs(base))
        gains = problem.values - problem.values[chosen][:, None]
        losses = problem.costs - problem.costs[chosen][:, None]
        losses *= price
        sizes = np.abs(gains) + np.abs(losses)
        losses -= gains
        scale = float(sizes.max(where=losses < np.maximum(price * remaining[0], _SMALL * sizes), initial=_LEAST))
        excess = -float(np.minimum(losses.min(axis=1), 0.0).sum())
        rounding_slack = excess + len(base) * 3 * RELATIVE_PRECISION * scale
        losses[losses <= RELATIVE_PRECISION * scale] = 0.0
        return cls(base, price, remaining, compute_shortfall(problem.budget), losses, scale, rounding_slack)

    @property
    def deficit(self) -> float:
        """Dual bound minus the value of the relaxed solution: price · unspent budget."""
        return self.price * self.remaining[0]


def build_knapsack_core(problem: KnapsackProblem, reduced: ReducedLosses, limit: float) -> KnapsackCore:
    """Return the moves whose loss is below ``limit``: O(n m) time.

    Rows whose losses differ by rounding may share a group.
    """
    paid = problem.costs[np.arange(len(reduced.base)), reduced.base]
    near = (reduced.losses < limit) & (problem.costs != paid[:, None])
    rows = np.flatnonzero(near.any(axis=1))
    near, losses, paid = near[rows], reduced.losses[rows], paid[rows]
    costs = np.where(near, problem.costs[rows], paid[:, None])
    rounding_unit = choose_unit(reduced.remaining[0] + float(costs.max(axis=1, initial=0.0).sum()))
    (high, low), (paid_high, paid_low) = split_amounts(costs, rounding_unit), split_amounts(paid, rounding_unit)
    groups = _group_rows(
        rows, near, high - paid_high[:, None], low - paid_low[:, None], losses, RELATIVE_PRECISION * reduced.scale
    )
    return _sort_groups(groups, rounding_unit)


def _group_rows(rows: Int64s, near: Bools, high: Floats, low: Floats, losses: Floats, grain: float) -> list[MoveGroup]:
    marks = np.stack([high, low, np.where(near, np.rint(np.where(near, losses, 0.0) / grain), -1.0)], axis=2)
    alike: dict[bytes, list[int]] = {}
    for i, mark in enumerate(marks):
        alike.setdefault(mark.tobytes(), []).append(i)
    groups = []
    for members in alike.values():
        first, moves = members[0], np.flatnonzero(near[members[0]])
        groups.append(MoveGroup(rows[members], moves, high[first, moves], low[first, moves], losses[first, moves]))
    return groups


def _sort_groups(groups: list[MoveGroup], rounding_unit: float) -> KnapsackCore:
    """Sort the groups, and compute the least losses of each group and all later ones.

    Most states arise from rows that spend, and rows that save, without loss. The side with fewer rows is searched
    first, because it changes the budget less. Afterward, states beyond the budget on that side have losses.
    """
    spent, saved = (np.array([_min_rate(group, sign) for group in groups]) for sign in (1, -1))
    rates, spends, rows = np.minimum(spent, saved), spent <= saved, np.array([len(group.rows) for group in groups])
    free = rates == 0
    fewer = rows[free & spends].sum() <= rows[free & ~spends].sum()
    order = np.lexsort((spends != fewer, rates))
    return KnapsackCore(
        [groups[k] for k in order], _min_from_each(spent[order]), _min_from_each(saved[order]), rounding_unit
    )


def _min_rate(group: MoveGroup, sign: int) -> float:
    """Return the least loss per unit of cost of a group's moves.

    Sign 1 selects moves that cost more, -1 moves that cost less.
    """
    extra = sign * (group.high + group.low)
    return float((group.losses / np.abs(extra)).min(where=extra > 0, initial=np.inf))


def _min_from_each(least: Floats) -> Floats:
    return np.minimum.accumulate(np.append(least, np.inf)[::-1])[::-1]
