"""Weights of rows: read from a column or by class, refused with the name and the number, applied by repetition."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from models import FeaturesSpec, InvalidRequest, TraceSpec, apply_weights, dataset_from_columns
from models.dataset_rows import append_rows, dataset_to_columns
from models.weights import MAX_WEIGHTED_ROWS, repeat_rows

LABELS = np.array(["sick", "well", "well"], dtype=object)


def table(weights: Any, column: Any = (1.0, 2.0, 3.0), **more: Any) -> Any:
    features = [{"name": "age", "columns": ["age"], "cost": 1}]
    spec = {"kind": "features", "label": "label", "unit": "EUR", "features": features, "weights": weights, **more}
    columns = {"label": LABELS, "age": np.arange(3.0), "heft": np.array(column), "id": np.array(list("xyx"), object)}
    return dataset_from_columns(FeaturesSpec.model_validate(spec), columns)


def trace(weights: Any, **more: Any) -> Any:
    classifier = {"name": "fast", "cost": 1, "correct": "right"}
    spec = {"kind": "trace", "unit": "EUR", "classifiers": [classifier], "weights": weights, **more}
    columns = {"right": np.array([1.0, 0.0, 1.0]), "heft": np.array([2.0, 1.0, 1.0]), "label": LABELS}
    return dataset_from_columns(TraceSpec.model_validate(spec), columns)


@pytest.mark.parametrize(
    ("weights", "read"),
    [(None, []), ("heft", [1, 2, 3]), ({"well": 4}, [1, 4, 4]), ({"sick": 2, "well": 1}, [2, 1, 1])],
)
def test_weights_are_a_column_or_numbers_by_class(weights: Any, read: list[float]) -> None:
    assert table(weights).weights.tolist() == read


def test_rows_are_repeated_as_copies_of_one_item() -> None:
    repeated: Any = apply_weights(table("heft"))
    assert repeated.values[:, 0].tolist() == [0, 1, 1, 2, 2, 2]
    assert repeated.items.tolist() == [0, 1, 1, 2, 2, 2]
    assert not len(repeated.weights)
    assert apply_weights(table("heft", item="id")).items.tolist() == [0, 1, 1, 0, 0, 0]
    answers: Any = apply_weights(trace("heft"))
    assert answers.quality[:, 0].tolist() == [1, 1, 0, 1]
    same = table(None)
    assert apply_weights(same) is same


def test_rows_added_later_have_weights_too() -> None:
    longer = append_rows(table("heft"), [{"label": "well", "age": 7.0, "heft": 5.0}])
    assert longer.weights.tolist() == [1, 2, 3, 5]
    assert dataset_to_columns(longer)["heft"].tolist() == [1, 2, 3, 5]
    assert longer.take(np.array([3, 0])).weights.tolist() == [5, 1]


@pytest.mark.parametrize(
    ("weights", "column", "where"),
    [
        ({"ill": 2}, (1.0, 1.0, 1.0), ("spec", "weights", "ill")),
        ("heft", (1.0, 0.0, 1.0), ("table", "heft")),
        ("heft", (1.0, -2.0, 1.0), ("table", "heft")),
        ("heft", (1.0, np.nan, 1.0), ("table", "heft")),
        ("heft", (1.0, 2.0 * MAX_WEIGHTED_ROWS, 1.0), ("spec", "weights")),
        ("nosuch", (1.0, 1.0, 1.0), ("table", "nosuch")),
    ],
)
def test_unknown_classes_and_weights_out_of_bounds_are_refused(
    weights: Any, column: Any, where: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        table(weights, column)
    assert where in [fault.loc for fault in refused.value.faults]


@pytest.mark.parametrize("weights", [{"well": 0}, {"well": -1}, {}, "label", "age", 3])
def test_specs_refuse_weights_that_are_none(weights: Any) -> None:
    with pytest.raises(ValidationError):
        table(weights)


@pytest.mark.parametrize(
    "more", [{"weights": {"well": 2}}, {"weights": "right"}, {"weights": "label", "label": "label"}]
)
def test_traces_refuse_them_too(more: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        trace(**more)


@given(st.lists(st.floats(min_value=0.1, max_value=9.0), min_size=1, max_size=60))
def test_copies_are_within_half_a_row_of_the_weights(weights: list[float]) -> None:
    multiples = np.array(weights) / min(weights)
    counts = np.bincount(repeat_rows(np.array(weights)), minlength=len(weights))
    assert counts.min() >= 1
    assert np.abs(np.cumsum(counts) - np.cumsum(multiples)).max() <= 0.5 + 1e-6
