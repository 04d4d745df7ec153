"""Which version of each artifact answers, and which of these pointers moved lately.

The pointers are the fields of one hash, so that a server sees all of them in one look; a stream notes the names whose
pointer moved, so that a server that has read them need not read all of them again. The note of a deletion is left out
by a store that is full: servers detect it by the number of pointers.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import cast

from app.store.client import CHANNEL, Pipeline, Store, make_key
from app.store.pages import NameIndex

POINTERS = make_key("active")
NAMES = make_key("active-names")
MOVES = make_key("moves")
_NEVER = b"0-0"
_KEPT_MOVES = 1000
_MOST_MOVES = 500
"""Beyond it, all pointers are read; fewer than are kept for sure, else what was dropped would not be missed."""
_NOTE = "redis.pcall('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'artifact', ARGV[2])"
Id = tuple[str, str]
"""A kind and a name."""
Pointer = tuple[int, str]
"""The active version and the SHA-256 of its bytes."""


@dataclass(frozen=True, slots=True)
class Moves:
    """What moved since an earlier look."""

    mark: bytes
    """What to ask with the next time."""
    moved: frozenset[Id]
    count: int
    """How many pointers there are."""


class Pointers:
    """The pointers of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.names = NameIndex(store, POINTERS, NAMES, source_is_hash=True)

    def move_pointer(self, pipe: Pipeline, artifact: Id, pointer: Pointer) -> None:
        """Queue that a version answers from now on, and its announcement."""
        field = "/".join(artifact)
        pipe.hset(POINTERS, field, f"{pointer[0]} {pointer[1]}")
        self.names.add_name(pipe, field)
        _tell(pipe, field)

    def remove_pointer(self, pipe: Pipeline, artifact: Id) -> None:
        """Queue that no version answers any more, and its announcement."""
        field = "/".join(artifact)
        pipe.hdel(POINTERS, field)
        self.names.remove_name(pipe, field)
        _tell(pipe, field)

    def get_all(self) -> tuple[dict[Id, Pointer], bytes]:
        """Give all pointers, and the mark to ask for what moves from now on."""
        with self._store.open_pipeline() as pipe:
            pipe.hgetall(POINTERS)
            pipe.xrevrange(MOVES, count=1)
            fields, newest = pipe.execute()
        pointers = {_id(field): _read(value) for field, value in fields.items()}
        return pointers, newest[0][0] if newest else _NEVER

    def get_pointers(self, artifacts: Collection[Id]) -> dict[Id, Pointer]:
        """Give the pointers of some artifacts; one that has none is left out."""
        if not artifacts:
            return {}
        asked = list(artifacts)
        values: list[bytes | None] = self._store.execute("hmget", POINTERS, list(map("/".join, asked)))
        return {artifact: _read(value) for artifact, value in zip(asked, values, strict=True) if value is not None}

    def list_moves(self, mark: bytes) -> Moves | None:
        """Return what moved since a mark; None if that is unknown: another store, or too many moves."""
        with self._store.open_pipeline() as pipe:
            pipe.hlen(POINTERS)
            pipe.xrange(MOVES, min=mark, count=_MOST_MOVES + 2)
            count, noted = pipe.execute()
        if mark != _NEVER:
            if not noted or noted[0][0] != mark:
                return None
            noted = noted[1:]
        if len(noted) > _MOST_MOVES:
            return None
        moved = frozenset(_id(fields[b"artifact"]) for _, fields in noted)
        return Moves(noted[-1][0] if noted else mark, moved, count)


def read_pointer(pipe: Pipeline, artifact: Id) -> Pointer | None:
    """Read a pointer inside a transaction."""
    value = cast("bytes | None", pipe.hget(POINTERS, "/".join(artifact)))
    return None if value is None else _read(value)


def _tell(pipe: Pipeline, field: str) -> None:
    pipe.eval(_NOTE, 1, MOVES, _KEPT_MOVES, field)
    pipe.publish(CHANNEL, field)


def _read(value: bytes) -> Pointer:
    version, _, digest = value.decode().partition(" ")
    return int(version), digest


def _id(field: bytes) -> Id:
    kind, _, name = field.decode().partition("/")
    return kind, name
