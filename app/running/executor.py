"""Executes a runner: makes its calls, concurrently within a step."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from app.running.endpoint_caller import ChunkStream, EndpointCaller
from app.running.protocols.message import Chat
from models import InvalidRequest
from models.endpoint import ChatEndpoint, ProbeReply
from models.errors import EndpointFailed, Fault, ProviderRefused
from models.run import Run, RunStep, Spent
from parsimony.runs.steps import Call, CallResult, CallResults, RunAnswer
from solvers.running import Runner

MAX_BUFFERED_CHUNKS = 4096
"""Chunks that are kept of a call whose answer may be escalated; the endpoint limits their size."""


@dataclass(frozen=True, slots=True)
class CallPricing:
    """Costs of calls whose endpoint does not report a cost.

    Attributes:
        planned_cost: expected cost by name.
        unit: the artifact's unit of cost.
        unit_s: seconds per ``unit``; None if ``unit`` is not a unit of time.
    """

    planned_cost: Callable[[str], float]
    unit: str
    unit_s: float | None

    def cost_of(self, result: CallResult) -> float:
        """Return the cost of a call, in the artifact's unit.

        It is the reported cost. Otherwise, it is the duration if the unit is a unit of time; else the planned cost,
        with set-up groups, if the call may have been paid; else 0.
        """
        if result.cost is not None:
            return result.cost
        if not result.attempts:
            return 0.0
        if self.unit_s is not None:
            return result.seconds / self.unit_s
        return self.planned_cost(result.name) + result.setup_cost if result.is_paid else 0.0


@dataclass(slots=True)
class RunProgress:
    """Progress of a run, which can also be read after the run has failed.

    Attributes:
        facts: additional fields of the reply, once the decision is made.
        started_calls: names of started calls, in order.
        results: results of calls, including those before the decision.
        embedding: the computed embedding of the item; None if it was sent or is not needed.
        charged: number of results that an earlier attempt has already charged to budgets.
        headers: headers of the reply.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    started_calls: list[str] = field(default_factory=list)
    results: list[CallResult] = field(default_factory=list)
    embedding: tuple[float, ...] | None = None
    charged: int = 0
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class CompletedRun:
    """A completed run: the answer, the call results, and the duration in seconds."""

    answer: RunAnswer
    results: list[CallResult]
    seconds: float


@dataclass(slots=True)
class StreamRelay:
    """Passes the chunks of the last call on, and holds those of an answer that may be escalated until it is accepted.

    Beyond ``MAX_BUFFERED_CHUNKS``, all held chunks are dropped, and the answer is sent as a whole.
    """

    stream: ChunkStream | None
    has_streamed: bool = False
    chunks: list[Mapping[str, Any]] = field(default_factory=list)
    count: int = 0

    def make_receiver(self, call: Call) -> ChunkStream | None:
        """Return the receiver of a call's chunks; None without a stream, or if several calls would mix their chunks."""
        self.chunks, self.count = [], 0
        if self.stream is None or (len(call.names) > 1 and not call.is_last):
            return None
        return replace(self.stream, take=self._pass_on if call.is_last else self._hold)

    def _pass_on(self, chunk: Mapping[str, Any]) -> None:
        assert self.stream is not None
        self.has_streamed = True
        self.stream.take(chunk)

    def _hold(self, chunk: Mapping[str, Any]) -> None:
        self.count += 1
        if self.count <= MAX_BUFFERED_CHUNKS:
            self.chunks.append(chunk)
        else:
            self.chunks.clear()

    def require_complete(self, result: CallResult) -> None:
        """Raise EndpointFailed if the answer ended after parts of it were sent."""
        if self.has_streamed and result.error is not None:
            raise EndpointFailed(f"the stream of {result.name} was interrupted: {result.error}")

    def release_chunks(self) -> None:
        """Send the held chunks, in order."""
        if self.stream is not None:
            for chunk in self.chunks:
                self.stream.take(chunk)
        self.chunks.clear()


