"""From a trace to a plan, and what the plan answers."""

import dataclasses
import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from models import InvalidRequest, Trace, TraceClassifier, TraceSpec
from models.cascade import CascadeOptions, CascadeQuery, Dependence
from models.errors import Cancelled, Infeasible
from solvers import KINDS
from solvers.base import BuildContext, FitResult
from solvers.cascade import CascadePlan, fit
from tests.support.cases import case_count
from tests.support.strategies import random_trace

DEPENDENCES: tuple[Dependence, ...] = ("independent", "dependent", "grouped", "joint")
ALGORITHMS = dict(zip(DEPENDENCES, ("ratio-frontier", "power-frontier", "group-states", "set-states"), strict=True))


def build(trace: Trace, seed: int = 1, **options: Any) -> FitResult[CascadePlan]:
    return fit(trace, CascadeOptions(**options), np.random.default_rng(seed), BuildContext())


build_once = cache(build)
"""The same for tests that change nothing, of the trace that they share."""


@pytest.fixture(scope="module")
def trace() -> Trace:
    return random_trace(np.random.default_rng(0), case_count(3000, 1200), 6)


@pytest.mark.parametrize("dependence", DEPENDENCES)
def test_a_plan_holds_a_step_function_over_all_deadlines(trace: Trace, dependence: Dependence) -> None:
    fitted = build_once(trace, dependence=dependence, target_precision=0.9)
    plan = fitted.plan
    assert plan.algorithm == fitted.summary["algorithm"] == ALGORITHMS[dependence]
    assert plan.optimal
    assert plan.names[-1] == "last"
    assert np.isnan(plan.thresholds).tolist() == [False] * 6 + [True]
    assert np.all(np.diff(plan.maximum_durations) > 0)
    assert np.all(np.diff(plan.expected_durations) < 0)
    assert len(plan.members) == len(plan.reaching) == plan.offsets[-1]
    assert plan.lower_bound == plan.expected_durations[-1]
    for step, item in enumerate(plan.list_deadline_ranges()):
        decision = plan.decide(CascadeQuery(deadline=item.deadline_from))
        assert decision.cascade == item.cascade == tuple(call.classifier for call in decision.steps)
        assert decision.expected_duration == item.expected_duration == plan.expected_durations[step]
        assert decision.steps[0].probability_of_reaching == 1
        assert decision.maximum_duration == math.fsum(call.worst_case_time for call in decision.steps)
        spent = math.fsum(call.probability_of_reaching * call.execution_time for call in decision.steps)
        assert spent == decision.expected_duration == decision.lower_bound
        if item.deadline_to is not None:
            below = plan.decide(CascadeQuery(deadline=math.nextafter(item.deadline_to, 0)))
            assert below.cascade == decision.cascade


def test_joint_predicts_the_build_half_exactly(trace: Trace) -> None:
    fitted = build(trace, target_precision=0.9, deadlines=(45.0, 60.0))
    for replayed in fitted.summary["replays"]:
        assert replayed["predicted"]["mean_duration"] == pytest.approx(replayed["build"]["mean_duration"], rel=1e-12)
        assert replayed["predicted"]["answered"] == pytest.approx(replayed["build"]["answered"], rel=1e-12)
        assert replayed["build"]["maximum_duration"] <= replayed["predicted"]["maximum_duration"]
    (replayed,) = build_once(trace, dependence="independent", target_precision=0.9).summary["replays"]
    assert replayed["held_out"]["mean_duration"] > 1.2 * replayed["predicted"]["mean_duration"]
    calm = random_trace(np.random.default_rng(6), 1000, 3, measured=True)
    slower = dataclasses.replace(calm, costs=calm.costs * np.where(np.arange(1000) < 500, 1.0, 2.0)[:, None])
    (replayed,) = build(slower, in_time_order=True).summary["replays"]  # checked on the later half, which is slower
    assert replayed["held_out"]["mean_duration"] > 1.6 * replayed["predicted"]["mean_duration"]
    (mixed,) = build(slower).summary["replays"]
    assert mixed["held_out"]["mean_duration"] == pytest.approx(mixed["predicted"]["mean_duration"], rel=0.2)


@pytest.mark.parametrize("dependence", DEPENDENCES)
def test_measured_costs_give_means_and_worst_cases(dependence: Dependence) -> None:
    trace = random_trace(np.random.default_rng(2), 1000, 4, measured=True)
    fitted = build(trace, dependence=dependence, worst_case_quantile=0.9, deadlines=(30.0, 80.0, 1.0))
    plan, summary = fitted.plan, fitted.summary
    assert np.all(plan.worst_case_times > plan.execution_times)
    assert [row["feasible"] for row in summary["replays"]] == [True, True, True, False]
    assert min(plan.maximum_durations) > 30  # so that a point of the frontier answers
    for replayed, deadline in zip(summary["replays"][1:3], (30.0, 80.0), strict=True):
        assert replayed["predicted"]["maximum_duration"] <= deadline
        assert sum(replayed["held_out"]["answered"].values()) == pytest.approx(1)
    assert "the deadline is 1" in summary["replays"][3]["reason"]
    json.dumps(summary, allow_nan=False)


