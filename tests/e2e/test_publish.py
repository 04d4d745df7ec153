"""Publishing, rolling back, importing: every server process answers with the new version within a second."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import upload
from tests.support.patience import patient
from tests.support.servers import Server, running_server, start_server, wait_for

EXPECTED_S = patient(1.0)
OCTETS = {"content-type": "application/octet-stream"}


def version(server: Server, name: str = "trace") -> Any:
    return server.client.get(f"/v1/cascades/{name}/decision").json()["artifact"]["version"]


def rebuild(server: Server, **params: object) -> Any:
    body = {"solver": "cascade", "name": "trace", "dataset": "trace", "params": {"target_precision": 0.9, **params}}
    path = server.client.post("/v1/builds", json=body).headers["location"]
    wait_for(lambda: server.client.get(path).json()["status"] == "succeeded", 30)
    return server.client.get(path).json()["artifact"]["version"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("pair"), "--workers", "2") as server:
        yield server


def test_every_process_answers_with_what_was_published_or_rolled_back_within_a_second(pair: Server) -> None:
    upload(pair)
    second = rebuild(pair, dependence="independent")
    published = time.monotonic()
    assert _versions_seen_until(pair, second) - published < EXPECTED_S
    pair.client.put("/v1/artifacts/cascade/trace/active", json={"version": 1})
    rolled_back = time.monotonic()
    assert _versions_seen_until(pair, 1) - rolled_back < EXPECTED_S
    records = pair.client.get("/v1/artifacts/cascade/trace/versions").json()["items"]
    assert [(record["version"], record["active"]) for record in records] == [(1, True), (2, False)]
    assert pair.client.get("/v1/cascades/trace/decision?version=2").json()["artifact"]["version"] == 2


def _versions_seen_until(server: Server, wanted: int) -> float:
    """Ask on new connections, which reach both processes, until twenty answers in a row are the wanted one."""
    import httpx

    in_a_row, first = 0, 0.0
    deadline = time.monotonic() + patient(10)
    while in_a_row < 20:
        assert time.monotonic() < deadline, f"version {wanted} does not answer"
        answered = httpx.get(f"{server.url}/v1/cascades/trace/decision", trust_env=False).json()["artifact"]["version"]
        first = first if in_a_row and answered == wanted else time.monotonic()
        in_a_row = in_a_row + 1 if answered == wanted else 0
    return first


def test_metrics_of_several_processes_are_one(pair: Server) -> None:
    import httpx

    for _ in range(30):
        httpx.get(f"{pair.url}/health/live", trust_env=False)
    line = 'parsimony_requests_total{method="GET",route="/health/live",status="200"} 30.0'
    assert line in pair.client.get("/metrics").text


def test_an_artifact_moves_to_another_store_with_its_checksum(server: Server, tmp_path: Path) -> None:
    record = server.client.get("/v1/artifacts/cascade/trace").json()
    data = server.client.get(f"/v1/artifacts/cascade/trace/versions/{record['version']}/export").content
    with running_server(tmp_path) as other:
        imported = other.client.post("/v1/artifacts/import", content=data, headers=OCTETS)
        assert imported.status_code == 201
        same = ("sha256", "bytes", "params", "seed", "summary", "unit", "dataset", "name", "solver")
        assert {name: imported.json()[name] for name in same} == {name: record[name] for name in same}
        wait_for(lambda: other.client.get("/v1/cascades/trace/decision").status_code == 200, 5)
        here, there = (s.client.get("/v1/cascades/trace/decision?deadline=12").json() for s in (server, other))
        assert {**here, "artifact": 0} == {**there, "artifact": 0}
        broken = data[:-100] + bytes([data[-100] ^ 1]) + data[-99:]
        assert other.client.post("/v1/artifacts/import", content=broken, headers=OCTETS).status_code == 422
        assert len(other.client.get("/v1/artifacts/cascade/trace/versions").json()["items"]) == 1


@pytest.mark.slow
def test_after_the_death_of_the_whole_tree_the_next_start_finds_everything(tmp_path: Path) -> None:
    server = start_server(tmp_path)
    server.wait_until_ready()
    upload(server)
    server.kill(whole_tree=True)
    with running_server(tmp_path) as again:
        assert version(again) == 1
        assert [info["name"] for info in again.client.get("/v1/datasets").json()["items"]] == ["trace"]
    wait_for(lambda: not _processes_naming(tmp_path), 10, "a process is left over")


@pytest.mark.slow
def test_after_the_death_of_the_server_alone_no_store_is_left_behind(tmp_path: Path) -> None:
    server = start_server(tmp_path)
    server.wait_until_ready()
    upload(server)
    server.kill(whole_tree=False)
    wait_for(lambda: not _processes_naming(tmp_path), 20, "a process is left over")
    with running_server(tmp_path) as again:
        assert version(again) == 1


def _processes_naming(folder: Path) -> list[str]:
    return [
        " ".join(process.info["cmdline"])
        for process in psutil.process_iter(["cmdline"])
        if any(str(folder) in word for word in process.info["cmdline"] or [])
    ]


@pytest.mark.slow
def test_look_ups_go_on_while_the_store_is_away_and_everything_resumes(tmp_path: Path) -> None:
    from app.store.embedded import EmbeddedRedis

    embedded = EmbeddedRedis(tmp_path / "store")
    with running_server(tmp_path / "server", redis_url=embedded.url) as server:
        (keeper,) = [p for p in psutil.process_iter(["cmdline"]) if _is_keeper(p, tmp_path / "store")]
        keeper.kill()
        wait_for(lambda: server.client.get("/health/ready").json()["store"] == "unreachable", 15)
        ready = server.client.get("/health/ready")
        assert ready.status_code == 200
        reply = server.client.get("/v1/datasets")
        assert reply.status_code == 503
        assert json.loads(reply.content)["type"] == "urn:parsimony:store-unavailable"
        assert int(reply.headers["retry-after"]) > 0
        embedded.revive()
        wait_for(lambda: server.client.get("/health/ready").json()["store"] == "up", 15)
        assert server.client.get("/v1/datasets").status_code == 200
    embedded.close()


def _is_keeper(process: psutil.Process, folder: Path) -> bool:
    command = process.info["cmdline"] or []
    return "-c" in command and str((folder / "redis").resolve()) in command


@pytest.mark.slow
def test_none_of_several_server_processes_outlives_the_one_that_counts(tmp_path: Path) -> None:
    server = start_server(tmp_path, "--workers", "2")
    server.wait_until_ready()
    processes = server.tree()
    server.kill(whole_tree=False)
    _, alive = psutil.wait_procs(processes, timeout=patient(20))
    assert not alive
    with running_server(tmp_path):
        pass


def test_a_taken_port_is_refused_in_one_line(server: Server, tmp_path: Path) -> None:
    second = start_server(tmp_path, port=server.port)
    second.client.close()
    assert second.process.wait(timeout=patient(20)) == 1
    assert second.log.read_text().splitlines() == [
        f"parsimony: cannot listen on 127.0.0.1:{server.port}: Address already in use; "
        "choose another with --port or PARSIMONY_PORT"
    ]


def test_a_path_cannot_write_a_line_of_its_own_into_the_log(server: Server) -> None:
    server.client.get("/v1/%0AINFO%20forged")
    wait_for(lambda: "/v1/%0AINFO%20forged" in server.log.read_text(), 5)
    assert not [line for line in server.log.read_text().splitlines() if line.startswith("INFO forged")]
