"""Policies of classifiers whose answers have no classes: which to buy, when to stop, and whose answer to take."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.store.codec import decode, encode
from models import InvalidRequest, Trace, TraceSpec, dataset_from_columns
from models.arrays import Bools, Floats
from models.errors import EndpointFailed, Infeasible
from models.policy import (
    AcquireDecision,
    AnswerDecision,
    PolicyOptions,
    PolicyQuery,
    PolicyTarget,
    RejectDecision,
)
from models.policy_curves import RolloutItem
from parsimony.runs.steps import REJECT, Call, CallResult, CallResults, RunAnswer
from solvers import KINDS, BuildContext
from solvers.base import FitResult
from solvers.budget_mixture import lower_hull
from solvers.evaluation import CompleteItems
from solvers.policy import PolicyPlan, fit
from solvers.policy.classless import (
    MAX_CLASSIFIERS,
    MAX_STATES,
    append_reject,
    build_answer_graph,
    choose_best_acquired,
    compute_answer_losses,
    compute_answer_quality,
    known_advantages,
    select_classifiers,
)
from solvers.policy.setting_replays import replay_settings
from solvers.running import Runner
from tests.solvers.policy.problems import EXPERTS, halves, start_policy, trace
from tests.solvers.policy.test_plan import compare_one_with_rows
from tests.support.cases import first_quick

QUICK = PolicyOptions(trees=24, depth=3, folds=3)
CHEAP, STRONG, COSTS = "cheap", "strong", (1.0, 5.0)
SURE, UNSURE = 0.9, 0.2
"""The two confidences that the cheap one has: it is right 95 times of 100 with the one, 30 times with the other."""
RIGHT = {SURE: 0.95, UNSURE: 0.3}
STRONG_RIGHT = 0.9


def asked_trace(rows: int, seed: int, graded_by: str = "correct", reject_cost: float | None = None) -> Trace:
    """Draw a trace of a cheap classifier that is sure of three fifths of items, and a strong one that tells nothing but
    its answer. Graded, a wrong answer is worth a fifth. With rejects, an error costs 20."""
    rng = np.random.default_rng((seed, rows))
    sure = np.where(rng.random(rows) < 0.6, SURE, UNSURE)
    right = np.column_stack((rng.random(rows) < np.where(sure == SURE, 0.95, 0.3), rng.random(rows) < STRONG_RIGHT))
    quality = right.astype(np.float64) if graded_by == "correct" else np.where(right, 1.0, 0.2)
    columns: dict[str, Any] = {"sure": sure, CHEAP: quality[:, 0], STRONG: quality[:, 1]}
    classifiers: list[dict[str, Any]] = [
        {"name": name, "cost": cost, graded_by: name} for name, cost in zip((CHEAP, STRONG), COSTS, strict=True)
    ]
    classifiers[0]["confidence"] = "sure"
    if reject_cost is None:
        return _trace(classifiers, columns)
    prices = {"reject_cost": reject_cost / 20, "loss_unit": "error", "loss_weight": 20.0}
    return _trace(classifiers, columns, **prices)


def _trace(classifiers: list[dict[str, Any]], columns: dict[str, Any], embeddings: Any = None, **more: Any) -> Trace:
    spec = TraceSpec.model_validate({"kind": "trace", "unit": "USD", "classifiers": classifiers, **more})
    made = dataset_from_columns(spec, columns, embeddings)
    assert isinstance(made, Trace)
    return made


def without_classes(dataset: Trace) -> Trace:
    """Tell of a trace with classes only whether answers were right."""
    classifiers = [
        {"name": each.name, "cost": float(dataset.costs[0, m]), "correct": each.name}
        for m, each in enumerate(dataset.spec.classifiers)
    ]
    columns = {each.name: dataset.quality[:, m] for m, each in enumerate(dataset.spec.classifiers)}
    return _trace(classifiers, columns, dataset.embeddings)


@cache
def built(case: str = "correct", rows: int = 1500) -> FitResult[PolicyPlan]:
    """Build a policy: of a cheap and a strong one, or of experts that an embedding chooses among."""
    if case == "experts":
        options = QUICK.model_copy(update={"embeddings": True})
        return fit(without_classes(halves(rows, 0)), options, np.random.default_rng(0), BuildContext())
    return fit(asked_trace(rows, 0, case), QUICK, np.random.default_rng(0), BuildContext())


def replayed(plan: PolicyPlan, fresh: Trace, target: PolicyTarget) -> tuple[float, float, float]:
    """Tell how good answers to fresh items are, what they cost, and how good they were expected to be."""
    ran = plan.run(plan.cells_of(fresh), [str(row) for row in range(fresh.rows)], target)
    rows = np.arange(fresh.rows)
    return (
        float(fresh.quality[rows, ran.labels].mean()),
        float(ran.costs.mean()),
        float(ran.scores[rows, ran.labels].mean()),
    )


# what stopping is worth


def choose_row_by_row(expected: Floats, bought: Bools, reject: float | None) -> list[int | None]:
    """Choose the best that was bought, one row after the other; the number of sensors stands for the reject."""
    own, none = np.flatnonzero(bought).tolist(), len(bought)
    chosen = [max(own, key=lambda m: (row[m], -m)) if own else None for row in expected]
    if reject is None:
        return chosen
    return [none if m is None or row[m] < reject else m for m, row in zip(chosen, expected, strict=True)]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 10_000), st.none() | st.sampled_from([0.0, 0.5, 0.8, 1.0]))
def test_stopping_loses_what_the_best_that_was_bought_lacks(
    sensors: int, rows: int, seed: int, reject: float | None
) -> None:
    rng = np.random.default_rng(seed)
    members = rng.random((4, sensors)) < 0.5
    expected = [rng.random((rows, sensors)).round(1) for _ in members]
    quality, smoothing = rng.random((rows, sensors)), float(rng.random())
    losses = compute_answer_losses(expected, members, quality, smoothing, reject)
    for node, bought in enumerate(members):
        for row, answer in enumerate(choose_row_by_row(expected[node], bought, reject)):
            if answer == sensors:
                reward = sure = reject or 0.0
            else:
                reward, sure = (0.0, 0.0) if answer is None else (quality[row, answer], expected[-1][row, answer])
            assert losses.observed[node, row] == pytest.approx(1 - reward)
            assert losses.learned[node, row] == pytest.approx(1 - (1 - smoothing) * reward - smoothing * sure)
            offered = append_reject(expected[node], bought, reject)
            assert answer is None or choose_best_acquired(*offered)[row] == answer


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(0, 10_000), st.none() | st.sampled_from([0.0, 0.5, 1.0]))
def test_what_is_foreseen_is_what_stopping_behind_loses_less(sensors: int, seed: int, reject: float | None) -> None:
    rng = np.random.default_rng(seed)
    expected, bought = rng.random((3, sensors)), rng.random(sensors) < 0.5
    further = bought | (rng.random((4, sensors)) < 0.5)
    gained = known_advantages(expected, bought, further, reject)
    for row in range(3):
        for action in range(4):
            now, then = (max([reject or 0.0, *expected[row, some]]) for some in (bought, further[action]))
            assert gained[row, action] == pytest.approx(now - then)


def test_what_tells_nothing_is_bought_last() -> None:
    telling = np.array([True, True, False])
    graph = build_answer_graph(telling, np.ones((4, 3)), np.ones((4, 3)), np.arange(3, dtype=np.int32))
    sets = {tuple(np.flatnonzero(each).tolist()) for each in graph.members}
    assert sets == {each for size in range(4) for each in combinations(range(3), size)}
    for node, members in enumerate(graph.members):
        assert bool(len(graph.list_actions(node))) == (not members[2] and not members.all())


@pytest.mark.parametrize("sensors", [1, 2, 9, 10, 40, 200])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_states_are_few_and_each_single_classifier_is_one(sensors: int, share: float) -> None:
    rng = np.random.default_rng(sensors)
    telling = rng.random(sensors) < share
    costs = rng.random((30, sensors)) + 0.1
    graph = build_answer_graph(telling, costs, rng.random((30, sensors)), np.arange(sensors, dtype=np.int32))
    assert len(graph) <= MAX_STATES + 1
    assert not graph.members[0].any()
    assert graph.members[-1].all()
    firsts = graph.members[graph.list_actions(0)]
    assert (firsts.sum(axis=1) == 1).all()
    assert len(firsts) == min(sensors, MAX_CLASSIFIERS)
    for node in range(len(graph)):
        assert (graph.members[graph.list_actions(node)].sum(axis=1) == graph.members[node].sum() + 1).all()


def several_trace(rows: int, seed: int, prices: Sequence[float], skills: Sequence[float], **more: Any) -> Trace:
    """Draw a trace of classifiers that each are right as often as said, less of hard items, and know it a little; the
    third tells no confidence."""
    rng = np.random.default_rng((seed, rows))
    hard = rng.random(rows)
    columns: dict[str, Any] = {}
    classifiers: list[dict[str, Any]] = []
    for m, (price, skill) in enumerate(zip(prices, skills, strict=True)):
        columns[f"q{m}"] = np.clip(skill - 0.3 * hard + rng.normal(0, 0.1, rows), 0, 1)
        columns[f"c{m}"] = np.clip(columns[f"q{m}"] + rng.normal(0, 0.1, rows), 0, 1)
        classifiers.append(
            {"name": f"m{m}", "cost": price, "quality": f"q{m}"} | ({"confidence": f"c{m}"} if m != 2 else {})
        )
        if "time_unit" in more:
            classifiers[-1]["time"] = price
    return _trace(classifiers, columns, **more)


@pytest.mark.slow
def test_a_hard_budget_never_does_worse_than_one_classifier_that_it_affords() -> None:
    prices, skills = (1.0, 2.0, 2.5, 6.0, 15.0), (0.4, 0.55, 0.65, 0.8, 0.95)
    plan = fit(several_trace(600, 1, prices, skills), QUICK, np.random.default_rng(0), BuildContext()).plan
    fresh = several_trace(2000, 2, prices, skills)
    for limit in (1.0, 1.9, 2.4, 4.0, 6.0, 6.4, 14.0, 15.0, 20.0, 26.0):
        target = PolicyTarget(max_item_cost=limit)
        single = max(fresh.quality[:, m].mean() for m, price in enumerate(prices) if price <= limit)
        reached, _, _ = replayed(plan, fresh, target)
        assert plan.run(plan.cells_of(fresh), [""] * fresh.rows, target).costs.max() <= limit
        assert reached > single - 0.02
        assert plan.expected_outcome(target)[0] == pytest.approx(reached, abs=0.03)


@pytest.mark.parametrize("parallel", [(("m0", "m1"),), (("m0", "m2"), ("m1", "m3")), (("m0", "m1", "m2", "m3"),)])
def test_those_fetched_together_are_bought_together(parallel: tuple[tuple[str, ...], ...]) -> None:
    prices, skills = (1.0, 2.0, 4.0, 9.0), (0.45, 0.55, 0.7, 0.9)
    dataset = several_trace(500, 1, prices, skills, time_unit="s")
    fitted = fit(dataset, QUICK.model_copy(update={"parallel": parallel}), np.random.default_rng(0), BuildContext())
    plan = fitted.plan
    fresh = several_trace(300, 2, prices, skills, time_unit="s")
    items = [
        RolloutItem(sensors={f"m{m}": None if m == 2 else float(fresh.confidences[row, m]) for m in range(len(prices))})
        for row in range(fresh.rows)
    ]
    units = [*parallel, *((name,) for name in plan.sensors if name not in {each for some in parallel for each in some})]
    for target in (PolicyTarget(), PolicyTarget(tradeoff=0.01), PolicyTarget(budget=17.0), PolicyTarget(deadline=9.0)):
        ran = plan.roll_out(items, target)
        for each in ran.items:
            assert all(len(set(unit) & set(each.path)) in (0, len(unit)) for unit in units)
            assert each.answer in each.path
            took = sum(max(prices[int(name[1:])] for name in unit) for unit in units if set(unit) <= set(each.path))
            assert each.time == took
            assert took <= (target.deadline or np.inf)


def test_of_many_those_are_asked_that_add_most_to_the_best() -> None:
    """Here each of three is the only one right about its third of the rows, and the others are never right."""
    quality = np.zeros((300, 30))
    for place, good in enumerate((4, 17, 29)):
        quality[place::3, good] = 1.0
    assert {4, 17, 29} <= set(select_classifiers(np.ones((300, 30)), quality))


# the policy


@cache
def built_with_rejects(reject_cost: float) -> FitResult[PolicyPlan]:
    return fit(asked_trace(1500, 0, reject_cost=reject_cost), QUICK, np.random.default_rng(0), BuildContext())


def test_items_are_rejected_where_a_person_costs_less() -> None:
    """By hand: an error costs 20. At once rejected, an item costs the price; with the cheap one, 1 + 0.6 * 0.05 * 20,
    and for two fifths the price, or the strong one for 5 + 0.1 * 20."""
    shares = []
    for price, total, share in ((2.0, 2.0, 1.0), (4.0, 3.2, 0.4), (6.0, 4.0, 0.4), (12.0, 4.4, 0.0)):
        plan, fresh = built_with_rejects(price).plan, asked_trace(20_000, 1, reject_cost=price)
        target = PolicyTarget(tradeoff=1.0)
        ran = plan.run(plan.cells_of(fresh), [str(row) for row in range(fresh.rows)], target)
        lost = fresh.loss_scale * (1 - fresh.with_reject().quality[np.arange(fresh.rows), ran.labels])
        assert float((ran.costs + lost).mean()) == pytest.approx(total, abs=0.15)
        shares.append(float((ran.labels == 2).mean()))
        assert plan.expected_coverage(target) == pytest.approx(1 - share, abs=0.04)
        assert shares[-1] == pytest.approx(share, abs=0.02)
        accuracy, cost, _ = plan.expected_outcome(target)
        assert accuracy is not None
        assert cost is not None
        assert cost + plan.loss_scale * (1 - accuracy) == pytest.approx(total, abs=0.4)
    assert shares == sorted(shares, reverse=True)  # a higher price of rejects never raises their share


def test_a_reject_is_decided_run_evaluated_and_stored() -> None:
    plan = built_with_rejects(6.0).plan
    query = {"tradeoff": 1.0, "item": "i"}
    step = plan.decide(PolicyQuery.model_validate({**query, "acquired": {CHEAP: UNSURE}}))
    assert isinstance(step, RejectDecision)
    assert step.expected_loss == pytest.approx(6.0)
    assert not step.probabilities
    data = encode(plan, {})
    assert b"reject_quality" in data
    assert b"reject_quality" not in encode(built().plan, {})  # which older versions read
    restored = decode(data, PolicyPlan)
    assert restored.decide(PolicyQuery.model_validate({**query, "acquired": {CHEAP: UNSURE}})) == step
    stopped = plan.stop(PolicyQuery.model_validate(query))  # no sensor has to be acquired
    assert isinstance(stopped, RejectDecision)
    runner = start_policy(plan, PolicyQuery.model_validate(query), left=10.0)
    call = next(runner)
    assert call.names == (CHEAP,)
    with pytest.raises(StopIteration) as ended:
        runner.send(CallResults((CallResult(CHEAP, "text", UNSURE),), 10.0))
    assert (ended.value.value.label, ended.value.value.answered_by) == (None, None)
    values = {f"{name}.{part}": cell for name in (CHEAP, STRONG) for part, cell in (("correct", 1.0), ("label", "x"))}
    items = CompleteItems(
        ids=("sure", "unsure"),
        values=tuple({**values, f"{CHEAP}.confidence": sure} for sure in (SURE, UNSURE)),
        embeddings=None,
        sizes=(None, None),
        truths=(None, None),
    )
    runner = start_policy(plan, PolicyQuery.model_validate(query), left=10.0)
    next(runner)
    with pytest.raises(StopIteration) as ended:  # without the cheap one, a person costs less than the strong one
        runner.send(CallResults((CallResult(CHEAP, error="down"),), 10.0))
    assert (ended.value.value.label, ended.value.value.answered_by) == (None, None)
    assert CHEAP in ended.value.value.degraded
    found = KINDS["policy"].evaluate(plan, PolicyTarget(tradeoff=1.0), items)
    assert found.labels == ("x", None)
    assert found.classifiers == (CHEAP, REJECT)
    assert found.accepted is not None
    assert found.accepted.tolist() == [True, False]
    assert found.grade_answers(items).tolist() == [1.0, pytest.approx(np.nan, nan_ok=True)]


def test_the_promised_total_with_rejects_comes_true() -> None:
    fitted, fresh = built_with_rejects(6.0), asked_trace(20_000, 3, reject_cost=6.0)
    savings = fitted.savings
    assert savings is not None
    assert savings.loss is not None
    totals = [
        float((one.replay.costs + fresh.loss_scale * (1 - one.replay.right)).mean())
        for one in replay_settings(fitted.plan, fresh)
    ]
    assert min(totals) == pytest.approx(4.0, abs=0.15)
    assert savings.cost + savings.loss == pytest.approx(min(totals), abs=0.6)
    assert savings.today is not None
    assert savings.today.name == "always strong"
    always = {one.name: one.cost + (one.loss or 0.0) for one in savings.baselines}
    assert always["always reject"] == pytest.approx(6.0)
    assert min(totals) < min(always.values()) + 0.2


def test_it_stops_where_the_cheap_one_is_sure_and_goes_on_where_it_is_not() -> None:
    plan = built().plan
    query = {"tradeoff": 0.05, "item": "i"}
    first = plan.decide(PolicyQuery.model_validate(query))
    assert isinstance(first, AcquireDecision)
    assert first.sensor == CHEAP
    sure = plan.decide(PolicyQuery.model_validate({**query, "acquired": {CHEAP: SURE}}))
    assert isinstance(sure, AnswerDecision)
    assert (sure.answer, sure.ignored) == (CHEAP, ())
    assert sure.quality == pytest.approx(RIGHT[SURE], abs=0.04)
    assert sure.expected_loss == pytest.approx(1 - sure.quality)
    unsure = plan.decide(PolicyQuery.model_validate({**query, "acquired": {CHEAP: UNSURE}}))
    assert isinstance(unsure, AcquireDecision)
    assert unsure.sensor == STRONG
    for said, answer in ((UNSURE, STRONG), (SURE, CHEAP)):
        both = plan.decide(PolicyQuery.model_validate({**query, "acquired": {CHEAP: said, STRONG: None}}))
        assert isinstance(both, AnswerDecision)
        assert both.answer == answer
        assert both.qualities == pytest.approx({CHEAP: RIGHT[said], STRONG: STRONG_RIGHT}, abs=0.06)


@pytest.mark.parametrize("graded_by", ["correct", "quality"])
def test_its_curve_is_the_best_there_is(graded_by: str) -> None:
    """The cheap one alone; it, and the strong one where it is unsure; beyond, nothing helps. By hand: at a cost of 1
    and of 1 + 0.4 * 5 = 3, 0.6 * 0.95 + 0.4 * 0.3 = 0.69 and 0.6 * 0.95 + 0.4 * 0.9 = 0.93 are right."""
    plan, fresh = built(graded_by).plan, asked_trace(20_000, 1, graded_by)
    for budget, right in ((1.0, 0.69), (2.0, 0.81), (3.05, 0.93)):
        best = right if graded_by == "correct" else 0.2 + 0.8 * right
        quality, cost, _ = replayed(plan, fresh, PolicyTarget(budget=budget))
        assert quality == pytest.approx(best, abs=0.025)
        assert cost <= budget * 1.02


@pytest.mark.parametrize("case", ["correct", "quality", "experts"])
def test_what_is_said_comes_true_on_fresh_items(case: str) -> None:
    plan = built(case).plan
    fresh = without_classes(halves(8000, 1)) if case == "experts" else asked_trace(8000, 2, case)
    first = float(plan.point_bounds[0])
    for budget in np.linspace(first, 1.2 * float(plan.point_bounds[-1]), 5).tolist():
        target = PolicyTarget(budget=budget)
        said, said_cost, cost_error = plan.expected_outcome(target)
        quality, cost, expected = replayed(plan, fresh, target)
        assert said is not None
        assert said_cost is not None
        assert cost_error is not None
        error = np.sqrt(said * (1 - said) * (1 / plan.rows + 1 / fresh.rows) * (1 + 100 / plan.rows))
        assert abs(quality - said) < 4 * error + 1e-9
        assert abs(cost - said_cost) < 5 * cost_error + 0.02 * said_cost
        assert abs(expected - quality) < 4 * error + 0.01


def test_an_item_goes_at_once_to_the_expert_that_its_embedding_tells() -> None:
    plan = built("experts").plan
    quality, cost, _ = replayed(plan, without_classes(halves(3000, 1)), PolicyTarget(budget=1.2))
    assert quality > 0.9
    assert cost < 1.25
    for half, expert in enumerate(EXPERTS[:2]):
        step = plan.decide(PolicyQuery(budget=1.2, item="i", embedding=(2.0 * half, 0.0, 0.0)))
        assert (step.action, getattr(step, "sensor", None)) == ("acquire", expert)


@pytest.mark.parametrize("seed", first_quick(range(3)))
def test_an_embedding_that_tells_nothing_ends_at_the_hull_of_single_classifiers(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def drawn(rows: int) -> Trace:
        right = rng.random((rows, 3)) < (0.6, 0.7, 0.9)
        classifiers = [{"name": f"m{m}", "cost": cost, "correct": f"m{m}"} for m, cost in enumerate((1.0, 3.0, 10.0))]
        embeddings = rng.normal(size=(rows, 6)).astype(np.float32)
        return _trace(classifiers, {f"m{m}": right[:, m] for m in range(3)}, embeddings)

    plan = fit(drawn(300), QUICK.model_copy(update={"embeddings": True}), rng, BuildContext()).plan
    fresh = drawn(10_000)
    alone, costs = fresh.quality.mean(axis=0), fresh.costs.mean(axis=0)
    hull = lower_hull(costs, 1 - alone)
    for budget in np.linspace(1.0, 10.0, 7).tolist():
        quality, cost, _ = replayed(plan, fresh, PolicyTarget(budget=budget))
        assert quality > np.interp(cost, costs[hull], alone[hull]) - 0.02


def test_a_cheaper_and_better_one_leaves_no_choice() -> None:
    right = np.random.default_rng(0).random((60, 2)) < (1.0, 0.5)
    classifiers = [{"name": f"m{m}", "cost": 1.0 + m, "correct": f"m{m}", "confidence": "sure"} for m in range(2)]
    columns = {"m0": right[:, 0], "m1": right[:, 1], "sure": np.full(60, 0.5)}
    plan = fit(_trace(classifiers, columns), QUICK, np.random.default_rng(0), BuildContext()).plan
    assert plan.point_errors.tolist() == [0.0]
    for acquired in ({}, {"m0": 0.5}):
        step = plan.decide(asked({}, acquired=acquired))
        assert getattr(step, "sensor", getattr(step, "answer", None)) == "m0"


def test_one_item_is_decided_as_rows_are() -> None:
    plan = built().plan
    cells = plan.cells_of(asked_trace(200, 5))
    assert compare_one_with_rows(plan, cells, np.random.default_rng(2)) > 100


def items_of(dataset: Trace, rows: int) -> list[RolloutItem]:
    """Give the first rows as callers send them."""
    return [
        RolloutItem(item=f"item-{row}", sensors={CHEAP: float(dataset.confidences[row, 0]), STRONG: None})
        for row in range(rows)
    ]


def asked(target: Mapping[str, float], **known: Any) -> PolicyQuery:
    """Ask for a step."""
    return PolicyQuery.model_validate({**target, **known})


@pytest.mark.parametrize(
    "target",
    [
        {},
        {"budget": 1.0},
        {"budget": 2.2},
        {"tradeoff": 0.04},
        {"max_item_cost": 1.0},
        {"max_item_cost": 5.5},
        {"budget": 2.2, "max_item_cost": 5.0},
        {"min_accuracy": 0.8},
    ],
)
def test_steps_lead_where_rollouts_do(target: dict[str, float]) -> None:
    plan = built().plan
    items = items_of(asked_trace(30, 3), 30)
    for item, ran in zip(items, plan.roll_out(items, PolicyTarget.model_validate(target)).items, strict=True):
        acquired: dict[str, Any] = {}
        while isinstance(step := plan.decide(asked(target, item=item.item, acquired=acquired)), AcquireDecision):
            acquired[step.sensor] = item.sensors[step.sensor]
        assert isinstance(step, AnswerDecision)
        assert (step.answer, list(acquired), ran.label) == (ran.answer, list(ran.path), None)
        assert step.answer in acquired
        assert ran.cost <= target.get("max_item_cost", np.inf)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ({"budget": 0.5}, "the cheapest answer costs 1 USD, the budget is 0.5"),
        ({"max_item_cost": 0.9}, "the cheapest answer costs 1 USD, the hard budget is 0.9"),
        ({"budget": 3.0, "max_item_cost": 0.0}, "the cheapest answer costs 1 USD, the hard budget is 0"),
        ({"min_accuracy": 0.99}, "0.99"),
    ],
)
def test_something_has_to_answer(target: dict[str, float], said: str) -> None:
    with pytest.raises(Infeasible, match=said):
        built().plan.decide(asked(target))
    with pytest.raises(Infeasible, match=said):
        built().plan.roll_out(items_of(asked_trace(3, 3), 3), PolicyTarget.model_validate(target))


def test_there_is_no_answer_before_something_was_bought() -> None:
    with pytest.raises(InvalidRequest, match="acquired: must not be empty"):
        built().plan.stop(PolicyQuery())


@pytest.mark.parametrize(
    ("acquired", "said"),
    [
        (
            {CHEAP: None},
            "acquired.cheap: must be .* got null",
        ),
        ({CHEAP: "yes"}, 'acquired.cheap: must be .* got "yes"'),
        ({CHEAP: {"label": "yes", "confidence": 0.5}}, "acquired.cheap: must be"),
        ({CHEAP: 7.0}, "acquired.cheap: has confidence 7; .* from 0.2 to 0.9"),
        ({STRONG: 0.5}, "acquired.strong: must be null, .* got 0.5"),
        ({"other": None}, "acquired.other: .* available: cheap, strong"),
    ],
)
def test_what_a_classifier_cannot_have_told_is_refused(acquired: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{said}"):
        built().plan.decide(PolicyQuery.model_validate({"acquired": acquired}))


def test_neither_confidences_nor_embeddings_are_refused() -> None:
    mute = without_classes(halves(60, 0))
    with pytest.raises(InvalidRequest, match=r"\"embeddings\": true"):
        fit(mute, QUICK, np.random.default_rng(0), BuildContext())
    bare = replace(mute, embeddings=np.empty((60, 0), np.float32))
    with pytest.raises(InvalidRequest, match="cascades and portfolios"):
        fit(bare, QUICK, np.random.default_rng(0), BuildContext())


def test_a_trace_with_classes_is_another() -> None:
    labelled = trace(40)
    assert compute_answer_quality(labelled) is None
    own_trace = _trace(
        [{"name": name, "cost": 1.0, "correct": name} for name in ("a", "b")],
        {"a": np.arange(40) % 2, "b": np.ones(40)},
        np.arange(40.0, dtype=np.float32)[:, None],
    )
    plan = fit(own_trace, QUICK.model_copy(update={"embeddings": True}), np.random.default_rng(0), BuildContext()).plan
    names = {"a": "x", "b": "y"}
    classes = [{"name": name, "cost": 1.0, "prediction": column} for name, column in names.items()]
    spec = TraceSpec.model_validate({"kind": "trace", "label": "l", "unit": "USD", "classifiers": classes})
    other = dataset_from_columns(spec, {each: np.arange(40) % 2 for each in "lxy"})
    with pytest.raises(InvalidRequest, match=r"dataset: must be a trace without classes, .* is a trace"):
        plan.cells_of(other)


def test_it_is_the_same_from_its_bytes_and_from_its_seed() -> None:
    fitted = built()
    data = encode(fitted.plan, {})
    again = fit(asked_trace(1500, 0), QUICK, np.random.default_rng(0), BuildContext()).plan
    assert encode(again, {}) == data
    query = PolicyQuery.model_validate({"tradeoff": 0.05, "acquired": {CHEAP: SURE}})
    assert decode(data, PolicyPlan).decide(query) == fitted.plan.decide(query)


@pytest.mark.parametrize(
    "broken",
    [
        {"answering": "combined"},
        {"classes": ("a", "b")},
        {"labelled": np.ones(1, dtype=np.bool_)},
        {"owners": np.array([-1], dtype=np.int32)},
        {"owners": np.array([7], dtype=np.int32)},
    ],
)
def test_somebodys_bytes_that_do_not_fit_are_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        replace(built().plan, **broken)


def test_its_summary_curve_and_worth_tell_of_single_classifiers() -> None:
    fitted = built()
    assert (fitted.summary["answering"], fitted.summary["classes"]) == ("taken", 0)
    assert fitted.savings is not None
    assert fitted.savings.baseline.name == f"{CHEAP}, then {STRONG} below 0.9"
    points = replay_settings(fitted.plan, asked_trace(2000, 5))
    assert [point.replay.costs.mean() for point in points] == sorted(point.replay.costs.mean() for point in points)
    assert all(float(point.replay.right.max()) <= 1 for point in points)


# runs


def finished(runner: Runner, said: dict[str, CallResult]) -> tuple[RunAnswer, list[Call]]:
    """Drive a runner with what classifiers say."""
    calls = [next(runner)]
    while True:
        try:
            calls.append(runner.send(CallResults(tuple(said[name] for name in calls[-1].names), 5.0)))
        except StopIteration as end:
            return end.value, calls


def text(name: str, confidence: float | None = None, error: str | None = None) -> CallResult:
    """Let a language model say its name."""
    said = None if error else f"says {name}"
    return CallResult(name, label=said, text=said, confidence=confidence, error=error, is_paid=True)


@pytest.mark.parametrize(
    ("cheap", "strong", "answer", "called", "degraded"),
    [
        (text(CHEAP, SURE), text(STRONG), CHEAP, [CHEAP], None),
        (text(CHEAP, UNSURE), text(STRONG, 0.4), STRONG, [CHEAP, STRONG], None),
        (text(CHEAP, UNSURE), text(STRONG, error="down"), CHEAP, [CHEAP, STRONG], "strong: down"),
        (text(CHEAP, error="down"), text(STRONG), STRONG, [CHEAP, STRONG], "cheap: down"),
        (text(CHEAP), text(STRONG), STRONG, [CHEAP, STRONG], "cheap: its reading is not valid for this policy"),
        (
            text(CHEAP),
            text(STRONG, error="down"),
            CHEAP,
            [CHEAP, STRONG],
            "cheap: its reading is not valid for this policy; strong: down",
        ),
    ],
)
def test_a_run_gives_the_text_of_the_one_that_is_taken(
    cheap: CallResult, strong: CallResult, answer: str, called: list[str], degraded: str | None
) -> None:
    runner = start_policy(built().plan, PolicyQuery(tradeoff=0.05, item="i"), left=5.0)
    got, calls = finished(runner, {CHEAP: cheap, STRONG: strong})
    assert (got.answered_by, got.text, got.label, got.degraded) == (
        answer,
        f"says {answer}",
        f"says {answer}",
        degraded,
    )
    assert [name for call in calls for name in call.names] == called


def test_a_run_without_any_answer_says_why() -> None:
    runner = start_policy(built().plan, PolicyQuery(tradeoff=0.05, item="i"), left=5.0)
    with pytest.raises(EndpointFailed, match="cheap: down; strong: away"):
        finished(runner, {CHEAP: text(CHEAP, error="down"), STRONG: text(STRONG, error="away")})


def test_what_is_taken_whatever_it_says_may_be_passed_on_while_it_comes() -> None:
    runner = start_policy(built("experts").plan, PolicyQuery(budget=1.2, item="i", embedding=(0.0, 0.0, 0.0)), left=5.0)
    _, calls = finished(runner, {EXPERTS[0]: text(EXPERTS[0])})
    assert [call.is_last for call in calls] == [True]
    _, (first, *_) = finished(
        start_policy(built().plan, PolicyQuery(tradeoff=0.05, item="i"), left=5.0), {CHEAP: text(CHEAP, SURE)}
    )
    assert not first.is_last


@pytest.mark.parametrize("seed", range(8))
def test_whatever_the_trace_something_answers_within_hard_budgets_and_steps_lead_where_rollouts_do(seed: int) -> None:
    """Of free, alike, perfect and hopeless classifiers too, one or many, with confidences, embeddings or both."""
    rng = np.random.default_rng(seed)
    rows, sensors = int(rng.integers(20, 60)), int(rng.integers(8, 15) if seed == 7 else rng.integers(1, 5))
    quality = np.full((rows, sensors), 0.5) if seed == 0 else rng.random((rows, sensors)).round(seed % 2)
    telling = rng.random(sensors) < 0.5
    classifiers: list[dict[str, Any]] = [
        {"name": f"m{m}", "cost": float(rng.choice([0, 1, 2, 1e-9, 1e6])), "quality": f"q{m}"}
        | ({"confidence": f"c{m}"} if telling[m] else {})
        for m in range(sensors)
    ]
    columns = {
        f"{what}{m}": quality[:, m] if what == "q" else rng.random(rows) for m in range(sensors) for what in "qc"
    }
    embeddings = rng.normal(size=(rows, 3)).astype(np.float32)
    dataset, embeds = _trace(classifiers, columns, embeddings), seed % 3 > 0 or not telling.any()
    options = PolicyOptions(trees=8, depth=2, folds=2, points=4, embeddings=embeds)
    plan = fit(dataset, options, np.random.default_rng(0), BuildContext()).plan
    cells, names = plan.cells_of(dataset), [str(row) for row in range(rows)]
    cheapest = float(dataset.costs.mean(axis=0).min())
    top = float(plan.point_bounds[-1])
    for target in (
        {},
        {"budget": float(plan.point_bounds[0])},
        {"budget": top, "max_item_cost": cheapest},
        {"tradeoff": 0},
    ):
        ran = plan.run(cells, names, PolicyTarget.model_validate(target))
        assert (ran.walks.ends > 0).all()
        assert ran.costs.max() <= target.get("max_item_cost", np.inf) * (1 + 1e-9)
        for row in range(3):
            acquired: dict[str, float | None] = {}
            known = {"embedding": embeddings[row].tolist()} if embeds else {}
            while isinstance(
                step := plan.decide(asked(target, item=str(row), acquired=acquired, **known)), AcquireDecision
            ):
                m = plan.sensors.index(step.sensor)
                acquired[step.sensor] = float(dataset.confidences[row, m]) if telling[m] else None
            assert isinstance(step, AnswerDecision)
            assert plan.sensors.index(step.answer) == ran.labels[row]


@pytest.mark.parametrize("limit", [{"tradeoff": 0.0}, {"budget": 20.0}, {"max_item_cost": 20.0}])
def test_what_was_acquired_before_it_failed_still_answers(limit: dict[str, float]) -> None:
    """All circuits may be open by then; nothing else is asked, and a failed one is not asked again."""
    plan = built().plan
    query = PolicyQuery.model_validate({"acquired": {CHEAP: UNSURE}, "excluded": (CHEAP, STRONG), **limit})
    decision = plan.decide(query)
    assert isinstance(decision, AnswerDecision)
    assert decision.answer == CHEAP
    assert plan.stop(query).answer == CHEAP  # type: ignore[union-attr]
    assert plan.expected_outcome(query) == (None, None, None)
    with pytest.raises(Infeasible, match="all sensors that can answer are excluded"):
        plan.decide(query.model_copy(update={"acquired": {}}))


@pytest.mark.parametrize("seed", range(6))
def test_both_limits_of_an_item_are_kept_or_refused_together(seed: int) -> None:
    """Cheap ones are slow here, and fast ones dear: within each limit something may answer, and within both nothing."""
    rng = np.random.default_rng(seed)
    rows, costs, times = 60, [1.0, 2.0, 6.0], [30.0, 12.0, 4.0]
    classifiers: list[dict[str, Any]] = [
        {"name": f"m{m}", "cost": cost, "time": time, "quality": f"q{m}", "confidence": f"c{m}"}
        for m, (cost, time) in enumerate(zip(costs, times, strict=True))
    ]
    columns = {f"{what}{m}": rng.random(rows) for m in range(3) for what in "qc"}
    dataset = _trace(classifiers, columns, time_unit="ms")
    options = PolicyOptions(trees=8, depth=2, folds=2, points=4)
    plan = fit(dataset, options, np.random.default_rng(0), BuildContext()).plan
    cells, names = plan.cells_of(dataset), [str(row) for row in range(rows)]
    refused = 0
    for _ in range(20):
        max_item_cost, deadline = float(rng.uniform(1, 9)), float(rng.uniform(4, 45))
        budget = 3.0 if rng.random() < 0.5 else None
        target = PolicyTarget(max_item_cost=max_item_cost, deadline=deadline, budget=budget)
        able = [m for m in range(3) if costs[m] <= max_item_cost and times[m] <= deadline]
        if not able:
            refused += 1
            with pytest.raises(Infeasible, match=rf"within both .*{max_item_cost:g} and .*{deadline:g}"):
                plan.run(cells, names, target)
            continue
        if budget is not None and min(costs[m] for m in able) > budget:
            with pytest.raises(Infeasible, match="the cheapest answer within the limits costs 6 USD, the budget is 3"):
                plan.run(cells, names, target)
            continue
        ran = plan.run(cells, names, target)
        ends = plan.members[ran.walks.ends]
        assert (ran.walks.ends > 0).all()
        assert (ends @ np.array(costs)).max() <= max_item_cost * (1 + 1e-9)
        assert (ends @ np.array(times)).max() <= deadline * (1 + 1e-9)
    assert refused


def test_a_deadline_that_only_one_that_is_never_asked_could_keep_is_refused() -> None:
    """Of twelve the fastest is the dearest, and always wrong: it is not among the ten that are asked."""
    rng = np.random.default_rng(0)
    classifiers: list[dict[str, Any]] = [
        {
            "name": f"m{m}",
            "cost": 1.0 + m,
            "time": 5.0 + m if m < 11 else 1.0,
            "quality": f"q{m}",
            "confidence": f"c{m}",
        }
        for m in range(12)
    ]
    columns = {f"c{m}": rng.random(60) for m in range(12)}
    columns |= {f"q{m}": columns[f"c{m}"] * (m < 11) for m in range(12)}
    options = PolicyOptions(trees=8, depth=2, folds=2, points=4)
    plan = fit(_trace(classifiers, columns, time_unit="ms"), options, np.random.default_rng(0), BuildContext()).plan
    for more in ({}, {"budget": 50.0}, {"max_item_cost": 50.0}):
        with pytest.raises(Infeasible, match=r"sensor that can answer takes up to \d+ ms; the deadline is 2"):
            plan.select_mixture(PolicyTarget.model_validate({"deadline": 2.0, **more}))


def test_something_answers_where_a_point_of_a_hard_budget_is_the_cheapest_and_a_deadline_bars_it() -> None:
    """Whichever of two slow ones costs less for an item is right about it, so that choosing is cheaper than either."""
    rng, rows = np.random.default_rng(0), 200
    own = rng.permutation(np.repeat([0.5, 1.5], rows // 2))
    costs = {"a": {"column": "own"}, "b": {"column": "other"}, "c": 2.0}
    classifiers: list[dict[str, Any]] = [
        {"name": name, "cost": cost, "time": 1.0 if name == "c" else 10.0, "quality": f"q{name}"}
        | {"confidence": f"x{name}"}
        for name, cost in costs.items()
    ]
    columns = {"own": own, "other": 2 - own, "qa": own < 1, "qb": own > 1, "qc": rng.random(rows)}
    columns |= {f"x{name}": rng.random(rows) for name in costs}
    embeddings = np.column_stack((own, rng.normal(size=(rows, 2)))).astype(np.float32)
    dataset = _trace(
        classifiers, {name: each.astype(float) for name, each in columns.items()}, embeddings, time_unit="ms"
    )
    options = PolicyOptions(trees=8, depth=2, folds=2, tradeoffs=(0.0,), embeddings=True)
    plan = fit(dataset, options, np.random.default_rng(0), BuildContext()).plan
    assert plan.point_caps[0] == 1.0
    for more in ({"budget": 2.0}, {"tradeoff": 0.1}, {"budget": 2.0, "max_item_cost": 2.0}):
        target = PolicyTarget.model_validate({"deadline": 5.0, **more})
        ran = plan.run(plan.cells_of(dataset), [str(row) for row in range(rows)], target)
        assert {plan.sensors[label] for label in ran.labels} == {"c"}
        assert set(plan.members[ran.walks.ends].sum(axis=1)) == {1}


@pytest.mark.parametrize("seed", range(4))
def test_those_fetched_together_are_asked_together_and_take_as_long_as_the_slower(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, costs, times = 60, np.array([1.0, 2.0, 4.0, 1.5]), np.array([10.0, 4.0, 7.0, 3.0])
    telling, parallel = rng.random(4) < 0.6, (("m0", "m2"), ("m1", "m3"))[: 1 + seed % 2]
    telling[0] = True
    classifiers: list[dict[str, Any]] = [
        {"name": f"m{m}", "cost": costs[m], "time": times[m], "quality": f"q{m}"}
        | ({"confidence": f"c{m}"} if telling[m] else {})
        for m in range(4)
    ]
    columns = {f"{what}{m}": rng.random(rows) for m in range(4) for what in "qc"}
    dataset = _trace(classifiers, columns, time_unit="ms")
    options = PolicyOptions(trees=8, depth=2, folds=2, points=4, parallel=parallel)
    plan = fit(dataset, options, np.random.default_rng(0), BuildContext()).plan
    for own in ([0, 2], *([[1, 3]] if seed % 2 else [])):
        assert (plan.members[:, own[0]] == plan.members[:, own[1]]).all()
    for target in ({}, {"budget": 7.0}, {"deadline": 10.0}, {"max_item_cost": 6.0, "deadline": 14.0}):
        ran = plan.run(plan.cells_of(dataset), [str(row) for row in range(rows)], PolicyTarget.model_validate(target))
        ends = plan.members[ran.walks.ends]
        assert (ran.walks.ends > 0).all()
        took = np.maximum(10.0 * ends[:, 0], 7.0 * ends[:, 2])
        both = np.maximum(4.0 * ends[:, 1], 3.0 * ends[:, 3])
        took += both if seed % 2 else ends[:, [1, 3]] @ times[[1, 3]]
        assert took.max() <= target.get("deadline", np.inf) * (1 + 1e-9)
        assert (ends @ costs).max() <= target.get("max_item_cost", np.inf) * (1 + 1e-9)
        step, acquired = plan.decide(asked(target, item="0", acquired={})), dict[str, float | None]()
        while isinstance(step, AcquireDecision):
            acquired |= {name: 0.5 if telling[int(name[1])] else None for name in (step.sensor, *step.together)}
            step = plan.decide(asked(target, item="0", acquired=acquired))
        assert isinstance(step, AnswerDecision)
        assert step.answer in acquired
        assert ("m0" in acquired) == ("m2" in acquired)


def test_what_was_paid_in_vain_ends_a_run_within_its_hard_budget() -> None:
    query = PolicyQuery(max_item_cost=5.5, item="i")
    failed = {
        CHEAP: CallResult(CHEAP, error="broken", is_paid=True),
        STRONG: CallResult(STRONG, error="broken", is_paid=True),
    }
    with pytest.raises(EndpointFailed, match="broken"):
        finished(start_policy(built().plan, query, left=5.0), failed)


def test_a_deadline_below_every_sensor_rejects_if_rejects_are_allowed() -> None:
    prices, skills = (1.0, 2.0), (0.5, 0.9)
    plans = [
        fit(
            several_trace(200, 1, prices, skills, time_unit="s", **more),
            QUICK,
            np.random.default_rng(0),
            BuildContext(),
        )
        for more in (dict[str, Any](), {"reject_cost": 0.3})
    ]
    with pytest.raises(Infeasible):
        plans[0].plan.decide(PolicyQuery(deadline=0.5))
    for limits in (dict[str, Any](), {"budget": 2.0}, {"tradeoff": 0.0}):
        assert isinstance(plans[1].plan.decide(PolicyQuery(deadline=0.5, **limits)), RejectDecision)
    assert isinstance(plans[1].plan.decide(PolicyQuery(deadline=5.0, tradeoff=0.0)), AcquireDecision)
