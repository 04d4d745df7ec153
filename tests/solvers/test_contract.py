"""What every kind promises, tested once for all of them."""

import json
from dataclasses import FrozenInstanceError, fields, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from app.store import codec
from models.errors import Cancelled, Infeasible, InvalidRequest
from solvers import KINDS, BuildContext, FitResult
from tests.support.kinds import SAMPLES, dataset


def build(name: str, seed: int = 0) -> FitResult[Any]:
    """Fit a kind to its small problem."""
    sample = SAMPLES[name]
    rng = np.random.default_rng(seed)
    fitted: FitResult[Any] = KINDS[name].fit(dataset(sample.dataset), sample.options, rng, BuildContext())
    return fitted


fit = cache(build)
"""Fit once for all tests that change nothing."""


@pytest.fixture(params=sorted(KINDS))
def name(request: pytest.FixtureRequest) -> str:
    """Go through the solvers."""
    return str(request.param)


def test_every_solver_has_a_sample() -> None:
    assert set(SAMPLES) == set(KINDS)


def test_it_is_registered_under_its_own_name(name: str) -> None:
    assert KINDS[name].name == name


def test_same_data_options_and_seed_give_the_same_bytes(name: str) -> None:
    first, second = (codec.encode(fitted.plan, fitted.summary) for fitted in (fit(name), build(name)))
    assert first == second


def test_a_plan_survives_its_bytes_and_decides_the_same(name: str) -> None:
    plan = fit(name).plan
    data = codec.encode(plan, {})
    again = codec.decode(data, KINDS[name].plan)
    assert codec.encode(again, {}) == data
    for query in SAMPLES[name].feasible:
        assert again.decide(query) == plan.decide(query)


def test_a_plan_is_frozen_and_so_are_its_arrays(name: str) -> None:
    plan = fit(name).plan
    field = fields(plan)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(plan, field, None)
    for each in (each for each in fields(plan) if each.init):
        value = getattr(plan, each.name)
        assert not isinstance(value, np.ndarray) or not value.flags.writeable, each.name


def test_the_summary_is_plain_json_with_finite_numbers(name: str) -> None:
    summary = fit(name).summary
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_what_cannot_be_satisfied_is_infeasible_and_the_numbers_are_told(name: str) -> None:
    plan = fit(name).plan
    for query in SAMPLES[name].infeasible:
        with pytest.raises(Infeasible, match=r"\d"):
            plan.decide(query)


def test_a_fit_reports_progress_to_its_end_and_stops_when_told(name: str) -> None:
    reports: list[tuple[int, int]] = []

    def note(done: int, total: int, message: str) -> None:
        assert message
        reports.append((done, total))

    def stop(done: int, total: int, message: str) -> None:
        raise Cancelled("told to stop")

    sample = SAMPLES[name]
    KINDS[name].fit(dataset(sample.dataset), sample.options, np.random.default_rng(0), BuildContext(note))
    assert reports[-1][0] == reports[-1][1] > 0
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)
    with pytest.raises(Cancelled):
        KINDS[name].fit(dataset(sample.dataset), sample.options, np.random.default_rng(0), BuildContext(stop))


MAY_LACK = {"thresholds", "point_thresholds", "point_label_thresholds", "validated", "tested", "curve_estimates"}
"""Arrays that hold NaN where there is no number."""
OF_MODELS = {
    *("model_numbers", "fills", "shifts", "scales", "low", "span", "items", "lambdas", "cell_fills", "ranges"),
    *("class_base", "class_thresholds", "class_leaves", "edge_thresholds", "edge_leaves", "base"),
    *("embedding_centre", "embedding_axes", "kernel_width", "kernel_weights"),
    *("forest_thresholds", "kernel_centres", "logistic_weights", "logistic_intercepts"),
}
"""Parameters of models, and scalings of their inputs: of any size."""


def forge(plan: Any, field: str, value: float) -> None:
    """Make the plan anew, with the last number of an array replaced; raises InvalidRequest where it is out of range."""
    array = getattr(plan, field).copy()
    array.flat[-1] = np.clip(value, -1e38, 1e38) if array.dtype == np.float32 and np.isfinite(value) else value
    replace(plan, **{field: array})


def test_a_number_outside_its_range_is_refused(name: str) -> None:
    plan = fit(name).plan
    arrays = {each.name: getattr(plan, each.name) for each in fields(plan) if each.init}
    floats = [field for field, each in arrays.items() if isinstance(each, np.ndarray) and each.dtype.kind == "f"]
    signed = (
        {"thresholds", "point_thresholds", "point_label_thresholds"} if name == "cascade" else {"curve_cost_offsets"}
    )
    allowed = {np.nan: MAY_LACK, np.inf: {"lambdas"}, -np.inf: set(), 1e300: OF_MODELS, -3.0: OF_MODELS | signed}
    for value, may_hold in allowed.items():
        for field in (field for field in floats if arrays[field].size and field not in may_hold):
            with pytest.raises(InvalidRequest):
                forge(plan, field, value)
