"""A rollout while its servers and its store are killed: it continues or ends, never half; outcomes count once."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.patience import patient
from tests.support.servers import Server, start_server, wait_for
from tests.support.services import OCTETS
from tests.support.stored import artifact
from tests.support.stores import StoreProcess

PLAN = "/v1/artifacts/cascade/plan"
BATCH = 20


class Servers:
    """Two servers on one store; one of them is killed and started again."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder, self._url, self._starts = folder, url, 0
        self.steady, self.doomed = self._start(), self._start()

    def _start(self) -> Server:
        self._starts += 1
        server = start_server(self._folder / str(self._starts), redis_url=self._url)
        server.wait_until_ready()
        return server

    def kill(self) -> None:
        self.doomed.process.send_signal(signal.SIGKILL)
        self.doomed.stop()
        self.doomed = self._start()


@pytest.fixture
def servers(doomed: StoreProcess, tmp_path: Path) -> Iterator[Servers]:
    servers = Servers(tmp_path, doomed.url)
    for seed in (0, 1):
        reply = servers.steady.client.post("/v1/artifacts/import", content=artifact(seed=seed), headers=OCTETS)
        assert reply.status_code == 201, reply.text
    yield servers
    for server in (servers.steady, servers.doomed):
        server.stop()


def begin(server: Server, **rules: Any) -> None:
    server.client.put(f"{PLAN}/active", json={"version": 1}).raise_for_status()
    server.client.put(f"{PLAN}/rollout", json={"version": 2, "share": 0.5, **rules}).raise_for_status()


def draw_decisions(server: Server) -> dict[int, str]:
    """Return the id of a decision of each version, as the canary draws them."""
    drawn: dict[int, str] = {}
    for k in range(40):
        reply = server.client.get("/v1/cascades/plan/decision", params={"item": str(k)}).json()
        drawn[reply["artifact"]["version"]] = reply["decision"]
    return drawn


def outcomes(drawn: dict[int, str], is_candidate_better: bool) -> list[dict[str, Any]]:
    """Give outcomes of both versions, one of which answers half of the items correctly."""
    better = 2 if is_candidate_better else 1
    versions = [1 + k % 2 for k in range(BATCH)]
    return [{"decision": drawn[one], "correct": one == better or k % 4 < 2} for k, one in enumerate(versions)]


def report(server: Server, items: list[dict[str, Any]]) -> bool:
    try:
        return server.client.post("/v1/feedback", json={"items": items}, timeout=patient(10.0)).status_code == 200
    except httpx.HTTPError:
        return False


def state(server: Server) -> tuple[str, int, int]:
    """Return the status of the rollout, the number of outcomes, and the active version."""
    rollout = server.client.get(f"{PLAN}/rollout")
    active = server.client.get(PLAN)
    if rollout.status_code != 200 or active.status_code != 200:
        return "away", 0, 0
    seen = rollout.json()
    count = seen["accuracy"]["active"]["outcomes"] + seen["accuracy"]["candidate"]["outcomes"]
    return seen["status"], count, active.json()["version"]


@pytest.mark.slow
@pytest.mark.parametrize("is_better", [True, False])
def test_a_rollout_ends_whole_whatever_is_killed(servers: Servers, doomed: StoreProcess, is_better: bool) -> None:
    begin(servers.steady, promote={})
    wait_for(lambda: set(draw_decisions(servers.steady)) == {1, 2}, 10)
    drawn = draw_decisions(servers.steady)
    acknowledged, sent, end = 0, 0, "promoted" if is_better else "aborted"
    for number in range(60):
        items = outcomes(drawn, is_better)
        target = servers.doomed if number % 2 else servers.steady
        acknowledged += BATCH * report(target, items)
        sent += BATCH
        if number in (3, 9):
            servers.kill()
        if number in (5, 11):
            doomed.kill()
            doomed.start()
        status, count, active = state(servers.steady)
        if status == "away":
            continue
        assert (status == "promoted") == (active == 2), (status, active)
        if status != "running":
            break
        assert acknowledged <= count <= sent
    wait_for(lambda: state(servers.steady)[0] == end, 20)
    assert state(servers.steady)[2] == (2 if is_better else 1)
    events = servers.steady.client.get(f"{PLAN}/rollout").json()["events"]
    assert [one["event"] for one in events] == ["started", end]
    for server in (servers.steady, servers.doomed):
        wait_for(lambda server=server: version(server) == (2 if is_better else 1), 20)


def version(server: Server) -> int:
    return int(server.client.get("/v1/cascades/plan/decision").json()["artifact"]["version"])


def test_decisions_go_on_while_the_store_is_away(servers: Servers, doomed: StoreProcess) -> None:
    begin(servers.steady)
    path = "/v1/cascades/plan/decision"

    def choose(server: Server) -> list[int]:
        replies = [server.client.get(path, params={"item": str(k)}).json() for k in range(40)]
        return [int(reply["artifact"]["version"]) for reply in replies]

    chosen = choose(servers.steady)
    assert set(chosen) == {1, 2}
    wait_for(lambda: choose(servers.doomed) == chosen, 5)
    doomed.signal(signal.SIGSTOP)
    try:
        assert choose(servers.steady) == chosen
    finally:
        doomed.signal(signal.SIGCONT)
