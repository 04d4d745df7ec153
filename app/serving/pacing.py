"""Budget pacing: routes the queries of a stream depending on its spending so far."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from app.serving.catalog import LoadedArtifact
from app.store.ledgers import Ledgers, StreamState
from models import Fault, InvalidRequest
from models.arrays import Bools, Floats
from models.errors import StoreUnavailable
from models.portfolio import RouteDecision, RouteQuery
from models.portfolio_streams import LedgerState, Pacing
from solvers.portfolio import PortfolioPlan
from solvers.portfolio.assignment_limits import resolve_uses
from solvers.portfolio.pacing import BudgetStream, RateWindow, StreamAccount, StreamLimits, StreamSpending

LEDGER_TIMEOUT_S = 5.0
"""A query of a stream is refused if its ledger does not answer within this time."""


@dataclass(frozen=True, slots=True, eq=False)
class PacedQuery:
    """A query to route.

    Attributes:
        estimates: (m,), estimated accuracy of each classifier.
        budget: mean budget of the query, at which its estimates are corrected for optimism.
        available: (m,), available classifiers; None for all.
    """

    query: RouteQuery
    estimates: Floats
    budget: float
    available: Bools | None = None


async def assign_paced(
    loaded: LoadedArtifact[PortfolioPlan],
    query: RouteQuery,
    pacing: Pacing,
    unavailable: frozenset[str],
    ledgers: Ledgers,
    *,
    is_up: bool,
) -> tuple[str, frozenset[str]]:
    """Route the query of a run within its stream, and record it in the ledger.

    Returns:
        The classifier, and the classifiers that must not replace it. These are the classifiers with a rate limit, or
            all classifiers if resources are counted.
    """
    plan = loaded.plan
    among = np.array([name not in unavailable for name in plan.classifiers])
    able = among if among.any() and not among.all() else None
    single = PacedQuery(query, plan.estimate_one(query.query), plan.resolve_query_budget(query), able)
    decision, _ = await decide_paced(loaded, single, pacing, ledgers, is_up=is_up)
    counted = plan.classifiers if pacing.resources else pacing.classifiers
    return decision.classifier, frozenset(counted)


async def decide_paced(
    loaded: LoadedArtifact[PortfolioPlan], single: PacedQuery, pacing: Pacing, ledgers: Ledgers, *, is_up: bool
) -> tuple[RouteDecision, LedgerState]:
    """Route one query of a stream after recording its cost in the ledger.

    The total is never exceeded.

    Raises:
        Infeasible: nothing remains in the accounts.
        Conflict: the ledger was created with other terms.
        InvalidRequest: the portfolio does not have a requested resource.
        StoreUnavailable, StoreRefused: the ledger cannot be updated.
    """
    plan, terms = loaded.plan, make_stream_limits(loaded.plan, single, pacing)
    costs, tie_break = plan.query_costs(single.query), plan.draw_tie_break(single.query)

    def routed(states: tuple[StreamSpending, ...], able: Bools) -> RouteDecision:
        decision: RouteDecision = plan.route(
            single.estimates,
            single.budget,
            current_budget=terms.current_budget(states),
            tie_break=tie_break,
            costs=costs,
            allowed=able,
            resource_costs=terms.price_resources(states),
        )
        return decision

    def choose(states: tuple[StreamSpending, ...], able: Bools) -> int:
        decisions.append(routed(states, able))
        return plan.classifiers.index(decisions[-1].classifier)

    decisions: list[RouteDecision] = []
    if not is_up:
        raise StoreUnavailable(f"store unavailable; budget pacing of ledger {pacing.ledger!r} requires it; retry later")
    counting = asyncio.to_thread(ledgers.count_query, loaded.ref.name, pacing.ledger, terms, choose)
    try:
        _, counted = await asyncio.wait_for(counting, LEDGER_TIMEOUT_S)
    except TimeoutError as error:
        slow = f"ledger {pacing.ledger!r} did not answer within {LEDGER_TIMEOUT_S:g} s"
        raise StoreUnavailable(f"{slow}; budget pacing requires it; retry later") from error
    return decisions[-1], _told(pacing, terms, counted)


def make_stream_limits(plan: PortfolioPlan, single: PacedQuery, pacing: Pacing) -> StreamLimits:
    """Return the limits of a stream, with the use of this query by each classifier.

    Raises InvalidRequest. Raises Infeasible if even the cheapest query exceeds a limit.
    """
    accounts = tuple(_accounts(plan, single.query, pacing))
    for account in accounts:
        account.stream.check_feasible(plan.unit if account.is_cost else f"of {account.name[1]}")
    for name in pacing.classifiers:
        if name not in plan.classifiers:
            message = f"is not a classifier of this portfolio; available: {', '.join(plan.classifiers)}"
            raise InvalidRequest.from_faults(Fault(("budget_pacing", "classifiers", name), message))
    limits = pacing.classifiers.items()
    windows = [RateWindow(name, plan.classifiers.index(name), one.at_most, one.window_s) for name, one in limits]
    return StreamLimits(accounts, tuple(windows), single.available)


def _accounts(plan: PortfolioPlan, query: RouteQuery, pacing: Pacing) -> Iterator[StreamAccount]:
    own = plan.query_costs(query)
    costs = (plan.costs if own is None else own) + plan.embedding_cost
    yield StreamAccount((), BudgetStream(pacing.total, pacing.queries, plan.min_cost), costs, is_cost=True)
    if (tenant := pacing.tenant) is not None:
        yield StreamAccount(
            ("tenant", tenant.name), BudgetStream(tenant.total, tenant.queries, plan.min_cost), costs, is_cost=True
        )
    own_uses, means = plan.query_uses(query), dict(zip(plan.resources, plan.resource_means, strict=True))
    for name, resource in pacing.resources.items():
        place = ("budget_pacing", "resources", name)
        uses = resolve_uses(plan.classifiers, own_uses, resource.uses, place)
        least = float(resolve_uses(plan.classifiers, means, resource.uses, place).min())
        yield StreamAccount(
            place[1:], BudgetStream.from_resource(resource.total, pacing.queries, least), uses, is_cost=False
        )


def _told(pacing: Pacing, terms: StreamLimits, counted: StreamState) -> LedgerState:
    names = [account.name for account in terms.accounts]
    spent = {name: state.spent for name, state in zip(names, counted.states, strict=True)}
    return LedgerState(
        ledger=pacing.ledger,
        spent=counted.states[0].spent,
        queries=counted.states[0].queries,
        tenant_spent=next((each for name, each in spent.items() if name[:1] == ("tenant",)), None),
        resources={name[1]: each for name, each in spent.items() if name[:1] == ("resources",)},
        remaining_calls={
            window.name: max(free, 0) for window, free in zip(terms.windows, counted.free, strict=bool(terms.windows))
        },
    )
