"""Set-up groups of classifiers: every kind of traces, from the spec to a run, against sums in plain Python."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import combinations, permutations
from math import fsum, inf, prod
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from app.running.executor import CallPricing
from app.store import codec
from models import TraceSpec, dataset_from_columns
from models.advice import AdviceLimits
from models.cascade import CascadeOptions, CascadeQuery, Classifier
from models.dataset_rows import dataset_to_columns
from models.evaluation import CompleteItem
from models.portfolio import PortfolioOptions
from models.run import RunItem, RunLimits
from parsimony.runs.steps import CallResult, CallResults
from solvers import KINDS, BuildContext
from solvers.advice import advise
from solvers.base import FitResult, make_generator
from solvers.cascade.frontier.acceptance_levels import AcceptanceProgram
from solvers.cascade.frontier.rows import CalibratedRows, ThresholdCascade
from solvers.cascade.problem import CascadeProblem, build_step_function, find_best_within
from solvers.cascade.subset_search import count_unclassified, solve_set_states
from solvers.evaluation import CompleteItems, items_from_dataset
from solvers.kind import RunContext
from solvers.partial_traces import impute_uncalled
from solvers.running import Runner
from solvers.shared_setup import SharedSetup
from solvers.trace_baselines import replay_baselines_on, replay_trace_baselines
from tests.oracles.setup import cost_of_set, random_groups
from tests.solvers.setup.tables import QUICK
from tests.solvers.setup.traces import OWN, SETUP, calls, calls_columns, calls_spec, cost_of, embed_calls

OPTIONS: dict[str, Any] = {"cascade": CascadeOptions(), "portfolio": PortfolioOptions(), "policy": QUICK}
LIMITS: dict[str, dict[str, float]] = {
    "cascade": {"budget": 6.0},
    "portfolio": {"budget": 6.0},
    "policy": {"tradeoff": 0.002},
}


@cache
def built(kind: str) -> FitResult[Any]:
    return KINDS[kind].fit(calls(600), OPTIONS[kind], make_generator(0), BuildContext())


def cells_of(columns: Mapping[str, Any], row: int) -> dict[str, Any]:
    return {
        f"{name}.{part}": columns[f"{name} {column}"][row].item()
        for name in OWN
        for part, column in (("label", "answer"), ("confidence", "sure"))
    }


def fresh_items(kind: str, rows: int, seed: int = 1) -> CompleteItems:
    columns, vectors = calls_columns(rows, seed), embed_calls(rows, seed)
    items = [
        CompleteItem(
            id=str(row),
            values=cells_of(columns, row),
            embedding=tuple(vectors[row].tolist()) if kind == "portfolio" else None,
        )
        for row in range(rows)
    ]
    return CompleteItems.from_items(items, KINDS[kind].item_columns(built(kind).plan))


@pytest.mark.parametrize("kind", OPTIONS)
def test_evaluations_of_fresh_rows_cost_what_their_calls_do(kind: str) -> None:
    one, plan = KINDS[kind], built(kind).plan
    found = one.evaluate(plan, one.limits.model_validate(LIMITS[kind]), fresh_items(kind, 300))
    assert found.costs == pytest.approx([cost_of(path) for path in found.paths])
    assert len(set(found.paths)) > 1
    assert built(kind).savings is not None
    unseen = calls(800, seed=3)
    for setting in one.replay_settings(plan, unseen):
        again = one.evaluate(plan, one.limits.model_validate(setting.query), fresh_items(kind, 800, seed=3))
        assert float(setting.replay.costs.mean()) == pytest.approx(float(again.costs.mean()), rel=0.05, abs=0.05)


@pytest.mark.parametrize("kind", ["cascade", "policy"])
def test_operating_points_promise_what_fresh_rows_cost(kind: str) -> None:
    one, plan = KINDS[kind], built(kind).plan
    points = one.curve(plan, one.curve_query())
    assert len(points) > 3
    for point in points:
        paid = one.evaluate(plan, one.limits.model_validate(point.limits), fresh_items(kind, 1500, seed=5)).costs
        error = float(paid.std() / 1500**0.5) + (point.expectations.cost_error or 0.0)
        assert float(paid.mean()) == pytest.approx(point.expectations.cost, abs=4 * error + 1e-9)


def drive(runner: Runner, cells: Mapping[str, Any], fails: frozenset[str] = frozenset()) -> list[CallResult]:
    """Answer all calls of a run, and return their results; paid calls to ``fails`` give no answer."""
    results: list[CallResult] = []
    call = next(runner)
    with suppress(StopIteration):
        while True:
            came = tuple(
                CallResult(name, error="away", is_paid=True)
                if name in fails
                else CallResult(name, cells[f"{name}.label"], cells[f"{name}.confidence"], is_paid=True)
                for name in call.names
            )
            results += came
            call = runner.send(CallResults(came, inf))
    return results


@pytest.mark.parametrize("fails", [frozenset[str](), frozenset(["small", "large"])])
@pytest.mark.parametrize("kind", OPTIONS)
def test_runs_report_what_calls_cost_also_after_paid_failures(kind: str, fails: frozenset[str]) -> None:
    one, plan, totals = KINDS[kind], built(kind).plan, []
    columns, vectors = calls_columns(60, 7), embed_calls(60, 7)
    for row in range(60):
        vector = tuple(vectors[row].tolist()) if kind == "portfolio" else None
        item = RunItem(id=str(row), item={}, embedding=vector)
        query = one.make_run_query(plan, item, RunLimits.model_validate(LIMITS[kind]))
        started = one.start_run(plan, query, RunContext(remaining_seconds=inf))
        results = drive(started.runner, cells_of(columns, row), fails)
        pricing = CallPricing(started.planned_costs.__getitem__, "ct", None)
        spent, called = fsum(map(pricing.cost_of, results)), [result.name for result in results]
        assert spent == pytest.approx(cost_of(called))
        totals.append(len(called))
    assert max(totals) > 1 or (kind == "portfolio" and not fails)


@pytest.mark.parametrize("kind", OPTIONS)
def test_stored_plans_and_summaries_have_the_groups(kind: str) -> None:
    plan, summary = built(kind).plan, built(kind).summary
    again = codec.decode(codec.encode(plan, {}), type(plan))
    assert again.setup_names == tuple(SETUP)
    assert again.setup_costs.tolist() == [cost for cost, _ in SETUP.values()]
    assert [(one["name"], one["cost"]) for one in summary["setup"]] == [
        (name, cost) for name, (cost, _) in SETUP.items()
    ]
    alone = {name: pytest.approx(cost_of([name])) for name in KINDS[kind].list_called_names(again)}
    assert KINDS[kind].mean_costs(again) == alone


def test_steps_of_cascades_cost_what_no_earlier_step_has_set_up() -> None:
    plan = built("cascade").plan
    decisions = [plan.decide(CascadeQuery(**query)) for query, _ in plan.list_reachable_points()]
    decisions += [plan.decide(CascadeQuery(deadline=most)) for most in plan.maximum_durations.tolist()]
    assert max(len(one.steps) for one in decisions) > 2
    for one in decisions:
        for at, step in enumerate(one.steps):
            step_cost = cost_of(one.cascade[: at + 1]) - cost_of(one.cascade[:at])
            assert step.execution_time == pytest.approx(step_cost)
            assert step.worst_case_time == pytest.approx(step_cost)
        assert one.maximum_duration == pytest.approx(cost_of(one.cascade))
        skipped = plan.skip_classifiers(one, ["small"])
        assert skipped.maximum_duration == pytest.approx(cost_of(skipped.cascade))


def test_continuations_and_tight_deadlines_pay_set_up_once() -> None:
    plan = built("cascade").plan
    for most in plan.maximum_durations.tolist():
        one = plan.decide(CascadeQuery(deadline=most))
        for at in range(len(one.cascade) - 1):
            called = one.cascade[: at + 1]
            further = plan.continue_from(called, most - cost_of(called) + 1e-9)
            assert further is not None
            assert tuple(step.classifier for step in further) == one.cascade[at + 1 :]
            kept = plan.keep_steps_in_time(one.steps, called, most - cost_of(called) + 1e-9)
            assert tuple(step.classifier for step in kept) == one.cascade[at + 1 :]
        if len(one.cascade) > 1:
            (last,) = plan.keep_steps_in_time(one.steps, one.cascade[:1], 0.0)
            assert last.classifier == one.cascade[-1]
            pair = one.cascade[0], one.cascade[-1]
            assert last.worst_case_time == pytest.approx(cost_of(pair) - cost_of(pair[:1]))


@pytest.mark.parametrize("dependence", ["joint", "independent", "dependent", "grouped"])
@pytest.mark.parametrize("seed", range(50))
def test_cascades_for_deadlines_against_all_orders(seed: int, dependence: Any) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 5))
    answers = rng.random((60, n)) < rng.uniform(0.2, 0.9, n)
    answers[0] = True
    idk = [
        Classifier(
            name=f"K{j}",
            execution_time=float(rng.integers(1, 9)),
            worst_case_time=float(rng.integers(20, 30)),
            success_probability=min(float(answers[:, j].mean()), 0.98),
            group=str(rng.integers(2)) if dependence == "grouped" else None,
        )
        for j in range(n)
    ]
    last = Classifier(name="D", execution_time=12, worst_case_time=31, success_probability=1)
    problem = CascadeProblem.from_classifiers(idk, last, "independent" if dependence == "joint" else dependence)
    order = [int(k.name[1:]) for k in problem.idk]
    groups = random_groups(rng, n + 1)
    setup, worst = rng.integers(1, 5, len(groups)).astype(float), rng.integers(5, 9, len(groups)).astype(float)
    own, own_worst = problem.times.copy(), problem.worst.copy()
    needs = groups.members.T
    problem = replace(
        problem,
        times=own + needs[:n] @ setup,
        worst=own_worst + needs[:n] @ worst,
        last=last.model_copy(
            update={"execution_time": 12 + float(needs[n] @ setup), "worst_case_time": 31 + float(needs[n] @ worst)}
        ),
        setup=SharedSetup(groups, setup, worst),
        counts=count_unclassified(answers[:, order]) if dependence == "joint" else None,
    )
    costs, longest = [*own, 12.0, *setup], [*own_worst, 31.0, *worst]
    every = []
    for size in range(n + 1):
        for members in permutations(range(n), size):
            calls_made = [*members, n]
            expected = 0.0
            for at in range(len(calls_made)):
                if dependence == "joint":
                    reached = float((~answers[:, order][:, calls_made[:at]]).all(axis=1).mean())
                else:
                    left = {
                        g: min(problem.idk_shares[j] for j in calls_made[:at] if problem.groups[j] == g)
                        for g in {int(problem.groups[j]) for j in calls_made[:at]}
                    }
                    reached = prod(left.values())
                expected += reached * (
                    cost_of_set(calls_made[: at + 1], costs, groups) - cost_of_set(calls_made[:at], costs, groups)
                )
            every.append((expected, cost_of_set(calls_made, longest, groups)))
    deadlines = sorted({most for _, most in every})
    for deadline in (None, *deadlines):
        best = find_best_within(problem, solve_set_states(problem), deadline)
        within = [expected for expected, most in every if deadline is None or most <= deadline + 1e-9]
        if within and (deadline is None or problem.evaluate(()).maximum <= deadline):
            assert best.expected == pytest.approx(min(within), rel=1e-12)
            assert deadline is None or best.maximum <= deadline + 1e-9
    steps = build_step_function(problem, solve_set_states(problem))
    assert steps[-1].expected == pytest.approx(min(expected for expected, _ in every), rel=1e-12)


@pytest.mark.parametrize("seed", range(50))
def test_acceptance_levels_against_all_orders(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, rows = int(rng.integers(2, 5)), 50
    groups = random_groups(rng, n)
    setup = rng.integers(1, 4, (rows, len(groups))).astype(float)
    costs = rng.integers(1, 6, (rows, n)) + setup @ groups.members
    known = CalibratedRows(
        rng.random((rows, n)).round(1),
        rng.random((rows, n)),
        costs,
        costs.max(axis=0),
        np.ones(n, dtype=bool),
        np.arange(rows),
        np.zeros((rows, n), dtype=np.int64),
        SharedSetup(groups, setup, setup.max(axis=0)),
    )
    level, price = 0.5, float(rng.uniform(0.01, 0.2))
    program = AcceptanceProgram.from_rows(known, known.confidences >= level)
    value, _ = program.solve_values(np.array([price]))
    best = float(program.add_last(value[:, 0], price).min())
    least = inf
    for size in range(1, n + 1):
        for members in permutations(range(n), size):
            cost, wrong = known.mean_outcome(ThresholdCascade(members, (level,) * (size - 1)))
            least = min(least, wrong + price * cost)
            paid, setups = 0.0, setup
            for row in range(rows):
                called: list[int] = []
                for k in members:
                    called.append(k)
                    if known.confidences[row, k] >= level:
                        break
                own = [costs[row, k] - float(setups[row] @ groups.members[:, k]) for k in range(n)]
                paid += cost_of_set(called, [*own, *setups[row].tolist()], groups) / rows
            assert cost == pytest.approx(paid)
    assert best == pytest.approx(least)


def test_two_stage_baselines_cost_what_their_calls_do() -> None:
    trace = calls(400)
    replays = replay_trace_baselines(trace, np.arange(200))
    pairs = {name: one for name, one in replays.items() if ", then " in name}
    assert pairs
    for name, one in pairs.items():
        first, second = name.split(" below ")[0].split(", then ")
        assert {*one.costs.round(9)} <= {round(cost_of([first]), 9), round(cost_of([first, second]), 9)}


def test_advice_compares_costs_that_count_groups_once() -> None:
    trace, possible = calls(400), {round(cost_of(names), 9) for n in range(5) for names in combinations(OWN, n)}
    learned, unseen = trace.take(np.arange(200)), trace.take(np.arange(200, 400))
    for one in replay_baselines_on(learned, unseen).values():
        assert {*one.costs.round(9)} <= possible
    advised = advise(trace, AdviceLimits(budget=6.0), 0, 120.0, BuildContext())
    assert {one.kind for one in advised["kinds"]} == {"cascade", "portfolio", "policy"}
    assert all(0 < one.cost <= cost_of(OWN) for one in advised["kinds"])


def test_items_with_costs_of_their_groups_are_charged_these() -> None:
    columns = calls_columns(200, 8) | {"minutes": np.arange(200) % 10 + 1.0}
    spec = TraceSpec.model_validate(calls_spec(size="minutes", setup=SIZED))
    trace: Any = dataset_from_columns(spec, columns, embed_calls(200, 8))
    for kind in OPTIONS:
        plan = KINDS[kind].fit(trace, OPTIONS[kind], make_generator(0), BuildContext()).plan
        items = items_from_dataset(trace)
        items = items if kind == "portfolio" else replace(items, embeddings=None)
        found = KINDS[kind].evaluate(plan, KINDS[kind].limits.model_validate(LIMITS[kind]), items)
        for row, path in enumerate(found.paths):
            shared = 1 + 0.5 * columns["minutes"][row] if {*path} & {*SIZED[0]["classifiers"]} else 0.0
            assert found.costs[row] == pytest.approx(sum(OWN[name] for name in path) + shared)


SIZED: list[dict[str, Any]] = [
    {"name": "transcribe", "cost": {"polynomial": [1.0, 0.5]}, "classifiers": ["keywords", "small", "large"]},
    {"name": "nothing", "cost": 0, "classifiers": ["voice"]},
]


def test_costs_of_groups_may_depend_on_the_size() -> None:
    columns = calls_columns(300) | {"minutes": np.arange(300) % 10 + 1.0}
    spec = TraceSpec.model_validate(calls_spec(size="minutes", setup=SIZED))
    trace: Any = dataset_from_columns(spec, columns, embed_calls(300))
    assert trace.costs[:, 1] == pytest.approx(1 + 1 + 0.5 * columns["minutes"])
    assert trace.costs[:, 3] == pytest.approx(np.full(300, 3.0))
    plan: Any = KINDS["portfolio"].fit(trace, PortfolioOptions(), make_generator(0), BuildContext()).plan
    costs = plan.query_costs(KINDS["portfolio"].query.model_validate({"query": [0, 0, 0], "size": 8}))
    alone = {"keywords": 0.5 + 5, "small": 1 + 5, "large": 4 + 5, "voice": 3.0}
    assert dict(zip(plan.classifiers, costs.tolist(), strict=True)) == {
        name: pytest.approx(alone[name]) for name in plan.classifiers
    }


def test_embeddings_by_a_classifier_set_up_its_groups() -> None:
    trace = calls(600)
    options = PortfolioOptions(feature_classifier="keywords", pareto_only=False)
    plan: Any = KINDS["portfolio"].fit(trace, options, make_generator(0), BuildContext()).plan
    assert plan.embedding_cost == pytest.approx(cost_of(["keywords"]))
    for name, cost in zip(plan.classifiers, plan.costs.tolist(), strict=True):
        assert cost == pytest.approx(cost_of({"keywords", name}) - cost_of(["keywords"]))
    for setting in KINDS["portfolio"].replay_settings(plan, calls(200, seed=4)):
        possible = {round(cost_of({"keywords", name}), 9) for name in OWN}
        assert {*setting.replay.costs.round(9)} <= possible


def test_a_portfolio_whose_embedder_has_a_measured_cost_and_a_sized_group() -> None:
    spec = calls_spec(size="minutes", setup=SIZED)
    spec["classifiers"][0]["cost"] = {"column": "keywords ct"}
    columns = calls_columns(300) | {"minutes": np.arange(300) % 10 + 1.0, "keywords ct": np.full(300, 0.5)}
    trace = dataset_from_columns(TraceSpec.model_validate(spec), columns, embed_calls(300))
    options = PortfolioOptions(feature_classifier="keywords", pareto_only=False)
    plan: Any = KINDS["portfolio"].fit(trace, options, make_generator(0), BuildContext()).plan
    costs = plan.query_costs(KINDS["portfolio"].query.model_validate({"query": [0, 0, 0], "size": 8}))
    assert dict(zip(plan.classifiers, costs.tolist(), strict=True)) == {
        "keywords": 0.0,
        "small": 1.0,
        "large": 4.0,
        "voice": 3.0,
    }


def test_measured_costs_are_kept_without_groups() -> None:
    spec = calls_spec()
    spec["classifiers"][1]["cost"] = {"column": "small ct"}
    columns = calls_columns(50) | {"small ct": np.linspace(0.1, 0.7, 50)}
    trace: Any = dataset_from_columns(TraceSpec.model_validate(spec), columns)
    assert trace.costs[:, 1] == pytest.approx(columns["small ct"] + 3)
    assert dataset_to_columns(trace)["small ct"].tolist() == columns["small ct"].tolist()
    again = codec.decode(codec.encode(trace, {}), type(trace))
    assert again.separate_costs.tolist() == trace.separate_costs.tolist()
    assert again.take(np.array([3])).separate_costs.shape == (1, 6)


def test_a_group_of_one_classifier_is_a_part_of_its_cost() -> None:
    merged = calls_spec(setup=[])
    merged["classifiers"][3]["cost"] = 3.5
    separate = calls_spec(setup=[{"name": "load audio", "cost": 0.5, "classifiers": ["voice"]}])
    for kind in ("cascade", "portfolio"):
        one, other = (
            KINDS[kind].fit(calls(400, spec=spec), OPTIONS[kind], make_generator(0), BuildContext()).plan
            for spec in (merged, separate)
        )
        replays = [KINDS[kind].replay_settings(each, calls(300, seed=2)) for each in (one, other)]
        figures = [[(s.replay.costs.mean(), s.replay.right.mean()) for s in each] for each in replays]
        assert np.array(figures[0]) == pytest.approx(np.array(figures[1]))


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"setup": [{"name": "x", "cost": 1, "classifiers": ["smal"]}]}, "'x' has unknown classifier 'smal'"),
    ({"setup": [{"name": "small", "cost": 1, "classifiers": ["large"]}]}, "all classifier names, got 'small'"),
    ({"setup": [{"name": "x", "cost": 1, "classifiers": ["small"] * 2}]}, "each classifier once, got 'small' 2 times"),
    ({"setup": [{"name": "x", "cost": -1.5, "classifiers": ["small"]}]}, "-1.5"),
    ({"setup": [{"name": "x", "cost": 1, "classifiers": []}]}, "at least 1 item"),
    ({"setup": [{"name": "x", "cost": 1, "features": ["small"]}]}, "features"),
    ({"setup": [{"name": "x", "cost": 1, "time": 2, "classifiers": ["small"]}]}, "'x' has one"),
    ({"setup": [{"name": "reject", "cost": 1, "classifiers": ["small"]}], "reject_cost": 9}, "got 'reject'"),
    ({"setup": SIZED}, "the cost of 'transcribe' depends on 1 sizes"),
]


@pytest.mark.parametrize(("fields", "words"), REFUSED)
def test_refusals_name_the_group_and_the_number(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TraceSpec.model_validate(calls_spec(**fields))
    assert words in str(caught.value)


def test_partial_traces_estimate_costs_with_groups() -> None:
    columns = calls_columns(400)
    uncalled = np.arange(400) % 4 == 3
    columns["large answer"] = np.where(uncalled, None, columns["large answer"])
    columns["large sure"][uncalled] = np.nan
    spec = TraceSpec.model_validate(calls_spec())
    trace: Any = dataset_from_columns(spec, columns, embed_calls(400))
    assert trace.separate_costs[0] == pytest.approx([*OWN.values(), *(cost for cost, _ in SETUP.values())])
    plan: Any = (
        KINDS["portfolio"].fit(impute_uncalled(trace, 0), PortfolioOptions(), make_generator(0), BuildContext()).plan
    )
    for name, mean in KINDS["portfolio"].mean_costs(plan).items():
        assert mean == pytest.approx(cost_of([name]))


def test_specs_without_groups_are_stored_as_before() -> None:
    plain = TraceSpec.model_validate(calls_spec(setup=[]))
    assert "setup" not in plain.model_dump(mode="json")
    assert TraceSpec.model_validate_json(plain.model_dump_json()) == plain
