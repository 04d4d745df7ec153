"""One-hot encoding of categories, and median imputation with missing indicators, from d columns of a table to D
columns.

A categorical column becomes one indicator column per frequent category; rare and missing categories are 0 everywhere.
A missing number becomes the median of its column. An indicator of missing values is added where the training rows have
missing values, too. Labels are not used.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from models import Fault, FeatureTable, InvalidRequest
from models.arrays import Bools, Floats, Int32s, Int64s
from models.columns import MAX_COORDINATE_VALUE, format_class

MAX_CATEGORIES = 20
"""Indicator columns per categorical column, for its most frequent categories."""


class StoredCellEncoding(Protocol):
    """A plan with the fields of a ``CellEncoding``, in the same order."""

    @property
    def cell_owners(self) -> Int32s: ...
    @property
    def cell_fills(self) -> Floats: ...
    @property
    def cell_marks(self) -> Bools: ...
    @property
    def cell_offsets(self) -> Int64s: ...
    @property
    def cell_categories(self) -> tuple[str, ...]: ...
    @property
    def cells_missing(self) -> bool: ...


@dataclass(frozen=True, slots=True, eq=False)
class CellEncoding:
    """A fitted encoding of a table's d columns.

    Attributes:
        owners: (d,) int32, rising, the sensor of each column.
        fills: (d,), the imputed number.
        marked: (d,) bool, whether a missing indicator is added.
        offsets: (d + 1,), the slice of ``categories`` of each column; empty for numbers.
        categories: category names of all columns.
        missing: whether cells may be missing.
    """

    owners: Int32s
    fills: Floats
    marked: Bools
    offsets: Int64s
    categories: tuple[str, ...]
    missing: bool

    @classmethod
    def from_table(cls, table: FeatureTable, owners: Int32s) -> "CellEncoding | None":
        """Fit to a table; None if all columns are numbers without missing cells. owners: (d,), the sensor of each
        column.

        Complexity: O(n d log n).
        """
        if not table.spec.missing and not any(table.categories):
            return None
        fills, marked = np.zeros(len(owners)), np.zeros(len(owners), dtype=np.bool_)
        frequent: list[list[str]] = []
        for column, names in enumerate(table.categories):
            cells = table.values[:, column]
            there = cells[~np.isnan(cells)]
            frequent.append(_most_frequent(there.astype(np.int64), names))
            if not names:
                fills[column] = np.median(there) if len(there) else 0.0
                marked[column] = 0 < len(there) < len(cells)
        offsets = np.cumsum([0, *map(len, frequent)], dtype=np.int64)
        every = tuple(name for own in frequent for name in own)
        return cls(owners, fills, marked, offsets, every, table.spec.missing)

    @classmethod
    def from_plan(cls, plan: StoredCellEncoding) -> "CellEncoding":
        """Read the encoding from a plan's fields; a plan without these fields has an encoding without columns."""
        arrays = plan.cell_owners, plan.cell_fills, plan.cell_marks, plan.cell_offsets
        return cls(*arrays, plan.cell_categories, plan.cells_missing)

    def stored_fields(self) -> dict[str, Any]:
        """Return the fields of a plan that store the encoding."""
        return {
            "cell_owners": self.owners,
            "cell_fills": self.fills,
            "cell_marks": self.marked,
            "cell_offsets": self.offsets,
            "cell_categories": self.categories,
            "cells_missing": self.missing,
        }

    def is_consistent(self, sensor_count: int) -> bool:
        """Return whether the arrays fit each other, and every owner is below ``sensor_count``.

        The arrays may be untrusted.
        """
        d, offsets = len(self.owners), self.offsets
        return (
            self.fills.shape == self.marked.shape == self.owners.shape == (d,)
            and offsets.shape == (d + 1,)
            and int(offsets[0]) == 0
            and int(offsets[-1]) == len(self.categories)
            and bool(np.all(np.diff(offsets) >= 0))
            and bool(np.all(np.abs(self.fills) <= MAX_COORDINATE_VALUE))
            and bool(np.all((self.owners >= 0) & (self.owners < sensor_count)))
        )

    @property
    def widths(self) -> Int64s:
        """Number of encoded columns of each column, (d,)."""
        kept = np.diff(self.offsets)
        return np.asarray(np.where(kept > 0, kept, 1 + self.marked), dtype=np.int64)

    def encode_cells(self, table: FeatureTable) -> Floats:
        """Encode a table with these columns as (n, D); categories are matched by name."""
        blocks = []
        for column, names in enumerate(table.categories):
            cells, kept = table.values[:, column], self._kept(column)
            if kept:
                codes = np.array([names.index(each) if each in names else -1 for each in kept])
                blocks.append((cells[:, None] == codes).astype(np.float64))
                continue
            absent = np.isnan(cells)
            blocks.append(np.where(absent, self.fills[column], cells)[:, None])
            if self.marked[column]:
                blocks.append(absent[:, None].astype(np.float64))
        return np.concatenate(blocks, axis=1)

    def check(self, table: FeatureTable) -> None:
        """Raise InvalidRequest for a table whose categorical columns differ."""
        kinds = np.diff(self.offsets) > 0
        if kinds.tolist() != [bool(names) for names in table.categories]:
            raise InvalidRequest.from_faults(
                Fault(("dataset", "features"), "must have the categorical columns of the artifact")
            )

    def encode_cell(self, column: int, cell: Any) -> list[float]:
        """Encode one cell of a column; raises ValueError for a cell that is not supported."""
        kept = self._kept(column)
        cell = None if cell == "" else cell  # as in a table
        if cell is None and not self.missing:
            raise ValueError("must not be missing; the dataset has no missing cells")
        if kept:
            name = None if cell is None else format_class(cell)
            return [float(name == each) for each in kept]
        number = float(self.fills[column]) if cell is None else parse_finite_number(cell)
        return [number, float(cell is None)] if self.marked[column] else [number]

    def _kept(self, column: int) -> tuple[str, ...]:
        return self.categories[self.offsets[column] : self.offsets[column + 1]]


def _most_frequent(codes: Int64s, names: tuple[str, ...]) -> list[str]:
    counts = np.bincount(codes, minlength=len(names)) if names else np.zeros(0, dtype=np.int64)
    chosen = np.sort(np.argsort(-counts, kind="stable")[:MAX_CATEGORIES])
    return [names[code] for code in chosen.tolist()]


def parse_finite_number(value: Any) -> float:
    """Return a finite number as a float; raises ValueError for anything else."""
    if value is None:
        raise ValueError("must be a number, got a missing value")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"must be a number, got {value!r}")
    if not math.isfinite(value) or abs(value) > MAX_COORDINATE_VALUE:
        raise ValueError(f"must be from {-MAX_COORDINATE_VALUE:g} to {MAX_COORDINATE_VALUE:g}, got {value}")
    return float(value)
