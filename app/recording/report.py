"""Counts of a recording's rows; one segment is in memory at a time."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from app.recording.segments import ROWS, TRUTHS, iterate_tables


@dataclass(slots=True)
class RowCounts:
    """Counts of rows, and the times of the oldest and the newest row.

    Times are in seconds since 1970; they are infinite without rows.
    """

    rows: int = 0
    oldest: float = math.inf
    newest: float = -math.inf
    explored: int = 0
    with_truth: int = 0


def count_rows(folder: Path, reference: str | None) -> RowCounts:
    """Return the counts of a recording.

    Args:
        reference: classifier whose answer is the truth of rows without a posted truth; None for none.
    """
    counts, ids = RowCounts(), _read_truth_ids(folder / "truths")
    for table in iterate_tables(folder / "rows", ROWS, ["id", "time", "calls"]):
        if table.num_rows:
            _add_table(counts, table, ids, reference)
    return counts


def _add_table(counts: RowCounts, table: pa.Table, ids: pa.Array, reference: str | None) -> None:
    times = pc.min_max(table["time"]).as_py()
    counts.rows += table.num_rows
    counts.oldest, counts.newest = min(counts.oldest, times["min"]), max(counts.newest, times["max"])
    chunks = table["calls"].combine_chunks()
    rows, calls = pc.list_parent_indices(chunks), pc.list_flatten(chunks)
    counts.explored += len(pc.unique(rows.filter(pc.struct_field(calls, "is_explored"))))
    known = pc.is_in(table["id"], value_set=ids).combine_chunks()
    counts.with_truth += pc.sum(known).as_py() or 0
    if reference is not None:
        is_reference = pc.equal(pc.struct_field(calls, "classifier"), reference)
        has_label = pc.and_(is_reference, pc.is_valid(pc.struct_field(calls, "label")))
        answered = pc.unique(rows.filter(has_label))
        counts.with_truth += len(answered) - (pc.sum(known.take(answered)).as_py() or 0)


def _read_truth_ids(folder: Path) -> pa.Array:
    def chunks() -> Iterator[pa.Array]:
        for table in iterate_tables(folder, TRUTHS, ["id"]):
            yield from table["id"].chunks

    return pc.unique(pa.chunked_array(list(chunks()), type=pa.string()))
