"""Containers are killed, paused, cut off and stopped: look-ups stay right, and all comes back by itself."""

import json
import socket
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.containers.house import PORT, House, docker
from tests.containers.load import PROBLEM, nothing_lost, unshaken
from tests.e2e.test_builds import large_upload, start_build
from tests.support.patience import patient
from tests.support.samples import trace_upload
from tests.support.servers import wait_for
from tests.support.services import build, look_ups, problems, store_state, upload_and_build, writes
from tests.support.wire import rest

PAUSE_S = 60.0
IN_FLIGHT = 20
BODY = json.dumps(PROBLEM).encode()


@pytest.fixture(scope="module", autouse=True)
def large(house: House) -> Iterator[None]:
    """Store what takes seconds to build from, and delete the megabytes that were built: later a slow line is tried."""
    assert house.client.put("/v1/datasets/large", files=large_upload()).status_code in (200, 201)
    yield
    for built in house.client.get("/v1/artifacts?dataset=large&summary=false&limit=1000").json()["items"]:
        assert house.client.delete(f"/v1/artifacts/{built['kind']}/{built['name']}").status_code == 204


def all_resumes(house: House, name: str) -> None:
    wait_for(lambda: house.is_ready() and not problems(house), 60, lambda: problems(house))
    upload_and_build(house, name)
    wait_for(lambda: house.client.get(f"/v1/cascades/{name}/decision").status_code == 200, 5)


def refuses_to_write(house: House) -> bool:
    return {(reply.status_code, reply.headers.get("retry-after")) for reply, _ in writes(house)} == {(503, "5")}


def test_a_store_that_is_killed_is_not_missed_and_comes_back_by_itself_with_all_it_had(house: House) -> None:
    before = house.restarts("redis")
    with nothing_lost(house), unshaken(house):
        house.crash("redis")
        wait_for(lambda: house.restarts("redis") == before + 1, 20)
        wait_for(lambda: house.is_well("redis"), 30)
        all_resumes(house, "after-the-kill")


def test_a_store_that_is_stopped_by_hand_stays_away_until_it_is_started(house: House) -> None:
    with nothing_lost(house), unshaken(house):
        docker("kill", house.container("redis"))
        wait_for(lambda: store_state(house) == "unreachable", 15, lambda: problems(house))
        assert refuses_to_write(house)
        assert not house.is_well("redis")
        house.compose("up", "--detach", "--no-recreate", "redis")  # the runbook's command
        all_resumes(house, "after-the-stop")


def test_a_store_that_is_paused_is_not_missed(house: House) -> None:
    with nothing_lost(house), unshaken(house):
        docker("pause", house.container("redis"))
        try:
            paused = time.monotonic()
            wait_for(lambda: store_state(house) == "unreachable", 15, lambda: problems(house))
            assert refuses_to_write(house)
            time.sleep(max(0.0, paused + PAUSE_S - time.monotonic()))
        finally:
            docker("unpause", house.container("redis"))
        all_resumes(house, "after-the-pause")


def test_a_server_that_is_cut_off_from_the_store_answers_on(house: House) -> None:
    server, network = house.container("server"), f"{house.project}_store"
    with nothing_lost(house), unshaken(house):
        docker("network", "disconnect", network, server)
        try:
            wait_for(lambda: store_state(house) == "unreachable", 15, lambda: problems(house))
            assert refuses_to_write(house)
        finally:
            docker("network", "connect", network, server)
        all_resumes(house, "after-the-cut")


def test_a_server_that_is_killed_is_started_again_and_answers_the_same(house: House) -> None:
    before, (_, answers) = house.restarts("server"), look_ups(house, 1)
    house.crash("server")
    wait_for(lambda: house.restarts("server") == before + 1, 20)
    all_resumes(house, "after-the-crash")
    assert look_ups(house)[1] == answers
    wait_for(lambda: house.is_well("server"), 40)


def test_a_build_whose_worker_is_killed_fails_with_the_reason_and_the_next_one_runs(house: House) -> None:
    with nothing_lost(house), unshaken(house):
        path = start_build(house, "cut-short")
        house.crash("worker")
        wait_for(lambda: house.client.get(path).json()["status"] not in ("queued", "running"), 120)
        ended = house.client.get(path).json()
        assert ended["status"] == "failed", ended
        assert "worker died" in ended["error"]
        assert house.client.get("/v1/artifacts/cascade/cut-short").status_code == 404
        build(house, "next", "trace")


def test_a_worker_that_is_told_to_stop_ends_in_order_and_says_why_its_build_failed(house: House) -> None:
    path, worker = start_build(house, "stopped"), house.container("worker")
    docker("stop", "--time", "60", worker)
    state = house.inspect("worker")["State"]
    docker("start", worker)
    assert state["ExitCode"] == 0, state
    ended = house.client.get(path).json()
    assert ended["status"] == "succeeded" or "worker" in ended["error"], ended
    build(house, "next", "trace")


def test_two_workers_build_at_the_same_time(house: House) -> None:
    house.compose("up", "--detach", "--no-recreate", "worker", BUILD_WORKERS="2")
    try:
        one = house.client.post("/v1/builds", json={"kind": "cascade", "name": "one", "dataset": "large"})
        two = house.client.post("/v1/builds", json={"kind": "cascade", "name": "two", "dataset": "large"})
        paths = [reply.headers["location"] for reply in (one, two)]
        wait_for(lambda: {house.client.get(path).json()["status"] for path in paths} == {"running"}, 20)
        for path in paths:
            wait_for(lambda path=path: house.client.get(path).json()["status"] == "succeeded", 120)
    finally:
        house.compose("up", "--detach", "--no-recreate", "worker", BUILD_WORKERS="1")
    assert len(house.containers("worker")) == 1


def half_sent(path: str, kind: str, body: bytes, method: str = "POST") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", PORT), timeout=patient(30))
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    connection.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
    assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")
    connection.sendall(body[:-1])
    return connection


def takes_no_more(house: House) -> bool:
    try:
        httpx.get(f"{house.client.base_url}/health/live", timeout=patient(2), trust_env=False)
    except httpx.TransportError:
        return True
    return False


def test_a_server_that_is_told_to_stop_answers_all_that_it_has_begun(house: House) -> None:
    upload = house.client.build_request("PUT", "/v1/datasets/late-upload", files=trace_upload())
    kind, body, server = upload.headers["content-type"], upload.read(), house.container("server")
    flying = [(half_sent("/v1/cascades/solve", "application/json", BODY), BODY) for _ in range(IN_FLIGHT)]
    flying.append((half_sent("/v1/datasets/late-upload", kind, body, "PUT"), body))
    stopping = threading.Thread(target=docker, args=("stop", "--time", "30", server))
    stopping.start()
    try:
        wait_for(lambda: takes_no_more(house), 10)
        for connection, whole in flying:
            connection.sendall(whole[-1:])
        replies = [rest(connection).split(b"\r\n")[0] for connection, _ in flying]
    finally:
        for connection, _ in flying:
            connection.close()
        stopping.join()
        state = house.inspect("server")["State"]
        docker("start", server)
    assert replies == [b"HTTP/1.1 200 OK"] * IN_FLIGHT + [b"HTTP/1.1 201 Created"]
    assert state["ExitCode"] == 0, state
    all_resumes(house, "after-the-stop-of-the-server")
    assert "late-upload" in {info["name"] for info in house.client.get("/v1/datasets").json()["items"]}
