"""One way for all items where nothing learned is surely better: what it costs, how it answers, what is left out."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import FeaturesSpec, FeatureTable
from models.policy import AcquireDecision, PolicyOptions, PolicyQuery, PolicyTarget
from solvers import Run, policy
from solvers.policy import PolicyPlan, fit
from solvers.policy.fixed_ways import chosen_by
from solvers.policy.graph import Graph
from solvers.policy.learning import LearnedPolicies
from solvers.policy.losses import Losses
from tests.solvers.policy.problems import build, items_of, priced_context, table_of

SMALL = PolicyOptions(graph="grown", points=5, folds=2, trees=16, depth=3, answers="boosted")


def pair(rows: int, seed: int) -> FeatureTable:
    """Draw a table in which two of eight features tell the class by their sum, wrong one time in seven."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, 8))
    labels = (values[:, 0] + values[:, 1] > 0).astype(np.int64)
    return table_of(values, np.where(rng.random(rows) < 1 / 7, 1 - labels, labels))


@cache
def of_pair(seed: int) -> PolicyPlan:
    return build(pair(240, seed), SMALL)


def ways_of(plan: PolicyPlan, test: FeatureTable, target: PolicyTarget) -> set[tuple[str, ...]]:
    """List the ways that items take."""
    ran = plan.run(plan.cells_of(test), [str(row) for row in range(test.rows)], target)
    return {plan.path(nodes) for nodes in ran.walks.nodes}


@pytest.mark.parametrize("seed", range(3))
def test_of_few_rows_the_pair_that_tells_is_all_that_a_hard_budget_buys(seed: int) -> None:
    """Whatever was learned from 240 rows beyond that, no standard error speaks for it."""
    for budget in (2.0, 3.0, 4.0, 8.0):
        (way,) = ways_of(of_pair(seed), pair(200, 90), PolicyTarget(hard_budget=budget))
        assert set(way) == {"f0", "f1"}
    assert len(ways_of(of_pair(seed), pair(200, 90), PolicyTarget(hard_budget=1.0))) == 1


def test_what_is_surely_better_stays_learned() -> None:
    """A cheap context says which dear feature tells: no fixed set within 2.5 is as good."""
    plan = build(priced_context(2_000), SMALL)
    ways = ways_of(plan, priced_context(400, seed=5), PolicyTarget(hard_budget=2.5))
    assert {way[-1] for way in ways} >= {"f1", "f2", "f3", "f4"}


@given(row=st.integers(0, 239), budget=st.sampled_from([2.0, 3.0, 4.0]), lost=st.sampled_from(["", "f0", "f1"]))
@settings(max_examples=25, deadline=None)
def test_steps_lead_where_rollouts_do_and_around_what_is_lost(row: int, budget: float, lost: str) -> None:
    plan = of_pair(0)
    item = items_of(pair(240, 0))[row]
    target = PolicyTarget(hard_budget=budget, without=(lost,) if lost else ())
    (ran,) = plan.rollouts([item], target).items
    acquired = dict[str, Any]()
    while isinstance(step := plan.decide(PolicyQuery(**dict(target), acquired=acquired)), AcquireDecision):
        acquired[step.sensor] = item.sensors[step.sensor]
    assert tuple(acquired) == ran.path
    assert lost not in acquired
    assert lost or len(acquired) == 2


def test_going_on_along_a_fixed_way_is_expected_to_lose_less_than_stopping() -> None:
    plan = of_pair(0)
    step = plan.decide(PolicyQuery(hard_budget=2.0))
    assert isinstance(step, AcquireDecision)
    assert step.expected_loss < plan.stop(PolicyQuery(hard_budget=2.0)).expected_loss


def test_what_is_told_of_fixed_ways_is_what_rows_met() -> None:
    """Costs of hard budgets are those of the sets, and the traffic of the curve adds up to its errors."""
    fitted = fit(pair(240, 1), SMALL, np.random.default_rng(0), Run())
    plan = fitted.plan
    assert plan.cap_costs.tolist() == [min(cap, 2.0) for cap in plan.caps.tolist()]
    for budget in (1.0, 1.5, 2.0, 8.0):
        flow = policy.traffic(plan, fitted.summary, PolicyTarget(budget=budget))
        assert sum(node.wrong for node in flow.nodes) / plan.rows == pytest.approx(flow.error)


def test_a_free_sensor_that_takes_long_is_no_way_before_a_deadline() -> None:
    """The pair is free and slow; what is left within the deadline tells nothing."""
    table = pair(240, 2)
    features = [
        {**each.model_dump(), "cost": 0.0 if at < 2 else 1.0, "time": 5.0 if at < 2 else 1.0}
        for at, each in enumerate(table.spec.features)
    ]
    spec = {**table.spec.model_dump(), "unit": "USD", "time_unit": "s", "features": features}
    plan = build(replace(table, spec=FeaturesSpec.model_validate(spec)), SMALL)
    fresh = pair(200, 90)
    assert ways_of(plan, fresh, PolicyTarget(deadline=10.0)) <= {("f0", "f1"), ("f1", "f0")}
    for deadline in (1.0, 2.0, 4.0):
        ran = plan.run(plan.cells_of(fresh), [str(row) for row in range(200)], PolicyTarget(deadline=deadline))
        assert not plan.members[ran.walks.ends][:, :2].any()


def test_the_best_of_sets_that_are_alike_is_not_said_to_be_better_than_they_are() -> None:
    """All sets of three features answer three rows of ten wrongly, by chance: so does the best, where others judge."""
    graph, rng, chose, judged = Graph.of(3), np.random.default_rng(5), [], []
    for _ in range(100):
        labels, folds = rng.integers(2, size=100), np.arange(100) % 4
        sure = [np.where(rng.random(100) < 0.3, 0.4, 0.6) for _ in range(len(graph))]
        chances = [np.where(labels[:, None] == [0, 1], each[:, None], 1 - each[:, None]) for each in sure]
        task: Any = SimpleNamespace(
            graph=graph,
            judged=chances,
            losses=Losses.of(chances, labels.astype(np.int32), 0.0),
            training=SimpleNamespace(labels=labels, items=None),
            costs=np.zeros((100, 3)),
            means=np.zeros(3),
            tradeoffs=np.zeros(1),
            caps=np.array([np.inf]),
            deadlines=np.array([np.inf]),
            set_times=np.arange(8.0),
            curve=slice(0, 1),
        )
        learned = LearnedPolicies({}, np.ones((1, 100)), np.zeros((1, 100)), np.zeros((1, 100)), [], 1.0)
        chose.append(chosen_by(task, learned, folds >= 0).errors.mean())
        judged += [chosen_by(task, learned, folds != part).errors[:, folds == part].mean() for part in range(4)]
    assert np.mean(chose) < 0.26
    assert abs(np.mean(judged) - 0.3) < 0.01
