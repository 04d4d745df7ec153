"""One HTTP request to an endpoint: guarded hosts, keys from the environment, replies read to a limit.

No message holds a key or anything of a reply but its status and size. Connections live on a thread of their own.
"""

import asyncio
import email.utils
import socket
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import aiohttp
import orjson
from yarl import URL

from app.running import protocols
from app.running.bounded_connection import BoundedConnection, ReplyRefused
from app.running.call_thread import CallThread
from app.running.key_guard import KeyGuard, KeyRepeated, OnText
from app.running.protocols.message import ParsedResponse, Request
from app.running.protocols.openai_chat import Pieces
from app.running.ssrf_guard import GuardedResolver, HostNotAllowed, SsrfGuard
from app.running.templates import WrongShape
from models import InvalidRequest
from models.endpoint import Endpoint

CONNECT_S = 5.0
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
OK, REDIRECT, CLIENT_FAULT, SERVER_FAULT = 200, 300, 400, 500
_BLAMED = (408, 429)
"""4xx statuses that are faults of the endpoint, not of the item."""
_REFUSING = (400, 413, 422)
"""Statuses that are faults of the request."""
MOST_BYTES = 2**26
"""Of a reply, whatever the endpoint's own limit for each answer comes to."""


class CallFailed(Exception):
    """A try that failed. again: whether it may be tried again, for nothing can have been paid; wait_s: after how many
    seconds at least. blames: whether it is a fault of the endpoint. refuses: whether it is the request that the
    endpoint does not take. cost: what it cost all the same, if known."""

    def __init__(
        self,
        why: str,
        *,
        again: bool = False,
        wait_s: float = 0.0,
        blames: bool = True,
        refuses: bool = False,
        cost: float | None = None,
    ) -> None:
        super().__init__(why)
        self.again, self.wait_s, self.blames, self.refuses, self.cost = again, wait_s, blames, refuses, cost


