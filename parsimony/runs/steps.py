"""Steps of runs: generators that yield calls and questions, and receive their results.

A run is deterministic, without I/O, clock, or random numbers. It yields a ``Call`` and receives ``CallResults``, or a
``DecisionRequest`` or a ``Predict``, and receives the fields of a decision or a prediction, or a ``Refusal``. It
returns a ``RunAnswer``. Times are in seconds; costs in the artifact's unit.
"""

from collections.abc import Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["accept", "escalate"]
"""What an answer's kind decides, whatever its confidence: a refusal is accepted, a truncated answer escalated."""
REJECT = "reject"
"""Name that stands for the person who answers rejected items."""
CLOCK_TOLERANCE_S = 0.01
"""Precision of timers, in seconds."""
OUT_OF_TIME = "the deadline has passed"
CIRCUIT_OPEN = "its circuit is open"


@dataclass(frozen=True, slots=True)
class Call:
    """Endpoints or functions to call concurrently.

    Attributes:
        names: their names.
        timeout_s: time limit in seconds.
        is_last: whether the call is final, so that its response may be streamed.
        planned_cost: expected cost of the calls together.
    """

    names: tuple[str, ...]
    timeout_s: float
    is_last: bool = False
    planned_cost: float = 0.0


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """Request the next decision on the item.

    Attributes:
        acquired: values by feature or sensor.
        excluded: names that must not be called.
        lost: possible cost of failed calls, by which the item's hard limit is reduced.
        must_stop: whether nothing else may be called.
    """

    acquired: Mapping[str, Any] = field(default_factory=dict)
    excluded: frozenset[str] = frozenset()
    lost: float = 0.0
    must_stop: bool = False


@dataclass(frozen=True, slots=True)
class Predict:
    """Classify the item by the artifact's model, given the values of some features, each as a tuple of cells."""

    values: Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A ``DecisionRequest`` or ``Predict`` without a result.

    Attributes:
        reason: why.
        invalid: features or sensors whose values are invalid.
    """

    reason: str
    invalid: frozenset[str] = frozenset()


def refusal_from_values(reason: str, sent: Collection[str], places: Iterable[Iterable[Any]]) -> Refusal:
    """Return a refusal that names the sent values at the places of errors.

    >>> refusal_from_values("acquired.age: must be a number", ["age", "blood"], [("acquired", "age")]).invalid
    frozenset({'age'})
    """
    return Refusal(reason, frozenset(sent).intersection(part for place in places for part in place))


@dataclass(slots=True)  # not frozen, which would take most of the time of a step
class CallResult:
    """Result of one call; empty with an error. cost: None if unknown."""

    name: str
    label: str | None = None
    confidence: float | None = None
    scores: dict[str, float] | None = None
    values: tuple[Any, ...] | None = None
    """Cells of a feature: numbers, or categories; None: missing."""
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
    provider_error: Any = None
    """The error reply, if there was one."""
    setup_cost: float = 0.0
    """Planned cost of the set-up groups that this call is the first to need, in addition to its own planned cost."""

    @property
    def cells(self) -> tuple[Any, ...]:
        """A feature's cells, or its category; () if it failed."""
        if self.values is not None:
            return self.values
        return () if self.label is None else (self.label,)


@dataclass(frozen=True, slots=True)
class CallResults:
    """Results of a call, in the order of its names, and the remaining seconds of the run."""

    results: tuple[CallResult, ...]
    remaining_seconds: float


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """Answer of a run.

    Attributes:
        label: None: rejected.
        answered_by: name of the answering classifier; None if combined.
        degraded: classifiers that failed or were excluded, with reasons.
    """

    label: str | None
    confidence: float | None = None
    answered_by: str | None = None
    probabilities: dict[str, float] | None = None
    degraded: str | None = None
    text: str | None = None


Steps = Generator[Call | DecisionRequest | Predict, Any, RunAnswer]


class NoAnswer(Exception):
    """A run ended without an answer.

    Attributes:
        is_late: whether less than ``CLOCK_TOLERANCE_S`` remained.
    """

    def __init__(self, why: str, remaining_seconds: float) -> None:
        super().__init__(f"no answer: {why}")
        self.is_late = remaining_seconds < CLOCK_TOLERANCE_S


@dataclass(slots=True)
class CollectedResults:
    """Results collected so far."""

    results: list[CallResult] = field(default_factory=list)

    @property
    def failures(self) -> str | None:
        """Failed calls and their errors; None if none failed."""
        return join_reasons(*(f"{one.name}: {one.error}" for one in self.results if one.error is not None))

    def mark_invalid(self, names: Collection[str], reason: str) -> None:
        """Count calls as failed whose values were found invalid."""
        for one in self.results:
            if one.name in names and one.error is None:
                one.error = f"invalid value: {reason}"

    def most_confident(self, remaining_seconds: float, why: str | None = None) -> RunAnswer:
        """Return the most confident answer; raises NoAnswer without one."""
        answered = [one for one in self.results if one.label is not None]
        reasons = join_reasons(why, self.failures)
        if not answered:
            raise NoAnswer(reasons or "no calls were made", remaining_seconds)
        best = max(answered, key=lambda one: -1.0 if one.confidence is None else one.confidence)
        return accept_result(best, reasons)


def run_single_classifier(name: str, remaining_seconds: float, degraded: str | None = None) -> Steps:
    """Run an item with one classifier; raises NoAnswer if it does not answer."""
    outcome = yield Call((name,), remaining_seconds, is_last=True)
    (result,) = outcome.results
    if result.label is None:
        why = join_reasons(degraded, f"{name}: {result.error}")
        raise NoAnswer(why or name, outcome.remaining_seconds)
    return accept_result(result, degraded)


def accept_result(result: CallResult, degraded: str | None) -> RunAnswer:
    """Return the run's answer from the accepted call."""
    return RunAnswer(result.label, result.confidence, result.name, result.scores, degraded, result.text)


def join_reasons(*reasons: str | None) -> str | None:
    """Join reasons, each once; None without any."""
    return "; ".join(dict.fromkeys(filter(None, reasons))) or None


def make_skipped_result(name: str) -> CallResult:
    """Return the result of a call that is not made, because its circuit breaker is open."""
    return CallResult(name, attempts=0, error=CIRCUIT_OPEN)
