"""Moves of single rows to another choice, as the columns of a small linear program.

A move changes the choice of one row, starting from a base choice. It is a column: a variable from 0 to 1. If a row has
several moves, a constraint allows at most one of them. Each constraint of the problem may be violated at a penalty, so
there is always a solution with dual prices. Violations are scaled by the largest single use.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats, Int32s, Int64s
from solvers.portfolio.constrained.highs import LinearProgram
from solvers.portfolio.constrained.problem import ConstrainedProblem, count_uses

MAX_COUNTS = 200
"""Maximum number of row counts that a search branches on."""


@dataclass(frozen=True, slots=True, eq=False)
class RowMoves:
    """Moves away from a base choice.

    Attributes:
        base: (n,), choices.
        rows, choices: (c,), row and new choice of each move, sorted by row.
        gains: (c,), increase of the value by each move.
        changes: nonzero changes of use, as indices of moves, indices of constraints, and scaled amounts, (e,) each.
        room: (k,), scaled slack of each constraint before any move.
    """

    base: Int64s
    rows: Int64s
    choices: Int64s
    gains: Floats
    changes: tuple[Int64s, Int64s, Floats]
    room: Floats

    @classmethod
    def from_problem(cls, problem: ConstrainedProblem, base: Int64s, allowed: Bools) -> "RowMoves":
        """Collect the moves to allowed choices, (n, m)."""
        others = allowed.copy()
        others[np.arange(len(base)), base] = False
        rows, choices = np.nonzero(others)
        weights, values, scales = problem.weights[rows], problem.values, problem.scales
        gains = weights * (values[rows, choices] - values[rows, base[rows]])
        changes = _list_changes(problem, rows, choices, base[rows])
        room = problem.signs * (problem.bounds - problem.sum_uses(base)) / scales
        return cls(base, rows, choices, gains, changes, room)

    def to_program(self, penalties: Floats | None) -> LinearProgram:
        """Return the linear program to minimize; its first c columns are the moves.

        Args:
            penalties: (k,), cost of violating each constraint by 1; None: no violations.
        """
        k, c, several = len(self.room), len(self.rows), _number_shared_rows(self.rows)
        shared = np.flatnonzero(several >= 0)
        parts = [self.changes, (shared, k + several[shared], np.ones(len(shared)))]
        costs, upper = -self.gains, np.ones(c)
        if penalties is not None:
            parts.append((c + np.arange(k), np.arange(k), np.full(k, -1.0)))
            costs, upper = np.append(costs, penalties), np.append(upper, np.full(k, np.inf))
        return _make_program(costs, upper, np.append(self.room, np.ones(int(several.max(initial=-1)) + 1)), parts)

    def to_counted_program(self, problem: ConstrainedProblem) -> tuple[LinearProgram, Floats] | None:
        """Return an integer program with the number of rows per choice as further variables.

        Also return an initial solution without moves. Rows with equal uses are interchangeable. Branching on counts
        avoids enumerating such exchanges. Two constraints make each count equal to the base count plus the moves.
        Return None if there are too many counts.
        """
        alone, m, c = self.to_program(None), problem.values.shape[1], len(self.rows)
        grouped = any(constraint.group is not None for constraint in problem.constraints)
        labels = problem.groups if grouped else np.zeros_like(problem.groups)
        to, away = labels[self.rows] * m + self.choices, labels[self.rows] * m + self.base[self.rows]
        cells, place = np.unique(np.concatenate([to, away]), return_inverse=True)
        if len(cells) > MAX_COUNTS:
            return None
        counts, r = np.bincount(labels * m + self.base, minlength=int(cells.max()) + 1)[cells], len(alone.limits)
        moved = np.tile(np.arange(c), 2), place, np.repeat([1.0, -1.0], c)
        held = c + np.arange(len(cells)), np.arange(len(cells)), np.full(len(cells), -1.0)
        column, cell, change = (np.concatenate(pair) for pair in zip(moved, held, strict=True))
        before = np.repeat(np.arange(len(alone.costs)), np.diff(alone.start))
        joined = (
            (before, alone.index, alone.values),
            (column, r + 2 * cell, change),
            (column, r + 2 * cell + 1, -change),
        )
        zeros, ends = np.zeros(len(cells)), np.ravel(np.column_stack([-counts, counts])).astype(np.float64)
        columns = _make_program(
            np.append(alone.costs, zeros),
            np.append(alone.upper, np.full(len(cells), float(len(self.base)))),
            np.append(alone.limits, ends),
            joined,
        )
        return columns, np.append(np.zeros(c), counts)

    def apply(self, which: Floats) -> Int64s:
        """Return the choices, (n,), after the selected moves.

        Args:
            which: values of the program's variables; the first c are those of the moves, which are selected above 0.5.
        """
        choice = self.base.copy()
        done = which[: len(self.rows)] > 0.5
        choice[self.rows[done]] = self.choices[done]
        return choice


def _make_program(
    costs: Floats, upper: Floats, limits: Floats, parts: Sequence[tuple[Int64s | Int32s, Int64s | Int32s, Floats]]
) -> LinearProgram:
    """Return a program from entries of several parts: columns, rows, and values."""
    column, index, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = np.argsort(column, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=len(costs)))]).astype(np.int32)
    return LinearProgram(costs, upper, limits, start, index[order].astype(np.int32), values[order])


def _list_changes(
    problem: ConstrainedProblem, rows: Int64s, choices: Int64s, before: Int64s
) -> tuple[Int64s, Int64s, Floats]:
    """Return the scaled changes of use by moves from ``before``, (c,): moves, constraints, and amounts, (e,)."""
    parts = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))]
    by_group = np.argsort(problem.groups[rows], kind="stable")
    ends = np.searchsorted(problem.groups[rows[by_group]], np.arange(problem.group_count + 1))
    for k, (constraint, scale) in enumerate(zip(problem.constraints, problem.scales.tolist(), strict=True)):
        group = constraint.group
        own = slice(None) if group is None else by_group[ends[group] : ends[group + 1]]
        at = rows[own], choices[own], before[own]
        change = count_uses(problem, constraint, *at[:2]) - count_uses(problem, constraint, at[0], at[2])
        changed = np.flatnonzero(change)
        moves = changed if group is None else by_group[ends[group] : ends[group + 1]][changed]
        parts.append((moves, np.full(len(moves), k), change[changed] / scale))
    moves, constraints, amounts = (np.concatenate(each) for each in zip(*parts, strict=True))
    return moves, constraints, amounts


def _number_shared_rows(rows: Int64s) -> Int64s:
    """Number the rows with several moves; return the number for each move, (c,).

    Rows must be sorted. Rows with a single move get -1.
    """
    same = np.zeros(len(rows), dtype=np.bool_)
    same[1:] = rows[1:] == rows[:-1]
    several = same.copy()
    several[:-1] |= same[1:]
    number = np.cumsum(several & ~same) - 1
    return np.where(several, number, -1)
