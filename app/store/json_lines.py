"""Conversion of uploaded JSON Lines to CSV."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from models.errors import Fault, InvalidRequest, PayloadTooLarge

BOM = b"\xef\xbb\xbf"


def to_csv(source: Path, target: Path, *, max_bytes: int, most_columns: int, longest: int | None = None) -> None:
    """Convert flat JSON objects to CSV, with columns in order of first appearance.

    Missing fields and nulls become empty cells.

    Args:
        longest: maximum length of a cell in characters; longer cells are cut.
    Raises:
        InvalidRequest: a line is not a flat object; the error has the line.
    """
    names: dict[str, None] = {}
    for number, record in _records(source):
        names |= dict.fromkeys(record)
        if len(names) > most_columns:
            raise _wrong(number, f"has {len(names)} columns; maximum is {most_columns}")
    if not names:
        raise InvalidRequest.from_faults(Fault(("table",), "must not be empty; each line is a JSON object"))
    with target.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(names)
        for _, record in _records(source):
            out.writerow([record.get(name, "")[:longest] for name in names])
            if file.tell() > max_bytes:
                raise PayloadTooLarge(f"the lines must have at most {max_bytes} bytes as a table")


def _records(source: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the non-empty lines with their numbers."""
    with source.open("rb") as file:
        for number, line in enumerate(file, start=1):
            text = line.removeprefix(BOM) if number == 1 else line
            if text.strip():
                yield number, _record(number, text)


def _record(number: int, line: bytes) -> dict[str, str]:
    try:
        pairs = json.loads(line, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        raise _wrong(number, f"must be JSON: {error}") from error
    if not isinstance(pairs, _Pairs):
        raise _wrong(number, "must be a JSON object")
    record = {_text(number, name): _cell(number, name, value) for name, value in pairs}
    if len(record) < len(pairs):
        raise _wrong(number, "has a duplicate name")
    return record


class _Pairs(list[tuple[str, Any]]):
    """The fields of an object, unchanged."""


def _cell(number: int, name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        kind = "object" if isinstance(value, _Pairs) else "list"
        raise _wrong(number, f"has the {kind} {name!r}; values must be texts, numbers, booleans, or null")
    return _text(number, value) if isinstance(value, str) else json.dumps(value)


def _text(number: int, text: str) -> str:
    """Reject texts that cannot be written to a file."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _wrong(number, f"has an unpaired surrogate, {text[error.start]!a}") from error
    return text


def _wrong(number: int, what: str) -> InvalidRequest:
    return InvalidRequest.from_faults(Fault(("table",), f"must be JSON Lines: line {number} {what}"))
