"""Batches and single routes cost what their budget says where long prompts go to the expensive model."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import Trace, TraceSpec, dataset_from_columns
from models.arrays import Floats, Singles
from models.errors import Infeasible
from models.portfolio import AssignmentOptions, PortfolioOptions, RouteQuery
from solvers import BuildContext
from solvers.portfolio import fit
from solvers.portfolio.cost_regression import PENALTIES, CostRegression, ExpectedCosts, fit_ridge
from solvers.portfolio.plan import PortfolioPlan
from tests.support.cases import first_quick

FRACTIONS = (0.3, 0.5, 0.8)
SEEDS = range(6)


def world(rows: int, seed: int, *, sized: bool = False) -> Trace:
    """Draw prompts whose length makes them hard for the cheap model, and expensive for both; sized: costs are given as
    functions of the length, not as measured."""
    rng = np.random.default_rng(seed)
    length, topic = rng.exponential(1.0, rows), rng.normal(size=(rows, 6))
    chances = 1 / (1 + np.exp(np.column_stack((1.5 * length - 1.5 + topic[:, 0], 0.3 * length - 2.5))))
    columns: dict[str, Any] = {}
    prices = {"cheap": 1.0, "strong": 20.0}
    for j, (name, price) in enumerate(prices.items()):
        columns[f"{name}_correct"] = (rng.random(rows) < chances[:, j]).astype(float)
        columns[f"{name}_usd"] = price * (0.3 + length) * rng.gamma(8.0, 1 / 8.0, rows)
    by_length = {
        name: {"terms": [{"coefficient": 0.3 * price, "powers": [0]}, {"coefficient": price, "powers": [1]}]}
        for name, price in prices.items()
    }
    columns["length"] = length
    spec: dict[str, Any] = {
        "kind": "trace",
        "unit": "USD",
        "classifiers": [
            {
                "name": name,
                "correct": f"{name}_correct",
                "cost": by_length[name] if sized else {"column": f"{name}_usd"},
            }
            for name in prices
        ],
        **({"size": "length"} if sized else {}),
    }
    embeddings = np.column_stack((length, topic)) @ np.random.default_rng(9).normal(size=(7, 7))
    made = dataset_from_columns(TraceSpec.model_validate(spec), columns, embeddings.astype(np.float32))
    assert isinstance(made, Trace)
    return made


@cache
def built(seed: int, estimator: str = "auto", *, sized: bool = False) -> PortfolioPlan:
    """Build a portfolio."""
    options = PortfolioOptions.model_validate({"estimator": estimator, "curve_points": 5})
    return fit(world(1500, seed, sized=sized), options, np.random.default_rng(seed), BuildContext()).plan


def realized(plan: PortfolioPlan, fresh: Trace, choice: Any) -> Floats:
    """Return what each fresh prompt cost with its classifier, by name."""
    places = np.array([[c.name for c in fresh.spec.classifiers].index(name) for name in choice])
    return np.asarray(fresh.costs[np.arange(fresh.rows), places])


@pytest.mark.slow
def test_batches_cost_what_they_report_and_their_budget_holds() -> None:
    over, reported, without = [], [], []
    for seed in SEEDS:
        plan, fresh = built(seed), world(2000, 1000 + seed)
        estimates, costs = plan.estimate(fresh.embeddings), plan.predict_costs(fresh.embeddings)
        for fraction in FRACTIONS:
            options = AssignmentOptions(budget=f"{100 * fraction:.6f}%")
            made = plan.assign(estimates, options, None, None, costs)
            spent, total = realized(plan, fresh, made.assignments), made.budget
            assert total is not None
            error = 2 * float(spent.std()) * len(spent) ** 0.5
            assert made.cost <= total * (1 + 1e-9)
            assert abs(spent.sum() - total) < max(0.03 * total, 1.5 * error), (seed, fraction)
            over.append(spent.sum() / total - 1)
            reported.append(made.cost / total)
            plain = realized(plan, fresh, plan.assign(estimates, options).assignments)
            without.append(plain.sum() / total - 1)
    assert abs(np.mean(over)) < 0.015
    assert np.min(reported) > 0.99
    assert np.mean(without) > 0.05  # planned with mean costs, as long as nothing better is known


@pytest.mark.slow
def test_single_routes_spend_no_more_than_their_budget_on_average() -> None:
    """By default with a confidence of .9: a standard error and a quarter less than the budget."""
    over = []
    for seed in SEEDS:
        plan, fresh = built(seed), world(2000, 2000 + seed)
        route = plan.make_router(plan.estimate(fresh.embeddings), fresh.embeddings)
        for fraction in FRACTIONS[:2]:  # at the largest each prompt gets its best for less
            budget = fraction * plan.highest_cost
            choice = [plan.classifiers[k] for k in route(fraction * plan.highest_cost * fresh.rows)]
            queries = [RouteQuery(query=tuple(row), budget=budget) for row in fresh.embeddings[:100].tolist()]
            assert [plan.decide(query).classifier for query in queries] == choice[:100]
            over.append(realized(plan, fresh, choice).mean() / (fraction * plan.highest_cost) - 1)
    assert -0.07 < np.mean(over) < 0.01


@pytest.mark.slow
def test_a_single_decision_tells_its_own_expected_cost() -> None:
    plan, fresh = built(0), world(300, 5)
    costs = plan.predict_costs(fresh.embeddings)
    assert costs is not None
    for row in range(20):
        query = RouteQuery(query=tuple(fresh.embeddings[row].tolist()), budget="50%")
        decision = plan.decide(query)
        assert decision.cost == pytest.approx(costs[row, plan.classifiers.index(decision.classifier)])
    assert np.corrcoef(costs[:, 1], fresh.costs[:, 1])[0, 1] > 0.8


def test_the_papers_estimator_plans_with_expected_costs_too() -> None:
    plan, fresh = built(3, "occam"), world(2000, 77)
    made = plan.assign(
        plan.estimate(fresh.embeddings), AssignmentOptions(budget="50%"), None, None,
        plan.predict_costs(fresh.embeddings),
    )  # fmt: skip
    spent = realized(plan, fresh, made.assignments)
    assert made.budget is not None
    assert abs(spent.sum() / made.budget - 1) < 0.06


def test_costs_that_no_embedding_tells_stay_the_means() -> None:
    rng = np.random.default_rng(0)
    vectors, costs = rng.normal(size=(400, 5)).astype(np.float32), rng.gamma(3.0, 1.0, (400, 2))
    costs[:, 1] = 7.0
    expected = ExpectedCosts.cross_fit(vectors, costs, costs.mean(axis=0), np.arange(400) % 5, np.arange(400))
    assert expected.regression is None
    assert np.array_equal(expected.row_costs, np.tile(costs.mean(axis=0), (400, 1)))


def expected_of(vectors: Singles, costs: Floats) -> ExpectedCosts:
    """Fit expected costs with five folds, each row an item of its own."""
    rows = np.arange(len(vectors))
    return ExpectedCosts.cross_fit(vectors, costs, costs.mean(axis=0), rows % 5, rows)


def fitted(vectors: Singles, costs: Floats) -> CostRegression:
    """Fit a regression, calibrated by its own predictions."""
    weights, intercepts = fit_ridge(vectors, costs)
    return CostRegression.fit(vectors, costs, vectors @ weights + intercepts)


def test_the_penalty_has_the_least_error_of_generalized_cross_validation() -> None:
    """Of predictions of the rows themselves, made worse by the freedom that the weights have."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(30, 12)) * np.linspace(0.2, 1.5, 12)
    targets = inputs[:, :1] + rng.normal(size=(30, 1))
    weights, intercepts = fit_ridge(inputs.astype(np.float32), targets)
    off, least = inputs - inputs.mean(axis=0), (np.inf, np.zeros((12, 1)))
    for penalty in PENALTIES * (off**2).sum() / 12:
        solution = np.linalg.solve(off.T @ off + penalty * np.eye(12), off.T)
        errors = targets - targets.mean() - off @ (solution @ (targets - targets.mean()))
        score = float((errors**2).sum()) / (29 - np.trace(off @ solution)) ** 2
        least = min(least, (score, solution @ (targets - targets.mean())), key=lambda one: one[0])
    assert weights == pytest.approx(least[1], abs=1e-5)
    assert intercepts == pytest.approx(targets.mean() - inputs.mean(axis=0) @ weights, abs=1e-5)


