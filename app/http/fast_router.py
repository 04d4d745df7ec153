"""Fast router: answers decisions and simple runs before FastAPI's slower routing.

It is the innermost middleware, directly before FastAPI. It matches declared paths and validates requests with the
Pydantic model of the regular route. Unusual requests are passed to the regular route, which then also reports all
errors. Examples are an escape, a version, an invalid value, an unknown name, an infeasible query, or an open circuit
breaker.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from prometheus_client import Counter, Histogram
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.conditional_requests import make_decision_etag, matches_etag
from app.http.json_bodies import decode_json, replay_body
from app.http.problem_details import make_error_response
from app.observability.metrics import Metrics
from app.serving.catalog import Catalog, LoadedArtifact
from app.serving.decision_replies import FastDecisionRoute, list_unavailable_names
from app.serving.rollouts import RolloutSplitter, get_item_id
from models import ArtifactRef, InvalidRequest
from models.errors import ParsimonyError
from solvers.base import Plan

JSON_HEADER = (b"content-type", b"application/json")
LARGE_BODY_BYTES = 2**14
"""A body that takes about a third of a millisecond to read."""


@dataclass(frozen=True, slots=True)
class FastPostRoute:
    """A POST route that calls endpoints.

    Its path is ``{prefix}{name}{suffix}``, or ``prefix`` alone without a suffix.

    Attributes:
        body: model of the request body.
        handler: returns the reply to a request, a body, and a name; or None, before any endpoint is called, to pass the
            request to the regular route.
        body_limit_bytes: maximum size of the body, which is parsed on the event loop.
        limit_name: name of the setting with the maximum size, for messages.
    """

    prefix: str
    body: type[BaseModel]
    handler: Callable[[Request, Any, str], Awaitable[Response | None]]
    suffix: str = ""
    body_limit_bytes: int = 2**20
    limit_name: str = "that of this route"

    @property
    def path(self) -> str:
        """The route's path template."""
        return f"{self.prefix}{{name}}{self.suffix}" if self.suffix else self.prefix


FastRoute = FastDecisionRoute | FastPostRoute


class FastRoutes:
    """Declared fast routes by method and path."""

    def __init__(self, fast_routes: Iterable[FastDecisionRoute] = (), posts: Iterable[FastPostRoute] = ()) -> None:
        self._declared: dict[tuple[str, str, str], FastRoute] = {
            (look_up.method, look_up.prefix, look_up.suffix): look_up for look_up in fast_routes
        }
        self._declared |= {("POST", post.prefix, post.suffix): post for post in posts}

    def find_route(self, method: str, path: str) -> tuple[FastRoute, str] | None:
        """Return the route and artifact name of a path; None if it is not declared."""
        start, end = path.find("/", 4) + 1, path.rfind("/")
        if start <= end and (route := self._declared.get((method, path[:start], path[end:]))) is not None:
            return route, path[start:end]
        route = self._declared.get((method, path, ""))
        return None if route is None else (route, "")


