"""Limits on the size and duration of request bodies; ASGI middleware."""

import asyncio
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.fast_router import FastPostRoute, FastRoutes
from app.http.problem_details import make_error_response
from models.errors import ParsimonyError, PayloadTooLarge, RequestTimeout, UnsupportedMediaType

BODY_TIMEOUT_S = 15.0
SMALL_BODY_PATHS = re.compile(r"/v1/(cascades/solve|builds|artifacts/[^/]+/[^/]+/active|endpoints/.+)|/v2/.+")
MAX_SMALL_BODY_BYTES = 2**20
"""What else is read where everybody waits, and how long it may be."""
MIN_BODY_BYTES_PER_S = 16 * 1024
"""Bytes in a second that a body has to bring on average, once the patience is over."""


class BodyLimit:
    """Middleware that rejects bodies that are too large or too slow.

    The size is checked in the Content-Length header, and while the body is read.

    Args:
        max_bytes: maximum size.
        patience_s: maximum duration in seconds, plus one second per ``MIN_BODY_BYTES_PER_S`` bytes.
        routes: smaller limits, for routes whose body is parsed on the event loop.
    """

    def __init__(
        self, app: ASGIApp, max_bytes: int, patience_s: float = BODY_TIMEOUT_S, routes: FastRoutes | None = None
    ) -> None:
        self.app, self.max_bytes, self.patience_s = app, max_bytes, patience_s
        self.routes = routes or FastRoutes()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        coding = next((v for n, v in scope["headers"] if n == b"content-encoding"), b"identity")
        if coding.strip().lower() not in (b"identity", b""):
            error = UnsupportedMediaType("Content-Encoding is not supported; send plain bodies, or gzipped files")
            await make_error_response(error, scope["path"], scope["state"]["request_id"])(scope, receive, send)
            return
        declared = next((int(v) for n, v in scope["headers"] if n == b"content-length" and v.isdigit()), 0)
        body = _Body(receive, *self._limit(scope), self.patience_s)
        if declared > body.most:
            await _refuse(body.too_large(f"{declared}"), scope, receive, send)
            return
        await self._pass_while_fine(body, scope, receive, send)

    def _limit(self, scope: Scope) -> tuple[int, str]:
        """Return the maximum size of a request's body, and the name of the limit."""
        route = self.routes.find_route(scope["method"], scope["path"])
        own = (
            route[0].body_limit_bytes
            if route
            else MAX_SMALL_BODY_BYTES
            if SMALL_BODY_PATHS.fullmatch(scope["path"])
            else self.max_bytes
        )
        if own >= self.max_bytes:
            return self.max_bytes, "PARSIMONY_MAX_BODY_BYTES"
        return own, route[0].limit_name if route and isinstance(route[0], FastPostRoute) else "that of this route"

    async def _pass_while_fine(self, body: "_Body", scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application while the body is within the limits.

        Once a limit is exceeded, the application's reply is replaced by the error.
        """
        started = refused = False

        async def watching(message: Message) -> None:
            nonlocal started, refused
            if body.refusal is None or started:
                started = True
                await send(message)
            elif not refused:
                refused = True
                await _refuse(body.refusal, scope, receive, send)

        try:
            await self.app(scope, body.receive, watching)
        except ParsimonyError as error:  # raised before FastAPI, which would have made a reply of it
            if error is not body.refusal or started:
                raise
            await _refuse(error, scope, receive, send)


class _Body:
    """A request body while it is received.

    ``most`` is its maximum number of bytes, by the limit ``whose``.
    """

    def __init__(self, receive: Receive, most: int, whose: str, patience_s: float) -> None:
        self._receive, self.most, self._whose, self._patience_s = receive, most, whose, patience_s
        self.refusal: ParsimonyError | None = None
        self._begun = asyncio.get_running_loop().time()
        self._read = 0
        self._ended = False

    async def receive(self) -> Message:
        """Receive the next part of the body; raises PayloadTooLarge or RequestTimeout."""
        if self._ended:  # a later receive() waits for the disconnect
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._begun + self._patience_s + self._read / MIN_BODY_BYTES_PER_S):
                message = await self._receive()
        except TimeoutError:
            seconds = asyncio.get_running_loop().time() - self._begun
            self.refusal = RequestTimeout(f"body not complete after {seconds:.1f} s; received {self._read} bytes")
            raise self.refusal from None
        self._ended = not message.get("more_body", False)
        self._read += len(message.get("body", b""))
        if self._read > self.most:
            self.refusal = self.too_large("more")
            raise self.refusal
        return message

    def too_large(self, what: str) -> PayloadTooLarge:
        """Return the error for a body that is too large.

        Args:
            what: the received size, for the message.
        """
        return PayloadTooLarge(f"the body must have at most {self.most} bytes ({self._whose}), got {what}")


async def _refuse(error: ParsimonyError, scope: Scope, receive: Receive, send: Send) -> None:
    response = make_error_response(error, scope["path"], scope["state"]["request_id"])
    response.headers["connection"] = "close"
    await response(scope, receive, send)
