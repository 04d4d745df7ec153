"""Paced budgets last to the end of a month whose traffic is uneven and unknown: real accounts, a simulated clock.

Hourly batches of a portfolio are planned within a monthly budget. The rule is compared with an even release of the
amount, and with the optimum of a planner that knows the month: one shadow price for all items.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

import numpy as np
import pytest

from app.store.budget_accounts import AccountState, BudgetAccount, BudgetAccounts, list_accounts
from app.store.budgets import StoredBudget
from app.store.client import Store
from models.arrays import Floats, Int64s
from models.budget import BudgetSpec
from solvers.portfolio.knapsack import compute_shadow_price
from solvers.portfolio.shadow_prices import choose_best

START = datetime(2024, 4, 1, tzinfo=UTC).timestamp()
"""A Monday, and the start of a month of 30 days."""
HOURS, ITEMS_PER_HOUR, BUDGET = 720, 20, 4.0
COSTS = np.array([1.0, 3.0, 5.0, 9.0])
NOISE = 0.002
"""Two standard errors of the difference of mean accuracies of the same items."""
SHAPES: dict[str, Callable[[Int64s], Floats]] = {
    "even": lambda hours: np.ones(len(hours)),
    "weekday/weekend": lambda hours: np.where(hours // 24 % 7 < 5, 1.0, 0.2),
    "doubling half-way": lambda hours: np.where(hours < HOURS // 2, 1.0, 2.0),
    "busy hours": lambda hours: np.where((hours % 24 >= 8) & (hours % 24 < 18), 1.0, 0.1),
}
PlanAmount = Callable[[BudgetAccount, AccountState, int, float], float]
"""Returns the total budget of a batch, given the account, its state, the number of items, and the time."""


@dataclass(frozen=True)
class Outcome:
    """Share of the amount that is spent, expected accuracy, and mean cost in the last tenth over that of the month."""

    spent: float
    accuracy: float
    last_tenth: float


def plan_evenly(account: BudgetAccount, state: AccountState, items: int, now: float) -> float:
    """Plan within what is released: the rule without an estimate of the traffic."""
    return account.released_amount(state, now) - state.spent - state.held


def draw_month(shape: str) -> tuple[Int64s, Floats]:
    """Draw the number of items of each hour, and the estimates of all items, (n, 4)."""
    rng, weights = np.random.default_rng(7), SHAPES[shape](np.arange(HOURS))
    counts = rng.poisson(weights / weights.mean() * ITEMS_PER_HOUR)
    n = int(counts.sum())
    hard = rng.random((n, 1)) * np.array([0.5, 0.4, 0.3, 0.1])
    noise = rng.normal(0, 0.08, (n, 4))
    return counts, np.clip(np.array([0.5, 0.75, 0.8, 0.9]) - hard + noise, 0, 1)


def assign(values: Floats, total: float) -> Int64s:
    least = len(values) * float(COSTS[0])
    if total <= least:
        return np.zeros(len(values), np.int64)
    return choose_best(values, COSTS, compute_shadow_price(values, COSTS, total))


def outcome_of(counts: Int64s, values: Floats, choices: Int64s) -> Outcome:
    costs = COSTS[choices]
    late = costs[int(counts[: HOURS * 9 // 10].sum()) :].mean()
    accuracy = float(values[np.arange(len(values)), choices].mean())
    return Outcome(float(costs.mean()) / BUDGET, accuracy, float(late / costs.mean()))


def simulate(store: Store, counts: Int64s, values: Floats, plan_amount: PlanAmount) -> Outcome:
    """Plan each hour's batch within the account, and settle its cost."""
    now, choices, first = START, [], 0
    spec = {"scope": "team", "target": "a", "amount": BUDGET * len(values), "is_paced": True, "when_spent": "cheapest"}
    (account,) = list_accounts(StoredBudget("b", uuid4().hex, BudgetSpec.model_validate(spec)))
    kept = BudgetAccounts(store, clock=lambda: now)
    for count in map(int, counts):
        if count:
            (state,) = kept.list_states([account])
            choices.append(assign(values[first : first + count], plan_amount(account, state, count, now)))
            kept.settle_use(uuid4().hex, [(account, float(COSTS[choices[-1]].sum()))], count)
        first, now = first + count, now + 3600.0
    return outcome_of(counts, values, np.concatenate(choices))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_paced_budget_lasts_to_the_end_of_a_month(store: Store, shape: str) -> None:
    counts, values = draw_month(shape)
    paced = simulate(store, counts, values, BudgetAccount.plannable_amount)
    even = simulate(store, counts, values, plan_evenly)
    optimum = outcome_of(counts, values, assign(values, BUDGET * len(values)))
    assert paced.spent <= 1.0
    assert paced.last_tenth >= 0.7
    assert paced.accuracy >= even.accuracy - NOISE
    assert even.last_tenth < 0.4
    assert paced.accuracy <= optimum.accuracy + NOISE
