"""Runs as state machines: generators that yield calls and receive their results.

A *runner* yields a ``Call`` and receives ``CallResults``, until it returns a ``RunAnswer``. It is deterministic,
without I/O, clock, or random numbers. Times are in seconds; costs in the artifact's unit.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from models.errors import EndpointFailed, ProviderError, RunTimeout

Verdict = Literal["accept", "escalate"]
"""What an answer's kind decides, whatever its confidence: a refusal is accepted, a truncated answer escalated."""
COARSE_S = 0.01
"""Precision of timers, in seconds."""


@dataclass(frozen=True, slots=True)
class Call:
    """Endpoints to call concurrently.

    Attributes:
        names: names of the endpoints.
        timeout_s: time limit in seconds.
        is_last: whether the call is final, so that its response may be streamed.
    """

    names: tuple[str, ...]
    timeout_s: float
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class CallResult:
    """Result of one call; empty with an error. cost: None if unknown."""

    name: str
    label: str | None = None
    confidence: float | None = None
    scores: dict[str, float] | None = None
    values: tuple[float | None, ...] | None = None
    cost: float | None = None
    seconds: float = 0.0
    attempts: int = 1
    error: str | None = None
    text: str | None = None
    """The raw answer, if the label is read from a text."""
    is_paid: bool = False
    """Whether the call was, or may have been, paid."""
    tokens: tuple[int, int] = (0, 0)
    """Input and output tokens, if reported."""
    is_refused: bool = False
    """Whether the endpoint rejected this request; it may accept others."""
    verdict: Verdict | None = None
    """What the kind of the answer decides; None: the confidence decides."""
    reply: Mapping[str, Any] | None = None
    """The complete reply of a language model."""
    provider_error: ProviderError | None = None
    """The error reply, if there was one."""


@dataclass(frozen=True, slots=True)
class CallResults:
    """Results of a call, in the order of its names, and the remaining seconds of the run."""

    results: tuple[CallResult, ...]
    remaining_seconds: float


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """Answer of a run.

    Attributes:
        answered_by: name of the answering classifier; None if combined.
        degraded: classifiers that failed or were excluded, with reasons.
    """

    label: str | None
    confidence: float | None = None
    answered_by: str | None = None
    probabilities: dict[str, float] | None = None
    degraded: str | None = None
    text: str | None = None


Runner = Generator[Call, CallResults, RunAnswer]


@dataclass(slots=True)
class ResultsSoFar:
    """Results collected so far, for a run that must end early."""

    results: list[CallResult] = field(default_factory=list)

    @property
    def failures(self) -> str | None:
        """Failed calls and their errors; None if none failed."""
        failed = [f"{one.name}: {one.error}" for one in self.results if one.error is not None]
        return "; ".join(failed) or None

    def most_confident(self, remaining_seconds: float, why: str = "") -> RunAnswer:
        """Return the most confident answer; raises RunTimeout or EndpointFailed without one."""
        answered = [one for one in self.results if one.label is not None]
        reasons = "; ".join(filter(None, (why, self.failures)))
        if not answered:
            raise no_answer_error(remaining_seconds, reasons or "no calls were made")
        best = max(answered, key=lambda one: -1.0 if one.confidence is None else one.confidence)
        return accept_result(best, reasons or None)


def call_one(name: str, remaining_seconds: float, degraded: str | None = None) -> Runner:
    """Run an item with one classifier; raises RunTimeout or EndpointFailed if it does not answer."""
    outcome = yield Call((name,), remaining_seconds, is_last=True)
    (result,) = outcome.results
    if result.label is None:
        reasons = filter(None, (degraded, f"{name}: {result.error}"))
        raise no_answer_error(outcome.remaining_seconds, "; ".join(reasons))
    return accept_result(result, degraded)


def no_answer_error(remaining_seconds: float, why: str) -> EndpointFailed:
    """Return the error of a run without an answer: RunTimeout if less than ``COARSE_S`` remains."""
    error = RunTimeout if remaining_seconds < COARSE_S else EndpointFailed
    return error(f"no answer: {why}")


def accept_result(result: CallResult, degraded: str | None) -> RunAnswer:
    """Return the run's answer from the accepted call."""
    return RunAnswer(result.label, result.confidence, result.name, result.scores, degraded, result.text)
