"""Runs of items with the caller's own functions, as state machines without I/O.

A run yields steps: ``Ask`` for a decision, ``Call`` of functions, ``Predict`` by the artifact's model. It receives the
result of each, and returns a ``RunResult``. Clients drive it, with or without asyncio.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parsimony.decisions import Decision
from parsimony.errors import Infeasible, InvalidRequest, RunFailed

MAX_STEPS = 1000
"""Steps of one run, a guard against decisions that never end."""
UNITS_S = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0}


@dataclass(frozen=True)
class Answer:
    """What a function returns if a label alone is not enough.

    Attributes:
        label: the class, or the text of a language model.
        confidence: from 0 to 1, on the scale of the artifact's dataset; None: unknown.
        cost: actual cost, in the artifact's unit; None: its mean cost.
    """

    label: str | None
    confidence: float | None = None
    cost: float | None = None


@dataclass(frozen=True)
class CallOutcome:
    """Result of one function: its value, or the error that it raised.

    Attributes:
        name: name of the classifier or feature.
        value: what the function returned.
        error: the exception as text; None without one.
        seconds: how long it took.
    """

    name: str
    value: Any = None
    error: str | None = None
    seconds: float = 0.0

    @property
    def answer(self) -> Answer | None:
        """The value as a label with its confidence; None for feature values and failed calls."""
        value = self.value
        if isinstance(value, Answer):
            return value
        if isinstance(value, str):
            return Answer(value)
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
            return Answer(value[0], None if value[1] is None else float(value[1]))
        return None


@dataclass(frozen=True)
class RunResult:
    """Outcome of a run.

    Attributes:
        label: the answer; None if the item was rejected.
        confidence: of the answer, from 0 to 1; None if unknown.
        answered_by: the function that answered; None if a model of the artifact did, or if the item was rejected.
        called: functions in the order of their calls.
        cost: cost of the calls, in the artifact's unit; mean costs where functions report none.
        seconds: duration of the run.
        failures: errors by function.
        decision: the last decision; its id goes into feedback.
        probabilities: of each class, if the artifact has them.
    """

    label: str | None
    confidence: float | None
    answered_by: str | None
    called: tuple[str, ...]
    cost: float
    seconds: float
    failures: Mapping[str, str]
    decision: Decision
    probabilities: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Ask:
    """Request a decision. is_shared: whether all items with these limits have the same decision, so that it can be
    cached."""

    query: Mapping[str, Any]
    is_shared: bool = False


@dataclass(frozen=True)
class Call:
    """Call functions. timeout_s: time limit in seconds; it is enforced for asynchronous functions only."""

    names: tuple[str, ...]
    timeout_s: float | None = None


@dataclass(frozen=True)
class Predict:
    """Classify one item by the artifact's model, given feature values."""

    query: Mapping[str, Any]
    values: Mapping[str, Any]


Steps = Generator["Ask | Call | Predict", Any, RunResult]


@dataclass
class RunInput:
    """Input of a run.

    Attributes:
        limits: limits and facts of the item, as in requests.
        deadline_s: time limit in seconds; None: none.
        unit: the artifact's unit of costs and times.
        takes_answers: whether the run returns the answer of one classifier (policies without classes).
        clock: returns seconds.
    """

    limits: Mapping[str, Any]
    deadline_s: float | None
    unit: str
    takes_answers: bool
    clock: Callable[[], float]


