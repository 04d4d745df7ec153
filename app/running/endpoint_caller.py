"""Calls endpoints with concurrency limits, retries, and circuit breakers.

A call returns a result or an error message and never raises, so that a run continues after a failed call.
"""

import asyncio
import logging
import math
import os
import time
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from prometheus_client import Counter, Gauge, Histogram

from app.environment_file import EnvironmentFile
from app.observability.metrics import Metrics
from app.observability.tracing import Tracing
from app.running import protocols
from app.running.circuit_breaker import OPEN_CIRCUIT_S, CircuitBreaker
from app.running.majority_vote import get_sample_count, take_majority_vote
from app.running.protocols.message import EndpointRequest, OnChunk, ParsedResponse
from app.running.protocols.openai_chat_client import with_stream
from app.running.request_templates import TemplateMismatch
from app.running.retries import CallAttempts, send_with_retries
from app.running.ssrf_guard import SsrfGuard
from app.running.transport import TOO_LONG, CallFailed, Transport, least_cost, price_call
from app.settings import Settings
from models.endpoint import ChatEndpoint, CircuitState, EmbeddingsEndpoint, Endpoint
from parsimony.runs.steps import CIRCUIT_OPEN, CallResult

logger = logging.getLogger("parsimony.endpoints")
BAD_REQUEST, RATE_LIMITED = 400, 429
UNKNOWN = "no endpoint has this name"
MAX_REFUSED_CLIENTS = 3
"""So many clients whose requests an endpoint rejects, one after the other, open the circuit."""


@dataclass(frozen=True, slots=True)
class ChunkStream:
    """Receiver of a streamed answer.

    Attributes:
        take: receives each chunk.
        ends_at: deadline of the whole answer on the clock ``time.monotonic``; inf if only the endpoint's limits apply.
    """

    take: OnChunk
    ends_at: float = math.inf


@dataclass(slots=True)
class _Line:
    """State of an endpoint in this process: concurrency slots, metrics, and circuit breaker."""

    endpoint: Endpoint
    slots: asyncio.Semaphore
    answered: Counter
    failed: Counter
    seconds: Histogram
    is_open: Gauge
    circuit: CircuitBreaker = field(default_factory=CircuitBreaker)
    open_reason: str = ""
    is_rate_limited: bool = False
    """Whether the circuit is open because of a rate limit."""
    refused_clients: set[str] = field(default_factory=set)
    """Clients whose requests were rejected since the last answer."""