@given(st.integers(0, 1000), st.integers(2, 40), st.integers(1, 6))
def test_expectations_stay_within_what_was_observed(seed: int, rows: int, dimensions: int) -> None:
    rng = np.random.default_rng(seed)
    vectors, costs = rng.normal(size=(rows, dimensions)).astype(np.float32), rng.gamma(1.0, 1.0, (rows, 3))
    predicted = fitted(vectors, costs).predict(100 * rng.normal(size=(50, dimensions)))
    assert np.all(predicted >= costs.min(axis=0))
    assert np.all(predicted <= costs.max(axis=0))


@pytest.mark.parametrize("seed", range(12))
def test_small_costs_of_repeated_embeddings_are_finite(seed: int) -> None:
    """Their predictions differ by rounding only."""
    rng = np.random.default_rng(seed)
    topics, topic = rng.normal(size=(8, 64)).astype(np.float32), rng.integers(8, size=600)
    costs = 1e-7 * rng.uniform(1, 5, 8)[topic][:, None] * [1.0, 2.0]
    expected = expected_of(topics[topic], costs)
    assert expected.regression is not None
    assert np.all(np.isfinite(expected.regression.levels))
    assert np.allclose(expected.regression.predict(topics[topic]), costs, rtol=0.05, atol=0)


