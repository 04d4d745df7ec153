"""The hot path: the look-ups that callers make all day.

``HotPath`` is the innermost layer before FastAPI. It takes requests whose path is that of a declared look-up, validates
with the same pydantic query as the route, and hands anything unusual (an escape, a version, a bad value, an unknown
name, an infeasible query, an open circuit) to the route behind it, so that every refusal is the route's.
"""

from time import perf_counter
from typing import Any

import orjson
from prometheus_client import Counter, Histogram
from pydantic import ValidationError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.json_bodies import has_each_name_once, repeated_name
from app.observability.metrics import Metrics
from app.serving.answers import LookUp, out_of_order
from app.serving.catalog import Catalog, Live
from models import ArtifactRef
from models.errors import ParsimonyError

JSON_HEADER = (b"content-type", b"application/json")


class LookUps:
    """All declared look-ups, found by a request's method and path."""

    def __init__(self, declared: tuple[LookUp[Any], ...]) -> None:
        self._declared: dict[tuple[str, str, str], LookUp[Any]] = {
            (look_up.method, look_up.prefix, look_up.suffix): look_up for look_up in declared
        }

    def find(self, method: str, path: str) -> tuple[LookUp[Any], str] | None:
        """Give the look-up, and the name of the artifact that it asks; None if the path is that of none."""
        start, end = path.find("/", 4) + 1, path.rfind("/")
        look_up = self._declared.get((method, path[:start], path[end:])) if start <= end else None
        return None if look_up is None else (look_up, path[start:end])


class HotPath:
    """Answers plain look-ups itself and passes everything else on."""

    def __init__(self, app: ASGIApp, look_ups: LookUps, metrics: Metrics) -> None:
        self.app, self.look_ups, self.metrics = app, look_ups, metrics
        self._series: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        self._forgotten = metrics.forgotten

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hit = self._find(scope) if scope["type"] == "http" else None
        if hit is None:
            await self.app(scope, receive, send)
            return
        look_up, live = hit
        sent = None
        if look_up.method == "POST":
            sent = await _body(receive)
            receive = again(sent, receive)
        body = self._answer(scope, look_up, live, sent)
        if body is None:
            await self.app(scope, receive, send)
            return
        length = (b"content-length", b"%d" % len(body))
        await send({"type": "http.response.start", "status": 200, "headers": [JSON_HEADER, length]})
        await send({"type": "http.response.body", "body": body})

    def _find(self, scope: Scope) -> tuple[LookUp[Any], Live[Any]] | None:
        """Find the look-up that a request is for, and the plan in memory; None if the route is to answer."""
        hit = self.look_ups.find(scope["method"], scope["path"])
        if hit is None or (hit[0].method == "POST" and not is_plain_json(scope)):
            return None
        look_up, name = hit
        catalog: Catalog = scope["state"]["context"].catalog
        live = catalog.plans.get((look_up.kind.name, name))
        if live is None or out_of_order(live, scope["state"]["context"].caller.open_circuits()):
            return None
        return look_up, live

    def _answer(self, scope: Scope, look_up: LookUp[Any], live: Live[Any], sent: bytes | None) -> bytes | None:
        """Give the reply's body, or None if the route is to answer."""
        started = perf_counter()
        try:
            if sent is not None:
                content = orjson.loads(sent)
                query = look_up.query.model_validate(content)
                if not has_each_name_once(content, sent) and repeated_name(sent) is not None:
                    return None
            else:
                values = plain_values(scope["query_string"])
                if values is None:
                    return None
                query = look_up.query.model_validate_strings(values)
            body = look_up.answer(live, query)
        except (orjson.JSONDecodeError, ValidationError, ParsimonyError):
            return None
        if body is not None:
            answered, seconds = self._series_of(live.ref)
            answered.inc()
            seconds.observe(perf_counter() - started)
            scope["state"]["route"] = look_up.path
            scope["state"]["artifact"] = live.ref
        return body

    def _series_of(self, ref: ArtifactRef) -> tuple[Counter, Histogram]:
        """Give the counter of an artifact's answers and the times of its solver's, which take long to look up."""
        if self._forgotten != self.metrics.forgotten:
            self._series, self._forgotten = {}, self.metrics.forgotten
        key = ref.solver, ref.name
        series = self._series.get(key)
        if series is None:
            answered = self.metrics.decisions.labels(*key, "answered")
            series = self._series[key] = answered, self.metrics.decision_seconds.labels(ref.solver)
        return series


def is_plain_json(scope: Scope) -> bool:
    """Tell whether a body says that it is JSON, and nothing stands in the query string."""
    kind = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    return kind == b"application/json" and not scope["query_string"]


async def _body(receive: Receive) -> bytes:
    """Read a body to its end; what a caller sends no more of, because it left, is no JSON."""
    message = await receive()
    parts: list[bytes] = [message.get("body", b"")]
    while message.get("more_body", False):
        message = await receive()
        parts.append(message.get("body", b""))
    return b"".join(parts)


def again(body: bytes, receive: Receive) -> Receive:
    """Let a body that was read be read once more."""
    sent = False

    async def replayed() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


def plain_values(query_string: bytes) -> dict[str, Any] | None:
    """Read a query string that holds each name once and no escapes; None for any other."""
    if not query_string:
        return {}
    if b"%" in query_string or b"+" in query_string:
        return None
    pairs = [pair.partition("=") for pair in query_string.decode("latin-1").split("&")]
    values = {name: value for name, _, value in pairs}
    return values if len(values) == len(pairs) and "version" not in values else None
