"""Endpoint connections that limit the bytes and messages that they parse.

A malicious endpoint may send endless interim replies, header lines, trailers, or chunk sizes. Parsing them in Python
delays other threads. So a connection counts bytes before it parses them.
"""

import asyncio
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

MAX_OVERHEAD_BYTES = 2**16
"""Bytes of a reply that are not its body: heads, interim replies, chunk sizes, and trailers."""
MAX_OVERHEAD_SHARE = 0.25
"""Bytes of chunk sizes allowed in addition, for each byte of the body."""
MAX_INTERIM_REPLIES = 8
_HEAD_SLICE, _BODY_SLICE = 2**10, 2**13
"""Bytes that are parsed without a pause; another thread may run between two slices."""


class ReplyRefused(aiohttp.ClientPayloadError):
    """Raised for a reply with too many interim replies or too many bytes of headers."""


class BoundedConnection(ResponseHandler):
    """aiohttp client connection that ends when a reply exceeds the limits."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._received = self._heads = 0
        self._unparsed = b""

    @classmethod
    def install_in(cls, connector: aiohttp.TCPConnector) -> None:
        """Make a connector use this class; aiohttp has no public option for it."""
        loop = asyncio.get_running_loop()
        connector._factory = lambda: cls(loop)  # type: ignore[assignment]

    @property
    def should_close(self) -> bool:
        """Return whether the connection must not be reused."""
        return bool(self._unparsed) or super().should_close

    def set_response_params(self, **params: Any) -> None:
        """Reset the counters for the next reply."""
        self._received = self._heads = 0
        self._payload = None
        super().set_response_params(**params)

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Count the bytes of the head of an interim or final reply."""
        self._heads += 1
        super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes in slices until the reply exceeds the limits."""
        if not data:
            super().data_received(data)  # resumes the parser, which may hold the rest of a slice
        waiting, self._unparsed = self._unparsed + data, b""
        start = 0
        while start < len(waiting) and not self._reading_paused and self.transport is not None:
            has_body = self._payload is not None and self._payload.total_bytes
            piece = waiting[start : start + (_BODY_SLICE if has_body else _HEAD_SLICE)]
            start += len(piece)
            self._received += len(piece)
            if self._exceeds_limits():
                self._refuse_reply()
                return
            super().data_received(piece)
        self._unparsed = waiting[start:]

    def _exceeds_limits(self) -> bool:
        body = 0 if self._payload is None else self._payload.total_bytes
        is_too_long = self._received - body > MAX_OVERHEAD_BYTES + MAX_OVERHEAD_SHARE * body
        return is_too_long or self._heads > MAX_INTERIM_REPLIES + 1

    def _refuse_reply(self) -> None:
        error, payload, transport = ReplyRefused(), self._payload, self.transport
        self.set_exception(error)
        if payload is not None:
            payload.set_exception(error)
        if transport is not None:
            transport.abort()
