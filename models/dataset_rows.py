"""Appending rows to datasets, with validation."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.base import LARGEST
from models.columns import MAX_CLASS_LENGTH, MAX_COORDINATE_VALUE, format_class, parse_boolean, read_numbers
from models.confidence_scale import BOUNDS, from_probability
from models.dataset import Dataset, DatasetFacts, FeaturesSpec, FeatureTable, dataset_from_columns
from models.errors import Fault, InvalidRequest
from models.losses import LossPrices
from models.trace import Trace
from models.trace_spec import CostColumn, TraceClassifier, TraceSpec

Cell = str | float | None
Row = Mapping[str, Cell]
Spec = FeaturesSpec | TraceSpec


def find_row_faults(facts: DatasetFacts, row: Row, embedding: Sequence[float] | None) -> list[Fault]:
    """Return the errors of a row and its embedding, according to the dataset's spec."""
    spec, dimensions, known = facts.spec, facts.embedding_dimensions, facts.spec.used_columns
    faults = [Fault(("row", name), "is not a column of the dataset's spec") for name in row if name not in known]
    skipped = _uncalled_columns(spec, row) if facts.complete_rows is not None else frozenset()
    for name in known:
        if name not in skipped:
            faults += _cell_faults(spec, name, row[name]) if name in row else [Fault(("row", name), "is missing")]
    if len(embedding or ()) != dimensions:
        faults.append(Fault(("embedding",), f"must have {dimensions} numbers, got {len(embedding or ())}"))
    label = None if spec.label is None else row.get(spec.label)
    if label is not None and label != "" and not _is_too_long(label) and format_class(label) not in facts.classes:
        there = ", ".join(facts.classes[:10])
        faults.append(Fault(("row", str(spec.label)), f"must be one of the dataset's classes ({there}), got {label!r}"))
    return faults


def _uncalled_columns(spec: Spec, row: Row) -> frozenset[str]:
    """Return the columns of classifiers without any cell in a row.

    If no classifier has a cell, none is returned.
    """
    assert isinstance(spec, TraceSpec)
    empty = [each for each in spec.classifiers if all(row.get(name) in (None, "") for name in each.outcome_columns)]
    if len(empty) == len(spec.classifiers):
        return frozenset()
    called = {name for each in spec.classifiers if each not in empty for name in each.outcome_columns}
    own = {name for each in empty for name in each.outcome_columns} - called
    return frozenset(own) | {
        str(each.propensity) for each in spec.classifiers if row.get(each.propensity or "") in (None, "")
    }


def grade_row_answers(spec: Spec, row: Row, prices: LossPrices | None = None) -> dict[str, float]:
    """Return the quality of each classifier's answer in a valid row of a trace.

    Qualities are 0 or 1; graded answers may be in between.

    >>> one = TraceClassifier(name="fast", cost=1.0, prediction="answer")
    >>> spec = TraceSpec(kind="trace", label="truth", unit="ms", classifiers=(one,))
    >>> [grade_row_answers(spec, {"truth": 1.0, "answer": each}) for each in ("1", "1.0", "2")]
    [{'fast': 1.0}, {'fast': 1.0}, {'fast': 0.0}]
    """
    if isinstance(spec, FeaturesSpec):
        return {}
    truth = None if spec.label is None else row[spec.label]
    weight = (spec.loss_weight or 1.0) / prices.largest if prices is not None else 0.0
    return {
        each.name: _quality(each, row, truth, prices)
        if each.loss is None
        else max(1 - _number(row[each.loss] or 0.0) * weight, 0.0)
        for each in spec.classifiers
        if all(row.get(name) not in (None, "") for name in each.outcome_columns)
    }


def _quality(classifier: TraceClassifier, row: Row, truth: Cell, prices: LossPrices | None) -> float:
    if classifier.prediction is None:
        return _number(row[str(classifier.correct or classifier.quality)] or 0.0)
    answer = row[classifier.prediction]
    loss = None if prices is None else prices.find_loss(_text(truth), _text(answer))
    if prices is not None and loss is not None:
        return 1 - loss / prices.largest
    return float(answer == truth or _text(answer) == _text(truth))  # to write a cell as text takes its time


