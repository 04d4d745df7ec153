"""Calls endpoints: each one's limits, tries again where nothing can have been paid, circuits that open.

A call ends in a result or an error message, never in an exception: a run continues without it.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import random
from typing import Any

from prometheus_client import Counter, Gauge, Histogram
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)
from tenacity.wait import wait_base

from app.observability.metrics import Metrics
from app.running import protocols
from app.running.circuit_breaker import CircuitBreaker
from app.running.protocols.message import ParsedResponse, Request
from app.running.protocols.openai_chat import with_stream
from app.running.ssrf_guard import SsrfGuard
from app.running.templates import WrongShape
from app.running.transport import CallFailed, Transport, least_cost, price_call
from models.endpoint import ChatEndpoint, CircuitState, Endpoint
from solvers.running import CallResult

logger = logging.getLogger("parsimony.endpoints")
OPEN = "its circuit is open"
UNKNOWN = "no endpoint has this name"
OnText = Callable[[str], None]


@dataclass(slots=True)
class _Line:
    """What is kept of an endpoint while the process lives."""

    endpoint: Endpoint
    slots: asyncio.Semaphore
    answered: Counter
    failed: Counter
    seconds: Histogram
    is_open: Gauge
    circuit: CircuitBreaker = field(default_factory=CircuitBreaker)


class Caller:
    """Calls endpoints by name; made and closed on the event loop that it is used on."""

    def __init__(self, hosts: SsrfGuard, metrics: Metrics, environ: Mapping[str, str] = os.environ) -> None:
        self._transport, self._metrics, self._environ = Transport(hosts, environ), metrics, environ
        self._lines: dict[str, _Line] = {}
        self._followed: Mapping[str, Endpoint] = {}

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    def update_endpoints(self, endpoints: Mapping[str, Endpoint]) -> None:
        """Take over what is registered; an endpoint that changed begins anew."""
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
        """Begin to keep what there is to keep, with the endpoint's series, which take long to look up."""
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
            self._metrics.circuit.labels(name).set(0)

    def get_endpoint(self, name: str) -> Endpoint | None:
        """Give an endpoint; None if none has this name."""
        line = self._lines.get(name)
        return None if line is None else line.endpoint

    def circuit_state(self, name: str) -> CircuitState:
        """Return the state of an endpoint's circuit breaker."""
        line = self._lines.get(name)
        return "closed" if line is None else line.circuit.state_at(time.monotonic())

    def open_circuits(self) -> frozenset[str]:
        """List the endpoints that must not be called now; every look-up asks, and nearly always there are none."""
        opened = [(name, line.circuit) for name, line in self._lines.items() if line.circuit.opened_at is not None]
        now = time.monotonic()
        return frozenset(name for name, circuit in opened if not circuit.allows_call(now))

    def secret_known(self, endpoint: Endpoint) -> bool | None:
        """Return whether the key of an endpoint is set; None if it needs none."""
        return None if endpoint.secret is None else bool(self._environ.get(endpoint.secret))

    async def call_endpoint(self, name: str, item: Any, within: float, on_text: OnText | None = None) -> CallResult:
        """Call an endpoint with an item, for so many seconds at most. on_text: takes the answer's pieces while they
        come, where they do."""
        heard = await self._ask(name, item, within, on_text)
        if heard.error is None and heard.confidence is None and heard.label is not None:
            heard = await self._judged(heard, item, within - heard.seconds)
        return heard

    async def _ask(self, name: str, item: Any, within: float, on_text: OnText | None = None) -> CallResult:
        """Wait for one of the endpoint's slots, and call it."""
        started, remaining, line = time.monotonic(), within, self._lines.get(name)
        if line is None:
            return CallResult(name, attempts=0, error=UNKNOWN)
        try:
            request = _request(line.endpoint, item, on_text)
        except WrongShape as error:
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
            heard = await self._in_slot(name, line, request, remaining)
        finally:
            line.slots.release()
        (line.answered if heard.error is None else line.failed).inc()
        line.seconds.observe(heard.seconds)
        return heard

    async def _in_slot(self, name: str, line: _Line, request: Request, within: float) -> CallResult:
        """Call for as long as it may take, and note in the circuit what became of it."""
        started, tries = time.monotonic(), _Tries()
        if not line.circuit.allows_call(started):
            return CallResult(name, attempts=0, error=OPEN)
        limit, probe = min(within, line.endpoint.timeout_s), line.circuit.record_start(started)
        is_ill: bool | None = None
        try:
            async with asyncio.timeout(limit):
                response = await self._tried(line.endpoint, request, tries)
            heard, is_ill = _heard(name, line.endpoint, response), False
        except TimeoutError:
            is_ill = True if limit >= line.endpoint.timeout_s else None  # else the run had no time, and it may be well
            why = f" ({tries.failed})" if tries.failed else ""
            cost = least_cost(line.endpoint) if tries.made else None
            error_text = f"no answer within {max(limit, 0.0):.3g} s{why}"
            heard = CallResult(name, error=error_text, cost=cost, is_paid=bool(tries.made))
        except CallFailed as error:
            is_ill = True if error.blames else None
            paid = not error.again
            cost = least_cost(line.endpoint) if paid and error.cost is None else error.cost
            heard = CallResult(name, error=str(error), cost=cost, is_paid=paid, is_refused=error.refuses)
        finally:
            was_open = line.circuit.opened_at is not None
            line.circuit.record_end(time.monotonic(), is_ill, probe)
        is_open = line.circuit.opened_at is not None
        line.is_open.set(is_open)
        if is_open != was_open:
            logger.warning("endpoint %s: its circuit is %s", name, f"open: {heard.error}" if is_open else "closed")
        return replace(heard, seconds=time.monotonic() - started, attempts=tries.made)

    async def _tried(self, endpoint: Endpoint, request: Request, tries: "_Tries") -> ParsedResponse:
        """Try, and try again where that failed and nothing can have been paid."""
        try:
            return await self._sent(endpoint, request, tries)
        except CallFailed as error:
            if not error.again or endpoint.retries.attempts == 1:
                raise
            await asyncio.sleep(max(error.wait_s, endpoint.retries.backoff_s * (1 + random())))
        again = AsyncRetrying(
            stop=stop_after_attempt(endpoint.retries.attempts - 1),
            wait=_Wait(2 * endpoint.retries.backoff_s),
            retry=retry_if_exception(lambda error: isinstance(error, CallFailed) and error.again),
            reraise=True,
        )
        response: ParsedResponse = await again(self._sent, endpoint, request, tries)
        return response

    async def _sent(self, endpoint: Endpoint, request: Request, tries: "_Tries") -> ParsedResponse:
        tries.made += 1
        try:
            return await self._transport.send_request(endpoint, request)
        except CallFailed as error:
            tries.failed = str(error)
            raise

    async def _judged(self, heard: CallResult, item: Any, left: float) -> CallResult:
        """Let an endpoint's judge rate the confidence of its answer."""
        endpoint = self.get_endpoint(heard.name)
        judge = endpoint.judge if isinstance(endpoint, ChatEndpoint) else None
        if judge is None or judge == heard.name or left <= 0:
            return heard
        judged = await self._ask(judge, {"item": item, "answer": heard.text or heard.label}, left)
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
    """How often a call was tried, and why the last try failed."""

    made: int = 0
    failed: str = ""


class _Wait(wait_base):
    """Exponential backoff with jitter, and at least the Retry-After of a reply."""

    def __init__(self, first_s: float) -> None:
        self._usual = wait_exponential(multiplier=first_s, max=60.0) + wait_random(0.0, first_s)

    def __call__(self, retry_state: RetryCallState) -> float:
        waited = self._usual(retry_state)
        error = retry_state.outcome.exception() if retry_state.outcome else None
        return max(waited, error.wait_s) if isinstance(error, CallFailed) else waited


def _request(endpoint: Endpoint, item: Any, on_text: OnText | None) -> Request:
    """Make the request for an item; raises WrongShape for one that the endpoint's template does not fit, or that
    cannot be written."""
    try:
        request = protocols.build_request(endpoint, item)
        if on_text is not None and isinstance(endpoint, ChatEndpoint):
            request = with_stream(endpoint, request, on_text)
        return request.with_encoded_body()
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(error, WrongShape):
            raise
        raise WrongShape("the item cannot be written as JSON: a number of over 64 bits, or too deep") from error


def _heard(name: str, endpoint: Endpoint, response: ParsedResponse) -> CallResult:
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
    )
