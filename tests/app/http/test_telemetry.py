"""Logs, request ids and metrics, by plain ASGI calls."""

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import MutableMapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from app.http.telemetry import Telemetry, get_route_template
from app.observability.logs import JsonFormatter
from app.observability.metrics import Metrics

Message = MutableMapping[str, Any]


def request(path: str = "/v1/datasets", method: str = "GET", **headers: bytes) -> Scope:
    listed = [(name.replace("_", "-").encode(), value) for name, value in headers.items()]
    return {"type": "http", "method": method, "path": path, "headers": listed, "query_string": b"", "state": {}}


def call(app: ASGIApp, scope: Scope, body: bytes = b"") -> list[Message]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    async def run() -> None:
        await app(scope, receive, send)

    asyncio.run(run())
    return sent


async def fine(scope: Scope, receive: Receive, send: Send) -> None:
    scope["state"]["route"] = "/v1/datasets"
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def broken(scope: Scope, receive: Receive, send: Send) -> None:
    raise ZeroDivisionError("secret detail")


async def half(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    raise ZeroDivisionError("too late")


def id_of(sent: list[Message]) -> str:
    ids = [value for name, value in sent[0]["headers"] if name == b"x-request-id"]
    assert len(ids) == 1
    return str(ids[0].decode())


@pytest.mark.parametrize("value", [b"a", b"!~", b"x" * 128, b"550e8400-e29b-41d4-a716-446655440000"])
def test_the_callers_request_id_is_kept(value: bytes) -> None:
    assert id_of(call(Telemetry(fine, Metrics()), request(x_request_id=value))) == value.decode()


def test_an_id_that_is_long_or_not_visible_ascii_is_replaced_by_one_of_its_own() -> None:
    app, bad = Telemetry(fine, Metrics()), (b"", b"x" * 129, b"a b", b"a\n", b"a\x7f", "é".encode(), b"\x00")
    made = [id_of(call(app, request(x_request_id=value))) for value in bad] + [id_of(call(app, request()))]
    assert {len(each) for each in made} == {32}
    assert len(set(made)) == len(bad) + 1


def test_a_bug_is_logged_with_its_id_and_told_without_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    sent = call(Telemetry(broken, Metrics()), request(x_request_id=b"mine"))
    assert sent[0]["status"] == 500
    body = json.loads(sent[1]["body"])
    assert body["type"] == "urn:parsimony:internal"
    assert body["instance"].endswith(":mine")
    assert "secret" not in json.dumps(body)
    assert "request failed request=mine" in caplog.text
    assert "ZeroDivisionError: secret detail" in caplog.text
    sent = call(Telemetry(half, Metrics()), request())  # in the middle of a reply: no second start
    assert [message["type"] for message in sent] == ["http.response.start"]


def test_requests_are_counted_by_method_route_and_status() -> None:
    metrics = Metrics()
    for app in (fine, fine, broken):
        call(Telemetry(app, metrics), request(f"/v1/{app.__name__}"))
    text = metrics.render_text().decode()
    assert 'parsimony_requests_total{method="GET",route="/v1/datasets",status="204"} 2.0' in text
    assert 'parsimony_requests_total{method="GET",route="unmatched",status="500"} 1.0' in text
    assert 'parsimony_request_seconds_count{route="/v1/datasets"} 2.0' in text
    assert "_created" not in text
    assert "parsimony_requests_total{" not in Metrics().render_text().decode(), "applications count apart"
    route = SimpleNamespace(path="/v1/datasets/{name}")  # a name in a path makes no new series
    assert get_route_template({"state": {}, "route": route}) == "/v1/datasets/{name}"
    assert get_route_template({"state": {"route": "/hot"}, "route": route}) == "/hot"
    assert get_route_template({"state": {}}) == "unmatched"
    seen: list[Scope] = []

    async def lifespan(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    assert call(Telemetry(lifespan, metrics), {"type": "lifespan"}) == []  # what is no HTTP passes untouched
    assert seen == [{"type": "lifespan"}]


def record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    entry = logging.LogRecord("parsimony.x", logging.INFO, __file__, 1, message, args, None)
    entry.__dict__.update(extra)
    return entry


def test_a_record_is_one_json_object_on_one_line() -> None:
    line = JsonFormatter().format(record("two\nlines %s", "ü"))
    assert "\n" not in line
    entry = json.loads(line)
    assert entry.pop("time")[10] == "T"
    assert entry == {"level": "info", "logger": "parsimony.x", "message": "two\nlines ü"}
    failed = record("failed")
    try:
        raise ValueError("over\ntwo lines")
    except ValueError:
        failed.exc_info = sys.exc_info()
    line = JsonFormatter().format(failed)
    assert "\n" not in line
    trace = json.loads(line)["trace"]
    assert trace.startswith("Traceback (most recent call last):")
    assert trace.endswith("ValueError: over\ntwo lines")


def test_of_several_processes_the_one_that_is_behind_is_told_while_it_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process hangs beside another that is well; once it has ended nobody hears of it."""
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    code = """
import sys, time
from app.observability.metrics import Metrics
metrics, behind = Metrics(), sys.argv[1] == "behind"
metrics.store_up.set(not behind)
metrics.artifacts_loaded.set(1 if behind else 3)
metrics.refreshed_at.set(time.monotonic() - 100 * behind)
print(metrics.render_text().decode() if not behind else "", flush=True)
sys.stdin.read()
"""

    def begin(which: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", code, which]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def gauges_of(process: "subprocess.Popen[str]") -> dict[str, float]:
        lines = [line.split() for line in process.communicate()[0].splitlines() if line.startswith("parsimony_")]
        return {name: float(value) for name, value in lines}

    behind = begin("behind")
    assert behind.stdout is not None
    behind.stdout.readline()
    gauges = gauges_of(begin("well"))
    assert (gauges["parsimony_store_up"], gauges["parsimony_artifacts_loaded"]) == (0, 1)
    assert 100 < gauges["parsimony_catalog_refresh_age_seconds"] < 160
    behind.communicate()
    gauges = gauges_of(begin("well"))
    assert (gauges["parsimony_store_up"], gauges["parsimony_artifacts_loaded"]) == (1, 3)
    assert gauges["parsimony_catalog_refresh_age_seconds"] < 60
