"""Keeps an assignment within its payer's budgets.

It is planned within the remaining budget, and its cost is charged.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from app.routes.dependencies import AppContext
from app.running.planned_use import CallUse
from app.store.budget_accounts import BudgetAccount
from models import ArtifactRef
from models.portfolio import AssignmentOptions


@dataclass(slots=True)
class ReservedAssignment:
    """An assignment within budgets.

    Attributes:
        options: options of the assignment, with the remaining budget as its total budget.
        is_limited: whether the total budget is from the payer's budgets instead of the request.
        cost: cost so far; once known, the cost of the assignment.
        headers: headers of the reply.
    """

    options: AssignmentOptions
    is_limited: bool = False
    cost: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)


@asynccontextmanager
async def reserve_assignment_budget(
    context: AppContext,
    artifact: ArtifactRef,
    unit: str,
    options: AssignmentOptions,
    *,
    count: int,
    most: float,
    least: float,
) -> AsyncIterator[ReservedAssignment]:
    """Reserve the total budget of an assignment, and settle its cost.

    The reservation is at most the remaining budget.

    Args:
        count: number of queries.
        most: maximum total cost of the assignment.
        least: total cost with the cheapest classifier.

    Raises: as ``BudgetGuard.reserve_item``.
    """
    held, budgets = ReservedAssignment(options), context.budgets
    budgets.update_budgets(context.seen.budgets)
    accounts = budgets.find_accounts(context.payer, artifact, unit)
    if not accounts:
        yield held
        return
    total = min(most, max(await _read_plannable(context, accounts, options, count), least))
    reservation = await budgets.reserve_item(accounts, CallUse(total), CallUse(least), items=count)
    if reservation.reason is not None:
        total = least
    if total < most:
        held.is_limited = True
        held.options = options.model_copy(update={"budget": None, "budget_total": total})
    try:
        yield held
    finally:
        held.headers = await asyncio.shield(budgets.begin_settlement(reservation, CallUse(held.cost)))


async def _read_plannable(
    context: AppContext, accounts: tuple[BudgetAccount, ...], options: AssignmentOptions, count: int
) -> float:
    """Return the least amount that the accounts leave for the assignment.

    An assignment with a required accuracy may use the whole free amount.
    """
    holding = [one for one in accounts if one.quantity == "cost" and one.rule != "alert"]
    states = await context.budgets.read_states(holding)
    now = time.time()
    amounts = (
        account.free_amount(state, now) if options.requires_accuracy else account.plannable_amount(state, count, now)
        for account, state in zip(holding, states, strict=True)
    )
    return min(amounts, default=float("inf"))
