"""How much a caller may send, and how long it may take: pure ASGI, so that the hot path passes it."""

import asyncio
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.fast_router import FastRoutes
from app.http.problems import reply_to
from models.errors import ParsimonyError, PayloadTooLarge, RequestTimeout, UnsupportedMediaType

PATIENCE_S = 15.0
SMALL = re.compile(r"/v1/(cascades/solve|builds|artifacts/[^/]+/[^/]+/active|endpoints/.+)|/v2/.+")
SMALL_BYTES = 2**20
"""What else is read where everybody waits, and how long it may be."""
LEAST_RATE = 16 * 1024
"""Bytes in a second that a body has to bring on average, once the patience is over."""


class BodyLimit:
    """Refuses a body over the limit, by its declared length or once too much of it was read, and one that stops coming.

    max_bytes: the limit. patience_s: how long a body may take, besides a second for each ``LEAST_RATE`` bytes of it.
    routes: what has a smaller limit of its own, because it is read where everybody else waits.
    """

    def __init__(
        self, app: ASGIApp, max_bytes: int, patience_s: float = PATIENCE_S, routes: FastRoutes | None = None
    ) -> None:
        self.app, self.max_bytes, self.patience_s = app, max_bytes, patience_s
        self.routes = routes or FastRoutes()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        coding = next((v for n, v in scope["headers"] if n == b"content-encoding"), b"identity")
        if coding.strip().lower() not in (b"identity", b""):
            error = UnsupportedMediaType("the body has a Content-Encoding; send it plain, or a table as a gzipped file")
            await reply_to(error, scope["path"], scope["state"]["request_id"])(scope, receive, send)
            return
        declared = next((int(v) for n, v in scope["headers"] if n == b"content-length" and v.isdigit()), 0)
        body = _Body(receive, *self._limit(scope), self.patience_s)
        if declared > body.most:
            await _refuse(body.too_large(f"the body has {declared} bytes"), scope, receive, send)
            return
        await self._pass_while_fine(body, scope, receive, send)

    def _limit(self, scope: Scope) -> tuple[int, str]:
        """Give the most bytes that a request's body may have, and whose limit that is."""
        route = self.routes.find_route(scope["method"], scope["path"])
        own = route[0].most_bytes if route else SMALL_BYTES if SMALL.fullmatch(scope["path"]) else self.max_bytes
        if own >= self.max_bytes:
            return self.max_bytes, "PARSIMONY_MAX_BODY_BYTES"
        return own, "that of this route"

    async def _pass_while_fine(self, body: "_Body", scope: Scope, receive: Receive, send: Send) -> None:
        """Watch what is read; once something is wrong, whatever the application replies becomes the refusal."""
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
    """One body as it comes; most: its bytes at most, by the limit ``whose``."""

    def __init__(self, receive: Receive, most: int, whose: str, patience_s: float) -> None:
        self._receive, self.most, self._whose, self._patience_s = receive, most, whose, patience_s
        self.refusal: ParsimonyError | None = None
        self._begun = asyncio.get_running_loop().time()
        self._read = 0
        self._ended = False

    async def receive(self) -> Message:
        """Give the next of it; raises PayloadTooLarge or RequestTimeout."""
        if self._ended:  # whoever asks now waits for the caller to leave
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._begun + self._patience_s + self._read / LEAST_RATE):
                message = await self._receive()
        except TimeoutError:
            seconds = asyncio.get_running_loop().time() - self._begun
            self.refusal = RequestTimeout(f"{self._read} bytes of the body came in {seconds:.1f} s, and not its end")
            raise self.refusal from None
        self._ended = not message.get("more_body", False)
        self._read += len(message.get("body", b""))
        if self._read > self.most:
            self.refusal = self.too_large("the body continues")
            raise self.refusal
        return message

    def too_large(self, what: str) -> PayloadTooLarge:
        """Refuse it, given what it has too much of."""
        return PayloadTooLarge(f"{what}, the limit is {self.most} bytes ({self._whose})")


async def _refuse(error: ParsimonyError, scope: Scope, receive: Receive, send: Send) -> None:
    response = reply_to(error, scope["path"], scope["state"]["request_id"])
    response.headers["connection"] = "close"
    await response(scope, receive, send)
