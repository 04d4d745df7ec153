"""Budget routes: set, show, and delete budgets."""

import asyncio
import time
from typing import Annotated

from fastapi import Depends, Response
from pydantic import Field

from app.http.json_bodies import JsonRouter
from app.routes.dependencies import AppContext, InContext, error_responses, path_name, require_store
from app.routes.team_names import OWN_NAME, require_own_target
from app.running.budget_headers import format_reset
from app.store.budget_accounts import AccountState, BudgetAccount, list_accounts
from app.store.budgets import StoredBudget
from models.base import Value
from models.budget import BudgetBalance, BudgetSpec, ShownBudget, is_same_unit

router = JsonRouter(prefix="/v1/budgets", tags=["budgets"], dependencies=[Depends(require_store)])
MAX_WARNINGS = 20
BudgetName = Annotated[str, path_name("search")]


class BudgetList(Value):
    """All budgets."""

    items: Annotated[list[ShownBudget], Field(description="the budgets, by name")]


@router.put(
    "/{name}",
    summary="Set a budget",
    dependencies=[OWN_NAME],
    response_model=ShownBudget,
    responses={201: {"model": ShownBudget, "description": "the budget is new"}, **error_responses(413, 415, 503)},
)
async def put_budget(name: BudgetName, budget: BudgetSpec, context: InContext, response: Response) -> ShownBudget:
    """Set the budget of a key, a team, or an artifact; it replaces a budget of the same name.

    The budget keeps the amount spent in its period, unless its scope, target, or unit changes. Other servers apply it
    within seconds. A team with names sets budgets of its own keys and artifacts, and of itself.
    """
    require_own_target(context, budget)
    is_new = await asyncio.to_thread(context.repos.budgets.put, name, budget)
    await asyncio.to_thread(context.seen.refresh_budgets)
    response.status_code = 201 if is_new else 200
    return await asyncio.to_thread(_show_one, context, name)


@router.get("", summary="List the budgets", responses=error_responses(503))
def list_budgets(context: InContext) -> BudgetList:
    """List the budgets with their spent amounts."""
    return BudgetList(items=_show(context, context.repos.budgets.get_all()))


@router.get("/{name}", summary="Show a budget", responses=error_responses(404, 503))
def show_budget(name: BudgetName, context: InContext) -> ShownBudget:
    """Return a budget: amount spent, amount reserved by items in flight, end of its period."""
    return _show_one(context, name)


@router.delete(
    "/{name}",
    summary="Delete a budget",
    dependencies=[OWN_NAME],
    status_code=204,
    responses=error_responses(404, 503),
)
async def delete_budget(name: BudgetName, context: InContext) -> None:
    """Delete a budget and its spent amount; its limits no longer apply."""
    budget = await asyncio.to_thread(context.repos.budgets.get, name)
    await asyncio.to_thread(context.repos.budgets.delete, name)
    await asyncio.to_thread(context.budgets.accounts.delete, list_accounts(budget))
    await asyncio.to_thread(context.seen.refresh_budgets)


def _show_one(context: AppContext, name: str) -> ShownBudget:
    (shown,) = _show(context, [context.repos.budgets.get(name)])
    return shown


def _show(context: AppContext, budgets: "list[StoredBudget] | tuple[StoredBudget, ...]") -> list[ShownBudget]:
    accounts = [account for budget in budgets for account in list_accounts(budget)]
    states = dict(zip(accounts, context.budgets.accounts.list_states(accounts), strict=True)) if accounts else {}
    return [
        ShownBudget(
            name=one.name,
            budget=one.spec,
            balances=tuple(_balance_of(account, states[account]) for account in list_accounts(one)),
            warnings=_list_warnings(context, one.spec),
        )
        for one in budgets
    ]


def _balance_of(account: BudgetAccount, state: AccountState) -> BudgetBalance:
    return BudgetBalance(
        quantity=account.quantity,
        amount=account.amount,
        spent=state.spent,
        reserved=state.held,
        released=account.released_amount(state, time.time()),
        remaining=max(account.amount - state.spent - state.held, 0.0),
        resets_at=format_reset(state),
    )


def _list_warnings(context: AppContext, spec: BudgetSpec) -> tuple[str, ...]:
    """Return warnings for active artifacts in a budget's scope with another cost unit."""
    if spec.amount is None:
        return ()
    actives = sorted(context.catalog.plans.items(), key=lambda one: one[0])
    return tuple(
        f"runs of {kind}/{name} do not count: its unit is {loaded.record.unit}, the budget's is {spec.unit}"
        for (kind, name), loaded in actives
        if (spec.scope != "artifact" or spec.target == f"{kind}/{name}")
        and not is_same_unit(loaded.record.unit, spec.unit)
    )[:MAX_WARNINGS]
