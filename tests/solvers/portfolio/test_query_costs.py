"""Costs of each query: what its size says, in single routes and in batches, kept and told."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from app.store import codec
from models import InvalidRequest, Trace, TraceSpec
from models.errors import Infeasible
from models.portfolio import AssignmentRequest, PortfolioOptions, RouteQuery
from models.portfolio_constraints import ConstrainedRequest
from solvers import KINDS
from solvers.base import BuildContext
from solvers.portfolio import PortfolioPlan, fit
from tests.support.cases import first_quick

PRICES = (0.01, 0.1)
SPEC: dict[str, Any] = {
    "kind": "trace",
    "unit": "USD",
    "size": "tokens",
    "classifiers": [
        {"name": "small", "correct": "small_ok", "cost": {"polynomial": [0.5, PRICES[0]]}},
        {"name": "large", "correct": "large_ok", "cost": {"polynomial": [0, PRICES[1]]}},
        {"name": "flat", "correct": "flat_ok", "cost": 2.0},
    ],
}


def drawn(seed: int, rows: int) -> tuple[Any, dict[str, Any]]:
    """Draw embeddings and a table: small is right about the easy, flat about half of all."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(rows, 3)).astype(np.float32)
    chances: dict[str, Any] = {"small_ok": 1 / (1 + np.exp(-2 * vectors[:, 0])), "large_ok": 0.95, "flat_ok": 0.6}
    columns = {name: (rng.random(rows) < chance).astype(float) for name, chance in chances.items()}
    return vectors, columns | {"tokens": rng.integers(10, 400, rows).astype(float)}


def costs_of(tokens: Any) -> Any:
    """Reckon what queries cost."""
    tokens = np.asarray(tokens, dtype=float)
    return np.column_stack((0.5 + PRICES[0] * tokens, PRICES[1] * tokens, np.full(len(tokens), 2.0)))


def plan(estimator: str = "auto") -> PortfolioPlan:
    return _plan(estimator)


@cache
def _plan(estimator: str) -> PortfolioPlan:
    vectors, columns = drawn(0, 900)
    trace = Trace.from_columns(TraceSpec.model_validate(SPEC), columns, vectors)
    options = PortfolioOptions.model_validate({"estimator": estimator, "curve_points": 4})
    return fit(trace, options, np.random.default_rng(0), BuildContext()).plan


def test_a_query_costs_what_its_size_says_and_without_one_what_queries_cost_on_average() -> None:
    query: dict[str, Any] = {"query": (2.0, 0.0, 0.0), "budget": 50.0}
    for tokens in (10.0, 100.0, 400.0):
        decision = plan().decide(RouteQuery(size=tokens, **query))
        place = ["small", "large", "flat"].index(decision.classifier)
        assert decision.cost == pytest.approx(costs_of([tokens])[0, place])
        given = tuple(costs_of([tokens])[0].tolist())
        assert plan().decide(RouteQuery(costs=given, **query)) == decision
    mean = plan().decide(RouteQuery(**query))
    assert mean.cost == pytest.approx(plan().costs[["small", "large", "flat"].index(mean.classifier)])


@pytest.mark.parametrize("estimator", first_quick(["auto", "occam"]))
def test_a_batch_keeps_its_budget_by_the_costs_of_its_own_queries(estimator: str) -> None:
    vectors, columns = drawn(1, 300)
    made, sizes = plan(estimator), tuple(columns["tokens"].tolist())
    queries = tuple(map(tuple, vectors.astype(float).tolist()))
    for per_query in (1.9, 4.0, 15.0):
        asked = AssignmentRequest(queries=queries, sizes=sizes, budget=per_query)
        assigned = made.assign(made.estimate(vectors), asked)
        places = [["small", "large", "flat"].index(name) for name in assigned.assignments]
        paid = costs_of(columns["tokens"])[np.arange(300), places].sum()
        assert assigned.cost == pytest.approx(paid)
        assert paid <= 300 * per_query * (1 + 1e-9)
        expected = KINDS["portfolio"].estimate_outcome(made, {}, asked, assigned)
        assert expected.cost == pytest.approx(paid / 300)
        assert expected.cost_error is None
    blind = made.assign(made.estimate(vectors), AssignmentRequest(queries=queries, budget=4.0))
    aware = made.assign(made.estimate(vectors), AssignmentRequest(queries=queries, sizes=sizes, budget=4.0))
    assert aware.raw_estimate > blind.raw_estimate  # who knows the sizes buys more for the same


@pytest.mark.parametrize("estimator", first_quick(["auto", "occam"]))
def test_single_queries_keep_their_budget_by_their_own_costs(estimator: str) -> None:
    """And what the curve says of a budget is what its queries cost, by their sizes."""
    vectors, columns = drawn(2, 1500)
    made, slack = plan(estimator), 1.05 if estimator == "auto" else 1.2  # the paper's is held to no confidence
    for method in (0, 1):
        assert np.all(made.curve_costs[method, 1:] <= slack * made.curve_budgets[1:])
    for per_query in (2.0, 6.0, 15.0):
        spent = [
            made.decide(RouteQuery(query=tuple(v), size=tokens, budget=per_query)).cost
            for v, tokens in zip(vectors.astype(float).tolist(), columns["tokens"].tolist(), strict=True)
        ]
        assert np.mean(spent) <= slack * per_query
    assert np.mean(spent) > 10


