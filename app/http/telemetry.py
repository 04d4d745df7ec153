"""Metrics, access log, and request ids of all requests; ASGI middleware."""

import logging
import re
import time
from itertools import count
from secrets import token_hex

from prometheus_client import (
    Counter,
    Histogram,
)
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.access_log import AccessLog
from app.http.problem_details import internal_problem
from app.observability.metrics import Metrics

logger = logging.getLogger("parsimony.access")
_ID = re.compile(rb"[\x21-\x7e]{1,128}")


Series = tuple[Counter, Histogram]
"""The counter of a method, route and status, and the times of the route."""


class Telemetry:
    """Middleware that assigns request ids, and counts, times, and logs requests.

    It converts unhandled exceptions to replies of status 500 without a traceback.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, log: AccessLog | None = None) -> None:
        self.app, self.metrics, self.log = app, metrics, log
        self._series: dict[tuple[str, str, int], Series] = {}
        self._made = count()
        self._process = token_hex(8)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._live(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = _given_id(scope) or f"{self._process}{next(self._made):016x}"
        scope.setdefault("state", {})["request_id"] = request_id
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        except Exception:
            logger.exception("request failed request=%s", request_id)
            if not status:
                await internal_problem(scope["path"], request_id)(scope, receive, send_with_id)
        finally:
            self._account(scope, status, time.perf_counter() - started)

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward startup and shutdown; at shutdown, buffered data is written."""
        try:
            await self.app(scope, receive, send)
        finally:
            if self.log is not None:
                self.log.write_pending()

    def _account(self, scope: Scope, status: int, seconds: float) -> None:
        key = scope["method"], get_route_template(scope), status
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = (self.metrics.requests.labels(*key), self.metrics.seconds.labels(key[1]))
        series[0].inc()
        series[1].observe(seconds)
        if self.log is not None:
            self.log.log_request(scope, status, seconds)


def get_route_template(scope: Scope) -> str:
    """Return the route's path template for metrics; all unknown paths count as one."""
    label = scope["state"].get("route")
    if label is not None:
        return str(label)
    return str(getattr(scope.get("route"), "path", "unmatched"))


def _given_id(scope: Scope) -> str | None:
    """Return the request id sent by the caller: at most 128 visible ASCII characters."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _ID.fullmatch(value):
            return str(value.decode())
    return None
