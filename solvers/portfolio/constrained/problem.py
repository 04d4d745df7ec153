"""The assignment programme with several coupling constraints: what it is, what a choice uses, what prices prove.

Each of n queries gets exactly one of m classifiers, so that the worths add up to the most, and for every constraint
what is used is at most, or at least, its bound. What a constraint counts is *use*: queries (1 each), or one of the
matrices ``uses``; of all queries or of those of one group; by all classifiers or by one. So uses add up in cells
(group, classifier), and prices, one for each constraint, come to one table of (groups, classifiers) for each matrix.
"""

from dataclasses import dataclass, replace

import numpy as np

from models.arrays import Bools, Floats, Int64s

ROUNDING = 1e-9
"""A constraint holds if it is missed by less than this share of its bound, or of the largest single use."""
ROWS_AT_ONCE = 65_536
"""Rows that are priced together: what caches hold."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """Something that queries use together, and how much of it may or must be used.

    name: its place in what the caller asked. use: which of the programme's matrices counts, None for queries. most:
    whether the bound is the most, else the least. group, classifier: which of them it is about, None for all.
    """

    name: tuple[str, ...]
    use: int | None
    bound: float
    is_upper: bool = True
    group: int | None = None
    classifier: int | None = None

    @property
    def sign(self) -> float:
        """1 where more use is worse, -1 where it is better."""
        return 1.0 if self.is_upper else -1.0


@dataclass(frozen=True, slots=True, eq=False)
class ConstrainedProblem:
    """worths: (n, m). uses: matrices of (n, m), possibly views that repeat one row. groups: (n,) from 0, of which there
    are ``labels``. weights: (n,) how many queries a row stands for; 1 but in samples."""

    values: Floats
    uses: tuple[Floats, ...]
    groups: Int64s
    group_count: int
    constraints: tuple[Constraint, ...]
    weights: Floats

    @property
    def has_uniform_uses(self) -> bool:
        """Tell whether all that constraints count of a choice is the same for every row: then what is used depends on
        nothing but how many rows of each group have it."""
        counting = {constraint.use for constraint in self.constraints} - {None}
        return all(bool(np.all(self.uses[use] == self.uses[use][:1])) for use in counting if use is not None)

    @property
    def signs(self) -> Floats:
        """1 or -1 for each of k constraints, (k,)."""
        return np.array([constraint.sign for constraint in self.constraints])

    @property
    def bounds(self) -> Floats:
        """The bounds, (k,)."""
        return np.array([constraint.bound for constraint in self.constraints])

    @property
    def scales(self) -> Floats:
        """The largest single use that each constraint can count, (k,); 1 where there is none."""
        largest = [float(np.abs(use).max()) or 1.0 for use in self.uses]
        return np.array([1.0 if c.use is None else largest[c.use] for c in self.constraints])

    def with_constraints(self, constraints: tuple[Constraint, ...]) -> "ConstrainedProblem":
        """Ask for other constraints."""
        return replace(self, constraints=constraints)

    def take_rows(self, rows: Int64s, weights: Floats) -> "ConstrainedProblem":
        """Take some rows, which stand for so many each."""
        uses = tuple(np.asarray(use[rows]) for use in self.uses)
        return replace(self, values=self.values[rows], uses=uses, groups=self.groups[rows], weights=weights)

    def subtract_prices(self, prices: Floats) -> Floats:
        """Take what is used, at prices of (k,), off the worths: (n, m), in O(n m) for each matrix."""
        totals = self._tables(prices)
        net = np.array(self.values)
        for start in range(0, len(net), ROWS_AT_ONCE):
            part = slice(start, start + ROWS_AT_ONCE)
            for use, table in totals.items():
                at = table if len(table) == 1 else table[self.groups[part]]
                net[part] -= at if use is None else at * self.uses[use][part]
        return net

    def _tables(self, prices: Floats) -> dict[int | None, Floats]:
        """Add prices up for each matrix: (groups, classifiers) each, or (1, classifiers) where groups do not differ."""
        totals: dict[int | None, Floats] = {}
        grouped = {constraint.use for constraint in self.constraints if constraint.group is not None}
        for constraint, price in zip(self.constraints, prices.tolist(), strict=True):
            if price == 0:
                continue
            of_groups = constraint.use in grouped
            if constraint.use not in totals:
                totals[constraint.use] = np.zeros((self.group_count if of_groups else 1, self.values.shape[1]))
            totals[constraint.use][_cells(constraint, of_groups)] += constraint.sign * price
        return totals

    def sum_uses(self, choice: Int64s) -> Floats:
        """Add up what a choice, (n,), uses of each constraint: (k,)."""
        m, rows = self.values.shape[1], np.arange(len(choice))
        place = self.groups * m + choice
        cells: dict[int | None, Floats] = {}
        for use in {constraint.use for constraint in self.constraints}:
            each = self.weights if use is None else self.weights * self.uses[use][rows, choice]
            sums = np.bincount(place, each, minlength=self.group_count * m).astype(np.float64)
            cells[use] = sums.reshape(self.group_count, m)
        return np.array([cells[c.use][_cells(c, True)].sum() for c in self.constraints])

    def compute_bound(self, prices: Floats, net: Floats) -> float:
        """Bound, by prices of at least 0 and the worths less what they take off, what any choice can be worth."""
        return float(self.weights @ net.max(axis=1) + (prices * self.signs) @ self.bounds)

    def is_feasible(self, choice: Int64s) -> bool:
        """Tell whether a choice keeps every constraint."""
        return bool(np.all(self.measure_violations(choice) <= 0))

    def measure_violations(self, choice: Int64s) -> Floats:
        """Tell by how much a choice misses each constraint beyond rounding, (k,); at most 0 where it holds."""
        slack = ROUNDING * np.maximum(np.abs(self.bounds), self.scales)
        return self.signs * (self.sum_uses(choice) - self.bounds) - slack

    def sum_values(self, choice: Int64s) -> float:
        """Add up what a choice is worth."""
        return float(self.weights @ self.values[np.arange(len(choice)), choice])


def _cells(constraint: Constraint, of_groups: bool) -> tuple[slice | int, slice | int]:
    """Say which cells (group, classifier) a constraint counts."""
    group = slice(None) if constraint.group is None or not of_groups else constraint.group
    return group, slice(None) if constraint.classifier is None else constraint.classifier


def count_uses(problem: ConstrainedProblem, constraint: Constraint, rows: Int64s, choices: Int64s) -> Floats:
    """Give what single choices, (c,), use of a constraint, with its sign: (c,)."""
    counts: Bools = np.ones(len(rows), dtype=np.bool_)
    if constraint.group is not None:
        counts &= problem.groups[rows] == constraint.group
    if constraint.classifier is not None:
        counts &= choices == constraint.classifier
    use = 1.0 if constraint.use is None else problem.uses[constraint.use][rows, choices]
    return constraint.sign * problem.weights[rows] * np.where(counts, use, 0.0)
