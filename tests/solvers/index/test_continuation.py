"""Going on with some features computed and part of the budget spent, against all feature sets."""

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest

from models.arrays import Floats, Int64s
from models.index import IndexOptions, IndexQuery
from solvers.base import BuildContext
from solvers.index import IndexPlan, expand_lattice, fit
from solvers.index.candidates import choose_any_time_sets
from solvers.index.continuation import ReachableSets
from solvers.index.costs import list_members
from tests.oracles.index import Instance, costs_at, random_instance, small_table
from tests.solvers.index.known_accuracies import plan_without_models
from tests.support.cases import case_count, first_quick


def cost_after(costs: Floats, masks: Int64s, known: int) -> Floats:
    return np.asarray(costs[masks & ~known])


@pytest.mark.parametrize("tolerance", [0.0, 0.1])
@pytest.mark.parametrize("alpha", first_quick([0.05, 0.0, 0.3]))
def test_the_best_reachable_set_is_that_of_all_sets_within_alpha(alpha: float, tolerance: float) -> None:
    """150 instances, every set of computed features, several budgets; whole numbers make ties and exact fits."""
    compared = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        instance = random_instance(rng, violation=tolerance, whole=seed % 2 == 0, most=6)
        expanded = expand_lattice(instance.learn, instance.features, alpha=alpha, tolerance=tolerance)
        kept = expanded.select(choose_any_time_sets(expanded, alpha=alpha))
        chosen = ReachableSets.from_sets(kept.masks, kept.accuracies, instance.features)
        size = float(rng.integers(1, 9))
        costs = costs_at(instance.curves(), size)
        prices = costs[1 << np.arange(instance.features)]
        accuracies = np.array(instance.accuracies)
        every = np.arange(len(costs))
        for computed in every.tolist():
            owed = costs[every & ~computed]
            for left in (0.0, float(rng.choice(owed)), float(rng.uniform(0, costs[-1]))):
                mask, accuracy, cost = chosen.find_best(computed, prices, left, 0.0, partial(cost_after, costs))
                assert cost <= left
                assert cost == pytest.approx(owed[mask])
                assert accuracy == instance.accuracies[mask]
                assert (1 + alpha) * accuracy >= accuracies[owed <= left].max() - 1e-12
                compared += 1
    assert compared > 5_000


def test_candidates_alone_can_miss_the_best_reachable_set() -> None:
    """f1 is dearer than f0 and no better, so no candidate; once it is paid for, it is all that there is."""
    instance = Instance([0.5, 0.8, 0.8, 0.8], [[1.0], [2.0]])
    built = plan_without_models(instance.learn, instance.costs)
    assert [built.plan.masks[place] for place in built.plan.candidates] == [1, 0]
    assert built.plan.decide(IndexQuery(size=1.0, budget=2.0, computed=("f1",))).features == ("f1",)
    assert sorted(built.expanded.masks[choose_any_time_sets(built.expanded)].tolist()) == [0, 1, 2]


def test_replacements_do_not_compound() -> None:
    """Each set is within alpha of its subset, the last within alpha of no set that stays but itself."""
    levels = [0.5, 0.54, 0.5, 0.58]
    expanded = expand_lattice(Instance(levels, [[1.0], [1.0]]).learn, 2, alpha=0.1, tolerance=1.0)
    assert expanded.masks[choose_any_time_sets(expanded, alpha=0.1)].tolist() == [0, 3]


def test_going_on_at_exactly_the_budget_reaches_the_set_that_was_decided() -> None:
    """However the decided features are split into those computed and those to come, nothing is lost to rounding."""
    compared = 0
    for seed in range(case_count(200, 70)):
        rng = np.random.default_rng(seed)
        instance = random_instance(rng, most=6)
        plan = plan_without_models(instance.learn, instance.costs).plan
        size = float(rng.uniform(1, 50))
        first = plan.decide(IndexQuery(size=size, budget=float(rng.uniform(0, 60))))
        for count in range(1, len(first.features) + 1):
            query = IndexQuery(size=size, budget=first.cost, computed=first.features[:count])
            again = plan.decide(query)
            assert again.accuracy >= first.accuracy
            compared += 1
    assert compared > case_count(250, 80)


def without_models(plan: IndexPlan) -> IndexPlan:
    """Give a plan that chooses among all sets whose accuracy it knows."""
    none = np.zeros(0, np.int32)
    return replace(plan, model_sets=none, model_offsets=np.zeros(1, np.int64), model_numbers=np.zeros(0))


def queries(plan: IndexPlan) -> list[IndexQuery]:
    asked = []
    for computed, budget in product(range(1 << len(plan.features)), (1.0, 2.5, 4.0)):
        names = tuple(plan.features[f] for f in list_members(computed))
        asked.append(IndexQuery(size=2.0, budget=budget, computed=names, spent=0.5))
    return asked


def test_a_build_keeps_the_models_that_going_on_can_need() -> None:
    table = small_table()
    plan = fit(table, IndexOptions(folds=2, tolerance=1.0), np.random.default_rng(0), BuildContext()).plan
    assert len(plan.masks) == 16  # nothing was skipped
    every = without_models(plan)
    for query in queries(plan):
        decision = plan.decide(query)
        assert decision.accuracy == every.decide(query).accuracy
        assert plan.predict(decision, [dict.fromkeys(("c0", "c1", "c2", "c3"), 0.5)]).labels


def test_a_build_for_whole_decisions_only_keeps_fewer_models() -> None:
    table = small_table()
    options = IndexOptions(folds=2, tolerance=1.0, any_time=False)
    plan = fit(table, options, np.random.default_rng(0), BuildContext()).plan
    full = fit(table, options.model_copy(update={"any_time": True}), np.random.default_rng(0), BuildContext()).plan
    assert set(plan.model_sets.tolist()) < set(full.model_sets.tolist())
    asked = queries(plan)
    assert all(plan.decide(query).accuracy <= full.decide(query).accuracy for query in asked)
    assert any(plan.decide(query).accuracy < full.decide(query).accuracy for query in asked)


def test_a_fixed_budget_may_be_spent_in_parts() -> None:
    """Sets that the whole budget would never choose are there when a part of it is left."""
    table = small_table()
    options = IndexOptions(folds=2, tolerance=1.0, fixed_budget=4.0)
    plan = fit(table, options, np.random.default_rng(0), BuildContext()).plan
    every = without_models(plan)
    for spent in (0.0, 1.0, 2.0, 3.5, 9.0):
        query = IndexQuery(size=2.0, budget=4.0, spent=spent, computed=("f0",))
        assert plan.decide(query).accuracy == every.decide(query).accuracy
