"""Runs as state machines: what is to be called next, given what came back and how much time is left.

A *runner* is a generator: it yields a ``Call`` and is sent what came ``Back``, until it returns an ``Answer``. It does
no I/O, reads no clock and draws nothing: whoever calls does, so that the same replies always lead the same way.
Times are in seconds; costs in the artifact's unit.
"""

from collections.abc import Generator
from dataclasses import dataclass, field

from models.errors import EndpointFailed, RunTimeout

COARSE_S = 0.01


@dataclass(frozen=True, slots=True)
class Call:
    """What is to be called, all at the same time, and how many seconds it may take. is_last: whatever it answers is
    taken, so that it may be passed on while it comes."""

    names: tuple[str, ...]
    timeout_s: float
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class CallResult:
    """What one of them said; with an error it said nothing. cost: None where nobody knows it."""

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
    """The answer as it came, where the label is read from a text."""
    is_paid: bool = False
    """Whether it was, or may have been, paid."""
    tokens: tuple[int, int] = (0, 0)
    """Tokens that were sent and that came back, where the reply tells."""
    is_refused: bool = False
    """Whether the endpoint takes no such request: it was not answered, and another may be."""


@dataclass(frozen=True, slots=True)
class CallResults:
    """What all of a call said, in its order, and how many seconds are left."""

    results: tuple[CallResult, ...]
    remaining_seconds: float


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """The end of a run. taken: the name whose answer it is; None: combined. degraded: what was left out, and why."""

    label: str | None
    confidence: float | None = None
    answered_by: str | None = None
    probabilities: dict[str, float] | None = None
    degraded: str | None = None
    text: str | None = None


Runner = Generator[Call, CallResults, RunAnswer]


@dataclass(slots=True)
class ResultsSoFar:
    """What was said so far, for who has to give up."""

    results: list[CallResult] = field(default_factory=list)

    @property
    def failures(self) -> str | None:
        """Say what failed, and why; None: nothing did."""
        failed = [f"{one.name}: {one.error}" for one in self.results if one.error is not None]
        return "; ".join(failed) or None

    def most_confident(self, left: float, why: str = "") -> RunAnswer:
        """Give the most confident answer there is; raises RunTimeout or EndpointFailed if there is none."""
        said = [one for one in self.results if one.label is not None]
        reasons = "; ".join(filter(None, (why, self.failures)))
        if not said:
            raise no_answer_error(left, reasons or "nothing was called")
        best = max(said, key=lambda one: -1.0 if one.confidence is None else one.confidence)
        return accept_result(best, reasons or None)


def no_answer_error(left: float, why: str) -> EndpointFailed:
    """Make the error of a run without an answer: RunTimeout if its time is over, which timers tell to a hundredth of a
    second."""
    kind = RunTimeout if left < COARSE_S else EndpointFailed
    return kind(f"there is no answer: {why}")


def accept_result(heard: CallResult, degraded: str | None) -> RunAnswer:
    """Take the answer of one."""
    return RunAnswer(heard.label, heard.confidence, heard.name, heard.scores, degraded, heard.text)
