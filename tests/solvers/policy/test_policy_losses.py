"""Policies with unequal errors: exact on tiny tables, and equal to those of today where all errors are equal."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from models import FeaturesSpec, FeatureTable, dataset_from_columns
from models.arrays import Floats, Int16s, Int64s
from models.losses import Losses
from models.policy import PolicyOptions, PolicyQuery, PolicyTarget, RejectDecision
from solvers import BuildContext
from solvers.base import make_generator
from solvers.policy import PolicyPlan, fit
from solvers.policy.graph import Graph
from solvers.policy.graph_reduce import reduce_graph
from solvers.policy.learning import validate_policies
from solvers.policy.losses import StoppingLosses
from solvers.policy.setting_replays import replay_settings
from tests.support.cases import first_quick

QUICK = PolicyOptions(points=6, folds=3, trees=16)


def table(rows: int, seed: int, **more: Any) -> FeatureTable:
    """Draw patients of whom 15 % are sick: a free and weak feature, a good one for 2, and a better one for 8."""
    rng = np.random.default_rng(seed)
    sick = rng.random(rows) < 0.15
    columns: dict[str, Any] = {"label": np.where(sick, "sick", "well").astype(object)}
    columns |= {
        name: sick + rng.normal(0, noise, rows) for name, noise in (("free", 1.0), ("good", 0.5), ("better", 0.3))
    }
    features = [
        {"name": name, "columns": [name], "cost": cost} for name, cost in (("free", 0), ("good", 2), ("better", 8))
    ]
    spec = {"kind": "features", "label": "label", "unit": "EUR", "features": features, **more}
    made = dataset_from_columns(FeaturesSpec.model_validate(spec), columns)
    assert isinstance(made, FeatureTable)
    return made


def built(dataset: FeatureTable, options: PolicyOptions = QUICK) -> Any:
    return fit(dataset, options, make_generator(0), BuildContext())


def total(plan: PolicyPlan, dataset: FeatureTable, point: int) -> float:
    """Return the mean of cost and loss of unseen rows at a point of the curve."""
    replay = replay_settings(plan, dataset)[point].replay
    return float((replay.costs + plan.loss_scale * (1 - replay.right)).mean())


@pytest.mark.parametrize("seed", first_quick(range(200), 60))
def test_with_tabular_classifiers_the_policy_is_the_best_of_all(seed: int) -> None:
    """Each of two binary sensors is bought or not, by what is known; each of 4 cells has its own answer or reject."""
    rng = np.random.default_rng(seed)
    n, classes, rejects = 40, int(rng.integers(2, 4)), bool(rng.integers(2))
    matrix = rng.integers(1, 60, (classes, classes + rejects)).astype(float)
    np.fill_diagonal(matrix, 0)
    losses = Losses(matrix, float(matrix.max()), rejects)
    readings, labels = rng.integers(2, size=(n, 2)), rng.integers(classes, size=n).astype(np.int32)
    prices = rng.integers(1, 20, 2).astype(float)
    graph = Graph.all_subsets(2)
    cells = [(readings * members) @ np.array([1, 2]) for members in graph.members]
    posteriors = [shares_by_cell(cell, labels, classes) for cell in cells]
    stopping = StoppingLosses.from_posteriors(posteriors, labels, 0.0, losses)
    costs = np.tile(prices, (n, 1))

    def learn(nodes: Sequence[int], weights: Sequence[Floats]) -> list[Int16s]:
        return [best_by_cell(cells[node], weight) for node, weight in zip(nodes, weights, strict=True)]

    chosen = reduce_graph(graph, stopping.learned, costs, np.array([1 / losses.scale]), learn)
    lost, paid, *_ = validate_policies(graph, chosen, stopping, costs)
    reached = float((losses.scale * lost + paid).mean())
    assert reached == pytest.approx(best_of_all(readings, labels, matrix, prices))


def shares_by_cell(cell: Int64s, labels: Any, classes: int) -> Floats:
    counts = np.zeros((4, classes))
    np.add.at(counts, (cell, labels), 1)
    return np.asarray(counts[cell] / counts[cell].sum(axis=1, keepdims=True))


def best_by_cell(cell: Int64s, weights: Floats) -> Int16s:
    sums = np.zeros((4, *weights.shape[1:]))
    np.add.at(sums, cell, weights)
    return np.asarray(sums.argmin(axis=1)[cell].astype(np.int16))


def best_of_all(readings: Int64s, labels: Any, matrix: Floats, prices: Floats) -> float:
    """Enumerate all policies: stop, or buy a sensor first, and for each reading stop or buy the other one."""

    def stop(rows: Any) -> float:
        return min(float(matrix[labels[rows], answer].sum()) for answer in range(matrix.shape[1])) if len(rows) else 0.0

    every = np.arange(len(labels))
    totals = [stop(every)]
    for first, buys in product((0, 1), product((False, True), repeat=2)):
        spent = prices[first] * len(every)
        for reading, buy in enumerate(buys):
            rows = every[readings[:, first] == reading]
            halves = [rows[readings[rows, 1 - first] == other] for other in (0, 1)]
            spent += prices[1 - first] * len(rows) + sum(map(stop, halves)) if buy else stop(rows)
        totals.append(spent)
    return min(totals) / len(every)


def test_explicit_equal_errors_give_the_same_plan() -> None:
    equal = {"sick": {"well": 1}, "well": {"sick": 1}}
    plain, same = (built(table(300, 0, **more)).plan for more in ({}, {"losses": equal}))
    for name in plain.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(plain, name), getattr(same, name), name)


def test_scaling_losses_and_costs_together_changes_nothing() -> None:
    triage = {"sick": {"well": 64.0}, "well": {"sick": 8.0}}
    scaled = {truth: {answer: 4 * loss for answer, loss in row.items()} for truth, row in triage.items()}
    once, four = table(300, 1, losses=triage), table(300, 1, losses=scaled)
    features = [{"name": each.name, "columns": each.columns, "cost": 4 * each.cost} for each in four.spec.features]  # type: ignore[operator]
    dearer = FeaturesSpec.model_validate({**four.spec.model_dump(), "features": features})
    plans = [built(once).plan, built(FeatureTable(**{**fields(four), "spec": dearer})).plan]
    rows = table(200, 2)
    ran = [plan.run(plan.cells_of(rows), ["x"] * 200, PolicyTarget(tradeoff=1.0)) for plan in plans]
    np.testing.assert_array_equal(ran[0].labels, ran[1].labels)
    np.testing.assert_allclose(4 * ran[0].costs, ran[1].costs)
    np.testing.assert_allclose(plans[0].point_errors, plans[1].point_errors, atol=1e-12)


def fields(dataset: FeatureTable) -> dict[str, Any]:
    return {name: getattr(dataset, name) for name in dataset.__dataclass_fields__}


@pytest.mark.slow
def test_losses_are_minimized_and_come_true() -> None:
    losses = {"sick": {"well": 200}, "well": {"sick": 20}}
    unseen = table(20_000, 8, losses=losses)
    fitted, equal = built(table(1500, 3, losses=losses)), built(table(1500, 3))
    plan = fitted.plan
    promised = plan.expected_errors * plan.loss_scale + plan.point_costs
    best = int(promised.argmin())
    error = plan.loss_scale * np.sqrt(plan.expected_errors[best] / plan.rows)
    assert total(plan, unseen, best) == pytest.approx(promised[best], abs=2.5 * error)
    blind = equal.plan.run(equal.plan.cells_of(unseen), ["x"] * unseen.rows, PolicyTarget())
    matrix = np.array([[0, 200], [20, 0]])
    assert total(plan, unseen, best) < 0.75 * float((matrix[unseen.labels, blind.labels] + blind.costs).mean())
    savings = fitted.savings
    assert savings.loss is not None
    assert savings.cost + savings.loss <= min(one.cost + (one.loss or 0.0) for one in savings.baselines) + 1.0


def test_items_are_rejected_where_a_person_is_cheaper() -> None:
    losses = {"sick": {"well": 200}, "well": {"sick": 20}}
    shares = []
    unseen = table(2000, 9)
    for price in (30.0, 6.0, 1.0, 0.0):
        plan = built(table(600, 4, losses=losses, reject_cost=price)).plan
        ran = plan.run(plan.cells_of(unseen), ["x"] * 2000, PolicyTarget(tradeoff=1.0))
        shares.append(float((ran.labels == 2).mean()))
        expected = plan.expected_coverage(PolicyTarget(tradeoff=1.0))
        assert 1.0 - shares[-1] == pytest.approx(1.0 if expected is None else expected, abs=0.05)
    assert shares == sorted(shares)
    assert shares[0] < 0.1
    assert shares[-1] == 1.0
    assert isinstance(plan.decide(PolicyQuery(tradeoff=1.0)), RejectDecision)
