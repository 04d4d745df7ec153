"""Every kind of feature tables, from the spec to a run: what is reported is what acquired features cost."""

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from itertools import pairwise
from math import fsum, inf
from typing import Any

import numpy as np
import pytest

from app.running.executor import CallPricing
from app.store import codec
from models import FeaturesSpec, dataset_from_columns
from models.evaluation import CompleteItem
from models.index import IndexOptions, IndexQuery
from models.pipeline import PipelineOptions
from models.run import RunItem, RunLimits
from parsimony.runs.steps import CallResult, CallResults
from solvers import KINDS, BuildContext
from solvers.advice.fixed_sets import replay_fixed_sets
from solvers.base import FitResult, make_generator
from solvers.evaluation import CompleteItems
from solvers.kind import RunContext
from solvers.policy.sensors import compute_item_sensor_costs
from solvers.running import Runner
from tests.solvers.setup.tables import OWN, QUICK, SETUP, cost_of, patients, patients_columns, patients_spec

OPTIONS: dict[str, Any] = {
    "index": IndexOptions(folds=2),
    "pipeline": PipelineOptions(max_stages=4),
    "policy": QUICK,
}
LIMITS = {"index": RunLimits(budget=15.0), "pipeline": RunLimits(), "policy": RunLimits(tradeoff=0.002)}


@cache
def built(kind: str) -> FitResult[Any]:
    return KINDS[kind].fit(patients(500), OPTIONS[kind], make_generator(0), BuildContext())


def fresh_items(kind: str, rows: int, seed: int = 1) -> CompleteItems:
    columns = patients_columns(rows, seed)
    items = [CompleteItem(id=str(row), values={name: float(columns[name][row]) for name in OWN}) for row in range(rows)]
    return CompleteItems.from_items(items, KINDS[kind].item_columns(built(kind).plan))


@pytest.mark.parametrize("kind", OPTIONS)
def test_evaluations_of_fresh_rows_cost_what_their_features_do(kind: str) -> None:
    one, plan = KINDS[kind], built(kind).plan
    limits = one.limits.model_validate({"index": {"budget": 15.0}, "pipeline": {}, "policy": {"tradeoff": 0.002}}[kind])
    found = one.evaluate(plan, limits, fresh_items(kind, 300))
    assert found.costs == pytest.approx([cost_of(path) for path in found.paths])
    assert found.costs.max() > 10
    assert built(kind).savings is not None
    unseen = patients(800, seed=3)
    for setting in one.replay_settings(plan, unseen):
        limits = one.limits.model_validate(setting.query)
        again = one.evaluate(plan, limits, fresh_items(kind, 800, seed=3))
        if kind != "policy":  # whose items are divided between two points by their ids
            assert setting.replay.costs == pytest.approx([cost_of(path) for path in again.paths])
        assert float(setting.replay.costs.mean()) == pytest.approx(float(again.costs.mean()), rel=0.05, abs=0.05)


def drive(runner: Runner, cells: Mapping[str, float]) -> tuple[list[CallResult], float]:
    """Answer all calls of a run; return their results, and their planned costs together."""
    results: list[CallResult] = []
    planned, call = 0.0, next(runner)
    with suppress(StopIteration):
        while True:
            planned += call.planned_cost
            came = tuple(CallResult(name, values=(cells[name],), is_paid=True) for name in call.names)
            results += came
            call = runner.send(CallResults(came, inf))
    return results, planned


@pytest.mark.parametrize("kind", OPTIONS)
def test_runs_report_what_the_called_features_cost(kind: str) -> None:
    one, plan, totals = KINDS[kind], built(kind).plan, []
    columns = patients_columns(40, 7)
    for row in range(40):
        query = one.make_run_query(plan, RunItem(id=str(row), item={}), LIMITS[kind])
        started = one.start_run(plan, query, RunContext(remaining_seconds=inf))
        results, planned = drive(started.runner, {name: float(columns[name][row]) for name in OWN})
        pricing = CallPricing(started.planned_costs.__getitem__, "EUR", None)
        names, spent = [result.name for result in results], fsum(map(pricing.cost_of, results))
        assert spent == pytest.approx(cost_of(names))
        assert planned == pytest.approx(cost_of(names))
        totals.append(spent)
    assert max(totals) > 10


def test_calls_that_were_not_paid_set_up_nothing() -> None:
    one, plan = KINDS["pipeline"], built("pipeline").plan
    started = one.start_run(plan, one.query(), RunContext(remaining_seconds=inf))
    call = next(started.runner)
    came = tuple(CallResult(name, error="away", attempts=1, is_paid=False) for name in call.names)
    with suppress(StopIteration):
        started.runner.send(CallResults(came, inf))
    assert [result.setup_cost for result in came] == [0.0] * len(came)


