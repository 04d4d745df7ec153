"""What the tests of faults ask of a service: workers of its own, look-ups with their times, everything that writes."""

import select
import signal
import socket
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import httpx

from tests.support.patience import patient
from tests.support.samples import trace_upload
from tests.support.servers import Server, environment, wait_for
from tests.support.stored import artifact
from tests.support.warm import WarmProcess
from tests.support.wire import rest

OCTETS = {"content-type": "application/octet-stream"}
LOOK_UP = "/v1/cascades/trace/decision?deadline=13"


MEANWHILE = 5
"""So many answers at least come before a reply that takes long, unless all wait for it: then it is three at most."""
TIMES = 10
"""So often the long reply is asked for until so many have come: on a busy machine they too take long now and then."""


class Asked(Protocol):
    """What is asked through a client: a server process, or a house of containers."""

    @property
    def client(self) -> httpx.Client:
        """The client."""


@contextmanager
def running_worker(folder: Path, redis_url: str, **settings: object) -> Iterator[WarmProcess]:
    folder.mkdir(parents=True, exist_ok=True)
    worker = WarmProcess(["worker"], environment(folder, redis_url=redis_url, **settings), folder / "worker.log")
    try:
        yield worker
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(timeout=patient(30))


def store_state(asked: Asked) -> str:
    """Return whether the server reaches its store: up or unreachable."""
    return str(asked.client.get("/health/ready").json()["store"])


def problems(server: Asked) -> str:
    reply = server.client.get("/health/ready", timeout=patient(2.0))
    assert reply.status_code == 200
    return "; ".join(reply.json()["problems"])


def look_ups(server: Asked, count: int = 60) -> tuple[float, set[bytes]]:
    """Look up often: the median time in seconds, and the different answers."""
    times, answers = [], set()
    for _ in range(count):
        started = time.perf_counter()
        reply = server.client.get(LOOK_UP)
        times.append(time.perf_counter() - started)
        assert reply.status_code == 200, reply.text
        answers.add(reply.content)
    return statistics.median(times), answers


def answered_before(server: Server, path: str, body: bytes, headers: dict[str, str]) -> tuple[bytes, int]:
    """Post a body, and ask for the health until its reply comes: give that, and how many answers came first.

    One is asked for after the other, and none before all of the body was sent.
    """
    most = b"", -1
    for _ in range(TIMES):
        most = max(most, _answered_before(server, path, body, headers), key=lambda each: each[1])
        if most[1] >= MEANWHILE:
            break
    return most


def _answered_before(server: Server, path: str, body: bytes, headers: dict[str, str]) -> tuple[bytes, int]:
    sent_with = {**server.client.headers, "host": "here", "connection": "close", **headers, "content-length": len(body)}
    head = "".join(f"{name}: {value}\r\n" for name, value in sent_with.items())
    count = 0
    with socket.create_connection(("127.0.0.1", server.port), timeout=patient(60)) as raw:
        raw.sendall(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        while not select.select([raw], [], [], 0)[0]:
            assert server.client.get("/health/live").status_code == 200
            count += 1
        return rest(raw), count


def writes(server: Asked, timeout: float = 20.0) -> Iterator[tuple[httpx.Response, float]]:
    """Upload, build, import and roll back: each reply, and how long it took (a full store may still be emptied)."""
    build = {"kind": "cascade", "name": "late", "dataset": "trace"}
    requests = [
        ("PUT", "/v1/datasets/late", {"files": trace_upload()}),
        ("POST", "/v1/builds", {"json": build}),
        ("POST", "/v1/artifacts/import", {"content": artifact("late"), "headers": OCTETS}),
        ("PUT", "/v1/artifacts/cascade/trace/active", {"json": {"version": 1}}),
    ]
    for method, path, body in requests:
        started = time.monotonic()
        yield server.client.request(method, path, timeout=timeout, **body), time.monotonic() - started  # type: ignore[arg-type]


def upload_and_build(server: Asked, name: str) -> None:
    """Store the sample trace under a name and build a cascade from it; both must succeed."""
    reply = server.client.put(f"/v1/datasets/{name}", files=trace_upload())
    assert reply.status_code in (200, 201), reply.text
    build(server, name)


def build(server: Asked, name: str, dataset: str | None = None, seconds: float = 60) -> None:
    body = {"kind": "cascade", "name": name, "dataset": dataset or name, "params": {"target_precision": 0.9}}
    reply = server.client.post("/v1/builds", json=body)
    assert reply.status_code == 202, reply.text
    path = reply.headers["location"]
    wait_for(lambda: server.client.get(path).json()["status"] not in ("queued", "running"), seconds)
    assert server.client.get(path).json()["status"] == "succeeded", server.client.get(path).text