@dataclass
class _Progress:
    """What has happened in a run so far."""

    given: RunInput
    started: float = field(init=False)
    outcomes: list[CallOutcome] = field(default_factory=list)
    cost: float = 0.0

    def __post_init__(self) -> None:
        self.started = self.given.clock()

    @property
    def seconds(self) -> float:
        return self.given.clock() - self.started

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the deadline; None without one."""
        return None if self.given.deadline_s is None else self.given.deadline_s - self.seconds

    @property
    def is_over(self) -> bool:
        remaining = self.remaining_s
        return remaining is not None and remaining <= 0

    @property
    def failures(self) -> dict[str, str]:
        return {one.name: one.error for one in self.outcomes if one.error is not None}

    def add(self, outcomes: Sequence[CallOutcome], planned_cost: float) -> None:
        """Add the outcomes of a call, at their own costs or, where none is known, at the planned one."""
        self.outcomes += outcomes
        known = [one.answer.cost for one in outcomes if one.answer is not None and one.answer.cost is not None]
        self.cost += sum(known) if len(known) == len(outcomes) else planned_cost

    def end(self, decision: Decision, answer: Answer | None, by: str | None = None, **more: Any) -> RunResult:
        return RunResult(
            label=None if answer is None else answer.label,
            confidence=None if answer is None else answer.confidence,
            answered_by=by,
            called=tuple(one.name for one in self.outcomes),
            cost=self.cost,
            seconds=self.seconds,
            failures=self.failures,
            decision=decision,
            **more,
        )

    def end_with_most_confident(self, decision: Decision) -> RunResult:
        """End with the most confident answer so far; raises RunFailed without one."""
        answered = [(one.name, one.answer) for one in self.outcomes if one.answer is not None]
        able = [(name, answer) for name, answer in answered if answer.label is not None]
        if not able:
            reasons = "; ".join(f"{name}: {error}" for name, error in self.failures.items()) or "no function was called"
            raise RunFailed(f"no answer: {reasons}", code="run-failed")
        name, best = max(able, key=lambda pair: -1.0 if pair[1].confidence is None else pair[1].confidence)
        return self.end(decision, best, name)


def run_cascade(given: RunInput) -> Steps:
    """Call classifiers in order until one is confident enough; a failed call counts as not confident.

    With a deadline, a classifier is skipped if its worst-case time, and that of the last one, no longer fit.
    """
    unit_s = _unit_in_seconds(given)
    limits = dict(given.limits)
    if given.deadline_s is not None:
        limits["deadline"] = given.deadline_s / unit_s
    decision: Decision = yield Ask(limits, is_shared="item" not in limits)
    so_far, steps = _Progress(given), list(decision["steps"])
    for place, step in enumerate(steps):
        last = place == len(steps) - 1
        remaining, reserved = so_far.remaining_s, 0.0 if last else steps[-1]["worst_case_time"] * unit_s
        if remaining is not None and not last and step["worst_case_time"] * unit_s + reserved > remaining:
            continue
        if so_far.is_over:
            break
        if step["classifier"] == "reject":
            return so_far.end(decision, None)
        timeout = None if remaining is None else max(remaining - reserved, 0.0)
        outcomes = yield Call((step["classifier"],), timeout)
        so_far.add(outcomes, step["execution_time"])
        answer, threshold = outcomes[0].answer, step["confidence_threshold"]
        if answer is not None and answer.label is not None and _is_confident(answer, threshold):
            return so_far.end(decision, answer, step["classifier"])
    return so_far.end_with_most_confident(decision)


def _is_confident(answer: Answer, threshold: float | None) -> bool:
    return threshold is None or (answer.confidence is not None and answer.confidence >= threshold)


def run_portfolio(given: RunInput) -> Steps:
    """Call the classifier of the item; if it fails, the best other one within the budget."""
    excluded: list[str] = list(given.limits.get("excluded", ()))
    so_far, decision = _Progress(given), None
    while not so_far.is_over:
        try:
            decision = yield Ask({**given.limits, "excluded": excluded})
        except (Infeasible, InvalidRequest):
            if not so_far.outcomes:
                raise
            break
        name = decision["classifier"]
        if name == "reject":
            return so_far.end(decision, None)
        outcomes = yield Call((name,), so_far.remaining_s)
        so_far.add(outcomes, decision["cost"])
        if outcomes[0].answer is not None:
            return so_far.end(decision, outcomes[0].answer, name)
        excluded.append(name)
    assert decision is not None
    return so_far.end_with_most_confident(decision)


def run_policy(given: RunInput) -> Steps:
    """Acquire sensors one decision at a time, then classify, return an acquired answer, or reject."""
    so_far = _Progress(given)
    acquired: dict[str, Any] = dict(given.limits.get("acquired", {}))
    excluded: list[str] = list(given.limits.get("excluded", ()))
    for _ in range(MAX_STEPS):
        query = {**given.limits, "acquired": acquired, "excluded": excluded}
        is_first = not acquired and not excluded and not {"item", "embedding"} & query.keys()
        try:
            decision: Decision = yield Ask(query, is_shared=is_first)
        except Infeasible as error:
            if not so_far.failures:
                raise
            raise RunFailed(f"no answer: {so_far.failures}; {error}", code="run-failed") from error
        if decision["action"] != "acquire":
            return _end_policy(so_far, decision)
        outcomes = yield Call((decision["sensor"], *decision["together"]), so_far.remaining_s)
        so_far.add(outcomes, decision["cost"])
        for one in outcomes:
            if one.error is None:
                acquired[one.name] = _to_reading(one, takes_answers=given.takes_answers)
            else:
                excluded.append(one.name)
    raise RunFailed(f"no answer after {MAX_STEPS} steps", code="run-failed")


def _end_policy(so_far: _Progress, decision: Decision) -> RunResult:
    if decision["action"] == "reject":
        return so_far.end(decision, None, probabilities=decision["probabilities"])
    if decision["action"] == "answer":
        name = decision["answer"]
        given = next(one.answer for one in so_far.outcomes if one.name == name)
        label = None if given is None else given.label
        return so_far.end(decision, Answer(label, decision["quality"]), name)
    shares = decision["probabilities"]
    return so_far.end(decision, Answer(decision["label"], shares[decision["label"]]), probabilities=shares)


def _to_reading(outcome: CallOutcome, *, takes_answers: bool) -> Any:
    """Return a function's value as a policy reads it."""
    answer = outcome.answer
    if answer is None:
        return to_plain(outcome.value)
    if takes_answers:
        return answer.confidence
    if isinstance(outcome.value, str):
        return answer.label
    return {"label": answer.label, "confidence": answer.confidence}


