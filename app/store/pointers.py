"""Pointers to the active version of each artifact, and a log of recent changes.

All pointers are the fields of one hash, so that a server reads them in one round trip. A stream logs the changed
names, so that later reads are incremental. A full store cannot log deletions; servers detect these by the number of
pointers.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import cast

from app.store.client import CHANNEL, Pipeline, Store, make_store_key
from app.store.paging import NameIndex

POINTERS = make_store_key("active")
NAMES = make_store_key("active-names")
MOVES = make_store_key("moves")
_NEVER = b"0-0"
_KEPT_MOVES = 1000
_MAX_MOVES = 500
"""Beyond it, all pointers are read; fewer than are kept for sure, else what was dropped would not be missed."""
_NOTE = "redis.pcall('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'artifact', ARGV[2])"
Id = tuple[str, str]
"""A kind and a name."""
Pointer = tuple[int, str]
"""The active version and the SHA-256 of its bytes."""


@dataclass(frozen=True, slots=True)
class PointerChanges:
    """Pointers that changed since an earlier read."""

    mark: bytes
    """The mark of the next read."""
    changed: frozenset[Id]
    count: int
    """The number of pointers."""


class Pointers:
    """Repository of pointers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.names = NameIndex(store, POINTERS, NAMES, source_is_hash=True)

    def move_pointer(self, pipe: Pipeline, artifact: Id, pointer: Pointer) -> None:
        """Queue the activation of a version and its announcement."""
        field = format_id(artifact)
        pipe.hset(POINTERS, field, f"{pointer[0]} {pointer[1]}")
        self.names.add_name(pipe, field)
        _tell(pipe, field)

    def remove_pointer(self, pipe: Pipeline, artifact: Id) -> None:
        """Queue the removal of a pointer and its announcement."""
        field = format_id(artifact)
        pipe.hdel(POINTERS, field)
        self.names.remove_name(pipe, field)
        _tell(pipe, field)

    def get_all(self) -> tuple[dict[Id, Pointer], bytes]:
        """Return all pointers, and a mark for ``list_changes``."""
        with self._store.open_pipeline() as pipe:
            pipe.hgetall(POINTERS)
            pipe.xrevrange(MOVES, count=1)
            fields, newest = pipe.execute()
        pointers = {parse_id(field.decode()): _read(value) for field, value in fields.items()}
        return pointers, newest[0][0] if newest else _NEVER

    def get_pointers(self, artifacts: Collection[Id]) -> dict[Id, Pointer]:
        """Return the pointers of some artifacts; missing ones are omitted."""
        if not artifacts:
            return {}
        asked = list(artifacts)
        values: list[bytes | None] = self._store.execute("hmget", POINTERS, list(map(format_id, asked)))
        return {artifact: _read(value) for artifact, value in zip(asked, values, strict=True) if value is not None}

    def list_changes(self, mark: bytes) -> PointerChanges | None:
        """Return the changes since a mark; None if they are unknown.

        Changes are unknown if the mark is from another store, or after too many changes.
        """
        with self._store.open_pipeline() as pipe:
            pipe.hlen(POINTERS)
            pipe.xrange(MOVES, min=mark, count=_MAX_MOVES + 2)
            count, noted = pipe.execute()
        if mark != _NEVER:
            if not noted or noted[0][0] != mark:
                return None
            noted = noted[1:]
        if len(noted) > _MAX_MOVES:
            return None
        changed = frozenset(parse_id(fields[b"artifact"].decode()) for _, fields in noted)
        return PointerChanges(noted[-1][0] if noted else mark, changed, count)


def read_pointer(pipe: Pipeline, artifact: Id) -> Pointer | None:
    """Return a pointer within a transaction."""
    value = cast("bytes | None", pipe.hget(POINTERS, format_id(artifact)))
    return None if value is None else _read(value)


def _tell(pipe: Pipeline, field: str) -> None:
    pipe.eval(_NOTE, 1, MOVES, _KEPT_MOVES, field)
    pipe.publish(CHANNEL, field)


def _read(value: bytes) -> Pointer:
    version, _, digest = value.decode().partition(" ")
    return int(version), digest


def format_id(artifact: Id) -> str:
    """Return an artifact's kind and name as the name of a field.

    >>> format_id(("cascade", "digits"))
    'cascade/digits'
    """
    return "/".join(artifact)


def parse_id(field: str) -> Id:
    """Return the kind and name of a field.

    >>> parse_id("cascade/digits")
    ('cascade', 'digits')
    """
    kind, _, name = field.partition("/")
    return kind, name
