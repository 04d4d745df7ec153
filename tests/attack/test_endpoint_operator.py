"""An endpoint operator who misbehaves: replies without end, replies that repeat the key, replies that are not HTTP."""

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, repeat
from typing import Any

import pytest
from pydantic import ValidationError

from app.observability.metrics import Metrics
from app.running.bounded_connection import MAX_INTERIM_REPLIES
from app.running.endpoint_caller import ChunkStream, EndpointCaller
from app.running.ssrf_guard import SsrfGuard
from models.endpoint import ENDPOINT
from parsimony.runs.steps import CallResult
from tests.support.raw_endpoint import running_endpoint

pytestmark = pytest.mark.unit
KEY = "sk-0123456789abcdef"
ANSWER = b'{"label": "a", "confidence": 0.9}'
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
MANY = 2**13


def reply(body: bytes = ANSWER, head: bytes = HEAD) -> bytes:
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def call(pieces: Iterable[bytes], *, texts: list[str] | None = None, **changes: Any) -> CallResult:
    """Call an endpoint that sends these bytes; texts: takes the pieces of a streamed answer."""
    shape = {"protocol": "json", "label": "/label", "confidence": "/confidence"}
    chat = {"protocol": "openai-chat", "model": "m"}

    def take(chunk: Mapping[str, Any]) -> None:
        assert texts is not None
        texts.extend(choice["delta"].get("content") or "" for choice in chunk["choices"])

    async def work(url: str) -> CallResult:
        caller = EndpointCaller(SsrfGuard(("127.0.0.1",)), Metrics(), {"PARSIMONY_SECRET_TEST": KEY})
        endpoint = {**(shape if texts is None else chat), "url": url, "secret": "PARSIMONY_SECRET_TEST", **changes}
        caller.update_endpoints({"a": ENDPOINT.validate_python(endpoint)})
        try:
            return await caller.call_endpoint("a", "item", 20.0, None if texts is None else ChunkStream(take))
        finally:
            await caller.close()

    with running_endpoint(lambda head: pieces) as url:
        return asyncio.run(work(url))