def run_pipeline(given: RunInput) -> Steps:
    """Acquire features stage by stage until a prediction is accepted; failed features are excluded."""
    so_far, acquired = _Progress(given), dict[str, Any](given.limits.get("acquired", {}))
    excluded: list[str] = list(given.limits.get("excluded", ()))
    for _ in range(MAX_STEPS):
        query = {**given.limits, "acquired": acquired, "excluded": excluded}
        try:
            decision: Decision = yield Ask(query, is_shared=not acquired and not excluded)
        except Infeasible as error:
            if not so_far.failures:
                raise
            raise RunFailed(f"no answer: {so_far.failures}; {error}", code="run-failed") from error
        step = decision["step"]
        if step["action"] == "classify":
            return so_far.end(decision, Answer(step["label"], step["confidence"]))
        if step["action"] == "reject":
            return so_far.end(decision, None)
        outcomes = yield Call(tuple(step["features"]), so_far.remaining_s)
        so_far.add(outcomes, step["cost"])
        acquired |= {one.name: to_plain(one.value) for one in outcomes if one.error is None}
        excluded += [one.name for one in outcomes if one.error is not None]
    raise RunFailed(f"no answer after {MAX_STEPS} steps", code="run-failed")


def run_index(given: RunInput) -> Steps:
    """Compute the chosen features, and classify; failed features are excluded, and the others classify."""
    so_far, values = _Progress(given), dict[str, Any]()
    excluded: list[str] = list(given.limits.get("excluded", ()))
    while True:
        query = {**given.limits, "excluded": excluded}
        decision: Decision = yield Ask(query, is_shared=not excluded)
        missing = tuple(name for name in decision["features"] if name not in values)
        if not missing:
            found = yield Predict(query, {name: values[name] for name in decision["features"]})
            answer = Answer(found["label"], found["confidence"])
            return so_far.end(decision, answer, probabilities=found["probabilities"])
        outcomes = yield Call(missing, so_far.remaining_s)
        so_far.add(outcomes, decision["cost"] if not values else 0.0)
        values |= {one.name: to_plain(one.value) for one in outcomes if one.error is None}
        excluded += [one.name for one in outcomes if one.error is not None]


RUNS: Mapping[str, Callable[[RunInput], Steps]] = {
    "cascade": run_cascade,
    "index": run_index,
    "pipeline": run_pipeline,
    "policy": run_policy,
    "portfolio": run_portfolio,
}


def to_plain(value: Any) -> Any:
    """Return NumPy arrays and scalars as numbers and lists, as JSON has them."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _unit_in_seconds(given: RunInput) -> float:
    """Return the seconds of the artifact's unit; raises InvalidRequest for a deadline in an artifact without times."""
    seconds = UNITS_S.get(given.unit)
    if seconds is None and given.deadline_s is not None:
        raise InvalidRequest(
            f"deadline_s requires an artifact whose unit is a time ({', '.join(UNITS_S)}), got {given.unit!r}",
            code="invalid-request",
        )
    return seconds or 1.0
