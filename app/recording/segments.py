"""Segments of recordings: Parquet files of completed logs.

Readers combine segments with open logs. A log keeps its lines until its segment is on disk. If both exist after a
crash, only the segment is read.
"""

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet

from app.recording.log_file import SUFFIX, sync_folder

logger = logging.getLogger("parsimony.recordings")
SEGMENT_SUFFIX = ".parquet"
_CALL = pa.struct(
    [
        ("classifier", pa.string()),
        ("label", pa.string()),
        ("confidence", pa.float64()),
        ("cost", pa.float64()),
        ("seconds", pa.float64()),
        ("propensity", pa.float64()),
        ("is_explored", pa.bool_()),
        ("error", pa.string()),
    ]
)
ROWS = pa.schema(
    [
        ("id", pa.string()),
        ("key", pa.string()),
        ("time", pa.float64()),
        ("version", pa.int32()),
        ("embedding", pa.string()),
        ("size", pa.list_(pa.float64())),
        ("item", pa.string()),
        ("explore", pa.float64()),
        ("candidates", pa.list_(pa.string())),
        ("calls", pa.list_(_CALL)),
    ]
)
"""Rows; the embedding is base64 of little-endian float32, the item is JSON."""
_GRADE = pa.struct([("classifier", pa.string()), ("value", pa.float64())])
TRUTHS = pa.schema([("id", pa.string()), ("time", pa.float64()), ("truth", pa.string()), ("grades", pa.list_(_GRADE))])
"""Truths; a grade is the quality of a classifier's answer, from 0 to 1."""
SCHEMAS = {"rows": ROWS, "truths": TRUTHS}
"""The schema of each stream of a recording; a stream is a folder."""


def convert_log(path: Path, schema: pa.Schema) -> bool:
    """Convert a log without a writer to a segment; return whether this succeeded."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(handle).st_nlink == 0:  # another process was faster
            return False
        _write_segment(path, schema)
        path.unlink()
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(handle)


def _write_segment(path: Path, schema: pa.Schema) -> None:
    target = path.with_suffix(SEGMENT_SUFFIX)
    if target.exists():
        return
    table = read_log(path, schema)
    if not table.num_rows:
        return
    hidden = path.with_suffix(".part")
    with hidden.open("wb") as file:
        pa.parquet.write_table(table, file, compression="zstd")
        file.flush()
        os.fsync(file.fileno())
    hidden.rename(target)
    sync_folder(path.parent)


def read_log(path: Path, schema: pa.Schema) -> pa.Table:
    """Read the complete lines of a log; an incomplete last line was not acknowledged."""
    data = path.read_bytes()
    data = data[: data.rfind(b"\n") + 1]
    if not data:
        return schema.empty_table()
    parse = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    read = pa.json.ReadOptions(use_threads=False, block_size=len(data) + 1)
    return pa.json.read_json(pa.BufferReader(data), read_options=read, parse_options=parse)


def iterate_tables(folder: Path, schema: pa.Schema, columns: list[str] | None = None) -> Iterator[pa.Table]:
    """Yield the tables of all segments and logs of a stream, oldest first.

    Args:
        columns: names of the columns to read; None for all.
    """
    for path in list_files(folder):
        yield from _read_file(path, schema, columns)


def iterate_newest(folder: Path, schema: pa.Schema, columns: list[str], most: int) -> Iterator[pa.Table]:
    """Yield tables with the newest rows of a stream, newest file first.

    Args:
        columns: names of the columns to read.
        most: maximum number of rows.
    """
    remaining = most
    for path in reversed(list_files(folder)):
        for table in reversed(list(_read_file(path, schema, columns))):
            if remaining > 0 and table.num_rows:
                yield table.slice(max(table.num_rows - remaining, 0))
            remaining -= table.num_rows
        if remaining <= 0:
            break


def _read_file(path: Path, schema: pa.Schema, columns: list[str] | None) -> Iterator[pa.Table]:
    """Yield the tables of a segment or a log; nothing if it was deleted meanwhile."""
    try:
        if path.suffix == SEGMENT_SUFFIX:
            yield from _read_segment(path, columns)
        else:
            table = read_log(path, schema)
            yield table if columns is None else table.select(columns)
    except FileNotFoundError:  # deleted, or a segment by now
        segment = path.with_suffix(SEGMENT_SUFFIX)
        if path != segment and segment.exists():
            yield from _read_segment(segment, columns)


def _read_segment(path: Path, columns: list[str] | None) -> Iterator[pa.Table]:
    with pa.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=10_000, columns=columns):
            yield pa.Table.from_batches([batch])


def list_files(folder: Path) -> list[Path]:
    """Return the segments of a stream and its unconverted logs, oldest first."""
    try:
        paths = sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    segments = {path.stem for path in paths if path.suffix == SEGMENT_SUFFIX}
    return [
        path for path in paths if path.suffix == SEGMENT_SUFFIX or (path.suffix == SUFFIX and path.stem not in segments)
    ]


def measure_bytes(folder: Path) -> int:
    """Return the total bytes of all streams of a recording."""
    return sum(_size_of(path) for stream in SCHEMAS for path in list_files(folder / stream))


def compact_recording(folder: Path, max_bytes: int, max_age_s: float) -> None:
    """Convert completed logs to segments, and delete old segments.

    Deleted are segments older than ``max_age_s``, and the oldest ones beyond ``max_bytes``.
    """
    for stream, schema in SCHEMAS.items():
        for path in list_files(folder / stream):
            if path.suffix == SUFFIX:
                _convert_safely(path, schema)
    paths = sorted((path for stream in SCHEMAS for path in list_files(folder / stream)), key=lambda path: path.name)
    total, oldest = sum(map(_size_of, paths)), time.time() - max_age_s
    for path in paths:
        if path.suffix == SEGMENT_SUFFIX and (total > max_bytes or _modified_at(path) < oldest):
            total -= _size_of(path)
            path.unlink(missing_ok=True)


def _convert_safely(path: Path, schema: pa.Schema) -> None:
    """Convert a log; if this fails, the log remains, and its lines cannot be read."""
    try:
        convert_log(path, schema)
    except (pa.ArrowException, OSError) as error:
        logger.error("recording log not converted file=%s error=%s", path, error)


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _modified_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
