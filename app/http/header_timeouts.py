"""The connection of one caller: uvicorn's own, with an end to all that a caller could leave open.

uvicorn waits without end for a head that never comes or never ends, and keeps all of it in memory; its limit on idle
connections begins with the first reply. The limits here are those of a connection. How long a body may take while
somebody reads it is for ``app/http/body_limits.py``.
"""

import logging
from asyncio import TimerHandle, Transport
from secrets import token_hex
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from app.http.problems import HTTP_CODES, problem
from app.http.whole_replies import WholeReplies

logger = logging.getLogger("parsimony.access")
NO_METHOD, ROUTE = "none", "connection"
"""What the metrics call the method and the route of what was no request."""


class _Dropped(list[tuple[bytes, bytes]]):
    """Takes what no one reads: the trailers of a body, which uvicorn would add to headers that were checked."""

    def append(self, header: tuple[bytes, bytes]) -> None:
        """Keep nothing."""


_TRAILERS = _Dropped()


class _HeadTooLarge(Exception):
    """Stops the parser."""


class HeaderTimeouts(HttpToolsProtocol):
    """Reads requests; closes when a head is too large or takes too long, or a reply is not read.

    The time for a head runs from the connection's beginning or, later, from the first byte after a reply; what of an
    answered request's body is still to come is held against it too.
    """

    HEAD_S = 10.0
    """The longest for a head to arrive, in seconds."""
    READ_S = 60.0
    """The longest for a caller to make room for more of a reply, in seconds."""
    MOST_HEAD = 64 * 1024
    """The most bytes of a head; of trailers too, and of whatever else brings no body."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._awaited: TimerHandle | None = None
        self._unread: TimerHandle | None = None
        self._held = 0
        self._is_much = self._moved = self._too_large = False

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Begin, with the time for the first head."""
        super().connection_made(WholeReplies(transport, self.loop))
        self._awaited = self.loop.call_later(self.HEAD_S, self._too_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """End, and with it every limit."""
        super().connection_lost(exc)
        for timer in (self._awaited, self._unread):
            if timer is not None:
                timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Read on; what neither completes a head nor brings any of a body is counted."""
        self._moved, self._is_much = False, self._held + len(data) > self.MOST_HEAD
        super().data_received(data)
        self._held = 0 if self._moved else self._held + len(data)
        if self.transport.is_closing():
            return
        if self._held > self.MOST_HEAD:
            self._too_large = True
            self.send_400_response("")
        elif self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()  # a request is being answered
        elif self._awaited is None:
            self._awaited = self.loop.call_later(self.HEAD_S, self._too_late)

    def on_headers_complete(self) -> None:
        """Take a request whose head is not too large."""
        self._moved = True
        if self._is_much and sum(len(n) + len(v) for n, v in self.headers) + len(self.url) > self.MOST_HEAD:
            self._too_large = True
            raise _HeadTooLarge
        super().on_headers_complete()
        self.headers = _TRAILERS

    def on_body(self, body: bytes) -> None:
        """Pass some of a body on."""
        self._moved = True
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be read, or is too large, unless a reply is under way; then close."""
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            status = 431 if self._too_large else 400
            detail = f"the head of the request has more than {self.MOST_HEAD} bytes" if self._too_large else _NO_HTTP
            self._refuse(status, detail)
        self.transport.close()

    def pause_writing(self) -> None:
        """Wait for the caller to read, but not for ever."""
        super().pause_writing()
        self._unread = self.loop.call_later(self.READ_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: the caller has read."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _stop_waiting(self) -> None:
        if self._awaited is not None:
            self._awaited.cancel()
            self._awaited = None

    def _too_late(self) -> None:
        """Close; whoever has begun a request is told why."""
        self._awaited = None
        if self._held and not self.transport.is_closing():
            self._refuse(408, f"the head of the request did not end within {self.HEAD_S:g} s")
        self.transport.close()

    def _refuse(self, status: int, detail: str) -> None:
        """Write a whole reply, log and count it; nothing behind the parser ever hears of its request."""
        request_id = token_hex(12)
        own = {"Connection": "close", "X-Request-ID": request_id}
        reply = problem(status, HTTP_CODES[status], detail, request_id, headers=own)
        logger.info("connection from %s %d %s: %s", self.client and self.client[0], status, request_id, detail)
        context = self.app_state.get("context")
        if context is not None:
            context.metrics.requests.labels(NO_METHOD, ROUTE, status).inc()
        headers = [*self.server_state.default_headers, *reply.raw_headers]
        head = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        self.transport.write(STATUS_LINE[status] + head + b"\r\n" + bytes(reply.body))


_NO_HTTP = "the request is no HTTP that can be read"
