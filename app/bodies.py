"""How much a caller may send, and how long it may take: pure ASGI, so that the hot path passes it."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.problems import problem_of
from models.errors import ParsimonyError, PayloadTooLarge, RequestTimeout, UnsupportedMediaType

PATIENCE_S = 15.0
LEAST_RATE = 16 * 1024
"""Bytes in a second that a body has to bring on average, once the patience is over."""


class BodyLimit:
    """Refuses a body over the limit, by its declared length or once too much of it was read, and one that stops coming.

    max_bytes: the limit. patience_s: how long a body may take, besides a second for each ``LEAST_RATE`` bytes of it.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, patience_s: float = PATIENCE_S) -> None:
        self.app, self.max_bytes, self.patience_s = app, max_bytes, patience_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        coding = next((v for n, v in scope["headers"] if n == b"content-encoding"), b"identity")
        if coding.strip().lower() not in (b"identity", b""):
            error = UnsupportedMediaType("the body has a Content-Encoding; send it plain, or a table as a gzipped file")
            await problem_of(error, scope["state"]["request_id"])(scope, receive, send)
            return
        declared = next((int(v) for n, v in scope["headers"] if n == b"content-length" and v.isdigit()), 0)
        if declared > self.max_bytes:
            await _refuse(self._too_large(f"the body has {declared} bytes"), scope, receive, send)
            return
        await self._pass_while_fine(scope, receive, send)

    async def _pass_while_fine(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Watch what is read; once something is wrong, whatever the application replies becomes the refusal."""
        body = _Body(self, receive)
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

    def _too_large(self, what: str) -> PayloadTooLarge:
        return PayloadTooLarge(f"{what}, the limit is {self.max_bytes} bytes (PARSIMONY_MAX_BODY_BYTES)")


class _Body:
    """One body as it comes."""

    def __init__(self, limit: BodyLimit, receive: Receive) -> None:
        self.limit, self._receive = limit, receive
        self.refusal: ParsimonyError | None = None
        self._begun = asyncio.get_running_loop().time()
        self._read = 0
        self._ended = False

    async def receive(self) -> Message:
        """Give the next of it; raises PayloadTooLarge or RequestTimeout."""
        if self._ended:  # whoever asks now waits for the caller to leave
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._begun + self.limit.patience_s + self._read / LEAST_RATE):
                message = await self._receive()
        except TimeoutError:
            seconds = asyncio.get_running_loop().time() - self._begun
            self.refusal = RequestTimeout(f"{self._read} bytes of the body came in {seconds:.1f} s, and not its end")
            raise self.refusal from None
        self._ended = not message.get("more_body", False)
        self._read += len(message.get("body", b""))
        if self._read > self.limit.max_bytes:
            self.refusal = self.limit._too_large("the body goes on")
            raise self.refusal
        return message


async def _refuse(error: ParsimonyError, scope: Scope, receive: Receive, send: Send) -> None:
    response = problem_of(error, scope["state"]["request_id"])
    response.headers["connection"] = "close"
    await response(scope, receive, send)
