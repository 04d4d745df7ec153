"""Sends HTTP requests to endpoints, with SSRF guard, API keys, and size limits.

Keys are read from the environment. Error messages contain no key. Of a reply, they contain only the status, the size,
and a message from a language model's provider. Connections use a separate thread.
"""

import asyncio
import email.utils
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import aiohttp
import orjson
from yarl import URL

from app.running import protocols
from app.running.bounded_connection import BoundedConnection, ReplyRefused
from app.running.call_thread import CallThread
from app.running.circuit_breaker import OPEN_CIRCUIT_S
from app.running.key_guard import KeyGuard, SecretLeaked
from app.running.protocols.chat_stream import StreamParser
from app.running.protocols.message import EndpointRequest, OnChunk, ParsedResponse
from app.running.request_templates import TemplateMismatch
from app.running.ssrf_guard import GuardedResolver, HostNotAllowed, SsrfGuard
from models import InvalidRequest
from models.endpoint import Endpoint, JsonEndpoint
from models.errors import ProviderError

CONNECT_S = 5.0
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
OK, REDIRECT, CLIENT_FAULT, SERVER_FAULT = 200, 300, 400, 500
_BLAMED = (408, 429)
"""4xx statuses that are faults of the endpoint, not of the item."""
_REFUSING = (400, 413, 422)
"""Statuses that are faults of the request."""
_MISCONFIGURED = (401, 403, 404)
"""Statuses of an endpoint whose key, address, or model is wrong, so that every call fails."""
_WAITING = (429, 503)
"""Statuses whose Retry-After holds for all calls."""
_UNSUPPORTED = frozenset(("unsupported_parameter", "unsupported_value", "unknown_parameter"))
"""Codes of a provider that refuses a parameter."""
TOO_LONG = "context_length_exceeded"
MAX_RETRY_AFTER_S = 3600.0
MAX_BYTES = 2**26
"""Of a reply, whatever the endpoint's own limit for each answer comes to."""


class CallFailed(Exception):
    """Raised for a failed attempt of a call.

    Attributes:
        again: whether the call may be retried, because it cannot have been charged.
        wait_s: minimum seconds before a retry.
        blames: whether the circuit breaker counts the failure against the endpoint.
        refuses: whether the endpoint rejected the request.
        cost: cost of the failed attempt, if known.
        is_free: whether the call cannot have been charged; by default the value of ``again``.
        rest_s: seconds for which the endpoint must not be called; None if the circuit breaker decides.
        reply: the error reply, if there was one.
    """

    def __init__(
        self,
        why: str,
        *,
        again: bool = False,
        wait_s: float = 0.0,
        blames: bool = True,
        refuses: bool = False,
        cost: float | None = None,
        is_free: bool | None = None,
        rest_s: float | None = None,
        reply: ProviderError | None = None,
    ) -> None:
        super().__init__(why)
        self.again, self.wait_s, self.blames, self.refuses, self.cost = again, wait_s, blames, refuses, cost
        self.is_free, self.rest_s, self.reply = again if is_free is None else is_free, rest_s, reply


