"""A rollout while its servers and its store are killed: it continues or ends, never half; outcomes count once."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.processes.background_flush import FLUSH_INTERVAL_S
from tests.e2e.test_runs import artifacts, image
from tests.support.model_process import running_models
from tests.support.patience import patient
from tests.support.servers import Server, start_server, wait_for
from tests.support.services import OCTETS
from tests.support.stored import artifact
from tests.support.stores import StoreProcess
from tests.support.trained import COSTS

PLAN = "/v1/artifacts/cascade/plan"
MORTAL = "/v1/artifacts/cascade/mortal"
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


def test_costs_of_runs_survive_the_death_of_a_server(doomed: StoreProcess, tmp_path: Path) -> None:
    """Only runs since the last addition may be lost: the rollout continues with all others."""
    with running_models() as models:
        settings: dict[str, Any] = {"redis_url": doomed.url, "endpoint_hosts": "127.0.0.1"}
        server = start_server(tmp_path, **settings)
        server.wait_until_ready()
        data = next(artifacts({"cascade": {"target_precision": 0.9}}, "mortal"))
        for _ in range(2):
            server.client.post("/v1/artifacts/import", content=data, headers=OCTETS).raise_for_status()
        for name in COSTS:
            server.client.put(f"/v1/endpoints/{name}", json=models.json_endpoint(name)).raise_for_status()
        server.client.put(f"{MORTAL}/active", json={"version": 1}).raise_for_status()
        rules = {"version": 2, "share": 0.5, "promote": {"min_saving": 0.1}}
        server.client.put(f"{MORTAL}/rollout", json=rules).raise_for_status()
        wait_for(lambda: {run_mortal(server, str(k)) for k in range(20)} == {1, 2}, 20)
        for _ in range(2):
            wait_for(lambda server=server: is_still(lambda: count_costs(server)), 10)
            kept = count_costs(server)
            for k in range(10):
                run_mortal(server, str(k))
            wait_for(lambda server=server, kept=kept: count_costs(server) == kept + 10, 10)
            for k in range(10):
                run_mortal(server, str(k))
            server.process.send_signal(signal.SIGKILL)
            server.stop()
            server = start_server(tmp_path, **settings)
            server.wait_until_ready()
            assert kept + 10 <= count_costs(server) <= kept + 20
        wait_for(lambda: {run_mortal(server, str(k)) for k in range(20)} == {1, 2}, 20)
        rollout = server.client.get(f"{MORTAL}/rollout").json()
        assert ([one["event"] for one in rollout["events"]], rollout["cost_source"]) == (["started"], "runs")
        server.stop()


def run_mortal(server: Server, item: str) -> int:
    """Run an image, and return the version that answered."""
    reply = server.client.post("/v1/cascades/mortal/runs", json={"item": image(0), "id": item})
    return int(reply.json()["artifact"]["version"]) if reply.status_code == 200 else 0


def count_costs(server: Server) -> int:
    cost = server.client.get(f"{MORTAL}/rollout").json()["cost"]
    return int(cost["active"]["outcomes"] + cost["candidate"]["outcomes"])


def is_still(read: Callable[[], int]) -> bool:
    """Return whether a number stays the same for longer than the pause between additions."""
    before = read()
    time.sleep(patient(2 * FLUSH_INTERVAL_S))
    return read() == before


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
