"""Connections that are held open: heads and bodies that come byte by byte or never, replies that nobody reads."""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from starlette.types import Receive, Scope, Send

from app.http.body_limits import BodyLimit
from app.http.header_timeouts import HeaderTimeouts
from tests.support.patience import patient
from tests.support.servers import Server, running_server, wait_for
from tests.support.wire import ask, rest, serving, trickle

GET = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /v1/cascades/solve HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
LARGE = 40_000_000


class Hurried(HeaderTimeouts):
    """Waits for much less long."""

    HEAD_S = 0.6
    READ_S = 1.5


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
    """The same behind a limit on bodies."""
    scope["state"]["request_id"] = "r"
    await BodyLimit(accept, 1_000_000, patience_s=0.6)(scope, receive, send)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Serve with short limits."""
    with serving(limited, Hurried) as port:
        yield port


@pytest.mark.parametrize(
    ("head", "drop"),
    [
        (b"", b""),
        (b"", b"\r\n"),
        (b"G", b""),
        (b"GET /", b"x"),
        (b"GET / HTTP/1.1\r\n", b"x"),
        (b"GET / HTTP/1.1\r\nX: ", b"x"),
        (b"GET / HTTP/1.1\r\n", b"X: x\r\n"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nX: ", b"x"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\r\n"),
        (b"GET /early HTTP/1.1\r\nContent-Length: 100000\r\n\r\n", b"x"),
        (b"POST /early HTTP/1.1\r\nContent-Length: 100000\r\n\r\n", b"x"),
    ],
    ids=range(11),
)
def test_a_head_or_an_unwanted_body_that_never_ends_ends_the_connection(port: int, head: bytes, drop: bytes) -> None:
    seconds, _ = trickle(port, head, drop, every_s=0.05, most_s=patient(5))
    assert 0.4 < seconds < patient(4)


def test_whoever_began_a_head_is_told_why_it_was_cut_off(port: int) -> None:
    _, reply = trickle(port, b"GET / HTTP/1.1\r\nX: ", b"x", every_s=0.05, most_s=patient(5))
    assert reply.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"urn:parsimony:request-timeout" in reply


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


def test_a_connection_that_is_used_stays_open(port: int) -> None:
    get = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=patient(5)) as raw:
        began = time.monotonic()
        while time.monotonic() - began < 2 * Hurried.HEAD_S:
            raw.sendall(get)
            reply = b""
            while not reply.endswith(b"\r\n\r\n0"):
                reply += (part := raw.recv(65536))
                assert part, "the connection was closed"
            assert reply.startswith(b"HTTP/1.1 200 ")


def test_a_reply_that_nobody_reads_ends_the_connection(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=patient(5)) as raw:
        raw.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        assert raw.recv(1) == b"H"
        wait_for(lambda: not is_served(raw), 10, "the connection stays open")
        assert len(rest(raw)) < LARGE


def is_served(raw: socket.socket) -> bool:
    """Tell whether our server has the other end of a connection open."""
    other_way = (raw.getpeername(), raw.getsockname())
    return other_way in [(each.laddr, each.raddr) for each in psutil.Process().net_connections("tcp4")]


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
    """Run a server as it is."""
    with running_server(tmp_path_factory.mktemp("real")) as server:
        yield server


def test_the_service_bounds_every_slow_caller_and_answers_others_meanwhile(real: Server) -> None:
    """The limits as they are: 10 s for a head, 15 s for a body."""
    slow = [
        (b"", b""),
        (b"GET /health/live HTTP/1.1\r\nX: ", b"x"),
        (GET + b"GET / HTTP/1.1\r\nX: ", b"x"),
        (b"GET /v1/artifacts HTTP/1.1\r\nContent-Length: 100000\r\n\r\n", b"x"),
        (POST + b"Content-Length: 100000\r\n\r\n", b" "),
    ]
    with ThreadPoolExecutor(40) as pool:
        calls = [pool.submit(trickle, real.port, head, drop, 0.5, 15 + patient(5)) for head, drop in slow * 8]
        for _ in range(20):
            assert real.client.get("/health/live").status_code == 200
        ended = [call.result() for call in calls]
    heads, in_body = [end for number, end in enumerate(ended) if number % 5 < 4], ended[4::5]
    assert max(seconds for seconds, _ in heads) < 10 + patient(2)
    assert max(seconds for seconds, _ in in_body) < 15 + patient(2.5)
    assert all(b"HTTP/1.1 408 " in reply for _, reply in ended[1::5] + in_body)


@pytest.mark.parametrize(
    ("head", "drop"),
    [
        (b"GET /", b"x" * 10_000),
        (b"GET / HTTP/1.1\r\n", b"x" * 10_000),
        (b"GET / HTTP/1.1\r\nX: ", b"x" * 10_000),
        (b"GET / HTTP/1.1\r\n", b"X: 1\r\n" * 2_000),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: ", b"x" * 10_000),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: 1\r\n" * 2_000),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n5;", b"x" * 10_000),
    ],
    ids=["url", "name", "value", "headers", "trailer", "trailers", "extension"],
)
def test_a_head_or_a_trailer_without_end_is_cut_off_and_not_kept(real: Server, head: bytes, drop: bytes) -> None:
    process = psutil.Process(real.process.pid)
    real.client.get("/health/live")
    before = process.memory_info().rss
    reply = ask(real.port, head, *[drop] * 5_000)
    assert process.memory_info().rss - before < 20_000_000
    if reply:  # what was on its way when the server closed may have torn it
        assert reply.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))


@pytest.mark.parametrize("size", [60_000, 70_000, 250_000])
def test_a_head_of_up_to_64_kib_passes(real: Server, size: int) -> None:
    reply = ask(real.port, b"GET /health/live HTTP/1.1\r\nConnection: close\r\nX: " + b"x" * size + b"\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 200 " if size < 64 * 1024 else b"HTTP/1.1 431 ")
    assert (b"urn:parsimony:headers-too-large" in reply) == (size > 64 * 1024)


def test_what_is_no_request_has_an_id_that_the_log_has_too_and_is_counted(real: Server) -> None:
    series = 'parsimony_requests_total{method="none",route="connection",status="400"} '

    def counted() -> float:
        lines = real.client.get("/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(series))

    before = counted()
    head, _, body = ask(real.port, b"this is no HTTP\r\n\r\n").partition(b"\r\n\r\n")
    (request_id,) = (
        line.partition(b": ")[2] for line in head.split(b"\r\n") if line.lower().startswith(b"x-request-id")
    )
    assert json.loads(body)["instance"] == f"urn:parsimony:request:{request_id.decode()}"
    assert f"127.0.0.1 400 {request_id.decode()}: " in real.log.read_text()
    assert counted() == before + 1


def test_trailers_are_no_headers(port: int) -> None:
    reply = ask(
        port, b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n1\r\nx\r\n0\r\nX: y\r\n\r\n"
    )
    assert reply.endswith(b"\r\n\r\n1")
