"""Baselines are what everybody writes: no artifact is said to save what two classifiers and a threshold save."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import Trace, TraceSpec
from models.arrays import Floats
from solvers import KINDS, BuildContext, two_stage_rules
from solvers.savings import BaselineReplays, Replay, measure_savings
from solvers.trace_baselines import find_current_baseline, replay_baselines_on, replay_trace_baselines
from solvers.two_stage_rules import tune_two_stages


def trace(rows: int, seed: int, *, dimensions: int = 0) -> Trace:
    """Draw a cheap classifier that knows when it is right, and an expensive one; embeddings tell what is hard."""
    rng = np.random.default_rng(seed)
    hard = rng.normal(size=rows)
    chances = 1 / (1 + np.exp(np.column_stack((2 * hard - 1.5, 0.5 * hard - 3))))
    right = rng.random((rows, 2)) < chances
    columns: dict[str, Any] = {}
    for j, (name, cost) in enumerate((("cheap", 1.0), ("strong", 10.0))):
        columns[f"{name}_correct"] = right[:, j].astype(float)
        columns[f"{name}_sure"] = np.clip(chances[:, j] + 0.02 * rng.normal(size=rows), 0, 1)
        columns[f"{name}_usd"] = np.full(rows, cost)
    spec = {
        "kind": "trace",
        "unit": "USD",
        "classifiers": [
            {
                "name": name,
                "correct": f"{name}_correct",
                "confidence": f"{name}_sure",
                "cost": {"column": f"{name}_usd"},
            }
            for name in ("cheap", "strong")
        ],
    }
    vectors = np.column_stack([hard, rng.normal(size=(rows, max(dimensions - 1, 0)))])[:, :dimensions]
    return Trace.from_columns(
        TraceSpec.model_validate(spec), columns, vectors.astype(np.float32) if dimensions else None
    )


@given(st.integers(0, 10_000), st.integers(2, 4), st.integers(4, 30))
@settings(max_examples=60, deadline=None)
def test_rules_are_the_hull_of_all_pairs_and_thresholds(seed: int, k: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    confidences, right = rng.random((n, k)), (rng.random((n, k)) < 0.6).astype(float)
    costs = np.tile(rng.uniform(1, 5, k), (n, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(two_stage_rules, "MAX_RULES", 1000)
        rules = tune_two_stages(confidences, right, costs, lambda i, j: costs[:, i] + costs[:, j])
    pairs = [(i, j) for i in range(k) for j in range(k) if i != j]
    every = [_walk(i, j, t, confidences, right, costs) for i, j in pairs for t in np.sort(confidences[:, i])[1:]]
    own = [_walk(rule.first, rule.second, rule.threshold, confidences, right, costs) for rule in rules]
    for price in np.geomspace(0.01, 1, 9).tolist():
        best, found = (min(price * cost + error for cost, error in points) for points in (every, own))
        assert found == pytest.approx(best)
    assert [cost for cost, _ in own] == sorted(cost for cost, _ in own)
    assert len(tune_two_stages(confidences, right, costs, lambda i, j: costs[:, i] + costs[:, j])) <= 8


def _walk(i: int, j: int, threshold: float, confidences: Floats, right: Floats, costs: Floats) -> tuple[float, float]:
    onward = confidences[:, i] < threshold
    return float((costs[:, i] + onward * costs[:, j]).mean()), float(
        1 - np.where(onward, right[:, j], right[:, i]).mean()
    )


def test_a_cascade_of_two_classifiers_saves_nothing_compared_with_the_pair_it_is() -> None:
    savings = (
        KINDS["cascade"]
        .fit(trace(3000, 0), KINDS["cascade"].options(), np.random.default_rng(0), BuildContext())
        .savings
    )
    assert savings is not None
    assert not savings.has_savings or (savings.saved or 0.0) < 0.05
    assert savings.today is not None
    assert savings.today.name == "always strong"
    assert savings.today.saved_interval is not None
    assert savings.today.saved_interval[0] > 0.05  # compared with today's bill it does save
    assert any(one.name.startswith("cheap, then strong below") for one in savings.baselines)


@pytest.mark.slow
def test_a_portfolio_is_compared_with_a_logistic_router() -> None:
    data = trace(1500, 1, dimensions=3)
    artifact_kind = KINDS["portfolio"]
    options = artifact_kind.options.model_validate({"curve_points": 5})
    savings = artifact_kind.fit(data, options, np.random.default_rng(0), BuildContext()).savings
    assert savings is not None
    assert sum(one.name.startswith("a logistic router") for one in savings.baselines) >= 5
    assert savings.verdict in ("not significant", "worse") or max(savings.saved or 0.0, savings.gained) < 0.1


def test_the_router_is_as_good_on_fresh_rows_as_on_those_that_report() -> None:
    data, fresh = trace(2000, 2, dimensions=3), trace(8000, 3, dimensions=3)
    learned, reporting = np.arange(1000), np.arange(1000, 2000)
    here, there = replay_trace_baselines(data, learned), replay_baselines_on(data.take(learned), fresh)
    assert here.keys() == there.keys()
    for name, replay in here.items():
        assert replay.take(reporting).right.mean() == pytest.approx(there[name].right.mean(), abs=0.05), name
        assert replay.take(reporting).costs.mean() == pytest.approx(there[name].costs.mean(), abs=0.9), name
        if "router" in name:  # cross-fitted where it was tuned, so it promises no more there
            assert replay.take(learned).right.mean() == pytest.approx(there[name].right.mean(), abs=0.05), name


def test_todays_bill_is_always_the_most_accurate_classifier() -> None:
    rng = np.random.default_rng(0)
    right = (rng.random((500, 3)) < (0.6, 0.8, 0.9)).astype(float)
    replays = {f"always {name}": Replay(right[:, k], np.full(500, 1.0 + k)) for k, name in enumerate("abc")}
    plan = Replay(right[:, 1], np.full(500, 1.5))
    savings = measure_savings("it", plan, BaselineReplays.from_replays(replays, np.arange(500), "always c", "USD"), rng)
    assert savings.today is not None
    assert (savings.today.name, savings.today.cost) == ("always c", 3.0)
    assert savings.today.saved == pytest.approx(0.5)
    assert savings.today.saved_interval == pytest.approx((0.5, 0.5))
    assert find_current_baseline([], trace(500, 0), np.arange(500)) == "always strong"


@pytest.mark.parametrize("kind", ["pipeline", "policy", "index"])
def test_feature_tables_are_compared_with_all_features_and_with_two_stages(kind: str) -> None:
    from tests.support.replays import World

    artifact_kind = KINDS[kind]
    params: dict[str, Any] = {"folds": 3} if kind in ("policy", "index") else {}
    savings = artifact_kind.fit(
        World.of(3, 300).dataset("index"),
        artifact_kind.options.model_validate(params),
        np.random.default_rng(0),
        BuildContext(),
    ).savings
    assert savings is not None
    assert savings.today is not None
    assert savings.today.cost == max(one.cost for one in savings.baselines if ", then" not in one.name)
    if kind != "index":  # of one size, its sets cost the same for all items
        assert any(", then" in one.name for one in savings.baselines)
