"""Datasets that grow: taken apart and put together again they are the same, and rows behind them are checked."""

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from app.store import codec
from app.store.uploads import parse_spec
from models import Dataset, DatasetFacts, InvalidRequest, dataset_from_columns
from models.dataset_rows import append_rows, dataset_to_columns, find_row_faults, grade_row_answers
from tests.support.samples import (
    FEATURES_SPEC,
    MIXED_SPEC,
    TRACE_SPEC,
    feature_columns,
    mixed_columns,
    trace_columns,
    trace_embeddings,
)

SCORED: dict[str, Any] = {
    **TRACE_SPEC,
    "classifiers": [
        {**TRACE_SPEC["classifiers"][0], "scores": {"cat": "s1", "dog": "s2", "owl": "s3"}},
        *TRACE_SPEC["classifiers"][1:],
    ],
}


def as_arrays(columns: dict[str, Any]) -> dict[str, NDArray[Any]]:
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    return {name: column.astype(object) if column.dtype.kind in "UO" else column for name, column in arrays.items()}


def scored(rows: int = 400) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {**trace_columns(rows), **{name: rng.normal(size=rows).tolist() for name in ("s1", "s2", "s3")}}


SAMPLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "features": (FEATURES_SPEC, feature_columns()),
    "mixed": (MIXED_SPEC, mixed_columns()),
    "trace": (TRACE_SPEC, trace_columns()),
    "scored": (SCORED, scored()),
}


def dataset(name: str, rows: slice = slice(None)) -> Dataset:
    spec, columns = SAMPLES[name]
    some = {column: cells[rows] for column, cells in as_arrays(columns).items()}
    return dataset_from_columns(parse_spec(json.dumps(spec)), some)


def as_rows(name: str, places: range) -> list[dict[str, Any]]:
    _, columns = SAMPLES[name]
    arrays = as_arrays(columns)
    rows = [{column: cells[place] for column, cells in arrays.items()} for place in places]
    return [{column: _plain(cell) for column, cell in row.items()} for row in rows]


def _plain(cell: Any) -> Any:
    if isinstance(cell, float | np.floating):
        return None if np.isnan(cell) else float(cell)
    return int(cell) if isinstance(cell, np.integer) else cell


@pytest.mark.parametrize("name", list(SAMPLES))
def test_a_dataset_taken_apart_is_put_together_to_the_same_bytes(name: str) -> None:
    """Columns lose nothing that a dataset keeps."""
    whole = dataset(name)
    again = dataset_from_columns(whole.spec, dataset_to_columns(whole))
    assert codec.encode(again, {}) == codec.encode(whole, {})


@pytest.mark.parametrize("name", list(SAMPLES))
def test_rows_that_come_later_make_the_dataset_that_came_at_once(name: str) -> None:
    """150 rows and the rest one by one are all of them, to the last byte."""
    whole = dataset(name)
    rows = as_rows(name, range(150, whole.rows))
    facts = DatasetFacts.from_dataset(whole)
    assert not [fault for row in rows for fault in find_row_faults(facts, row, None)]
    grown = append_rows(dataset(name, slice(150)), rows)
    assert codec.encode(grown, {}) == codec.encode(whole, {})


def test_embeddings_come_with_their_rows() -> None:
    """They stand behind the old ones, and are asked for."""
    columns = trace_columns()
    spec, vectors = parse_spec(json.dumps(TRACE_SPEC)), trace_embeddings(columns)
    first = dataset_from_columns(spec, {n: c[:300] for n, c in as_arrays(columns).items()}, vectors[:300])
    rows = as_rows("trace", range(300, 400))
    grown = append_rows(first, rows, vectors[300:])
    assert codec.encode(grown, {}) == codec.encode(dataset_from_columns(spec, as_arrays(columns), vectors), {})
    with pytest.raises(InvalidRequest, match="each row must have an embedding of 2 numbers"):
        append_rows(first, rows)


@pytest.mark.parametrize(
    ("name", "change", "where", "message"),
    [
        ("trace", {"truth": None}, "truth", "must not be missing"),
        ("trace", {"strong_ms": -1.0}, "strong_ms", "at least 0, got -1"),
        ("trace", {"strong_ms": "slow"}, "strong_ms", "must be a number, got 'slow'"),
        ("trace", {"more": 1.0}, "more", "column"),
        ("features", {"pixels": 0.0}, "pixels", "above 0, got 0"),
        ("features", {"glucose": None}, "glucose", "must not be missing"),
        ("features", {"glucose": 1e31}, "glucose", "at most 1e+30, got 1e+31"),
        ("scored", {"truth": "fox"}, "truth", "must be one of the dataset's classes (cat, dog, owl), got 'fox'"),
        ("scored", {"s1": -1e31}, "s1", "at least -1e+30"),
    ],
)
def test_a_bad_row_is_refused_by_its_column(name: str, change: dict[str, Any], where: str, message: str) -> None:
    """The message tells the cell."""
    (row,) = as_rows(name, range(1))
    (fault,) = find_row_faults(DatasetFacts.from_dataset(dataset(name)), {**row, **change}, None)
    assert fault.loc == ("row", where)
    assert message in fault.msg


def test_a_missing_column_and_a_wrong_embedding_are_told() -> None:
    """Every fault is."""
    (row,) = as_rows("trace", range(1))
    del row["truth"]
    facts = DatasetFacts.from_dataset(dataset("trace")).model_copy(update={"embedding_dimensions": 2})
    faults = find_row_faults(facts, row, [1.0])
    assert [fault.loc for fault in faults] == [("row", "truth"), ("embedding",)]
    assert faults[1].msg == "must have 2 numbers, got 1"
    with pytest.raises(InvalidRequest, match="column 'truth' must not be missing in a row"):
        append_rows(dataset("trace"), [row])


def test_cells_that_may_be_missing_may() -> None:
    """Of a spec that says so, features only."""
    (row,) = as_rows("mixed", range(1))
    facts = DatasetFacts.from_dataset(dataset("mixed"))
    assert not find_row_faults(facts, {**row, "ward": None, "iron": None, "glucose": ""}, None)
    assert find_row_faults(facts, {**row, "outcome": ""}, None)


def test_a_row_tells_how_good_each_classifier_is() -> None:
    """By its answer, by whether it was right, or by its grade; a table of features has no classifiers."""
    told: list[dict[str, Any]] = [
        {"name": "a", "cost": 1.0, "prediction": "says"},
        {"name": "b", "cost": 1.0, "correct": "right"},
        {"name": "c", "cost": 1.0, "quality": "grade"},
    ]
    spec = parse_spec(json.dumps({"kind": "trace", "label": "truth", "unit": "ms", "classifiers": told}))
    row: dict[str, Any] = {"truth": "7", "says": 7.0, "right": False, "grade": 0.25}
    assert grade_row_answers(spec, row) == {"a": 1.0, "b": 0.0, "c": 0.25}
    assert grade_row_answers(spec, {**row, "says": None, "right": "true"}) == {"b": 1.0, "c": 0.25}
    assert grade_row_answers(parse_spec(json.dumps(FEATURES_SPEC)), {}) == {}
