"""From a trace to a plan: costs of embeddings, classifiers that are beaten, budgets kept, forged plans refused."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from models import InvalidRequest, Trace, TraceSpec
from models.errors import Infeasible
from models.portfolio import (
    AssignmentOptions,
    PortfolioOptions,
    RouteQuery,
    Samples,
)
from solvers.base import BuildContext
from solvers.portfolio import PortfolioPlan, fit

COSTS = {"weak": 1.0, "poor": 2.0, "strong": 8.0}


def trace(rows: int = 400, seed: int = 0) -> Trace:
    """Make a trace in which the first coordinate tells whether weak is right; poor is worse and dearer than weak."""
    rng = np.random.default_rng(seed)
    truth, ease = rng.integers(0, 2, rows), rng.random(rows)
    right = {"weak": ease > 0.4, "poor": rng.random(rows) < 0.3, "strong": rng.random(rows) < 0.97}
    columns: dict[str, Any] = {"truth": truth} | {name: np.where(ok, truth, 1 - truth) for name, ok in right.items()}
    spec = {
        "kind": "trace",
        "label": "truth",
        "unit": "ms",
        "classifiers": [{"name": name, "cost": cost, "prediction": name} for name, cost in COSTS.items()],
    }
    vectors = np.column_stack((ease, rng.random(rows))).astype(np.float32)
    return Trace.from_columns(TraceSpec.model_validate(spec), columns, vectors)


def built(**options: Any) -> Any:
    return fit(trace(), PortfolioOptions(curve_points=5, **options), np.random.default_rng(0), BuildContext())


@pytest.fixture(scope="module")
def plan() -> PortfolioPlan:
    built_plan: PortfolioPlan = built().plan
    return built_plan


def test_easy_items_go_to_the_weak_and_hard_ones_to_the_strong(plan: PortfolioPlan) -> None:
    for ease, classifier in ((0.9, "weak"), (0.1, "strong")):
        query = RouteQuery(query=(ease, 0.5), budget=4.0)
        assert plan.decide(query).classifier == classifier


def test_the_portfolio_is_ahead_of_single_best_and_random_on_held_out_items(plan: PortfolioPlan) -> None:
    accuracies = dict(zip(plan.methods, plan.curve_accuracies, strict=True))
    inner = slice(1, -1)
    for method in ("batch", "route"):
        assert np.all(accuracies[method][inner] >= accuracies["single_best"][inner])
        assert np.all(accuracies[method][inner] > accuracies["random"][inner])
    assert np.all(accuracies["oracle"] >= accuracies["batch"])


@pytest.mark.slow
def test_classifiers_that_are_beaten_are_told_and_left_out_only_if_asked() -> None:
    assert built().summary["beaten"] == [{"name": "poor", "by": "weak"}]
    assert built().plan.classifiers == ("weak", "poor", "strong")
    kept = built(pareto_only=True)
    assert kept.plan.classifiers == ("weak", "strong")
    assert kept.summary["beaten"] == [{"name": "poor", "by": "weak"}]


def test_the_embeddings_cost_is_taken_off_the_budget_and_its_classifier_is_free() -> None:
    plan = built(feature_classifier="weak").plan
    assert plan.embedding_cost == plan.min_cost == 1.0
    assert dict(zip(plan.classifiers, plan.costs.tolist(), strict=True)) == {"weak": 0.0, "poor": 2.0, "strong": 8.0}
    vectors = trace(50, seed=1).embeddings
    assignment = plan.assign(plan.estimate(vectors), AssignmentOptions(budget_total=50 * 3.0))
    assert assignment.cost == 50 * 1.0 + 8.0 * assignment.usage["strong"] + 2.0 * assignment.usage["poor"] <= 150.0
    cheapest = plan.assign(plan.estimate(vectors), AssignmentOptions(budget_total=50.0))
    assert cheapest.usage == {"weak": 50, "poor": 0, "strong": 0}
    with pytest.raises(Infeasible, match="at least 50 ms for 50 queries, got 49"):
        plan.assign(plan.estimate(vectors), AssignmentOptions(budget_total=49.0))


@pytest.mark.slow
def test_a_feature_classifier_that_is_beaten_stays() -> None:
    plan = built(feature_classifier="poor", pareto_only=True).plan
    assert plan.classifiers == ("weak", "poor", "strong")
    assert plan.embedding_cost == 2.0


@pytest.mark.parametrize("fraction", [1 / 8, 0.3, 0.55, 0.9, 1.0])
def test_three_ways_to_say_one_budget(plan: PortfolioPlan, fraction: float) -> None:
    estimates = plan.estimate(trace(60, seed=2).embeddings)
    said = (
        AssignmentOptions(budget=f"{100 * fraction:.6f}%"),
        AssignmentOptions(budget=8.0 * fraction),
        AssignmentOptions(budget_total=60 * 8.0 * fraction),
    )
    costs = {plan.assign(estimates, options).cost for options in said}
    assert len(costs) == 1
    assert costs.pop() <= 60 * 8.0 * fraction * (1 + 1e-12)


def test_more_regularization_leaves_the_uncertain_alone(plan: PortfolioPlan) -> None:
    estimates = plan.estimate(trace(200, seed=3).embeddings)
    budget = 20.0
    free, cautious = (
        plan.assign(estimates, AssignmentOptions(budget=budget, regularization=lam)).usage for lam in (0.0, 1e6)
    )
    certain = plan.classifiers[int(np.argmin(plan.sigmas))]
    assert cautious[certain] == 200
    assert free[certain] < 200


def test_the_least_estimate_is_raised_by_the_objective_min(plan: PortfolioPlan) -> None:
    estimates = plan.estimate(trace(200, seed=4).embeddings)
    mean, least = (
        plan.assign(estimates, AssignmentOptions(budget=4.0, objective=objective, regularization=0.0))
        for objective in ("mean", "min")
    )
    assert least.min_estimate >= mean.min_estimate
    assert least.raw_estimate <= mean.raw_estimate + 1e-9


def test_given_samples_are_kept_and_smaller_ones_reported() -> None:
    fitted = built(samples=Samples(count=6, size=60), sampling="iid")
    assert fitted.plan.samples.shape == (6, 60)
    distances = [trial["distance"] for trial in fitted.summary["trials"]]
    assert [trial["size"] for trial in fitted.summary["trials"]] == [25, 50, 60]
    assert distances == sorted(distances, reverse=True)  # Appendix A.2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": Samples(count=2, size=500)}, r"samples\.size: must be at most 200, .* got 500"),
        (
            {"samples": Samples(count=9, size=50), "sampling": "disjoint"},
            "at most 200 items, got 9 disjoint",
        ),
        ({"feature_classifier": "nobody"}, "'nobody' not found; available: weak, poor, strong"),
    ],
)
def test_what_cannot_be_built_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        built(**options)


def test_a_trace_without_embeddings_or_with_few_rows_is_refused() -> None:
    bare = dataclasses.replace(trace(), embeddings=np.zeros((400, 0), np.float32))
    for dataset, message in (
        (bare, "dataset: must have embeddings"),
        (trace(39), "has 39 rows.* at least 40"),
    ):
        with pytest.raises(InvalidRequest, match=message):
            fit(dataset, PortfolioOptions(), np.random.default_rng(0), BuildContext())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classifiers": ("weak", "weak", "strong")}, "different classifiers"),
        ({"costs": np.array([1.0, -2.0, 8.0])}, "costs"),
        ({"sigmas": np.array([0.1, np.nan, 0.1])}, "sigmas"),
        ({"success": np.full((200, 3), 2.0, np.float32)}, "success"),
        ({"success": np.zeros((10, 3), np.float32)}, "success for each item"),
        ({"samples": np.array([[0, 200]], np.int32)}, "samples of its items"),
        ({"span": np.array([1.0, 0.0])}, "a scaling of each coordinate"),
        ({"items": np.full((200, 2), np.inf, np.float32)}, "items with their embeddings"),
        ({"prices": np.array([1.0, 2.0]), "price_budgets": np.array([1.0, 2.0])}, "prices that fall"),
        ({"feature_classifier": "weak"}, "a feature classifier whose answers are free"),
        ({"curve_budgets": np.array([2.0, 1.0, 3.0, 4.0, 5.0])}, "budgets that rise"),
        ({"held_out": 7}, "usage of all held-out items"),
        ({"items": np.zeros(200, np.float32)}, "arrays of the correct dimensions"),
    ],
)
def test_a_plan_that_contradicts_itself_is_refused(plan: PortfolioPlan, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        dataclasses.replace(plan, **change)
