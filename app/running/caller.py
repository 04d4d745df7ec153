"""Calls endpoints: one connection pool, each endpoint's limits, tries again where nothing can have been paid.

A call ends in what it said or why it said nothing, never in an exception: a run goes on without it. No message holds a
key, nor more of a reply than its status.
"""

import asyncio
import email.utils
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import random
from typing import Any

import aiohttp
import orjson
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)
from tenacity.wait import wait_base

from app.metrics import Metrics
from app.running import protocols
from app.running.circuit import Circuit
from app.running.hosts import GuardedResolver, HostRefused, Hosts
from app.running.protocols.message import Request, Said
from app.running.protocols.openai_chat import Pieces, streamed
from app.running.templates import WrongShape
from models import InvalidRequest
from models.endpoint import ChatEndpoint, Endpoint
from solvers.running import Heard

CONNECT_S = 5.0
OPEN = "its circuit is open"
UNKNOWN = "no endpoint has this name"
ADDRESSES = 10_000
"""Addresses that are remembered as allowed."""


class _Again(Exception):
    """A try that failed and may be followed by another: nothing can have been paid."""

    def __init__(self, why: str, wait_s: float = 0.0) -> None:
        super().__init__(why)
        self.wait_s = wait_s


class _Failed(Exception):
    """A try that failed for good."""


@dataclass(slots=True)
class _Line:
    """What is kept of an endpoint while the process lives."""

    endpoint: Endpoint
    slots: asyncio.Semaphore
    circuit: Circuit = field(default_factory=Circuit)


