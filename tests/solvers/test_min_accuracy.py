"""An accuracy that is asked for: the cheapest answer that reached it on held-out rows, or a refusal with the best."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from models import InvalidRequest
from models.cascade import CascadeQuery
from models.errors import Infeasible
from models.index import IndexQuery
from models.policy import PolicyQuery, PolicyTarget
from models.portfolio import AssignmentOptions, RouteQuery
from solvers.cascade.plan import CascadePlan
from solvers.index.plan import IndexPlan
from tests.support.replays import COSTS, World, built

LEVELS = np.linspace(0.3, 1.0, 36).tolist()
PARAMS: dict[str, dict[str, Any]] = {
    "cascade": {"target_precision": 0.7},
    "portfolio": {"samples": {"count": 8, "size": 50}, "curve_points": 9},
    "policy": {"points": 5, "trees": 8},
}


@cache
def plan(kind: str) -> Any:
    """Build once for all tests."""
    return built(kind, World.of(3, 400).dataset(kind), 1, **PARAMS.get(kind, {})).plan


def off(rates: Any, rows: int) -> Any:
    """Give the standard errors of rates, with one success and one failure more than there were."""
    right, wrong = rates * rows + 1, (1 - rates) * rows + 1
    return np.sqrt(right * wrong / (rows + 2) ** 2 / rows)


def test_a_cascade_is_the_cheapest_that_is_accurate_enough_within_the_deadline() -> None:
    made: CascadePlan = plan("cascade")
    safe = (made.point_accuracies - made.point_accuracy_errors).tolist()
    for deadline in (*np.unique(made.point_maxima).tolist(), None):
        hull = [i for _, i in made.list_points_within(deadline)]
        for wanted in LEVELS:
            able = [i for i in hull if safe[i] >= wanted]
            query = CascadeQuery(deadline=deadline, min_accuracy=wanted)
            if able:
                chosen = made.select_points(query)
                assert chosen is not None
                assert chosen.first == chosen.second == able[0]  # points stand by rising cost
                assert made.decide(query).maximum_duration <= (deadline or np.inf)
            else:
                with pytest.raises(Infeasible, match=f"{wanted:g}"):
                    made.decide(query)


def test_a_policy_takes_its_cheapest_point_that_is_accurate_enough_by_the_rows_that_choose() -> None:
    """With a standard error of these to spare; what is expected is of the others."""
    made = plan("policy")
    chosen, others = (1 - made.point_reached).T
    assert made.choosing == 160
    safe = chosen - off(chosen, made.choosing)
    for wanted in LEVELS:
        able = np.flatnonzero(safe >= wanted).tolist()
        if able:
            accuracy, cost, _ = made.expected_outcome(PolicyTarget(min_accuracy=wanted))
            assert (accuracy, cost) == (pytest.approx(others[able[0]]), made.point_costs[able[0]])
        else:
            with pytest.raises(Infeasible, match=f"{wanted:g}"):
                made.decide(PolicyQuery(min_accuracy=wanted))


def test_an_index_takes_its_cheapest_set_that_is_accurate_enough_by_the_rows_that_choose() -> None:
    """With a standard error of these to spare; what is expected is of the others, and counted on so many."""
    made: IndexPlan = plan("index")
    assert made.choosing == 160
    chosen, others, _ = made.reached[made.candidates].T
    safe = chosen - off(chosen, made.choosing)
    costs = [sum(COSTS[f] for f in range(3) if mask >> f & 1) for mask in made.masks[made.candidates].tolist()]
    for wanted in LEVELS:
        query = IndexQuery(budget=100.0, min_accuracy=wanted)
        able = [i for i in range(len(safe)) if safe[i] >= wanted]
        if able:
            decision, best = made.decide(query), min(able, key=lambda i: costs[i])
            assert decision.cost == pytest.approx(costs[best])
            accuracy, rows = made.estimate_accuracy(query, decision)
            assert rows == 240
            assert accuracy == pytest.approx(float(others[best]))
        else:
            with pytest.raises(Infeasible, match="minus one standard error; requested"):
                made.decide(query)


def test_a_policy_refuses_an_accuracy_that_the_budget_does_not_buy() -> None:
    made = plan("policy")
    chosen = 1 - made.point_reached[:, 0]
    most = float((chosen - off(chosen, made.choosing)).max())
    with pytest.raises(Infeasible, match="needs a budget of"):
        made.decide(PolicyQuery(min_accuracy=most, budget=0.0))


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (["nosuch", 0.9], "unknown class 'nosuch'; available: 'a', 'b', 'c'"),
        (["a", 93.0], "has confidence 93; the dataset's are from"),
        (["a", -0.5], "has confidence -0.5"),
    ],
)
def test_a_policy_refuses_what_the_dataset_never_had(answer: list[Any], fault: str) -> None:
    with pytest.raises(InvalidRequest, match=fault):
        plan("policy").decide(PolicyQuery.model_validate({"acquired": {"fast": answer}}))


def test_a_portfolio_spends_the_least_budget_at_which_held_out_items_were_right_so_often() -> None:
    made = plan("portfolio")
    for method, accuracies in zip(made.methods, made.curve_accuracies, strict=True):
        if method not in ("batch", "route"):
            continue
        best = np.maximum.accumulate(accuracies - off(accuracies, made.held_out))
        for wanted in LEVELS:
            if wanted > best[-1]:
                continue
            budget = made._find_min_budget(method, wanted, np.inf)
            assert np.interp(budget, made.curve_budgets, best) >= wanted - 1e-9
            below = budget - 1e-6 * made.highest_cost
            assert below < made.curve_budgets[0] or np.interp(below, made.curve_budgets, best) < wanted


def test_a_portfolio_refuses_an_accuracy_that_the_budget_does_not_buy() -> None:
    made = plan("portfolio")
    row = made.methods.index("route")
    levels = made.curve_accuracies[row]
    reached = float((levels - off(levels, made.held_out)).max())
    query = RouteQuery(query=(0.5, 0.0), min_accuracy=reached, budget=made.min_cost)
    with pytest.raises(Infeasible, match="needs a budget of"):
        made.decide(query)
    with pytest.raises(Infeasible, match="the highest accuracy at any budget"):
        made.decide(RouteQuery(query=(0.5, 0.0), min_accuracy=1.0))
    estimates = made.estimate(np.zeros((5, 2)))
    assigned = made.assign(estimates, AssignmentOptions(min_accuracy=0.5))
    assert assigned.budget == pytest.approx(5 * made._find_min_budget("batch", 0.5, np.inf))
    with pytest.raises(ValueError, match="budget or min_accuracy is required"):
        AssignmentOptions()
    assert made.assign(estimates, AssignmentOptions(min_accuracy=0.5, budget="100%")).budget < 50


def test_an_index_spends_no_more_than_its_rows_can_show() -> None:
    made = plan("index")
    for budget in (0.0, 1.0, 4.0, 11.0, 14.0):
        within = [item for item in made.list_skyline() if item.cost <= budget]
        best = max(item.accuracy for item in within)
        least = best - off(best, 400)
        decision = made.decide(IndexQuery(budget=budget, one_standard_error=True))
        assert decision.cost == min(item.cost for item in within if item.accuracy >= least)
        assert decision.cost <= made.decide(IndexQuery(budget=budget)).cost
    with pytest.raises(InvalidRequest, match="supported only for methods"):
        made.decide(IndexQuery(budget=1.0, one_standard_error=True, method="greedy"))
