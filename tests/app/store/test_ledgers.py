"""Ledgers count what streams spend: for several servers at once, never beyond anything, in a real store."""

import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from app.store.client import Store, make_store_key
from app.store.ledgers import Ledgers, StreamState
from models.arrays import Bools
from models.errors import Conflict, Infeasible, StoreUnavailable
from models.portfolio_streams import Pacing
from solvers.portfolio.pacing import BudgetStream, RateWindow, StreamAccount, StreamLimits, StreamSpending

COSTS = (1.0, 10.0)


def dearest(states: tuple[StreamSpending, ...], able: Bools) -> int:
    """Always choose the last that is allowed, which is the dearest: the most unkind chooser."""
    return int(np.flatnonzero(able)[-1])


def terms(pacing: Pacing, costs: Sequence[float] = COSTS) -> StreamLimits:
    return StreamLimits(
        (StreamAccount((), BudgetStream(pacing.total, pacing.queries, min(costs)), np.array(costs), is_cost=True),)
    )


def send(ledgers: Ledgers, pacing: Pacing) -> StreamSpending:
    counted: StreamState = ledgers.count_query("portfolio", pacing.ledger, terms(pacing), dearest)[1]
    return counted.states[0]


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


TOTALS = {"total": 600.0, "acme": 250.0, "basic": 250.0, "tokens": 2500.0, "carbon": 900.0}


def of_several(rng: random.Random, tenant: str) -> StreamLimits:
    """Draw what a query of a tenant takes: a cheap classifier, a dear one, and one that takes much of a resource."""
    size = rng.choice([0.5, 1.0, 2.0])
    costs = size * np.array([1.0, 4.0, 10.0])
    tokens, carbon = size * np.array([5.0, 40.0, 10.0]), np.array([2.0, 3.0, 20.0])
    of_tokens, of_carbon = (
        BudgetStream.from_resource(TOTALS[name], 200, least) for name, least in (("tokens", 5.0), ("carbon", 2.0))
    )
    own = StreamAccount(("tenant", tenant), BudgetStream(TOTALS[tenant], 90, 1.0), costs, is_cost=True)
    total = StreamAccount((), BudgetStream(TOTALS["total"], 200, 1.0), costs, is_cost=True)
    used = StreamAccount(("resources", "tokens"), of_tokens, tokens, is_cost=False)
    return StreamLimits((total, own, used, StreamAccount(("resources", "carbon"), of_carbon, carbon, is_cost=False)))


def test_several_servers_never_exceed_any_total_of_several(store: Store) -> None:
    """Costs of each query, two tenants, two resources: what was taken is added up again here."""
    servers, rng = [Ledgers(store) for _ in range(4)], random.Random(5)
    asked = [(tenant, of_several(rng, tenant)) for tenant in ("acme", "basic") * 160]

    def taken(place: int) -> tuple[str, list[float]] | None:
        tenant, one = asked[place]
        try:
            choice, _ = servers[place % 4].count_query("portfolio", "several", one, dearest)
        except Infeasible:
            return None
        return tenant, [float(account.uses[choice]) for account in one.accounts]

    with ThreadPoolExecutor(8) as callers:
        answered = [one for one in callers.map(taken, range(len(asked))) if one is not None]
    sums = np.sum([amounts for _, amounts in answered], axis=0)
    of_tenant = {t: sum(amounts[1] for whose, amounts in answered if whose == t) for t in ("acme", "basic")}
    used = {"total": sums[0], **of_tenant, "tokens": sums[2], "carbon": sums[3]}
    assert all(used[name] <= most * (1 + 1e-8) for name, most in TOTALS.items()), used
    assert max(used[name] / most for name, most in TOTALS.items()) > 0.97
    assert len(answered) > 90


def test_a_rate_limit_holds_in_every_window_whatever_the_number_of_servers(store: Store) -> None:
    servers, most, span = [Ledgers(store) for _ in range(4)], 5, 0.4
    account = StreamAccount((), BudgetStream(1e6, 10_000, 1.0), np.array(COSTS), is_cost=True)
    limited, end = StreamLimits((account,), (RateWindow("strong", 1, most, span),)), time.monotonic() + 1.3

    def call(server: Ledgers) -> list[tuple[float, float]]:
        """Call until the time is up; when calls of the strong one began and were over."""
        calls = []
        while (began := time.monotonic()) < end:
            choice, counted = server.count_query("portfolio", "rated", limited, dearest)
            assert counted.free[0] >= 0
            calls += [(began, time.monotonic())] if choice == 1 else []
        return calls

    with ThreadPoolExecutor(8) as callers:
        calls = [one for each in callers.map(call, servers * 2) for one in each]
    assert len(calls) >= 2 * most  # a window is used again once it has passed
    for began, _ in calls:
        assert sum(b >= began and over < began + span for b, over in calls) <= most


def test_where_every_classifier_is_at_its_limit_the_query_is_refused(store: Store) -> None:
    account = StreamAccount((), BudgetStream(1e6, 10, 1.0), np.array(COSTS), is_cost=True)
    limited = StreamLimits((account,), (RateWindow("weak", 0, 1, 60.0), RateWindow("strong", 1, 1, 60.0)))
    choices = [Ledgers(store).count_query("portfolio", "full", limited, dearest)[0] for _ in range(2)]
    assert sorted(choices) == [0, 1]
    with pytest.raises(Infeasible, match=r"at their limits: weak \(at most 1 calls in 60 s\), strong"):
        Ledgers(store).count_query("portfolio", "full", limited, dearest)
    (one, _) = store.client.keys("*:calls:*")
    assert 0 < store.client.ttl(one) <= 61


def test_a_tenant_that_has_spent_its_own_is_refused_and_others_go_on(store: Store) -> None:
    def of(tenant: str) -> StreamLimits:
        own, its = (
            StreamAccount(name, BudgetStream(total, queries, 1.0), np.array(COSTS), is_cost=True)
            for name, total, queries in (((), 100.0, 20), (("tenant", tenant), 12.0, 3))
        )
        return StreamLimits((own, its))

    ledgers = Ledgers(store)
    spent = [ledgers.count_query("portfolio", "tenants", of("acme"), dearest)[1].states[1].spent for _ in range(3)]
    assert spent == [10.0, 11.0, 12.0]
    with pytest.raises(Infeasible, match=r"has spent 12 of 12 of tenant acme on 3 queries"):
        ledgers.count_query("portfolio", "tenants", of("acme"), dearest)
    own, its = ledgers.count_query("portfolio", "tenants", of("basic"), dearest)[1].states
    assert (own.spent, own.queries, its.spent, its.queries) == (22.0, 4, 10.0, 1)


def test_each_stream_has_a_ledger_of_its_own_that_servers_share_with_the_terms_it_was_begun_with(store: Store) -> None:
    one, other = Ledgers(store), Ledgers(store)
    first, second = (Pacing(ledger=name, total=100.0, queries=10) for name in ("first", "second"))
    assert [send(each, first).queries for each in (one, other)] == [1, 2]
    for total, queries in ((1000.0, 10), (100.0, 11)):
        with pytest.raises(Conflict, match="another total or number of queries"):
            send(other, Pacing(ledger="first", total=total, queries=queries))
    third = send(one, first)
    assert (third.spent, third.queries) == (30.0, 3)
    assert send(one, second).queries == 1
    assert 0 < store.client.ttl(make_store_key("ledger", "portfolio", "first")) <= 90 * 24 * 3600
    store.client.flushall()
    assert send(one, first).spent == 10.0
    with pytest.raises(StoreUnavailable):
        send(Ledgers(Store("redis://127.0.0.1:1/0")), first)
