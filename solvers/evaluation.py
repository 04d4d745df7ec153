"""Evaluation: complete items, as callers send them, and what an artifact makes of each."""

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
"""By name of a feature or classifier its columns; a classifier's are its label, confidence, cost, and correct."""


def shared_fields(value: Value, kind: type[Value]) -> dict[str, Any]:
    """Return the fields of a value that another model has, too: of an evaluation request its limits."""
    return {name: getattr(value, name) for name in kind.model_fields}


@lru_cache(maxsize=4096, typed=True)
def label_from_cell(cell: str | float | bool | None) -> str | None:
    """Return a label as datasets have it: numbers are texts.

    >>> label_from_cell(5), label_from_cell(5.0), label_from_cell("cat"), label_from_cell(None)
    ('5', '5', 'cat', None)
    """
    return None if cell is None else text_of(cell)


def classifier_columns(names: Sequence[str]) -> Columns:
    """Name the columns of classifiers.

    >>> classifier_columns(["knn"])
    {'knn': ('knn.label', 'knn.confidence', 'knn.cost', 'knn.correct')}
    """
    return {name: tuple(f"{name}.{what}" for what in ("label", "confidence", "cost", "correct")) for name in names}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompleteItems:
    """Complete items.

    Attributes:
        ids: of each item.
        values: of each item its cells, by column.
        embeddings: (n, d); None where items have none.
        sizes: of each item; None where it has none.
        truths: of each item the right label; None where it is not known.
        ignored: names that were sent and that the artifact does not know.
        first: the place of the first item among all that were sent.
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
        """Read items; columns that the artifact does not know are ignored.

        Raises InvalidRequest for more values than columns, and for embeddings of several lengths.
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
        """Yield the items, so many at a time."""
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
        """Make the refusal of the item at a place of these."""
        return InvalidRequest.from_faults(Fault(("items", at, *where), message))

    def read_cell_number(self, at: int, column: str, least: float = -LARGEST, most: float = LARGEST) -> float | None:
        """Return a cell of the item at a place as a number; None where it is missing. Raises InvalidRequest."""
        cell = self.values[at].get(column)
        if cell is None:
            return None
        if isinstance(cell, str) or not least <= cell <= most:
            message = f"must be a number from {least:g} to {most:g}, got {cell!r}"
            raise self.make_fault(at, "values", column, message=message)
        return float(cell)

    def shift_fault(self, error: InvalidRequest) -> InvalidRequest:
        """Return a refusal of items of these with their places among all that were sent."""
        return self.locate_faults(error, range(self.first, self.first + len(self)))

    def locate_faults(self, error: InvalidRequest, places: Sequence[int]) -> InvalidRequest:
        """Return a refusal of some items with their places among these."""
        faults = [
            Fault(("items", places[int(fault.loc[1])], *fault.loc[2:]), fault.msg)
            if fault.loc[:1] == ("items",) and len(fault.loc) > 1
            else fault
            for fault in error.faults
        ]
        return InvalidRequest.from_faults(*faults) if faults else error

    def group_cells(self, at: int, columns: Columns) -> dict[str, tuple[Any, ...]]:
        """Return the cells of an item by feature, of those whose columns it has.

        Raises InvalidRequest where it has some columns of a feature and lacks others.
        """
        own, known = self.values[at], dict[str, tuple[Any, ...]]()
        for name, names in columns.items():
            there = [column in own for column in names]
            if all(there):
                known[name] = tuple(own[column] for column in names)
            elif any(there):
                raise self.make_fault(at, "values", names[there.index(False)], message="is missing")
        return known


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluated:
    """What became of n items.

    Attributes:
        labels: of each item the answer; None where it has none, or its label was not sent.
        costs: (n,) in the artifact's unit.
        paths: of each item what was called or acquired, in order.
        confidences: (n,) of the answers, NaN where they are not known.
        accepted: (n,) whether items got an answer; None: all did.
        classifiers: of each item whose answer it is; empty where a learned model answers.
        classes: the names of the columns of ``probabilities``.
        probabilities: (n, c); None where there are none.
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
        """Return how good each answer is, (n,): by its classifier's ``correct``, else by the truth; NaN: not known."""
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
    """Yield the cells of an item, by column, of those that are known."""
    for name, value in item.values.items():
        if name in owners and not isinstance(value, tuple | dict):
            yield name, value
        elif name in columns:
            yield from _expanded(at, name, value, columns[name])


def _expanded(at: int, name: str, value: Any, own: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the cells of one feature or classifier, by column."""
    if isinstance(value, dict):
        for part, cell in value.items():
            if f"{name}.{part}" not in own:
                parts = ", ".join(column.removeprefix(f"{name}.") for column in own)
                message = f"is not known here; there are {parts}"
                raise InvalidRequest.from_faults(Fault(("items", at, "values", name, part), message))
            yield f"{name}.{part}", cell
        return
    cells = value if isinstance(value, tuple) else (value,)
    if len(cells) > len(own):
        raise InvalidRequest.from_faults(
            Fault(("items", at, "values", name), f"has {len(cells)} values, must be {len(own)}")
        )
    yield from zip(own, cells, strict=False)


def _embeddings(items: Sequence[CompleteItem]) -> Floats | None:
    widths = {0 if item.embedding is None else len(item.embedding) for item in items}
    if widths == {0}:
        return None
    if len(widths) > 1:
        message = f"have embeddings of different lengths, from {min(widths)} to {max(widths)}"
        raise InvalidRequest.from_faults(Fault(("items",), message))
    return np.array([item.embedding for item in items], dtype=np.float64)


def array_columns(columns: Columns) -> tuple[str, ...]:
    """Return the columns of an array of items: all of features, or the confidences of classifiers, by name.

    >>> array_columns({"age": ("age",)}), array_columns(classifier_columns(["knn", "forest"]))
    (('age',), ('forest.confidence', 'knn.confidence'))
    """
    confidences = [f"{name}.confidence" for name, own in columns.items() if f"{name}.correct" in own]
    return tuple(sorted(confidences)) or tuple(column for own in columns.values() for column in own)
