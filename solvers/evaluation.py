"""Evaluation of artifacts on complete items: parse the items and grade the answers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from models import Dataset, Fault, FeatureTable, InvalidRequest, Trace, Value
from models.arrays import Bools, Floats
from models.base import LARGEST
from models.columns import format_class
from models.dataset_rows import dataset_to_columns
from models.evaluation import CompleteItem

Columns = Mapping[str, tuple[str, ...]]
"""Columns by feature or classifier; a classifier has label, confidence, cost, and correct."""


CLASSIFIER_FIELDS = ("label", "confidence", "cost", "correct", "loss")
"""Columns of a classifier among complete items."""


def copy_shared_fields(value: Value, model: type[Value]) -> dict[str, Any]:
    """Return the fields that a value shares with another model, such as its limits."""
    return {name: getattr(value, name) for name in model.model_fields}


@lru_cache(maxsize=4096, typed=True)
def label_from_cell(cell: str | float | bool | None) -> str | None:
    """Return a label as text, as in datasets; None for a missing one.

    >>> label_from_cell(5), label_from_cell(5.0), label_from_cell("cat"), label_from_cell(None), label_from_cell("")
    ('5', '5', 'cat', None, None)
    """
    return None if cell is None or cell == "" else format_class(cell)


def classifier_columns(names: Sequence[str]) -> Columns:
    """Return the columns of classifiers by name.

    >>> classifier_columns(["knn"])
    {'knn': ('knn.label', 'knn.confidence', 'knn.cost', 'knn.correct', 'knn.loss')}
    """
    return {name: tuple(f"{name}.{field}" for field in CLASSIFIER_FIELDS) for name in names}


def setup_columns(groups: Sequence[str]) -> Columns:
    """Return the columns of set-up groups by name.

    >>> setup_columns(["transcribe"])
    {'transcribe': ('transcribe.cost',)}
    """
    return {name: (f"{name}.cost",) for name in groups}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompleteItems:
    """Complete items.

    Attributes:
        ids: id of each item.
        values: cells of each item by column.
        embeddings: (n, d); None without embeddings.
        sizes: size of each item; None if unknown.
        truths: true label of each item; None if unknown.
        weights: weight of each item in the summary's means.
        ignored: names in the request that the artifact does not use.
        first: index of the first item in the request.
    """

    ids: tuple[str, ...]
    values: tuple[Mapping[str, Any], ...]
    embeddings: Floats | None = None
    sizes: tuple[Any, ...] = ()
    truths: tuple[str | None, ...] = ()
    weights: tuple[float, ...] = ()
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
            weights=tuple(1.0 if item.weight is None else item.weight for item in items),
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
                weights=self.weights[own],
                first=start,
            )

    def make_fault(self, index: int, *where: str | int, message: str) -> InvalidRequest:
        """Return the InvalidRequest for one item, by index."""
        return InvalidRequest.from_faults(Fault(("items", index, *where), message))

    def read_cell_number(
        self, index: int, column: str, minimum: float = -LARGEST, maximum: float = LARGEST
    ) -> float | None:
        """Return a cell as a number, None if it is missing; raises InvalidRequest."""
        cell = self.values[index].get(column)
        if cell is None:
            return None
        if isinstance(cell, str) or not minimum <= cell <= maximum:
            message = f"must be a number from {minimum:g} to {maximum:g}, got {cell!r}"
            raise self.make_fault(index, "values", column, message=message)
        return float(cell)

    def read_setup_costs(self, index: int, groups: Sequence[str], means: Floats) -> Floats:
        """Return the costs of set-up groups for an item, (G,): the declared ones, else their means."""
        declared = [self.read_cell_number(index, f"{name}.cost", 0.0) for name in groups]
        return np.array([mean if own is None else own for own, mean in zip(declared, means.tolist(), strict=True)])

    def shift_fault(self, error: InvalidRequest) -> InvalidRequest:
        """Return an error with indices into the request instead of this slice."""
        return self.locate_faults(error, range(self.first, self.first + len(self)))

    def locate_faults(self, error: InvalidRequest, indices: Sequence[int]) -> InvalidRequest:
        """Return an error about selected items with indices into all items."""
        faults = [
            Fault(("items", indices[int(fault.loc[1])], *fault.loc[2:]), fault.msg)
            if fault.loc[:1] == ("items",) and len(fault.loc) > 1
            else fault
            for fault in error.faults
        ]
        return InvalidRequest.from_faults(*faults) if faults else error

    def group_cells(self, index: int, columns: Columns) -> dict[str, tuple[Any, ...]]:
        """Return the cells of an item by feature, for features with all their columns.

        Raises InvalidRequest for a feature with only some of its columns.
        """
        own, known = self.values[index], dict[str, tuple[Any, ...]]()
        for name, names in columns.items():
            there = [column in own for column in names]
            if all(there):
                known[name] = tuple(own[column] for column in names)
            elif any(there):
                raise self.make_fault(index, "values", names[there.index(False)], message="must not be missing")
        return known


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EvaluationOutcomes:
    """Outcomes of n evaluated items.

    Attributes:
        labels: answer of each item; None without an answer, or if the request lacks the answering classifier's label.
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

    def read_losses(self, items: CompleteItems) -> Floats:
        """Return the measured loss of each answer, (n,), in the artifact's unit; NaN if it was not sent."""
        losses = np.full(len(self.labels), np.nan)
        for at, name in enumerate(self.classifiers):
            loss = items.read_cell_number(at, f"{name}.loss", 0.0)
            if loss is not None and (self.accepted is None or self.accepted[at]):
                losses[at] = loss
        return losses


