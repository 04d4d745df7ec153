"""Accept thresholds by predicted label: exact inversion, better answers where labels matter, and none where not."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.serving.inference_graph import inference_graph
from models import InvalidRequest, Trace, TraceSpec, dataset_from_columns
from models.cascade import CascadeOptions, CascadeQuery
from parsimony.runs.steps import Call, CallResult, CallResults, RunAnswer
from solvers.base import BuildContext
from solvers.cascade import CascadePlan, fit, kind
from solvers.cascade.frontier.calibration import calibrate_confidences, fit_label_effects
from solvers.cascade.setting_replays import replay_frontier
from solvers.evaluation import items_from_dataset
from solvers.kind import RunContext

LABELS = ("a", "b", "c")


def trace(rows: int, seed: int, bias: float = 2.0) -> Trace:
    """Draw answers of a cheap classifier that is right more often about a than about b by ``bias`` log-odds."""
    rng = np.random.default_rng(seed)
    predicted, confidence = rng.integers(0, 3, rows), rng.uniform(0.05, 0.95, rows).round(2)
    log_odds = 3 * (confidence - 0.5) + bias * np.array([1.0, -1.0, 0.0])[predicted]
    right = rng.random(rows) < 1 / (1 + np.exp(-log_odds))
    truth = np.where(right, predicted, (predicted + rng.integers(1, 3, rows)) % 3)
    strong = np.where(rng.random(rows) < 0.95, truth, (truth + 1) % 3)
    columns = {"truth": np.array(LABELS, dtype=object)[truth], "sure": confidence, "strong sure": np.full(rows, 0.5)}
    columns |= {"cheap": np.array(LABELS, dtype=object)[predicted], "strong": np.array(LABELS, dtype=object)[strong]}
    spec = {
        "kind": "trace",
        "label": "truth",
        "unit": "USD",
        "classifiers": [
            {"name": "small", "prediction": "cheap", "confidence": "sure", "cost": 1.0},
            {"name": "large", "prediction": "strong", "confidence": "strong sure", "cost": 10.0},
        ],
    }
    made = dataset_from_columns(TraceSpec.model_validate(spec), columns)
    assert isinstance(made, Trace)
    return made


def build(dataset: Trace, **options: Any) -> CascadePlan:
    return fit(dataset, CascadeOptions(**options), np.random.default_rng(0), BuildContext()).plan


@pytest.fixture(scope="module")
def plan() -> CascadePlan:
    return build(trace(2_000, 1))


@given(seed=st.integers(0, 10_000), level=st.floats(0, 1))
def test_a_threshold_by_label_accepts_what_the_calibrated_level_accepts(seed: int, level: float) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(120, 300))
    confidences, labels = rng.random(n).round(int(rng.integers(1, 4))), rng.integers(-1, 3, n)
    quality = (rng.random(n) < np.clip(confidences + 0.3 * (labels - 1), 0, 1)).astype(float)
    found = calibrate_confidences(confidences, quality, np.arange(n), labels, 3)
    if rng.integers(2):
        level = float(rng.choice(found.values))
    thresholds = found.find_thresholds(level)
    accepted = confidences >= (thresholds[labels] if len(found.effects) else thresholds[0])
    level = float(np.clip(level, 1e-6, 1 - 1e-6)) if len(found.effects) else level
    certain = np.abs(found.values - level) > 1e-13  # rounding
    np.testing.assert_array_equal(accepted[certain], found.values[certain] >= level)
    for label in range(-1, 3):
        order = np.argsort(confidences[labels == label], kind="stable")
        assert np.all(np.diff(found.values[labels == label][order]) >= -1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_effects_maximize_the_penalized_likelihood(seed: int) -> None:
    rng = np.random.default_rng(seed)
    curve, labels, penalty = rng.uniform(0.01, 0.99, 90), rng.integers(0, 4, 90), float(rng.uniform(0.5, 20))
    quality = rng.random(90)
    effects = fit_label_effects(curve, quality, labels, 5, penalty)

    def likelihood(tried: Any) -> float:
        values = np.log(curve / (1 - curve)) + tried[labels]
        return float((quality * values - np.logaddexp(0, values)).sum() - penalty * (tried**2).sum() / 2)

    best = likelihood(effects)
    assert effects[4] == 0
    for _ in range(40):
        assert likelihood(effects + rng.normal(0, 0.1, 5)) <= best + 1e-9


def accuracies(plan: CascadePlan, unseen: Trace, budgets: list[float]) -> list[float]:
    """Return the share of unseen rows that the mixture of each budget answers correctly."""
    replays = replay_frontier(plan, unseen, np.arange(unseen.rows))
    points = [point for _, point in plan.list_reachable_points()]
    found = []
    for budget in budgets:
        chosen = plan.select_points(CascadeQuery(budget=budget, item="x"))
        assert chosen is not None
        first, second = (replays[points.index(at)].replay.right.mean() for at in (chosen.first, chosen.second))
        found.append(float(first + chosen.share * (second - first)))
    return found


def test_labels_that_matter_gain_at_every_budget(plan: CascadePlan) -> None:
    unseen, common = trace(20_000, 2), build(trace(2_000, 1), label_thresholds=False)
    assert not common.point_labels
    own, shared = (np.array(accuracies(one, unseen, [2.0, 4.0, 6.0, 8.0])) for one in (plan, common))
    gains = own - shared
    assert gains.min() > 0.01
    assert gains.max() > 0.04


@pytest.mark.slow
def test_what_is_promised_holds_on_unseen_rows() -> None:
    """Over 20 builds, accuracies and costs of points are within 1.96 standard errors in about 95 of 100 cases."""
    unseen, within = trace(40_000, 3), []
    for seed in range(20):
        plan = build(trace(600, 100 + seed))
        replays = replay_frontier(plan, unseen, np.arange(unseen.rows))
        for (_, point), one in zip(plan.list_reachable_points(), replays, strict=True):
            if len(plan.describe_point(point)["cascade"]) > 1:
                errors = plan.point_accuracy_errors[point], plan.point_cost_errors[point]
                off = (
                    one.replay.right.mean() - plan.point_accuracies[point],
                    one.replay.costs.mean() - plan.point_costs[point],
                )
                within.append(np.abs(off) <= 1.96 * np.array(errors))
    assert np.mean(within, axis=0).min() > 0.88


@pytest.mark.slow
def test_labels_without_effects_have_no_thresholds_of_their_own() -> None:
    chosen = [len(build(trace(800, seed, bias=0.0)).point_labels) for seed in range(10)]
    assert sum(count > 0 for count in chosen) <= 3


def test_evaluations_and_runs_accept_by_the_label(plan: CascadePlan) -> None:
    unseen = trace(500, 4)
    replays = replay_frontier(plan, unseen, np.arange(unseen.rows))
    items = items_from_dataset(unseen)
    compared = 0
    for (limits, point), one in zip(plan.list_reachable_points(), replays, strict=True):
        query = CascadeQuery.model_validate(limits)
        chosen = plan.select_points(query)
        assert chosen is not None
        if chosen.share == 0 and chosen.first == point:
            np.testing.assert_allclose(kind.evaluate(plan, query, items).costs, one.replay.costs)
            compared += 1
    assert compared > 3
    step = next(filter(None, (first_step(plan, point) for point in range(len(plan.point_maxima)))))
    assert step.get_threshold("a") < step.get_threshold("c") < step.get_threshold("b")
    between = (step.get_threshold("a") + step.get_threshold("b")) / 2
    query = CascadeQuery(budget=5.0)
    assert [run(plan, query, label, between).label for label in ("a", "b")] == ["a", "c"]


def first_step(plan: CascadePlan, point: int) -> Any:
    """Return the first step of a point, if its thresholds depend on all labels; else None."""
    step = plan._point_answer(point)["steps"][0]
    return step if len(step.label_thresholds) >= 2 else None


def run(plan: CascadePlan, query: CascadeQuery, label: str, confidence: float) -> RunAnswer:
    """Run an item for which the small classifier gives this answer, and the large one answers c."""
    started = kind.start_run(plan, query, RunContext(remaining_seconds=10.0))
    try:
        call: Call = next(started.runner)
        while True:
            answers = {"small": (label, confidence), "large": ("c", 0.9)}
            results = tuple(CallResult(name, *answers[name]) for name in call.names)
            call = started.runner.send(CallResults(results, 10.0))
    except StopIteration as ended:
        answer: RunAnswer = ended.value
        return answer


def test_graphs_that_compare_only_confidences_refuse_thresholds_by_label(plan: CascadePlan) -> None:
    with pytest.raises(InvalidRequest, match="label_thresholds"):
        inference_graph("x", plan.decide(CascadeQuery(budget=5.0)), "confidence")
    assert inference_graph("x", plan.decide(CascadeQuery()), "confidence")
