"""Policies of sensors that share set-up work, against dynamic programming and plain recomputation."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from models import FeaturesSpec, FeatureTable
from models.policy import AcquireDecision, PolicyOptions, PolicyQuery, PolicyTarget
from solvers import BuildContext
from solvers.policy import PolicyPlan, fit
from solvers.policy.graph import Graph
from solvers.policy.graph_reduce import reduce_graph
from solvers.policy.sensor_prices import FetchCosts
from solvers.policy.sensor_times import compute_set_times
from solvers.policy.sensors import compute_item_sensor_costs
from solvers.setup_groups import NO_GROUPS, SetupGroups
from tests.oracles.policy import least_loss, look_up, made, simulate
from tests.oracles.setup import cost_of_set, random_groups
from tests.solvers.setup.tables import OWN, QUICK, SETUP, cost_of, patients, patients_spec

TRADEOFFS = np.array([0.0, 0.3, 1.0, 5.0])


@pytest.mark.parametrize("seed", range(200))
def test_with_a_look_up_table_it_is_exact_dynamic_programming(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sensors = int(rng.integers(1, 5))
    groups = random_groups(rng, sensors)
    table, graph = made(rng, 10, sensors, 2), replace(Graph.all_subsets(sensors), groups=groups)
    setup = np.round(rng.random((10, len(groups))) * 0.4, 2)
    table = replace(table, costs=np.column_stack((table.costs, setup)))
    chosen = reduce_graph(graph, table.losses, table.costs, TRADEOFFS, look_up(table, graph))
    for at, tradeoff in enumerate(TRADEOFFS.tolist()):
        reached = simulate(graph, table, chosen, at, tradeoff).mean()
        assert reached == pytest.approx(least_loss(table, tradeoff, groups), abs=1e-5)


@pytest.mark.parametrize("seed", range(200))
def test_steps_and_sets_cost_what_their_sensors_and_groups_do(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sensors = int(rng.integers(1, 6))
    groups = random_groups(rng, sensors)
    graph, costs = replace(Graph.all_subsets(sensors), groups=groups), rng.random(sensors + len(groups))

    def cost(members: np.ndarray) -> float:
        return cost_of_set(np.flatnonzero(members).tolist(), costs.tolist(), groups)

    assert graph.mark_paid(slice(None)) @ costs == pytest.approx([cost(own) for own in graph.members])
    every, priced = np.arange(sensors), FetchCosts(costs, groups)
    for node, own in enumerate(graph.members):
        steps = [cost(graph.members[target]) - cost(own) for target in graph.list_actions(node)]
        assert graph.step_costs(node, costs) == pytest.approx(steps)
        chosen = frozenset(np.flatnonzero(own).tolist())
        assert priced.sum_set(chosen) == pytest.approx(cost(own))
        alone, shared = priced.price_steps(chosen)
        for first, second in np.argwhere(~own[:, None] & ~own & (every[:, None] != every)).tolist():
            both = cost(own | np.isin(every, [first, second])) - cost(own)
            assert alone[first] + alone[second] - shared[first, second] == pytest.approx(both)


def fitted(options: PolicyOptions, table: FeatureTable) -> PolicyPlan:
    return fit(table, options, np.random.default_rng(0), BuildContext()).plan


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["subsets", "grown"])
def test_a_group_of_no_cost_and_one_of_a_single_feature_are_additive_costs(graph: str) -> None:
    options = QUICK.model_copy(update={"graph": graph, "points": 4})
    own = [{"name": name, "columns": [name], "cost": cost} for name, cost in OWN.items()]
    plain = fitted(options, patients(200, spec=patients_spec(setup=[])))
    free = fitted(options, patients(200, spec=patients_spec(setup=[{"name": "g", "cost": 0, "features": list(OWN)}])))
    more_expensive = [one | {"cost": one["cost"] + 5} if one["name"] == "swab" else one for one in own]  # type: ignore[operator]
    added = fitted(options, patients(200, spec=patients_spec(setup=[], features=more_expensive)))
    alone = fitted(options, patients(200, spec=patients_spec(setup=[{"name": "g", "cost": 5, "features": ["swab"]}])))
    for one, other in ((plain, free), (added, alone)):
        assert one.point_costs == pytest.approx(other.point_costs)
        assert one.point_errors == pytest.approx(other.point_errors)
        assert one.extended_costs.sum() == pytest.approx(other.extended_costs.sum())


@pytest.mark.parametrize("parallel", [(), (("glucose", "sodium"),)])
@pytest.mark.parametrize("graph", ["subsets", "grown"])
def test_rollouts_decisions_and_hard_limits_count_each_group_once(
    graph: str, parallel: tuple[tuple[str, ...], ...]
) -> None:
    plan = fitted(QUICK.model_copy(update={"graph": graph, "parallel": parallel}), patients(400))
    unseen = patients(100, seed=1)
    cells, names = plan.cells_of(unseen), [str(row) for row in range(100)]
    for target in [
        PolicyTarget(budget=float(plan.point_bounds[-1])),
        PolicyTarget(budget=float(plan.point_bounds.mean())),
        *(PolicyTarget(max_item_cost=cap) for cap in (2.0, 12.5, 14.0, 16.0, 22.0)),
        PolicyTarget(max_item_cost=13.0, tradeoff=1e-3),
    ]:
        ran = plan.run(cells, names, target)
        paths = [plan.acquired_sensors(nodes) for nodes in ran.walks.nodes]
        assert ran.costs == pytest.approx([cost_of(path) for path in paths])
        if target.max_item_cost is not None:
            assert ran.costs.max() <= target.max_item_cost * (1 + 1e-9)
        for row in range(5):
            known: dict[str, float] = {}
            while isinstance(decision := plan.decide(query_of(target, str(row), known)), AcquireDecision):
                assert decision.cost == pytest.approx(cost_of([*known, decision.sensor]) - cost_of(known))
                for name in (decision.sensor, *decision.together):
                    known[name] = float(unseen.values[row, list(OWN).index(name)])
            assert cost_of(known) == pytest.approx(ran.costs[row])


def query_of(target: PolicyTarget, item: str, known: Mapping[str, float]) -> PolicyQuery:
    return PolicyQuery(**target.model_dump(exclude_none=True), item=item, acquired=dict(known))


def test_the_savings_and_the_traffic_report_costs_of_rows() -> None:
    fit_result = fit(patients(500), QUICK, np.random.default_rng(0), BuildContext())
    plan = fit_result.plan
    assert fit_result.savings is not None
    alone = {one.name.removeprefix("one classifier on "): one.cost for one in fit_result.savings.baselines}
    fixed = {name: cost for name, cost in alone.items() if {*name.split(" + ")} <= OWN.keys()}
    assert fixed.keys() >= {" + ".join(OWN)}
    for name, cost in fixed.items():
        assert cost == pytest.approx(cost_of(name.split(" + ")))
    assert fit_result.summary["all_sensors"]["cost"] == pytest.approx(cost_of(OWN))
    shown = {one["name"]: (one["cost"], tuple(one["features"])) for one in fit_result.summary["setup"]}
    assert shown == SETUP
    unseen = patients(2000, seed=5)
    costs = compute_item_sensor_costs(unseen)
    ran = plan.run(plan.cells_of(unseen), [str(row) for row in range(2000)], PolicyTarget(tradeoff=0.01))
    paths = [plan.acquired_sensors(nodes) for nodes in ran.walks.nodes]
    own = Graph(plan.members, plan.offsets, plan.targets, plan.setup)
    assert ran.walks.total_costs(own, costs) == pytest.approx([cost_of(path) for path in paths])


def test_times_of_groups_count_once_and_deadlines_are_kept() -> None:
    times = {name: 1.0 + place for place, name in enumerate(OWN)}
    spec = patients_spec(time_unit="min")
    for one in spec["features"]:
        one["time"] = times[one["name"]]
    for one in spec["setup"]:
        one["time"] = 30.0
    plan = fitted(QUICK, patients(300, spec=FeaturesSpec.model_validate(spec).model_dump()))

    def time_of(names: list[str]) -> float:
        touched = sum(not set(own).isdisjoint(names) for _, own in SETUP.values())
        return sum(times[name] for name in names) + 30 * touched

    expected = [time_of(np.array(plan.sensors)[members].tolist()) for members in plan.members]
    assert plan._limits.set_times == pytest.approx(expected)
    unseen = patients(50, seed=2)
    ran = plan.run(plan.cells_of(unseen), [str(row) for row in range(50)], PolicyTarget(deadline=40.0, tradeoff=1e-4))
    assert max(time_of(list(plan.acquired_sensors(nodes))) for nodes in ran.walks.nodes) <= 40.0
    first = plan.decide(PolicyQuery(deadline=100.0, tradeoff=1e-4, item="0", acquired={"glucose": 0.5, "age": 1.0}))
    if isinstance(first, AcquireDecision):
        assert first.time == pytest.approx(time_of(["glucose", first.sensor]) - time_of(["glucose"]))


def test_set_times_without_groups_or_times_are_unchanged() -> None:
    members, fetches = np.array([[True, True]]), np.array([0, 1], dtype=np.int32)
    both = SetupGroups(np.ones((1, 2), dtype=np.bool_))
    assert compute_set_times(members, np.array([1.0, 2.0]), fetches, NO_GROUPS).tolist() == [3.0]
    assert compute_set_times(members, np.array([1.0, 2.0, 4.0]), fetches, both).tolist() == [7.0]
    assert compute_set_times(members, np.empty(0), fetches, both).tolist() == [0.0]
