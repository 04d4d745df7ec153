"""Requests to the server: retries with jitter, and errors from replies."""

import asyncio
import os
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import httpx

from parsimony.errors import (
    InvalidRequest,
    ParsimonyError,
    TooManyRequests,
    Unavailable,
    error_from_reply,
    error_from_transport,
)

DEFAULT_URL = "http://127.0.0.1:8000"
NOT_MODIFIED = 304
_FIRST_WAIT_S, _LONGEST_WAIT_S, _LEAST_TIMEOUT_S = 0.1, 5.0, 0.001
_INVALID = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
_UNSENT = (httpx.TransportError, asyncio.TimeoutError, RuntimeError)
_FAILURES = (*_UNSENT, httpx.HTTPError, httpx.InvalidURL, ParsimonyError, ValueError, TypeError)
"""What a request may raise: RuntimeError if the client is closed; the last two if values are not JSON."""


@dataclass(frozen=True)
class Request:
    """A request of the API.

    Attributes:
        is_repeatable: whether it may be sent again after a failure, because a repetition has no further effect.
        content: arguments of httpx, such as ``json`` or ``files``.
    """

    method: str
    path: str
    is_repeatable: bool
    content: Mapping[str, Any]


@dataclass(frozen=True)
class Connection:
    """How to reach a server.

    Attributes:
        url: address of the server; None: that of ``PARSIMONY_URL``, or port 8000 of this machine.
        key: API key; None: that of ``PARSIMONY_KEY``, or none.
        timeout_s: time limit of each request, in seconds.
        retries: how often a request is sent again if the server is unavailable or overloaded.
    """

    url: str | None = None
    key: str | None = None
    timeout_s: float = 30.0
    retries: int = 2

    def make_options(self) -> dict[str, Any]:
        """Return the arguments of httpx's clients; raises InvalidRequest for a key that no header can hold."""
        key = self.key or os.environ.get("PARSIMONY_KEY")
        if key and not (key.isascii() and key.isprintable()):
            raise InvalidRequest("key must consist of printable ASCII characters", code="invalid-request")
        return {
            "base_url": self.url or os.environ.get("PARSIMONY_URL") or DEFAULT_URL,
            "headers": {"Authorization": f"Bearer {key}"} if key else {},
            "timeout": self.timeout_s,
        }


def send(client: httpx.Client, request: Request, retries: int, timeout_s: float | None = None) -> httpx.Response:
    """Send a request, and repeat it after a pause if the server is unavailable. Raises ParsimonyError.

    Args:
        timeout_s: time limit of all attempts together; None: that of the client for each.
    """
    attempts = _Attempts.start(request, retries, timeout_s, client.base_url)
    for attempt in count():
        try:
            return _checked(client.request(request.method, request.path, **attempts.limit_content()))
        except _FAILURES as error:
            wait_s = attempts.wait_or_raise(attempt, error)
        time.sleep(wait_s)
    raise AssertionError("unreachable")


async def send_async(
    client: httpx.AsyncClient, request: Request, retries: int, timeout_s: float | None = None
) -> httpx.Response:
    """Send a request, and repeat it after a pause if the server is unavailable; arguments are those of ``send``."""
    attempts = _Attempts.start(request, retries, timeout_s, client.base_url)
    for attempt in count():
        try:
            asked = client.request(request.method, request.path, **attempts.limit_content())
            return _checked(await asyncio.wait_for(asked, attempts.remaining_s))
        except _FAILURES as error:
            wait_s = attempts.wait_or_raise(attempt, error)
        await asyncio.sleep(wait_s)
    raise AssertionError("unreachable")


@dataclass(frozen=True)
class _Attempts:
    """Attempts at a request.

    Attributes:
        ends_at: time limit of all attempts, on the clock ``time.monotonic``; None: none.
        url: address of the server, for messages.
    """

    request: Request
    retries: int
    ends_at: float | None
    url: httpx.URL

    @classmethod
    def start(cls, request: Request, retries: int, timeout_s: float | None, url: httpx.URL) -> "_Attempts":
        return cls(request, retries, None if timeout_s is None else time.monotonic() + timeout_s, url)

    @property
    def remaining_s(self) -> float | None:
        """Time limit of the next attempt, in seconds; None: that of the client."""
        return None if self.ends_at is None else max(self.ends_at - time.monotonic(), _LEAST_TIMEOUT_S)

    def limit_content(self) -> Mapping[str, Any]:
        """Return the arguments of httpx for the next attempt."""
        content, remaining_s = self.request.content, self.remaining_s
        return content if remaining_s is None else {**content, "timeout": remaining_s}

    def wait_or_raise(self, attempt: int, error: Exception) -> float:
        """Return the pause after a failed attempt, in seconds; raise its ParsimonyError if it was the last one."""
        failure = _to_error(self.url, error)
        wait_s = _wait_s(attempt, failure)
        is_late = self.ends_at is not None and time.monotonic() + wait_s >= self.ends_at
        if attempt >= self.retries or is_late or not _may_retry(self.request, failure):
            raise failure from (error if failure is not error else None)
        return wait_s


def _checked(reply: httpx.Response) -> httpx.Response:
    if reply.is_success or reply.status_code == NOT_MODIFIED:
        return reply
    raise error_from_reply(reply)


def _to_error(url: httpx.URL, error: Exception) -> ParsimonyError:
    if isinstance(error, ParsimonyError):
        return error
    if isinstance(error, _UNSENT) and not isinstance(error, _INVALID):
        return error_from_transport(url, error)
    return InvalidRequest(f"the request cannot be sent to {url}: {error}", code="invalid-request")


def _may_retry(request: Request, error: ParsimonyError) -> bool:
    return request.is_repeatable and isinstance(error, Unavailable | TooManyRequests)


def _wait_s(attempt: int, error: ParsimonyError) -> float:
    """Return the pause before the next attempt: the server's, or exponential with full jitter."""
    if error.retry_after_s is not None:
        return min(error.retry_after_s, _LONGEST_WAIT_S)
    return random.uniform(0, min(_FIRST_WAIT_S * 2**attempt, _LONGEST_WAIT_S))
