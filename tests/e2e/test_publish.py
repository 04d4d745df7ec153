"""Publishing, rolling back, importing: every server process answers with the new version within a second."""

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
    body = {"kind": "cascade", "name": "trace", "dataset": "trace", "params": {"target_precision": 0.9, **params}}
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


@pytest.mark.slow
@pytest.mark.parametrize("whole_tree", [True, False])
def test_after_a_death_no_process_is_left_and_the_next_start_finds_everything(tmp_path: Path, whole_tree: bool) -> None:
    server = start_server(tmp_path)
    server.wait_until_ready()
    upload(server)
    server.kill(whole_tree=whole_tree)
    if not whole_tree:
        wait_for(lambda: not _processes_naming(tmp_path), 20, "a process is left over")
    with running_server(tmp_path) as again:
        assert version(again) == 1
        assert [info["name"] for info in again.client.get("/v1/datasets").json()["items"]] == ["trace"]
    wait_for(lambda: not _processes_naming(tmp_path), 10, "a process is left over")


def _processes_naming(folder: Path) -> list[str]:
    return [
        " ".join(process.info["cmdline"])
        for process in psutil.process_iter(["cmdline"])
        if any(str(folder) in word for word in process.info["cmdline"] or [])
    ]


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
    (line,) = second.log.read_text().splitlines()
    assert f"127.0.0.1:{server.port}" in line
