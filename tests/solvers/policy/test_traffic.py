"""The traffic on the DAG, held against the rows themselves, each walked by the member that had not learned from it."""

import json
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import count, pairwise
from typing import Any

import numpy as np
import pytest

from models.errors import Conflict, CorruptArtifact
from models.policy import PolicyTarget
from models.policy_curves import Traffic
from solvers import BuildContext
from solvers.base import FitResult
from solvers.policy import PolicyPlan, compute_traffic, fit
from solvers.policy.classifier_training import assign_training_folds
from solvers.policy.item_draw import ItemDraw
from solvers.policy.node_classifiers import make_tree_inputs
from tests.solvers.policy.problems import QUICK, many_features, trace

Dataset = Any


@cache
def fitted(kind: str = "singly") -> tuple[Dataset, FitResult[PolicyPlan]]:
    """Fit a policy of sensors that are acquired singly, or together; its first draw cuts the rows, from seed 3."""
    dataset = trace(300) if kind == "singly" else many_features(6, 200)
    options = QUICK.model_copy(update={} if kind == "singly" else {"parallel": (("f0", "f1", "f2"), ("f3", "f4"))})
    return dataset, fit(dataset, options, np.random.default_rng(3), BuildContext())


def walked(kind: str, budget: float) -> tuple[Counter[Any], Counter[Any], Counter[Any]]:
    """Walk every row by the member of its part: how many take each edge, stop at each node, and are wrong there."""
    dataset, built = fitted(kind)
    plan = built.plan
    parts = assign_training_folds(dataset.labels, dataset.item_codes, QUICK.folds, np.random.default_rng(3))
    names = [
        next(name for i in count() if ItemDraw.from_item(name := f"{row}-{i}", QUICK.folds).member == part)
        for row, part in enumerate(parts.tolist())
    ]
    cells = plan.cells_of(dataset)
    ran = plan.run(cells, names, PolicyTarget(budget=budget))
    inputs = make_tree_inputs(plan._sensors, cells)
    edges: Counter[Any] = Counter()
    stops: Counter[Any] = Counter()
    wrong: Counter[Any] = Counter()
    for row, nodes in enumerate(ran.walks.nodes.tolist()):
        way = [sensors_of(plan, node) for node in nodes if node >= 0]
        edges.update(pairwise(way))
        stops[way[-1]] += 1
        end = int(ran.walks.ends[row])
        seen = plan._classifiers.predict_posteriors(end, parts[row], inputs[row : row + 1])
        wrong[way[-1]] += int(seen.argmax()) != dataset.labels[row]
    return edges, stops, wrong


def sensors_of(plan: PolicyPlan, node: int) -> tuple[str, ...]:
    """Name the sensors of a node."""
    return tuple(name for name, member in zip(plan.sensors, plan.members[node], strict=True) if member)


def asked(kind: str = "singly", **target: float) -> Traffic:
    """Ask for the traffic of the policy that was fitted."""
    _, built = fitted(kind)
    return compute_traffic(built.plan, json.loads(json.dumps(built.summary)), PolicyTarget.model_validate(target))


@pytest.mark.parametrize("kind", ["singly", "together"])
def test_every_edge_and_node_counts_the_rows_that_pass_it(kind: str) -> None:
    _, built = fitted(kind)
    for point in built.plan.curve():
        counted = asked(kind, budget=point.cost_bound)
        assert [each.tradeoff for each in counted.points] == [point.tradeoff]
        edges, stops, wrong = walked(kind, point.cost_bound)
        names = [node.sensors for node in counted.nodes]
        assert {(names[e.source], names[e.target]): e.items for e in counted.edges} == edges
        assert {node.sensors: node.stopped for node in counted.nodes if node.stopped} == stops
        assert {node.sensors: node.wrong for node in counted.nodes if node.stopped} == wrong


def test_some_rows_pass_several_edges_and_some_are_wrong() -> None:
    counted = asked(tradeoff=0.2)
    assert len(counted.edges) > 1
    assert all(node.wrong for node in counted.nodes if node.stopped)
    assert any(edge.source > 0 for edge in counted.edges)


