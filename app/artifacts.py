"""Artifacts in the store: publish, list, roll back, delete, export, import.

For each (solver, name): a counter of versions, a set of the versions there are, a record a version, and one pointer to
the active one (a field of one hash, so that a server sees all pointers in one look).
"""

import json
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, cast

from pydantic import ValidationError

from app import codec
from app.feedback import forget, record_key
from app.store import CHANNEL, Pipeline, Store, drop_blob, is_last_reference, keep_blob, key, translated
from models import ArtifactManifest, ArtifactRecord, ArtifactRef
from models.errors import Conflict, CorruptArtifact, StoreRefused, UnknownArtifact, UnknownVersion
from solvers import SOLVERS

POINTERS = key("active")
Id = tuple[str, str]
"""A solver and a name."""


class Artifacts:
    """The artifacts of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def publish(
        self,
        data: bytes,
        *,
        created_at: str,
        commit: "Callable[[Pipeline, ArtifactRef], None] | None" = None,
        check: Callable[[Pipeline], None] | None = None,
        watched: tuple[str, ...] = (),
    ) -> ArtifactRecord:
        """Publish bytes as the next version and make it the active one, in one transaction, and announce it.

        ``check`` may refuse before anything is written, ``commit`` adds writes of its own to the transaction.
        """
        manifest = checked_manifest(data)
        digest = sha256(data).hexdigest()
        solver, name = manifest.solver, manifest.name

        def change(pipe: Pipeline) -> ArtifactRecord:
            if check is not None:
                check(pipe)
            version = int(cast("bytes | None", pipe.get(_counter(solver, name))) or 0) + 1
            record = ArtifactRecord(
                version=version,
                created_at=created_at,
                sha256=digest,
                bytes=len(data),
                **manifest.model_dump(exclude={"format"}),
            )
            pipe.multi()
            keep_blob(pipe, data, digest, _reference(solver, name, version))
            pipe.set(_counter(solver, name), version)
            pipe.sadd(_versions(solver, name), version)
            pipe.set(_record(solver, name, version), record.model_dump_json(exclude={"drift"}))
            pipe.hset(POINTERS, f"{solver}/{name}", _pointer(version, digest))
            if commit is not None:
                commit(pipe, ArtifactRef(solver=solver, name=name, version=version))
            pipe.publish(CHANNEL, f"{solver}/{name}")
            return record.model_copy(update={"active": True})

        return self._store.transact(change, _counter(solver, name), *watched)

    def pointers(self) -> dict[Id, tuple[int, str]]:
        """Give the active version of every artifact and the SHA-256 of its bytes, in one look."""
        with translated():
            found = cast("dict[bytes, bytes]", self._store.client.hgetall(POINTERS))
        return {_id(name.decode()): _read_pointer(value.decode()) for name, value in found.items()}

    def active(self, solver: str | None = None, name: str | None = None) -> list[ArtifactRecord]:
        """List the active versions, of one solver or name only if asked."""
        ids = [
            (i, v) for i, (v, _) in sorted(self.pointers().items()) if solver in (None, i[0]) and name in (None, i[1])
        ]
        found = self._store.get_many_json([_record(*i, version) for i, version in ids])
        return [ArtifactRecord.model_validate({**record, "active": True}) for record in found]

    def versions(self, solver: str, name: str) -> list[ArtifactRecord]:
        """List every version of an artifact, the oldest first; raises UnknownArtifact."""
        active = self._active_version(solver, name)
        numbers = sorted(map(int, self._store.members(_versions(solver, name))))
        found = self._store.get_many_json([_record(solver, name, number) for number in numbers])
        return [ArtifactRecord.model_validate({**r, "active": r["version"] == active}) for r in found]

    def record(self, solver: str, name: str, version: int | None = None) -> ArtifactRecord:
        """Give the record of a version, the active one if none is named; raises UnknownArtifact or UnknownVersion."""
        active = self._active_version(solver, name)
        wanted = active if version is None else version
        found = self._store.get_json(_record(solver, name, wanted))
        if found is None:
            raise UnknownVersion(f"{solver} {name!r} has no version {wanted}; its active version is {active}")
        try:
            return ArtifactRecord.model_validate({**found, "active": wanted == active})
        except ValidationError as error:
            raise StoreRefused(f"the record of {solver} {name!r} version {wanted} is not readable") from error

    def has(self, solver: str, name: str) -> bool:
        """Tell whether there is an artifact of this name."""
        try:
            return bool(self.record(solver, name))
        except UnknownArtifact:
            return False

    def data(self, record: ArtifactRecord) -> bytes:
        """Give the bytes of a version, checked against their SHA-256."""
        data = self._store.blob(record.sha256)
        if data is None:
            raise StoreRefused(f"the bytes of {record.solver} {record.name!r} version {record.version} are gone")
        return data

    def plan(self, record: ArtifactRecord) -> Any:
        """Give the plan of a version."""
        if record.solver not in SOLVERS:  # published by a newer version of the service
            raise CorruptArtifact(f"the artifact is for the solver {record.solver!r}, known are {', '.join(SOLVERS)}")
        return codec.decode(self.data(record), SOLVERS[record.solver].plan)

    def activate(self, solver: str, name: str, version: int) -> ArtifactRecord:
        """Let a version answer from now on: roll back or forward; raises UnknownArtifact or UnknownVersion."""

        def change(pipe: Pipeline) -> ArtifactRecord:
            raw = cast("bytes | None", pipe.get(_record(solver, name, version)))
            if raw is None:
                raise UnknownVersion(f"{solver} {name!r} has no version {version}")
            record = ArtifactRecord.model_validate(json.loads(raw))
            pipe.multi()
            pipe.hset(POINTERS, f"{solver}/{name}", _pointer(version, record.sha256))
            pipe.publish(CHANNEL, f"{solver}/{name}")
            return record.model_copy(update={"active": True})

        self._active_version(solver, name)
        return self._store.transact(change, _record(solver, name, version))

    def delete(self, solver: str, name: str, version: int) -> None:
        """Delete a version that is not active, and its feedback; raises UnknownArtifact, UnknownVersion or Conflict."""
        record = self.record(solver, name, version)
        reference = _reference(solver, name, version)

        def change(pipe: Pipeline) -> None:
            pointer = cast("bytes | None", pipe.hget(POINTERS, f"{solver}/{name}"))
            if pointer is not None and _read_pointer(pointer.decode())[0] == version:
                raise Conflict(f"version {version} of {solver} {name!r} is active; activate another one first")
            last = is_last_reference(pipe, record.sha256, reference)
            pipe.multi()
            pipe.delete(_record(solver, name, version))
            pipe.srem(_versions(solver, name), version)
            drop_blob(pipe, record.sha256, reference, last=last)
            forget(pipe, ArtifactRef(solver=solver, name=name, version=version))

        self._store.transact(change, POINTERS, key("refs", record.sha256))

    def _active_version(self, solver: str, name: str) -> int:
        with translated():
            pointer = cast("bytes | None", self._store.client.hget(POINTERS, f"{solver}/{name}"))
        if pointer is None:
            names = [n for s, n in sorted(self.pointers()) if s == solver]
            raise UnknownArtifact(f"there is no {solver} artifact called {name!r}{known_names(names)}")
        return _read_pointer(pointer.decode())[0]


def checked_manifest(data: bytes) -> ArtifactManifest:
    """Read and check everything in an artifact's bytes; raises CorruptArtifact."""
    found = {name: value for name, value in codec.read_manifest(data).items() if name != "kind"}
    try:
        manifest = ArtifactManifest.model_validate(found)
    except ValidationError as error:
        raise CorruptArtifact(f"the artifact's manifest is not valid: {error.errors()[0]['msg']}") from error
    if manifest.solver not in SOLVERS:
        raise CorruptArtifact(f"the artifact is for the solver {manifest.solver!r}, known are {', '.join(SOLVERS)}")
    codec.decode(data, SOLVERS[manifest.solver].plan)
    return manifest


def known_names(names: Sequence[str]) -> str:
    """Tell what else there is, for a message about what there is not.

    >>> known_names(["a", "b"])
    '; there are a, b'
    """
    return f"; there are {', '.join(names[:10])}{', …' if len(names) > 10 else ''}" if names else ""


def _counter(solver: str, name: str) -> str:
    return key("counter", solver, name)


def _versions(solver: str, name: str) -> str:
    return key("versions", solver, name)


def _record(solver: str, name: str, version: int) -> str:
    return record_key(solver, name, version)


def _reference(solver: str, name: str, version: int) -> str:
    return f"artifact/{solver}/{name}/{version}"


def _pointer(version: int, digest: str) -> str:
    return f"{version} {digest}"


def _read_pointer(value: str) -> tuple[int, str]:
    version, _, digest = value.partition(" ")
    return int(version), digest


def _id(field: str) -> Id:
    solver, _, name = field.partition("/")
    return solver, name
