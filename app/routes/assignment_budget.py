"""Keeps an assignment within the budgets of its payer: it is planned within the remaining budget, and its cost
counts."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from app.routes.dependencies import Context
from app.running.planned_use import CallUse
from app.store.budget_accounts import BudgetAccount
from models import ArtifactRef
from models.portfolio import AssignmentOptions


@dataclass(slots=True)
class HeldAssignment:
    """An assignment within budgets.

    Attributes:
        options: its options, with the remaining budget as its total budget.
        cost: cost so far; the assignment's cost once it is known.
        headers: headers of the reply.
    """

    options: AssignmentOptions
    cost: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)


@asynccontextmanager
async def hold_assignment(
    context: Context,
    artifact: ArtifactRef,
    unit: str,
    options: AssignmentOptions,
    *,
    count: int,
    most: float,
    least: float,
) -> AsyncIterator[HeldAssignment]:
    """Reserve the total budget of an assignment, up to the remaining budget, and settle its cost.

    Args:
        count: number of queries.
        most: total cost that the assignment may have.
        least: total cost with the cheapest classifier.

    Raises: as ``BudgetGuard.reserve_item``.
    """
    held, budgets = HeldAssignment(options), context.budgets
    budgets.update_budgets(context.seen.budgets)
    accounts = budgets.find_accounts(context.payer, artifact, unit)
    if not accounts:
        yield held
        return
    left = await _read_left(context, accounts)
    total = min(most, max(left, least))
    reservation = await budgets.reserve_item(accounts, CallUse(total), CallUse(least), items=count)
    if reservation.reason is not None:
        total = least
    if total < most:
        held.options = options.model_copy(update={"budget": None, "budget_total": total})
    try:
        yield held
    finally:
        held.headers = await asyncio.shield(budgets.begin_settlement(reservation, CallUse(held.cost)))


async def _read_left(context: Context, accounts: tuple[BudgetAccount, ...]) -> float:
    """Return the least amount that is left of the accounts that hold an assignment to its cost."""
    holding = [one for one in accounts if one.quantity == "cost" and one.rule != "alert"]
    states = await context.budgets.read_states(holding)
    now = time.time()
    return min(
        (a.released_amount(s, now) - s.spent - s.held for a, s in zip(holding, states, strict=True)),
        default=float("inf"),
    )
