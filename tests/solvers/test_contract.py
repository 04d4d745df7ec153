"""What every solver promises, tested once for all of them."""

import json
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, fields
from typing import Any

import numpy as np
import pytest

from app import codec
from models import CascadeOptions, CascadeQuery, Dataset, FeaturesSpec, TraceSpec, Value, dataset_from_columns
from models.errors import Cancelled, Infeasible
from models.index import IndexOptions, IndexQuery
from models.pipeline import PipelineOptions, PipelineQuery
from models.policy import Answer, PolicyOptions, PolicyQuery
from models.portfolio import PortfolioOptions, RouteBudget, RouteQuery
from solvers import SOLVERS, Fitted, Run
from tests.samples import (
    FEATURES_SPEC,
    MIXED_SPEC,
    TRACE_SPEC,
    feature_columns,
    mixed_columns,
    trace_columns,
    trace_embeddings,
)


@dataclass(frozen=True)
class Case:
    """A small problem for a solver: queries that can be answered, and some that cannot."""

    dataset: Callable[[], Dataset]
    options: Value
    feasible: tuple[Value, ...]
    infeasible: tuple[Value, ...]


def _trace() -> Dataset:
    columns = {name: np.array(values) for name, values in trace_columns().items()}
    return dataset_from_columns(TraceSpec.model_validate(TRACE_SPEC), columns)


def _embedded_trace() -> Dataset:
    columns = trace_columns()
    arrays = {name: np.array(values) for name, values in columns.items()}
    return dataset_from_columns(TraceSpec.model_validate(TRACE_SPEC), arrays, trace_embeddings(columns))


def _features() -> Dataset:
    columns = {name: np.array(values) for name, values in feature_columns().items()}
    return dataset_from_columns(FeaturesSpec.model_validate(FEATURES_SPEC), columns)


def _route(confidences: tuple[float, float], **budget: float) -> RouteQuery:
    return RouteQuery(query=confidences, budget=RouteBudget(**budget))


def _mixed() -> Dataset:
    return dataset_from_columns(FeaturesSpec.model_validate(MIXED_SPEC), mixed_columns())


CASES: dict[str, Case] = {
    "pipeline": Case(
        _mixed,
        PipelineOptions(confidence_threshold=0.7),
        (PipelineQuery(), PipelineQuery(max_cost=5.0), PipelineQuery(min_coverage=0.5, min_accuracy=0.5)),
        (PipelineQuery(max_cost=0.1), PipelineQuery(min_coverage=1.0, min_accuracy=1.0)),
    ),
    "portfolio": Case(
        _embedded_trace,
        PortfolioOptions(curve_points=3),
        (_route((0.9, 0.9), fraction=0.5), _route((0.4, 0.4), per_query=3.0), _route((0.4, 0.9), per_query=1e9)),
        (_route((0.9, 0.9), per_query=0.5), _route((0.9, 0.9), fraction=0.01)),
    ),
    "policy": Case(
        _trace,
        PolicyOptions(points=3, trees=8, depth=2),
        (
            PolicyQuery(),
            PolicyQuery(budget=5.0, item="a"),
            PolicyQuery(tradeoff=0.01, acquired={"fast": ("cat", 0.9)}),
            PolicyQuery(
                acquired={"fast": Answer(label="cat", confidence=0.9), "middle": ("dog", 0.5), "strong": "dog"}
            ),
        ),
        (),
    ),
    "index": Case(
        _features,
        IndexOptions(folds=2),
        (IndexQuery(size=64.0, budget=0.0), IndexQuery(size=64.0, budget=4.0), IndexQuery(size=9.0, budget=1e9)),
        (),
    ),
    "cascade": Case(
        _trace,
        CascadeOptions(target_precision=0.9, deadlines=(12.0, 1.0)),
        (CascadeQuery(), CascadeQuery(deadline=12.0), CascadeQuery(deadline=1e9)),
        (CascadeQuery(deadline=1.0),),
    ),
}


def fit(name: str, seed: int = 0) -> Fitted[Any]:
    """Fit a solver to its small problem."""
    case = CASES[name]
    fitted: Fitted[Any] = SOLVERS[name].fit(case.dataset(), case.options, np.random.default_rng(seed), Run())
    return fitted


@pytest.fixture(params=sorted(SOLVERS))
def name(request: pytest.FixtureRequest) -> str:
    """Go through the solvers."""
    return str(request.param)


def test_every_solver_has_a_case_here() -> None:
    assert set(CASES) == set(SOLVERS)


def test_it_is_registered_under_its_own_name(name: str) -> None:
    assert SOLVERS[name].name == name


def test_same_data_options_and_seed_give_the_same_bytes(name: str) -> None:
    first, second = (codec.encode(fitted.plan, fitted.summary) for fitted in (fit(name), fit(name)))
    assert first == second


def test_a_plan_survives_its_bytes_and_decides_the_same(name: str) -> None:
    plan = fit(name).plan
    again = codec.decode(codec.encode(plan, {}), SOLVERS[name].plan)
    for query in CASES[name].feasible:
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
    for query in CASES[name].infeasible:
        with pytest.raises(Infeasible, match=r"\d"):
            plan.decide(query)


def test_a_fit_reports_progress_to_its_end_and_stops_when_told(name: str) -> None:
    reports: list[tuple[int, int]] = []

    def note(done: int, total: int, message: str) -> None:
        assert message
        reports.append((done, total))

    def stop(done: int, total: int, message: str) -> None:
        raise Cancelled("told to stop")

    case = CASES[name]
    SOLVERS[name].fit(case.dataset(), case.options, np.random.default_rng(0), Run(note))
    assert reports[-1][0] == reports[-1][1] > 0
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)
    with pytest.raises(Cancelled):
        SOLVERS[name].fit(case.dataset(), case.options, np.random.default_rng(0), Run(stop))
