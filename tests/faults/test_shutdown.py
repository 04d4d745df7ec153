"""A server that is told to stop: what is in flight ends within a bound, the rest is refused, builds end in order."""

import json
import signal
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest

from tests.conftest import upload
from tests.e2e.test_builds import large_upload, start_build, the_worker
from tests.support.patience import patient
from tests.support.samples import trace_upload
from tests.support.servers import Server, running_server, start_server, wait_for

BOUND_S = patient(40.0)
"""Ten seconds for requests, ten for the worker, and what a busy machine needs."""


def half_sent(server: Server, path: str, files: object) -> tuple[socket.socket, bytes]:
    request = server.client.build_request("PUT", path, files=files)  # type: ignore[arg-type]
    body = request.read()
    head = f"PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    head += f"Content-Type: {request.headers['content-type']}\r\nExpect: 100-continue\r\n\r\n"
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=patient(30))
    connection.sendall(head.encode())
    assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")
    connection.sendall(body[:-1000])
    return connection, body[-1000:]


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=patient(5)).close()
    except ConnectionRefusedError:
        return True
    return False


def test_what_is_in_flight_is_answered_new_connections_are_refused_and_all_is_kept(tmp_path: Path) -> None:
    server = start_server(tmp_path)
    server.wait_until_ready()
    upload(server)
    connection, rest = half_sent(server, "/v1/datasets/late", trace_upload())
    stopped = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    wait_for(lambda: refuses(server.port), 10, "it takes new connections")
    connection.sendall(rest)
    reply = connection.recv(65536)
    connection.close()
    assert reply.startswith(b"HTTP/1.1 201"), reply
    assert server.stop() == 0
    assert time.monotonic() - stopped < BOUND_S
    with running_server(tmp_path) as again:
        names = [info["name"] for info in again.client.get("/v1/datasets").json()["items"]]
        assert names == ["late", "trace"]
        assert again.client.get("/v1/cascades/trace/decision").status_code == 200
        assert "appendonly" in "".join(path.name for path in (tmp_path / "redis").iterdir())


def test_one_that_drains_says_first_that_it_leaves_and_answers_on_until_it_is_told_again(tmp_path: Path) -> None:
    server = start_server(tmp_path, drain_s=60)
    server.wait_until_ready()
    server.process.send_signal(signal.SIGTERM)
    asked = [f"{server.url}{path}" for path in ("/health/ready", "/health/live", "/v1/cascades/none/decision")]
    wait_for(lambda: httpx.get(asked[0], trust_env=False).json()["status"] == "leaving", 10)
    replies = [httpx.get(url, trust_env=False).status_code for url in asked]  # each over a new connection
    assert replies == [503, 200, 404]
    assert server.stop() == 0


def test_one_that_drains_ends_by_itself(tmp_path: Path) -> None:
    server = start_server(tmp_path, drain_s=0.2)
    server.wait_until_ready()
    assert server.stop() == 0


@pytest.mark.slow
def test_what_does_not_end_holds_up_nothing_for_long_and_its_build_fails_with_the_reason(tmp_path: Path) -> None:
    server = start_server(tmp_path)
    server.wait_until_ready()
    assert server.client.put("/v1/datasets/large", files=large_upload()).status_code == 201
    path = start_build(server, "running")
    waiting = server.client.post("/v1/builds", json={"kind": "cascade", "name": "waiting", "dataset": "large"})
    (horse,) = the_worker(server).children()
    horse.suspend()  # it cannot end on its own
    processes = server.tree()
    connection, _ = half_sent(server, "/v1/datasets/late", trace_upload())  # whose end is never sent
    events: list[str] = []
    following = threading.Thread(target=follow, args=(f"{server.url}{path}/events", events))
    following.start()
    wait_for(lambda: events, 10)
    stopped = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - stopped < BOUND_S
    following.join(timeout=patient(10))
    assert not following.is_alive()
    connection.close()
    _, alive = psutil.wait_procs(processes, timeout=patient(10))
    assert not alive
    with running_server(tmp_path) as again:
        ended = again.client.get(path).json()
        assert ended["status"] == "failed"
        assert ended["error"] == "the worker was stopped before the build had ended; start it again"
        late = waiting.headers["location"]
        wait_for(lambda: again.client.get(late).json()["status"] == "succeeded", 60, "what waited is not built")
        assert again.client.get("/v1/artifacts/cascade/running").status_code == 404


def follow(url: str, events: list[str]) -> None:
    try:
        with httpx.stream("GET", url, timeout=patient(60), trust_env=False) as stream:
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    events.append(json.loads(line.removeprefix("data: "))["status"])
    except httpx.TransportError:
        pass


def test_a_connection_that_the_server_closes_is_closed_where_a_process_was_started_meanwhile(tmp_path: Path) -> None:
    """A client whose connection lives on in another process of the server would wait for a reply for ever."""
    ask = b"GET /health/live HTTP/1.1\r\nHost: here\r\n"
    with running_server(tmp_path) as server, socket.create_connection(("127.0.0.1", server.port), patient(10)) as raw:
        raw.sendall(ask + b"\r\n")
        assert b"200 OK" in raw.recv(65536)
        assert server.client.put("/v1/datasets/new", files=trace_upload()).status_code == 201
        with suppress(ConnectionError):  # it may have been idle for so long that the server has closed it already
            raw.sendall(ask + b"Connection: close\r\n\r\n")
            while raw.recv(65536):
                pass