@pytest.mark.parametrize("kind", ["singly", "together"])
@pytest.mark.parametrize("target", [{}, {"budget": 2.0}, {"budget": 0.0}, {"budget": 1e6}, {"tradeoff": 0.02}])
def test_what_comes_goes_on_or_stops_and_adds_up_to_the_curve(kind: str, target: dict[str, float]) -> None:
    counted, plan = asked(kind, **target), fitted(kind)[1].plan
    for place, node in enumerate(counted.nodes):
        arriving = sum(edge.items for edge in counted.edges if edge.target == place)
        leaving = sum(edge.items for edge in counted.edges if edge.source == place)
        assert node.items == pytest.approx(counted.rows if place == 0 else arriving)
        assert node.stopped == pytest.approx(node.items - leaving)
        assert node.stopped == pytest.approx(node.correct + node.wrong)
        assert node.share == pytest.approx(node.items / counted.rows)
    assert sum(node.wrong for node in counted.nodes) / counted.rows == pytest.approx(counted.error)
    spent = sum(edge.cost * edge.items for edge in counted.edges)
    assert spent == pytest.approx(sum(node.cost * node.stopped for node in counted.nodes))
    if kind == "together":  # all its costs are the same for all rows
        assert spent / counted.rows == pytest.approx(counted.cost)
    asked_for = plan.select_mixture(PolicyTarget.model_validate(target))
    first, second = plan.point_errors[[asked_for.first, asked_for.second]].tolist()
    assert counted.error == pytest.approx(first + asked_for.share * (second - first))
    assert counted.cost == pytest.approx(plan.expected_outcome(PolicyTarget.model_validate(target))[1])
    for edge in counted.edges:
        assert edge.source < edge.target
        before, after = counted.nodes[edge.source].sensors, counted.nodes[edge.target].sensors
        assert set(edge.sensors) == set(after) - set(before)
        assert edge.items > 0


def test_a_budget_between_two_points_mixes_their_traffic() -> None:
    plan = fitted()[1].plan
    first = len(plan.tradeoffs) - 2
    low, high = plan.point_bounds[first : first + 2].tolist()
    mixed = asked(budget=low + 0.25 * (high - low))
    assert [point.share for point in mixed.points] == pytest.approx([0.75, 0.25])
    assert [point.cost_bound for point in mixed.points] == [low, high]
    for budget in (low, high):
        (point,) = asked(budget=budget).points
        assert (point.share, point.cost_bound) == (1.0, budget)
    unmixed = {
        (share, node.sensors): node for b, share in ((low, 0.75), (high, 0.25)) for node in asked(budget=b).nodes
    }
    for node in mixed.nodes:
        shared = [(share, part) for (share, sensors), part in unmixed.items() if sensors == node.sensors]
        for what in ("items", "stopped", "wrong"):
            assert getattr(node, what) == pytest.approx(sum(share * getattr(part, what) for share, part in shared))


def test_nothing_is_acquired_where_nothing_may_be_spent() -> None:
    counted = asked(budget=0.0)
    assert (len(counted.nodes), counted.edges, counted.nodes[0].stopped, counted.nodes[0].items) == (1, (), 300, 300)
    assert counted.points[0].tradeoff is None


def test_a_summary_without_traffic_says_to_build_again() -> None:
    _, built = fitted()
    summary = {name: value for name, value in built.summary.items() if name != "traffic"}
    with pytest.raises(Conflict, match=r"build it again"):
        compute_traffic(built.plan, summary, PolicyTarget())


def broken(**changes: Any) -> dict[str, Any]:
    """Take the traffic of the policy that was fitted, and change it."""
    return {**json.loads(json.dumps(fitted()[1].summary["traffic"])), **changes}


@pytest.mark.parametrize(
    ("made_up", "said"),
    [
        ("x", "is not valid"),
        (lambda: broken(items=[[-1]]), "is not valid"),
        (lambda: broken(items=[]), "must have"),
        (lambda: broken(targets=[]), "must have"),
        (lambda: broken(wrong=[[]]), "must have"),
        (lambda: broken(ends=[10**6, *broken()["ends"][1:]]), "unknown or repeated"),
        (lambda: broken(ends=[0] * len(broken()["ends"])), "unknown or repeated"),
        (lambda: broken(sources=broken()["targets"]), "unknown or repeated"),
        (lambda: broken(items=[[10**6] * len(row) for row in broken()["items"]]), "more items leave"),
        (lambda: broken(wrong=[[10**6] * len(row) for row in broken()["wrong"]]), "more items leave"),
    ],
)
def test_traffic_that_was_made_up_is_refused(made_up: Any, said: str) -> None:
    summary = {"traffic": made_up() if callable(made_up) else made_up}
    with pytest.raises(CorruptArtifact, match=said):
        compute_traffic(fitted()[1].plan, summary, PolicyTarget())


def test_more_rows_than_can_be_counted_are_refused() -> None:
    _, built = fitted()
    with pytest.raises(CorruptArtifact, match="rows must be at most"):
        compute_traffic(replace(built.plan, rows=10**400), built.summary, PolicyTarget())