class Caller:
    """Calls endpoints by name; made and closed on the event loop that it is used on."""

    def __init__(self, hosts: Hosts, metrics: Metrics, environ: Mapping[str, str] = os.environ) -> None:
        self._hosts, self._metrics, self._environ = hosts, metrics, environ
        self._lines: dict[str, _Line] = {}
        self._allowed: set[str] = set()
        connector = aiohttp.TCPConnector(resolver=GuardedResolver(hosts), use_dns_cache=False, limit=0)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            headers={"User-Agent": "parsimony", "Accept": "application/json", "Accept-Encoding": "identity"},
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    def follow(self, endpoints: Mapping[str, Endpoint]) -> None:
        """Take over what is registered; an endpoint that changed begins anew."""
        self._lines = {
            name: line
            if (line := self._lines.get(name)) is not None and line.endpoint == endpoint
            else _Line(endpoint, asyncio.Semaphore(endpoint.concurrency))
            for name, endpoint in endpoints.items()
        }

    def endpoint(self, name: str) -> Endpoint | None:
        """Give an endpoint; None if none has this name."""
        line = self._lines.get(name)
        return None if line is None else line.endpoint

    def state(self, name: str) -> Any:
        """Tell the state of an endpoint's circuit."""
        line = self._lines.get(name)
        return "closed" if line is None else line.circuit.state(time.monotonic())

    def open_circuits(self) -> frozenset[str]:
        """List the endpoints that must not be called now."""
        now = time.monotonic()
        return frozenset(name for name, line in self._lines.items() if not line.circuit.admits(now))

    def secret_known(self, endpoint: Endpoint) -> bool | None:
        """Tell whether the key of an endpoint is there; None if it needs none."""
        return None if endpoint.secret is None else bool(self._environ.get(endpoint.secret))

    async def call(self, name: str, item: Any, within: float, on_text: Callable[[str], None] | None = None) -> Heard:
        """Call an endpoint with an item, for so many seconds at most. on_text: takes the answer's pieces while they
        come, where they do."""
        line = self._lines.get(name)
        if line is None:
            return Heard(name, attempts=0, error=UNKNOWN)
        if not line.circuit.admits(time.monotonic()):
            return Heard(name, attempts=0, error=OPEN)
        heard = await self._ask(name, line, item, within, on_text)
        if heard.error is None and heard.confidence is None and heard.label is not None:
            heard = await self._judged(line.endpoint, heard, item, within - heard.seconds)
        self._metrics.calls.labels(name, "answered" if heard.error is None else "failed").inc()
        self._metrics.call_seconds.labels(name).observe(heard.seconds)
        return heard

    async def _ask(
        self, name: str, line: _Line, item: Any, within: float, on_text: Callable[[str], None] | None = None
    ) -> Heard:
        """Call for as long as it may take, and note in the circuit what became of it."""
        started, tries = time.monotonic(), _Tries()
        limit = min(within, line.endpoint.timeout_s)
        tells = True
        line.circuit.begin(started)
        try:
            async with asyncio.timeout(limit), line.slots:
                said = await self._tried(line.endpoint, _request(line.endpoint, item, on_text), tries)
            heard = _heard(name, line.endpoint, said)
        except TimeoutError:
            tells = limit >= line.endpoint.timeout_s  # else the run had no more time, and it may be well
            why = f" ({tries.why})" if tries.why else ""
            heard = Heard(name, error=f"no answer within {limit:.3g} s{why}")
        except WrongShape as error:
            tells = False  # the item lacks what the template asks for
            heard = Heard(name, error=str(error))
        except (_Failed, _Again) as error:
            heard = Heard(name, error=str(error))
        except BaseException:
            line.circuit.leave()
            raise
        if tells:
            line.circuit.end(time.monotonic(), heard.error is not None)
        else:
            line.circuit.leave()
        self._metrics.circuit.labels(name).set(line.circuit.opened_at is not None)
        return replace(heard, seconds=time.monotonic() - started, attempts=tries.made)

    async def _tried(self, endpoint: Endpoint, request: Request, tries: "_Tries") -> Said:
        """Try, and try again where that failed and nothing can have been paid."""
        tries.made = 1
        try:
            return await self._sent(endpoint, request)
        except _Again as error:
            tries.why = str(error)
            if endpoint.retries.attempts == 1:
                raise
            await asyncio.sleep(max(error.wait_s, endpoint.retries.wait_s * (1 + random())))
        again = AsyncRetrying(
            stop=stop_after_attempt(endpoint.retries.attempts - 1),
            wait=_Wait(2 * endpoint.retries.wait_s),
            retry=retry_if_exception_type(_Again),
            reraise=True,
        )
        async for attempt in again:
            with attempt:
                tries.made += 1
                try:
                    return await self._sent(endpoint, request)
                except _Again as error:
                    tries.why = str(error)
                    raise
        raise AssertionError("unreachable")  # pragma: no cover

    async def _sent(self, endpoint: Endpoint, request: Request) -> Said:
        """Send a request once; raises _Again, _Failed or WrongShape."""
        headers = self._headers(endpoint)
        data = None if request.body is None else orjson.dumps(request.body)
        if data is not None:
            headers["Content-Type"] = "application/json"
        self._refuse_url(request.url)
        try:
            async with self._session.request(
                request.method,
                request.url,
                data=data,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
            ) as reply:
                body = await _body(reply, endpoint.most_reply_bytes, request.on_text)
        except aiohttp.ClientConnectorError as error:
            if isinstance(error.os_error, HostRefused):
                raise _Failed(str(error.os_error)) from error
            raise _Again(f"cannot be reached: {type(error.os_error).__name__}") from error
        except aiohttp.ClientError as error:
            raise _Failed(f"the connection broke: {type(error).__name__}") from error
        except OSError as error:
            raise _Failed(f"cannot be reached: {type(error).__name__}") from error
        return _read(endpoint, reply, body)

    def _refuse_url(self, url: str) -> None:
        """Raise _Failed for an address that must not be called; each is looked at once, for hosts do not change."""
        if url in self._allowed:
            return
        try:
            self._hosts.refuse_url(url)
        except InvalidRequest as error:
            raise _Failed(str(error)) from error
        if len(self._allowed) < ADDRESSES:
            self._allowed.add(url)

    def _headers(self, endpoint: Endpoint) -> dict[str, str]:
        """Give the header with the key; raises _Failed if its variable is not set, or holds what no header may."""
        if endpoint.secret is None:
            return {}
        value = self._environ.get(endpoint.secret, "").strip()
        if not value:
            raise _Failed(f"{endpoint.secret} is not set where the service runs")
        if not value.isascii() or not value.isprintable():
            raise _Failed(f"{endpoint.secret} holds characters that no header may have")
        is_bearer = endpoint.secret_header.lower() == "authorization"
        return {endpoint.secret_header: f"Bearer {value}" if is_bearer else value}

    async def _judged(self, endpoint: Endpoint, heard: Heard, item: Any, left: float) -> Heard:
        """Let an endpoint's judge tell how sure its answer is."""
        judge = endpoint.judge if isinstance(endpoint, ChatEndpoint) else None
        line = None if judge is None else self._lines.get(judge)
        if judge is None or line is None or left <= 0 or line.endpoint == endpoint:
            return heard
        judged = await self._ask(judge, line, {"item": item, "answer": heard.text or heard.label}, left)
        costs = [each for each in (heard.cost, judged.cost) if each is not None]
        return replace(
            heard,
            confidence=judged.confidence,
            cost=sum(costs) if costs else None,
            seconds=heard.seconds + judged.seconds,
            tokens=(heard.tokens[0] + judged.tokens[0], heard.tokens[1] + judged.tokens[1]),
        )


