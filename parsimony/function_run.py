"""A run of one item with the caller's own functions: what has been called, and the requests of decisions."""

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any
from uuid import uuid4

from parsimony.decisions import Decision
from parsimony.errors import InvalidRequest
from parsimony.functions import CallOutcome
from parsimony.runs.cascade import run_cascade
from parsimony.runs.index import run_index
from parsimony.runs.pipeline import run_pipeline
from parsimony.runs.policy import PolicyFacts, SensorFacts, SetupFacts, run_policy
from parsimony.runs.portfolio import run_portfolio
from parsimony.runs.steps import Call, CallResult, CallResults, DecisionRequest, Predict, RunAnswer, Steps
from parsimony.units import seconds_per_unit

CLASSIFYING = ("cascade", "portfolio")
"""Kinds that call classifiers alone."""


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
        decision: the first decision; its id goes into feedback.
        probabilities: of each class, if the artifact has them.
        degraded: why the answer is not the decided one, such as failed functions; None if it is.
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
    degraded: str | None = None


@dataclass
class FunctionRun:
    """The run of one item.

    Attributes:
        kind: kind of the artifact.
        limits: limits and facts of the item, as in requests.
        deadline_s: time limit in seconds; None: none.
        record: the artifact's record, once it has been read.
    """

    kind: str
    limits: Mapping[str, Any]
    deadline_s: float | None
    record: Mapping[str, Any] = field(default_factory=dict)
    _started: float = field(init=False, default_factory=time.perf_counter)
    _results: list[CallResult] = field(init=False, default_factory=list)
    _cost: float = field(init=False, default=0.0)
    _decision: Decision | None = field(init=False, default=None)
    _query: dict[str, Any] = field(init=False, default_factory=dict)
    _unit_s: float | None = field(init=False, default=None)

    @property
    def needs_unit(self) -> bool:
        """Whether the first decision needs the record, for the unit of the time limit."""
        return self.kind == "cascade" and self.deadline_s is not None

    @property
    def needs_facts(self) -> bool:
        """Whether the steps need the record of the version that decided."""
        return self.kind == "policy"

    def make_first_query(self) -> dict[str, Any]:
        """Return the request of the first decision; raises InvalidRequest for a deadline without a time unit."""
        self._query = dict(self.limits)
        if self.kind == "policy" and self.limits.get("item") is None:
            self.limits = self._query = {**self.limits, "item": uuid4().hex}  # else of a mixture, the cheaper point
        if self.needs_unit and self.deadline_s is not None:
            self._unit_s = seconds_per_unit(self.record["unit"])
            if self._unit_s is None:
                message = f"deadline_s requires an artifact whose unit is a time, got {self.record['unit']!r}"
                raise InvalidRequest(message, code="invalid-request")
            self._query["deadline"] = self.deadline_s / self._unit_s
        return self._query

    def make_steps(self, decision: Decision) -> Steps:
        """Return the steps that follow the first decision."""
        self._decision, remaining = decision, self._remaining_seconds
        acquired = dict(self.limits.get("acquired", {}))
        if self.kind == "cascade":
            return run_cascade(self._draw_steps(decision), remaining_seconds=remaining, unit_s=self._unit_s)
        if self.kind == "portfolio":
            return run_portfolio(decision, remaining_seconds=remaining)
        if self.kind == "pipeline":
            return run_pipeline(decision, acquired=acquired, remaining_seconds=remaining)
        if self.kind == "policy":
            facts = read_policy(self.record["summary"], self.limits)
            return run_policy(decision, facts, acquired=acquired, remaining_seconds=remaining)
        return run_index(decision, remaining_seconds=remaining)

    def _draw_steps(self, decision: Decision) -> Sequence[Mapping[str, Any]]:
        """Return the steps of a cascade's decision; if it divides items without an id between two, those of one."""
        drawn: Mapping[str, Any] = decision
        if decision["shares"] and self.limits.get("item") is None:
            (drawn,) = random.choices(decision["shares"], [one["share"] for one in decision["shares"]])
        steps: Sequence[Mapping[str, Any]] = drawn["steps"]
        return steps

    def make_query(self, ask: DecisionRequest) -> dict[str, Any]:
        """Return the request of a further decision."""
        excluded = {*self.limits.get("excluded", ()), *ask.excluded}
        if ask.must_stop:
            excluded |= {one["name"] for one in self.record["summary"]["sensors"]} - ask.acquired.keys()
        self._query = {**self.limits, "excluded": sorted(excluded)}
        if self.kind in ("policy", "pipeline"):
            self._query["acquired"] = ask.acquired
        limit = self.limits.get("max_item_cost")
        if isinstance(limit, int | float):
            self._query["max_item_cost"] = max(limit - ask.lost, 0.0)
        return self._query

    def make_evaluation(self, predict: Predict) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return the items and the limits of an evaluation that classifies the item."""
        values = {name: cells[0] if len(cells) == 1 else list(cells) for name, cells in predict.values.items()}
        return [{"values": values}], self._query

    def add_outcomes(self, call: Call, outcomes: Sequence[CallOutcome]) -> CallResults:
        """Add the outcomes of a call, each at its own cost or, if it has none, at its share of the planned one."""
        answers = [one.to_label() if self._is_classifier(one.name) else one for one in outcomes]
        results = [one.to_result() for one in answers]
        self._results += results
        share = call.planned_cost / len(results)
        self._cost += sum((share if one.is_paid else 0.0) if one.cost is None else one.cost for one in results)
        return CallResults(tuple(results), self._remaining_seconds)

    def _is_classifier(self, name: str) -> bool:
        """Return whether a function returns labels, so that integers are labels, too, not values of features."""
        sensors = self.record.get("summary", {}).get("sensors", ()) if self.kind == "policy" else ()
        return self.kind in CLASSIFYING or any(one["name"] == name and one.get("is_classifier") for one in sensors)

    def make_result(self, answer: RunAnswer) -> RunResult:
        """Return the run's result."""
        assert self._decision is not None
        return RunResult(
            label=answer.label,
            confidence=answer.confidence,
            answered_by=answer.answered_by,
            called=tuple(one.name for one in self._results if one.attempts),
            cost=self._cost,
            seconds=self._seconds,
            failures={one.name: one.error for one in self._results if one.error is not None},
            decision=self._decision,
            probabilities=answer.probabilities,
            degraded=answer.degraded,
        )

    @property
    def time_limit_s(self) -> float | None:
        """The time that is left for a request, in seconds; None without a deadline."""
        return None if self.deadline_s is None else max(self._remaining_seconds, 0.0)

    @property
    def _seconds(self) -> float:
        return time.perf_counter() - self._started

    @property
    def _remaining_seconds(self) -> float:
        return inf if self.deadline_s is None else self.deadline_s - self._seconds


