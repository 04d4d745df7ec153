"""Drives a runner: makes the calls it asks for, those of a step at the same time, and hands back what was said."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from app.running.caller import Caller
from models.endpoint import ProbeReply
from models.errors import EndpointFailed
from models.run import Run, RunStep, Spent
from solvers.running import Answer, Call, CallResult, CallResults, Runner

OnText = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CallPricing:
    """How the costs of calls are reckoned where no endpoint tells them. planned: by name; unit_s: seconds of a unit,
    None where the artifact's unit is none of time."""

    planned_cost: Callable[[str], float]
    unit: str
    unit_s: float | None

    def cost_of(self, heard: CallResult) -> float:
        """Give what a call cost: as told, else how long it took, else what was planned, if it may have been paid."""
        if heard.cost is not None:
            return heard.cost
        if not heard.attempts:
            return 0.0
        if self.unit_s is not None:
            return heard.seconds / self.unit_s
        return self.planned_cost(heard.name) if heard.is_paid else 0.0


@dataclass(slots=True)
class RunProgress:
    """What is known of a run while it goes on. facts: what the reply says beside it, once it is decided. begun: what is
    or was called, in order. heard: what calls have told, those made before the decision among them."""

    facts: dict[str, Any] = field(default_factory=dict)
    started_calls: list[str] = field(default_factory=list)
    results: list[CallResult] = field(default_factory=list)


@dataclass(slots=True)
class CompletedRun:
    """A run as it went."""

    answer: Answer
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

    ends_at: when its time is over, on the clock ``time.monotonic``. off_loop: whether a step takes so long that others
    would wait for it. progress: filled as the run goes on, so that it is known if it fails. on_text: takes the pieces
    of an answer that is taken whatever it says; one that then breaks off ends the run.
    """
    started = time.monotonic()
    sent: list[str] = []

    def pass_on(text: str) -> None:
        sent.append(text)
        if on_text is not None:
            on_text(text)

    def begin() -> Call:
        return next(runner)

    async def advance(step: Callable[[], Call]) -> Call | Answer:
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
        calls = [caller.call(name, item, max(within, 0.0), takes) for name in names]
        said = [await calls[0]] if len(calls) == 1 else await asyncio.gather(*calls)
        progress.results += said
        if sent and said[0].error is not None:
            raise EndpointFailed(f"the answer of {names[0]} broke off: {said[0].error}")
        back = CallResults(tuple(said), ends_at - time.monotonic())
        following = await advance(lambda back=back: runner.send(back))  # type: ignore[misc]  # mypy knows no such default
    return CompletedRun(following, progress.results, time.monotonic() - started)


class _Ended(Exception):
    """A runner ended: StopIteration may not pass a thread or a coroutine."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


def _stepped(step: Callable[[], Call]) -> Call:
    try:
        return step()
    except StopIteration as end:
        raise _Ended(end.value) from None


def to_run(ran: CompletedRun, tariff: CallPricing, item_id: str | None) -> Run:
    """Tell a run as replies do."""
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
    """Tell a call that was made to try an endpoint."""
    return ProbeReply(**{field: getattr(heard, field) for field in ProbeReply.model_fields if field != "warnings"})


def to_run_steps(heard: list[CallResult], tariff: CallPricing, taken: str | None) -> tuple[RunStep, ...]:
    """Tell the calls of a run."""
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
