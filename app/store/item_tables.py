"""Batch items in Parquet: read the items of a batch, and write its answers."""

import json
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet

from app.store.query_tables import read_parquet_within
from app.store.uploads import limit_memory, run_in_reader
from models.errors import Fault, InvalidRequest, PayloadTooLarge
from models.run import RunItem

FILE = "file"
_PIECE = 500
_COLUMNS = tuple(RunItem.model_fields)
_ANSWERS = pa.schema(
    [
        ("index", pa.int64()),
        ("id", pa.string()),
        ("label", pa.string()),
        ("confidence", pa.float64()),
        ("degraded", pa.string()),
        ("error", pa.string()),
        ("status", pa.int64()),
        ("cost", pa.float64()),
        ("decision", pa.string()),
        ("line", pa.string()),
    ]
)


def check_item_count(count: int, most: int, what: str = "items") -> None:
    """Raise PayloadTooLarge if there are more items than the limit."""
    if count > most:
        raise PayloadTooLarge(f"{what} must be at most {most} (PARSIMONY_MAX_BATCH), got {count}")


def read_item_table(path: Path, *, max_bytes: int, most: int, run_in: Callable[..., list[bytes]]) -> list[bytes]:
    """Return the rows of a Parquet file as JSON objects, without empty cells.

    Args:
        max_bytes: limit of the table and of the JSON.
        most: maximum number of rows.
        run_in: reads the file in a separate process, because malformed files may crash it.
    Raises:
        InvalidRequest: the file is malformed, or has unknown columns.
        PayloadTooLarge: a limit is exceeded.
    """
    return run_in_reader(run_in, _rows, path, max_bytes, most, where=FILE)


def _rows(path: Path, max_bytes: int, most: int) -> list[bytes]:
    with limit_memory(max_bytes):
        try:
            check_item_count(pa.parquet.read_metadata(path).num_rows, most)
            table = read_parquet_within(path, max_bytes, FILE)
            _refuse_columns(table.column_names)
            return _objects(table, max_bytes)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise InvalidRequest.from_faults(Fault((FILE,), f"must be readable Parquet: {error}")) from error


def _refuse_columns(names: list[str]) -> None:
    known = ", ".join(_COLUMNS)
    stray = next((name for name in names if name not in _COLUMNS), None)
    if stray is not None:
        raise InvalidRequest.from_faults(Fault((FILE, stray), f"is not a known column; available: {known}"))
    if "item" not in names:
        raise InvalidRequest.from_faults(Fault((FILE, "item"), f"column not found; available: {known}"))


def _objects(table: pa.Table, max_bytes: int) -> list[bytes]:
    """Write rows as JSON up to the size limit; JSON is larger than the table."""
    objects, length = list[bytes](), 0
    for piece in table.to_batches(_PIECE):
        for row in piece.to_pylist():
            objects.append(_object(len(objects) + 1, row))
            length += len(objects[-1])
            if length > max_bytes:
                raise PayloadTooLarge(f"the first {len(objects)} rows exceed {max_bytes} bytes as JSON")
    return objects


def _object(number: int, row: dict[str, Any]) -> bytes:
    """Write a row as JSON; raises InvalidRequest for values without a JSON form."""
    cells = {name: value for name, value in row.items() if name == "item" or value is not None}
    try:
        return json.dumps(cells, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidRequest.from_faults(Fault((FILE, f"row {number}"), f"must be JSON: {error}")) from error


def write_answers(lines: Iterable[str], target: Any) -> None:
    """Write a batch's output lines as a Parquet table, in chunks.

    The most common fields have columns of their own. The column ``line`` has the complete line as JSON.
    """
    with pa.parquet.ParquetWriter(target, _ANSWERS) as writer:
        answers = (_answer(line) for line in lines)
        while piece := list(islice(answers, _PIECE)):
            writer.write_table(pa.Table.from_pylist(piece, schema=_ANSWERS))


def _answer(line: str) -> dict[str, Any]:
    answer = orjson.loads(line)
    cost = sum(step["cost"] for step in answer["steps"])
    return {**{name: answer.get(name) for name in _ANSWERS.names}, "cost": cost, "line": line.strip()}
