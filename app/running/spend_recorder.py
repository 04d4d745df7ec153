"""Records the cost of calls for reports: sums it in memory, and adds the sums to the store every second."""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import uuid4

from app.processes.background_flush import BackgroundFlush
from app.running.caller import Caller
from app.running.executor import CallPricing
from app.serving.catalog import LoadedArtifact
from app.store.spending import Spending
from models.budget import Payer
from models.spend import SpendAmounts, SpendKey
from parsimony.runs.steps import CallResult
from solvers.base import Plan

logger = logging.getLogger("parsimony.spend")
DAY_S = 86400
MAX_GROUPS = 50_000
"""Groups that wait for the store; costs of further ones are not recorded, and a warning is logged."""


@dataclass(slots=True)
class SpendRecorder:
    """Sums the cost of calls; use and close it on one event loop."""

    spending: Spending
    _sums: dict[tuple[str, str, str, str, str], list[float]] = field(default_factory=dict)
    """Calls, costs, and tokens, as in SpendAmounts, by key, team, artifact, model, and unit."""
    _day: int = 0
    """The day of these sums, in days since 1970."""
    _spend: dict[SpendKey, SpendAmounts] = field(default_factory=dict)
    """Sums of ended days, and those that are to be sent."""
    _sending: tuple[str, dict[SpendKey, SpendAmounts]] | None = None
    """The addition that the store may not have made, and its id."""
    _flush: BackgroundFlush = field(init=False)

    def __post_init__(self) -> None:
        self._flush = BackgroundFlush(self._flush_once, lambda: bool(self._sums or self._spend or self._sending))

    def record_calls(
        self,
        loaded: LoadedArtifact[Plan],
        payer: Payer,
        results: Sequence[CallResult],
        pricing: CallPricing,
        caller: Caller,
    ) -> None:
        """Record the calls of an item; the last call with an answer also gets the cost of the strongest classifier."""
        day = int(time.time() // DAY_S)
        if day != self._day:
            self._close_day()
            self._day = day
        answering = next((one for one in reversed(results) if one.error is None), None)
        artifact = f"{loaded.ref.kind}/{loaded.ref.name}"
        for one in results:
            group = (payer.key, payer.team, artifact, one.name, pricing.unit)
            sums = self._sums.get(group)
            if sums is None and len(self._sums) >= MAX_GROUPS:
                logger.warning("spend not recorded groups=%d", len(self._sums))
                return
            if sums is None:
                sums = self._sums[group] = [0, 0.0, 0, 0, 0.0]
            strongest = price_strongest(loaded, results, one, pricing, caller) if one is answering else 0.0
            for place, amount in enumerate((one.attempts > 0, pricing.cost_of(one), *one.tokens, strongest)):
                sums[place] += amount
        if self._sums:
            self._flush.start_flushing()

    async def close(self) -> None:
        """Add the recorded costs to the store, if it is available."""
        await self._flush.close()

    async def _flush_once(self) -> None:
        self._close_day()
        if self._sending is None and self._spend:
            self._sending, self._spend = (uuid4().hex, self._spend), {}
        if self._sending is not None:
            await asyncio.to_thread(self.spending.add_spend, *self._sending)
            self._sending = None

    def _close_day(self) -> None:
        """Move the sums to what is to be sent."""
        day = datetime.fromtimestamp(self._day * DAY_S, UTC).date().isoformat()
        for group, (calls, cost, sent, came, strongest) in self._sums.items():
            key, amounts = SpendKey(day, *group), SpendAmounts(int(calls), cost, int(sent), int(came), strongest)
            self._spend[key] = self._spend.get(key, SpendAmounts()) + amounts
        self._sums = {}


def price_strongest(
    loaded: LoadedArtifact[Plan],
    results: Sequence[CallResult],
    answering: CallResult,
    pricing: CallPricing,
    caller: Caller,
) -> float:
    """Return the cost that an item would have had with the artifact's most expensive classifier only.

    It is the cost of this classifier's call, if it was called; else its prices for the tokens of the answer; else its
    mean cost in the artifact's dataset. If answers combine several calls: the cost of all calls.
    """
    means, answering_names = loaded.kind.mean_costs(loaded.plan), loaded.kind.answering_names(loaded.plan)
    if not answering_names or not means:
        return sum(pricing.cost_of(one) for one in results)
    strongest = max(answering_names, key=lambda name: means.get(name, 0.0))
    called = next((one for one in results if one.name == strongest and one.error is None), None)
    if called is not None:
        return pricing.cost_of(called)
    endpoint = caller.get_endpoint(strongest)
    prices = None if endpoint is None else endpoint.prices
    if prices is None or not any(answering.tokens):
        return means.get(strongest, 0.0)
    return prices.price_tokens(*answering.tokens)