def items_from_dataset(dataset: Dataset) -> CompleteItems:
    """Return the rows of a dataset as complete items, as callers send them.

    Classifiers that were not called have placeholder values, so the path of an item is valid only up to the first of
    them.
    """
    n = dataset.rows
    sizes = (
        [None] * n
        if not dataset.sizes.shape[1]
        else [row[0] if len(row) == 1 else tuple(row) for row in dataset.sizes.tolist()]
    )
    return CompleteItems(
        ids=tuple(map(str, range(n))),
        values=tuple(_trace_values(dataset) if isinstance(dataset, Trace) else _feature_values(dataset)),
        embeddings=dataset.embeddings.astype(np.float64)
        if isinstance(dataset, Trace) and dataset.embeddings.shape[1]
        else None,
        sizes=tuple(sizes),
        truths=tuple(dataset.classes[code] for code in dataset.labels.tolist())
        if dataset.spec.label is not None
        else (None,) * n,
        weights=(1.0,) * n,
    )


def _feature_values(table: FeatureTable) -> Iterator[dict[str, Any]]:
    columns = dataset_to_columns(table)
    cells = [columns[name].tolist() for name in table.spec.feature_columns]
    for row in zip(*cells, strict=True):
        named = zip(table.spec.feature_columns, row, strict=True)
        yield {name: None if cell is None or cell != cell else cell for name, cell in named}


def _trace_values(trace: Trace) -> Iterator[dict[str, Any]]:
    names = [each.name for each in trace.spec.classifiers]
    called = trace.called if trace.is_partial else np.ones(trace.quality.shape, dtype=np.bool_)
    own_costs = trace.separate_costs[:, : len(names)]
    answers, sure, costs, quality, known = (
        each.tolist() for each in (trace.predictions, trace.confidences, own_costs, trace.quality, called)
    )
    has_labels = [each.prediction is not None for each in trace.spec.classifiers]
    loss_scale = 0.0 if trace.losses else trace.loss_scale
    for row in range(trace.rows):
        values: dict[str, Any] = {}
        for j, name in enumerate(names):
            if not known[row][j]:
                values |= _uncalled_values(name, trace.classes[0] if has_labels[j] else None)
                continue
            if has_labels[j]:
                values[f"{name}.label"] = None if answers[row][j] < 0 else trace.classes[answers[row][j]]
            else:
                values[f"{name}.correct"] = quality[row][j]
            if loss_scale:
                values[f"{name}.loss"] = loss_scale * (1 - quality[row][j])
            values[f"{name}.cost"] = costs[row][j]
            values[f"{name}.confidence"] = None if sure[row][j] != sure[row][j] else sure[row][j]
        for group, cost in zip(trace.spec.setup, trace.setup_costs[row] if trace.spec.setup else (), strict=True):
            values[f"{group.name}.cost"] = float(cost)
        yield values


def _uncalled_values(name: str, label: str | None) -> dict[str, Any]:
    """Return placeholders of a classifier that was not called: a certain answer, so that few other calls follow."""
    answer: dict[str, Any] = {f"{name}.correct": 0.0} if label is None else {f"{name}.label": label}
    return {**answer, f"{name}.confidence": 1.0}


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
