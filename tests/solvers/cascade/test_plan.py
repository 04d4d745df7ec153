"""A plan whose arrays contradict each other is refused when it is made, not when it is asked."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from models import InvalidRequest, TraceSpec, dataset_from_columns
from models.cascade import CascadeOptions
from solvers import BuildContext
from solvers.cascade import CascadePlan, fit
from tests.support.samples import TRACE_SPEC, trace_columns


@pytest.fixture(scope="module")
def plan() -> CascadePlan:
    columns = {name: np.array(values) for name, values in trace_columns().items()}
    trace: Any = dataset_from_columns(TraceSpec.model_validate(TRACE_SPEC), columns)
    return fit(trace, CascadeOptions(target_precision=0.9), np.random.default_rng(0), BuildContext()).plan


ARRAYS = """thresholds execution_times worst_case_times maximum_durations expected_durations offsets members reaching"""
SHORT = {"maximum_durations": np.empty(0), "expected_durations": np.empty(0), "reaching": np.empty(0)}
EMPTY = SHORT | {"members": np.empty(0, np.int32), "offsets": np.zeros(1, np.int64)}


@pytest.mark.parametrize("cut", [slice(-1), slice(1, None)], ids=["last", "first"])
@pytest.mark.parametrize("name", ARRAYS.split())
def test_an_array_without_its_last_or_first_entry_is_refused(plan: CascadePlan, name: str, cut: slice) -> None:
    with pytest.raises(InvalidRequest, match="not a valid cascade plan"):
        replace(plan, **{name: getattr(plan, name)[cut].copy()})


@pytest.mark.parametrize(
    ("name", "value"),
    [("members", 99), ("members", -1), ("offsets", -1), ("maximum_durations", np.nan), ("execution_times", np.inf)],
)
def test_an_entry_out_of_range_is_refused(plan: CascadePlan, name: str, value: float) -> None:
    array = getattr(plan, name).copy()
    array[0] = value
    with pytest.raises(InvalidRequest):
        replace(plan, **{name: array})


def test_other_dimensions_infinite_thresholds_equal_names_and_an_empty_plan_are_refused(plan: CascadePlan) -> None:
    forged: list[tuple[dict[str, Any], str]] = [
        ({"members": np.array(0, dtype=np.int32)}, "one dimension"),
        ({"thresholds": np.full_like(plan.thresholds, np.inf)}, "thresholds"),
        ({"names": (plan.names[0],) * len(plan.names)}, "different names"),
        (EMPTY, "at least one step"),
    ]
    for fields, reason in forged:
        with pytest.raises(InvalidRequest, match=reason):
            replace(plan, **fields)
