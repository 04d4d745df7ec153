"""Tables as they are uploaded: CSV (also gzipped) and Parquet through pyarrow, embeddings as ``.npy``."""

import gzip
import json
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from app import codec
from models import Dataset, DatasetSpec, FeaturesSpec, TraceSpec, dataset_from_columns
from models.columns import Columns, first_repeated
from models.errors import CorruptArtifact, Fault, InvalidRequest, PayloadTooLarge, UnsupportedMediaType

CSV_TYPES = ("text/csv", "application/csv", "application/gzip", "application/x-gzip")
PARQUET_TYPES = ("application/vnd.apache.parquet", "application/x-parquet")
UNTOLD_TYPES = ("", "application/octet-stream")
"""What clients send when they do not know: the bytes decide."""
_CHUNK = 2**20
_LEAST_CELL = 4
"""Bytes that a checked cell takes at least: a class's code."""
Spec = FeaturesSpec | TraceSpec
_SPEC: TypeAdapter[Spec] = TypeAdapter(DatasetSpec)


def parse_spec(text: str | bytes) -> Spec:
    """Read how a table is to be read; raises InvalidRequest with every fault."""
    try:
        return _SPEC.validate_json(text)
    except ValidationError as error:
        found = [{**fault, "loc": _place(fault["loc"], text)} for fault in error.errors()]
        raise InvalidRequest.of(found, "spec") from error


def _place(loc: tuple[int | str, ...], text: str | bytes) -> tuple[int | str, ...]:
    """Leave out of a place what stands nowhere in the caller's JSON: which of several types pydantic tried there."""
    try:
        here = json.loads(text)
    except ValueError:
        return loc
    found: list[int | str] = []
    for position, part in enumerate(loc):
        known = part in here if isinstance(here, dict) else isinstance(here, list) and isinstance(part, int)
        if known and (isinstance(here, dict) or int(part) < len(here)):
            here = here[part]
            found.append(part)
        elif position == len(loc) - 1 and isinstance(here, dict) and isinstance(part, str):
            found.append(part)  # a field that is missing
    return tuple(found)


def read_dataset(spec: Spec, table: Path, media_type: str, embeddings: bytes | None, *, max_bytes: int) -> Dataset:
    """Read and check a table, with its embeddings if there are any.

    ``max_bytes`` bounds the table, and what a packed one may unpack to. Raises InvalidRequest with every fault,
    PayloadTooLarge or UnsupportedMediaType.
    """
    if table.stat().st_size > max_bytes:
        raise PayloadTooLarge(f"the table has {table.stat().st_size} bytes, the limit is {max_bytes}")
    with tempfile.TemporaryDirectory(prefix="parsimony-") as scratch:
        columns = _read_table(spec, table, media_type, max_bytes, Path(scratch))
    vectors = None if embeddings is None else _read_embeddings(embeddings)
    return dataset_from_columns(spec, columns, vectors)


def _read_table(spec: Spec, path: Path, media_type: str, max_bytes: int, scratch: Path) -> Columns:
    """Read the columns of the spec that the table has."""
    kind = media_type.partition(";")[0].strip().lower()
    with path.open("rb") as file:
        magic = file.read(4)
    if kind not in (*CSV_TYPES, *PARQUET_TYPES, *UNTOLD_TYPES):
        raise UnsupportedMediaType(f"the table is {kind}, must be text/csv or application/vnd.apache.parquet")
    if kind in PARQUET_TYPES or (kind in UNTOLD_TYPES and magic == b"PAR1"):
        table = _read_parquet(spec, path, max_bytes)
    else:
        table = _read_csv(spec, _unpacked(path, magic, max_bytes, scratch))
    return {name: _column(table.column(name), name) for name in table.column_names}


def _read_embeddings(data: bytes) -> NDArray[Any]:
    """Read an ``.npy`` array; raises InvalidRequest."""
    try:
        return codec.array_from_bytes(data)
    except CorruptArtifact as error:
        raise InvalidRequest.at(Fault(("embeddings",), str(error))) from error