@pytest.mark.slow
def test_same_data_options_and_seed_same_arrays(trace: Trace) -> None:
    first, second = build_once(trace), build(trace)
    other = build(trace, seed=2)
    for field in dataclasses.fields(CascadePlan):
        one, two = getattr(first.plan, field.name), getattr(second.plan, field.name)
        if isinstance(one, np.ndarray):
            assert one.tobytes() == two.tobytes()
            assert not one.flags.writeable
        elif field.init:
            assert one == two
    assert first.summary == second.summary
    assert first.plan.thresholds.tobytes() != other.plan.thresholds.tobytes()


def spec_with(trace: Trace, change: Callable[[TraceClassifier], TraceClassifier]) -> Trace:
    classifiers = tuple(change(k) for k in trace.spec.classifiers)
    return dataclasses.replace(trace, spec=trace.spec.model_copy(update={"classifiers": classifiers}))


def test_classifiers_that_cannot_be_used_are_listed_with_the_reason(trace: Trace) -> None:
    silenced = spec_with(trace, lambda k: k.model_copy(update={"confidence": None}) if k.name == "idk1" else k)
    summary = build(silenced, target_precision=0.998).summary
    left_out = {row["name"]: row for row in summary["left_out"]}
    assert left_out["idk1"] == {"name": "idk1", "reason": "has no confidence", "best_precision_bound": None}
    poor = left_out["idk0"]
    assert "0.998" in poor["reason"]
    assert 0.5 < poor["best_precision_bound"] < 0.998


def test_a_classifier_slower_than_the_deterministic_one_is_discarded(trace: Trace) -> None:
    plan = build(trace, deterministic="idk3", target_precision=0.9).plan
    assert plan.names[-1] == "idk3"
    assert set(plan.names) == {"idk0", "idk1", "idk2", "idk3"}
    assert [name for name, _ in plan.discarded] == ["idk4", "idk5"]
    assert "idk3: 9 compared with 7" in plan.decide(CascadeQuery()).discarded[0].reason


def test_an_unknown_deterministic_classifier_is_refused_with_the_known(trace: Trace) -> None:
    with pytest.raises(InvalidRequest, match="'strong' not found; available: idk0, idk1") as caught:
        build(trace, deterministic="strong")
    assert caught.value.faults[0].loc == ("deterministic",)
    with pytest.raises(InvalidRequest, match=r"19 rows.*20"):
        build(random_trace(np.random.default_rng(0), 19, 2))
    assert build(random_trace(np.random.default_rng(0), 20, 2)).plan.names[-1]


@pytest.mark.slow
def test_joint_with_more_than_twenty_classifiers_is_refused() -> None:
    trace = random_trace(np.random.default_rng(0), 2000, 21)
    cheap = dataclasses.replace(trace, costs=np.where(trace.costs == 40, 100.0, trace.costs))
    with pytest.raises(InvalidRequest, match="at most 20 IDK classifiers, got 21") as caught:
        build(cheap, target_precision=0.9, deterministic="last")
    assert caught.value.faults[0].loc == ("dependence",)
    assert build(cheap, target_precision=0.9, deterministic="last", dependence="independent").plan.optimal


def perfect_trace(rows: int = 200) -> Trace:
    """A trace whose cheap classifier is as accurate as the dear one, always sure, and always right."""
    label = np.arange(rows) % 2
    dear = TraceClassifier(name="dear", cost=10.0, prediction="answer")
    cheap = TraceClassifier(name="cheap", cost=1.0, prediction="answer", confidence="sure")
    spec = TraceSpec(kind="trace", label="label", unit="ms", classifiers=(dear, cheap))
    return Trace.from_columns(spec, {"label": label, "answer": label, "sure": np.ones(rows)})


@pytest.mark.parametrize("dependence", DEPENDENCES)
def test_an_idk_classifier_that_always_answered_does_not_become_deterministic(dependence: Dependence) -> None:
    fitted = build(perfect_trace(), deterministic="dear", dependence=dependence)
    decision = fitted.plan.decide(CascadeQuery())
    assert decision.cascade == ("cheap", "dear")
    expected_left = 0.0 if dependence == "joint" else 1 / 101
    assert decision.steps[1].probability_of_reaching == pytest.approx(expected_left)
    assert fitted.summary["classifiers"][0]["success_probability"] == pytest.approx(100 / 101)


