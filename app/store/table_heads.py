"""The first rows of uploaded tables, for drafts of specs."""

import csv
import gzip
import io
import zlib
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from app.store.json_lines import to_csv
from app.store.uploads import MAX_COLUMNS, check_column_count, is_json_lines, is_parquet, limit_memory, run_in_reader
from models.errors import Fault, InvalidRequest

ROWS = 200
_BYTES = 2**20
_MAX_TIMES = 100
"""As a table, lines may take so many times the bytes that were read: those of other fields each have an empty cell."""
_LONGEST = 200
"""Letters of a cell that are shown."""
Head = tuple[list[str], list[list[str]]]


def read_table_head(table: Path, media_type: str, *, max_bytes: int, run_in: Callable[..., Head]) -> Head:
    """Return the columns and up to 200 rows of a CSV, JSON Lines, or Parquet table.

    Args:
        run_in: reads Parquet in a separate process, as in ``read_dataset``.
    Raises:
        InvalidRequest: the table is malformed.
    """
    parquet, magic = is_parquet(table, media_type)
    if parquet:
        return run_in_reader(run_in, _parquet_head, table, max_bytes)
    return _text_head(table, media_type, packed=magic.startswith(b"\x1f\x8b"))


def _text_head(table: Path, media_type: str, *, packed: bool) -> Head:
    """Read the complete lines in the first megabyte of a CSV or JSON Lines file."""
    try:
        with (gzip.open if packed else open)(table, "rb") as file:
            data = file.read(_BYTES)
            whole = not file.read(1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InvalidRequest.from_faults(Fault(("table",), f"must be readable gzip: {error}")) from error
    lines = data if whole else data[: data.rfind(b"\n") + 1]
    if is_json_lines(lines, media_type):
        lines = _as_csv(lines)
    try:
        text = lines.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        fault = f"must be CSV in UTF-8, got the byte {error.object[error.start]:#04x}"
        raise InvalidRequest.from_faults(Fault(("table",), fault)) from error
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    except csv.Error as error:
        raise InvalidRequest.from_faults(Fault(("table",), f"must be readable CSV: {error}")) from error
    if not rows and not whole:
        raise InvalidRequest.from_faults(Fault(("table",), f"must have a line end within the first {_BYTES} bytes"))
    if not rows:
        raise InvalidRequest.from_faults(Fault(("table",), "must not be empty; the first row has the column names"))
    check_column_count(len(rows[0]))
    if len(rows[0]) == 1:
        named = f"must have columns separated by commas, got one column {rows[0][0][:_LONGEST]!r}"
        raise InvalidRequest.from_faults(Fault(("table",), named))
    width = len(rows[0])
    return rows[0], [(row + [""] * width)[:width] for row in rows[1 : ROWS + 1]]


def _as_csv(lines: bytes) -> bytes:
    """Convert JSON Lines to CSV."""
    with TemporaryDirectory(prefix="parsimony-") as scratch:
        source, target = Path(scratch) / "lines", Path(scratch) / "table.csv"
        source.write_bytes(lines)
        to_csv(source, target, max_bytes=_MAX_TIMES * _BYTES, most_columns=MAX_COLUMNS, longest=_LONGEST)
        return target.read_bytes()


def _parquet_head(table: Path, max_bytes: int) -> Head:
    with limit_memory(max_bytes):
        try:
            file = pa.parquet.ParquetFile(table)
            names = file.schema_arrow.names
            check_column_count(len(names))
            batch: Any = next(file.iter_batches(batch_size=ROWS), None)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise InvalidRequest.from_faults(Fault(("table",), f"must be readable Parquet: {error}")) from error
        columns = [[] if batch is None else [_text(cell) for cell in batch.column(name).to_pylist()] for name in names]
    return names, [list(row) for row in zip(*columns, strict=True)]


def _text(cell: Any) -> str:
    if isinstance(cell, bytes):
        return cell.decode(errors="replace")[:_LONGEST]
    return "" if cell is None else str(cell)[:_LONGEST]
