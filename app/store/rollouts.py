"""Rollouts in the store: one hash of records, which every server reads as a whole.

One transaction adds evidence and decides on the rollout. A promotion moves the pointer to the active version in the
same transaction. So servers need no coordination, and a rollout cannot end halfway.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import TypeAdapter

from app.processes.clock import current_timestamp
from app.store.artifact_records import ROLLOUTS, ArtifactRecords
from app.store.client import CHANNEL, Pipeline, Store
from app.store.feedback import record_key
from app.store.pointers import POINTERS, Id, Pointers, format_id, read_pointer
from models.errors import UnknownRollout
from models.rollout import Mode, RolloutEvent, RolloutRequest, Status, VersionRollout
from solvers.rollout_evidence import (
    Outcome,
    RolloutEvidence,
    ShadowDecision,
    decide_rollout,
    get_extra_cost_null,
    get_savings_null,
)

MAX_SENDERS = 64
"""Processes whose last batch a rollout remembers, so that no batch counts twice."""
TEST = "test"
"""Who promotes and aborts, unless a person does."""


VersionValue = tuple[int, float]
"""The version that decided, and what was observed."""


@dataclass(frozen=True, slots=True)
class StoredRollout:
    """A rollout as it is stored.

    Attributes:
        id: unique id, which distinguishes rollouts of the same versions.
        sha256: SHA-256 of the candidate's bytes.
        cost_bound: upper bound on the cost of an item.
        senders: number of the last batch of observations of each process.
    """

    id: str
    active_version: int
    sha256: str
    rules: RolloutRequest
    mode: Mode
    status: Status
    unit: str
    cost_bound: float
    evidence: RolloutEvidence
    events: tuple[RolloutEvent, ...]
    senders: dict[str, int]

    @property
    def is_running(self) -> bool:
        """Whether the rollout has not ended."""
        return self.status == "running"

    def to_reply(self, artifact: Id) -> VersionRollout:
        """Return the rollout in the API's form."""
        evidence, rules = self.evidence, self.rules
        return VersionRollout(
            kind=artifact[0],
            name=artifact[1],
            active_version=self.active_version,
            rules=rules,
            mode=self.mode,
            status=self.status,
            unit=self.unit,
            accuracy=evidence.accuracy.summarize(1.0, promotes=rules.promote is not None, aborts=True),
            answered=evidence.answered.summarize(1.0, promotes=False, aborts=True),
            cost=evidence.cost.summarize(
                self.cost_bound,
                promotes=get_savings_null(rules) is not None,
                aborts=get_extra_cost_null(rules) is not None,
            ),
            cost_source=evidence.cost_source,
            costs_above_bound=evidence.costs_above_bound,
            shadow=evidence.shadow.summarize(self.cost_bound),
            events=self.events,
        )


@dataclass(frozen=True, slots=True)
class Observations:
    """Observations of both versions, in order of arrival.

    Attributes:
        accuracies: qualities of answers, from feedback, each with the version that decided.
        feedback_costs: costs of items, from feedback.
        run_costs: costs of the service's own runs.
        answered: 1 for each run with an answer, 0 for each other run.
        rollout: id of the rollout; None for any rollout of these versions.
        sender: id of the process, and the number of its batch of observations; None if they are part of another
            transaction.
    """

    accuracies: Sequence[VersionValue] = ()
    feedback_costs: Sequence[VersionValue] = ()
    run_costs: Sequence[VersionValue] = ()
    answered: Sequence[VersionValue] = ()
    shadow: Sequence[ShadowDecision] = ()
    rollout: str | None = None
    sender: tuple[str, int] | None = None

    @property
    def count(self) -> int:
        """Number of runs and of shadow decisions."""
        return len(self.answered) + len(self.shadow)