@pytest.mark.parametrize("kind", OPTIONS)
def test_stored_plans_and_summaries_have_the_groups(kind: str) -> None:
    plan, summary = built(kind).plan, built(kind).summary
    again = codec.decode(codec.encode(plan, {}), type(plan))
    assert again.setup_names == tuple(SETUP)
    assert again.setup_members.tolist() == [[name in own for name in OWN] for _, own in SETUP.values()]
    assert [one["name"] for one in summary["setup"]] == list(SETUP)
    assert KINDS[kind].highest_cost(again, KINDS[kind].query()) <= cost_of(OWN) * (1 + 1e-12)


def test_stages_of_pipelines_cost_their_features_and_the_groups_they_are_first_to_touch() -> None:
    for one in built("pipeline").plan.list_frontier():
        known = [name for stage in one.stages for name in stage.features]
        ends = np.cumsum([0, *(len(stage.features) for stage in one.stages)]).tolist()
        for stage, (start, end) in zip(one.stages, pairwise(ends), strict=True):
            assert stage.cost == pytest.approx(cost_of(known[:end]) - cost_of(known[:start]))


def test_acquired_features_have_set_up_their_groups() -> None:
    plan = built("pipeline").plan
    for solution in range(len(plan.chromosomes)):
        step = plan.next_step(solution, {"glucose": 1.0, "age": 0.0})
        if step.action == "acquire":
            assert step.cost == pytest.approx(cost_of(["glucose", *step.features]) - cost_of(["glucose"]))


def test_fixed_sets_of_advice_cost_their_features_and_groups() -> None:
    unseen = patients(60, seed=2)
    replays = replay_fixed_sets(patients(120), unseen, compute_item_sensor_costs(unseen), 0, lambda done, of: None)
    named = {name.removesuffix(" (boosted trees)").removeprefix("always "): name for name in replays}
    known = {short: name for short, name in named.items() if {*short.split(" + ")} <= OWN.keys()}
    assert len(known) >= 7
    for short, name in known.items():
        assert replays[name].costs == pytest.approx(np.full(60, cost_of(short.split(" + "))))
    assert replays[named["all features"]].costs == pytest.approx(np.full(60, cost_of(OWN)))


SIZED_SETUP: list[dict[str, Any]] = [
    {"name": "draw blood", "cost": {"polynomial": [4.0, 0.5]}, "features": ["hemoglobin", "glucose", "sodium"]},
    {"name": "lab courier", "cost": {"timings": [[1, 3.0], [9, 11.0]], "degree": 1}, "features": ["sodium", "culture"]},
]


@pytest.mark.parametrize("fixed_size", [None, 8.0])
def test_costs_of_groups_may_depend_on_the_size(fixed_size: float | None) -> None:
    spec = patients_spec(size="beds", setup=SIZED_SETUP)
    columns = patients_columns(300) | {"beds": np.arange(300) % 20 + 1.0}
    table = dataset_from_columns(FeaturesSpec.model_validate(spec), columns)
    options = IndexOptions(folds=2, fixed_size=fixed_size)
    fitted: FitResult[Any] = KINDS["index"].fit(table, options, make_generator(0), BuildContext())
    for size in (8.0,) if fixed_size else (1.0, 8.0, 20.0):
        for budget in (5.0, 9.0, 14.0, 40.0):
            found = fitted.plan.decide(IndexQuery(size=size, budget=budget))
            shared = ((4 + 0.5 * size, SIZED_SETUP[0]), (2 + size, SIZED_SETUP[1]))
            setup = sum(cost for cost, group in shared if not {*group["features"]}.isdisjoint(found.features))
            assert found.cost == pytest.approx(sum(OWN[name] for name in found.features) + setup)
    assert fitted.summary["residuals"].keys() == {"lab courier"}


@pytest.mark.parametrize("params", [{"search": "emsco"}, {"after_last_stage": "answer"}, {}])
def test_other_searches_of_pipelines_report_true_costs(params: dict[str, Any]) -> None:
    losses = {"yes": {"no": 200.0}, "no": {"yes": 50.0}}
    spec = patients_spec() if params else patients_spec(losses=losses)
    table, options = patients(300, spec=spec), PipelineOptions(max_stages=3, **params)
    fitted: FitResult[Any] = KINDS["pipeline"].fit(table, options, make_generator(0), BuildContext())
    unseen = patients(200, seed=9)
    for one in fitted.plan.list_frontier()[:12]:
        _, costs = fitted.plan.classify(one.solution, unseen.values)
        names = [name for stage in one.stages for name in stage.features]
        ends = np.cumsum([len(stage.features) for stage in one.stages]).tolist()
        assert set(costs.round(9).tolist()) <= {round(cost_of(names[:end]), 9) for end in ends}