def _text(cell: Cell) -> str:
    return "" if cell is None or cell == "" else format_class(cell)


def _cell_faults(spec: Spec, name: str, cell: Cell) -> list[Fault]:
    may_be_missing = isinstance(spec, FeaturesSpec) and spec.missing and name in spec.feature_columns
    if cell is None or cell == "":
        return [] if may_be_missing else [Fault(("row", name), "must not be missing")]
    if name == spec.item:
        return []  # long names are replaced by their hash
    if _is_too_long(cell):
        return [Fault(("row", name), f"must have at most {MAX_CLASS_LENGTH} characters, got {len(str(cell))}")]
    if name in spec.class_columns:
        return []
    if isinstance(spec, TraceSpec) and any(name == each.correct for each in spec.classifiers):
        known = parse_boolean(cell) is not None
        return [] if known else [Fault(("row", name), f"must be 0 or 1, false or true, got {cell!r}")]
    if isinstance(cell, str):
        return [Fault(("row", name), f"must be a number, got {cell!r}")]
    cell_faults: list[Fault] = []
    read_numbers({name: np.array([float(cell)])}, name, cell_faults, **_limits(spec, name))
    return [Fault(("row", name), fault.msg.partition("; row")[0] + f", got {cell:g}") for fault in cell_faults]


def _is_too_long(cell: Cell) -> bool:
    return isinstance(cell, str) and len(cell) > MAX_CLASS_LENGTH


def _limits(spec: Spec, name: str) -> dict[str, Any]:
    """Return the range arguments of ``read_numbers`` for a column."""
    if isinstance(spec, FeaturesSpec):
        within = (
            {"at_least": -MAX_COORDINATE_VALUE, "at_most": MAX_COORDINATE_VALUE} if name in spec.feature_columns else {}
        )
        return within | ({"above": 0.0} if name in (*spec.size_columns, *spec.weight_columns) else {})
    if name in spec.weight_columns:
        return {"above": 0.0, "at_most": LARGEST}
    measured = any(name in (*each.measured_columns, each.loss) for each in spec.classifiers)
    if measured or name in spec.size_columns:
        return {"at_least": 0.0, "at_most": LARGEST}
    if any(name in (each.correct, each.quality) for each in spec.classifiers):
        return {"at_least": 0.0, "at_most": 1.0}
    scales = [each.confidence_scale or "probability" for each in spec.classifiers if each.confidence == name]
    if scales:
        low, high = BOUNDS[scales[0]]
        return {"at_least": low, "at_most": high}
    scored = any(name in (each.scores or {}).values() for each in spec.classifiers)
    return {"at_least": -MAX_COORDINATE_VALUE, "at_most": MAX_COORDINATE_VALUE} if scored else {}


def append_rows(dataset: Dataset, rows: Sequence[Row], embeddings: NDArray[np.float32] | None = None) -> Dataset:
    """Append rows to a dataset, and validate the whole dataset.

    Args:
        embeddings: (len(rows), d) if the dataset has embeddings.
    Raises:
        InvalidRequest: some rows are invalid; the error lists all faults.
    """
    spec, old = dataset.spec, dataset_to_columns(dataset)
    try:
        optional = _optional_columns(dataset)
        cells = {name: [row.get(name) if name in optional else row[name] for row in rows] for name in old}
    except KeyError as error:
        raise InvalidRequest(f"column {error.args[0]!r} must not be missing in a row") from error
    new = {name: _new(column, cells[name]) for name, column in old.items()}
    merged = {name: np.concatenate([column, new[name]]) for name, column in old.items()}
    if not (isinstance(dataset, Trace) and dataset.embeddings.shape[1]):
        return dataset_from_columns(spec, merged)
    if embeddings is None or embeddings.shape != (len(rows), dataset.embeddings.shape[1]):
        raise InvalidRequest(f"each row must have an embedding of {dataset.embeddings.shape[1]} numbers")
    return dataset_from_columns(spec, merged, np.concatenate([dataset.embeddings, embeddings]))


def _optional_columns(dataset: Dataset) -> frozenset[str]:
    """Return the columns that rows may lack.

    In partial traces, these are the columns of classifiers.
    """
    if not (isinstance(dataset, Trace) and dataset.is_partial):
        return frozenset()
    every = dataset.spec.classifiers
    named = {name for each in every for name in (*each.outcome_columns, each.propensity)}
    return frozenset(name for name in named if name is not None)


