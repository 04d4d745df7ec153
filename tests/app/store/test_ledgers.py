"""Ledgers count what streams spend: for several servers at once, never beyond a total, in a real store."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.store.client import Store, key
from app.store.ledgers import Ledgers
from models.errors import Conflict, Infeasible, StoreUnavailable
from models.portfolio import Pacing, RouteDecision
from solvers.portfolio.pacing import Spending, Stream


def dearest(costs: tuple[float, ...]) -> Callable[[float, float], RouteDecision]:
    """Always choose the dearest that is allowed: the most unkind chooser."""

    def choose(budget: float, most: float) -> RouteDecision:
        cost = max((cost for cost in costs if cost <= most), default=min(costs))
        estimate = {"estimated_accuracy": 0.5, "raw_estimate": 0.5}
        return RouteDecision(classifier="x", cost=cost, price=0.0, budget=budget, **estimate)

    return choose


def send(ledgers: Ledgers, pacing: Pacing, costs: tuple[float, ...] = (1.0, 10.0)) -> Spending:
    stream = Stream(pacing.total, pacing.queries, min(costs))
    return ledgers.count("portfolio", pacing.ledger, stream, dearest(costs))[1]


def test_several_servers_never_exceed_a_total_and_every_query_gets_an_answer(store: Store) -> None:
    """Four servers with eight callers each, all greedy: 100 queries for a total of 250, of which the last are cheap."""
    servers = [Ledgers(store) for _ in range(4)]
    pacing = Pacing(ledger="greedy", total=250.0, queries=100)
    with ThreadPoolExecutor(8) as callers:
        states = list(callers.map(lambda i: send(servers[i % 4], pacing), range(100)))
    assert sorted(state.queries for state in states) == list(range(1, 101))
    spent = max(state.spent for state in states)
    assert 240 < spent <= 250
    for _ in range(int(250 - spent)):
        send(servers[0], pacing)
    with pytest.raises(Infeasible, match=r"ledger 'greedy' has spent 250 of 250 on 1\d\d queries"):
        send(servers[0], pacing)


def test_each_stream_has_a_ledger_of_its_own_that_servers_share(store: Store) -> None:
    one, other = Ledgers(store), Ledgers(store)
    first, second = (Pacing(ledger=name, total=100.0, queries=10) for name in ("first", "second"))
    assert send(one, first).queries == 1
    assert send(other, first).queries == 2
    third = send(one, first)
    assert (third.spent, third.queries) == (30.0, 3)
    assert send(one, second).queries == 1
    assert 0 < store.client.ttl(key("ledger", "portfolio", "first")) <= 90 * 24 * 3600


def test_a_ledger_that_was_emptied_begins_anew(store: Store) -> None:
    ledgers, pacing = Ledgers(store), Pacing(ledger="emptied", total=10.0, queries=1)
    assert send(ledgers, pacing).spent == 10.0
    store.client.flushall()
    assert send(ledgers, pacing).spent == 10.0


def test_a_store_that_is_away_is_said_to_be(store: Store) -> None:
    with pytest.raises(StoreUnavailable):
        send(Ledgers(Store("redis://127.0.0.1:1/0")), Pacing(ledger="x", total=10.0, queries=2))


def test_a_ledger_keeps_the_terms_that_it_was_begun_with(store: Store) -> None:
    ledgers = Ledgers(store)
    send(ledgers, Pacing(ledger="terms", total=100.0, queries=10))
    for other in ({"total": 1000.0, "queries": 10}, {"total": 100.0, "queries": 11}):
        with pytest.raises(Conflict, match="begun with another total or number of queries"):
            send(Ledgers(store), Pacing(ledger="terms", **other))  # type: ignore[arg-type]
    assert send(ledgers, Pacing(ledger="terms", total=100.0, queries=10)).queries == 2
