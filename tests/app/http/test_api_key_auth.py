"""Who may do what, and how much may be sent, by plain ASGI calls."""

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from app.http.api_key_auth import ApiKeyAuth
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


def guarded(monkeypatch: pytest.MonkeyPatch, keys: str = KEYS) -> ApiKeyAuth:
    monkeypatch.setenv("PARSIMONY_API_KEYS", keys)
    return ApiKeyAuth(accept, Settings().api_keys)


DECIDERS = """GET /v1/datasets | HEAD /v1/artifacts/cascade/x | GET /v1/builds/1/events | GET /v1/cascades/x/decision
    | POST /v1/cascades/solve | POST /v1/feedback | GET /v1/endpoints | POST /v1/cascades/x/runs | POST /v1/batches
    | GET /v1/batches/1/output | DELETE /v1/batches/1 | POST /v1/chat/completions | GET /v2
    | POST /v1/messages | POST /v1/messages/count_tokens
    | POST /v1/recordings/x/rows | POST /v1/recordings/x/truths | GET /v1/recordings/x
    | POST /v2/models/cascade.x/infer | GET /v1/feedback/cascade/x"""
BUILDERS = """PUT /v1/datasets/x | DELETE /v1/datasets/x | POST /v1/builds | DELETE /v1/builds/1
    | PUT /v1/artifacts/cascade/x/active | POST /v1/artifacts/import | DELETE /v1/artifacts/cascade/x/versions/1
    | PUT /v1/endpoints/x | POST /v1/endpoints/x/probe | DELETE /v1/endpoints/x | DELETE /v1/feedback/cascade/x
    | PUT /v1/recordings/rows | DELETE /v1/recordings/x | POST /v1/recordings/x/dataset
    | PUT /v1/budgets/x | DELETE /v1/budgets/x | GET /v1/budgets | GET /v1/budgets/x | GET /v1/spend"""
ANYBODY = "GET /health/live | GET /metrics | GET /docs | GET /openapi.json"
TABLE = [
    (request, statuses)
    for requests, statuses in ((DECIDERS, (401, 200, 200)), (BUILDERS, (401, 403, 200)), (ANYBODY, (200, 200, 200)))
    for request in requests.split("|")
]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"x-api-key": b"reader"}, 200),
        ({"x-api-key": b"nobody"}, 401),
        ({"x-api-key": b""}, 401),
        ({"x-api-key": b"reader", "authorization": b"Bearer nobody"}, 401),
        ({"x-api-key": b"reader", "authorization": b"Basic eA=="}, 401),
    ],
)
def test_a_key_may_be_sent_as_anthropics_clients_do(
    headers: dict[str, bytes], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = scope_of("POST", "/v1/messages", **headers)
    assert answer(guarded(monkeypatch), scope)[0] == status


@pytest.mark.parametrize(("request_line", "statuses"), TABLE)
def test_each_role_may_do_what_the_table_says(
    request_line: str, statuses: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    (method, path), app = request_line.split(), guarded(monkeypatch)
    senders: tuple[dict[str, bytes], ...] = ({}, {"authorization": READER}, {"authorization": BUILDER})
    answered = [answer(app, scope_of(method, path, **headers)) for headers in senders]
    assert tuple(status for status, _ in answered) == statuses
    assert not any(b"reader" in body for _, body in answered)
    assert answer(guarded(monkeypatch, ""), scope_of(method, path))[0] == 200, (
        "without keys everybody may do everything"
    )


@pytest.mark.parametrize(
    ("header", "status"),
    [
        *((header, 401) for header in (b"", b"reader", b"Bearer", b"Bearer ", b"Bearer other", b"Basic reader")),
        *((header, 401) for header in (b"Bearer reader:decide", b"Bearer READER", b"Bearer \xff")),
        *((header, 200) for header in (b"bearer reader", b"BEARER reader", b"Bearer  reader")),
    ],
)
def test_a_known_key_is_taken_in_any_case_of_the_scheme_and_nothing_else(
    header: bytes, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, body = answer(guarded(monkeypatch), scope_of("GET", "/v1/datasets", authorization=header))
    assert answered == status
    assert status == 200 or json.loads(body)["type"] == "urn:parsimony:unauthorized"


def test_a_declared_length_over_the_limit_is_refused_before_anything_is_read() -> None:
    read = False

    async def never(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal read
        read = True

    status, body = answer(BodyLimit(never, 10), scope_of("PUT", "/v1/datasets/x", content_length=b"11"))
    assert (status, read) == (413, False)
    detail = json.loads(body)["detail"]
    assert all(word in detail for word in ("got 11", "10 bytes", "PARSIMONY_MAX_BODY_BYTES"))
    assert answer(BodyLimit(accept, 10), scope_of("POST", "/v1/builds"), b"12345", b"67890") == (200, b"10")
    assert answer(BodyLimit(accept, 10), scope_of("GET", "/v1/x", content_length=b"11"))[0] == 200


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
