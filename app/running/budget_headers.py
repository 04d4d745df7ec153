"""Headers that show the remaining budgets."""

from collections.abc import Sequence
from math import inf

from app.processes.clock import format_timestamp
from app.store.budget_accounts import AccountState, BudgetAccount

BUDGET_HEADERS = (
    "X-Parsimony-Budget",
    "X-Parsimony-Budget-Remaining",
    "X-Parsimony-Budget-Unit",
    "X-Parsimony-Budget-Reset",
    "X-Parsimony-Budget-Alert",
)


def format_reset(state: AccountState) -> str | None:
    """Return the end of an account's period, UTC, ISO 8601; None if it never ends."""
    return None if state.finish == inf else format_timestamp(state.finish)


def make_budget_headers(accounts: Sequence[BudgetAccount], states: Sequence[AccountState]) -> dict[str, str]:
    """Return the headers of a reply: the budget with the smallest remaining share, and all exceeded budgets."""
    costs = [(a, s, a.amount - s.spent - s.held) for a, s in zip(accounts, states, strict=True) if a.quantity == "cost"]
    headers: dict[str, str] = {}
    if costs:
        account, state, left = min(costs, key=lambda one: one[2] / (one[0].amount or 1.0))
        headers |= {
            "X-Parsimony-Budget": account.budget.name,
            "X-Parsimony-Budget-Remaining": f"{max(left, 0.0):.9g}",
            "X-Parsimony-Budget-Unit": account.unit.encode("ascii", "replace").decode(),
        }
        reset = format_reset(state)
        headers |= {} if reset is None else {"X-Parsimony-Budget-Reset": reset}
    over = [
        a.budget.name
        for a, s in zip(accounts, states, strict=True)
        if a.rule == "alert" and s.spent + s.held > a.amount
    ]
    return headers | ({"X-Parsimony-Budget-Alert": ",".join(dict.fromkeys(over))} if over else {})