@dataclass(slots=True)
class _Tries:
    """How often a call was tried, and why it had to be tried again."""

    made: int = 0
    why: str = ""


class _Wait(wait_base):
    """Waits longer from try to try, with jitter, and as long as a reply's Retry-After says."""

    def __init__(self, first_s: float) -> None:
        self._usual = wait_exponential(multiplier=first_s, max=60.0) + wait_random(0.0, first_s)

    def __call__(self, retry_state: RetryCallState) -> float:
        waited = self._usual(retry_state)
        error = retry_state.outcome.exception() if retry_state.outcome else None
        return max(waited, error.wait_s) if isinstance(error, _Again) else waited


def _request(endpoint: Endpoint, item: Any, on_text: Callable[[str], None] | None) -> Request:
    request = protocols.request(endpoint, item)
    if on_text is None or not isinstance(endpoint, ChatEndpoint):
        return request
    return streamed(endpoint, request, on_text)


async def _body(reply: aiohttp.ClientResponse, most: int, on_text: Callable[[str], None] | None) -> bytes:
    """Read a body to its end, that of a stream put together as if it had come as a whole; raises _Failed if it is
    longer than it may be."""
    is_stream = on_text is not None and reply.content_type == "text/event-stream"
    pieces, rest, length = Pieces(), b"", 0
    async for some in reply.content.iter_chunked(2**16):
        length += len(some)
        if length > most:
            reply.close()
            raise _Failed(f"the reply has more than {most} bytes")
        rest += some
        if is_stream and on_text is not None:
            *lines, rest = rest.split(b"\n")
            for text in filter(None, map(_taken(pieces), lines)):
                on_text(text)
    return orjson.dumps(pieces.reply()) if is_stream else rest


def _taken(pieces: Pieces) -> Callable[[bytes], str]:
    """Give what reads a line of a stream; raises _Failed for what is none."""

    def take(line: bytes) -> str:
        try:
            return pieces.take(line)
        except WrongShape as error:
            raise _Failed(str(error)) from error

    return take


def _read(endpoint: Endpoint, reply: aiohttp.ClientResponse, body: bytes) -> Said:
    """Read a reply by its status; raises _Again, _Failed, or WrongShape changed into _Failed."""
    status = reply.status
    if status in endpoint.retries.statuses:
        raise _Again(f"answered {status}", _retry_after(reply.headers.get("Retry-After", "")))
    if not 200 <= status < 300:
        raise _Failed(f"answered {status}{', and redirects are not followed' if 300 <= status < 400 else ''}")
    try:
        return protocols.read(endpoint, orjson.loads(body))
    except orjson.JSONDecodeError as error:
        raise _Failed(f"answered {len(body)} bytes that are no JSON") from error
    except WrongShape as error:
        raise _Failed(str(error)) from error


def _retry_after(text: str) -> float:
    """Read how many seconds to wait, told as seconds or as a date; 0 for what is neither.

    >>> _retry_after("3"), _retry_after("soon")
    (3.0, 0.0)
    """
    if text.strip().isdecimal():
        return min(float(text), 3600.0)
    try:
        return max(email.utils.parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _heard(name: str, endpoint: Endpoint, said: Said) -> Heard:
    return Heard(
        name,
        label=said.label,
        confidence=said.confidence,
        scores=said.scores,
        values=said.values,
        cost=_priced(endpoint, said),
        text=said.text,
        tokens=(said.input_tokens or 0, said.output_tokens or 0),
    )


def _priced(endpoint: Endpoint, said: Said) -> float | None:
    """Give what a call cost: what the reply says, else by its tokens."""
    prices = endpoint.prices
    if said.cost is not None or prices is None:
        return said.cost
    sent, came = said.input_tokens or 0, said.output_tokens or 0
    return prices.per_call + prices.per_input_token * sent + prices.per_output_token * came
