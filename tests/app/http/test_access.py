"""Who may do what, and how much may be sent, by plain ASGI calls."""

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from app.http.access import Access
from app.http.body_limits import BodyLimit
from app.settings import Settings

Message = MutableMapping[str, Any]
KEYS = "reader:decide,builder:build"
READER, BUILDER = b"Bearer reader", b"Bearer builder"


def scope_of(method: str, path: str, **headers: bytes) -> Scope:
    listed = [(name.replace("_", "-").encode(), value) for name, value in headers.items()]
    return {"type": "http", "method": method, "path": path, "headers": listed, "state": {"request_id": "r"}}


async def accept(scope: Scope, receive: Receive, send: Send) -> None:
    read, more = 0, True
    while more:
        message = await receive()
        read, more = read + len(message.get("body", b"")), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(read).encode()})


def answer(app: Any, scope: Scope, *chunks: bytes) -> tuple[int, bytes]:
    waiting, sent = list(chunks or (b"",)), []

    async def receive() -> Message:
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    assert [message["type"] for message in sent].count("http.response.start") == 1
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


def guarded(monkeypatch: pytest.MonkeyPatch, keys: str = KEYS) -> Access:
    monkeypatch.setenv("PARSIMONY_API_KEYS", keys)
    return Access(accept, Settings().api_keys)


@pytest.mark.parametrize(
    ("method", "path", "statuses"),
    [
        ("GET", "/v1/datasets", (401, 200, 200)),
        ("HEAD", "/v1/artifacts/cascade/x", (401, 200, 200)),
        ("PUT", "/v1/datasets/x", (401, 403, 200)),
        ("DELETE", "/v1/datasets/x", (401, 403, 200)),
        ("GET", "/v1/builds/1/events", (401, 200, 200)),
        ("POST", "/v1/builds", (401, 403, 200)),
        ("DELETE", "/v1/builds/1", (401, 403, 200)),
        ("PUT", "/v1/artifacts/cascade/x/active", (401, 403, 200)),
        ("POST", "/v1/artifacts/import", (401, 403, 200)),
        ("DELETE", "/v1/artifacts/cascade/x/versions/1", (401, 403, 200)),
        ("GET", "/v1/cascades/x/decision", (401, 200, 200)),
        ("POST", "/v1/cascades/solve", (401, 200, 200)),
        ("POST", "/v1/feedback", (401, 200, 200)),
        ("GET", "/v1/endpoints", (401, 200, 200)),
        ("PUT", "/v1/endpoints/x", (401, 403, 200)),
        ("POST", "/v1/endpoints/x/probe", (401, 403, 200)),
        ("DELETE", "/v1/endpoints/x", (401, 403, 200)),
        ("POST", "/v1/cascades/x/runs", (401, 200, 200)),
        ("POST", "/v1/batches", (401, 200, 200)),
        ("GET", "/v1/batches/1/output", (401, 200, 200)),
        ("DELETE", "/v1/batches/1", (401, 200, 200)),
        ("POST", "/v1/chat/completions", (401, 200, 200)),
        ("GET", "/v2", (401, 200, 200)),
        ("POST", "/v2/models/cascade.x/infer", (401, 200, 200)),
        ("GET", "/v1/feedback/cascade/x", (401, 200, 200)),
        ("DELETE", "/v1/feedback/cascade/x", (401, 403, 200)),
        ("GET", "/health/live", (200, 200, 200)),
        ("GET", "/metrics", (200, 200, 200)),
        ("GET", "/docs", (200, 200, 200)),
        ("GET", "/openapi.json", (200, 200, 200)),
    ],
)
def test_each_role_may_do_what_the_table_says(
    method: str, path: str, statuses: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = guarded(monkeypatch)
    senders: tuple[dict[str, bytes], ...] = ({}, {"authorization": READER}, {"authorization": BUILDER})
    answered = [answer(app, scope_of(method, path, **headers))[0] for headers in senders]
    assert tuple(answered) == statuses


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"reader",
        b"Bearer",
        b"Bearer ",
        b"Bearer other",
        b"Basic reader",
        b"Bearer reader:decide",
        b"Bearer READER",
        b"Bearer \xff",
    ],
)
def test_anything_but_a_known_key_is_unauthorized(header: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    status, body = answer(guarded(monkeypatch), scope_of("GET", "/v1/datasets", authorization=header))
    assert status == 401
    assert json.loads(body)["type"] == "urn:parsimony:unauthorized"


@pytest.mark.parametrize("header", [b"bearer reader", b"BEARER reader", b"Bearer  reader"])
def test_the_scheme_may_be_written_in_any_case(header: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(guarded(monkeypatch), scope_of("GET", "/v1/datasets", authorization=header))[0] == 200


def test_a_refusal_names_the_roles_and_not_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    status, body = answer(guarded(monkeypatch), scope_of("POST", "/v1/builds", authorization=READER))
    assert status == 403
    assert json.loads(body)["detail"] == "this needs a key with the role build, the key sent has the role decide"
    assert b"reader" not in body


def test_without_keys_everybody_may_do_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(guarded(monkeypatch, ""), scope_of("POST", "/v1/builds"))[0] == 200


def test_a_body_up_to_the_limit_passes() -> None:
    assert answer(BodyLimit(accept, 10), scope_of("POST", "/v1/builds"), b"12345", b"67890") == (200, b"10")


def test_a_declared_length_over_the_limit_is_refused_before_anything_is_read() -> None:
    read = False

    async def never(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal read
        read = True

    status, body = answer(BodyLimit(never, 10), scope_of("PUT", "/v1/datasets/x", content_length=b"11"))
    assert (status, read) == (413, False)
    assert json.loads(body)["detail"] == "the body has 11 bytes, the limit is 10 bytes (PARSIMONY_MAX_BODY_BYTES)"


@pytest.mark.parametrize("headers", [{}, {"content_length": b"5"}, {"content_length": b"-1"}, {"content_length": b"x"}])
def test_a_body_that_goes_on_over_the_limit_is_refused_whatever_it_declared(headers: dict[str, bytes]) -> None:
    read = []

    async def reading(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            while True:
                read.append(len((await receive())["body"]))
        except Exception:
            await send({"type": "http.response.start", "status": 500, "headers": []})
            await send({"type": "http.response.body", "body": b"not this"})

    status, body = answer(BodyLimit(reading, 10), scope_of("PUT", "/v1/x", **headers), *[b"1234"] * 100)
    assert status == 413
    assert json.loads(body)["type"] == "urn:parsimony:payload-too-large"
    assert sum(read) <= 10


def test_a_get_is_not_counted() -> None:
    assert answer(BodyLimit(accept, 10), scope_of("GET", "/v1/x", content_length=b"11"))[0] == 200
