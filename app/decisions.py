"""Decisions: ask a plan, encode its answer; and the hot path for the look-ups that callers make all day.

``HotPath`` is the innermost layer before FastAPI. It takes GET requests whose path is that of a declared look-up,
validates with the same pydantic query as the route, and hands anything unusual (an escape, a version, a bad value, an
unknown name, an infeasible query) to the route behind it, so that every refusal is the route's.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from prometheus_client import Counter
from pydantic import ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from app.catalog import Catalog, Live
from app.telemetry import Metrics
from models import ArtifactRef, Value
from models.errors import Infeasible, ParsimonyError

JSON_HEADER = (b"content-type", b"application/json")


@dataclass(frozen=True, slots=True)
class LookUp:
    """A GET route that answers from memory: ``{prefix}{name}{suffix}?query``."""

    solver: str
    prefix: str
    suffix: str
    query: type[Value]

    @property
    def path(self) -> str:
        """The route's template."""
        return f"{self.prefix}{{name}}{self.suffix}"


def encode(decision: Value, live: Live, **more: Any) -> bytes:
    """Write a decision as JSON, with more fields, and the artifact it came from."""
    return orjson.dumps({**vars(decision), **more, "artifact": vars(live.ref)}, default=vars)


@contextmanager
def counted(live: Live, metrics: Metrics) -> Iterator[None]:
    """Count a decision by its outcome."""
    try:
        yield
    except ParsimonyError as error:
        outcome = "infeasible" if isinstance(error, Infeasible) else "refused"
        metrics.decisions.labels(live.ref.solver, live.ref.name, outcome).inc()
        raise
    metrics.decisions.labels(live.ref.solver, live.ref.name, "answered").inc()


def decide(live: Live, query: Value, metrics: Metrics) -> bytes:
    """Ask a plan and encode its answer; raises what the plan raises."""
    with counted(live, metrics):
        return encode(live.plan.decide(query), live)


class HotPath:
    """Answers plain look-ups itself and passes everything else on."""

    def __init__(self, app: ASGIApp, look_ups: tuple[LookUp, ...], metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics
        self.look_ups = {(look_up.prefix, look_up.suffix): look_up for look_up in look_ups}
        self._counters: dict[tuple[str, str], Counter] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "GET":
            body = self._answer(scope)
            if body is not None:
                length = (b"content-length", b"%d" % len(body))
                await send({"type": "http.response.start", "status": 200, "headers": [JSON_HEADER, length]})
                await send({"type": "http.response.body", "body": body})
                return
        await self.app(scope, receive, send)

    def _answered(self, ref: ArtifactRef) -> Counter:
        """Give the counter of an artifact's answers, which takes long to look up."""
        key = ref.solver, ref.name
        found = self._counters.get(key)
        if found is None:
            found = self._counters[key] = self.metrics.decisions.labels(*key, "answered")
        return found

    def _answer(self, scope: Scope) -> bytes | None:
        """Give the reply's body, or None if the route is to answer."""
        path: str = scope["path"]
        start, end = path.find("/", 4) + 1, path.rfind("/")
        look_up = self.look_ups.get((path[:start], path[end:])) if start <= end else None
        if look_up is None:
            return None
        catalog: Catalog = scope["state"]["context"].catalog
        live = catalog.plans.get((look_up.solver, path[start:end]))
        if live is None:
            return None
        values = plain_values(scope["query_string"])
        if values is None:
            return None
        try:
            body = encode(live.plan.decide(look_up.query.model_validate_strings(values)), live)
        except (ValidationError, ParsimonyError):
            return None
        self._answered(live.ref).inc()
        scope["state"]["route"] = look_up.path
        return body


def plain_values(query_string: bytes) -> dict[str, Any] | None:
    """Read a query string that holds each name once and no escapes; None for any other."""
    if not query_string:
        return {}
    if b"%" in query_string or b"+" in query_string:
        return None
    pairs = [pair.partition("=") for pair in query_string.decode("latin-1").split("&")]
    values = {name: value for name, _, value in pairs}
    return values if len(values) == len(pairs) and "version" not in values else None
