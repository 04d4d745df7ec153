"""Automatic steps after drift, in the store: one hash of records.

A server claims a step before taking it, so that no other server takes the same step. If the server dies before the step
is done, another server claims it after ``CLAIM_TTL_S``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from pydantic import TypeAdapter

from app.processes.clock import current_timestamp
from app.store.artifact_records import AUTOMATIONS, ArtifactRecords
from app.store.client import Pipeline, Store
from app.store.pointers import Id
from models.errors import UnknownRollout
from models.rollout import Automation, AutomationEvent, AutomationSpec

CLAIM_TTL_S = 60.0
MAX_EVENTS = 50
"""Events of an artifact that are kept."""


@dataclass(frozen=True, slots=True)
class StoredAutomation:
    """Configuration of an artifact's automation, and the state of the last steps.

    Attributes:
        alarm: number of the outcome that raised the alarm of the last rebuild.
        planned_build: id of the build that the claimed step queues. So it is queued once, even if a server dies.
        claimed_at: time at which a server claimed the unfinished step, in seconds since 1970; 0 if none is claimed.
    """

    spec: AutomationSpec
    drifted_version: int | None = None
    build: str | None = None
    rollout_version: int | None = None
    problem: str | None = None
    claimed_at: float = 0.0
    alarm: int | None = None
    planned_build: str | None = None
    events: tuple[AutomationEvent, ...] = ()

    def with_event(self, event: str, reason: str) -> "StoredAutomation":
        """Return the record with one more event."""
        added = AutomationEvent.model_validate({"at": current_timestamp(), "event": event, "reason": reason})
        return replace(self, events=(*self.events, added)[-MAX_EVENTS:])

    def with_failure(self, problem: str) -> "StoredAutomation":
        """Return the record with a failed step, which is not repeated for the same alarm."""
        reason = f"{problem}; repair it and set the automation again, or the next alarm starts the step"
        return replace(self.with_event("failed", reason), problem=problem, planned_build=None)

    def to_reply(self, artifact: Id) -> Automation:
        """Return the record in the API's form."""
        return Automation(
            kind=artifact[0],
            name=artifact[1],
            spec=self.spec,
            drifted_version=self.drifted_version,
            build=self.build,
            rollout_version=self.rollout_version,
            problem=self.problem,
            events=self.events,
        )


Change = Callable[[StoredAutomation], StoredAutomation | None]
"""Returns the changed record; None: it stays as it is."""


class Automations:
    """Repository of automations."""

    def __init__(self, store: Store) -> None:
        self._store, self._records = store, ArtifactRecords(store, AUTOMATIONS, TypeAdapter(StoredAutomation))

    def put(self, artifact: Id, spec: AutomationSpec) -> bool:
        """Set the automation of an artifact; return whether it had none before.

        A failed step is then repeated.
        """

        def change(pipe: Pipeline) -> bool:
            before = self._records.read(pipe, artifact)
            pipe.multi()
            self._records.write(pipe, artifact, _with_spec(before, spec))
            return before is None

        return self._store.run_transaction(change, AUTOMATIONS)

    def get(self, artifact: Id) -> StoredAutomation:
        """Return the record of an artifact; raises UnknownRollout."""
        record = self._records.get(artifact)
        if record is None:
            raise UnknownRollout(f"{artifact[0]} {artifact[1]!r} has no automation; set one with PUT")
        return record

    def get_all(self) -> dict[Id, StoredAutomation]:
        """Return all readable records by artifact."""
        return self._records.get_all()

    def change_record(self, artifact: Id, make: Change) -> StoredAutomation | None:
        """Change a record in a transaction, and return it.

        Return None if it was not changed, or was deleted.
        """

        def change(pipe: Pipeline) -> StoredAutomation | None:
            before = self._records.read(pipe, artifact)
            after = None if before is None else make(before)
            pipe.multi()
            if after is not None:
                self._records.write(pipe, artifact, after)
            return after

        return self._store.run_transaction(change, AUTOMATIONS)


def _with_spec(before: StoredAutomation | None, spec: AutomationSpec) -> StoredAutomation:
    """Return the record with another configuration, without failed steps."""
    if before is None or before.problem is not None:
        return StoredAutomation(spec, events=() if before is None else before.events)
    return replace(before, spec=spec)
