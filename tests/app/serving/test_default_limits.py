"""A query without any limit is answered by those of the artifact's headline; one with a limit as it asks."""

from dataclasses import replace
from functools import cache
from math import inf
from typing import Any

import numpy as np
import orjson
import pytest

from app.demo.generated_tables import make_documents
from app.running.item_run import ItemRun
from app.running.item_start import batch_options
from app.serving.decision_replies import decide_to_json, with_default_limits
from models import FeatureTable
from models.cascade import CascadeQuery
from models.index import IndexQuery
from models.pipeline import PipelineQuery
from models.policy import PolicyQuery
from models.portfolio import RouteQuery
from models.run import RunItem, RunLimits
from tests.oracles.index import small_table
from tests.support.replays import NAMES, World, built


@pytest.fixture(scope="module")
def world() -> World:
    return World.of(4, 300)


@cache
def _live(world: World, kind: str) -> Any:
    every: dict[str, dict[str, Any]] = {"portfolio": {"curve_points": 5}, "policy": {"folds": 3}}
    return built(kind, world.dataset(kind), **every.get(kind, {}))


def test_a_cascade_and_a_portfolio_answer_at_the_headlines_point(world: World) -> None:
    """Items that are assigned together may cost what a single one may; without a headline there is no limit."""
    cascade, portfolio = _live(world, "cascade"), _live(world, "portfolio")
    assert cascade.record.savings.query.keys() == {"budget"}
    limited = with_default_limits(cascade, CascadeQuery(item="a"))
    assert (limited.budget, limited.item) == (cascade.record.savings.query["budget"], "a")
    query = RouteQuery(query=tuple(world.embeddings[0].tolist()))
    budget = portfolio.record.savings.query["budget"]
    assert with_default_limits(portfolio, query).budget == budget
    assert decide_to_json(portfolio, query) == decide_to_json(portfolio, query.model_copy(update={"budget": budget}))
    for limits, wanted in ((RunLimits(), budget), (RunLimits(budget=2.0), 2.0)):
        asked = ItemRun(RunItem(item="a"), limits, 1.0, inf, frozenset())
        assert batch_options(portfolio, asked).budget == wanted
    bare = replace(cascade, record=cascade.record.model_copy(update={"savings": None}))
    assert with_default_limits(bare, plain := CascadeQuery()) is plain


def test_a_policy_answers_as_its_headline_promises(world: World) -> None:
    """What its items cost on average is near what the headline says, not what the fewest errors cost."""
    policy = _live(world, "policy")
    savings = policy.record.savings
    target = with_default_limits(policy, PolicyQuery())
    assert target != PolicyQuery()
    cells = policy.plan.cells_of(world.dataset("policy"))
    costs = policy.plan.run(cells, [str(row) for row in range(300)], target).costs
    assert float(costs.mean()) == pytest.approx(savings.cost, rel=0.25)


def test_an_index_answers_with_the_headlines_budget_and_costs_what_it_promises_over_all_sizes() -> None:
    table = make_documents(1200, np.random.default_rng(1)).to_dataset()
    assert isinstance(table, FeatureTable)
    index = built("index", table)
    assert index.record.savings is not None
    costs = []
    for size in table.sizes[:, 0].tolist():
        asked = with_default_limits(index, IndexQuery(size=size))
        assert asked == IndexQuery.model_validate({"size": size, **index.record.savings.query})
        costs.append(index.plan.decide(asked).cost)
    assert np.mean(costs) == pytest.approx(index.record.savings.cost, rel=0.1)


def test_an_index_of_a_table_without_sizes_costs_exactly_what_its_headline_says() -> None:
    index = built("index", small_table())
    assert index.record.savings is not None
    size = index.plan.median_size[0]
    asked = with_default_limits(index, IndexQuery(size=size))
    assert asked == IndexQuery.model_validate({"size": size, **index.record.savings.query})
    assert index.plan.decide(asked).cost == pytest.approx(index.record.savings.cost)


@pytest.mark.parametrize("params", [{"max_size": 2.0}, {"max_size": 2.0, "fixed_budget": 3.0}])
def test_an_indexs_headline_is_about_a_size_that_it_answers_for(params: dict[str, Any]) -> None:
    index = built("index", small_table(), **params)
    assert index.plan.median_size[0] > 2
    assert index.record.savings is not None
    decision = index.plan.decide(with_default_limits(index, IndexQuery(size=2.0)))
    assert index.record.savings.cost == pytest.approx(decision.cost)
    fixed = params.get("fixed_budget")
    assert with_default_limits(index, IndexQuery(size=10)).budget == fixed or fixed is None


def test_an_accuracy_alone_is_reached_whatever_it_costs() -> None:
    index = built("index", small_table())
    asked = IndexQuery(size=20.0, min_accuracy=0.35)
    assert with_default_limits(index, asked) is asked
    assert index.plan.decide(asked) == index.plan.decide(asked.model_copy(update={"budget": 1e9}))


@pytest.mark.parametrize("limit", [{"deadline": 1e9}, {"min_accuracy": 0.1}, {"budget": 1e9}])
def test_a_limit_of_the_callers_own_stands_alone(world: World, limit: dict[str, float]) -> None:
    query = CascadeQuery.model_validate(limit)
    assert with_default_limits(_live(world, "cascade"), query) is query


@pytest.mark.parametrize("kind", ["cascade", "portfolio"])
@pytest.mark.parametrize("name", NAMES)
def test_no_default_limit_refuses_what_is_left(world: World, kind: str, name: str) -> None:
    """Nor sends a query to a classifier whose circuit is open. A headline of the least cost is the hardest."""
    loaded = _live(world, kind)
    query = {"budget": 1.0}
    savings = loaded.record.savings.model_copy(update={"query": query})
    loaded = replace(loaded, record=loaded.record.model_copy(update={"savings": savings}))
    asked: Any = CascadeQuery() if kind == "cascade" else RouteQuery(query=(0.5, 0.0))
    excluded = decision_of(loaded, asked.model_copy(update={"excluded": (name,)}))
    assert name not in excluded
    assert name not in decision_of(loaded, asked, frozenset([name])) or kind == "cascade"  # a cascade's run skips it


def decision_of(loaded: Any, query: Any, open_circuits: frozenset[str] = frozenset()) -> str:
    reply = orjson.loads(decide_to_json(loaded, query, open_circuits))
    return str(reply.get("classifier") or [step["classifier"] for step in reply["steps"]])


@pytest.mark.parametrize(
    ("kind", "query"),
    [
        ("cascade", CascadeQuery()),
        ("portfolio", RouteQuery(query=(0.5, 0.0))),
        ("policy", PolicyQuery()),
        ("pipeline", PipelineQuery()),
        ("index", IndexQuery(size=20.0)),
    ],
)
def test_a_budget_in_percent_is_of_the_most_expensive_classifier_or_of_all_features(
    world: World, kind: str, query: Any
) -> None:
    loaded = built("index", small_table()) if kind == "index" else _live(world, kind)
    highest = loaded.kind.highest_cost(loaded.plan, query)
    asked = query.model_copy(update={"budget": "90%"})
    number = with_default_limits(loaded, asked)
    assert number.budget == pytest.approx(0.9 * highest)
    assert decide_to_json(loaded, asked) == decide_to_json(loaded, query.model_copy(update={"budget": number.budget}))
    assert decide_to_json(loaded, query.model_copy(update={"budget": 1.001 * highest}))
    if kind in ("cascade", "portfolio"):
        assert highest == 10.0
