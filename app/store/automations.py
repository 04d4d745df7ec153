"""Automatic steps after drift, in the store: one hash of records.

A server claims a step before it takes the step, so that no other server takes it, too. If the server dies before the
step is done, another server claims it after ``CLAIM_S``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from pydantic import TypeAdapter

from app.store.artifact_hash import AUTOMATIONS, ArtifactHash
from app.store.client import Pipeline, Store
from app.store.pointers import Id
from models.errors import UnknownRollout
from models.rollout import Automation, AutomationSpec

CLAIM_S = 60.0


@dataclass(frozen=True, slots=True)
class StoredAutomation:
    """Configuration of an artifact's automation, and the state of the last steps.

    Attributes:
        claimed_at: time at which a server claimed the unfinished step, in seconds since 1970; 0: no step is claimed.
    """

    spec: AutomationSpec
    drifted_version: int | None = None
    build: str | None = None
    rollout_version: int | None = None
    problem: str | None = None
    claimed_at: float = 0.0

    def to_reply(self) -> Automation:
        """Return the record as the API shows it."""
        return Automation(
            spec=self.spec,
            drifted_version=self.drifted_version,
            build=self.build,
            rollout_version=self.rollout_version,
            problem=self.problem,
        )


Change = Callable[[StoredAutomation], StoredAutomation | None]
"""Returns the changed record; None: it stays as it is."""


class Automations:
    """Repository of automations."""

    def __init__(self, store: Store) -> None:
        self._store, self._records = store, ArtifactHash(store, AUTOMATIONS, TypeAdapter(StoredAutomation))

    def put(self, artifact: Id, spec: AutomationSpec) -> bool:
        """Set the automation of an artifact; return whether it had none before."""

        def change(pipe: Pipeline) -> bool:
            before = self._records.read(pipe, artifact)
            pipe.multi()
            after = StoredAutomation(spec) if before is None else replace(before, spec=spec)
            self._records.write(pipe, artifact, after)
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
        """Change a record in a transaction, and return it; None if it was not changed, or was deleted."""

        def change(pipe: Pipeline) -> StoredAutomation | None:
            before = self._records.read(pipe, artifact)
            after = None if before is None else make(before)
            pipe.multi()
            if after is not None:
                self._records.write(pipe, artifact, after)
            return after

        return self._store.run_transaction(change, AUTOMATIONS)
