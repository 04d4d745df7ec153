"""Complete items and evaluated items as Parquet tables and NumPy arrays."""

import io
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from app.store.codec import array_from_bytes
from app.store.item_tables import check_item_count
from app.store.query_tables import number_columns, read_parquet_within
from app.store.table_types import NPY, PARQUET
from app.store.uploads import limit_memory, run_in_reader
from models.base import LARGEST, MAX_LISTED
from models.errors import CorruptArtifact, Fault, InvalidRequest
from models.evaluation import EvaluatedItem
from solvers.evaluation import Columns, CompleteItems, array_columns, label_from_cell

EMBEDDING, ID, SIZE, TRUTH, WEIGHT = "embedding", "id", "size", "truth", "weight"
MAX_TEXT_CHARACTERS = 200
"""Columns that are no values, unless the artifact has columns of these names."""
Rows = tuple[list[dict[str, Any]], Any]
"""The cells of each row by column, and the embeddings, (n, d), or None."""


def read_parquet(
    data: bytes, columns: Columns, truth: str, *, max_bytes: int, most: int, run_in: Callable[..., Rows]
) -> CompleteItems:
    """Parse complete items from Parquet, one per row.

    Args:
        truth: name of the column of true labels.
        run_in: reads the file in a separate process, because malformed files may crash it.
    Raises:
        InvalidRequest: the table is malformed.
        PayloadTooLarge: the decompressed table is too large.
    """
    with tempfile.NamedTemporaryFile(prefix="parsimony-", suffix=".parquet") as file:
        file.write(data)
        file.flush()
        rows, embeddings = run_in_reader(run_in, _rows, Path(file.name), max_bytes, most, where="items")
    return _complete(rows, columns, embeddings, truth)


def _rows(path: Path, max_bytes: int, most: int) -> Rows:
    with limit_memory(max_bytes):
        try:
            check_item_count(pa.parquet.read_metadata(path).num_rows, most)
            table = read_parquet_within(path, max_bytes, "items")
            embeddings = None
            if EMBEDDING in table.column_names and pa.types.is_nested(table.schema.field(EMBEDDING).type):
                embeddings = number_columns(table, EMBEDDING, "items")
                table = table.drop_columns([EMBEDDING])
            for field in table.schema:
                _refuse_other_types(field)
            return [_without_nan(row) for row in table.to_pylist()], embeddings
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise InvalidRequest.from_faults(Fault(("items",), f"must be readable Parquet: {error}")) from error


def _refuse_other_types(field: pa.Field) -> None:
    kind = field.type
    is_cell = (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_null(kind)
    )
    if not is_cell:
        raise InvalidRequest.from_faults(
            Fault(("items", field.name), f"must have numbers, texts, or booleans, got {kind}")
        )