class VersionRollouts:
    """Repository of rollouts."""

    def __init__(self, store: Store) -> None:
        self._store, self._pointers = store, Pointers(store)
        self._records = ArtifactRecords(store, ROLLOUTS, TypeAdapter(StoredRollout))

    def start_rollout(self, artifact: Id, rollout: StoredRollout) -> bool:
        """Store a rollout, which replaces an earlier one; return whether it is the first.

        A rollout that has the same id keeps its state and evidence.
        """

        def change(pipe: Pipeline) -> bool:
            is_new = not pipe.hexists(ROLLOUTS, format_id(artifact))
            before = self._records.read(pipe, artifact)
            pipe.multi()
            if before is None or before.id != rollout.id:
                self._write(pipe, artifact, rollout)
            return is_new

        return self._store.run_transaction(change, ROLLOUTS)

    def stop_rollout(self, artifact: Id, by: str) -> StoredRollout:
        """Stop a rollout and return it; an ended one does not change; raises UnknownRollout."""

        def change(pipe: Pipeline) -> StoredRollout:
            rollout = self._records.read(pipe, artifact)
            if rollout is None:
                raise _unknown(artifact)
            pipe.multi()
            if rollout.is_running:
                rollout = _ended(rollout, "stopped", by, "on request")
                self._write(pipe, artifact, rollout)
            return rollout

        return self._store.run_transaction(change, ROLLOUTS)

    def get(self, artifact: Id) -> StoredRollout:
        """Return the last rollout of an artifact; raises UnknownRollout."""
        rollout = self._records.get(artifact)
        if rollout is None:
            raise _unknown(artifact)
        return rollout

    def get_all(self) -> dict[Id, StoredRollout]:
        """Return the readable rollouts by artifact."""
        return self._records.get_all()

    def add_observations(self, observed: Mapping[Id, Observations]) -> None:
        """Add observations to running rollouts in one transaction.

        Rollouts with enough evidence are promoted or aborted.
        """

        def change(pipe: Pipeline) -> None:
            queue = self.read_for_update(pipe, observed)
            pipe.multi()
            queue(pipe)

        self._store.run_transaction(change, ROLLOUTS, POINTERS)

    def read_for_update(self, pipe: Pipeline, observed: Mapping[Id, Observations]) -> Callable[[Pipeline], None]:
        """Return a function that queues the additions in a transaction.

        The transaction must watch ``ROLLOUTS`` and ``POINTERS``.
        """
        before = {artifact: self._records.read(pipe, artifact) for artifact in observed}
        running = {one: rollout for one, rollout in before.items() if rollout is not None and rollout.is_running}
        updated = {one: self._updated(pipe, one, rollout, observed[one]) for one, rollout in running.items()}
        after = {one: rollout for one, rollout in updated.items() if rollout is not running[one]}

        def queue(pipe: Pipeline) -> None:
            for artifact, rollout in after.items():
                self._write(pipe, artifact, rollout, has_changed=rollout.events != running[artifact].events)
                if rollout.status == "promoted" and rollout.events[-1].by == TEST:
                    self._pointers.move_pointer(pipe, artifact, (rollout.rules.version, rollout.sha256))

        return queue

    def _write(self, pipe: Pipeline, artifact: Id, rollout: StoredRollout, *, has_changed: bool = True) -> None:
        """Queue the record; notify all servers if more than the evidence has changed."""
        self._records.write(pipe, artifact, rollout)
        if has_changed:
            pipe.publish(CHANNEL, format_id(artifact))

    def _updated(self, pipe: Pipeline, artifact: Id, rollout: StoredRollout, new: Observations) -> StoredRollout:
        """Return a running rollout after observations."""
        pointer = read_pointer(pipe, artifact)
        if pointer is None or pointer[0] != rollout.active_version:
            return _overtaken(rollout, None if pointer is None else pointer[0])
        candidate = record_key(*artifact, rollout.rules.version)
        pipe.watch(candidate)  # a version that is deleted now must not be promoted
        if not pipe.exists(candidate):
            return _ended(rollout, "stopped", TEST, f"version {rollout.rules.version} was deleted")
        if new.rollout not in (None, rollout.id) or new == Observations():
            return rollout
        senders = rollout.senders
        if new.sender is not None:
            name, number = new.sender
            if senders.get(name, 0) >= number:
                return rollout
            others = {one: last for one, last in senders.items() if one != name}
            senders = {**dict(list(others.items())[1 - MAX_SENDERS :]), name: number}
        _add(rollout, new)
        rollout = replace(rollout, senders=senders)
        verdict = decide_rollout(rollout.rules, rollout.mode, rollout.evidence)
        if verdict is None:
            return rollout
        if verdict[0] == "canary":
            return replace(rollout, mode="canary", events=_with_event(rollout, "canary", TEST, verdict[1]))
        return _ended(rollout, verdict[0], TEST, verdict[1])


def make_start_event(by: str, request: RolloutRequest) -> RolloutEvent:
    """Return the first event of a rollout."""
    reason = f"{request.mode} of version {request.version} for {request.share:.0%} of the items"
    return RolloutEvent(at=current_timestamp(), event="started", by=by, reason=reason)


def _add(rollout: StoredRollout, new: Observations) -> None:
    evidence, rules, bound = rollout.evidence, rollout.rules, rollout.cost_bound
    evidence.observe_shadow(rules, new.shadow, bound)
    if rollout.mode == "canary":
        evidence.observe_accuracies(rules, _outcomes(rollout, new.accuracies))
        evidence.observe_answered(rules, _outcomes(rollout, new.answered))
        evidence.observe_costs(rules, _outcomes(rollout, new.run_costs), bound, "runs")
        evidence.observe_costs(rules, _outcomes(rollout, new.feedback_costs), bound, "feedback")


def _outcomes(rollout: StoredRollout, values: Sequence[VersionValue]) -> list[Outcome]:
    """Return the values of the two versions of a rollout."""
    candidate = rollout.rules.version
    return [
        (version == candidate, value) for version, value in values if version in (candidate, rollout.active_version)
    ]


def _overtaken(rollout: StoredRollout, active: int | None) -> StoredRollout:
    """Return an ended rollout: the artifact has another active version."""
    if active == rollout.rules.version:
        return _ended(rollout, "promoted", "anonymous", f"version {active} was activated")
    reason = "the artifact was deleted" if active is None else f"version {active} was activated"
    return _ended(rollout, "stopped", "anonymous", reason)


def _ended(rollout: StoredRollout, status: Status, by: str, reason: str) -> StoredRollout:
    return replace(rollout, status=status, events=_with_event(rollout, status, by, reason))


def _with_event(rollout: StoredRollout, event: str, by: str, reason: str) -> tuple[RolloutEvent, ...]:
    new = RolloutEvent(at=current_timestamp(), event=event, by=by, reason=reason)
    return (*rollout.events, new)


def _unknown(artifact: Id) -> UnknownRollout:
    return UnknownRollout(f"{artifact[0]} {artifact[1]!r} has no rollout; start one with PUT")
