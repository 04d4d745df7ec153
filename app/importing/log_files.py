"""Readers of log files, record by record.

Formats are JSON Lines, JSON lists, CSV, and Parquet, also gzipped.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import orjson
import pyarrow as pa
import pyarrow.parquet

from models.errors import Fault, InvalidRequest

_GZIP, _PARQUET, _BOM = b"\x1f\x8b", b"PAR1", b"\xef\xbb\xbf"
_START = 4096
"""Bytes that distinguish JSON from CSV."""
MAX_FIELD = 10_000_000
"""Letters of a cell of a CSV."""


def read_records(path: Path, skip: Callable[[], None] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the records of a file in order; of OpenTelemetry exports, the spans.

    Args:
        skip: counts lines of JSON Lines that are not JSON objects and are skipped; None to reject them.
    Raises:
        InvalidRequest: the file is malformed; the error has the line.
    """
    magic = _magic_of(path)
    if magic.startswith(_PARQUET):
        yield from _read_parquet(path)
        return
    try:
        with gzip.open(path) if magic.startswith(_GZIP) else path.open("rb") as file:
            start = file.read(_START).removeprefix(_BOM).lstrip()[:1]
            file.seek(0)
            yield from _read_json(path, file, skip) if start in (b"{", b"[") else _read_csv(path, file)
    except (gzip.BadGzipFile, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise _make_fault(path, f"must be JSON Lines, CSV, or Parquet: {error}") from error


def _magic_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)


def _make_fault(path: Path, message: str) -> InvalidRequest:
    return InvalidRequest.from_faults(Fault((path.name,), message))


def _read_json(
    path: Path, file: IO[bytes] | gzip.GzipFile, skip: Callable[[], None] | None
) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(file, start=1):
        line = line.removeprefix(_BOM)
        if not line.strip():
            continue
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            if number == 1 and (document := _parse_document(line + file.read())) is not None:
                yield from _list_records(document)
                return
            if skip is None or number == 1:
                reason = f"line {number} must be JSON: {error.msg} at character {error.pos + 1}"
                raise _make_fault(path, reason) from error
            skip()
            continue
        records = value if isinstance(value, list) else [value]
        if skip is None and not all(isinstance(each, dict) for each in records):
            raise _make_fault(path, f"line {number} must be a JSON object")
        if skip is not None and (not records or not isinstance(records[0], dict)):
            skip()
        yield from _list_records(records)


def _parse_document(text: bytes) -> Any:
    """Return one JSON value that spans several lines; None if it is invalid."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _list_records(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the records of a JSON value: the entries of a list, or the value itself."""
    for record in value if isinstance(value, list) else [value]:
        if isinstance(record, dict):
            yield from _list_spans(record)


def _read_csv(path: Path, file: IO[bytes] | gzip.GzipFile) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(MAX_FIELD)
    with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
        reader = csv.DictReader(text)
        for row in reader:
            if None in row:
                raise _make_fault(path, f"line {reader.line_num} has more cells than the header")
            yield row


def _read_parquet(path: Path) -> Iterator[dict[str, Any]]:
    try:
        for batch in pa.parquet.ParquetFile(path).iter_batches(batch_size=1000):
            for record in batch.to_pylist():
                yield from _list_spans(record)
    except (pa.ArrowException, OSError) as error:
        raise _make_fault(path, f"must be readable Parquet: {error}") from error


def _list_spans(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the spans of an OTLP export, with attributes by name.

    Other records are yielded unchanged.
    """
    if "resourceSpans" not in record:
        yield _with_scores(_with_attributes(record))
        return
    for resource in _list_objects(record["resourceSpans"]):
        for scope in _list_objects(resource.get("scopeSpans")):
            yield from map(_with_attributes, _list_objects(scope.get("spans")))


def _list_objects(values: Any) -> list[dict[str, Any]]:
    """Return the objects in a list; an empty list for any other value."""
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []


def _with_attributes(span: dict[str, Any]) -> dict[str, Any]:
    """Return a span with its attributes as an object; OTLP has a list of keys and values."""
    attributes = span.get("attributes")
    if not isinstance(attributes, list):
        return span
    named = {str(one["key"]): _decode_any_value(one.get("value")) for one in _list_objects(attributes) if "key" in one}
    return {**span, "attributes": named}


def _with_scores(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with its scores as an object; Langfuse has a list of names and values."""
    scores = _list_objects(record.get("scores"))
    if not scores or not all("name" in one for one in scores):
        return record
    return {**record, "scores": {str(one["name"]): one.get("value") for one in scores}}


def _decode_any_value(value: Any) -> Any:
    """Return the value of OTLP's AnyValue.

    >>> _decode_any_value({"arrayValue": {"values": [{"intValue": "1"}, {"stringValue": "a"}]}})
    ['1', 'a']
    """
    if not isinstance(value, dict) or not value:
        return None
    kind, content = next(iter(value.items()))
    if kind == "arrayValue":
        return [_decode_any_value(each) for each in _list_objects((content or {}).get("values"))]
    if kind == "kvlistValue":
        pairs = _list_objects((content or {}).get("values"))
        return {str(each.get("key")): _decode_any_value(each.get("value")) for each in pairs}
    return content