class Transport:
    """Sends requests; made, used, and closed on one event loop, its connections live on a thread of its own."""

    def __init__(self, hosts: SsrfGuard, environ: Mapping[str, str]) -> None:
        self._hosts, self._environ = hosts, environ
        self._refuse = lru_cache(maxsize=1000)(self._refused)
        self._thread = CallThread()

    @cached_property
    def _kept(self) -> aiohttp.ClientSession:
        return self._session(force_close=False)

    @cached_property
    def _fresh(self) -> aiohttp.ClientSession:
        """For GET and PUT: the library sends these again by itself where a connection that was kept breaks."""
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
        """Raise InvalidRequest for an address that must not be called, or must not be sent the key; what is admitted
        stays so, for what may be called is a setting."""
        self._hosts.refuse_url(url)
        self._hosts.refuse_key(url, secret)

    def _socket(self, address: Any) -> socket.socket:
        """Make a socket for an address that may be called, however it was come by."""
        family, kind, protocol, _, where = address
        self._hosts.check_address(str(where[0]))
        return socket.socket(family, kind, protocol)

    async def close(self) -> None:
        """Close the connections, and end the thread."""
        await self._thread.run(self._close_sessions())
        await self._thread.close()

    async def _close_sessions(self) -> None:
        await self._kept.close()
        await self._fresh.close()

    async def send_request(self, endpoint: Endpoint, request: Request) -> ParsedResponse:
        """Send a request once, and read the reply; raises Failed, whatever happens."""
        if request.on_text is not None:
            request = replace(request, on_text=_on_this_loop(request.on_text))
        try:
            return await self._thread.run(self._exchanged(endpoint, request))
        except CallFailed:
            raise
        except Exception as error:  # its text may hold the key, or what the endpoint sent
            raise CallFailed(f"the call failed: {type(error).__name__}") from None

    async def _exchanged(self, endpoint: Endpoint, request: Request) -> ParsedResponse:
        """Make the exchange, with the key kept out of all that comes back."""
        key = self._key(endpoint)
        guard = KeyGuard(key) if key else None
        try:
            reply, body = await self._answered(endpoint, request, guard)
            if guard is not None:
                guard.check_body(body)
            response = _read(endpoint, request, reply, body)
            if guard is not None:
                guard.check_response(response)
        except KeyRepeated:
            raise CallFailed("the reply repeats the key that was sent", blames=False) from None
        return response

    async def _answered(
        self, endpoint: Endpoint, request: Request, guard: KeyGuard | None
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        """Give the reply and its body; raises Failed, or KeyRepeated."""
        headers = self._headers(endpoint)
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
                most = min(endpoint.max_reply_bytes * request.answers, MOST_BYTES)
                return reply, await _body(reply, most, request.on_text, guard)
        except aiohttp.ClientConnectorError as error:
            if isinstance(error.os_error, HostNotAllowed):
                raise CallFailed(str(error.os_error), blames=False) from error
            raise CallFailed(f"cannot be reached: {type(error.os_error).__name__}", again=True) from error
        except ReplyRefused as error:
            raise CallFailed("the reply has too many interim replies, or too many bytes around its body") from error
        except aiohttp.ClientError as error:
            raise CallFailed(f"the connection broke: {type(error).__name__}") from error
        except (HostNotAllowed, InvalidRequest) as error:
            raise CallFailed(str(error), blames=False) from error
        except OSError as error:
            raise CallFailed(f"cannot be reached: {type(error).__name__}", again=True) from error

    def _headers(self, endpoint: Endpoint) -> dict[str, str]:
        """Give the header with the key; raises Failed if it is not set, or may not be sent to the host."""
        key = self._key(endpoint)
        if endpoint.secret is None or key is None:
            return {}
        if not key:
            raise CallFailed(f"{endpoint.secret} is not set where the service runs", blames=False)
        if not key.isascii() or not key.isprintable():
            raise CallFailed(f"{endpoint.secret} holds characters that no header may have", blames=False)
        is_bearer = endpoint.secret_header.lower() == "authorization"
        return {endpoint.secret_header: f"Bearer {key}" if is_bearer else key}

    def _key(self, endpoint: Endpoint) -> str | None:
        return None if endpoint.secret is None else self._environ.get(endpoint.secret, "").strip()


def _on_this_loop(on_text: OnText) -> OnText:
    """Let another thread call a function of this event loop."""
    loop = asyncio.get_running_loop()

    def take(piece: str) -> None:
        loop.call_soon_threadsafe(on_text, piece)

    return take


async def _body(reply: aiohttp.ClientResponse, most: int, on_text: OnText | None, guard: KeyGuard | None) -> bytes:
    """Read a body to its end, that of a stream put together as if it had come as a whole; raises Failed if it is
    longer than it may be, and KeyRepeated before a piece with the key is passed on. O(length)."""
    pass_on = on_text if on_text is None or guard is None else guard.guard_pieces(on_text)
    is_stream = on_text is not None and reply.status == OK and reply.content_type == "text/event-stream"
    pieces, rest, length = Pieces(), list[bytes](), 0
    async for some in reply.content.iter_chunked(2**16):
        length += len(some)
        if length > most:
            reply.close()
            raise CallFailed(f"the reply has more than {most} bytes", blames=False)
        rest.append(some)
        if is_stream and pass_on is not None and b"\n" in some:
            *lines, last = b"".join(rest).split(b"\n")
            rest = [last]
            for line in lines:
                _pass_on(pieces, line, pass_on)
    if is_stream and on_text is not None and guard is not None:
        guard.release_held(on_text)
    return orjson.dumps(pieces.assemble_reply()) if is_stream else b"".join(rest)


def _pass_on(pieces: Pieces, line: bytes, on_text: OnText) -> None:
    try:
        text = pieces.take(line)
    except WrongShape as error:
        raise CallFailed(str(error)) from error
    if text:
        on_text(text)


def _read(endpoint: Endpoint, request: Request, reply: aiohttp.ClientResponse, body: bytes) -> ParsedResponse:
    """Read a reply by its status; raises Failed."""
    status = reply.status
    if status in endpoint.retries.statuses:
        raise CallFailed(f"answered {status}", again=True, wait_s=_retry_after(reply.headers.get("Retry-After", "")))
    if status >= CLIENT_FAULT:
        blames = status >= SERVER_FAULT or status in _BLAMED
        raise CallFailed(f"answered {status}", blames=blames, refuses=status in _REFUSING)
    if status >= REDIRECT:
        raise CallFailed(f"answered {status}, and redirects are not followed")
    if status < OK:
        raise CallFailed(f"answered {status}")
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise CallFailed(f"answered {len(body)} bytes that are no JSON") from error
    try:
        return protocols.read(endpoint, content, request.answers)
    except WrongShape as error:
        cost = price_call(endpoint, protocols.parse_cost(endpoint, content))
        raise CallFailed(str(error), blames=False, cost=cost) from error


def price_call(endpoint: Endpoint, response: ParsedResponse) -> float | None:
    """Return the cost of a call: as in the reply, else by its tokens; None where prices are per token and the reply
    has no tokens."""
    prices = endpoint.prices
    if response.cost is not None or prices is None:
        return response.cost
    if (prices.per_input_token and response.input_tokens is None) or (
        prices.per_output_token and response.output_tokens is None
    ):
        return None
    sent, came = response.input_tokens or 0, response.output_tokens or 0
    return prices.per_call + prices.per_input_token * sent + prices.per_output_token * came


def least_cost(endpoint: Endpoint) -> float | None:
    """Give what a call cost that brought no reply; None where that depends on its tokens, or there are no prices."""
    prices = endpoint.prices
    if prices is None or prices.per_input_token or prices.per_output_token:
        return None
    return prices.per_call


def _retry_after(text: str) -> float:
    """Parse a Retry-After header, seconds or a date, into seconds; 0 for anything else.

    >>> _retry_after("3"), _retry_after("soon")
    (3.0, 0.0)
    """
    if text.strip().isdecimal():
        return min(float(text), 3600.0)
    try:
        return max(email.utils.parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return 0.0
