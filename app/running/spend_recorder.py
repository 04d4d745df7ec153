"""Records the cost of calls and assignments for reports.

Costs are summed in memory, and the sums are added to the store each second.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import uuid4

from app.processes.background_flush import BackgroundFlush
from app.processes.clock import SECONDS_PER_DAY
from app.running.endpoint_caller import EndpointCaller
from app.running.executor import CallPricing
from app.serving.catalog import LoadedArtifact
from app.store.spending import Spending
from models.budget import Payer
from models.spend import SpendAmounts, SpendKey
from parsimony.runs.steps import CallResult
from solvers.base import Plan

logger = logging.getLogger("parsimony.spend")
MAX_GROUPS = 50_000
"""Groups that wait for the store; costs of further ones are not recorded, and a warning is logged."""


@dataclass(slots=True)
class SpendRecorder:
    """Sums the cost of calls and assignments; use and close it on one event loop."""

    spending: Spending
    _sums: dict[tuple[str, str, str, str, str, bool], list[float]] = field(default_factory=dict)
    """Calls, costs, and tokens, as in SpendAmounts, by key, team, artifact, model, unit, and whether they are
    planned."""
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
        caller: EndpointCaller,
    ) -> None:
        """Record the calls of an item.

        The last call with an answer also gets the cost of the strongest classifier.
        """
        self._begin_day()
        answering = next((one for one in reversed(results) if one.error is None), None)
        artifact = f"{loaded.ref.kind}/{loaded.ref.name}"
        for one in results:
            group = (payer.key, payer.team, artifact, one.name, pricing.unit, False)
            strongest = price_strongest(loaded, results, one, pricing, caller) if one is answering else 0.0
            self._add_amounts(group, (one.attempts > 0, pricing.cost_of(one), *one.tokens, strongest))
        if self._sums:
            self._flush.start_flushing()

    def record_assignment(
        self, loaded: LoadedArtifact[Plan], payer: Payer, usage: Mapping[str, int], cost: float
    ) -> None:
        """Record the planned cost of assigned items.

        Args:
            usage: number of items of each classifier.
            cost: planned cost of all items, including their embeddings.
        """
        self._begin_day()
        artifact = f"{loaded.ref.kind}/{loaded.ref.name}"
        for name, amounts in split_planned_cost(loaded, usage, cost).items():
            group = (payer.key, payer.team, artifact, name, loaded.record.unit, True)
            self._add_amounts(group, (amounts.calls, amounts.cost, 0, 0, amounts.strongest_cost))
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

    def _begin_day(self) -> None:
        """Close the day of the sums if it is over."""
        day = int(time.time() // SECONDS_PER_DAY)
        if day != self._day:
            self._close_day()
            self._day = day

    def _add_amounts(self, group: tuple[str, str, str, str, str, bool], amounts: Sequence[float]) -> None:
        sums = self._sums.get(group)
        if sums is None and len(self._sums) >= MAX_GROUPS:
            logger.warning("spend not recorded groups=%d", len(self._sums))
            return
        if sums is None:
            sums = self._sums[group] = [0, 0.0, 0, 0, 0.0]
        for place, amount in enumerate(amounts):
            sums[place] += amount

    def _close_day(self) -> None:
        """Move the sums to the pending additions."""
        day = datetime.fromtimestamp(self._day * SECONDS_PER_DAY, UTC).date().isoformat()
        for group, (calls, cost, sent, came, strongest) in self._sums.items():
            key, amounts = SpendKey(day, *group), SpendAmounts(int(calls), cost, int(sent), int(came), strongest)
            self._spend[key] = self._spend.get(key, SpendAmounts()) + amounts
        self._sums = {}


def split_planned_cost(loaded: LoadedArtifact[Plan], usage: Mapping[str, int], cost: float) -> dict[str, SpendAmounts]:
    """Return the planned cost of assigned items by classifier.

    It is compared with using only the most expensive classifier. The cost without embeddings is divided in proportion
    to the classifiers' mean costs.
    """
    means, embedding = loaded.kind.mean_costs(loaded.plan), loaded.kind.embedding_cost(loaded.plan)
    used = {name: count for name, count in usage.items() if count}
    at_means = sum(count * means.get(name, 0.0) for name, count in used.items())
    scale = (cost - embedding * sum(used.values())) / at_means if at_means else 1.0
    strongest = scale * max(means.values(), default=0.0)
    return {
        name: SpendAmounts(count, count * (embedding + scale * means.get(name, 0.0)), strongest_cost=count * strongest)
        for name, count in used.items()
    }


def price_strongest(
    loaded: LoadedArtifact[Plan],
    results: Sequence[CallResult],
    answering: CallResult,
    pricing: CallPricing,
    caller: EndpointCaller,
) -> float:
    """Return the cost of an item with only the artifact's most expensive classifier.

    If this classifier was called, it is the cost of the call. Otherwise it follows from its prices and the answer's
    tokens, else it is its mean cost in the artifact's dataset. If answers combine several calls, it is the cost of all
    calls.
    """
    means, answering_names = loaded.kind.mean_costs(loaded.plan), loaded.kind.list_answering_names(loaded.plan)
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
