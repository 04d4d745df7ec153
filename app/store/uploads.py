"""Parsing of uploaded datasets: CSV, JSON Lines, Parquet, and ``.npy`` embeddings."""

import csv
import gzip
import io
import json
import multiprocessing
import resource
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from app.processes.sandbox import NAME
from app.store import codec
from app.store.json_lines import BOM, to_csv
from app.store.table_types import (
    CSV_TYPES,
    GZIP_TYPES,
    JSON_LINES_TYPES,
    PARQUET_MAGIC,
    PARQUET_TYPES,
    UNSPECIFIED_TYPES,
)
from models import Dataset, DatasetSpec, FeaturesSpec, TraceSpec, dataset_from_columns
from models.columns import Columns, find_duplicate_name
from models.errors import (
    CorruptArtifact,
    Fault,
    InvalidRequest,
    PayloadTooLarge,
    SolverTimeout,
    UnsupportedMediaType,
)

_CHUNK = 2**20
READ_TIMEOUT_S = 120.0
"""The longest for reading one table of Parquet."""
_READER_BASE, _READER_FACTOR = 2**30, 8
"""Bytes that a process which reads Parquet may take, and how many more for each byte of the limit."""
_MIN_CELL = 4
"""Bytes that a checked cell takes at least: a class's code."""
MAX_COLUMNS = 20_000
"""Of a CSV: each takes kilobytes while it is read, were it but a comma in the file."""
Spec = FeaturesSpec | TraceSpec
R = TypeVar("R")
_SPEC: TypeAdapter[Spec] = TypeAdapter(DatasetSpec)


def parse_spec(text: str | bytes) -> Spec:
    """Parse a dataset's spec; raises InvalidRequest with all faults."""
    try:
        return _SPEC.validate_json(text)
    except ValidationError as error:
        faults = [{**fault, "loc": _place(fault["loc"][1:], text)} for fault in error.errors()]
        raise InvalidRequest.from_validation(faults, "spec") from error


def _place(loc: tuple[int | str, ...], text: str | bytes) -> tuple[int | str, ...]:
    """Remove the names of union members, which are not in the JSON, from a location."""
    try:
        here = json.loads(text)
    except (ValueError, RecursionError):
        return loc
    place: list[int | str] = []
    for position, part in enumerate(loc):
        known = part in here if isinstance(here, dict) else isinstance(here, list) and isinstance(part, int)
        if known and (isinstance(here, dict) or int(part) < len(here)):
            here = here[part]
            place.append(part)
        elif position == len(loc) - 1 and isinstance(here, dict) and isinstance(part, str):
            place.append(part)  # a field that is missing
    return tuple(place)


def read_dataset(
    spec: Spec,
    table: Path,
    media_type: str,
    embeddings: bytes | None,
    *,
    max_bytes: int,
) -> Dataset:
    """Parse and check a table and its embeddings.

    Malformed Parquet may crash the process.

    Args:
        max_bytes: limit of the table, also after decompression.
    Raises:
        InvalidRequest: the table is invalid; the error has all faults.
        PayloadTooLarge: the table exceeds ``max_bytes``.
        UnsupportedMediaType: the media type is not supported.
    """
    if table.stat().st_size > max_bytes:
        raise PayloadTooLarge(f"the table must have at most {max_bytes} bytes, got {table.stat().st_size}")
    with tempfile.TemporaryDirectory(prefix="parsimony-") as scratch:
        columns = _read_table(spec, table, media_type, max_bytes, Path(scratch))
    vectors = None if embeddings is None else _read_embeddings(embeddings)
    return dataset_from_columns(spec, columns, vectors)


def _read_table(spec: Spec, path: Path, media_type: str, max_bytes: int, scratch: Path) -> Columns:
    """Read the columns of the spec that the table has."""
    parquet, magic = is_parquet(path, media_type)
    if parquet:
        return to_columns(_read_parquet(spec, path, max_bytes))
    return to_columns(_read_csv(spec, convert_to_csv(path, magic, media_type, max_bytes, scratch)))