def test_sizes_that_do_not_fit_are_refused_and_too_little_is_infeasible() -> None:
    query: dict[str, Any] = {"query": (0.0, 0.0, 0.0), "budget": 5.0}
    with pytest.raises(InvalidRequest, match="size: must have 1 numbers, got 2"):
        plan().decide(RouteQuery(size=(1.0, 2.0), **query))
    with pytest.raises(InvalidRequest, match=r"costs of at most 1e\+60"):
        plan().decide(RouteQuery(size=1e99, **query))
    with pytest.raises(ValidationError, match="sizes must have 2 rows, one per query, got 1"):
        AssignmentRequest(queries=((0.0,), (1.0,)), sizes=(1.0,), budget_total=1.0)
    with pytest.raises(ValidationError, match="costs cannot be combined with size"):
        RouteQuery(size=1.0, costs=(1.0, 2.0, 3.0), **query)
    with pytest.raises(InvalidRequest, match=r"must have 3 numbers .* got 2"):
        plan().decide(RouteQuery(costs=(1.0, 2.0), **query))
    two = AssignmentRequest(queries=((0.0,) * 3,) * 2, sizes=(400.0, 400.0), budget_total=3.9)
    with pytest.raises(Infeasible, match=r"at least 4 USD for 2 queries, got 3\.9"):
        plan().assign(plan().estimate(np.zeros((2, 3))), two)


def test_a_portfolio_whose_costs_are_numbers_takes_no_size() -> None:
    vectors, columns = drawn(0, 200)
    numbers = [one | {"cost": cost} for one, cost in zip(SPEC["classifiers"], (1.0, 9.0, 2.0), strict=True)]
    trace = Trace.from_columns(TraceSpec.model_validate(SPEC | {"classifiers": numbers}), columns, vectors)
    made = fit(trace, PortfolioOptions(curve_points=2), np.random.default_rng(0), BuildContext()).plan
    with pytest.raises(InvalidRequest, match="must be omitted"):
        made.decide(RouteQuery(query=(0.0, 0.0, 0.0), size=3.0, budget="100%"))


def test_the_functions_travel_and_forged_ones_are_refused() -> None:
    back = codec.decode(codec.encode(plan(), {}), PortfolioPlan)
    assert np.array_equal(back.compute_costs([7.0]), plan().compute_costs([7.0]))
    for forged in (np.array([[99]]), np.array([[-1]])):
        changed = {name: getattr(plan(), name) for name in plan().__dataclass_fields__ if not name.startswith("_")}
        with pytest.raises(InvalidRequest, match="costs that are functions of the size"):
            PortfolioPlan(**(changed | {"cost_powers": forged, "cost_coefficients": np.ones((3, 1))}))


@pytest.mark.parametrize("limits", first_quick([{}, {"classifiers": {"flat": {"at_most": 900}}}]))
def test_a_batch_without_sizes_is_expected_to_cost_what_queries_cost_on_average(limits: dict[str, Any]) -> None:
    """Held-out items, planned with their own costs, were cheaper than the means of their classifiers; a batch that is
    planned with means is not."""
    vectors, columns = drawn(1, 900)
    asked = {"queries": vectors.tolist(), "budget": 6.0, **limits}
    request = ConstrainedRequest.model_validate(asked)
    assigned = plan().assign(plan().estimate(vectors), request)
    places = [plan().classifiers.index(name) for name in assigned.assignments]
    true = float(costs_of(columns["tokens"])[np.arange(900), places].mean())
    expected = KINDS["portfolio"].estimate_outcome(plan(), {}, request, assigned)
    assert expected.cost == pytest.approx(assigned.cost / 900)
    assert expected.cost == pytest.approx(true, rel=0.1)
    assert expected.model_dump().get("cost_error") is None


def test_a_batch_within_a_budget_alone_is_told_what_one_more_unit_of_it_brings() -> None:
    vectors, columns = drawn(2, 400)
    asked: dict[str, Any] = {"queries": vectors.tolist(), "sizes": columns["tokens"].tolist(), "gap": 0.0}
    estimates = plan().estimate(vectors)

    def assigned(total: float, **more: Any) -> Any:
        return plan().assign(estimates, ConstrainedRequest.model_validate({**asked, "budget_total": total, **more}))

    least, given, most = (assigned(total) for total in (1900.0, 2000.0, 2100.0))
    (price,) = given.prices
    assert (price.limit, price.at_most, price.used) == ("budget", 2000.0, given.cost)
    gains = [400 * (b.raw_estimate - a.raw_estimate) / 100 for a, b in ((given, most), (least, given))]
    assert 0 < gains[0] <= price.price * 1.05
    assert price.price <= gains[1] * 1.05
    limited = assigned(2000.0, classifiers={"flat": {"at_most": 400}})  # a limit that does not bind
    assert price.price == pytest.approx(limited.prices[0].price, rel=0.01)
    assert assigned(1e9).prices[0].price == 0
    assert assigned(2000.0, objective="min").prices == ()


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([[-1.0]], "sizes.0.0: must be at least 0, got -1.0"),
        ([-1.0], "sizes.0: must be at least 0, got -1.0"),
        (["many"], 'sizes.0: must be a number, got "many"'),
        ([1e200], "sizes.0: must be at most 1e+100"),
    ],
)
def test_a_wrong_size_is_told_once_and_by_what_is_wrong_with_it(sizes: list[Any], message: str) -> None:
    with pytest.raises(ValidationError) as refused:
        AssignmentRequest.model_validate({"queries": [[0.0]], "budget_total": 1.0, "sizes": sizes})
    assert str(InvalidRequest.from_validation(refused.value)) == message