class EndpointCaller:
    """Calls endpoints by name; create, use, and close it on one event loop."""

    def __init__(
        self,
        hosts: SsrfGuard,
        metrics: Metrics,
        environ: Mapping[str, str] = os.environ,
        tracing: Tracing | None = None,
        refresh: Callable[[], Sequence[str] | None] = lambda: None,
    ) -> None:
        """Prepare calls.

        Args:
            environ: environment with the keys of endpoints.
            refresh: updates ``environ``; returns the allowed hosts if they may have changed.
        """
        self.tracing = tracing or Tracing()
        self._transport, self._metrics, self._environ = Transport(hosts, environ), metrics, environ
        self._hosts, self._refresh = hosts, refresh
        self._lines: dict[str, _Line] = {}
        self._followed: Mapping[str, Endpoint] = {}

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    def update_endpoints(self, endpoints: Mapping[str, Endpoint]) -> None:
        """Replace the registered endpoints; changed endpoints lose their state."""
        if endpoints is self._followed:
            return
        lines = {}
        for name, endpoint in endpoints.items():
            line = self._lines.get(name)
            if line is None or line.endpoint != endpoint:
                line = self._line(name, endpoint)
                line.is_open.set(0)
            lines[name] = line
        for name in self._lines.keys() - lines.keys():
            self._metrics.circuit.labels(name).set(0)
            with suppress(KeyError):
                self._metrics.circuit.remove(name)
        self._lines, self._followed = lines, endpoints

    def _line(self, name: str, endpoint: Endpoint) -> _Line:
        """Return the initial state of an endpoint.

        It includes the endpoint's metrics, because looking them up is slow.
        """
        calls, metrics = self._metrics.calls, self._metrics
        return _Line(
            endpoint,
            asyncio.Semaphore(endpoint.concurrency),
            calls.labels(name, "answered"),
            calls.labels(name, "failed"),
            metrics.call_seconds.labels(name),
            metrics.circuit.labels(name),
        )

    def reset_circuit(self, name: str) -> None:
        """Reset the circuit breaker of an endpoint that was registered again."""
        line = self._lines.get(name)
        if line is not None:
            line.circuit = CircuitBreaker()
            line.refused_clients.clear()
            self._metrics.circuit.labels(name).set(0)

    def get_endpoint(self, name: str) -> Endpoint | None:
        """Return an endpoint by name; None if it is not registered."""
        line = self._lines.get(name)
        return None if line is None else line.endpoint

    def list_embedders(self) -> list[str]:
        """Return the names of the registered embedders."""
        return sorted(name for name, line in self._lines.items() if isinstance(line.endpoint, EmbeddingsEndpoint))

    def circuit_state(self, name: str) -> CircuitState:
        """Return the state of an endpoint's circuit breaker."""
        line = self._lines.get(name)
        return "closed" if line is None else line.circuit.state_at(time.monotonic())

    def open_circuits(self) -> frozenset[str]:
        """Return the endpoints whose circuit breaker is open."""
        return frozenset(self.open_reasons())

    def open_reasons(self) -> dict[str, str]:
        """Return the last error of each endpoint whose circuit breaker is open."""
        opened = [(name, line) for name, line in self._lines.items() if line.circuit.is_open]
        now = time.monotonic()
        return {name: line.open_reason for name, line in opened if not line.circuit.allows_call(now)}

    def rate_limit_seconds(self, name: str) -> float | None:
        """Return the seconds until an endpoint accepts calls again; None if no rate limit is known."""
        line = self._lines.get(name)
        if line is None or not line.is_rate_limited or line.circuit.opened_until is None:
            return None
        return max(line.circuit.opened_until - time.monotonic(), 0.0)

    @classmethod
    def from_settings(cls, settings: Settings, metrics: Metrics, tracing: Tracing) -> "EndpointCaller":
        """Return a caller with the keys and hosts of the environment, and of the environment file.

        Raises ValueError or OSError for an invalid file.
        """
        hosts, path = settings.callable_hosts(), settings.endpoint_env_file
        if path is None:
            return cls(SsrfGuard(hosts), metrics, tracing=tracing)
        file = EnvironmentFile(path)

        def refresh_hosts() -> Sequence[str] | None:
            return (*hosts, *file.hosts) if file.refresh_values() else None

        guard = SsrfGuard((*hosts, *file.hosts))
        return cls(guard, metrics, ChainMap(file.values, dict(os.environ)), tracing, refresh_hosts)

    def require_callable_endpoint(self, endpoint: Endpoint) -> None:
        """Raise InvalidRequest if an endpoint's host is not allowed, or must not get its key."""
        self.refresh_environment()
        self._hosts.check_url(endpoint.url)
        self._hosts.check_secret_host(endpoint.url, endpoint.secret)

    def refresh_environment(self) -> None:
        """Apply the keys and hosts of the environment file, if it has changed."""
        patterns = self._refresh()
        if patterns is not None:
            self._transport.update_hosts(patterns)

    def secret_known(self, endpoint: Endpoint) -> bool | None:
        """Return whether the key of an endpoint is set; None if it needs no key."""
        self.refresh_environment()
        return None if endpoint.secret is None else bool(self._environ.get(endpoint.secret))

    async def call_endpoint(
        self, name: str, item: Any, within: float, stream: ChunkStream | None = None, client: str = ""
    ) -> CallResult:
        """Call an endpoint with an item.

        Args:
            within: time limit in seconds; for a streamed answer, the time to its first chunk.
            stream: receives the chunks of a streamed answer.
            client: who sent the item.
        """
        samples = get_sample_count(self.get_endpoint(name), item)
        if samples > 1:
            calls = [self._ask(name, item, within, None, client) for _ in range(samples)]
            return take_majority_vote(await asyncio.gather(*calls))
        result = await self._ask(name, item, within, stream, client)
        if result.error is None and result.confidence is None and result.label is not None and not result.verdict:
            result = await self._judged(result, item, within - result.seconds)
        return result

    async def _ask(
        self, name: str, item: Any, within: float, stream: ChunkStream | None = None, client: str = ""
    ) -> CallResult:
        """Wait for a free slot of an endpoint, then call it."""
        self.refresh_environment()
        started, remaining, line = time.monotonic(), within, self._lines.get(name)
        if line is None:
            return CallResult(name, attempts=0, error=UNKNOWN)
        try:
            request = _request(line.endpoint, item, stream)
        except TemplateMismatch as error:
            return CallResult(name, attempts=0, error=str(error))
        try:
            if line.slots.locked():
                async with asyncio.timeout(within):
                    await line.slots.acquire()
                remaining = within - (time.monotonic() - started)
            else:
                await line.slots.acquire()  # at once
        except TimeoutError:
            return CallResult(name, attempts=0, error=f"no call was free within {within:.3g} s")
        try:
            with self.tracing.trace_call(name, line.endpoint, request.body) as traced:
                request = replace(request, headers=traced.headers) if traced.headers else request
                result = await self._in_slot(name, line, request, remaining, stream, client)
                traced.record_result(result)
        finally:
            line.slots.release()
        (line.answered if result.error is None else line.failed).inc()
        line.seconds.observe(result.seconds)
        return result

    async def _in_slot(
        self, name: str, line: _Line, request: EndpointRequest, within: float, stream: ChunkStream | None, client: str
    ) -> CallResult:
        """Call an endpoint within the time limits, and record the outcome in its circuit breaker."""
        started, attempts = time.monotonic(), CallAttempts()
        if not line.circuit.allows_call(started):
            return CallResult(name, attempts=0, error=CIRCUIT_OPEN)
        limit, probe = min(within, line.endpoint.timeout_s), line.circuit.record_start(started)
        outcome = _Outcome(CallResult(name), None)
        try:
            async with asyncio.timeout(limit) as timeout:
                first_limit = timeout.when()
                if request.on_chunk is not None and stream is not None:
                    request = replace(request, on_chunk=_extending(timeout, line.endpoint, stream))
                send = partial(self._transport.send_request, line.endpoint, request)
                response = await send_with_retries(send, line.endpoint.retries, attempts)
            outcome = _Outcome(_to_call_result(name, line.endpoint, response), False)
            line.refused_clients.clear()
        except TimeoutError:
            has_begun = timeout.when() != first_limit and stream is not None and time.monotonic() < stream.ends_at
            is_ill = True if has_begun or limit >= line.endpoint.timeout_s else None  # else the run had too little time
            seconds = time.monotonic() - started if has_begun else limit
            outcome = _Outcome(_timed_out(name, line.endpoint, seconds, attempts), is_ill)
        except CallFailed as error:
            outcome = _failed(name, line, error, client)
        finally:
            was_open = line.circuit.is_open
            line.circuit.record_end(time.monotonic(), outcome.is_ill, probe, outcome.rest_s)
        self._note_circuit(name, line, outcome, was_open)
        return replace(outcome.result, seconds=time.monotonic() - started, attempts=attempts.made)

    def _note_circuit(self, name: str, line: _Line, outcome: "_Outcome", was_open: bool) -> None:
        """Record in metrics and log whether the circuit is open, and the reason."""
        is_open, status = line.circuit.is_open, outcome.status
        line.is_open.set(is_open)
        if outcome.result.error is not None:
            line.open_reason = outcome.result.error
            line.is_rate_limited = status == RATE_LIMITED
        if is_open != was_open:
            logger.warning(
                "circuit breaker %s endpoint=%s error=%s", "open" if is_open else "closed", name, outcome.result.error
            )

    async def _judged(self, result: CallResult, item: Any, left: float) -> CallResult:
        """Return the result with the confidence from the endpoint's judge."""
        endpoint = self.get_endpoint(result.name)
        judge = endpoint.judge if isinstance(endpoint, ChatEndpoint) else None
        if judge is None or judge == result.name or left <= 0:
            return result
        judged = await self._ask(judge, {"item": item, "answer": result.text or result.label}, left)
        costs = [each for each in (result.cost, judged.cost) if each is not None]
        return replace(
            result,
            confidence=judged.confidence,
            cost=sum(costs) if costs else None,
            seconds=result.seconds + judged.seconds,
            tokens=(result.tokens[0] + judged.tokens[0], result.tokens[1] + judged.tokens[1]),
        )


