"""Connections that are held open: bodies that trickle or never end, replies that are read slowly."""

import asyncio
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.types import Receive, Scope, Send

from app.http.body_limits import BodyLimit
from tests.support.patience import patient
from tests.support.servers import Server, running_server
from tests.support.wire import ask, serving, trickle

POST = b"POST /v1/cascades/solve HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
LARGE = 40_000_000


async def accept(scope: Scope, receive: Receive, send: Send) -> None:
    """Read the whole body, and answer with its length; at /large with megabytes, at /slow after a while."""
    scope["state"]["request_id"] = "r"
    read, more = 0, scope["path"] != "/early"
    while more:
        message = await receive()
        read, more = read + len(message.get("body", b"")), message.get("more_body", False)
    if scope["path"] == "/slow":
        await asyncio.sleep(1.5)
    body = bytes(LARGE) if scope["path"] == "/large" else str(read).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def limited(scope: Scope, receive: Receive, send: Send) -> None:
    scope["state"]["request_id"] = "r"
    await BodyLimit(accept, 1_000_000, patience_s=0.6)(scope, receive, send)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving(limited) as port:
        yield port


@pytest.mark.parametrize("framing", [b"Content-Length: 5000", b"Transfer-Encoding: chunked"])
def test_a_body_that_trickles_is_refused(port: int, framing: bytes) -> None:
    drop = b"x" if b"Length" in framing else b"1\r\nx\r\n"
    seconds, reply = trickle(
        port, b"POST / HTTP/1.1\r\n" + framing + b"\r\n\r\n", drop, every_s=0.05, most_s=patient(5)
    )
    assert 0.4 < seconds < patient(4)
    assert reply.startswith(b"HTTP/1.1 408 ")
    assert b"urn:parsimony:request-timeout" in reply
    assert b"connection: close" in reply


def test_a_body_that_comes_fast_enough_may_take_longer(port: int) -> None:
    pieces = [b"x" * 10_000] * 12
    head = b"POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: 120000\r\n\r\n"
    started = time.monotonic()
    assert ask(port, head, *pieces, pause_s=0.1).endswith(b"\r\n\r\n120000")
    assert time.monotonic() - started > 1.1


def test_an_answer_may_take_longer_than_a_head(port: int) -> None:
    assert ask(port, b"GET /slow HTTP/1.1\r\nConnection: close\r\n\r\n").endswith(b"\r\n\r\n0")


def test_a_reply_that_is_read_slowly_arrives(port: int) -> None:
    received = 0
    with socket.create_connection(("127.0.0.1", port), timeout=patient(5)) as raw:
        raw.sendall(b"GET /large HTTP/1.1\r\nConnection: close\r\n\r\n")
        while part := raw.recv(2_000_000):
            received += len(part)
            time.sleep(0.02)
    assert received > LARGE


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("real")) as server:
        yield server


def test_the_service_bounds_every_slow_body_and_answers_others_meanwhile(real: Server) -> None:
    """The limit as it is: 15 s for a body."""
    with ThreadPoolExecutor(40) as pool:
        head, most_s = POST + b"Content-Length: 100000\r\n\r\n", 15 + patient(5)
        calls = [pool.submit(trickle, real.port, head, b" ", 0.5, most_s) for _ in range(40)]
        for _ in range(20):
            assert real.client.get("/health/live").status_code == 200
        ended = [call.result() for call in calls]
    assert max(seconds for seconds, _ in ended) < 15 + patient(2.5)
    assert all(b"HTTP/1.1 408 " in reply for _, reply in ended)