ENDLESS: dict[str, Iterable[bytes]] = {
    "interim replies": repeat(INTERIM * MANY),
    "megabytes of interim replies before an answer": [INTERIM * 100_000 + reply()],
    "interim replies with long headers": repeat(b"HTTP/1.1 103 Early\r\nLink: " + b"x" * 4000 + b"\r\n\r\n"),
    "header lines": chain([b"HTTP/1.1 200 OK\r\n"], repeat(b"X: y\r\n" * MANY)),
    "trailers": chain([CHUNKED + b"%x\r\n%s\r\n0\r\n" % (len(ANSWER), ANSWER)], repeat(b"X: y\r\n" * MANY)),
    "a chunk extension": chain([CHUNKED + b"1;"], repeat(b"e" * 2**16)),
    "chunks of one byte": chain([CHUNKED], repeat(b"1\r\n \r\n" * MANY)),
    "a body": chain([HEAD + b"\r\n"], repeat(b" " * 2**16)),
    "a body in chunks": chain([CHUNKED], repeat(b"10000\r\n" + b" " * 2**16 + b"\r\n")),
    "replies after the first": chain([reply(b"[]")], repeat(reply(b"[]") * MANY)),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_reply_without_end_is_cut_off_and_the_call_fails(name: str) -> None:
    sent = 0

    def counted() -> Iterator[bytes]:
        nonlocal sent
        for piece in ENDLESS[name]:
            sent += len(piece)
            yield piece

    heard = call(counted())
    assert (heard.label, heard.attempts) == (None, 1)
    assert heard.error is not None
    assert sent < 2**24  # what the sockets of both sides hold


@pytest.mark.parametrize(
    "pieces",
    [
        [INTERIM * MAX_INTERIM_REPLIES + reply()],
        [CHUNKED, *(b"1\r\n%c\r\n" % byte for byte in ANSWER), b"0\r\n\r\n"],
        [HEAD + b"X-A: " + b"a" * 8000 + b"\r\n" + reply(head=b"")],
        [reply(ANSWER[:-1] + b" " * 900_000 + b"}")],
        [CHUNKED, b"%x\r\n" % (900_000 + len(ANSWER)), b" " * 900_000, ANSWER + b"\r\n0\r\n\r\n"],
        [CHUNKED, *[b"400\r\n" + b" " * 1024 + b"\r\n"] * 800, b"%x\r\n%s\r\n0\r\n\r\n" % (len(ANSWER), ANSWER)],
    ],
    ids=["interim replies", "small chunks", "long header", "long body", "long chunk", "many chunks"],
)
def test_an_unusual_reply_within_the_limits_is_an_answer(pieces: list[bytes]) -> None:
    heard = call(pieces)
    assert (heard.error, heard.label) == (None, "a")


@pytest.mark.parametrize(
    "raw",
    [
        b"\x00\xff" * 5000,
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" + b"x" * 1000,
        b"HTTP/1.1 204 No\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nContent-Length: 30\r\n\r\n" + ANSWER,
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n" + ANSWER,
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + ANSWER,
        reply(b'{"label": "a", "confidence": 1e999}'),
        reply(b'{"label": "a", "confidence": NaN}'),
        reply(b'{"label": "a", "confidence": %s}' % (b"9" * 400_000)),
        reply(b"[" * 500_000),
        reply(b'{"label": "\\ud800", "confidence": 0.9}'),
        b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 500 " + KEY.encode() + b"\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_whatever_comes_the_call_ends_with_an_error_of_ours(raw: bytes, caplog: pytest.LogCaptureFixture) -> None:
    heard = call([raw])
    assert heard.error is not None
    assert heard.label is None
    assert KEY not in repr(heard) + caplog.text
    named = reply(b'{"scores": {"inner data\\n2026 FAKE": "x"}}')  # no text of a reply is in the error
    assert "inner data" not in repr(call([named], label=None, confidence=None, scores="/scores"))


def events(*texts: str) -> bytes:
    chunks = (json.dumps({"choices": [{"delta": {"content": text}}]}) for text in texts)
    body = "".join(f"data: {chunk}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(body) + body.encode()
    )


@pytest.mark.parametrize("size", [1, 2, 5, len(KEY)])
def test_a_key_in_pieces_of_a_stream_never_leaves(size: int) -> None:
    texts: list[str] = []
    pieces = [KEY[at : at + size] for at in range(0, len(KEY), size)]
    heard = call([events("the key is ", *pieces, " indeed")], texts=texts)
    assert (heard.label, heard.text) == (None, None)
    assert heard.error is not None
    assert "".join(texts) == "the key is "


def test_what_only_begins_like_the_key_is_passed_on_whole() -> None:
    texts: list[str] = []
    said = ["it is ", KEY[:5], KEY[:9], "x", KEY[:4]]
    heard = call([events(*said)], texts=texts)
    assert (heard.error, heard.text) == (None, "".join(said))
    assert "".join(texts) == "".join(said)


def escaped(key: str) -> str:
    return '"' + "".join(f"\\u{ord(letter):04x}" for letter in key) + '"'


@pytest.mark.parametrize("written", [json.dumps(KEY), escaped(KEY)], ids=["plain", "escaped"])
def test_a_key_that_is_escaped_is_no_answer(written: str) -> None:
    heard = call([reply(b'{"label": %s, "confidence": 0.9}' % written.encode())])
    chat = json.dumps({"choices": [{"message": {"content": f'{{"label": {written}}}'}}]}).encode()
    from_text = call([reply(chat)], texts=[], answer={"kind": "json"})
    for one in (heard, from_text):
        assert (one.label, one.error is None) == (None, False)
        assert KEY not in repr(one)


@pytest.mark.parametrize("written", [json.dumps(KEY), escaped(KEY)], ids=["plain", "escaped"])
@pytest.mark.parametrize("status", [b"400 Bad Request", b"401 Unauthorized", b"500 Internal Server Error"])
def test_a_key_in_an_error_never_leaves(written: str, status: bytes) -> None:
    """Providers quote keys in their errors; the error's message is passed on to callers."""
    body = b'{"error": {"message": %s, "code": "invalid_api_key"}}' % written.encode()
    heard = call([reply(body, HEAD.replace(b"200 OK", status))], texts=[], timeout_s=5.0)
    assert heard.error is not None
    assert KEY not in repr(heard)


@pytest.mark.parametrize("header", ["Content-Length", "transfer-encoding", "CONNECTION", "Host", "TE", "Content-Type"])
def test_a_header_that_frames_a_request_carries_no_key(header: str) -> None:
    endpoint = {"protocol": "json", "url": "http://127.0.0.1/", "label": "/label", "secret_header": header}
    with pytest.raises(ValidationError) as refused:
        ENDPOINT.validate_python(endpoint)
    assert [fault["loc"][-1] for fault in refused.value.errors()] == ["secret_header"]
