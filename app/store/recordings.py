"""Recordings in the store: one hash, which every server reads as a whole.

Their rows are on the servers' disks.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import cast
from uuid import uuid4

from app.processes.clock import current_timestamp
from app.store.client import Store, make_store_key
from app.store.counted_hash import CountedHash
from app.store.pointers import Id
from models.base import Name, Value
from models.errors import Conflict, UnknownRecording
from models.recording import RecordingSpec

MAX_RECORDINGS = 1_000
_DELETED = make_store_key("recordings-deleted")
"""Ids of deleted recordings, whose files each server deletes, by their running number."""
_MAX_DELETED = 1_000
_DAY_TTL_S = 3 * 86_400


class _Record(Value):
    id: str
    created_at: str
    unit: str
    recording: RecordingSpec


@dataclass(frozen=True, slots=True)
class StoredRecording:
    """A recording with its name, the id in the names of its files, and the artifact's unit of cost."""

    name: Name
    id: str
    created_at: str
    unit: str
    spec: RecordingSpec

    @property
    def artifact(self) -> Id | None:
        """Kind and name of the recorded artifact; None if callers post the rows."""
        return None if self.spec.artifact is None else (self.spec.artifact.kind, self.spec.artifact.name)


class Recordings:
    """Repository of recordings, and of the cost of their exploration."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._records = CountedHash(store, "recordings", MAX_RECORDINGS, _parse_all)

    def put(self, name: str, spec: RecordingSpec, unit: str) -> bool:
        """Store a recording, and return whether the name is new.

        The rows of a recording of the same name are kept.

        Raises:
            Conflict: a recording of this name has rows of another artifact, or costs in another unit.
            PayloadTooLarge: there are too many recordings.
        """

        def make_text(text: bytes | None) -> str:
            before = _parse_record(text)
            if before is not None and (before.recording.artifact, before.unit) != (spec.artifact, unit):
                artifact = before.recording.artifact
                held = "no artifact" if artifact is None else f"{artifact.kind} {artifact.name!r}"
                raise Conflict(
                    f"recording {name!r} has rows of {held} in {before.unit!r}; delete it, or choose another name"
                )
            id_, created_at = (uuid4().hex, current_timestamp()) if before is None else (before.id, before.created_at)
            return _Record(id=id_, created_at=created_at, unit=unit, recording=spec).model_dump_json()

        return self._records.put(name, make_text)

    def get_all(self) -> tuple[StoredRecording, ...]:
        """Return all readable recordings, by name.

        If the store has lost all recordings, the recordings of the last read are returned.
        """
        return self._records.get_all()

    def get(self, name: str) -> StoredRecording:
        """Return a recording; raises UnknownRecording."""
        record = _parse_record(self._records.get_text(name))
        if record is None:
            raise UnknownRecording(f"recording {name!r} not found")
        return _with_name(name, record)

    def delete(self, name: str) -> str:
        """Delete a recording, and return its id; raises UnknownRecording.

        Each server deletes the files of deleted recordings.
        """
        found = self.get(name)
        with self._store.open_pipeline() as pipe:
            pipe.zadd(
                _DELETED, {found.id: float(cast(int, self._store.execute("incr", make_store_key("recordings-ended"))))}
            )
            pipe.zremrangebyrank(_DELETED, 0, -_MAX_DELETED - 1)
            pipe.execute()
        if not self._records.delete(name):
            raise UnknownRecording(f"recording {name!r} not found")
        return found.id

    def list_deleted(self) -> frozenset[str]:
        """Return the ids of deleted recordings."""
        return frozenset(one.decode() for one in self._store.execute("zrange", _DELETED, 0, -1))

    def add_explored(self, recording_id: str, day: str, cost: float) -> float:
        """Add an exploration cost to a day; return the day's total of all servers."""
        key = make_store_key("recording-explored", recording_id, day)
        with self._store.open_pipeline() as pipe:
            pipe.incrbyfloat(key, cost)
            pipe.expire(key, _DAY_TTL_S)
            total, _ = pipe.execute()
        return float(total)

    def explored_costs(self, ids: list[str], day: str) -> list[float]:
        """Return the cost of exploration of each recording on a day."""
        found = self._store.get_many([make_store_key("recording-explored", one, day) for one in ids])
        return [0.0 if one is None else float(one) for one in found]


def _with_name(name: str, record: _Record) -> StoredRecording:
    return StoredRecording(name, record.id, record.created_at, record.unit, record.recording)


def _parse_all(texts: Mapping[str, str]) -> tuple[StoredRecording, ...]:
    records = ((name, _parse_record(text.encode())) for name, text in sorted(texts.items()))
    return tuple(_with_name(name, one) for name, one in records if one is not None)


def _parse_record(text: bytes | None) -> _Record | None:
    """Parse a record; return None for none, or for another version's format."""
    with suppress(ValueError):
        return None if text is None else _Record.model_validate_json(text)
    return None
