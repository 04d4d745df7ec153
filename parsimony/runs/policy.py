"""Run of an item of a policy: acquire sensors, concurrently where possible, then classify or select an answer."""

from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from parsimony.runs.steps import (
    OUT_OF_TIME,
    Call,
    CallResult,
    CollectedResults,
    DecisionRequest,
    NoAnswer,
    Refusal,
    RunAnswer,
    Steps,
    accept_result,
    join_reasons,
    make_skipped_result,
)

MAX_STEPS = 1000
"""Maximum number of steps of a run; it guards against untrusted plans that never stop."""


@dataclass(frozen=True, slots=True)
class SensorFacts:
    """Facts of a sensor.

    Attributes:
        cost: mean cost, in the artifact's unit.
        time: maximum time, in the unit of the sensors' times; 0: unknown.
        fetch: what is acquired together; sensors that have the same fetch arrive together.
    """

    cost: float
    time: float = 0.0
    fetch: Any = None


@dataclass(frozen=True, slots=True)
class SetupFacts:
    """Facts of a set-up group: work that sensors share, and that an item pays for once.

    Attributes:
        sensors: names of the sensors that need it.
        cost: mean cost, in the artifact's unit.
        time: maximum time; 0: unknown.
    """

    sensors: frozenset[str]
    cost: float
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class PolicyFacts:
    """What a run knows of its policy and of the item's limits.

    Attributes:
        sensors: facts by name.
        read: returns the reading of a call that has not failed, or a Refusal.
        max_cost: maximum cost of a sensor that is acquired only because no better one is available.
        max_time: likewise, its maximum time.
        is_final: whether the run ends after these sensors, whatever they return.
        classless: whether the dataset has no classes.
        setup: set-up groups.
    """

    sensors: Mapping[str, SensorFacts]
    read: Callable[[CallResult], Any]
    max_cost: float = inf
    max_time: float = inf
    is_final: Callable[[tuple[str, ...]], bool] = lambda names: False
    classless: bool = False
    setup: tuple[SetupFacts, ...] = ()

    def find_cheapest(self, forbidden: Collection[str], lost: float) -> tuple[str, ...]:
        """Return the cheapest sensors that can be acquired together, without barred ones; () if there are none."""
        groups: dict[Any, list[str]] = {}
        for name, one in self.sensors.items():
            groups.setdefault(name if one.fetch is None else one.fetch, []).append(name)
        able = [
            (cost, tuple(names))
            for names in groups.values()
            if (cost := self.cost_of(names)) <= self.max_cost - lost
            and self.time_of(names) <= self.max_time
            and not {*names}.intersection(forbidden)
        ]
        return min(able)[1] if able else ()

    def cost_of(self, names: Collection[str], known: Collection[str] = ()) -> float:
        """Return the mean cost of sensors together, after known ones, whose groups are set up."""
        own = sum(self.sensors[name].cost for name in names)
        return own + sum(group.cost for group in self._list_needed(names, known))

    def time_of(self, names: Collection[str]) -> float:
        """Return the maximum time of sensors that are acquired together, and of the groups that they need."""
        return max(self.sensors[name].time for name in names) + sum(each.time for each in self._list_needed(names, ()))

    def _list_needed(self, names: Collection[str], known: Collection[str]) -> list[SetupFacts]:
        return [each for each in self.setup if not each.sensors.isdisjoint(names) and each.sensors.isdisjoint(known)]