async def execute_run(
    runner: Runner,
    caller: EndpointCaller,
    item: Any,
    ends_at: float,
    *,
    off_loop: bool,
    progress: RunProgress,
    stream: ChunkStream | None = None,
    client: str = "",
) -> CompletedRun:
    """Execute a runner to its end; raises the runner's errors.

    If the caller is canceled, all calls are canceled.

    Args:
        ends_at: deadline on the clock ``time.monotonic``.
        off_loop: whether to run slow steps in a thread.
        progress: updated during the run.
        stream: receives the chunks of the final answer. They are sent as they arrive if the call is the last one, else
            once the answer is accepted. If the answer of the last call is interrupted, the run ends.
        client: who sent the item.
    Raises:
        ProviderRefused: a language model's provider rejects the chat request itself.
        InvalidRequest: several answers are requested, and the first one may be escalated.
    """
    started = time.monotonic()
    relay = StreamRelay(stream)
    following = await _advance(partial(next, runner), off_loop=off_loop)
    while isinstance(following, Call):
        _refuse_many_answers(item, following)
        remaining = max(min(following.timeout_s, ends_at - time.monotonic()), 0.0)
        receiver = relay.make_receiver(following)
        progress.started_calls += following.names
        calls = [caller.call_endpoint(name, item, remaining, receiver, client) for name in following.names]
        results = [await calls[0]] if len(calls) == 1 else await asyncio.gather(*calls)
        progress.results += results
        relay.require_complete(results[0])
        _raise_rejection(item, caller, results)
        back = CallResults(tuple(results), ends_at - time.monotonic())
        following = await _advance(partial(runner.send, back), off_loop=off_loop)
    if following.answered_by in progress.started_calls[-1:]:
        relay.release_chunks()
    return CompletedRun(following, progress.results, time.monotonic() - started)


async def _advance(step: Callable[[], Call], *, off_loop: bool) -> Call | RunAnswer:
    """Take a step of a runner, in a thread if it may be slow."""
    return await asyncio.to_thread(_take_step, step) if off_loop else _take_step(step)


def _take_step(step: Callable[[], Call]) -> Call | RunAnswer:
    """Return the next call, or the answer; StopIteration must not pass a thread or a coroutine."""
    try:
        return step()
    except StopIteration as end:
        answer: RunAnswer = end.value
        return answer


def _refuse_many_answers(item: Any, call: Call) -> None:
    """Raise InvalidRequest for a chat that requests several answers from a judged call."""
    if isinstance(item, Chat) and item.has_many_answers and not call.is_last:
        reason = f"must be 1, got {item.options['n']}: the answer of {call.names[0]} may be escalated"
        raise InvalidRequest.from_faults(Fault(("n",), reason))


def _raise_rejection(item: Any, caller: EndpointCaller, results: list[CallResult]) -> None:
    """Raise ProviderRefused if a provider rejects a chat that no other model would accept."""
    for one in results if isinstance(item, Chat) else ():
        reply = one.provider_error if one.is_refused else None
        if reply is not None and isinstance(caller.get_endpoint(one.name), ChatEndpoint):
            raise ProviderRefused(reply.message or f"{one.name} answered {reply.status}", reply)


def to_run(ran: CompletedRun, tariff: CallPricing, item_id: str | None) -> Run:
    """Return the API's representation of a completed run."""
    steps = to_run_steps(ran.results, tariff, ran.answer.answered_by)
    spent = Spent(cost=sum(step.cost for step in steps), seconds=ran.seconds, unit=tariff.unit)
    answer = ran.answer
    return Run(
        label=answer.label,
        confidence=answer.confidence,
        probabilities=answer.probabilities,
        steps=steps,
        spent=spent,
        degraded=answer.degraded,
        id=item_id,
    )


def to_probe_reply(result: CallResult) -> ProbeReply:
    """Return the API's reply to a probe."""
    return ProbeReply(**{field: getattr(result, field) for field in ProbeReply.model_fields if field != "warnings"})


def to_run_steps(results: list[CallResult], tariff: CallPricing, accepted: str | None) -> tuple[RunStep, ...]:
    """Return the API's representation of a run's calls."""
    return tuple(
        RunStep(
            classifier=one.name,
            label=one.label,
            confidence=one.confidence,
            accepted=one.error is None and one.name == accepted,
            cost=tariff.cost_of(one),
            seconds=one.seconds,
            attempts=one.attempts,
            tokens=one.tokens,
            error=one.error,
        )
        for one in results
    )
