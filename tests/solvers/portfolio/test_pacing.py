"""Streams within several totals: what no build priced is priced on the way."""

import numpy as np
import pytest

from models.arrays import Floats
from solvers.portfolio.constrained import Constraint, assign_constrained
from solvers.portfolio.pacing import BudgetStream, RateWindow, StreamAccount, StreamLimits, StreamSpending
from solvers.portfolio.shadow_prices import ShadowPrices
from tests.support.stream_ledger import record_cost

COSTS, TOKENS = np.array([1.0, 3.0, 5.0, 9.0]), np.array([1.0, 6.0, 2.0, 8.0])
QUERIES, BUDGET = 1_000, 4.0


def values(seed: int, n: int) -> Floats:
    """Draw values of queries, (n, 4), of which some are hard for the cheap ones."""
    rng = np.random.default_rng(seed)
    hard = rng.random((n, 1)) * np.array([0.5, 0.4, 0.3, 0.1])
    return np.asarray(np.clip(np.array([0.5, 0.75, 0.8, 0.9]) - hard + rng.normal(0, 0.08, (n, 4)), 0, 1))


def stream_of(worths: Floats, tokens: float, prices: ShadowPrices, *, is_priced: bool) -> float:
    """Send a stream through, one query after the other: what it is worth on average."""
    own = StreamAccount((), BudgetStream(BUDGET * QUERIES, QUERIES, 1.0), COSTS, is_cost=True)
    resource = StreamAccount(
        ("resources", "tokens"), BudgetStream.from_resource(tokens * QUERIES, QUERIES, 1.0), TOKENS, is_cost=False
    )
    terms, savings = StreamLimits((own, resource)), 0.0
    states: tuple[StreamSpending, ...] = (StreamSpending(), StreamSpending())
    for row in worths:
        able = terms.available_mask(states, ())
        net = np.where(able, row - (terms.price_resources(states) if is_priced else 0.0), -np.inf)
        choice = prices.choose(net, COSTS, max(terms.current_budget(states), float(COSTS[able].min())))
        taken = zip(terms.accounts, states, strict=True)
        states = tuple(record_cost(account.stream, state, float(account.uses[choice])) for account, state in taken)
        savings += float(row[choice])
    assert states[0].spent <= BUDGET * QUERIES * (1 + 1e-9)
    assert states[1].spent <= tokens * QUERIES * (1 + 1e-9)
    return savings / len(worths)


@pytest.mark.parametrize("tokens", [1.3, 2.0, 3.0])
def test_a_stream_with_a_scarce_resource_is_worth_nearly_what_the_best_batch_is(tokens: float) -> None:
    """Without a price the resource is gone early, and with it what costs it little but money."""
    prices, worths = ShadowPrices.from_values(values(99, 2_000), COSTS), values(0, QUERIES)
    limits = [Constraint(("budget",), 0, BUDGET * QUERIES), Constraint(("tokens",), 1, tokens * QUERIES)]
    best = assign_constrained(worths, limits, uses=[COSTS, TOKENS]).value / QUERIES
    priced, plain = (stream_of(worths, tokens, prices, is_priced=priced) for priced in (True, False))
    assert 0.985 * best < priced <= best * (1 + 1e-4)
    assert plain < 0.8 * best


def test_a_resource_that_is_not_scarce_costs_nothing() -> None:
    plenty = BudgetStream.from_resource(100.0, 10, 1.0)
    assert record_cost(plenty, StreamSpending(), 1.0).credit == 0.0
    assert plenty.current_price(StreamSpending()) == 0.0
    assert plenty.current_price(StreamSpending(100.0, 10, -1.0)) == 0.0


def test_windows_and_circuits_leave_what_can_be_called() -> None:
    own = StreamAccount((), BudgetStream(100.0, 10, 1.0), COSTS, is_cost=True)
    terms = StreamLimits((own,), (RateWindow("b", 1, 5, 60.0),), np.array([True, True, True, False]))
    assert terms.available_mask((StreamSpending(),), (0,)).tolist() == [True, False, True, False]
    assert terms.available_mask((StreamSpending(),), (1,)).tolist() == [True, True, True, False]
