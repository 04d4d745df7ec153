"""Assignment problem with several coupling constraints: uses, dual prices, and bounds.

Each of n queries gets exactly one of m classifiers, so that the sum of values is maximal. The use of every constraint
must be at most, or at least, its bound. The use of a constraint is a number of queries, or the sum of one of the
matrices ``uses``. A constraint covers all queries or one group, and all classifiers or one. So its use is a sum over
cells (group, classifier). The prices of all constraints on a matrix add up to one table of (groups, classifiers).
"""

from dataclasses import dataclass, replace

import numpy as np

from models.arrays import Bools, Floats, Int64s

ROUNDING = 1e-9
"""Feasibility tolerance, as a share of the bound or of the largest single use."""
MAX_ROWS_PER_CHUNK = 65_536
"""Rows per batch of pricing, which fit into the cache."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """A bound on the total use of queries.

    Attributes:
        name: its path in the request.
        use: the index of a matrix in ``ConstrainedProblem.uses``; None if queries are counted.
        bound: the bound.
        is_upper: whether the bound is an upper one.
        group, classifier: the group and the classifier that it covers; None: all.
    """

    name: tuple[str, ...]
    use: int | None
    bound: float
    is_upper: bool = True
    group: int | None = None
    classifier: int | None = None

    @property
    def sign(self) -> float:
        """1 for upper bounds, -1 for lower ones."""
        return 1.0 if self.is_upper else -1.0


@dataclass(frozen=True, slots=True, eq=False)
class ConstrainedProblem:
    """An assignment problem.

    Attributes:
        values: (n, m).
        uses: matrices of (n, m), possibly views that repeat one row.
        groups: (n,), from 0.
        group_count: the number of groups.
        constraints: k constraints.
        weights: (n,), number of queries that a row represents; 1 except in samples.
    """

    values: Floats
    uses: tuple[Floats, ...]
    groups: Int64s
    group_count: int
    constraints: tuple[Constraint, ...]
    weights: Floats

    @property
    def has_uniform_uses(self) -> bool:
        """Whether all rows have the same uses, so that only counts of rows matter."""
        counting = {constraint.use for constraint in self.constraints} - {None}
        return all(bool(np.all(self.uses[use] == self.uses[use][:1])) for use in counting if use is not None)

    @property
    def signs(self) -> Floats:
        """1 or -1 for each constraint, (k,)."""
        return np.array([constraint.sign for constraint in self.constraints])

    @property
    def bounds(self) -> Floats:
        """Bound of each constraint, (k,)."""
        return np.array([constraint.bound for constraint in self.constraints])

    @property
    def scales(self) -> Floats:
        """The largest single use that each constraint can count, (k,); 1 if there is none."""
        largest = [float(np.abs(use).max()) or 1.0 for use in self.uses]
        return np.array([1.0 if c.use is None else largest[c.use] for c in self.constraints])

    def with_constraints(self, constraints: tuple[Constraint, ...]) -> "ConstrainedProblem":
        """Return the problem with other constraints."""
        return replace(self, constraints=constraints)

    def take_rows(self, rows: Int64s, weights: Floats) -> "ConstrainedProblem":
        """Return the problem of some rows, with their weights."""
        uses = tuple(np.asarray(use[rows]) for use in self.uses)
        return replace(self, values=self.values[rows], uses=uses, groups=self.groups[rows], weights=weights)

    def subtract_prices(self, prices: Floats) -> Floats:
        """Return values minus use times prices, (n, m), for prices (k,).

        Complexity: O(n m) for each matrix.
        """
        totals = self._sum_prices(prices)
        net = np.array(self.values)
        for start in range(0, len(net), MAX_ROWS_PER_CHUNK):
            part = slice(start, start + MAX_ROWS_PER_CHUNK)
            for use, table in totals.items():
                at = table if len(table) == 1 else table[self.groups[part]]
                net[part] -= at if use is None else at * self.uses[use][part]
        return net

    def _sum_prices(self, prices: Floats) -> dict[int | None, Floats]:
        """Return the sum of prices for each matrix: (groups, classifiers).

        Without groups, the shape is (1, classifiers).
        """
        totals: dict[int | None, Floats] = {}
        grouped = {constraint.use for constraint in self.constraints if constraint.group is not None}
        for constraint, price in zip(self.constraints, prices.tolist(), strict=True):
            if price == 0:
                continue
            of_groups = constraint.use in grouped
            if constraint.use not in totals:
                totals[constraint.use] = np.zeros((self.group_count if of_groups else 1, self.values.shape[1]))
            totals[constraint.use][_select_cells(constraint, of_groups)] += constraint.sign * price
        return totals

    def sum_uses(self, choice: Int64s) -> Floats:
        """Return the use of each constraint, (k,), for a choice per row, (n,)."""
        m, rows = self.values.shape[1], np.arange(len(choice))
        place = self.groups * m + choice
        cells: dict[int | None, Floats] = {}
        for use in {constraint.use for constraint in self.constraints}:
            each = self.weights if use is None else self.weights * self.uses[use][rows, choice]
            sums = np.bincount(place, each, minlength=self.group_count * m).astype(np.float64)
            cells[use] = sums.reshape(self.group_count, m)
        return np.array([cells[c.use][_select_cells(c, True)].sum() for c in self.constraints])

    def compute_bound(self, prices: Floats, net: Floats) -> float:
        """Return the dual bound at nonnegative prices, given the values minus use times prices."""
        return float(self.weights @ net.max(axis=1) + (prices * self.signs) @ self.bounds)

    def is_feasible(self, choice: Int64s) -> bool:
        """Return whether a choice satisfies every constraint."""
        return bool(np.all(self.measure_violations(choice) <= 0))

    def measure_violations(self, choice: Int64s) -> Floats:
        """Return the violation of each constraint beyond rounding, (k,); at most 0 if it holds."""
        slack = ROUNDING * np.maximum(np.abs(self.bounds), self.scales)
        return self.signs * (self.sum_uses(choice) - self.bounds) - slack

    def sum_values(self, choice: Int64s) -> float:
        """Return the value of a choice."""
        return float(self.weights @ self.values[np.arange(len(choice)), choice])


def _select_cells(constraint: Constraint, of_groups: bool) -> tuple[slice | int, slice | int]:
    """Return the cells (group, classifier) that a constraint counts."""
    group = slice(None) if constraint.group is None or not of_groups else constraint.group
    return group, slice(None) if constraint.classifier is None else constraint.classifier


def count_uses(problem: ConstrainedProblem, constraint: Constraint, rows: Int64s, choices: Int64s) -> Floats:
    """Return the signed use of a constraint by each (row, choice) pair, (c,)."""
    counts: Bools = np.ones(len(rows), dtype=np.bool_)
    if constraint.group is not None:
        counts &= problem.groups[rows] == constraint.group
    if constraint.classifier is not None:
        counts &= choices == constraint.classifier
    use = 1.0 if constraint.use is None else problem.uses[constraint.use][rows, choices]
    return constraint.sign * problem.weights[rows] * np.where(counts, use, 0.0)