@pytest.mark.parametrize("skew", [0.5, 1.0])
def test_expectations_of_skewed_costs_are_means_of_expensive_rows_too(skew: float) -> None:
    ratios = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        vectors = rng.normal(size=(8000, 8)).astype(np.float32)
        costs = np.exp(skew * vectors[:, :1]) * rng.gamma(4.0, 0.25, (8000, 2))
        regression = expected_of(vectors[:4000], costs[:4000]).regression
        assert regression is not None
        predicted, fresh, expensive = regression.predict(vectors[4000:]), costs[4000:], vectors[4000:, 0] > 0.5
        ratios.append([predicted.mean() / fresh.mean(), predicted[expensive].mean() / fresh[expensive].mean()])
    assert np.mean(ratios, axis=0) == pytest.approx([1, 1], abs=0.02)


def test_a_linear_cost_is_found() -> None:
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(500, 4)).astype(np.float32)
    costs = 10 + vectors @ np.array([[1.0, 0.0], [0.0, 2.0], [0.5, 0.0], [0.0, 0.0]])
    assert np.allclose(fitted(vectors, costs).predict(vectors), costs, atol=1e-3)


@pytest.mark.parametrize("estimator", first_quick(["occam", "auto"]))
def test_batches_without_sizes_keep_their_budget_where_costs_are_functions_of_the_size(estimator: str) -> None:
    plan, fresh = built(0, estimator, sized=True), world(2000, 1000, sized=True)
    estimates, costs = plan.estimate(fresh.embeddings), plan.predict_costs(fresh.embeddings)
    for fraction in FRACTIONS:
        made = plan.assign(estimates, AssignmentOptions(budget=f"{100 * fraction:.6f}%"), None, None, costs)
        assert made.budget is not None
        assert realized(plan, fresh, made.assignments).sum() == pytest.approx(made.budget, rel=0.03)


def test_a_batch_of_short_prompts_is_not_refused_before_it_is_embedded() -> None:
    """It costs less than the means say, and more than nothing."""
    plan, fresh = built(0), world(2000, 1000)
    expected = plan.predict_costs(fresh.embeddings)
    assert expected is not None
    short = np.argsort(expected[:, 0])[:200]
    options = AssignmentOptions(budget_total=1.2 * float(expected[short].min(axis=1).sum()))
    plan.check_feasibility(200, options)
    made = plan.assign(plan.estimate(fresh.embeddings[short]), options, None, None, expected[short])
    assert len(made.assignments) == 200
    with pytest.raises(Infeasible):
        plan.check_feasibility(200, AssignmentOptions(budget_total=200 * 0.9 * float(plan.cost_levels[0].min())))
