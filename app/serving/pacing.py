"""Streams of single queries that share a budget: each is routed by what the stream has spent so far."""

import asyncio

import numpy as np

from app.serving.catalog import Live
from app.store.ledgers import Ledgers
from models.arrays import Bools, Floats
from models.errors import StoreRefused, StoreUnavailable
from models.portfolio import LedgerState, Pacing, RouteDecision
from solvers.portfolio import PortfolioPlan
from solvers.portfolio.pacing import Stream

LEDGER_WAIT_S = 0.5
"""A stream's price stays uncorrected if the store does not answer within this time."""


async def paced(
    live: Live[PortfolioPlan],
    query: tuple[Floats, float, float],
    pacing: Pacing,
    ledgers: Ledgers,
    *,
    is_up: bool,
    among: Bools | None = None,
) -> tuple[RouteDecision, LedgerState]:
    """Route one query of a stream, given its estimates, budget and lot; by the plain price if the store is away.

    among: (m,) the classifiers that can be had, None: all. Raises Infeasible if nothing is left, Conflict if the ledger
    has other terms.
    """
    plan = live.plan
    stream = Stream(pacing.total, pacing.queries, plan.cheapest)
    stream.refuse_if_hopeless(plan.unit)
    estimates, budget, lot = query

    def choose(now: float, most: float) -> RouteDecision:
        decision: RouteDecision = plan.route(estimates, budget, budget_now=now, most=most, lot=lot, among=among)
        return decision

    uncorrected = LedgerState(ledger=pacing.ledger, corrected=False, spent=None, queries=None)
    if not is_up:
        return choose(budget, np.inf), uncorrected
    counting = asyncio.to_thread(ledgers.count, live.ref.name, pacing.ledger, stream, choose)
    try:
        decision, state = await asyncio.wait_for(counting, LEDGER_WAIT_S)
    except (StoreUnavailable, StoreRefused, TimeoutError):
        return choose(budget, np.inf), uncorrected
    return decision, LedgerState(ledger=pacing.ledger, corrected=True, spent=state.spent, queries=state.queries)