def run_policy(
    first: Mapping[str, Any],
    facts: PolicyFacts,
    *,
    acquired: Mapping[str, Any],
    remaining_seconds: float,
    unavailable: frozenset[str] = frozenset(),
) -> Steps:
    """Run an item from its first decision.

    If a sensor is unavailable, the next best action is taken, or the known sensors decide. If none is known, and the
    item is not rejected, the cheapest available sensor within the limits is acquired first. The possible cost of failed
    calls is subtracted from the item's hard limit.

    Args:
        acquired: known readings by sensor.
        remaining_seconds: time limit of the run.
        unavailable: sensors that must not be called.
    Raises:
        NoAnswer: a sensor was needed and none was available.
    """
    so_far, known, decision = CollectedResults(), dict(acquired), first
    reasons: list[str | None] = []
    forbidden, lost = set(unavailable), list[str]()
    for _ in range(MAX_STEPS):
        wanted = _sensors_to_acquire(decision, known)
        if forbidden.intersection(wanted):
            so_far.results += [make_skipped_result(name) for name in wanted if name in unavailable]
            decision = yield from _ask(facts, known, forbidden, lost, so_far)
            wanted = _sensors_to_acquire(decision, known)
        if not wanted and not known and so_far.results and not _rejects(decision):  # a wanted one is unavailable
            wanted = facts.find_cheapest(forbidden, facts.cost_of(lost))
        if not wanted or remaining_seconds <= 0:
            break
        is_last = not known and facts.is_final(wanted)
        outcome = yield Call(wanted, remaining_seconds, is_last, facts.cost_of(wanted, [*known, *lost]))
        remaining_seconds = outcome.remaining_seconds
        so_far.results += outcome.results
        for one in outcome.results:
            reading = Refusal("") if one.error is not None else facts.read(one)
            if isinstance(reading, Refusal):
                forbidden.add(one.name)
                lost += [one.name] if one.is_paid or one.error is None else []
                reasons += [f"{one.name}: {reading.reason}"] if reading.reason else []
            else:
                known[one.name] = reading
        decision = yield from _ask(facts, known, forbidden, lost, so_far)
    reasons += [OUT_OF_TIME if remaining_seconds <= 0 else None]
    refused = decision.reason if isinstance(decision, Refusal) else None
    degraded = join_reasons(so_far.failures, *reasons) or refused
    if degraded is not None and not known and not _rejects(decision):
        if facts.classless and any(one.label is not None for one in so_far.results):
            return so_far.most_confident(remaining_seconds, join_reasons(*reasons))
        raise NoAnswer(degraded, remaining_seconds)
    if isinstance(decision, Refusal) or decision["action"] == "acquire":
        decision = yield DecisionRequest(dict(known), must_stop=True)
    if isinstance(decision, Refusal):
        raise NoAnswer(join_reasons(degraded, decision.reason) or "", remaining_seconds)
    return _answer(decision, so_far, degraded)


def _ask(
    facts: PolicyFacts, known: dict[str, Any], forbidden: set[str], lost: list[str], so_far: CollectedResults
) -> Generator[DecisionRequest, Any, Any]:
    """Ask for the next decision, and return it; sensors whose readings it finds invalid are barred.

    lost: failed sensors that may have been paid; barred ones are appended.
    """
    while True:
        decision = yield DecisionRequest(dict(known), frozenset(forbidden), facts.cost_of(lost, known))
        invalid = known.keys() & decision.invalid if isinstance(decision, Refusal) else set[str]()
        if not invalid:
            return decision
        so_far.mark_invalid(invalid, decision.reason)
        forbidden |= invalid
        lost += invalid
        for name in invalid:
            del known[name]


def _answer(decision: Mapping[str, Any], so_far: CollectedResults, degraded: str | None) -> RunAnswer:
    """Return the decided answer, with the reasons why it is not the best one."""
    if decision["action"] == "answer":
        name, quality = decision["answer"], decision["quality"]
        for one in so_far.results:
            if one.name == name and one.error is None:
                return replace(accept_result(one, degraded), confidence=quality)
        return RunAnswer(None, quality, name, degraded=degraded)  # acquired before the run
    probabilities = decision["probabilities"]
    if decision["action"] == "reject":
        return RunAnswer(None, None, None, probabilities or None, degraded)
    return RunAnswer(decision["label"], probabilities[decision["label"]], None, probabilities, degraded)


def _rejects(decision: Mapping[str, Any] | Refusal) -> bool:
    """Return whether the item is sent to a person, which needs no reading."""
    return not isinstance(decision, Refusal) and decision["action"] == "reject"


def _sensors_to_acquire(decision: Mapping[str, Any] | Refusal, known: Collection[str]) -> tuple[str, ...]:
    """Return the sensors to acquire next, all that do not depend on each other's readings; () to stop."""
    if isinstance(decision, Refusal) or decision["action"] != "acquire":
        return ()
    return tuple(name for name in (decision["sensor"], *decision["then"]) if name not in known)
