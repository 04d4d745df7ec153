"""Indexes of features that share set-up work, against all feature sets."""

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import FeaturesSpec, FeatureTable, dataset_from_columns
from models.index import IndexOptions, IndexQuery, Method
from solvers import BuildContext
from solvers.index import fit
from solvers.index.costs import SetCosts
from solvers.index.plan import IndexPlan
from solvers.setup_groups import NO_GROUPS, SetupGroups
from tests.oracles.index import Instance, costs_at, random_instance
from tests.oracles.setup import cost_of_set, costs_of_sets, random_groups
from tests.solvers.index.known_accuracies import plan_without_models
from tests.support.cases import case_count

METHODS: tuple[Method, ...] = ("poly-dom", "naive", "greedy", "greedy-acc", "greedy-cost")


def share_setup(rng: np.random.Generator, instance: Instance) -> SetCosts:
    """Add random groups to an instance; some of them cost nothing."""
    groups = random_groups(rng, instance.features)
    own = np.array(instance.coefficients)
    setup = rng.integers(0, 5, size=(len(groups), own.shape[1])) / 2
    return SetCosts(np.arange(own.shape[1])[:, None], np.concatenate((own, setup)), groups=groups)


def costs_at_size(costs: SetCosts, size: float) -> np.ndarray:
    return costs_of_sets(costs_at(costs.coefficients, size), costs.groups)


def chosen_mask(plan: IndexPlan, features: tuple[str, ...]) -> int:
    return sum(1 << plan.features.index(name) for name in features)


@pytest.mark.parametrize("seed", range(case_count(200, 60)))
def test_decisions_are_those_of_all_sets_and_cost_what_their_features_and_groups_do(seed: int) -> None:
    rng = np.random.default_rng(seed)
    instance = random_instance(rng, whole=seed % 2 == 0, most=5)
    costs = share_setup(rng, instance)
    plan = plan_without_models(instance.learn, costs).plan
    accuracies = np.array(instance.accuracies)
    for size in rng.uniform(1, 20, 5).tolist():
        every = costs_at_size(costs, size)
        for budget in (0.0, float(rng.choice(every)) * (1 + 1e-9), float(rng.uniform(0, every[-1]))):
            for method in METHODS:
                found = plan.decide(IndexQuery(size=size, budget=budget, method=method))
                mask = chosen_mask(plan, found.features)
                assert found.cost == pytest.approx(every[mask])
                assert found.cost <= budget
                if method in ("poly-dom", "naive"):
                    assert found.accuracy == accuracies[every <= budget].max()
        skyline = plan.list_skyline(size)
        assert [item.cost for item in skyline] == pytest.approx(
            [every[chosen_mask(plan, item.features)] for item in skyline]
        )
        assert plan.highest_cost(size) >= skyline[-1].cost


@pytest.mark.parametrize("seed", range(case_count(200, 40)))
def test_computed_features_have_paid_for_their_groups(seed: int) -> None:
    rng = np.random.default_rng(seed)
    instance = random_instance(rng, whole=seed % 2 == 0, most=5)
    costs = share_setup(rng, instance)
    plan = plan_without_models(instance.learn, costs, IndexOptions(any_time=True)).plan
    every, accuracies = costs_at_size(costs, 3.0), np.array(instance.accuracies)
    masks = np.arange(len(every))
    for computed in rng.integers(len(every), size=4).tolist():
        remaining = every[masks | computed] - every[computed]
        names = tuple(f"f{f}" for f in range(instance.features) if computed >> f & 1)
        budget = float(every[computed] + rng.uniform(0, every[-1]))
        for method in METHODS:
            found = plan.decide(IndexQuery(size=3.0, budget=budget, computed=names, method=method))
            mask = chosen_mask(plan, found.features)
            assert found.cost == pytest.approx(remaining[mask], abs=1e-9)
            if method == "poly-dom":
                assert found.accuracy == accuracies[every[computed] + remaining <= budget * (1 + 1e-12)].max()


