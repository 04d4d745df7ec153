"""Drives a runner: makes its calls, those of a step concurrently, and sends the results back."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from app.running.caller import Caller
from models.endpoint import ProbeReply
from models.errors import EndpointFailed
from models.run import Run, RunStep, Spent
from solvers.running import Call, CallResult, CallResults, RunAnswer, Runner

OnText = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CallPricing:
    """Costs of calls whose endpoint reports none.

    Attributes:
        planned_cost: the expected cost, by name.
        unit: the artifact's unit of cost.
        unit_s: seconds of a unit; None if it is not a unit of time.
    """

    planned_cost: Callable[[str], float]
    unit: str
    unit_s: float | None

    def cost_of(self, heard: CallResult) -> float:
        """Return the cost of a call: as reported, else its duration, else the planned cost, if it may have been
        paid."""
        if heard.cost is not None:
            return heard.cost
        if not heard.attempts:
            return 0.0
        if self.unit_s is not None:
            return heard.seconds / self.unit_s
        return self.planned_cost(heard.name) if heard.is_paid else 0.0


@dataclass(slots=True)
class RunProgress:
    """The progress of a run.

    Attributes:
        facts: further fields of the reply, once it is decided.
        started_calls: names that are or were called, in order.
        results: results of calls, those before the decision included.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    started_calls: list[str] = field(default_factory=list)
    results: list[CallResult] = field(default_factory=list)


@dataclass(slots=True)
class CompletedRun:
    """A completed run: the answer, the results of its calls, and its seconds."""

    answer: RunAnswer
    results: list[CallResult]
    seconds: float


async def drive_runner(
    runner: Runner,
    caller: Caller,
    item: Any,
    ends_at: float,
    *,
    off_loop: bool,
    progress: RunProgress,
    on_text: OnText | None = None,
) -> CompletedRun:
    """Drive a runner to its end; raises what it raises, and cancels its calls when it is cancelled itself.

    ends_at: when its time is over, on the clock ``time.monotonic``. off_loop: whether steps run in a thread, because
    they are slow. progress: updated during the run, so that it is known if the run fails. on_text: receives the pieces
    of the final answer; an interrupted answer ends the run.
    """
    started = time.monotonic()
    sent: list[str] = []

    def pass_on(text: str) -> None:
        sent.append(text)
        if on_text is not None:
            on_text(text)

    def begin() -> Call:
        return next(runner)

    async def advance(step: Callable[[], Call]) -> Call | RunAnswer:
        try:
            return await asyncio.to_thread(_stepped, step) if off_loop else _stepped(step)
        except _Ended as end:
            return end.answer

    following = await advance(begin)
    while isinstance(following, Call):
        within = min(following.timeout_s, ends_at - time.monotonic())
        names = following.names
        takes = pass_on if following.is_last and on_text is not None else None
        progress.started_calls += names
        calls = [caller.call_endpoint(name, item, max(within, 0.0), takes) for name in names]
        results = [await calls[0]] if len(calls) == 1 else await asyncio.gather(*calls)
        progress.results += results
        if sent and results[0].error is not None:
            raise EndpointFailed(f"the answer of {names[0]} broke off: {results[0].error}")
        back = CallResults(tuple(results), ends_at - time.monotonic())
        following = await advance(lambda back=back: runner.send(back))  # type: ignore[misc]  # mypy knows no such default
    return CompletedRun(following, progress.results, time.monotonic() - started)


class _Ended(Exception):
    """A runner ended: StopIteration may not pass a thread or a coroutine."""

    def __init__(self, answer: RunAnswer) -> None:
        super().__init__()
        self.answer = answer


def _stepped(step: Callable[[], Call]) -> Call:
    try:
        return step()
    except StopIteration as end:
        raise _Ended(end.value) from None


def to_run(ran: CompletedRun, tariff: CallPricing, item_id: str | None) -> Run:
    """Make the reply of a run."""
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


def to_probe_reply(heard: CallResult) -> ProbeReply:
    """Make the reply of a probe."""
    return ProbeReply(**{field: getattr(heard, field) for field in ProbeReply.model_fields if field != "warnings"})


def to_run_steps(heard: list[CallResult], tariff: CallPricing, taken: str | None) -> tuple[RunStep, ...]:
    """Make the reply's steps of a run."""
    return tuple(
        RunStep(
            classifier=one.name,
            label=one.label,
            confidence=one.confidence,
            accepted=one.error is None and one.name == taken,
            cost=tariff.cost_of(one),
            seconds=one.seconds,
            attempts=one.attempts,
            error=one.error,
        )
        for one in heard
    )