def read_policy(summary: Mapping[str, Any], limits: Mapping[str, Any]) -> PolicyFacts:
    """Return what a run knows of its policy, from the summary of the artifact's record."""
    groups = {name: tuple(group) for group in summary["parallel"] for name in group}
    classless = summary["answering"] == "taken"
    numbers = [limits.get(name) for name in ("budget", "max_item_cost")]
    return PolicyFacts(
        sensors={
            one["name"]: SensorFacts(one["cost"], one["time"] or 0.0, groups.get(one["name"]))
            for one in summary["sensors"]
        },
        read=lambda result: read_reading(result, classless=classless),
        max_cost=min((one for one in numbers if isinstance(one, int | float)), default=inf),
        max_time=inf if limits.get("deadline") is None else limits["deadline"],
        classless=classless,
        setup=tuple(
            SetupFacts(frozenset(one["features"]), one["cost"], one["time"] or 0.0) for one in summary.get("setup", ())
        ),
    )


def read_reading(result: CallResult, *, classless: bool) -> Any:
    """Return the reading of a call, as requests have it."""
    if result.values is not None:
        return result.values[0] if len(result.values) == 1 else list(result.values)
    if classless:
        return result.confidence
    if result.confidence is None:
        return result.label
    return {"label": result.label, "confidence": result.confidence}
