"""Four servers and 64 callers spend one budget while the store hangs, dies, and comes back: nothing is paid twice."""

import asyncio
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tests.support.patience import patient
from tests.support.raw_endpoint import running_endpoint
from tests.support.servers import Server, start_server, wait_for
from tests.support.services import OCTETS
from tests.support.stored import artifact
from tests.support.stores import StoreProcess

SERVERS, CALLERS = 4, 64
AMOUNT = 1000.0
"""Of calls that cost 1: some seconds of all callers together."""
ANSWER = b'{"label": "cat", "confidence": 1.0}'
REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(ANSWER) + ANSWER
RUNS = "/v1/cascades/plan/runs"
CLASSIFIERS = ("K1", "K2")
PLANNED = 2.0
"""Both classifiers may be called for an item; the first one's answer is always accepted."""


class Spenders:
    """The servers, and the calls that the endpoint received."""

    def __init__(self, servers: list[Server]) -> None:
        self.servers, self.calls = servers, 0

    def answer(self, head: bytes) -> list[bytes]:
        self.calls += 1
        return [REPLY]

    def balance(self) -> dict[str, float]:
        reply = self.servers[0].client.get("/v1/budgets/plan")  # 503 where the store's return is not known yet
        balance: dict[str, float] = reply.json()["balances"][0] if reply.status_code == 200 else {"spent": -1.0}
        return balance


@pytest.fixture(scope="module")
def spenders(doomed: StoreProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spenders]:
    folder = tmp_path_factory.mktemp("spenders")
    with ExitStack() as stack:
        settings: dict[str, Any] = {"redis_url": doomed.url, "endpoint_hosts": "127.0.0.1"}
        servers = [start_server(folder / str(place), **settings) for place in range(SERVERS)]
        for server in servers:
            stack.callback(server.stop)
            server.wait_until_ready()
        reply = servers[0].client.post("/v1/artifacts/import", content=artifact(), headers=OCTETS)
        assert reply.status_code == 201, reply.text
        spenders = Spenders(servers)
        url = stack.enter_context(running_endpoint(spenders.answer))
        fields = {"protocol": "json", "url": url, "label": "/label", "confidence": "/confidence"}
        for name in CLASSIFIERS:
            endpoint = {**fields, "prices": {"per_call": 1.0}}
            assert servers[0].client.put(f"/v1/endpoints/{name}", json=endpoint).status_code == 201
        yield spenders


def put_budget(spenders: Spenders, **fields: object) -> None:
    """Set a budget, and wait until every server holds items to it."""
    first, *others = spenders.servers
    first.client.delete("/v1/budgets/plan")
    budget = {"scope": "artifact", "target": "cascade/plan", "unit": "ms", "period": "total"}
    assert first.client.put("/v1/budgets/plan", json={**budget, **fields}).status_code == 201
    for server in others:
        wait_for(lambda server=server: "x-parsimony-budget" in run(server).headers, 20, "no budget")


def run(server: Server) -> httpx.Response:
    return server.client.post(RUNS, json={"item": "x"}, timeout=patient(20.0))


async def spend_all(spenders: Spenders, statuses: Counter[int]) -> None:
    """Let the callers run items until the budget refuses each of them."""

    async def call(client: httpx.AsyncClient, url: str) -> None:
        status = 0
        while status != 402:
            reply = await client.post(f"{url}{RUNS}", json={"item": "x"})
            status = reply.status_code
            statuses[status] += 1
            if status == 503:
                await asyncio.sleep(0.1)

    limits = httpx.Limits(max_connections=CALLERS)
    async with httpx.AsyncClient(timeout=patient(30.0), limits=limits, trust_env=False) as client:
        urls = [server.url for server in spenders.servers]
        await asyncio.gather(*(call(client, urls[i % SERVERS]) for i in range(CALLERS)))


async def harm_store(store: StoreProcess, spenders: Spenders) -> None:
    """Pause the store, later kill it, and start it again: each when another part of the budget is spent."""
    for part, harm in ((0.2, "pause"), (0.5, "kill")):
        while spenders.calls < part * AMOUNT:
            await asyncio.sleep(0.02)
        if harm == "pause":
            store.signal(signal.SIGSTOP)
            await asyncio.sleep(3.0)
            store.signal(signal.SIGCONT)
        else:
            store.kill()
            await asyncio.sleep(1.0)
            await asyncio.to_thread(store.start)


@pytest.mark.slow
def test_a_budget_is_spent_once_by_four_servers_whatever_happens_to_the_store(
    spenders: Spenders, doomed: StoreProcess
) -> None:
    put_budget(spenders, amount=AMOUNT)
    before, statuses = spenders.calls, Counter[int]()
    uncounted = before - spenders.balance()["spent"]  # by servers that did not know the budget

    async def spend() -> None:
        await asyncio.gather(spend_all(spenders, statuses), harm_store(doomed, spenders))

    asyncio.run(asyncio.wait_for(spend(), patient(90)))

    def is_settled() -> bool:
        return spenders.balance()["spent"] == spenders.calls - uncounted

    wait_for(is_settled, 30, lambda: f"{spenders.balance()} {spenders.calls - uncounted}")
    wait_for(lambda: spenders.balance()["reserved"] == 0.0, 30, "what was reserved without a reply is not given back")
    assert AMOUNT - PLANNED * CALLERS <= spenders.calls - uncounted <= AMOUNT
    assert statuses.keys() == {200, 402, 503}, statuses
    assert statuses[200] == spenders.calls - before


def test_without_the_store_a_server_refuses_or_spends_its_own_share(spenders: Spenders, doomed: StoreProcess) -> None:
    server = spenders.servers[0]
    put_budget(spenders, amount=1000.0)
    doomed.signal(signal.SIGSTOP)
    try:
        refused = run(server)
        assert (refused.status_code, refused.json()["title"]) == (503, "store unavailable")
    finally:
        doomed.signal(signal.SIGCONT)
    put_budget(spenders, amount=1000.0, offline_share=0.006)  # three items of two planned calls
    before, calls = spenders.balance()["spent"], spenders.calls
    doomed.kill()
    try:
        statuses = [run(server).status_code for _ in range(5)]
        assert statuses == [200, 200, 200, 503, 503]
        assert spenders.calls == calls + 3
    finally:
        doomed.start()
    wait_for(lambda: spenders.balance()["spent"] == before + 3, 20, spenders.balance)
    assert run(server).status_code == 200
