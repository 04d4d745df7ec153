"""Limits between those learned for: what serves them is the best of what is tried, and what is said comes true."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import FeaturesSpec, FeatureTable, InvalidRequest, dataset_from_columns
from models.arrays import Floats
from models.policy import PolicyOptions, PolicyTarget
from solvers.policy import PolicyPlan
from solvers.policy.graph import Graph
from solvers.policy.served_limits import LARGER, Judged, serve
from tests.solvers.policy.problems import build

GROWN = PolicyOptions(graph="grown", points=5, folds=2, trees=8, depth=3, answers="boosted")
DEPTH, FEATURES = 4, 14


def nested(rows: int, seed: int, draw: int) -> FeatureTable:
    """Draw a table whose class a tree of thresholds tells, four deep: sets half as dear as the best tell little."""
    world, rng = np.random.default_rng(seed), np.random.default_rng(draw)
    asked, cuts = world.integers(0, FEATURES, 15), world.uniform(0.3, 0.7, 15)
    classes, costs = world.integers(0, 3, 16), world.integers(1, 6, FEATURES)
    values, at = rng.random((rows, FEATURES)), np.zeros(rows, dtype=np.int64)
    for _ in range(DEPTH):
        at = 2 * at + 1 + (values[np.arange(rows), asked[at]] > cuts[at])
    labels = np.where(rng.random(rows) < 0.05, rng.integers(0, 3, rows), classes[at - 15])
    names = [f"f{place}" for place in range(FEATURES)]
    features = [{"name": name, "columns": [name], "cost": float(cost)} for name, cost in zip(names, costs, strict=True)]
    spec = FeaturesSpec.model_validate({"kind": "features", "label": "y", "unit": "ms", "features": features})
    table = dataset_from_columns(spec, {"y": labels.astype(str), **dict(zip(names, values.T, strict=True))})
    assert isinstance(table, FeatureTable)
    return table


@cache
def grown(seed: int) -> tuple[PolicyPlan, FeatureTable]:
    """Build from a drawn table, and draw a fresh one."""
    return build(nested(600, seed, 1000 + seed), GROWN), nested(3_000, seed, 77 + seed)


def accuracy(plan: PolicyPlan, fresh: FeatureTable, hard: float) -> float:
    """Run unseen rows within a hard budget: the share that is answered rightly."""
    ran = plan.run(plan.cells_of(fresh), [str(row) for row in range(fresh.rows)], PolicyTarget(hard_budget=hard))
    assert ran.costs.max() <= hard * (1 + 1e-9)
    return float((np.array(plan.classes)[ran.labels] == np.array(fresh.classes)[fresh.labels]).mean())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_hard_budget_between_two_learned_for_is_no_worse_than_the_smaller(seed: int) -> None:
    """Decisions of the larger one, cut short, were up to 9 points behind."""
    plan, fresh = grown(seed)
    for cap, larger in zip(plan.caps[:-1], plan.caps[1:], strict=True):
        assert accuracy(plan, fresh, 0.45 * cap + 0.55 * larger) > accuracy(plan, fresh, cap) - 0.01


def test_what_is_said_never_falls_with_the_budget_and_comes_true() -> None:
    plan, fresh = grown(3)
    budgets = np.linspace(float(plan.caps[0]), float(plan.costs.sum()), 60).tolist()
    said = np.array([plan.reached(PolicyTarget(hard_budget=budget))[0] for budget in budgets], dtype=np.float64)
    assert np.all(np.diff(said) >= 0)
    met = np.array([accuracy(plan, fresh, budget) for budget in budgets])
    assert float((said - met).mean()) == pytest.approx(0.0, abs=0.03)


def test_an_older_plan_is_served_by_what_was_learned_for() -> None:
    plan, _ = grown(3)
    older = replace(plan, cap_limits=np.empty(0), cap_places=np.empty(0, dtype=np.int32), cap_limit_errors=np.empty(0))
    for cap, error in zip(plan.caps.tolist(), np.minimum.accumulate(plan.cap_errors).tolist(), strict=True):
        assert older.reached(PolicyTarget(hard_budget=cap * 1.0001))[0] == pytest.approx(1 - error)


@pytest.mark.parametrize(
    ("field", "value"), [("cap_places", 99), ("cap_limits", -1.0), ("cap_limit_errors", 2.0), ("cap_places", -1)]
)
def test_forged_limits_are_refused(field: str, value: float) -> None:
    plan, _ = grown(3)
    forged = getattr(plan, field).copy()
    forged[0] = value
    with pytest.raises(InvalidRequest):
        replace(plan, **{field: forged})


def drawn(rng: np.random.Generator, rows: int = 40) -> tuple[Judged, Floats, Floats, Floats]:
    """Draw what every row would do in a small graph under three limits learned for, and what is said of these."""
    graph = Graph.of(3)
    costs = rng.integers(1, 5, 3).astype(float)
    amounts = graph.members @ costs
    advantages = [
        rng.normal(size=(rows, len(graph.actions_of(node)), 3)).astype(np.float32) for node in range(len(graph))
    ]
    observed = (rng.random((len(graph), rows)) < 0.4).astype(float)
    learned = np.sort(rng.choice(np.unique(amounts)[1:], 3, replace=False))
    return Judged(graph, advantages, observed, np.arange(rows) % 4), amounts, learned, rng.random(3)


def walked(judged: Judged, amounts: Floats, limit: float, place: int, row: int) -> float:
    """Walk one row in the plainest way: whether it errs."""
    node = 0
    while True:
        targets = judged.graph.actions_of(node).tolist()
        able = [
            (judged.advantages[node][row, k, place], target)
            for k, target in enumerate(targets)
            if amounts[target] <= limit
        ]
        if not able or min(able)[0] >= 0:
            return float(judged.observed[node, row])
        node = min(able)[1]


@given(st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_each_limit_is_served_by_the_best_of_what_is_tried_unless_a_smaller_one_is_better(seed: int) -> None:
    judged, amounts, learned, said = drawn(np.random.default_rng(seed))
    served = serve(judged, amounts, learned, said, 0)
    assert np.all(np.diff(served.limits) > 0)
    assert np.all(np.diff(served.errors) <= 1e-12)
    assert served.limits[0] == learned[0]
    rows, before = range(len(judged.folds)), np.full(len(judged.folds), np.inf)
    for limit in sorted({each for each in amounts.tolist() if each >= learned[0]}):
        below = int((learned <= limit).sum()) - 1
        most = min(below + 1 + LARGER, len(learned))
        tried = {
            place: np.array([walked(judged, amounts, min(limit, learned[place]), place, row) for row in rows])
            for place in range(below, most)
        }
        best = min(tried, key=lambda place: (float(tried[place].mean()), place))
        more = tried[best] - before
        if limit in served.limits.tolist():
            assert served.places[served.limits.tolist().index(limit)] == best
            before = tried[best]
        else:
            assert more.mean() > more.std() / np.sqrt(len(more)), "left out, but no smaller limit is surely better"


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_the_order_of_rows_makes_no_difference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    judged, amounts, learned, said = drawn(rng)
    order = rng.permutation(len(judged.folds))
    turned = Judged(
        judged.graph, [each[order] for each in judged.advantages], judged.observed[:, order], judged.folds[order]
    )
    one, other = serve(judged, amounts, learned, said, 0), serve(turned, amounts, learned, said, 0)
    assert np.array_equal(one.places, other.places)
    assert one.errors == pytest.approx(other.errors)
