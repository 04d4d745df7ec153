"""Look-ups, going on with what was computed, and what a plan refuses."""

import dataclasses
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import InvalidRequest
from models.cost import CostFunction
from models.errors import Infeasible
from models.index import IndexDecision, IndexOptions, IndexQuery
from solvers.index import IndexPlan
from solvers.index.costs import SetCosts
from tests.oracles.index import random_instance
from tests.solvers.index.known_accuracies import plan_without_models

METHODS = ("poly-dom", "naive", "greedy", "greedy-acc", "greedy-cost")


@settings(max_examples=60)
@given(
    st.integers(0, 200),
    st.floats(1, 50),
    st.floats(0, 60),
    st.floats(0, 60),
    st.sampled_from(METHODS),
    st.floats(0, 0.5),
)
def test_never_over_budget_and_more_budget_never_means_less_accuracy(
    seed: int, size: float, one: float, two: float, method: Any, alpha: float
) -> None:
    instance = random_instance(np.random.default_rng(seed), whole=bool(seed % 2))
    plan = plan_without_models(instance.learn, instance.costs, IndexOptions(alpha=alpha), (3.0,)).plan
    less, more = (plan.decide(IndexQuery(size=size, budget=budget, method=method)) for budget in sorted((one, two)))
    assert less.cost <= min(one, two)
    assert more.cost <= max(one, two)
    if method in ("poly-dom", "naive"):
        assert more.accuracy >= less.accuracy
    assert IndexDecision.model_validate(less.model_dump()) == less


@settings(max_examples=40)
@given(st.integers(0, 200), st.floats(1, 20), st.floats(0, 40))
def test_the_answer_is_the_place_on_the_skyline_that_it_says(seed: int, size: float, budget: float) -> None:
    instance = random_instance(np.random.default_rng(seed))
    plan = plan_without_models(instance.learn, instance.costs).plan
    decision = plan.decide(IndexQuery(size=size, budget=budget))
    items = plan.list_skyline(size)
    assert decision.skyline_position is not None
    assert items[decision.skyline_position].features == decision.features
    later = items[decision.skyline_position + 1 :]
    assert all(item.cost > budget for item in later)
    assert [item.cost for item in items] == sorted(item.cost for item in items)
    assert [item.accuracy for item in items] == sorted({item.accuracy for item in items})


@settings(max_examples=60)
@given(st.integers(0, 200), st.floats(1, 20), st.floats(0, 40), st.floats(0, 1))
def test_with_an_accuracy_to_reach_it_is_the_cheapest_on_the_skyline_that_does(
    seed: int, size: float, budget: float, wanted: float
) -> None:
    instance = random_instance(np.random.default_rng(seed))
    plan = plan_without_models(instance.learn, instance.costs).plan
    query = IndexQuery(size=size, budget=budget, min_accuracy=wanted)
    enough = [item for item in plan.list_skyline(size) if item.accuracy >= wanted and item.cost <= budget]
    if not enough:
        with pytest.raises(Infeasible, match=f"requested: {wanted:g}, ") as refused:
            plan.decide(query)
        costs = [item.cost for item in plan.list_skyline(size) if item.accuracy >= wanted]
        if not costs:
            assert str(refused.value).endswith("no set reaches")
            return
        found = re.search(r"budget of (\S+) \S+$", str(refused.value))
        assert found, refused.value
        assert float(found[1]) == costs[0]
        query = query.model_copy(update={"budget": float(found[1])})
        enough = [item for item in plan.list_skyline(size) if item.cost == costs[0]]
    decision = plan.decide(query)
    assert (decision.cost, decision.accuracy) == (enough[0].cost, enough[0].accuracy)
    assert plan.decide(query.model_copy(update={"method": "naive"})).features == decision.features


def test_a_refusal_says_of_budgets_only_what_is_so() -> None:
    """A free feature is in every candidate, so that sets without it are none, and nothing is known of their budgets."""
    costs = SetCosts.from_functions([CostFunction.from_constant(cost) for cost in (0.0, 1.0, 2.5, 3.25)])
    plan = plan_without_models(lambda masks: [0.5 + 0.1 * mask.bit_count() for mask in masks], costs).plan
    reach = IndexQuery(budget=2.5, min_accuracy=0.8)
    messages = {
        reach: "^within 2.5 unit .*; requested: 0.8, .* 3.5 unit$",
        reach.model_copy(update={"min_accuracy": 0.95}): "; requested: 0.95, which no set reaches$",
        reach.model_copy(update={"excluded": ("f0",)}): "; requested: 0.8$",
        IndexQuery(budget=9.0, excluded=("f0",)): "^no feature set within 9 unit .* f0$",
    }
    for query, pattern in messages.items():
        with pytest.raises(Infeasible, match=pattern):
            plan.decide(query)