def convert_to_csv(path: Path, magic: bytes, media_type: str, max_bytes: int, scratch: Path) -> Path:
    """Return the path of a plain CSV, converted in the scratch folder from gzip or JSON Lines if necessary.

    Args:
        magic: the first bytes of the file.
        max_bytes: limit of the CSV.
    """
    plain = _unpacked(path, magic, max_bytes, scratch)
    with plain.open("rb") as file:
        if not is_json_lines(file.read(_CHUNK), media_type):
            return plain
    table = scratch / "lines.csv"
    to_csv(plain, table, max_bytes=max_bytes, most_columns=MAX_COLUMNS)
    return table


def is_json_lines(text: bytes, media_type: str) -> bool:
    """Return whether a table is JSON Lines.

    The media type determines it, or the first character if the media type is ambiguous.
    """
    kind = _kind_of(media_type)
    maybe = kind in (*UNSPECIFIED_TYPES, *GZIP_TYPES) and text.removeprefix(BOM).lstrip()[:1] == b"{"
    return kind in JSON_LINES_TYPES or maybe


def _kind_of(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


def is_parquet(path: Path, media_type: str) -> tuple[bool, bytes]:
    """Return whether a table is Parquet, and its first bytes.

    Raises UnsupportedMediaType for unknown media types.
    """
    kind = _kind_of(media_type)
    with path.open("rb") as file:
        magic = file.read(4)
    if kind not in (*CSV_TYPES, *PARQUET_TYPES, *JSON_LINES_TYPES, *UNSPECIFIED_TYPES):
        must = "text/csv, application/jsonl or application/vnd.apache.parquet"
        raise UnsupportedMediaType(f"the table must be {must}, got {kind}")
    return kind in PARQUET_TYPES or (kind in UNSPECIFIED_TYPES and magic == PARQUET_MAGIC), magic


def run_in_reader(run_in: Callable[..., Any], work: Callable[..., R], *args: Any, where: str = "table") -> R:
    """Read a file in a separate process, because malformed files may crash it.

    Raises InvalidRequest for the part ``where`` if the process crashes or times out.
    """
    try:
        answer: R = run_in(work, *args)
        return answer
    except (CorruptArtifact, SolverTimeout) as error:
        what = "reading it took too long" if isinstance(error, SolverTimeout) else "reading it ended its process"
        raise InvalidRequest.from_faults(Fault((where,), f"cannot be read: {what}")) from error


def to_columns(table: pa.Table) -> Columns:
    """Return a table's columns as arrays.

    Raises InvalidRequest for columns that are neither numbers nor texts.
    """
    return {name: _column(table.column(name), name) for name in table.column_names}


def _read_embeddings(data: bytes) -> NDArray[Any]:
    """Read an ``.npy`` array; raises InvalidRequest."""
    try:
        return codec.array_from_bytes(data)
    except CorruptArtifact as error:
        raise InvalidRequest.from_faults(Fault(("embeddings",), str(error))) from error


def _unpacked(path: Path, magic: bytes, max_bytes: int, scratch: Path) -> Path:
    """Return the path of a plain CSV; a gzipped file is unpacked to the scratch folder, up to the limit."""
    if not magic.startswith(b"\x1f\x8b"):
        return path
    plain = scratch / "table.csv"
    try:
        with gzip.open(path) as packed, plain.open("wb") as out:
            while chunk := packed.read(_CHUNK):
                if out.tell() + len(chunk) > max_bytes:
                    raise PayloadTooLarge(f"the table must unpack to at most {max_bytes} bytes")
                out.write(chunk)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InvalidRequest.from_faults(Fault(("table",), f"must be readable gzip: {error}")) from error
    return plain


def _read_csv(spec: Spec, path: Path) -> pa.Table:
    # One block for the whole file: the type of a column is then inferred from all of its rows.
    reading = pa.csv.ReadOptions(block_size=max(path.stat().st_size + 1, _CHUNK), use_threads=True)
    present = choose_csv_columns(spec, path)
    converting = pa.csv.ConvertOptions(
        include_columns=present, column_types=dict.fromkeys(spec.class_columns, pa.binary())
    )
    try:
        try:
            table: pa.Table = pa.csv.read_csv(path, read_options=reading, convert_options=converting)
        except pa.ArrowInvalid:  # once more, so that the message names the row
            reading.use_threads = False
            table = pa.csv.read_csv(path, read_options=reading, convert_options=converting)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise unreadable_csv(error) from error
    return table


def choose_csv_columns(spec: Spec, path: Path) -> list[str]:
    """Return the columns of the spec that a CSV file has; raises InvalidRequest for none and for duplicates."""
    _refuse_many_columns(path)
    try:
        with pa.csv.open_csv(path) as reader:
            names = reader.schema.names
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise unreadable_csv(error) from error
    present = [name for name in spec.read_columns if name in names]
    _refuse_repeated(names, present)
    if not present:
        there = ", ".join(repr(name) for name in names[:8])
        raise InvalidRequest.from_faults(
            Fault(("table",), f"must have the columns of the spec, separated by commas, got {there}")
        )
    return present


def unreadable_csv(error: Exception) -> InvalidRequest:
    """Return the error of a malformed CSV file."""
    return InvalidRequest.from_faults(Fault(("table",), f"must be readable CSV: {error}"))


def unreadable_parquet(error: Exception) -> InvalidRequest:
    """Return the error of a malformed Parquet file."""
    return InvalidRequest.from_faults(Fault(("table",), f"must be readable Parquet: {error}"))


def _refuse_many_columns(path: Path) -> None:
    """Count the columns of the first non-empty line, as pyarrow splits it."""
    with path.open("rb") as file:
        text = file.read(_CHUNK).decode("utf-8-sig", errors="replace")
    try:
        columns = len(next((row for row in csv.reader(io.StringIO(text, newline="")) if row), []))
    except csv.Error as error:
        raise InvalidRequest.from_faults(Fault(("table",), f"must be readable CSV: {error}")) from error
    check_column_count(columns)


def check_column_count(columns: int) -> None:
    """Raise InvalidRequest if a table has too many columns."""
    if columns > MAX_COLUMNS:
        raise InvalidRequest.from_faults(Fault(("table",), f"must have at most {MAX_COLUMNS} columns, got {columns}"))


@contextmanager
def limit_memory(max_bytes: int) -> Iterator[None]:
    """Limit the memory of a reader process; raises PayloadTooLarge beyond the limit.

    Raises PayloadTooLarge beyond the limit.
    """
    if multiprocessing.current_process().name == NAME:  # not where the caller's own memory would be bounded
        _confine(max_bytes)
    try:
        yield
    except MemoryError as error:
        raise PayloadTooLarge(f"the table exceeds the memory for {max_bytes} unpacked bytes") from error


def _confine(max_bytes: int) -> None:
    """Limit the memory of this process permanently; a file may declare a wrong size."""
    most = _READER_BASE + _READER_FACTOR * max_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _read_parquet(spec: Spec, path: Path, max_bytes: int) -> pa.Table:
    try:
        schema = pa.parquet.read_schema(path)
        present = check_schema(spec, schema)
        _refuse_large(schema, pa.parquet.read_metadata(path), present, max_bytes)
        # Text that stands once in the file and in many rows is not to be copied into each of them.
        return pa.parquet.read_table(path, columns=present, read_dictionary=present)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise unreadable_parquet(error) from error


def check_schema(spec: Spec, schema: pa.Schema) -> list[str]:
    """Return the columns of the spec in a schema; raises InvalidRequest for duplicates and nested types."""
    present = [name for name in spec.read_columns if name in schema.names]
    _refuse_repeated(schema.names, present)
    for name in present:
        if pa.types.is_nested(schema.field(name).type):
            raise _wrong_type(name, schema.field(name).type)
    return present


def _refuse_large(schema: pa.Schema, metadata: pa.parquet.FileMetaData, present: list[str], max_bytes: int) -> None:
    """Raise PayloadTooLarge for columns that the file declares to be too large."""
    packed = sum_unpacked_bytes(metadata, present)
    kinds = [schema.field(name).type for name in present]
    cells = sum(kind.byte_width if pa.types.is_fixed_size_binary(kind) else _MIN_CELL for kind in kinds)
    if max(packed, metadata.num_rows * cells) > max_bytes:
        raise PayloadTooLarge(f"the {metadata.num_rows} rows must unpack to at most {max_bytes} bytes")


def sum_unpacked_bytes(metadata: pa.parquet.FileMetaData, names: list[str]) -> int:
    """Return the unpacked size of columns, as the file declares it."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    return sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema in names)


def _refuse_repeated(names: list[str], used: list[str]) -> None:
    repeated = find_duplicate_name(name for name in names if name in used)
    if repeated is not None:
        raise InvalidRequest.from_faults(Fault(("table", repeated), "is a duplicate column"))


def _column(chunked: pa.ChunkedArray, name: str) -> NDArray[Any]:
    """Convert a column to an array; missing cells are NaN for numbers, else None."""
    kind = chunked.type
    if pa.types.is_dictionary(kind):
        _refuse_stray(chunked, name)
    if pa.types.is_dictionary(kind) and _is_numeric(kind.value_type):
        return _column(chunked.cast(kind.value_type), name)
    if pa.types.is_null(kind):
        return np.full(len(chunked), np.nan)
    if pa.types.is_decimal(kind) or (_is_numeric(kind) and chunked.null_count):
        return np.asarray(chunked.cast(pa.float64(), safe=False).to_numpy())
    if _is_numeric(kind):
        return np.asarray(chunked.to_numpy())
    return _texts(chunked, name)


def _refuse_stray(chunked: pa.ChunkedArray, name: str) -> None:
    """Reject codes outside of their dictionary, which pyarrow does not check."""
    for chunk in chunked.chunks:
        codes = np.asarray(chunk.indices.drop_null().cast(pa.int64(), safe=False))
        if codes.size and not 0 <= codes.min() <= codes.max() < len(chunk.dictionary):
            raise InvalidRequest.from_faults(Fault(("table", name), "contains unknown category codes"))


def _texts(chunked: pa.ChunkedArray, name: str) -> NDArray[Any]:
    """Convert a column to texts; equal texts are stored once."""
    kind = chunked.type
    try:
        whole = chunked if pa.types.is_dictionary(kind) else chunked.dictionary_encode()
        encoded = whole.unify_dictionaries().combine_chunks()
        places = np.asarray(encoded.indices.cast(pa.int64()).fill_null(-1))
        dictionary = encoded.dictionary
        if not (pa.types.is_string(dictionary.type) or pa.types.is_binary(dictionary.type)):
            dictionary = dictionary.cast(pa.large_string())
        cells = dictionary.cast(pa.large_binary()).to_pylist()  # its texts need not be UTF-8, whatever the type
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _wrong_type(name, kind) from error
    wrong = np.isin(places, [code for code, cell in enumerate(cells) if not _is_utf8(cell)])
    if wrong.any():
        row = int(wrong.argmax())
        raise InvalidRequest.from_faults(Fault(("table", name), f"must be text in UTF-8; row {row + 1} is not", row))
    decoded = [None if cell is None else cell.decode() for cell in cells]
    texts: NDArray[Any] = np.array([*decoded, None], dtype=object)[places]
    return texts


def _wrong_type(name: str, kind: pa.DataType) -> InvalidRequest:
    return InvalidRequest.from_faults(Fault(("table", name), f"must have numbers or texts, got {kind}"))


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _is_utf8(cell: bytes | None) -> bool:
    try:
        (cell or b"").decode()
    except UnicodeDecodeError:
        return False
    return True
