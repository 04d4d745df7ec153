"""Lines of recordings' logs: rows and truths as JSON, without dropped fields."""

import time
from array import array
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from models.arrays import Singles
from models.recording import RecordedRow, RecordingSpec, Truth, timestamp_to_seconds


def make_row_line(row: Mapping[str, Any], spec: RecordingSpec, embedding: Sequence[float] | None, item: Any) -> bytes:
    """Return the line of a row.

    Args:
        row: the other columns of the row.
        item: the item, which is written only if the recording keeps items.
    """
    kept = None if item is None or not spec.keeps_items else orjson.dumps(drop_fields(item, spec.drops)).decode()
    return orjson.dumps({**row, "embedding": _encode_embedding(embedding), "item": kept})


def make_posted_lines(rows: Sequence[RecordedRow], spec: RecordingSpec) -> list[bytes]:
    """Return the lines of rows that a caller posts."""
    now = time.time()
    return [_make_posted_line(row, spec, now) for row in rows]


def _make_posted_line(row: RecordedRow, spec: RecordingSpec, now: float) -> bytes:
    columns = {
        "id": row.id,
        "key": row.key,
        "time": now if row.time is None else timestamp_to_seconds(row.time),
        "version": row.version,
        "size": row.size,
        "explore": row.explore,
        "candidates": row.candidates,
        "calls": [dict(call) for call in row.calls],
    }
    return make_row_line(columns, spec, row.embedding, row.item)


def make_truth_lines(truths: Sequence[Truth]) -> list[bytes]:
    """Return the lines of truths."""
    now = time.time()
    return [orjson.dumps({"id": one.id, "time": now, "truth": one.truth, "grades": _grades_of(one)}) for one in truths]


def _grades_of(truth: Truth) -> list[dict[str, Any]]:
    grades = (truth.correct or {}) if truth.quality is None else truth.quality
    return [{"classifier": name, "value": float(value)} for name, value in grades.items()]


def drop_fields(item: Any, names: Collection[str]) -> Any:
    """Return a JSON value without the fields of these names, at any depth.

    >>> drop_fields({"user": "a", "turns": [{"user": "b", "text": "c"}]}, ["user"])
    {'turns': [{'text': 'c'}]}
    """
    if not names:
        return item
    if isinstance(item, Mapping):
        return {name: drop_fields(value, names) for name, value in item.items() if name not in names}
    if isinstance(item, list | tuple):
        return [drop_fields(value, names) for value in item]
    return item


def _encode_embedding(embedding: Sequence[float] | None) -> str | None:
    return None if embedding is None else b64encode(array("f", embedding)).decode()


def decode_embedding(text: str | None) -> Singles | None:
    """Return the embedding of a row, (d,); None without one."""
    return None if text is None else np.frombuffer(b64decode(text), dtype=np.float32)