def test_the_most_accurate_and_then_the_cheapest_is_deterministic() -> None:
    fitted = build(perfect_trace())
    assert fitted.plan.names == ("cheap",)
    assert fitted.summary["left_out"][0]["name"] == "dear"
    assert [row["classifier"] for row in fitted.summary["baselines"]] == ["cheap", "cheap"]


def test_progress_is_told_and_can_cancel(trace: Trace) -> None:
    reports: list[tuple[int, int, str]] = []
    fit(
        trace,
        CascadeOptions(deadlines=(50.0,)),
        np.random.default_rng(0),
        BuildContext(lambda *args: reports.append(args)),
    )
    assert [done for done, _, _ in reports] == sorted(done for done, _, _ in reports)
    assert {total for _, total, _ in reports} == {reports[-1][0]}

    def stop(done: int, total: int, message: str) -> None:
        raise Cancelled(message)

    with pytest.raises(Cancelled):
        fit(trace, CascadeOptions(), np.random.default_rng(0), BuildContext(stop))


def test_a_deadline_that_no_classifier_keeps_is_infeasible_with_the_numbers(trace: Trace) -> None:
    plan = build_once(trace).plan
    fastest = min(plan.point_maxima)
    with pytest.raises(Infeasible, match=f"{fastest:g} ms, the deadline is {fastest / 2:g}"):
        plan.decide(CascadeQuery(deadline=fastest / 2))
    with pytest.raises(Infeasible):
        plan.decide(CascadeQuery(deadline=fastest / 2, budget=100.0))


@pytest.mark.parametrize("excluded", [(), ("fastest",)])
def test_a_deadline_alone_is_answered_by_the_best_cascade_that_keeps_it(
    trace: Trace, excluded: tuple[str, ...]
) -> None:
    """Whatever it ends with: at the time of each classifier one that is no less accurate than that one alone."""
    fitted = build_once(trace)
    plan = fitted.plan
    times = dict(zip(plan.point_names, plan.point_worst_times.tolist(), strict=True))
    excluded = tuple(min(times, key=lambda name: times[name]) for _ in excluded)
    accuracies = dict(zip(plan.point_names, trace.quality.mean(axis=0).tolist(), strict=True))
    answered = 0
    for name, deadline in times.items():
        if deadline >= plan.maximum_durations[0] or name in excluded:
            continue
        query = CascadeQuery(deadline=deadline, excluded=excluded)
        decision = plan.decide(query)
        assert decision.maximum_duration <= deadline
        assert decision.steps[-1].confidence_threshold is None
        assert not set(decision.cascade) & set(excluded)
        estimates = KINDS["cascade"].estimate_outcome(plan, fitted.summary, query, decision)
        assert (estimates.accuracy or 0) >= accuracies[name] - 0.03
        assert estimates.time is not None
        answered += 1
    assert answered >= 2


def test_a_build_warns_of_times_that_depend_on_the_order_of_rows() -> None:
    """Of bursts, and not of times in random order; the largest of n times is exceeded by the next in 1 of n + 1."""
    rng = np.random.default_rng(5)
    calm = random_trace(rng, 1000, 3, measured=True)
    bursts = calm.costs.copy()
    bursts[:, 1] *= np.where(np.arange(1000) // 50 % 5 == 0, 3.0, 1.0)
    bursty = dataclasses.replace(calm, costs=bursts)
    found = [build(each).summary for each in (calm, bursty)]
    assert [list(each["deadlines"]["dependent_on_time"]) for each in found] == [[], [calm.spec.classifiers[1].name]]
    assert len(found[1]["notes"]) == len(found[0]["notes"]) + 1
    assert found[0]["deadlines"]["exceedance_per_call"] == pytest.approx(1 / 501)
    quantile = build(calm, worst_case_quantile=0.9).summary["deadlines"]["exceedance_per_call"]
    assert quantile == pytest.approx(0.1, abs=0.003)


def test_rows_of_one_item_that_follow_each_other_are_no_dependence_on_time() -> None:
    calm = random_trace(np.random.default_rng(5), 200, 3, measured=True)
    items = np.repeat(np.arange(200), 5)
    repeated = dataclasses.replace(calm.take(items), items=items)
    slowing = dataclasses.replace(repeated, costs=repeated.costs + np.where(items < 100, 0.0, 100.0)[:, None])
    found = [build(each).summary["deadlines"]["dependent_on_time"] for each in (repeated, slowing)]
    assert [len(each) for each in found] == [0, len(calm.spec.classifiers)]


def test_a_decision_is_a_look_up(trace: Trace) -> None:
    """Its steps are made once, and are the same objects from then on; the benchmark tells how long it takes."""
    plan = build_once(trace).plan
    first, again = (plan.decide(CascadeQuery(deadline=55.0)) for _ in range(2))
    assert first == again == type(first).model_validate(first.model_dump())
    assert first.steps is again.steps
