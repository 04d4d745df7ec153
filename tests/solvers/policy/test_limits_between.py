"""Limits between those learned for: a smaller one serves them, and what is said comes true."""

from functools import cache

import numpy as np
import pytest

from models import FeaturesSpec, FeatureTable, dataset_from_columns
from models.policy import PolicyOptions, PolicyTarget
from solvers.policy import PolicyPlan
from tests.solvers.policy.problems import QUICK, build, features

GROWN = PolicyOptions(graph="grown", points=5, folds=2, trees=8, depth=3)
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
    ran = plan.run(plan.cells_of(fresh), [str(row) for row in range(fresh.rows)], PolicyTarget(max_item_cost=hard))
    assert ran.costs.max() <= hard * (1 + 1e-9)
    return float((np.array(plan.classes)[ran.labels] == np.array(fresh.classes)[fresh.labels]).mean())


def test_a_budget_that_the_hard_budget_keeps_by_itself_changes_no_decision() -> None:
    dataset = features()
    plan = build(dataset, QUICK)
    cells, items = plan.cells_of(dataset), [str(row) for row in range(dataset.rows)]
    differs = []
    for share in (0.3, 0.5, 0.8):
        hard = share * float(plan.costs.sum())
        alone, *both = (
            plan.run(cells, items, PolicyTarget.model_validate({"max_item_cost": hard, **more}))
            for more in ({}, {"budget": hard}, {"budget": 2 * hard}, {"budget": 0.5 * hard})
        )
        for each in both[:2]:
            assert np.array_equal(each.labels, alone.labels)
            assert each.costs == pytest.approx(alone.costs)
        differs.append(not np.array_equal(both[2].costs, alone.costs))
    assert any(differs)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.slow
def test_a_hard_budget_between_two_learned_for_is_no_worse_than_the_smaller(seed: int) -> None:
    """Decisions of the larger one, cut short, were up to 9 points behind."""
    plan, fresh = grown(seed)
    for cap, larger in zip(plan.caps[:-1], plan.caps[1:], strict=True):
        assert accuracy(plan, fresh, 0.45 * cap + 0.55 * larger) > accuracy(plan, fresh, cap) - 0.01


@pytest.mark.slow
def test_what_is_said_never_falls_with_the_budget_and_comes_true() -> None:
    plan, fresh = grown(3)
    budgets = np.linspace(float(plan.caps[0]), float(plan.costs.sum()), 60).tolist()
    said = np.array(
        [plan.expected_outcome(PolicyTarget(max_item_cost=budget))[0] for budget in budgets], dtype=np.float64
    )
    assert np.all(np.diff(said) >= 0)
    met = np.array([accuracy(plan, fresh, budget) for budget in budgets])
    assert float((said - met).mean()) == pytest.approx(0.0, abs=0.03)
