"""Deadlines, and sensors that are fetched together: times of sets, what is never exceeded, known optima, refusals."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from app.store import codec
from models import FeaturesSpec, FeatureTable, InvalidRequest, Trace, TraceSpec, dataset_from_columns
from models.arrays import Floats, Int64s
from models.errors import Infeasible
from models.policy import AcquireDecision, ClassifyDecision, PolicyOptions, PolicyQuery, PolicyTarget
from models.policy_curves import RolloutItem
from solvers import BuildContext
from solvers.policy import PolicyPlan, fit
from solvers.policy.graph import Graph
from solvers.policy.sensor_times import assign_fetches, compute_set_times, group_by_fetch
from tests.solvers.policy.problems import build, items_of, priced_context, trace
from tests.support.cases import case_count
from tests.support.samples import TRACE_SPEC, trace_columns

GROWN = PolicyOptions(graph="grown", points=5, folds=2, trees=8, depth=3)
LINEAR = PolicyOptions(points=4, folds=2, trees=8)
SLOW = (1.0, 4.0, 2.0, 3.0, 5.0, *[1.0] * 8)
"""How long the features of ``timed`` take."""


def timed(rows: int, seed: int = 0, times: tuple[float, ...] = SLOW) -> FeatureTable:
    """Draw ``priced_context`` with times in seconds, its costs in money."""
    table = priced_context(rows, seed)
    features = [{**each.model_dump(), "time": time} for each, time in zip(table.spec.features, times, strict=True)]
    spec = {**table.spec.model_dump(), "unit": "USD", "time_unit": "s", "features": features}
    return replace(table, spec=FeaturesSpec.model_validate(spec))


@cache
def built(name: str) -> tuple[PolicyPlan, FeatureTable | Trace]:
    """Give plans with times: grown, with sensors fetched together, of fewer sets, of a trace whose costs are times."""
    made: dict[str, tuple[Any, PolicyOptions]] = {
        "grown": (timed(400), GROWN),
        "together": (timed(400), GROWN.model_copy(update={"parallel": (("f1", "f2"), ("f0", "f5", "f12"))})),
        "trace": (trace(200), LINEAR),
        "trace, together": (trace(200), LINEAR.model_copy(update={"parallel": (("strong", "fast"),)})),
    }
    dataset, options = made[name]
    return build(dataset, options), dataset


def longest(plan: PolicyPlan, sensors: list[str]) -> float:
    """Say how long sensors that are fetched at once take, in the plainest way."""
    return max(float(plan.times[plan.sensors.index(sensor)]) for sensor in sensors)


def walked(plan: PolicyPlan, item: RolloutItem, target: PolicyTarget) -> tuple[str, float, float]:
    """Acquire as a caller would, what is to be fetched together at once: the class, what was paid, how long it took."""
    acquired, paid, took = dict[str, Any](), 0.0, 0.0
    while isinstance(
        step := plan.decide(PolicyQuery(**dict(target), item=item.item, acquired=acquired)), AcquireDecision
    ):
        now = [step.sensor, *step.together]
        assert set(step.together) <= set(step.then)
        assert step.time == longest(plan, now)
        acquired |= {sensor: item.sensors[sensor] for sensor in now}
        paid += sum(float(plan.costs[plan.sensors.index(sensor)]) for sensor in now)
        took += step.time
    assert isinstance(step, ClassifyDecision)
    return step.label, paid, took


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_a_set_takes_the_longest_of_each_fetch(data: st.DataObject) -> None:
    fetches = np.array(data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=6)), dtype=np.int32)
    times = np.array(data.draw(st.lists(st.integers(0, 9), min_size=len(fetches), max_size=len(fetches))), dtype=float)
    members = np.array([[bool(s >> m & 1) for m in range(len(fetches))] for s in range(1 << len(fetches))])
    of_sets = compute_set_times(members, times, fetches)
    for own, time in zip(members, of_sets, strict=True):
        by_fetch = {
            each: [t for t, m, f in zip(times, own, fetches, strict=True) if m and f == each] for each in fetches
        }
        assert time == sum(max(each, default=0.0) for each in by_fetch.values())


def test_what_is_fetched_together_is_one_step_of_the_graph() -> None:
    fetches = assign_fetches(["a", "b", "c", "d"], [["d", "b"]])
    graph = Graph.from_steps(4, group_by_fetch(fetches))
    assert len(graph) == 8
    assert all(node[1] == node[3] for node in graph.members)
    for name in ("together", "trace, together"):
        plan, _ = built(name)
        for each in group_by_fetch(plan.fetches):
            held = plan.members[:, sorted(each)]
            assert np.array_equal(held.any(axis=1), held.all(axis=1))


@pytest.mark.parametrize("name", ["grown", "together", "trace", "trace, together"])
@given(
    share=st.floats(0, 1.1),
    paid=st.none() | st.floats(0, 1.1),
    row=st.integers(0, 199),
    extra=st.sampled_from(["", "budget", "tradeoff"]),
)
@settings(max_examples=case_count(25, 10), deadline=None)
def test_no_path_passes_the_deadline_or_the_hard_budget(
    name: str, share: float, paid: float | None, row: int, extra: str
) -> None:
    """By steps and by rollouts, alone, together, and beside a mean budget or a trade-off."""
    plan, dataset = built(name)
    deadline = share * float(plan.times.sum())
    hard = None if paid is None else paid * float(plan.costs.sum())
    others = {extra: 0.5 * float(plan.costs.sum()) if extra == "budget" else 0.0} if extra else {}
    target = PolicyTarget.model_validate({"deadline": deadline, "max_item_cost": hard, **others})
    item = items_of(dataset)[row]
    if deadline < min(float(plan.times[list(each)].max()) for each in group_by_fetch(plan.fetches)):
        with pytest.raises(Infeasible, match="the deadline is"):
            plan.roll_out([item], target)
        return
    (ran,) = plan.roll_out([item], target).items
    label, cost, took = walked(plan, item, target)
    assert label == ran.label
    assert cost == pytest.approx(ran.cost)
    assert took == pytest.approx(ran.time)
    assert took <= deadline * (1 + 1e-9)
    assert hard is None or cost <= hard * (1 + 1e-9)


def accuracy(plan: PolicyPlan, test: FeatureTable, **target: float) -> float:
    """Run unseen rows: the share that is answered rightly."""
    ran = plan.run(plan.cells_of(test), [str(row) for row in range(test.rows)], PolicyTarget.model_validate(target))
    return float((np.array(plan.classes)[ran.labels] == np.array(test.classes)[test.labels]).mean())


@pytest.mark.slow
def test_a_deadline_reaches_what_is_known_to_be_best_within_it() -> None:
    """The context takes 1, the four features that may tell 4, 2, 3 and 5: within 6 all four can follow it and 0.95 are
    right; within 4 the second and the third, so that half of the items are right 0.95 of the time, half by a coin."""
    plan, test = build(timed(3_000), GROWN), timed(3_000, seed=5)
    assert 0.91 < accuracy(plan, test, deadline=6.0) < 0.97
    assert 0.69 < accuracy(plan, test, deadline=4.0) < 0.76
    assert accuracy(plan, test, deadline=6.0, max_item_cost=2.4) < 0.7
    assert accuracy(plan, test, deadline=6.0, budget=2.5) > 0.88


def best(
    chances: Floats, times: Floats, together: list[list[int]], left: float, known: tuple[int | None, ...]
) -> float:
    """Find the least errors within a deadline by backward induction over what can be fetched: each fetch takes the
    longest of it."""
    chance = float(chances[tuple(slice(None) if v is None else slice(v, v + 1) for v in known)].mean())
    least = min(chance, 1 - chance)
    for fetch in (each for each in together if known[each[0]] is None and max(times[each]) <= left):
        outcomes = []
        for values in np.ndindex(*[2] * len(fetch)):
            after = list(known)
            for place, value in zip(fetch, values, strict=True):
                after[place] = value
            outcomes.append(best(chances, times, together, left - max(times[fetch]), tuple(after)))
        least = min(least, float(np.mean(outcomes)))
    return least


def drawn_cube(chances: Floats, rows: int, rng: np.random.Generator) -> tuple[Floats, Int64s]:
    values = rng.integers(2, size=(rows, chances.ndim))
    return values.astype(float), (rng.random(rows) < chances[tuple(values.T)]).astype(np.int64)


def test_errors_within_a_deadline_come_near_those_of_backward_induction() -> None:
    """On tables so small that the best way to spend a deadline is computed exactly, with two features in one fetch."""
    times, together = np.array([2.0, 1.0, 3.0, 2.0]), [[0], [1, 2], [3]]
    for seed in range(2):
        rng = np.random.default_rng(seed)
        chances = rng.choice([0.03, 0.3, 0.7, 0.97], (2, 2, 2, 2))
        datasets = []
        for _ in range(2):
            values, labels = drawn_cube(chances, 3_000, rng)
            features = [
                {"name": f"f{m}", "columns": [f"f{m}"], "cost": 0.01, "time": float(time)}
                for m, time in enumerate(times)
            ]
            spec = {"kind": "features", "label": "y", "unit": "ms", "features": features}
            columns = {"y": labels} | {f"f{m}": values[:, m] for m in range(4)}
            datasets.append(dataset_from_columns(FeaturesSpec.model_validate(spec), columns))
        plan = build(datasets[0], GROWN.model_copy(update={"parallel": (("f1", "f2"),)}))
        for deadline in (2.0, 4.0, 5.0, 7.0):
            assert isinstance(datasets[1], FeatureTable)
            least = best(chances, times, together, deadline, (None,) * 4)
            assert least - 0.025 < 1 - accuracy(plan, datasets[1], deadline=deadline) < least + 0.035, deadline


def test_where_sensors_take_as_long_as_they_cost_a_deadline_is_a_hard_budget() -> None:
    """Nothing more is learned for deadlines then, and the same decides."""
    plan, table = build(priced_context(300), GROWN), priced_context(60, seed=2)
    assert plan.time_unit == "ms"
    assert not len(plan.deadlines)
    cells, items = plan.cells_of(table), [str(row) for row in range(table.rows)]
    for limit in (1.0, 2.5, 6.0):
        ran, same = (
            plan.run(cells, items, target)
            for target in (PolicyTarget(deadline=limit), PolicyTarget(max_item_cost=limit))
        )
        assert np.array_equal(ran.walks.ends, same.walks.ends)
        assert (
            plan.expected_outcome(PolicyTarget(deadline=limit))[:2]
            == plan.expected_outcome(PolicyTarget(max_item_cost=limit))[:2]
        )


def test_what_a_deadline_reaches_is_told_as_far_as_it_was_counted() -> None:
    plan, _ = built("grown")
    assert len(plan.deadlines)
    for deadline in plan.deadlines.tolist():
        right, cost, error = plan.expected_outcome(PolicyTarget(deadline=deadline))
        assert right is not None
        assert 0.4 < right <= 1
        assert (cost, error) == (None, None), "costs were counted of single members, and all of them decide"
    between = 0.55 * plan.deadlines[0] + 0.45 * plan.deadlines[1]
    assert plan.expected_outcome(PolicyTarget(budget=1e6, deadline=between)) == (None, None, None)


def test_worst_cases_of_times_are_the_largest_costs_or_a_quantile_of_them() -> None:
    dataset = trace(200)
    plan = build(dataset, LINEAR)
    assert plan.time_unit == "ms"
    assert np.array_equal(plan.times, dataset.costs.max(axis=0))
    half = build(dataset, LINEAR.model_copy(update={"worst_case_quantile": 0.5}))
    assert np.all(half.times <= plan.times)


def test_times_stand_in_the_summary_and_survive_the_archive() -> None:
    fitted = fit(
        timed(120), GROWN.model_copy(update={"parallel": (("f3", "f1"),)}), np.random.default_rng(0), BuildContext()
    )
    assert fitted.summary["time_unit"] == "s"
    assert fitted.summary["parallel"] == [["f1", "f3"]]
    assert [each["time"] for each in fitted.summary["sensors"]] == list(SLOW)
    again = codec.decode(codec.encode(fitted.plan, {}), PolicyPlan)
    assert np.array_equal(again.fetches, fitted.plan.fetches)
    query = PolicyQuery(deadline=6.0)
    assert again.decide(query) == fitted.plan.decide(query)


def test_a_deadline_shorter_than_anything_is_refused_with_the_numbers() -> None:
    plan, _ = built("trace")
    least = float(plan.times.min())
    with pytest.raises(Infeasible, match=rf"fastest sensor, fast, takes up to {least:.4g} ms; the deadline is"):
        plan.decide(PolicyQuery(deadline=0.5 * least))
    assert isinstance(plan.decide(PolicyQuery(deadline=least)), AcquireDecision | ClassifyDecision)


def test_a_deadline_means_nothing_where_no_times_are_known() -> None:
    table = priced_context(60)
    spec = FeaturesSpec.model_validate({**table.spec.model_dump(), "unit": "USD"})
    plan = build(replace(table, spec=spec), GROWN)
    step = plan.decide(PolicyQuery(tradeoff=0.0))
    assert not isinstance(step, AcquireDecision) or step.time is None
    with pytest.raises(InvalidRequest, match="costs are in USD, and times are unknown"):
        plan.decide(PolicyQuery(deadline=3.0))


def test_an_accuracy_is_not_promised_within_a_deadline_that_it_was_not_counted_in() -> None:
    plan, _ = built("trace")
    enough = float(plan.times.sum())
    wanted = 1 - float(plan.point_errors[-1]) - 0.1
    assert plan.select_mixture(PolicyTarget(min_accuracy=wanted, deadline=enough)).share == 0.0
    with pytest.raises(Infeasible, match="with min_accuracy, the deadline must be"):
        plan.select_mixture(PolicyTarget(min_accuracy=wanted, deadline=0.9 * enough))


@pytest.mark.parametrize(
    ("parallel", "message"),
    [
        ([["f0", "g7"]], "unknown sensor 'g7'; available: f0"),
        ([["f0", "f1"], ["f1", "f2"]], "contains 'f1' twice"),
        ([["f0", "f0"]], "contains 'f0' twice"),
    ],
)
def test_fetches_that_cannot_be_are_refused(parallel: list[list[str]], message: str) -> None:
    options = PolicyOptions.model_validate({"parallel": parallel})
    with pytest.raises(InvalidRequest, match=message):
        build(timed(40), options)


def test_a_fetch_is_of_several_sensors() -> None:
    with pytest.raises(ValidationError, match="at least 2"):
        PolicyOptions(parallel=(("f0",),))


@pytest.mark.parametrize(
    ("times", "extra", "message"),
    [
        ((1.0, None), {"time_unit": "s"}, "'a'.*'b'"),
        ((None, None), {"time_unit": "s"}, "time_unit.*'s'"),
        ((1.0, 2.0), {"time_unit": "USD"}, "must be a unit of time, got 'USD'"),
        ((1.0, 2.0), {}, "the unit 'USD'"),
    ],
)
def test_times_that_mean_nothing_are_refused(
    times: tuple[float | None, ...], extra: dict[str, str], message: str
) -> None:
    features = [
        {"name": name, "columns": [name], "cost": 1, "time": time} for name, time in zip("ab", times, strict=True)
    ]
    with pytest.raises(ValidationError, match=message):
        FeaturesSpec.model_validate({"kind": "features", "label": "y", "unit": "USD", "features": features, **extra})


def test_classifiers_of_a_trace_may_tell_times_beside_costs() -> None:
    classifiers = [{**each, "time": 2.0 + at} for at, each in enumerate(TRACE_SPEC["classifiers"])]
    spec = TraceSpec.model_validate({**TRACE_SPEC, "unit": "USD", "time_unit": "min", "classifiers": classifiers})
    columns = {name: np.array(values) for name, values in trace_columns(60).items()}
    plan = build(dataset_from_columns(spec, columns), LINEAR)
    assert plan.times.tolist() == [2.0 + at for at in range(len(classifiers))]
    assert plan.time_unit == "min"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"times": np.array([1.0])}, "a time for each sensor"),
        ({"times": np.full(13, -1.0)}, "times"),
        ({"time_unit": "USD"}, "a time for each sensor"),
        ({"fetches": np.full(13, 99, dtype=np.int32)}, "a fetch for each sensor"),
        ({"fetches": np.zeros(13, dtype=np.int32)}, "nodes of whole fetches"),
        ({"deadline_errors": np.array([2.0])}, "deadline_errors"),
    ],
)
def test_plans_whose_times_are_made_up_are_refused(change: dict[str, Any], message: str) -> None:
    plan, _ = built("grown")
    with pytest.raises(InvalidRequest, match=message):
        replace(plan, **change)
    with pytest.raises(InvalidRequest, match="rising deadlines"):
        replace(plan, deadlines=plan.deadlines[::-1].copy())
