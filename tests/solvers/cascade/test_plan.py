"""A plan whose arrays contradict each other is refused when it is made, not when it is asked."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from models import InvalidRequest, TraceSpec, dataset_from_columns
from models.cascade import CascadeOptions
from solvers import Run
from solvers.cascade import CascadePlan, fit
from tests.support.samples import TRACE_SPEC, trace_columns


@pytest.fixture(scope="module")
def plan() -> CascadePlan:
    columns = {name: np.array(values) for name, values in trace_columns().items()}
    trace: Any = dataset_from_columns(TraceSpec.model_validate(TRACE_SPEC), columns)
    return fit(trace, CascadeOptions(target_precision=0.9), np.random.default_rng(0), Run()).plan


def changed(plan: CascadePlan, fields: dict[str, Any]) -> CascadePlan:
    return replace(plan, **fields)


@pytest.mark.parametrize("name", ["thresholds", "execution_times", "worst_case_times", "maximum_durations"])
def test_an_array_of_the_wrong_length_is_refused(plan: CascadePlan, name: str) -> None:
    with pytest.raises(InvalidRequest, match="no cascade plan"):
        changed(plan, {name: getattr(plan, name)[:-1].copy()})


@pytest.mark.parametrize("name", ["expected_durations", "offsets", "members", "reaching"])
def test_a_missing_entry_is_refused(plan: CascadePlan, name: str) -> None:
    with pytest.raises(InvalidRequest, match="no cascade plan"):
        changed(plan, {name: getattr(plan, name)[1:].copy()})


@pytest.mark.parametrize(
    ("name", "value"),
    [("members", 99), ("members", -1), ("offsets", -1), ("maximum_durations", np.nan), ("execution_times", np.inf)],
)
def test_an_entry_out_of_range_is_refused(plan: CascadePlan, name: str, value: float) -> None:
    array = getattr(plan, name).copy()
    array[0] = value
    with pytest.raises(InvalidRequest):
        changed(plan, {name: array})


def test_an_array_of_other_dimensions_is_refused(plan: CascadePlan) -> None:
    with pytest.raises(InvalidRequest, match="one dimension"):
        changed(plan, {"members": np.array(0, dtype=np.int32)})


def test_infinite_thresholds_and_names_that_stand_twice_are_refused(plan: CascadePlan) -> None:
    with pytest.raises(InvalidRequest, match="thresholds"):
        changed(plan, {"thresholds": np.full_like(plan.thresholds, np.inf)})
    with pytest.raises(InvalidRequest, match="different names"):
        changed(plan, {"names": (plan.names[0],) * len(plan.names)})


def test_an_empty_plan_is_refused(plan: CascadePlan) -> None:
    nothing = {"maximum_durations": np.empty(0), "expected_durations": np.empty(0), "reaching": np.empty(0)}
    with pytest.raises(InvalidRequest, match="at least one step"):
        changed(plan, {**nothing, "members": np.empty(0, np.int32), "offsets": np.zeros(1, np.int64)})
