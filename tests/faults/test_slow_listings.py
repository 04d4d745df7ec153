"""Listings that wait for a slow store hold up nobody who does not need it: they have all threads, and no others."""

import select
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psutil
import pytest

from tests.support.servers import Server, running_server, wait_for
from tests.support.services import LOOK_UP, OCTETS
from tests.support.stored import artifact
from tests.support.stores import StoreProcess

THREADS = 40
"""So many threads answer requests that block; more listings than that leave none."""
LISTINGS = ("/v1/artifacts", "/v1/builds", "/v1/datasets", "/v1/artifacts/cascade/trace/versions")
SOLVE = {
    "classifiers": [
        {"name": "fast", "execution_time": 1.0, "success_probability": 0.5},
        {"name": "sure", "execution_time": 9.0, "success_probability": 1.0},
    ]
}


@pytest.fixture(scope="module")
def served(doomed: StoreProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server"), redis_url=doomed.url) as server:
        reply = server.client.post("/v1/artifacts/import", content=artifact("trace"), headers=OCTETS)
        assert reply.status_code == 201, reply.text
        wait_for(lambda: server.client.get(LOOK_UP).status_code == 200, 10)
        yield server


@contextmanager
def listings_in_flight(server: Server, store: StoreProcess) -> Iterator[list[socket.socket]]:
    """Ask for half as many listings again as there are threads, none of which the store answers; all threads wait."""
    store.signal(signal.SIGSTOP)
    try:
        with ExitStack() as stack:
            asked = []
            for place in range(THREADS + THREADS // 2):
                raw = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
                raw.sendall(f"GET {LISTINGS[place % len(LISTINGS)]} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
                asked.append(raw)
            wait_for(lambda: connections(server, store) >= THREADS, 20, "the listings are not taken up")
            yield asked
    finally:
        store.signal(signal.SIGCONT)


def connections(server: Server, store: StoreProcess) -> int:
    """Count the server's connections to the store: each listing that waits for it has one of its own.

    Not the server's threads: it keeps idle ones of earlier requests, so that how many more come is not known.
    """
    opened = psutil.Process(server.process.pid).net_connections("tcp")
    return sum(bool(each.raddr) and each.raddr.port == store.port for each in opened)


def answered(asked: list[socket.socket]) -> int:
    return len(select.select(asked, [], [], 0)[0])


ASKED: tuple[tuple[str, str, object], ...] = (
    ("GET", "/health/live", None),
    ("GET", "/health/ready", None),
    ("GET", "/metrics", None),
    ("GET", "/", None),
    ("GET", LOOK_UP, None),
    ("GET", "/v1/cascades/trace/deadlines", None),
    ("GET", "/v1/decisions?name=trace&deadline=13", None),
    ("GET", "/openapi.json", None),
    ("POST", "/v1/cascades/solve", SOLVE),
)
"""What needs no store, and so must not wait for one."""


def test_who_needs_no_store_does_not_wait_for_listings_that_do(served: Server, doomed: StoreProcess) -> None:
    with listings_in_flight(served, doomed) as asked:
        for method, path, body in ASKED:
            reply = served.client.request(method, path, json=body)
            assert (reply.status_code, answered(asked)) == (200, 0), path