def _unpacked(path: Path, magic: bytes, max_bytes: int, scratch: Path) -> Path:
    """Give the path of the plain CSV: a gzipped one is unpacked to the scratch folder, no further than the limit."""
    if not magic.startswith(b"\x1f\x8b"):
        return path
    plain = scratch / "table.csv"
    try:
        with gzip.open(path) as packed, plain.open("wb") as out:
            while chunk := packed.read(_CHUNK):
                if out.tell() + len(chunk) > max_bytes:
                    raise PayloadTooLarge(f"the table unpacks to more than {max_bytes} bytes")
                out.write(chunk)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InvalidRequest.at(Fault(("table",), f"is no readable gzip: {error}")) from error
    return plain


def _read_csv(spec: Spec, path: Path) -> pa.Table:
    # One block for the whole file: the type of a column is then inferred from all of its rows.
    reading = pa.csv.ReadOptions(block_size=max(path.stat().st_size + 1, _CHUNK), use_threads=True)
    try:
        with pa.csv.open_csv(path) as reader:
            names = reader.schema.names
        present = [name for name in spec.used_columns if name in names]
        _refuse_repeated(names, present)
        if not present:
            there = ", ".join(repr(name) for name in names[:8])
            raise InvalidRequest.at(
                Fault(("table",), f"has none of the spec's columns, but {there}; commas part columns")
            )
        converting = pa.csv.ConvertOptions(
            include_columns=present, column_types=dict.fromkeys(spec.class_columns, pa.binary())
        )
        try:
            table: pa.Table = pa.csv.read_csv(path, read_options=reading, convert_options=converting)
        except pa.ArrowInvalid:  # once more, so that the message names the row
            reading.use_threads = False
            table = pa.csv.read_csv(path, read_options=reading, convert_options=converting)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise InvalidRequest.at(Fault(("table",), f"is no readable CSV: {error}")) from error
    return table


def _read_parquet(spec: Spec, path: Path, max_bytes: int) -> pa.Table:
    try:
        names, rows = pa.parquet.read_schema(path).names, pa.parquet.read_metadata(path).num_rows
        present = [name for name in spec.used_columns if name in names]
        _refuse_repeated(names, present)
        if rows * len(present) * _LEAST_CELL > max_bytes:
            raise PayloadTooLarge(f"the table's {rows} rows unpack to more than {max_bytes} bytes")
        return pa.parquet.read_table(path, columns=present)
    except (pa.ArrowException, OSError) as error:
        raise InvalidRequest.at(Fault(("table",), f"is no readable Parquet: {error}")) from error


def _refuse_repeated(names: list[str], used: list[str]) -> None:
    repeated = first_repeated(name for name in names if name in used)
    if repeated is not None:
        raise InvalidRequest.at(Fault(("table", repeated), "stands twice among the columns"))


def _column(chunked: pa.ChunkedArray, name: str) -> NDArray[Any]:
    """Turn a column into an array: numbers with NaN, or objects with None, where a cell is missing."""
    kind = chunked.type
    if pa.types.is_dictionary(kind):
        return _column(chunked.cast(kind.value_type), name)
    if pa.types.is_null(kind):
        return np.full(len(chunked), np.nan)
    if pa.types.is_decimal(kind) or (_is_numeric(kind) and chunked.null_count):
        return np.asarray(chunked.cast(pa.float64(), safe=False).to_numpy())
    if _is_numeric(kind):
        return np.asarray(chunked.to_numpy())
    if pa.types.is_binary(kind):  # what pyarrow makes of a CSV's text in another encoding
        row = next((row for row, cell in enumerate(chunked.to_pylist(), start=1) if not _is_utf8(cell)), None)
        if row is not None:
            raise InvalidRequest.at(Fault(("table", name), f"must be text in UTF-8; row {row} is not"))
    try:
        return np.array(chunked.cast(pa.large_string()).to_pylist(), dtype=object)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidRequest.at(Fault(("table", name), f"has the type {kind}, must be numbers or text")) from error


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def _is_utf8(cell: bytes | None) -> bool:
    try:
        (cell or b"").decode()
    except UnicodeDecodeError:
        return False
    return True