def test_an_accuracy_to_reach_is_for_items_of_which_nothing_is_computed() -> None:
    for more in ({"method": "greedy"}, {"spent": 1.0}, {"computed": ("f0",)}):
        query = IndexQuery.model_validate({"size": 3.0, "budget": 9.0, "min_accuracy": 0.5} | more)
        with pytest.raises(InvalidRequest, match="supported only for methods poly-dom and naive"):
            small().decide(query)


def small(**options: Any) -> IndexPlan:
    """Make a plan of three features that cost 4, n and 1 + n, with greedy sequences weighed at size 3."""
    savings = (0.2, 0.15, 0.1)
    table = [0.5 + sum(w for f, w in enumerate(savings) if s >> f & 1) for s in range(8)]
    costs = SetCosts(np.array([[0], [1]]), np.array([[4.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    return plan_without_models(lambda masks: [table[m] for m in masks], costs, IndexOptions(**options), (3.0,)).plan


def test_going_on_finds_the_best_set_that_can_still_be_reached() -> None:
    plan = small()
    cold = plan.decide(IndexQuery(size=2.0, budget=5.0))
    assert cold.features == ("f1", "f2")
    warm = plan.decide(IndexQuery(size=2.0, budget=6.0, computed=("f0",), spent=4.0))
    assert (warm.features, warm.cost, warm.skyline_position) == (("f0", "f1"), 2.0, None)
    assert plan.decide(IndexQuery(size=2.0, budget=6.0, computed=("f0",))) == warm  # 4 is what it was to cost
    slower = plan.decide(IndexQuery(size=2.0, budget=6.0, computed=("f0",), spent=5.0))
    assert (slower.features, slower.cost) == (("f0",), 0.0)
    over = plan.decide(IndexQuery(size=2.0, budget=6.0, computed=("f0",), spent=9.0))
    assert (over.features, over.cost) == (("f0",), 0.0)
    gone = plan.decide(IndexQuery(size=2.0, budget=6.0, spent=3.0, method="naive"))
    assert (gone.features, gone.cost, gone.method) == (("f1",), 2.0, "naive")


@settings(max_examples=40)
@given(st.integers(0, 100), st.floats(1, 20), st.floats(0, 40), st.floats(0, 40), st.sampled_from(METHODS))
def test_going_on_never_spends_more_than_is_left(
    seed: int, size: float, budget: float, spent: float, method: Any
) -> None:
    rng = np.random.default_rng(seed)
    instance = random_instance(rng)
    plan = plan_without_models(instance.learn, instance.costs).plan
    computed = tuple(name for name in plan.features if rng.random() < 0.5)
    query = IndexQuery(size=size, budget=budget, spent=spent, computed=computed, method=method)
    decision = plan.decide(query)
    assert decision.cost <= max(budget - spent, 0)
    if method == "poly-dom":
        again = plan.decide(IndexQuery(size=size, budget=budget + 1, spent=spent, computed=computed))
        assert again.accuracy >= decision.accuracy


def test_greedy_goes_on_along_the_sequence_that_it_began() -> None:
    plan = small()
    assert plan.decide(IndexQuery(size=2.0, budget=4.0, method="greedy-acc")).features == ("f0",)
    assert plan.decide(IndexQuery(size=2.0, budget=2.0, method="greedy-cost")).features == ("f1",)
    on = plan.decide(IndexQuery(size=2.0, budget=10.0, method="greedy-acc", computed=("f0",), spent=8.0))
    assert (on.features, on.cost) == (("f0", "f1"), 2.0)
    begun = plan.decide(IndexQuery(size=2.0, budget=10.0, method="greedy", computed=("f1",), spent=6.0))
    assert (begun.features, begun.cost) == (("f0", "f1"), 4.0)
    other = plan.decide(IndexQuery(size=2.0, budget=10.0, method="greedy", computed=("f2",), spent=8.0))
    assert other.cost <= 2.0


def test_greedy_starts_from_the_skyline_at_the_median_size_and_adds_while_the_item_affords() -> None:
    """At size 3 the budget of 5 is best spent on f0; a smaller item affords f1 beside it."""
    plan = small(lambdas=())
    assert plan.decide(IndexQuery(size=3.0, budget=5.0, method="greedy")).features == ("f0",)
    assert plan.decide(IndexQuery(size=1.0, budget=5.0, method="greedy")).features == ("f0", "f1")
    assert plan.decide(IndexQuery(size=3.0, budget=0.0, method="greedy")).features == ()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"budget": 1.0}, r"size: is required: .*\(1 numbers\)"),
        ({"size": 0.5, "budget": 1.0}, "size: must be at least 1, got 0.5"),
        ({"size": (2.0, 3.0), "budget": 1.0}, "size: must have 1 numbers, got 2"),
        ({"size": 2.0, "budget": 1.0, "computed": ("x",)}, "computed: .*'x' not found; available: f0, f1, f2"),
    ],
)
def test_queries_that_the_plan_cannot_answer_are_refused(query: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        small().decide(IndexQuery(**query))


def test_a_size_of_one_number_may_come_as_a_list() -> None:
    plan = small()
    assert plan.decide(IndexQuery(size=(2.0,), budget=5.0)) == plan.decide(IndexQuery(size=2.0, budget=5.0))
    with pytest.raises(InvalidRequest, match="size: is required"):
        plan.list_skyline()


@pytest.mark.parametrize(
    ("change", "lacks"),
    [
        ({"features": ()}, "features, each with its columns"),
        ({"classes": ("a",)}, "two classes or more"),
        ({"powers": np.array([[0], [2]])}, "powers from 0 on"),
        ({"powers": np.zeros((3, 1), dtype=np.int64)}, "costs for each feature"),
        ({"coefficients": -np.ones((3, 2))}, "coefficients"),
        ({"class_shares": np.array([np.nan, 1.0])}, "class_shares"),
        ({"accuracies": np.ones(3)}, "accuracies for each set"),
        ({"candidates": np.zeros(0, dtype=np.int32)}, "candidates"),
        ({"fixed_size": (3.0,)}, "no fixed size"),
        ({"masks": np.arange(8) + 1}, "sets of its features"),
        ({"candidates": np.array([99], dtype=np.int32)}, "candidates among its sets"),
        ({"candidates": np.array([0, 7], dtype=np.int32)}, "candidates among its sets, the most accurate first"),
        ({"candidates": np.array([7], dtype=np.int32)}, "a candidate that costs nothing"),
        ({"sizes": np.array([2.0, 3.0])}, "breakpoints that rise from 1"),
        ({"members": np.zeros(1, dtype=np.int32)}, "offsets that cut the members"),
        ({"orders": np.zeros((2, 3), dtype=np.int32)}, "sequences that take no feature twice"),
        ({"lambdas": np.zeros(6)}, "the sequences of 0 and of infinity"),
        ({"median_size": ()}, "a median size"),
        ({"model_kind": "pickle"}, "models of a known kind"),
        ({"model_offsets": np.array([0, 5])}, "models of its sets"),
        (
            {
                "model_sets": np.array([1], dtype=np.int32),
                "model_offsets": np.array([0, 5]),
                "model_numbers": np.zeros(5),
            },
            "as many numbers as its models have",
        ),
    ],
)
def test_a_plan_whose_arrays_contradict_each_other_is_refused(change: dict[str, Any], lacks: str) -> None:
    plan = small()
    with pytest.raises(InvalidRequest, match=lacks):
        dataclasses.replace(plan, **change)


def test_a_plan_with_a_skyline_of_falling_accuracy_is_refused() -> None:
    plan = small()
    members = np.ascontiguousarray(plan.members[::-1])
    with pytest.raises(InvalidRequest, match="skylines of rising accuracy"):
        dataclasses.replace(plan, members=members)


def test_a_plan_without_an_accuracy_for_part_of_a_sequence_is_refused() -> None:
    plan = small(fixed_budget=1.0)
    masks, accuracies = plan.masks[:-1], plan.accuracies[:-1]
    keep = plan.candidates[plan.candidates < len(masks)]
    changed: dict[str, Any] = {"masks": masks, "accuracies": accuracies, "candidates": keep}
    with pytest.raises(InvalidRequest, match="an accuracy for each part of a sequence"):
        dataclasses.replace(plan, **changed)
