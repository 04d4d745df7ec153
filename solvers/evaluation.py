"""Evaluation of artifacts on complete items: parse the items and grade the answers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from models import Fault, InvalidRequest, Value
from models.arrays import Bools, Floats
from models.base import LARGEST
from models.columns import text_of
from models.evaluation import CompleteItem

Columns = Mapping[str, tuple[str, ...]]
"""Columns by feature or classifier; a classifier has label, confidence, cost, and correct."""


def shared_fields(value: Value, model: type[Value]) -> dict[str, Any]:
    """Return the fields that a value shares with another model, such as its limits."""
    return {name: getattr(value, name) for name in model.model_fields}


@lru_cache(maxsize=4096, typed=True)
def label_from_cell(cell: str | float | bool | None) -> str | None:
    """Return a label as text, as in datasets.

    >>> label_from_cell(5), label_from_cell(5.0), label_from_cell("cat"), label_from_cell(None)
    ('5', '5', 'cat', None)
    """
    return None if cell is None else text_of(cell)


def classifier_columns(names: Sequence[str]) -> Columns:
    """Return the columns of classifiers by name.

    >>> classifier_columns(["knn"])
    {'knn': ('knn.label', 'knn.confidence', 'knn.cost', 'knn.correct')}
    """
    return {name: tuple(f"{name}.{field}" for field in ("label", "confidence", "cost", "correct")) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompleteItems:
    """Complete items.

    Attributes:
        ids: id of each item.
        values: cells of each item by column.
        embeddings: (n, d); None without embeddings.
        sizes: size of each item; None if unknown.
        truths: true label of each item; None if unknown.
        ignored: sent names that the artifact does not use.
        first: index of the first item in the request.
    """

    ids: tuple[str, ...]
    values: tuple[Mapping[str, Any], ...]
    embeddings: Floats | None = None
    sizes: tuple[Any, ...] = ()
    truths: tuple[str | None, ...] = ()
    ignored: tuple[str, ...] = ()
    first: int = 0

    @classmethod
    def from_items(cls, items: Sequence[CompleteItem], columns: Columns) -> "CompleteItems":
        """Parse items; columns that the artifact does not use are ignored.

        Raises InvalidRequest for more values than columns, and for embeddings of different lengths.
        """
        owners = {column: name for name, own in columns.items() for column in own}
        values = tuple(dict(_cells(at, item, columns, owners)) for at, item in enumerate(items))
        return cls(
            ids=tuple(str(at) if item.id is None else item.id for at, item in enumerate(items)),
            values=values,
            embeddings=_embeddings(items),
            sizes=tuple(item.size for item in items),
            truths=tuple(label_from_cell(item.truth) for item in items),
            ignored=tuple(sorted({name for item in items for name in item.values} - owners.keys() - columns.keys())),
        )

    def __len__(self) -> int:
        return len(self.ids)

    def iterate_slices(self, rows: int) -> Iterator["CompleteItems"]:
        """Yield slices of at most this number of items."""
        for start in range(0, len(self), rows):
            own = slice(start, start + rows)
            yield CompleteItems(
                ids=self.ids[own],
                values=self.values[own],
                embeddings=None if self.embeddings is None else self.embeddings[own],
                sizes=self.sizes[own],
                truths=self.truths[own],
                first=start,
            )

    def make_fault(self, at: int, *where: str | int, message: str) -> InvalidRequest:
        """Return the InvalidRequest for one item, by index."""
        return InvalidRequest.from_faults(Fault(("items", at, *where), message))

    def read_cell_number(self, at: int, column: str, least: float = -LARGEST, most: float = LARGEST) -> float | None:
        """Return a cell as a number, None if it is missing; raises InvalidRequest."""
        cell = self.values[at].get(column)
        if cell is None:
            return None
        if isinstance(cell, str) or not least <= cell <= most:
            message = f"must be a number from {least:g} to {most:g}, got {cell!r}"
            raise self.make_fault(at, "values", column, message=message)
        return float(cell)

    def shift_fault(self, error: InvalidRequest) -> InvalidRequest:
        """Return an error with indices into the request instead of this slice."""
        return self.locate_faults(error, range(self.first, self.first + len(self)))

    def locate_faults(self, error: InvalidRequest, places: Sequence[int]) -> InvalidRequest:
        """Return an error about selected items with indices into all items."""
        faults = [
            Fault(("items", places[int(fault.loc[1])], *fault.loc[2:]), fault.msg)
            if fault.loc[:1] == ("items",) and len(fault.loc) > 1
            else fault
            for fault in error.faults
        ]
        return InvalidRequest.from_faults(*faults) if faults else error

    def group_cells(self, at: int, columns: Columns) -> dict[str, tuple[Any, ...]]:
        """Return the cells of an item by feature, for features with all their columns.

        Raises InvalidRequest for a feature with only some of its columns.
        """
        own, known = self.values[at], dict[str, tuple[Any, ...]]()
        for name, names in columns.items():
            there = [column in own for column in names]
            if all(there):
                known[name] = tuple(own[column] for column in names)
            elif any(there):
                raise self.make_fault(at, "values", names[there.index(False)], message="must not be missing")
        return known


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluated:
    """Outcomes of n evaluated items.

    Attributes:
        labels: answer of each item; None without an answer, or if its label was not sent.
        costs: (n,), in the artifact's unit.
        paths: called or acquired names of each item, in order.
        confidences: (n,), of the answers; NaN if unknown.
        accepted: (n,), whether items got an answer; None if all did.
        classifiers: answering classifier of each item; empty if a learned model answers.
        classes: names of the columns of ``probabilities``.
        probabilities: (n, c); None if unavailable.
    """

    labels: tuple[str | None, ...]
    costs: Floats
    paths: tuple[tuple[str, ...], ...]
    confidences: Floats
    accepted: Bools | None = None
    classifiers: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    probabilities: Floats | None = None

    def grade_answers(self, items: CompleteItems) -> Floats:
        """Return the quality of each answer, (n,): ``correct``, else by the true label; NaN if unknown."""
        known = np.full(len(self.labels), np.nan)
        for at, (label, truth) in enumerate(zip(self.labels, items.truths, strict=True)):
            graded = (
                items.read_cell_number(at, f"{self.classifiers[at]}.correct", 0.0, 1.0) if self.classifiers else None
            )
            if self.accepted is not None and not self.accepted[at]:
                continue
            if graded is not None:
                known[at] = graded
            elif truth is not None and label is not None:
                known[at] = float(label == truth)
        return known


def _cells(at: int, item: CompleteItem, columns: Columns, owners: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    for name, value in item.values.items():
        if name in owners and not isinstance(value, tuple | dict):
            yield name, value
        elif name in columns:
            yield from _expand_value(at, name, value, columns[name])


def _expand_value(at: int, name: str, value: Any, own: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for part, cell in value.items():
            if f"{name}.{part}" not in own:
                parts = ", ".join(column.removeprefix(f"{name}.") for column in own)
                message = f"not found; available: {parts}"
                raise InvalidRequest.from_faults(Fault(("items", at, "values", name, part), message))
            yield f"{name}.{part}", cell
        return
    cells = value if isinstance(value, tuple) else (value,)
    if len(cells) > len(own):
        raise InvalidRequest.from_faults(
            Fault(("items", at, "values", name), f"must have at most {len(own)} values, got {len(cells)}")
        )
    yield from zip(own, cells, strict=False)


def _embeddings(items: Sequence[CompleteItem]) -> Floats | None:
    widths = {0 if item.embedding is None else len(item.embedding) for item in items}
    if widths == {0}:
        return None
    if len(widths) > 1:
        message = f"must have embeddings of one length, got {min(widths)} to {max(widths)}"
        raise InvalidRequest.from_faults(Fault(("items",), message))
    return np.array([item.embedding for item in items], dtype=np.float64)


def array_columns(columns: Columns) -> tuple[str, ...]:
    """Return the columns of an array of items: those of features, or the confidences of classifiers.

    >>> array_columns({"age": ("age",)}), array_columns(classifier_columns(["knn", "forest"]))
    (('age',), ('forest.confidence', 'knn.confidence'))
    """
    confidences = [f"{name}.confidence" for name, own in columns.items() if f"{name}.correct" in own]
    return tuple(sorted(confidences)) or tuple(column for own in columns.values() for column in own)