@dataclass(frozen=True, slots=True)
class _Outcome:
    """A call's result, whether the endpoint failed, and for how long not to call it.

    ``is_ill`` is None if it is unknown whether the endpoint failed.
    """

    result: CallResult
    is_ill: bool | None
    rest_s: float | None = None

    @property
    def status(self) -> int | None:
        return None if self.result.provider_error is None else self.result.provider_error.status


def _extending(timeout: asyncio.Timeout, endpoint: Endpoint, stream: ChunkStream) -> OnChunk:
    """Return a chunk receiver that extends the time limit at each chunk."""
    assert isinstance(endpoint, ChatEndpoint)
    clock = asyncio.get_running_loop().time
    total = math.inf if endpoint.total_timeout_s is None else clock() + endpoint.total_timeout_s
    ends_at = min(total, clock() + stream.ends_at - time.monotonic())

    def take(chunk: Mapping[str, Any]) -> None:
        if not timeout.expired():
            timeout.reschedule(min(clock() + endpoint.piece_timeout_s, ends_at))
        stream.take(chunk)

    return take


def _timed_out(name: str, endpoint: Endpoint, seconds: float, attempts: CallAttempts) -> CallResult:
    """Return the result of a call without a complete answer."""
    why = f" ({attempts.last_error})" if attempts.last_error else ""
    cost = least_cost(endpoint) if attempts.made else None
    return CallResult(
        name, error=f"no answer within {max(seconds, 0.0):.3g} s{why}", cost=cost, is_paid=bool(attempts.made)
    )


