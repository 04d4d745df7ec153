"""First pass over an uploaded table: its number of rows, and rows that represent all others.

Checks of a batch include these rows. So a fault of a small table, such as a single class, is not reported for a batch,
and each row is checked as in a table that is read as a whole.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from app.store.uploads import to_columns
from models import FeaturesSpec, TraceSpec
from models.columns import find_non_number

_HEAD_ROWS = 1
MAX_HEAD_BYTES = 2**21
"""Bytes of representative rows after which the first rows of further batches are not picked."""
_MISSING = ("", b"", None)


class TableBatches(Protocol):
    """The spec's columns of a table, in batches; a first pass determines their types."""

    names: list[str]
    read_bytes: int
    total_bytes: int

    def read_raw(self) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Yield each batch of the first pass, and the same rows with the types of their cells."""

    def convert_rows(self, raw: pa.Table) -> pa.Table:
        """Return rows of the first pass with the types of the whole table."""

    def read_batches(self) -> Iterator[pa.Table]:
        """Yield each batch with the types of the whole table."""


class TableSurvey:
    """The number of rows, and the representative rows of the batches so far.

    These are the first rows of batches, the rows with the least and the largest confidences, which determine their
    scale, and the first cell that prevents a column from being read as numbers.
    """

    def __init__(self, spec: FeaturesSpec | TraceSpec, names: Sequence[str]) -> None:
        confidences = {each.confidence for each in spec.classifiers} if isinstance(spec, TraceSpec) else set()
        self._extremes = {name: (np.inf, -np.inf) for name in names if name in confidences}
        self._numeric = [name for name in names if name not in spec.class_columns]
        self.rows = 0
        self._picked: list[pa.Table] = []
        self._picked_bytes = 0

    def add_batch(self, raw: pa.Table, typed: pa.Table) -> None:
        """Count a batch, and pick rows of it."""
        rows = set(range(min(_HEAD_ROWS, raw.num_rows))) if self._picked_bytes < MAX_HEAD_BYTES else set[int]()
        for name in set(self._extremes).intersection(typed.column_names):
            rows |= self._find_extremes(name, typed.column(name))
        rows |= self._find_texts(raw, typed)
        self._picked.append(raw.take(pa.array(sorted(rows), pa.int64())))
        self._picked_bytes += self._picked[-1].nbytes
        self.rows += raw.num_rows

    def concat_references(self) -> pa.Table:
        """Return the representative rows."""
        return pa.concat_tables(self._picked)

    def _find_extremes(self, name: str, column: pa.ChunkedArray) -> set[int]:
        """Return the rows with the least and the largest number, if they exceed those of former batches."""
        values = _read_finite(column)
        if not len(values) or np.isnan(values).all():
            return set()
        least, largest = self._extremes[name]
        lowest, highest = int(np.nanargmin(values)), int(np.nanargmax(values))
        self._extremes[name] = min(least, values[lowest]), max(largest, values[highest])
        return {
            row for row, is_new in ((lowest, values[lowest] < least), (highest, values[highest] > largest)) if is_new
        }

    def _find_texts(self, raw: pa.Table, typed: pa.Table) -> set[int]:
        """Return the first row of each numeric column that is a text, once per column."""
        found = set()
        for name in list(self._numeric):
            stored = raw.schema.field(name).type
            if _is_number(typed.schema.field(name).type if name in typed.column_names else stored, stored):
                continue
            column = raw.column(name)
            is_missing = pa.compute.is_null(column) if name not in typed.column_names else typed.column(name).is_null()
            cells = zip(column.to_pylist(), is_missing.to_pylist(), strict=True)
            row = find_non_number("0" if missing or cell in _MISSING else cell for cell, missing in cells)
            if row is not None:
                found.add(row)
                self._numeric.remove(name)
        return found


def _is_number(kind: pa.DataType, stored: pa.DataType) -> bool:
    """Return whether cells are numbers or missing; stored booleans are, too."""
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return bool(is_number or pa.types.is_null(kind) or pa.types.is_boolean(stored))


def _read_finite(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return numbers, NaN for cells that are missing or infinite; no numbers for a column of texts."""
    if not _is_number(column.type, column.type):
        return np.empty(0)
    values = to_columns(pa.table({"": column}))[""].astype(np.float64)
    return np.where(np.isfinite(values), values, np.nan)
