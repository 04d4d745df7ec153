"""Keeps one item within the budgets of its payer and its artifact."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from app.running.executor import CallPricing
from app.running.item_run import ItemRun
from app.running.item_start import RunDependencies
from app.running.planned_use import CallUse, PlannedUse, plan_use
from app.serving.catalog import LoadedArtifact
from models.errors import BudgetSpent
from parsimony.runs.steps import CallResult
from solvers.base import Plan


@dataclass(slots=True)
class ReservedItem:
    """An item within its budgets.

    Attributes:
        item_run: the run, which may be restricted to the cheapest classifier.
        pricing: prices of the item's calls; replaced once the decision is made.
    """

    item_run: ItemRun
    pricing: CallPricing


@asynccontextmanager
async def reserve_item_budget(
    loaded: LoadedArtifact[Plan],
    item_run: ItemRun,
    dependencies: RunDependencies,
    pricing: CallPricing,
    names: Iterable[str] | None = None,
) -> AsyncIterator[ReservedItem]:
    """Reserve an item's planned maximum; at the end, also after errors, settle its cost.

    The calls are recorded for the spend report, even if no budget applies to the item.

    Args:
        names: names that may be called; None for all that the artifact may call.

    Raises:
        BudgetSpent: a budget refuses the item.
        TooManyRequests: a limit per minute is reached.
        StoreUnavailable, StoreRefused: budgets cannot be checked.
    """
    held = ReservedItem(item_run, pricing)
    accounts = dependencies.budgets.find_accounts(dependencies.payer, loaded.ref, loaded.record.unit)
    if not accounts:
        try:
            yield held
        finally:
            _record_calls(loaded, item_run, dependencies, held.pricing)
        return
    planned = plan_use(loaded, item_run, dependencies.caller, names)
    try:
        reservation = await dependencies.budgets.reserve_item(accounts, planned.full, planned.least)
    except BudgetSpent:  # the item's embedding may have been paid together with others
        await dependencies.budgets.charge_use(accounts, compute_item_use(item_run, pricing, planned))
        raise
    item_run.progress.headers |= reservation.headers
    if reservation.reason is not None:
        held.item_run = replace(item_run, classifier=planned.cheapest, degraded=reservation.reason)
    else:
        held.item_run = replace(item_run, item_budget=reservation.item_budget)
    is_cancelled = False
    try:
        yield held
    except asyncio.CancelledError:
        is_cancelled = True
        raise
    finally:
        _record_calls(loaded, item_run, dependencies, held.pricing)
        used = compute_item_use(item_run, held.pricing, planned)
        settling = dependencies.budgets.begin_settlement(reservation, used)
        if not is_cancelled:  # a canceled call continues in the background
            item_run.progress.headers |= await asyncio.shield(settling)


async def pace_batch(
    loaded: LoadedArtifact[Plan], item_run: ItemRun, count: int, dependencies: RunDependencies
) -> ItemRun:
    """Return the run of a batch's item with the mean cost that paced budgets leave per item."""
    accounts = dependencies.budgets.find_accounts(dependencies.payer, loaded.ref, loaded.record.unit)
    return replace(item_run, item_budget=await dependencies.budgets.read_item_budget(accounts, count))


def _record_calls(
    loaded: LoadedArtifact[Plan], item_run: ItemRun, dependencies: RunDependencies, pricing: CallPricing
) -> None:
    results = item_run.progress.results[item_run.progress.charged :]
    dependencies.spending.record_calls(loaded, dependencies.payer, results, pricing, dependencies.caller)


def compute_item_use(item_run: ItemRun, pricing: CallPricing, planned: PlannedUse) -> CallUse:
    """Return the cost of an item's calls.

    A call without a result may have been paid; it counts at its planned cost.
    """
    progress = item_run.progress
    unknown = Counter(progress.started_calls) - Counter(one.name for one in progress.results)
    ended = sum((_use_of(one, pricing) for one in progress.results[progress.charged :]), CallUse())
    return sum((planned.calls.get(name, CallUse()) for name in unknown.elements()), ended)


def _use_of(result: CallResult, pricing: CallPricing) -> CallUse:
    return CallUse(pricing.cost_of(result), sum(result.tokens))