class FastRouter:
    """Middleware that answers declared routes, and passes other requests on."""

    def __init__(self, app: ASGIApp, routes: FastRoutes, metrics: Metrics) -> None:
        self.app, self.routes, self.metrics = app, routes, metrics
        self._series: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        self._forgotten = metrics.forgotten
        self._reading = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        hit = self.routes.find_route(scope["method"], scope["path"]) if scope["type"] == "http" else None
        if hit is None or (scope["method"] == "POST" and not _is_plain_json(scope)):
            await self.app(scope, receive, send)
        elif isinstance(hit[0], FastPostRoute):
            await self._post(hit[0], hit[1], scope, receive, send)
        else:
            await self._look_up(hit[0], hit[1], scope, receive, send)

    async def _look_up(self, look_up: FastDecisionRoute, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer from memory, or pass the request to the regular route."""
        loaded = _find_available(look_up, name, scope)
        body = None
        if loaded is not None:
            sent = None
            if look_up.method == "POST":
                sent = await _body(receive)
                receive = replay_body(sent, receive)
            body = self._answer(scope, look_up, loaded, sent)
        if body is None:
            await self.app(scope, receive, send)
            return
        status, headers = 200, [JSON_HEADER, (b"content-length", b"%d" % len(body))]
        if look_up.method == "GET":
            etag = make_decision_etag(body)
            headers.append((b"etag", etag))
            if matches_etag(etag, scope["headers"]):
                status, headers, body = 304, headers[2:], b""
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _answer(
        self, scope: Scope, look_up: FastDecisionRoute, loaded: LoadedArtifact[Plan], sent: bytes | None
    ) -> bytes | None:
        """Return the reply's body; None if the regular route must answer."""
        started = perf_counter()
        try:
            if sent is not None:
                query = look_up.query_type.model_validate(decode_json(sent))
            elif (values := parse_simple_query(scope["query_string"])) is not None:
                query = look_up.query_type.model_validate(values, strict=False)
            else:
                return None
            traffic: RolloutSplitter = scope["state"]["context"].rollouts
            loaded = traffic.choose(loaded, get_item_id(query))
            body = look_up.handler(loaded, query)
        except (RequestValidationError, ValidationError, ParsimonyError):
            return None
        if body is not None:
            traffic.compare_versions(loaded, query)
            answered, seconds = self._series_of(loaded.ref)
            answered.inc()
            seconds.observe(perf_counter() - started)
            scope["state"]["route"] = look_up.path
            scope["state"]["artifact"] = loaded.ref
        return body

    def _series_of(self, ref: ArtifactRef) -> tuple[Counter, Histogram]:
        """Return the counter of an artifact's answers, and the histogram of its kind's times.

        They are cached, because looking them up is slow.
        """
        if self._forgotten != self.metrics.forgotten:
            self._series, self._forgotten = {}, self.metrics.forgotten
        key = ref.kind, ref.name
        series = self._series.get(key)
        if series is None:
            answered = self.metrics.decisions.labels(*key, "answered")
            series = self._series[key] = answered, self.metrics.decision_seconds.labels(ref.kind)
        return series

    async def _post(self, post: FastPostRoute, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a plain body, or pass the request to the regular route."""
        request = Request(scope, receive, send)
        try:
            body = await request.body()
            read = await self._read(body, post.body)
            reply = None if read is None else await _reply(post, request, read, name)
        except ClientDisconnect:
            await self.app(scope, _gone, send)  # which has a reply for a caller that left
            return
        if reply is None:
            await self.app(scope, replay_body(body, receive), send)
            return
        scope["state"]["route"] = post.path
        await reply(scope, receive, send)

    async def _read(self, body: bytes, kind: type[BaseModel]) -> BaseModel | None:
        """Parse a plain body; return None for any other body.

        Long bodies are parsed one at a time, with look-ups in between.
        """
        if len(body) < LARGE_BODY_BYTES:
            return _validated(body, kind)
        async with self._reading:
            await asyncio.sleep(0)
            return _validated(body, kind)


def _find_available(look_up: FastDecisionRoute, name: str, scope: Scope) -> LoadedArtifact[Plan] | None:
    """Return the artifact in memory.

    Return None if there is none, or if something that it calls has an open circuit breaker.
    """
    catalog: Catalog = scope["state"]["context"].catalog
    loaded = catalog.plans.get((look_up.kind, name))
    if loaded is None or list_unavailable_names(loaded, scope["state"]["context"].caller.open_circuits()):
        return None
    return loaded


async def _reply(post: FastPostRoute, request: Request, read: BaseModel, name: str) -> Response | None:
    """Return the reply to a plain body, or the reply for its error."""
    try:
        return await post.handler(request, read, name)
    except ParsimonyError as error:
        return make_error_response(error, request.scope["path"], request.scope["state"]["request_id"])


def _validated(body: bytes, kind: type[BaseModel]) -> BaseModel | None:
    try:
        return kind.model_validate(decode_json(body))
    except (RequestValidationError, ValidationError, InvalidRequest):
        return None


def _is_plain_json(scope: Scope) -> bool:
    """Return whether a body is declared as JSON, and the query string is empty."""
    kind = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    return kind == b"application/json" and not scope["query_string"]


async def _body(receive: Receive) -> bytes:
    """Read a body to its end; that of a disconnected client is not valid JSON."""
    message = await receive()
    parts: list[bytes] = [message.get("body", b"")]
    while message.get("more_body", False):
        message = await receive()
        parts.append(message.get("body", b""))
    return b"".join(parts)


async def _gone() -> Message:
    return {"type": "http.disconnect"}


def parse_simple_query(query_string: bytes) -> dict[str, Any] | None:
    """Parse a query string; None if it has escapes or duplicate names."""
    if not query_string:
        return {}
    if b"%" in query_string or b"+" in query_string:
        return None
    pairs = [pair.partition("=") for pair in query_string.decode("latin-1").split("&")]
    values = {name: value for name, _, value in pairs}
    return values if len(values) == len(pairs) and "version" not in values else None