@given(
    costs=st.lists(st.integers(0, 9), min_size=2, max_size=5),
    price=st.integers(0, 9),
    budget=st.integers(0, 60),
    seed=st.integers(0, 1000),
)
def test_trivial_groups_are_additive_costs(costs: list[int], price: int, budget: int, seed: int) -> None:
    features = len(costs)
    accuracies = np.sort(np.random.default_rng(seed).random(1 << features)).tolist()

    def decide(own: list[int], groups: SetupGroups = NO_GROUPS) -> tuple[tuple[str, ...], float, float]:
        priced = SetCosts(np.zeros((1, 0), dtype=np.int64), np.array(own, dtype=float)[:, None], groups=groups)
        plan = plan_without_models(lambda masks: [accuracies[mask] for mask in masks], priced).plan
        found = plan.decide(IndexQuery(budget=float(budget)))
        return found.features, found.accuracy, found.cost

    plain, first = decide(costs), np.arange(features) == 0
    of_all = SetupGroups(np.ones((1, features), dtype=bool))
    assert decide([*costs, 0], of_all) == plain
    assert decide([*costs, price], SetupGroups(first[None])) == decide([costs[0] + price, *costs[1:]])
    chosen, _, paid = decide([*costs, price], of_all)
    assert paid == cost_of_set([int(name[1:]) for name in chosen], [*costs, price], of_all)


def wide_table(rows: int, features: int) -> FeatureTable:
    """Draw more features than an index takes: the first three depend on the class, and share a group with the last."""
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=rows)
    values = rng.normal(size=(rows, features))
    values[:, :3] += labels[:, None]
    spec = {
        "kind": "features",
        "label": "y",
        "unit": "ms",
        "features": [{"name": f"x{at}", "columns": [f"x{at}"], "cost": 1.0} for at in range(features)],
        "setup": [
            {"name": "first", "cost": 5.0, "features": ["x0", "x1", "x2", *(f"x{at}" for at in range(15, features))]},
            {"name": "last", "cost": 3.0, "features": [f"x{at}" for at in range(18, features)]},
        ],
    }
    columns: dict[str, Any] = {f"x{at}": column for at, column in enumerate(values.T)} | {"y": labels}
    dataset = dataset_from_columns(FeaturesSpec.model_validate(spec), columns)
    assert isinstance(dataset, FeatureTable)
    return dataset


@pytest.mark.slow
def test_features_left_out_of_the_index_have_paid_for_their_groups() -> None:
    table = wide_table(200, 23)
    plan = fit(table, IndexOptions(folds=2, max_models=60), np.random.default_rng(0), BuildContext()).plan
    assert len(plan.left_out) == 3
    groups = {group.name: (float(group.cost), group.features) for group in table.spec.setup}  # type: ignore[arg-type]

    def cost_of(names: Collection[str]) -> float:
        return len(names) + sum(cost for cost, own in groups.values() if not {*own}.isdisjoint(names))

    for budget in (0.0, 5.5, 8.0, 40.0):
        found = plan.decide(IndexQuery(budget=budget))
        assert found.cost == pytest.approx(cost_of(found.features))
    assert any(name in own for name in plan.left_out for _, own in groups.values())
    for computed in (plan.left_out, plan.left_out[:1], (*plan.left_out[:2], "x0"), ("x0",)):
        for method in METHODS:
            found = plan.decide(IndexQuery(budget=40.0, computed=computed, method=method))
            both = {*computed, *found.features}
            assert found.cost == pytest.approx(cost_of(both) - cost_of(computed))
            assert cost_of(both) <= 40.0
        spent = plan.decide(IndexQuery(budget=20.0, computed=computed, spent=1.0))
        assert spent.cost == pytest.approx(cost_of({*computed, *spent.features}) - cost_of(computed))
