"""Builds in real workers: progress, cancelling, time limits, and workers that are killed."""

import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet
import pytest

from app.store.embedded import EmbeddedRedis
from tests.support.patience import patient
from tests.support.samples import table_upload, to_csv, trace_columns
from tests.support.servers import Server, running_server, wait_for
from tests.support.services import Asked

CLASSIFIERS = 20
ROWS = 20_000


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("busy")) as server:
        reply = server.client.put("/v1/datasets/large", files=large_upload())
        assert reply.status_code == 201, reply.text
        yield server


def large_upload(rows: int = ROWS) -> dict[str, Any]:
    """Make a trace of twenty IDK classifiers and a deterministic one, as Parquet."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 5, rows)
    columns: dict[str, Any] = {"truth": truth, "strong_says": truth}
    classifiers: list[dict[str, Any]] = [{"name": "strong", "cost": 100.0, "prediction": "strong_says"}]
    for j in range(CLASSIFIERS):
        knows = rng.random(rows) < 0.2 + 0.03 * j
        columns[f"k{j}_says"] = np.where(knows, truth, (truth + 1) % 5)
        columns[f"k{j}_sure"] = np.where(knows, 0.9, 0.3) + 0.05 * rng.random(rows)
        classifiers.append({"name": f"k{j}", "cost": 1.0 + j, "prediction": f"k{j}_says", "confidence": f"k{j}_sure"})
    out = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), out)
    spec = {"kind": "trace", "label": "truth", "unit": "ms", "classifiers": classifiers}
    files = table_upload(out.getvalue(), "application/vnd.apache.parquet")
    return files | {"spec": (None, json.dumps(spec))}


def start_build(server: Asked, name: str, dataset: str = "large") -> str:
    reply = server.client.post("/v1/builds", json={"kind": "cascade", "name": name, "dataset": dataset})
    path = str(reply.headers["location"])
    wait_for(lambda: server.client.get(path).json()["status"] == "running", 20)
    return path


def the_worker(server: Server) -> psutil.Process:
    return next(child for child in psutil.Process(server.process.pid).children() if child.name() == "build-worker")


def test_events_tell_the_progress_and_end_with_the_artifact(busy: Server) -> None:
    reply = busy.client.post("/v1/builds", json={"kind": "cascade", "name": "followed", "dataset": "large"})
    with busy.client.stream("GET", f"{reply.headers['location']}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in stream.iter_lines() if line]
    kinds, builds = lines[::2], [json.loads(line.removeprefix("data: ")) for line in lines[1::2]]
    assert kinds[-1] == "event: end"
    assert set(kinds[:-1]) == {"event: progress"}
    assert builds[-1]["status"] == "succeeded"
    assert builds[-1]["artifact"] == {"kind": "cascade", "name": "followed", "version": 1}
    assert builds[-1]["progress"]["done"] == builds[-1]["progress"]["total"] > 0
    assert len({build["progress"]["message"] for build in builds}) > 2
    assert all(build["started_at"] for build in builds if build["status"] != "queued")


def test_a_server_decides_with_a_version_once_its_build_has_succeeded(busy: Server) -> None:
    assert busy.client.put("/v1/datasets/small", files=table_upload(to_csv(trace_columns()))).status_code == 201
    for version in range(1, 6):
        body = {"kind": "cascade", "name": "prompt", "dataset": "small"}
        path = busy.client.post("/v1/builds", json=body).headers["location"]
        while busy.client.get(path).json()["status"] != "succeeded":
            time.sleep(0.01)
        decided = busy.client.post("/v1/cascades/prompt/decision", json={})
        assert decided.json()["artifact"]["version"] == version
    busy.client.delete("/v1/artifacts/cascade/prompt").raise_for_status()
    started = time.perf_counter()
    assert busy.client.get(path).json()["status"] == "succeeded"
    assert time.perf_counter() - started < patient(6)


def test_a_cancelled_build_stops_computing_and_publishes_nothing(busy: Server) -> None:
    path = start_build(busy, "cancelled")
    (horse,) = the_worker(busy).children()
    assert busy.client.delete(path).json()["status"] == "cancelled"
    wait_for(lambda: not horse.is_running(), 5, "the build goes on computing")
    final = busy.client.get(path).json()
    assert (final["status"], final["artifact"]) == ("cancelled", None)
    assert final["finished_at"]
    assert busy.client.get("/v1/artifacts/cascade/cancelled").status_code == 404
    assert busy.client.delete(path).json() == final
    again = start_build(busy, "after-cancelling")
    waiting = busy.client.post("/v1/builds", json={"kind": "cascade", "name": "second", "dataset": "large"})
    assert waiting.json()["status"] == "queued"
    assert busy.client.delete(waiting.headers["location"]).json()["status"] == "cancelled"
    wait_for(lambda: busy.client.get(again).json()["status"] == "succeeded", 30, "the worker takes no more builds")
    assert busy.client.get(waiting.headers["location"]).json()["status"] == "cancelled"
    assert busy.client.get("/v1/artifacts/cascade/second").status_code == 404


def test_a_build_whose_process_is_killed_fails_at_once_and_the_next_one_runs(busy: Server) -> None:
    path = start_build(busy, "killed")
    (horse,) = the_worker(busy).children()
    horse.kill()
    wait_for(lambda: busy.client.get(path).json()["status"] == "failed", 15)
    assert "killed by signal 9" in busy.client.get(path).json()["error"]
    assert busy.client.get("/v1/artifacts/cascade/killed").status_code == 404
    again = start_build(busy, "after-killing")
    wait_for(lambda: busy.client.get(again).json()["status"] == "succeeded", 30)


def test_a_build_over_its_time_limit_fails_and_says_so(tmp_path: Path) -> None:
    with running_server(tmp_path, build_timeout_s=1) as server:
        server.client.put("/v1/datasets/large", files=large_upload())
        path = start_build(server, "slow")
        (horse,) = the_worker(server).children()
        horse.suspend()
        time.sleep(1.2)  # its time goes on: one second is over whenever this ends
        horse.resume()
        wait_for(lambda: server.client.get(path).json()["status"] in ("failed", "succeeded"), 30)
        assert "longer than 1 s" in (server.client.get(path).json()["error"] or "it succeeded")


@pytest.mark.slow
def test_a_build_whose_worker_is_killed_fails_within_two_minutes(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        server.client.put("/v1/datasets/large", files=large_upload())
        path = start_build(server, "orphan")
        worker = the_worker(server)
        (horse,) = worker.children()
        horse.suspend()  # it cannot end on its own
        killed = time.monotonic()
        worker.kill()
        wait_for(lambda: not horse.is_running() or horse.status() == psutil.STATUS_ZOMBIE, 10, "the build lives on")
        wait_for(lambda: server.client.get(path).json()["status"] == "failed", 120)
        assert time.monotonic() - killed < patient(60)
        assert "its worker died" in server.client.get(path).json()["error"]
        assert server.client.get("/v1/artifacts/cascade/orphan").status_code == 404


def test_a_worker_that_died_is_replaced_and_builds_go_on(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        server.client.put("/v1/datasets/large", files=large_upload())
        the_worker(server).kill()
        wait_for(lambda: "worker ended, restarting" in server.log.read_text(), 15)
        body = {"kind": "cascade", "name": "after", "dataset": "large"}
        path = server.client.post("/v1/builds", json=body).headers["location"]
        wait_for(lambda: server.client.get(path).json()["status"] == "succeeded", 40)


def test_readiness_says_when_nobody_builds_and_that_the_servers_own_worker_is_to_come(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path / "store") as redis, running_server(tmp_path / "server", redis_url=redis.url) as server:
        wait_for(lambda: server.client.get("/health/ready").json()["problems"], 10)
        assert "parsimony worker" in server.client.get("/health/ready").json()["problems"][0]
    with running_server(tmp_path) as server:
        problems = server.client.get("/health/ready").json()["problems"]
        assert all("beside this server" in problem for problem in problems)
