"""Traces in which not every classifier was called for every item: missing cells mean that it was not called."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import DatasetFacts, InvalidRequest, Trace, TraceSpec
from models.dataset_rows import append_rows, dataset_to_columns, find_row_faults, grade_row_answers
from models.trace_columns import NO_ANSWER

SPEC = TraceSpec.model_validate(
    {
        "kind": "trace",
        "label": "y",
        "unit": "USD",
        "classifiers": [
            {"name": "a", "prediction": "a", "confidence": "a_sure", "cost": {"column": "a_usd"}, "propensity": "a_p"},
            {"name": "b", "prediction": "b", "cost": 2.0},
        ],
    }
)
COLUMNS: dict[str, Any] = {
    "y": np.array(["cat", "dog", "cat", "dog"], dtype=object),
    "a": np.array(["cat", None, "", "cat"], dtype=object),
    "a_sure": np.array([0.9, np.nan, np.nan, 0.5]),
    "a_usd": np.array([1.0, np.nan, np.nan, 3.0]),
    "a_p": np.array([0.25, np.nan, np.nan, 0.5]),
    "b": np.array(["cat", "dog", "dog", None], dtype=object),
}


def trace(**changes: Any) -> Trace:
    return Trace.from_columns(SPEC, {**COLUMNS, **changes})


def test_missing_cells_are_calls_that_were_not_made() -> None:
    partial = trace()
    assert partial.called.tolist() == [[True, True], [False, True], [False, True], [True, False]]
    assert partial.predictions[:, 0].tolist() == [0, NO_ANSWER, NO_ANSWER, 0]
    np.testing.assert_array_equal(partial.quality, [[1, 1], [np.nan, 1], [np.nan, 0], [0, np.nan]])
    np.testing.assert_array_equal(partial.costs, [[1, 2], [np.nan, 2], [np.nan, 2], [3, 2]])
    np.testing.assert_array_equal(partial.propensities[:, 0], [0.25, np.nan, np.nan, 0.5])
    assert (partial.complete_rows, DatasetFacts.from_dataset(partial).complete_rows) == (1, 1)
    assert DatasetFacts.from_dataset(partial).of_complete_rows().rows == 1


def test_a_row_with_half_of_a_classifiers_cells_counts_as_not_called() -> None:
    partial = trace(a_usd=np.array([np.nan, np.nan, np.nan, 3.0]))
    assert partial.called[:, 0].tolist() == [False, False, False, True]
    assert np.isnan(partial.quality[0, 0])


def test_a_complete_table_is_no_partial_trace() -> None:
    rest = {"a": COLUMNS["b"], "a_sure": np.full(4, 0.5), "a_usd": np.ones(4), "b": COLUMNS["y"]}
    complete = trace(**{**rest, "a": COLUMNS["y"]})
    assert (complete.is_partial, complete.called.shape, complete.propensities.shape) == (False, (0, 0), (0, 0))
    assert DatasetFacts.from_dataset(complete).complete_rows is None


@pytest.mark.parametrize(
    ("changes", "where", "number"),
    [
        ({"b": np.array(["cat", None, "dog", None], dtype=object)}, "table", "row 2 is the first of 1"),
        ({"a_usd": np.full(4, np.nan)}, "spec.classifiers.0", "every row"),
        ({"a_p": np.array([0.0, np.nan, np.nan, 0.5])}, "table.a_p", "row 1 is 0"),
        ({"a_p": np.array([0.5, np.nan, np.nan, 1.5])}, "table.a_p", "row 4 is 1.5"),
        ({"a_usd": np.array([np.inf, np.nan, np.nan, 1.0])}, "table.a_usd", "row 1 is inf"),
    ],
)
def test_a_bad_partial_trace_is_refused_by_its_row(changes: dict[str, Any], where: str, number: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        trace(**changes)
    assert {".".join(map(str, fault.loc)): number in fault.msg for fault in refused.value.faults}[where]


def test_its_columns_recreate_it_and_take_further_rows() -> None:
    partial = trace()
    again = Trace.from_columns(SPEC, dataset_to_columns(partial))
    for name in ("called", "quality", "costs", "confidences", "predictions", "propensities"):
        np.testing.assert_array_equal(getattr(again, name), getattr(partial, name))
    longer = append_rows(
        partial, [{"y": "dog", "b": "dog"}, {"y": "cat", "a": "cat", "a_sure": 0.5, "a_usd": 1, "a_p": 1}]
    )
    assert isinstance(longer, Trace)
    assert longer.called[4:].tolist() == [[False, True], [True, False]]


def test_feedback_rows_may_lack_classifiers_of_a_partial_trace() -> None:
    facts = DatasetFacts.from_dataset(trace())
    assert not find_row_faults(facts, {"y": "cat", "b": "cat"}, None)
    assert grade_row_answers(SPEC, {"y": "cat", "b": "cat"}) == {"b": 1.0}
    assert {str(fault.loc[1]) for fault in find_row_faults(facts, {"y": "cat", "a": "cat", "b": "cat"}, None)} >= {
        "a_usd"
    }
    assert find_row_faults(facts, {"y": "cat"}, None)
    complete = facts.model_copy(update={"complete_rows": None})
    assert find_row_faults(complete, {"y": "cat", "b": "cat"}, None)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12), st.randoms())
def test_values_are_known_exactly_where_a_classifier_was_called(cells: list[tuple[bool, bool]], rng: Any) -> None:
    """Property: quality and costs are NaN where a cell is empty, and nowhere else."""
    spec = TraceSpec.model_validate(
        {
            "kind": "trace",
            "unit": "USD",
            "classifiers": [{"name": n, "correct": n, "cost": {"column": f"{n}_usd"}} for n in ("a", "b")],
        }
    )
    wanted = np.array([(True, True), *((a, b or not a) for a, b in cells)])
    columns = {}
    for j, name in enumerate(("a", "b")):
        columns[name] = np.where(wanted[:, j], [float(rng.random() < 0.5) for _ in wanted], np.nan)
        columns[f"{name}_usd"] = np.where(wanted[:, j], [rng.random() for _ in wanted], np.nan)
    partial = Trace.from_columns(spec, columns)
    called = partial.called if partial.is_partial else np.ones_like(wanted)
    assert (called == wanted).all()
    assert ((~np.isnan(partial.quality)) == wanted).all()
    assert ((~np.isnan(partial.costs)) == wanted).all()