def _new(column: NDArray[Any], cells: list[Cell]) -> NDArray[Any]:
    """Convert cells to a column of the same type as the existing column."""
    if column.dtype.kind == "f":
        return np.array([np.nan if cell is None or cell == "" else _number(cell) for cell in cells])
    texts = [None if cell is None or cell == "" else format_class(cell) for cell in cells]
    return np.array(texts, dtype=object)


def _number(cell: str | float) -> float:
    """Return a number, or a boolean as 1 or 0."""
    truth = parse_boolean(cell) if isinstance(cell, str | bool) else None
    return float(cell) if truth is None else truth


def dataset_to_columns(dataset: Dataset) -> dict[str, NDArray[Any]]:
    """Return columns from which ``dataset_from_columns`` recreates a dataset.

    Scores are returned relative to the score of the true class, because a dataset stores only these differences.
    """
    return _feature_columns(dataset) if isinstance(dataset, FeatureTable) else _trace_columns(dataset)


def _feature_columns(table: FeatureTable) -> dict[str, NDArray[Any]]:
    columns = {table.spec.label: _texts(table.classes, table.labels)}
    columns |= {name: table.sizes[:, j] for j, name in enumerate(table.spec.size_columns)}
    columns |= _item_column(table) | _weight_column(table)
    for j, name in enumerate(table.spec.feature_columns):
        values, categories = table.values[:, j], table.categories[j]
        columns[name] = _categories(categories, values) if name in table.spec.categorical else values
    return columns


def _categories(names: tuple[str, ...], codes: NDArray[np.float64]) -> NDArray[Any]:
    return np.array([None if np.isnan(code) else names[int(code)] for code in codes], dtype=object)


def _trace_columns(trace: Trace) -> dict[str, NDArray[Any]]:
    label = trace.spec.label
    columns = {} if label is None else {label: _texts(trace.classes, trace.labels)}
    columns |= {name: trace.sizes[:, j] for j, name in enumerate(trace.spec.size_columns)}
    columns |= _item_column(trace) | _weight_column(trace)
    for j, classifier in enumerate(trace.spec.classifiers):
        if classifier.prediction is not None:
            columns[classifier.prediction] = _texts((*trace.classes, None), trace.predictions[:, j])
        else:
            columns[str(classifier.correct or classifier.quality or classifier.loss)] = _graded(trace, j)
        if classifier.confidence is not None:
            scale = classifier.confidence_scale or "probability"
            columns[classifier.confidence] = from_probability(trace.confidences[:, j], scale)
        if isinstance(classifier.cost, CostColumn):
            columns[classifier.cost.column] = trace.separate_costs[:, j]
        for r, resource in enumerate(trace.spec.resources):
            if isinstance(use := classifier.resources[resource], CostColumn):
                columns[use.column] = trace.resources[:, j, r]
        if classifier.propensity is not None:
            known = trace.propensities if trace.propensities.size else np.ones(trace.quality.shape)
            columns[classifier.propensity] = known[:, j]
        scores = list((classifier.scores or {}).values())
        columns |= {name: trace.margins[:, j, c].astype(np.float64) for c, name in enumerate(scores)}
    return columns


def _graded(trace: Trace, j: int) -> NDArray[np.float64]:
    """Return the column of a classifier without predictions: qualities, or losses as they were sent."""
    if trace.spec.classifiers[j].loss is None:
        return trace.quality[:, j]
    return np.asarray((1 - trace.quality[:, j]) * trace.loss_scale / (trace.spec.loss_weight or 1.0))


def _item_column(dataset: Dataset) -> dict[str, NDArray[Any]]:
    item = dataset.spec.item
    return {} if item is None else {item: np.array(dataset.item_names, dtype=object)[dataset.items]}


def _weight_column(dataset: Dataset) -> dict[str, NDArray[Any]]:
    return dict.fromkeys(dataset.spec.weight_columns, dataset.weights)


def _texts(names: tuple[str | None, ...], codes: NDArray[np.int32]) -> NDArray[Any]:
    return np.array(names, dtype=object)[codes]
