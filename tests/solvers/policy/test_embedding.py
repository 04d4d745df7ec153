"""A policy that knows an item's embedding before anything is acquired."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import FeaturesSpec, FeatureTable, InvalidRequest, Trace, dataset_from_columns
from models.columns import MAX_COORDINATE_VALUE
from models.policy import AcquireDecision, ClassifyDecision, PolicyOptions, PolicyQuery, PolicyTarget
from models.policy_curves import RolloutItem
from solvers import BuildContext
from solvers.policy import PolicyPlan, fit
from solvers.policy.embedding_axes import MAX_AXES, EmbeddingAxes
from tests.solvers.policy.problems import EXPERTS, QUICK, halves, trace
from tests.support.cases import first_quick

BOOSTED = PolicyOptions(points=6, folds=3, trees=12, depth=3)
CASES = {
    "all sets": BOOSTED,
    "grown": BOOSTED.model_copy(update={"graph": "grown"}),
    "together": QUICK.model_copy(update={"parallel": (("north", "south"),)}),
}


@cache
def built(case: str, dimensions: int = 3) -> PolicyPlan:
    """Build a policy that knows embeddings."""
    options = CASES[case].model_copy(update={"embeddings": True})
    return fit(halves(900, 0, dimensions), options, np.random.default_rng(0), BuildContext()).plan


def right(plan: PolicyPlan, fresh: Trace, budget: float) -> tuple[float, float]:
    """Say how often a policy is right about fresh items, and what they cost."""
    ran = plan.run(plan.cells_of(fresh), [str(row) for row in range(fresh.rows)], PolicyTarget(budget=budget))
    return float((ran.labels == fresh.labels).mean()), float(ran.costs.mean())


def items_of(dataset: Trace, count: int) -> list[RolloutItem]:
    """Give the first rows as callers send them."""
    return [
        RolloutItem(
            item=f"item-{row}",
            embedding=tuple(dataset.embeddings[row].tolist()),
            sensors={name: dataset.classes[int(dataset.predictions[row, m])] for m, name in enumerate(EXPERTS)},
        )
        for row in range(count)
    ]


@pytest.mark.parametrize(
    ("case", "dimensions"), first_quick([("grown", 40), ("all sets", 3), ("all sets", 40), ("grown", 3)], 2)
)
def test_an_item_goes_at_once_to_the_expert_that_its_embedding_tells(case: str, dimensions: int) -> None:
    """Without it a budget of one expert buys three fifths of right answers; a mixture with the dear one is no match."""
    fresh, plan = halves(2000, 1, dimensions), built(case, dimensions)
    accuracy, cost = right(plan, fresh, 1.2)
    assert accuracy > 0.9
    assert cost < 1.25
    for half, expert in enumerate(EXPERTS[:2]):
        query = PolicyQuery(budget=1.2, item="i", embedding=(2.0 * half, *([0.0] * (dimensions - 1))))
        step = plan.decide(query)
        assert (step.action, getattr(step, "sensor", None)) == ("acquire", expert)


def test_a_hard_budget_of_one_expert_buys_the_one_that_the_embedding_tells() -> None:
    """None was learned for, and who errs least asks both; where the dear one is within reach, it still may."""
    fresh, plan = halves(2000, 1), built("all sets")
    assert not len(plan.caps)
    items = [str(row) for row in range(fresh.rows)]
    for hard, least in ((1.0, 0.9), (3.0, 0.9), (6.0, 0.95)):
        ran = plan.run(plan.cells_of(fresh), items, PolicyTarget(max_item_cost=hard))
        assert float((ran.labels == fresh.labels).mean()) > least
        assert ran.costs.max() <= hard


def test_without_the_embedding_the_same_budget_buys_less() -> None:
    blind = fit(halves(900, 0), BOOSTED, np.random.default_rng(0), BuildContext()).plan
    assert right(blind, halves(2000, 1), 1.2)[0] < 0.75
    assert blind.dimensions == 0


def test_what_is_said_of_a_budget_comes_true() -> None:
    plan, fresh = built("all sets"), halves(4000, 2)
    for budget in (0.5, 1.0, 1.2):
        said, *_ = plan.expected_outcome(PolicyTarget(budget=budget))
        assert said == pytest.approx(right(plan, fresh, budget)[0], abs=0.035)


@pytest.mark.parametrize("case", CASES)
def test_steps_lead_where_rollouts_do(case: str) -> None:
    plan = built(case)
    items = items_of(halves(30, 3), 30)
    for budget in (0.0, 0.6, 1.2, 3.0, 9.0):
        target = PolicyTarget(budget=budget)
        for item, ran in zip(items, plan.roll_out(items, target).items, strict=True):
            acquired: dict[str, Any] = {}
            while isinstance(step := plan.decide(_query(item, target, acquired)), AcquireDecision):
                acquired |= {name: item.sensors[name] for name in (step.sensor, *step.then)}
            assert isinstance(step, ClassifyDecision)
            assert (step.label, sorted(acquired)) == (ran.label, sorted(ran.path))


def _query(item: RolloutItem, target: PolicyTarget, acquired: Mapping[str, Any]) -> PolicyQuery:
    return PolicyQuery(budget=target.budget, item=item.item, embedding=item.embedding, acquired=dict(acquired))


def test_with_nothing_acquired_the_answer_is_what_the_embedding_tells() -> None:
    """Here it tells the half and no class, so any of the four is as likely."""
    step = built("all sets").decide(PolicyQuery(budget=0.0, item="i", embedding=(0.0, 0.0, 0.0)))
    assert isinstance(step, ClassifyDecision)
    assert max(step.probabilities.values()) < 0.5


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({}, "embedding: must have 3 numbers, is missing"),
        ({"embedding": (1.0, 2.0)}, "embedding: must have 3 numbers, got 2"),
    ],
)
def test_an_embedding_that_does_not_fit_is_refused(query: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        built("all sets").decide(PolicyQuery(**query))
    assert str(refused.value) == why
    item = items_of(halves(30, 4), 1)[0].model_copy(update={"embedding": query.get("embedding")})
    with pytest.raises(InvalidRequest, match=f"^items.0.{why.partition(';')[0]}"):
        built("all sets").roll_out([item], PolicyTarget())


def test_an_embedding_is_refused_where_none_was_learned_from() -> None:
    blind = fit(trace(), QUICK, np.random.default_rng(0), BuildContext()).plan
    with pytest.raises(InvalidRequest, match=r"^embedding: is not supported: .* without embeddings"):
        blind.decide(PolicyQuery(embedding=(1.0,)))


@pytest.mark.parametrize("params", [{"embeddings": True}, {"embedder": "minilm"}])
def test_a_dataset_without_embeddings_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=f"^{next(iter(params))}: needs embeddings"):
        fit(trace(), QUICK.model_copy(update=params), np.random.default_rng(0), BuildContext())


@pytest.mark.parametrize(
    "broken",
    [
        {"embedding_centre": np.zeros(2)},
        {"embedding_axes": np.zeros((3, 2), dtype=np.float32)},
        {"embedding_centre": np.empty(0), "embedding_axes": np.empty((0, 0), dtype=np.float32)},
        {"embedding_centre": np.full(3, 1e40)},
        {"embedding_axes": np.full((3, 3), np.inf, dtype=np.float32)},
        {"owners": np.array([0, 1, 2, 2, 3, 3], dtype=np.int32)},
        {"labelled": np.ones(6, dtype=np.bool_)},
    ],
)
def test_a_plan_whose_axes_do_not_fit_is_none(broken: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        replace(built("all sets"), **broken)


def test_few_coordinates_are_the_axes_and_of_many_those_that_differ_most() -> None:
    rng = np.random.default_rng(0)
    few = rng.normal(size=(50, MAX_AXES)).astype(np.float32)
    assert np.array_equal(EmbeddingAxes.from_embeddings(few).project(few), few)
    directions = np.linalg.qr(rng.normal(size=(60, 3)))[0]
    many = (10 * rng.normal(size=(500, 3)) @ directions.T + 0.1 * rng.normal(size=(500, 60))).astype(np.float32)
    axes = EmbeddingAxes.from_embeddings(many).axes
    assert axes.shape == (60, MAX_AXES)
    assert np.allclose(np.linalg.norm(directions.T @ axes[:, :3], axis=0), 1, atol=1e-3)


@settings(max_examples=50)
@given(st.integers(2, 40), st.integers(2, 60), st.integers(0, 99))
def test_axes_do_not_depend_on_where_the_centre_is(rows: int, dimensions: int, seed: int) -> None:
    """As many are kept as rows can tell; alike rows are none the worse."""
    rng = np.random.default_rng(seed)
    embeddings = rng.normal(size=(rows, dimensions)).astype(np.float32)
    axes = EmbeddingAxes.from_embeddings(embeddings)
    measured = axes.project(embeddings)
    assert measured.shape[1] == (dimensions if dimensions <= MAX_AXES else min(MAX_AXES, rows))
    if dimensions > MAX_AXES:
        assert np.allclose(measured.mean(axis=0), 0, atol=1e-4)


@pytest.mark.parametrize("coordinate", [0.0, 1.0, 3e38])
def test_axes_of_rows_that_are_all_alike_or_far_off_are_numbers(coordinate: float) -> None:
    embeddings = np.full((50, 40), coordinate, dtype=np.float32)
    axes = EmbeddingAxes.from_embeddings(embeddings)
    assert axes.axes.shape == (40, MAX_AXES)
    assert np.isfinite(axes.axes).all()
    assert np.abs(axes.centre).max() <= MAX_COORDINATE_VALUE
    assert np.allclose(axes.project(embeddings), 0, atol=1e-9 * MAX_COORDINATE_VALUE)


def test_a_table_of_features_is_none_that_a_policy_of_classifiers_reads() -> None:
    """Even where its features are called as the classifiers are."""
    features = [{"name": name, "columns": [name], "cost": 1.0} for name in EXPERTS]
    spec = FeaturesSpec.model_validate({"kind": "features", "label": "label", "unit": "ms", "features": features})
    table = dataset_from_columns(spec, {name: np.arange(40.0) % 2 for name in ("label", *EXPERTS)})
    assert isinstance(table, FeatureTable)
    with pytest.raises(InvalidRequest, match=r"^dataset: must be a trace, .* is a table of features"):
        built("all sets").cells_of(table)
