"""Traces that tell how good answers were, not what they were: no label, and one class only is no fault."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from models import DatasetFacts, InvalidRequest, Trace, TraceSpec
from models.dataset_rows import append_rows, dataset_to_columns, find_row_faults

GRADED: dict[str, Any] = {
    "kind": "trace",
    "unit": "USD",
    "classifiers": [
        {"name": "small", "correct": "small_ok", "confidence": "small_sure", "cost": {"column": "small_usd"}},
        {"name": "large", "quality": "large_judge", "cost": 1.0},
    ],
}
COLUMNS: dict[str, Any] = {
    "small_ok": np.array(["true", "False", "TRUE"], dtype=object),
    "small_sure": np.array([-0.1, -2.0, -0.3]),
    "small_usd": np.array([0.1, 0.2, 0.3]),
    "large_judge": np.array([1.0, 0.25, 0.5]),
}


def spec(**changes: Any) -> TraceSpec:
    """Give the spec, with changes to its first classifier or, beside it, to itself."""
    own = {name: value for name, value in changes.items() if name in ("label", "unit")}
    first = GRADED["classifiers"][0] | {name: value for name, value in changes.items() if name not in own}
    return TraceSpec.model_validate({**GRADED, **own, "classifiers": [first, GRADED["classifiers"][1]]})


def test_answers_are_as_good_as_they_are_told_to_be() -> None:
    trace = Trace.from_columns(spec(), COLUMNS)
    assert trace.quality.tolist() == [[1.0, 1.0], [0.0, 0.25], [1.0, 0.5]]
    assert (trace.classes, trace.rows, trace.predictions.max()) == ((), 3, -1)
    assert trace.estimate_likelihoods(1.0).tolist() == trace.quality.tolist()
    assert not trace.spec.has_classes
    for cells in ([1, 0, 1], [1.0, 0.0, 1.0], [True, False, True]):
        again = Trace.from_columns(spec(), {**COLUMNS, "small_ok": np.array(cells)})
        assert again.quality[:, 0].tolist() == [1.0, 0.0, 1.0]
    answered = {"small_says": np.array(["a", "b", "b"], dtype=object), "truth": np.array(["a", "a", "b"], dtype=object)}
    told = Trace.from_columns(spec(label="truth", correct=None, prediction="small_says"), {**COLUMNS, **answered})
    assert (told.quality[:, 0].tolist(), told.classes) == ([1.0, 0.0, 1.0], ("a", "b"))
    assert DatasetFacts.from_dataset(trace).columns == ("small_ok", "small_sure", "small_usd", "large_judge")


@pytest.mark.parametrize(
    ("column", "cells", "said"),
    [
        ("small_ok", ["true", "maybe", "true"], "must be 0 or 1, false or true; row 2 is 'maybe'"),
        ("small_ok", [1, 2, 0], "must be 0 or 1, false or true; row 2 is 2"),
        ("large_judge", [1.0, 1.5, 0.0], "must be at most 1; row 2 is 1.5"),
        ("large_judge", [1.0, -0.5, 0.0], "must be at least 0; row 2 is -0.5"),
    ],
)
def test_what_is_no_grade_is_refused_by_its_row(column: str, cells: list[Any], said: str) -> None:
    dtype = object if any(isinstance(cell, str) for cell in cells) else None
    with pytest.raises(InvalidRequest) as refused:
        Trace.from_columns(spec(), {**COLUMNS, column: np.array(cells, dtype=dtype)})
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"correct": None}, "none is given"),
        ({"quality": "x"}, "correct and quality are given"),
        ({"correct": None, "prediction": "x"}, "has prediction, which require the label"),
        ({"scores": {"a": "x"}}, "has scores, which require the label"),
        ({"label": "small_ok"}, "must not be the label column"),
    ],
)
def test_specs_that_cannot_be_meant_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        spec(**changes)


def test_rows_that_come_later_are_checked_and_put_behind() -> None:
    trace = Trace.from_columns(spec(), COLUMNS)
    facts, row = (
        DatasetFacts.from_dataset(trace),
        {"small_ok": 1.0, "small_sure": -0.5, "small_usd": 0.2, "large_judge": 0.75},
    )
    assert find_row_faults(facts, row, None) == []
    said = [fault.msg for fault in find_row_faults(facts, {**row, "small_ok": 0.5}, None)]
    assert said == ["must be 0 or 1, false or true, got 0.5"]
    assert find_row_faults(facts, {**row, "small_ok": True}, None) == []
    assert find_row_faults(facts, {**row, "small_ok": "true"}, None) == []
    assert "at most 1" in find_row_faults(facts, {**row, "large_judge": 7.0}, None)[0].msg
    more = append_rows(trace, [row])
    assert isinstance(more, Trace)
    assert more.quality.tolist() == [*trace.quality.tolist(), [1.0, 0.75]]
    again = append_rows(trace, [{**row, "small_ok": False}, {**row, "small_ok": "TRUE"}])
    assert isinstance(again, Trace)
    assert again.quality[3:, 0].tolist() == [0.0, 1.0]
    assert Trace.from_columns(spec(), dataset_to_columns(trace)).quality.tolist() == trace.quality.tolist()


def test_log_probabilities_of_a_sure_model_are_no_mistake() -> None:
    """Nearly all are hardly below 0, a few are far: that is no confidence in percent."""
    sure = np.concatenate((np.full(98, -0.0005), [-2.0, -3.0]))
    columns = {name: np.resize(column, 100) for name, column in COLUMNS.items()} | {"small_sure": sure}
    trace = Trace.from_columns(spec(), columns)
    assert trace.confidences[:, 0].tolist() == pytest.approx(np.exp(sure).tolist())
    assert [one.confidence_scale for one in trace.spec.classifiers] == ["logprob", None]


@pytest.mark.parametrize(
    ("scale", "told", "probabilities"),
    [
        ("probability", [0.2, 1.0005, 0.0], [0.2, 1.0, 0.0]),
        ("logprob", [-0.5, 0.0, -800.0], [np.exp(-0.5), 1.0, 0.0]),
        ("percent", [97.0, 0.0, 100.0], [0.97, 0.0, 1.0]),
        ("logit", [0.0, 800.0, -3.0], [0.5, 1.0, 1 / (1 + np.exp(3.0))]),
        (None, [-0.5, -0.25, -2.0], np.exp([-0.5, -0.25, -2.0]).tolist()),
        (None, [0.5, 0.25, 1.0], [0.5, 0.25, 1.0]),
    ],
)
def test_confidences_of_every_scale_are_probabilities_and_grow_by_rows_of_that_scale(
    scale: str | None, told: list[float], probabilities: list[float]
) -> None:
    trace = Trace.from_columns(spec(confidence_scale=scale), COLUMNS | {"small_sure": np.array(told)})
    assert trace.confidences[:, 0].tolist() == pytest.approx(probabilities)
    row = {"small_ok": 1.0, "small_sure": told[0], "small_usd": 0.2, "large_judge": 0.75}
    assert find_row_faults(DatasetFacts.from_dataset(trace), row, None) == []
    grown = append_rows(trace, [row])
    assert isinstance(grown, Trace)
    assert grown.confidences[:, 0].tolist() == pytest.approx([*probabilities, probabilities[0]], abs=1e-300)


@pytest.mark.parametrize(
    ("scale", "told"),
    [
        (None, [97.0, 3.0, 0.5]),
        (None, [-0.5, 0.5, 0.2]),
        ("probability", [0.5, 1.1, 0.2]),
        ("logprob", [-0.5, 0.5, -2.0]),
        ("percent", [50.0, 101.0, 3.0]),
    ],
)
def test_confidences_beyond_their_scale_are_refused_with_what_to_set(scale: str | None, told: list[float]) -> None:
    with pytest.raises(InvalidRequest, match="set confidence_scale of 'small'") as refused:
        Trace.from_columns(spec(confidence_scale=scale), COLUMNS | {"small_sure": np.array(told)})
    assert refused.value.faults[0].loc == ("table", "small_sure")


TERMS = [{"coefficient": 0.001, "powers": [1, 0]}, {"coefficient": 0.002, "powers": [0, 1]}]
TOKENS: dict[str, Any] = {
    "kind": "trace",
    "unit": "USD",
    "size": ["tokens_in", "tokens_out"],
    "classifiers": [
        {"name": "small", "correct": "small_ok", "cost": {"terms": TERMS}},
        {"name": "large", "correct": "large_ok", "cost": 5.0},
    ],
}
COUNTED: dict[str, Any] = {
    "tokens_in": np.array([100.0, 0.0]),
    "tokens_out": np.array([10.0, 50.0]),
    "small_ok": np.array([1.0, 0.0]),
    "large_ok": np.array([1.0, 1.0]),
}


def test_costs_may_be_functions_of_an_items_size() -> None:
    trace = Trace.from_columns(TraceSpec.model_validate(TOKENS), COUNTED)
    assert trace.costs == pytest.approx(np.array([[0.12, 5.0], [0.1, 5.0]]))
    assert trace.take(np.array([1])).sizes.tolist() == [[0.0, 50.0]]
    again = Trace.from_columns(trace.spec, dataset_to_columns(trace))
    assert again.costs.tolist() == trace.costs.tolist()
    assert set(trace.spec.used_columns) == set(COUNTED)
    more = append_rows(trace, [{"tokens_in": 1000, "tokens_out": 0, "small_ok": 1, "large_ok": 0}])
    assert more.costs[-1].tolist() == pytest.approx([1.0, 5.0])  # type: ignore[union-attr]
    one = TOKENS | {"size": "tokens_in", "classifiers": [TOKENS["classifiers"][0] | {"cost": {"polynomial": [1, 0.5]}}]}
    assert Trace.from_columns(TraceSpec.model_validate(one), COUNTED).costs[:, 0].tolist() == [51.0, 1.0]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"size": None}, "the cost of 'small' depends on 2 sizes, but the spec has 0 size columns"),
        ({"size": "tokens_in"}, "the spec has 1 size columns"),
        ({"classifiers": [{"name": "a", "correct": "small_ok", "cost": {"timings": []}}]}, "must be a number, or have"),
        ({"classifiers": [{"name": "a", "correct": "small_ok", "cost": "dear"}]}, "must be a number, or have"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(changes: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        TraceSpec.model_validate(TOKENS | changes)


def test_sizes_are_numbers_from_0_on_and_costs_of_them_can_be_reckoned_with() -> None:
    spec_of = TraceSpec.model_validate(TOKENS)
    with pytest.raises(InvalidRequest, match="tokens_in"):
        Trace.from_columns(spec_of, COUNTED | {"tokens_in": np.array([1.0, -1.0])})
    steep = TOKENS["classifiers"][0] | {"cost": {"terms": [{"coefficient": 1e90, "powers": [9, 0]}]}}
    huge = TraceSpec.model_validate(TOKENS | {"classifiers": [steep]})
    with pytest.raises(InvalidRequest, match=r"the cost of 'small' must be at most 1e\+100, but exceeds it in row 1"):
        Trace.from_columns(huge, COUNTED)