def _without_nan(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose missing numbers are None."""
    return {name: None if isinstance(cell, float) and cell != cell else cell for name, cell in row.items()}


def read_array(data: bytes, columns: Columns, dimensions: int, *, most: int) -> CompleteItems:
    """Parse complete items from a ``.npy`` array; raises InvalidRequest.

    If the artifact has embeddings (``dimensions``), rows are embeddings, else the values of ``columns``.
    """
    try:
        array = array_from_bytes(data)
    except CorruptArtifact as error:
        raise InvalidRequest.from_faults(Fault(("items",), f"{error}; write them with numpy.save")) from error
    names = array_columns(columns)
    width = dimensions or len(names)
    if array.dtype.kind not in "fiu" or array.ndim != 2 or not len(array) or array.shape[1] != width:
        shape = " x ".join(map(str, array.shape)) or "none"
        wanted = f"numbers, items x {width}" + ("" if dimensions else f" ({', '.join(names)})")
        raise InvalidRequest.from_faults(Fault(("items",), f"must be {wanted}, got shape {shape} of {array.dtype}"))
    check_item_count(len(array), most)
    table = array.astype(np.float64)
    if dimensions:
        return _complete([{} for _ in table], columns, table, "")
    return _complete([_without_nan(dict(zip(names, row, strict=True))) for row in table.tolist()], columns, None, "")


def _complete(rows: Sequence[dict[str, Any]], columns: Columns, embeddings: Any, truth: str) -> CompleteItems:
    """Return rows as complete items; their values are the artifact's columns."""
    if not rows:
        raise InvalidRequest.from_faults(Fault(("items",), "must have at least 1 row"))
    known = {column for own in columns.values() for column in own}
    if truth not in ("", TRUTH) and truth not in rows[0]:
        raise InvalidRequest.from_faults(
            Fault(("truth_column",), f"{truth!r} not found; available: {', '.join(rows[0])}")
        )
    weight = "" if WEIGHT in known else WEIGHT
    faults = [fault for at, row in enumerate(rows) for fault in _faults(at, row, known | {ID, truth}, weight)]
    if faults:
        raise InvalidRequest.from_faults(*faults[:MAX_LISTED])
    if embeddings is not None and not np.isfinite(embeddings).all():
        row = int(np.flatnonzero(~np.isfinite(embeddings).all(axis=1))[0])
        raise InvalidRequest.from_faults(Fault(("items", row, EMBEDDING), "must be finite numbers"))
    return CompleteItems(
        ids=tuple(str(at) if row.get(ID) is None else str(row[ID]) for at, row in enumerate(rows)),
        values=tuple({name: cell for name, cell in row.items() if name in known} for row in rows),
        embeddings=embeddings,
        sizes=tuple(row.get(SIZE) for row in rows),
        truths=tuple(label_from_cell(row.get(truth)) for row in rows),
        weights=tuple(1.0 if row.get(weight) is None else row[weight] for row in rows),
        ignored=tuple(sorted(rows[0].keys() - known - {ID, SIZE, weight, truth})),
    )


def _faults(at: int, row: Mapping[str, Any], known: Collection[str], weight: str) -> Iterator[Fault]:
    """Yield the faults that JSON items with these cells would have.

    Args:
        weight: the column of weights; empty if the artifact has a column with this name.
    """
    for name, cell in row.items():
        if name not in known:
            continue
        if isinstance(cell, float) and not abs(cell) <= 1e30:
            yield Fault(("items", at, name), f"must be from -1e30 to 1e30, got {cell:g}")
        elif isinstance(cell, str) and len(cell) > MAX_TEXT_CHARACTERS:
            yield Fault(("items", at, name), f"must have at most {MAX_TEXT_CHARACTERS} characters, got {len(cell)}")
    size = row.get(SIZE)
    if size is not None and (isinstance(size, str | bool) or not 1 <= size <= 1e12):
        yield Fault(("items", at, SIZE), f"must be a number from 1 to 1e12, got {size!r}")
    own = row.get(weight)
    if own is not None and (isinstance(own, str | bool) or not 0 < own <= LARGEST):
        yield Fault(("items", at, WEIGHT), f"must be a number above 0 and at most {LARGEST:g}, got {own!r}")


def as_parquet(items: Sequence[EvaluatedItem]) -> bytes:
    """Return evaluated items as Parquet: a column per field and per class probability."""
    columns: dict[str, Any] = {
        name: [getattr(item, name) for item in items] for name in EvaluatedItem.model_fields if name != "probabilities"
    }
    for name in ("label", "classifier"):
        columns[name] = pa.array(columns[name], pa.string())
    columns["loss"] = pa.array(columns["loss"], pa.float64())
    columns["path"] = pa.array([list(path) for path in columns["path"]], pa.list_(pa.string()))
    for name in items[0].probabilities or {}:
        columns[f"probabilities.{name}"] = [(item.probabilities or {}).get(name) for item in items]
    out = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), out)
    return out.getvalue()


def as_array(items: Sequence[EvaluatedItem]) -> bytes:
    """Return evaluated items as a structured ``.npy`` array.

    Its fields are id, label, accepted, cost, confidence, correct, and loss.
    """
    texts = {name: [getattr(item, name) or "" for item in items] for name in ("id", "label")}
    widths = {name: max(1, *map(len, own)) for name, own in texts.items()}
    kind = [("id", f"U{widths['id']}"), ("label", f"U{widths['label']}"), ("accepted", "?")]
    numbers = ("cost", "confidence", "correct", "loss")
    table: NDArray[Any] = np.zeros(len(items), dtype=[*kind, *((name, "f8") for name in numbers)])
    table["id"], table["label"] = texts["id"], texts["label"]
    table["accepted"] = [item.accepted for item in items]
    for name in numbers:
        table[name] = [np.nan if (value := getattr(item, name)) is None else value for item in items]
    out = io.BytesIO()
    np.save(out, table, allow_pickle=False)
    return out.getvalue()


WRITERS: Mapping[str, Callable[[Sequence[EvaluatedItem]], bytes]] = {
    PARQUET: as_parquet,
    NPY: as_array,
}
"""What an evaluation may be written as instead of JSON."""