class Transport:
    """Sends requests to endpoints; create, use, and close it on one event loop.

    Connections use a separate thread.
    """

    def __init__(self, hosts: SsrfGuard, environ: Mapping[str, str]) -> None:
        self._hosts, self._environ = hosts, environ
        self._refuse = lru_cache(maxsize=1000)(self._refused)
        self._thread = CallThread()

    @cached_property
    def _kept(self) -> aiohttp.ClientSession:
        return self._session(force_close=False)

    @cached_property
    def _fresh(self) -> aiohttp.ClientSession:
        """Session without reused connections, for GET and PUT.

        If a kept connection breaks, the library would repeat these requests itself.
        """
        return self._session(force_close=True)

    def _session(self, *, force_close: bool) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            resolver=GuardedResolver(self._hosts),
            use_dns_cache=False,
            limit=0,
            force_close=force_close,
            socket_factory=self._socket,
        )
        BoundedConnection.install_in(connector)
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            headers={"User-Agent": "parsimony", "Accept": "application/json", "Accept-Encoding": "identity"},
        )

    def _refused(self, url: str, secret: str | None) -> None:
        """Raise InvalidRequest if a URL must not be called, or must not receive the key.

        The result is cached until the allowed hosts change.
        """
        self._hosts.check_url(url)
        self._hosts.check_secret_host(url, secret)

    def update_hosts(self, patterns: Sequence[str]) -> None:
        """Replace the allowed hosts, also for open connections."""
        self._hosts.update_patterns(patterns)
        self._refuse.cache_clear()

    def _socket(self, address: Any) -> socket.socket:
        """Return a socket for an address, after checking that it may be called."""
        family, kind, protocol, _, where = address
        self._hosts.check_address(str(where[0]))
        return socket.socket(family, kind, protocol)

    async def close(self) -> None:
        """Close the connections and end the thread."""
        await self._thread.run(self._close_sessions())
        await self._thread.close()

    async def _close_sessions(self) -> None:
        await self._kept.close()
        await self._fresh.close()

    async def send_request(self, endpoint: Endpoint, request: EndpointRequest) -> ParsedResponse:
        """Send a request once and parse the reply; raises only CallFailed."""
        if request.on_chunk is not None:
            request = replace(request, on_chunk=_on_this_loop(request.on_chunk))
        try:
            return await self._thread.run(self._exchanged(endpoint, request))
        except CallFailed:
            raise
        except Exception as error:  # its text may hold the key, or what the endpoint sent
            raise CallFailed(f"the call failed: {type(error).__name__}") from None

    async def _exchanged(self, endpoint: Endpoint, request: EndpointRequest) -> ParsedResponse:
        """Send the request and parse the reply; remove the key from the result."""
        key = self._key(endpoint)
        guard = KeyGuard(key) if key else None
        try:
            reply, body = await self._answered(endpoint, request, guard)
            if guard is not None:
                guard.check_body(body)
                if reply.status >= CLIENT_FAULT:
                    guard.check_content(body)
            response = _read(endpoint, request, reply, body)
            if guard is not None:
                guard.check_response(response)
        except SecretLeaked:
            raise CallFailed("the reply contains the secret of the request", blames=False) from None
        return response

    async def _answered(
        self, endpoint: Endpoint, request: EndpointRequest, guard: KeyGuard | None
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        """Return the reply and its body; raises CallFailed or SecretLeaked."""
        headers = {**request.headers, **self._headers(endpoint)}
        if request.data is not None:
            headers["Content-Type"] = "application/json"
        session = self._kept if request.method == "POST" else self._fresh
        try:
            self._refuse(endpoint.url, endpoint.secret)  # an item changes no host
            async with session.request(
                request.method,
                URL(request.url, encoded=True),
                data=request.data,
                headers=headers,
                allow_redirects=False,
                timeout=_TIMEOUT,
            ) as reply:
                most = min(endpoint.max_reply_bytes * request.answers, MAX_BYTES)
                return reply, await _body(reply, most, request.on_chunk, guard)
        except aiohttp.ClientConnectorError as error:
            if isinstance(error.os_error, HostNotAllowed):
                raise CallFailed(str(error.os_error), blames=False) from error
            raise CallFailed(f"connection failed: {type(error.os_error).__name__}", again=True) from error
        except ReplyRefused as error:
            raise CallFailed("the reply exceeds the limits on interim responses or on bytes of headers") from error
        except aiohttp.ClientError as error:
            raise CallFailed(f"connection lost: {type(error).__name__}") from error
        except (HostNotAllowed, InvalidRequest) as error:
            raise CallFailed(str(error), blames=False) from error
        except OSError as error:
            raise CallFailed(f"connection failed: {type(error).__name__}", again=True) from error

    def _headers(self, endpoint: Endpoint) -> dict[str, str]:
        """Return the header with the key.

        Raises CallFailed if the key is not set, or must not be sent to the host.
        """
        key = self._key(endpoint)
        if endpoint.secret is None or key is None:
            return {}
        if not key:
            raise CallFailed(f"environment variable {endpoint.secret} is not set", blames=False)
        if not key.isascii() or not key.isprintable():
            raise CallFailed(f"{endpoint.secret} contains characters that are invalid in a header", blames=False)
        is_bearer = endpoint.secret_header.lower() == "authorization"
        return {endpoint.secret_header: f"Bearer {key}" if is_bearer else key}

    def _key(self, endpoint: Endpoint) -> str | None:
        return None if endpoint.secret is None else self._environ.get(endpoint.secret, "").strip()


def _on_this_loop(on_chunk: OnChunk) -> OnChunk:
    """Return a function for other threads that runs the given one on this event loop."""
    loop = asyncio.get_running_loop()

    def take(chunk: Mapping[str, Any]) -> None:
        loop.call_soon_threadsafe(on_chunk, chunk)

    return take


async def _body(reply: aiohttp.ClientResponse, most: int, on_chunk: OnChunk | None, guard: KeyGuard | None) -> bytes:
    """Read a body to its end; assemble a streamed one like a single reply. O(length).

    Raises CallFailed if the body is too long or its stream ends early. Raises SecretLeaked before a chunk with the key
    is forwarded.
    """
    pass_on = on_chunk if on_chunk is None or guard is None else guard.guard_chunks(on_chunk)
    is_stream = on_chunk is not None and reply.status == OK and reply.content_type == "text/event-stream"
    stream, rest, length = StreamParser(), list[bytes](), 0
    async for some in reply.content.iter_chunked(2**16):
        length += len(some)
        if length > most:
            reply.close()
            raise CallFailed(f"the reply must have at most {most} bytes", blames=False)
        rest.append(some)
        if is_stream and pass_on is not None and b"\n" in some:
            *lines, last = b"".join(rest).split(b"\n")
            rest = [last]
            for line in lines:
                _pass_on(stream, line, pass_on)
    if not is_stream or on_chunk is None:
        return b"".join(rest)
    if not stream.is_complete:
        raise CallFailed("the stream ended early")
    if guard is not None:
        guard.release_held(on_chunk)
    return orjson.dumps(stream.assemble_reply())


def _pass_on(stream: StreamParser, line: bytes, on_chunk: OnChunk) -> None:
    try:
        chunk = stream.take(line)
    except TemplateMismatch as error:
        raise CallFailed(str(error)) from error
    if chunk is not None:
        on_chunk(chunk)


def _read(endpoint: Endpoint, request: EndpointRequest, reply: aiohttp.ClientResponse, body: bytes) -> ParsedResponse:
    """Parse a reply by its status; raises CallFailed."""
    status = reply.status
    if status >= CLIENT_FAULT:
        wait_s = _retry_after(reply.headers.get("Retry-After", ""))
        raise _refusal(endpoint, request, protocols.read_error(endpoint, status, body), wait_s)
    if status >= REDIRECT:
        raise CallFailed(f"answered {status}; redirects are not followed")
    if status < OK:
        raise CallFailed(f"answered {status}")
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise CallFailed(f"the reply must be JSON, got {len(body)} bytes") from error
    try:
        return protocols.read(endpoint, content, request.answers, request.chat)
    except TemplateMismatch as error:
        cost = price_call(endpoint, protocols.parse_cost(endpoint, content))
        raise CallFailed(str(error), blames=False, cost=cost) from error


def _refusal(endpoint: Endpoint, request: EndpointRequest, error: ProviderError, wait_s: float) -> CallFailed:
    """Return the failure of an error reply: whether to retry, and who is at fault."""
    status, why = error.status, f"answered {error.status}" + (f": {error.message}" if error.message else "")
    if _is_misconfigured(endpoint, request, error):
        return CallFailed(why, is_free=True, rest_s=OPEN_CIRCUIT_S, reply=error)
    rest_s = wait_s if status in _WAITING and wait_s > 0 else None
    if status in endpoint.retries.statuses:
        again = wait_s <= endpoint.retries.max_retry_after_s
        return CallFailed(why, again=again, wait_s=wait_s, is_free=True, rest_s=rest_s, reply=error)
    blames, refuses = status >= SERVER_FAULT or status in _BLAMED, status in _REFUSING
    return CallFailed(why, blames=blames, refuses=refuses, is_free=status in _BLAMED, rest_s=rest_s, reply=error)


def _is_misconfigured(endpoint: Endpoint, request: EndpointRequest, error: ProviderError) -> bool:
    """Return whether every call fails.

    This follows from the status, or from a parameter that no caller has sent.
    """
    if error.status in _MISCONFIGURED:
        return error.status != 404 or not isinstance(endpoint, JsonEndpoint)  # whose address may name the item
    sent = {} if request.chat is None else request.chat.options
    return error.code in _UNSUPPORTED and error.param not in sent


def price_call(endpoint: Endpoint, response: ParsedResponse) -> float | None:
    """Return the cost of a call: the reported cost, else from the endpoint's prices.

    Returns None if prices are per token and the reply does not report tokens.
    """
    prices = endpoint.prices
    if response.cost is not None or prices is None:
        return response.cost
    if (prices.input_per_million and response.input_tokens is None) or (
        prices.output_per_million and response.output_tokens is None
    ):
        return None
    sent, came = response.input_tokens or 0, response.output_tokens or 0
    return prices.price_tokens(sent, came, min(response.cached_tokens, sent))


def least_cost(endpoint: Endpoint) -> float | None:
    """Return the cost of a call that got no reply: the price per call.

    Returns None if the cost depends on tokens, or if the endpoint has no prices.
    """
    prices = endpoint.prices
    if prices is None or prices.input_per_million or prices.output_per_million:
        return None
    return prices.per_call


def _retry_after(text: str) -> float:
    """Return the seconds in a Retry-After header, a number or a date; 0 if invalid.

    >>> _retry_after("3"), _retry_after("soon")
    (3.0, 0.0)
    """
    if text.strip().isdecimal():
        return min(float(text), MAX_RETRY_AFTER_S)
    try:
        seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        return min(max(seconds, 0.0), MAX_RETRY_AFTER_S)
    except (ValueError, TypeError, OverflowError):
        return 0.0
