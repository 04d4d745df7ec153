"""A hash of named records that every server reads as a whole; a loss of all records is detected."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar, cast

from app.store.client import Pipeline, Store, make_store_key
from models.errors import PayloadTooLarge

C = TypeVar("C")


class CountedHash(Generic[C]):
    """A hash of records, and a count of its changes.

    If the store has neither records nor the count, they were lost. Then the records of the last read are used.
    """

    def __init__(self, store: Store, name: str, max_records: int, parse_all: Callable[[Mapping[str, str]], C]) -> None:
        """Use the hash of a name.

        Args:
            name: name of the records, in the plural.
            parse_all: parses the texts of all records, by name.
        """
        self._store, self._name, self._max_records, self._parse_all = store, name, max_records, parse_all
        self._key, self._count = make_store_key(name), make_store_key(f"{name}-written")
        self._read: tuple[Mapping[str, str], C] = ({}, parse_all({}))
        """The texts and records of the last read: records are read every few seconds, and rarely change."""

    def put(self, name: str, make_text: Callable[[bytes | None], str]) -> bool:
        """Store a record, and return whether its name is new; raises PayloadTooLarge.

        Args:
            make_text: returns the text of the record, given the previous text.
        """

        def change(pipe: Pipeline) -> bool:
            before = cast("bytes | None", pipe.hget(self._key, name))
            if before is None and pipe.hlen(self._key) >= self._max_records:
                raise PayloadTooLarge(f"maximum of {self._max_records} {self._name} reached; delete one first")
            text = make_text(before)
            pipe.multi()
            pipe.hset(self._key, name, text)
            pipe.incr(self._count)
            return before is None

        return self._store.run_transaction(change, self._key)

    def delete(self, name: str) -> bool:
        """Delete a record, and return whether it existed."""

        def change(pipe: Pipeline) -> bool:
            exists = bool(pipe.hexists(self._key, name))
            pipe.multi()
            if exists:
                pipe.hdel(self._key, name)
                pipe.incr(self._count)
            return exists

        return self._store.run_transaction(change, self._key)

    def get_text(self, name: str) -> bytes | None:
        """Return the text of a record; None if it does not exist."""
        return cast("bytes | None", self._store.execute("hget", self._key, name))

    def get_all(self) -> C:
        """Return all records; the same object as before if no record has changed."""
        texts = self._store.get_texts(self._key)
        before, records = self._read
        is_lost = bool(before) and not texts and not self._store.execute("exists", self._count)
        if texts == before or is_lost:
            return records
        self._read = texts, self._parse_all(texts)
        return self._read[1]