def _failed(name: str, line: _Line, error: CallFailed, client: str) -> _Outcome:
    """Return the outcome of a failed call."""
    is_paid, rest_s = not error.is_free, error.rest_s
    cost = least_cost(line.endpoint) if is_paid and error.cost is None else error.cost
    if error.reply is not None and error.reply.status == BAD_REQUEST and error.reply.code != TOO_LONG:
        line.refused_clients.add(client)
        rest_s = OPEN_CIRCUIT_S if len(line.refused_clients) >= MAX_REFUSED_CLIENTS else rest_s
    result = CallResult(
        name, error=str(error), cost=cost, is_paid=is_paid, is_refused=error.refuses, provider_error=error.reply
    )
    return _Outcome(result, True if error.blames or rest_s is not None else None, rest_s)


def _request(endpoint: Endpoint, item: Any, stream: ChunkStream | None) -> EndpointRequest:
    """Return the request for an item.

    Raises TemplateMismatch if the item does not fit the endpoint's template, or cannot be encoded.
    """
    try:
        request = protocols.build_request(endpoint, item)
        if stream is not None and isinstance(endpoint, ChatEndpoint):
            request = with_stream(endpoint, request, stream.take)
        return request.with_encoded_body()
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(error, TemplateMismatch):
            raise
        raise TemplateMismatch("the item must be JSON with numbers of at most 64 bits and limited depth") from error


def _to_call_result(name: str, endpoint: Endpoint, response: ParsedResponse) -> CallResult:
    return CallResult(
        name,
        label=response.label,
        confidence=response.confidence,
        scores=response.scores,
        values=response.values,
        cost=price_call(endpoint, response),
        text=response.text,
        tokens=(response.input_tokens or 0, response.output_tokens or 0),
        is_paid=True,
        verdict=response.verdict,
        reply=response.reply,
    )
