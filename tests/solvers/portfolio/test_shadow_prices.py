"""Shadow prices for single queries, and streams that are paced by them."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from models.errors import Infeasible
from solvers.portfolio.pacing import BudgetStream, StreamSpending
from solvers.portfolio.shadow_prices import ShadowPrices
from tests.support.cases import first_quick
from tests.support.stream_ledger import record_cost

COSTS = np.array([0.15, 0.22, 0.53, 1.0])
STRENGTHS = np.array([0.55, 0.62, 0.75, 0.85])


def queries(rng: np.random.Generator, count: int, shift: float = 0.0) -> np.ndarray:
    """Draw values of queries, (count, 4): stronger classifiers are better on average, in 41 steps as of 40 samples."""
    ease = rng.normal(shift, 0.25, (count, 1))
    return np.asarray(np.round(np.clip(STRENGTHS + ease + rng.normal(0, 0.1, (count, 4)), 0, 1) * 40) / 40)


def test_prices_fall_to_nothing_as_budgets_rise() -> None:
    prices = ShadowPrices.from_values(queries(np.random.default_rng(0), 2000), COSTS)
    assert bool(np.all(np.diff(prices.prices) <= 0))
    assert prices.price_at(0.15) == prices.prices[0] > 0
    assert prices.price_at(5.0) == 0.0


def test_a_budget_of_the_cheapest_alone_affords_nothing_else_whatever_its_price() -> None:
    """Where none of what a build saw cost anything, the price is nothing."""
    prices, values = ShadowPrices(np.array([0.15, 1.0]), np.zeros(2), np.zeros(2)), STRENGTHS
    assert prices.choose(values, COSTS, 0.15) == 0
    assert prices.choose(values, COSTS, 0.16) == 3
    assert prices.choose_each(np.tile(values, (2, 1)), COSTS, 0.15).tolist() == [0, 0]


@settings(max_examples=50)
@example(197, 0.15000000000000002, 1.0)
@given(st.integers(0, 500), st.floats(0.15, 1.2), st.floats(0.15, 1.0))
def test_a_choice_has_the_highest_priced_value_of_those_allowed(seed: int, budget: float, most: float) -> None:
    values = queries(np.random.default_rng(seed), 200)
    prices = ShadowPrices.from_values(values, COSTS)
    choice = prices.choose(values[0], COSTS, budget, most)
    allowed = np.flatnonzero(np.less_equal(COSTS, most if budget > 0.15 else 0.15))
    savings = values[0] - prices.price_at(budget) * COSTS
    assert choice in allowed
    assert savings[choice] == pytest.approx(
        savings[allowed].max(), rel=1e-12, abs=1e-12
    )  # what differs by rounding is equal
    assert all(COSTS[choice] <= COSTS[i] for i in allowed if savings[i] == savings[choice])


def test_routing_by_price_spends_about_the_budget_and_is_nearly_optimal() -> None:
    """On queries that the prices have not seen: within 5 % of the budget, and near the programme's value."""
    rng = np.random.default_rng(1)
    prices, fresh = ShadowPrices.from_values(queries(rng, 4000), COSTS), queries(rng, 4000)
    for budget in (0.25, 0.4, 0.6):
        choice = prices.choose_each(fresh, COSTS, budget)
        assert float(COSTS[choice].mean()) == pytest.approx(budget, rel=0.05)


def run(prices: ShadowPrices, stream: BudgetStream, values: np.ndarray) -> float:
    """Send a stream through, one query after the other: what it spent."""
    so_far = StreamSpending()
    for row in values:
        choice = prices.choose(row, COSTS, stream.current_budget(so_far), stream.max_cost(so_far))
        so_far = record_cost(stream, so_far, float(COSTS[choice]))
        assert so_far.spent <= stream.total * (1 + 1e-9)
    return so_far.spent


@pytest.mark.parametrize("shift", first_quick([0.3, -0.4, 0.0]))
@pytest.mark.parametrize("budget", [0.2, 0.3])
def test_a_stream_ends_at_its_total_also_if_its_queries_are_other_than_expected(shift: float, budget: float) -> None:
    rng = np.random.default_rng(2)
    prices, values = ShadowPrices.from_values(queries(rng, 2000), COSTS), queries(rng, 20_000, shift)
    spent = run(prices, BudgetStream(budget * 20_000, 20_000, 0.15), values)
    assert spent == pytest.approx(budget * 20_000, rel=0.01)


@pytest.mark.slow
def test_two_hundred_thousand_decisions_end_within_a_hundredth_of_the_total() -> None:
    """The queries grow harder half-way, so that the first half's prices are wrong for the second."""
    rng = np.random.default_rng(3)
    prices = ShadowPrices.from_values(queries(rng, 2000), COSTS)
    easy, hard = queries(rng, 5000), queries(rng, 5000, -0.2)
    total = 0.4 * 200_000
    spent = run(prices, BudgetStream(total, 200_000, 0.15), np.concatenate([*[easy] * 20, *[hard] * 20]))
    assert 0.99 * total <= spent <= total * (1 + 1e-9)


def test_a_stream_whose_total_is_just_enough_gets_the_cheapest_to_its_end() -> None:
    values = queries(np.random.default_rng(4), 1000)
    spent = run(ShadowPrices.from_values(values, COSTS), BudgetStream(0.15 * 1000, 1000, 0.15), values)
    assert spent == pytest.approx(150.0)


def test_a_total_that_is_too_small_is_refused_with_the_numbers() -> None:
    with pytest.raises(Infeasible, match=r"at least 1\.5 USD for 10 queries, got 1"):
        BudgetStream(1.0, 10, 0.15).check_feasible("USD")
