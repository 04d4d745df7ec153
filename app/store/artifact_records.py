"""A Redis hash with one record per artifact, which servers read as a whole and change in transactions."""

from contextlib import suppress
from typing import Generic, TypeVar, cast

from pydantic import TypeAdapter

from app.store.client import Pipeline, Store, make_store_key
from app.store.pointers import Id, format_id, parse_id

R = TypeVar("R")


class ArtifactRecords(Generic[R]):
    """A hash of records by artifact; unreadable records are omitted.

    A record is unreadable if it has the format of another version of the service.
    """

    def __init__(self, store: Store, key: str, adapter: TypeAdapter[R]) -> None:
        self._store, self._key, self._adapter = store, key, adapter

    def read(self, pipe: Pipeline, artifact: Id) -> R | None:
        """Return the record of an artifact within a transaction; None if it has none."""
        return self._parse(cast("bytes | None", pipe.hget(self._key, format_id(artifact))))

    def write(self, pipe: Pipeline, artifact: Id, record: R) -> None:
        """Queue the write of a record."""
        pipe.hset(self._key, format_id(artifact), self._adapter.dump_json(record))

    def get(self, artifact: Id) -> R | None:
        """Return the record of an artifact; None if it has none."""
        return self._parse(cast("bytes | None", self._store.execute("hget", self._key, format_id(artifact))))

    def get_all(self) -> dict[Id, R]:
        """Return all readable records."""
        each = {field: self._parse(text.encode()) for field, text in self._store.get_texts(self._key).items()}
        return {parse_id(field): record for field, record in each.items() if record is not None}

    def _parse(self, text: bytes | None) -> R | None:
        with suppress(ValueError):
            return None if text is None else self._adapter.validate_json(text)
        return None


ROLLOUTS, AUTOMATIONS = make_store_key("rollouts"), make_store_key("automations")
"""The hashes, whose records go with their artifact."""
