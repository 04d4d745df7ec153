"""Items as callers send them, and plans that were made up."""

import json
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from models import InvalidRequest
from models.pipeline import PipelineQuery
from solvers.pipeline import PipelinePlan
from solvers.pipeline.items import ItemReader
from tests.solvers.pipeline.test_fit import build, table

READER = ItemReader.from_columns(
    ("age", "blood", "ward"), (("age",), ("glucose", "iron"), ("ward",)), ((), (), (), ("1", "b")), missing=True
)


def read(item: dict[str, Any], reader: ItemReader = READER) -> tuple[list[Any], list[bool]]:
    request = PipelineQuery.model_validate_json(json.dumps({"acquired": item}))
    values, known = reader.read([request.acquired], "acquired")
    return [None if np.isnan(value) else value for value in values[0].tolist()], known[0].tolist()


def test_values_stand_in_the_columns_of_their_features() -> None:
    assert read({"blood": [7.5, None], "age": 63}) == ([63, 7.5, None, None], [True, True, False])


def test_categories_are_read_as_the_table_was() -> None:
    for cell, code in (("b", 1), ("1", 0), (1, 0), (1.0, 0), ("1.0", 0), ("never seen", -1), (True, -1)):
        assert read({"ward": cell})[0][3] == code


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"weight": 1}, "acquired.weight: .*age, blood, ward"),
        ({"blood": 1}, "acquired.blood: must have 2 values, got 1"),
        ({"age": [1, 2]}, "must have 1 values, got 2"),
        ({"age": "old"}, "column 'age' must be a number, got 'old'"),
    ],
)
def test_what_is_no_value_is_refused(item: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        read(item)


def test_an_empty_category_is_a_missing_one() -> None:
    assert read({"ward": ""}) == read({"ward": None})
    assert read({"ward": ""})[0][3] is None
    strict = ItemReader.from_columns(("ward",), (("ward",),), (("1", "b"),), missing=False)
    with pytest.raises(InvalidRequest, match="column 'ward' requires a value: the dataset has no missing values"):
        read({"ward": ""}, strict)


def test_null_is_refused_where_no_cell_may_be_missing() -> None:
    strict = ItemReader.from_columns(("age",), (("age",),), ((),), missing=False)
    with pytest.raises(InvalidRequest, match="column 'age' requires a value: the dataset has no missing values"):
        read({"age": None}, strict)


def test_faults_of_a_batch_name_the_item_and_end_somewhere() -> None:
    with pytest.raises(InvalidRequest) as caught:
        READER.read([{}, *[{"x": 1.0}] * 500], "items")
    assert caught.value.faults[0].loc == ("items", 1, "x")
    assert len(caught.value.faults) == 100


@pytest.fixture(scope="module")
def plan() -> PipelinePlan:
    return build(table(), confidence_threshold=0.7).plan


BROKEN: dict[str, Any] = {
    "features": ("age", "age", "ward"),
    "columns": (("age",), ("glucose",), ("ward",)),
    "classes": ("ill",),
    "categories": ((), (), ("x",), ("a", "b", "c")),
    "costs": np.array([1.0, np.nan, 1.0]),
    "thresholds": np.array([0.5, 1.5]),
    "positive_class": "dead",
    "held_out": 0,
    "independence": 1.5,
    "fills": np.zeros(3),
    "shifts": np.full(4, np.inf),
    "scales": np.zeros(4),
    "offsets": np.array([0, 0, 0, 0, 9]),
    "codes": np.zeros(2, dtype=np.int64),
    "chromosomes": np.array([[0, 2, 2]], dtype=np.int8),
    "validated": np.zeros((1, 3)),
    "tested": np.full((1, 4), 2.0),
    "model_kind": "pickle",
    "model_masks": np.array([1], dtype=np.uint64),
    "model_offsets": np.array([0, 1], dtype=np.int64),
    "model_numbers": np.zeros(1),
    "model_bytes": np.zeros(3, dtype=np.int8),
    "tested_cost_errors": np.full(1, -1.0),
    "after_last_stage": "ask",
    "loss_matrix": np.ones((2, 2)),
    "quality_thresholds": np.array([0.5]),
    "setup_names": ("lab",),
    "setup_members": np.ones((1, 3), dtype=np.bool_),
    "setup_costs": np.ones(1),
}


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_a_plan_that_contradicts_itself_is_refused(plan: PipelinePlan, name: str) -> None:
    with pytest.raises(InvalidRequest):
        replace(plan, **{name: BROKEN[name]})


def test_a_plan_that_answers_at_the_end_covers_all(plan: PipelinePlan) -> None:
    with pytest.raises(InvalidRequest, match="full coverage"):
        replace(plan, after_last_stage="answer")


def test_every_array_of_a_plan_is_checked() -> None:
    unchecked = {"missing", "unit", "exact"}
    assert {field.name for field in fields(PipelinePlan) if field.init} == BROKEN.keys() | unchecked
