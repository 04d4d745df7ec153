"""Artifacts in the store: publish, list, roll back, delete, export, and import.

Each (kind, name) has keys for a version counter, the set of versions, one record per version, and one pointer to the
active version. The counter remains after the artifact is deleted. So a reused name continues counting, and the id of an
old decision never refers to a new version. The counter also distinguishes deleted artifacts from lost ones. If the
store has also lost the counter, servers reserve the version numbers that they have in memory.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, cast

from pydantic import ValidationError

from app.store import codec
from app.store.artifact_records import AUTOMATIONS, ROLLOUTS
from app.store.checksums import verify_checksum
from app.store.client import Pipeline, Store, add_blob_reference, make_store_key, read_json, remove_blob_reference
from app.store.feedback import delete_feedback, record_key
from app.store.name_quotas import NO_QUOTAS, NameQuotas
from app.store.paging import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, NUMBER, Page, iterate_pages, make_page, read_cursor
from app.store.pointers import POINTERS, Id, Pointer, Pointers, format_id, parse_id, read_pointer
from app.store.team_usage import make_versions_key
from models import ArtifactManifest, ArtifactRecord, ArtifactRef
from models.errors import Conflict, CorruptArtifact, ParsimonyError, StoreRefused, UnknownArtifact, UnknownVersion
from solvers import KINDS

_KIND = "artifact"
_RESERVE = (
    "redis.call('SET', KEYS[1], math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), tonumber(ARGV[1]))) return {}"
)
_NAMED = 10
"""How many names a message gives of those that there are."""


class Artifacts:
    """Repository of artifacts and their versions."""

    def __init__(self, store: Store, quotas: NameQuotas = NO_QUOTAS) -> None:
        self._store, self._quotas = store, quotas
        self.pointing = Pointers(store)

    def publish(
        self,
        data: bytes,
        *,
        created_at: str,
        activate: bool = True,
        allow: Callable[[str], None] = lambda name: None,
        commit: "Callable[[Pipeline, ArtifactRef], None] | None" = None,
        check: Callable[[Pipeline], None] | None = None,
        watched: tuple[str, ...] = (),
    ) -> ArtifactRecord:
        """Publish bytes as the next version.

        The version becomes active if requested, or if it is the first one. One transaction writes and announces it.

        Args:
            data: the artifact's bytes.
            created_at: time of creation, ISO 8601.
            allow: receives the artifact's name, and may raise to abort.
            check: reads in the transaction before anything is written; may raise to abort.
            commit: queues further writes in the transaction.
            watched: additional keys whose change restarts the transaction.
        Raises:
            QuotaExceeded: the team of the name has its maximum of artifacts or bytes.
        """
        manifest = decode_manifest(data)
        allow(manifest.name)
        digest = sha256(data).hexdigest()
        kind, name = manifest.kind, manifest.name
        quota = self._quotas.find_quota(name)

        def change(pipe: Pipeline) -> ArtifactRecord:
            if check is not None:
                check(pipe)
            quota.require_artifact_room(self._store, (kind, name), len(data))
            numbers = cast("list[bytes | None]", pipe.mget(_counter(kind, name), _reserved(kind, name)))
            version = max(int(number or 0) for number in numbers) + 1
            becomes_active = activate or read_pointer(pipe, (kind, name)) is None
            record = ArtifactRecord(
                version=version,
                created_at=created_at,
                sha256=digest,
                bytes=len(data),
                savings=manifest.savings,
                losses=manifest.losses,
                guarantees=manifest.guarantees,
                **manifest.model_dump(exclude={"format"}),
            )
            pipe.multi()
            quota.mark_write(pipe)
            add_blob_reference(pipe, data, digest, _reference(kind, name, version))
            pipe.set(_counter(kind, name), version)
            pipe.sadd(make_versions_key(kind, name), version)
            pipe.set(_record(kind, name, version), record.model_dump_json(exclude={"drift"}))
            if becomes_active:
                self.pointing.move_pointer(pipe, (kind, name), (version, digest))
            if commit is not None:
                commit(pipe, ArtifactRef(kind=kind, name=name, version=version))
            return record.model_copy(update={"active": becomes_active})

        return self._store.run_transaction(
            change, _counter(kind, name), _reserved(kind, name), *quota.watched, *watched
        )

    def version_counters(self, ids: Collection[Id]) -> dict[Id, int]:
        """Return the highest version number that each artifact has ever had."""
        counted = self._store.get_many([_counter(*one) for one in ids])
        return {one: int(number or 0) for one, number in zip(ids, counted, strict=True)}

    def reserve_numbers(self, numbers: Mapping[Id, int]) -> None:
        """Reserve version numbers: the next version of each artifact gets a higher one."""
        for one, number in numbers.items():
            self._store.run(_RESERVE, [_reserved(*one)], [number])

    def get_pointers(self) -> dict[Id, Pointer]:
        """Return each artifact's active version and its SHA-256, in one round trip."""
        return self.pointing.get_all()[0]

    def list_page(
        self,
        kind: str | None = None,
        name: str | None = None,
        *,
        prefix: str = "",
        limit: int = DEFAULT_PAGE_SIZE,
        cursor: str | None = None,
    ) -> Page[ArtifactRecord]:
        """Return a page of active versions, sorted by kind and name.

        Filters: a kind, a name, or a prefix of names.
        """
        kinds = sorted(KINDS) if kind is None else [kind]
        if name is not None:
            asked = [(one, name) for one in kinds if name.startswith(prefix)]
            return self.page_of(self.pointing.get_pointers(asked), limit=limit, cursor=cursor)
        last = read_cursor(_KIND, cursor)
        begun = [f"{one}/{prefix}" for one in kinds] if kind or prefix else [""]
        fields, total = self.pointing.names.names_after(last, limit + 1, begun)
        return self._cut([parse_id(field) for field in fields], limit, total)

    def page_of(
        self, ids: Collection[Id], *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[ArtifactRecord]:
        """Return a page of these artifacts' active versions, sorted by kind and name."""
        last = read_cursor(_KIND, cursor)
        behind = sorted(one for one in ids if last is None or one > parse_id(last))
        return self._cut(behind[: limit + 1], limit, len(ids))

    def versions_page(
        self, kind: str, name: str, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None
    ) -> Page[ArtifactRecord]:
        """Return a page of an artifact's versions, oldest first; raises UnknownArtifact."""
        last = int(read_cursor("version", cursor, NUMBER) or 0)
        active = self._active_version(kind, name)
        numbers = sorted(map(int, self._store.get_members(make_versions_key(kind, name))))
        page = make_page("version", [n for n in numbers if n > last][: limit + 1], limit, len(numbers), int)
        raws = self._store.get_many([_record(kind, name, number) for number in page.items])
        versions = [(number, raw) for number, raw in zip(page.items, raws, strict=True) if raw is not None]
        records = [_checked_record(raw, kind, name, number, active) for number, raw in versions]
        return Page(records, page.next, page.total)

    def list_versions(self, kind: str, name: str) -> list[ArtifactRecord]:
        """Return all versions of an artifact, oldest first; raises UnknownArtifact."""
        return list(iterate_pages(lambda cursor: self.versions_page(kind, name, limit=MAX_PAGE_SIZE, cursor=cursor)))

    def get_record(self, kind: str, name: str, version: int | None = None) -> ArtifactRecord:
        """Return the record of a version, by default the active one.

        Raises:
            UnknownArtifact: the artifact has no active version.
            UnknownVersion: the version was not found.
        """
        active = self._active_version(kind, name)
        wanted = active if version is None else version
        (raw,) = self._store.get_many([_record(kind, name, wanted)])
        return _checked_record(raw, kind, name, wanted, active)

    def get_records(self, pointers: Mapping[Id, Pointer]) -> dict[Id, ArtifactRecord | ParsimonyError]:
        """Return the record of each active version, or the error of reading it.

        Needs one round trip.
        """
        raws = self._store.get_many([_record(*one, version) for one, (version, _) in pointers.items()])
        records: dict[Id, ArtifactRecord | ParsimonyError] = {}
        for (one, (version, _)), raw in zip(pointers.items(), raws, strict=True):
            try:
                records[one] = _checked_record(raw, *one, version, version)
            except ParsimonyError as error:
                records[one] = error
        return records

    def has_artifact(self, kind: str, name: str) -> bool:
        """Return whether an artifact of this kind and name exists."""
        try:
            return bool(self.get_record(kind, name))
        except UnknownArtifact:
            return False

    def get_bytes(self, record: ArtifactRecord) -> bytes:
        """Return the bytes of a version after checking their SHA-256."""
        return _checked_data(record, self._store.get_many([make_store_key("blob", record.sha256)])[0])

    def get_unverified_bytes(self, records: Sequence[ArtifactRecord]) -> list[bytes | None]:
        """Return the stored bytes of versions without checking them; None for lost bytes.

        Takes one round trip. ``decode_plan`` checks the bytes.
        """
        return self._store.get_many([make_store_key("blob", record.sha256) for record in records])

    def load_plan(self, record: ArtifactRecord) -> Any:
        """Return the plan of a version."""
        return decode_plan(record, *self.get_unverified_bytes([record]))

    def activate(self, kind: str, name: str, version: int) -> ArtifactRecord:
        """Make a version the active one (roll back or forward).

        Raises:
            UnknownArtifact: the artifact has no active version.
            UnknownVersion: the version was not found.
        """

        def change(pipe: Pipeline) -> ArtifactRecord:
            raw = cast("bytes | None", pipe.get(_record(kind, name, version)))
            if raw is None:
                raise UnknownVersion(f"version {version} of {kind} {name!r} not found")
            record = _checked_record(raw, kind, name, version, version)
            pipe.multi()
            self.pointing.move_pointer(pipe, (kind, name), (version, record.sha256))
            return record

        self._active_version(kind, name)
        return self._store.run_transaction(change, _record(kind, name, version))

    def delete(self, kind: str, name: str, version: int, *, even_active: bool = False) -> None:
        """Delete a version and its feedback.

        With ``even_active``, the active version can be deleted, too. The highest remaining version then becomes
        active. If none is readable, the artifact is deleted.

        Raises:
            UnknownArtifact: the artifact was not found.
            UnknownVersion: the version was not found.
            Conflict: the version is active, without ``even_active``.
        """

        def change(pipe: Pipeline) -> None:
            pointer, records = read_pointer(pipe, (kind, name)), _read_all(pipe, kind, name)
            if pointer is None:
                raise self._unknown(kind, name)
            if version not in records:
                raise UnknownVersion(f"version {version} of {kind} {name!r} not found; active version is {pointer[0]}")
            is_active = pointer[0] == version
            if is_active and not even_active:
                raise Conflict(f"version {version} of {kind} {name!r} is active; activate another one first")
            kept = {number: digest for number, digest in records.items() if number != version and digest}
            pipe.multi()
            for number in [version] if kept or not is_active else records:
                _drop_version(pipe, kind, name, number, records[number])
            if is_active and kept:
                self.pointing.move_pointer(pipe, (kind, name), max(kept.items()))
            elif is_active:
                self._remove(pipe, (kind, name))

        self._store.run_transaction(change, POINTERS, make_versions_key(kind, name), _record(kind, name, version))

    def delete_all(self, kind: str, name: str) -> None:
        """Delete all versions of an artifact, with bytes and feedback.

        The version counter remains. A running build can still publish under the name. Raises UnknownArtifact.
        """

        def change(pipe: Pipeline) -> None:
            pointer, records = read_pointer(pipe, (kind, name)), _read_all(pipe, kind, name)
            if pointer is None and not records:
                raise self._unknown(kind, name)
            pipe.multi()
            for version, digest in records.items():
                _drop_version(pipe, kind, name, version, digest)
            self._remove(pipe, (kind, name))

        self._store.run_transaction(change, _counter(kind, name), make_versions_key(kind, name))

    def find_deleted(self, ids: Iterable[Id]) -> set[Id]:
        """Return which of these artifacts, which have no pointer, were deleted.

        A deleted artifact has a counter but no versions. The other artifacts were lost by the store.
        """
        asked = list(ids)
        if not asked:
            return set()
        with self._store.open_pipeline() as pipe:
            for one in asked:
                pipe.exists(_counter(*one))
                pipe.exists(make_versions_key(*one))
            there = pipe.execute()
        return {one for one, counted, kept in zip(asked, there[::2], there[1::2], strict=True) if counted and not kept}

    def _cut(self, ids: Sequence[Id], limit: int, total: int) -> Page[ArtifactRecord]:
        """Read the records of a page of artifacts; damaged or deleted ones are omitted."""
        page = make_page(_KIND, ids, limit, total, format_id)
        pointers = self.pointing.get_pointers(page.items)
        records = self.get_records(pointers).values()
        readable = [record for record in records if isinstance(record, ArtifactRecord)]
        return Page(readable, page.next, page.total)

    def _remove(self, pipe: Pipeline, artifact: Id) -> None:
        """Queue the removal of an artifact without versions, its rollout, and its automation."""
        self.pointing.remove_pointer(pipe, artifact)
        for key in (ROLLOUTS, AUTOMATIONS):
            pipe.hdel(key, format_id(artifact))

    def _active_version(self, kind: str, name: str) -> int:
        pointer = self.pointing.get_pointers([(kind, name)])
        if not pointer:
            raise self._unknown(kind, name)
        return pointer[kind, name][0]

    def _unknown(self, kind: str, name: str) -> UnknownArtifact:
        fields, _ = self.pointing.names.names_after(None, _NAMED + 1, [f"{kind}/"])
        names = [parse_id(field)[1] for field in fields]
        return UnknownArtifact(f"{kind} artifact {name!r} not found{known_names(names)}")


def decode_manifest(data: bytes) -> ArtifactManifest:
    """Return the manifest after checking all of an artifact's bytes.

    Raises CorruptArtifact.
    """
    content = {name: value for name, value in codec.read_manifest(data).items() if name != "type"}
    try:
        manifest = ArtifactManifest.model_validate(content)
        _ = manifest.savings, manifest.losses, manifest.guarantees
    except ValidationError as error:
        raise CorruptArtifact(f"the artifact's manifest is not valid: {error.errors()[0]['msg']}") from error
    if manifest.kind not in KINDS:
        raise CorruptArtifact(f"artifact kind {manifest.kind!r} not found; available: {', '.join(KINDS)}")
    codec.decode(data, KINDS[manifest.kind].plan)
    return manifest


def known_names(names: Sequence[str]) -> str:
    """Format the available names, for the message about a name that was not found.

    >>> known_names(["a", "b"])
    '; available: a, b'
    """
    return f"; available: {', '.join(names[:_NAMED])}{', …' if len(names) > _NAMED else ''}" if names else ""


def _counter(kind: str, name: str) -> str:
    return make_store_key("counter", kind, name)


def _reserved(kind: str, name: str) -> str:
    return make_store_key("reserved", kind, name)


def _record(kind: str, name: str, version: int) -> str:
    return record_key(kind, name, version)


def _reference(kind: str, name: str, version: int) -> str:
    return f"artifact/{kind}/{name}/{version}"


def decode_plan(record: ArtifactRecord, data: bytes | None) -> Any:
    """Return the plan of a version after checking its bytes.

    Raises StoreRefused or CorruptArtifact.
    """
    if record.kind not in KINDS:  # published by a newer version of the service
        raise CorruptArtifact(f"artifact kind {record.kind!r} not found; available: {', '.join(KINDS)}")
    return codec.decode(_checked_data(record, data), KINDS[record.kind].plan, is_verified=True)


def _checked_data(record: ArtifactRecord, data: bytes | None) -> bytes:
    if data is None:
        raise StoreRefused(f"bytes of {record.kind} {record.name!r} version {record.version} not found in the store")
    return verify_checksum(data, record.sha256)


def _checked_record(raw: bytes | None, kind: str, name: str, wanted: int, active: int) -> ArtifactRecord:
    """Parse a version's record.

    Raises UnknownVersion if there is none, and StoreRefused if it is damaged.
    """
    if raw is None:
        raise UnknownVersion(f"version {wanted} of {kind} {name!r} not found; active version is {active}")
    try:
        return ArtifactRecord.model_validate_json(raw).model_copy(update={"active": wanted == active})
    except ValidationError as error:
        read_json(raw)  # raises StoreRefused for what is not JSON
        raise StoreRefused(f"cannot read the record of {kind} {name!r} version {wanted}") from error


def _read_all(pipe: Pipeline, kind: str, name: str) -> dict[int, str | None]:
    """Read all versions in a transaction, with the SHA-256 of each; None if unknown."""
    numbers = sorted(map(int, cast("set[bytes]", pipe.smembers(make_versions_key(kind, name)))))
    raws = cast("list[bytes | None]", pipe.mget([_record(kind, name, n) for n in numbers])) if numbers else []
    return {number: _digest_in(raw) for number, raw in zip(numbers, raws, strict=True)}


def _digest_in(raw: bytes | None) -> str | None:
    try:
        return str(json.loads(raw or b"")["sha256"])
    except (ValueError, LookupError, TypeError):  # it was damaged, and is to go all the same
        return None


def _drop_version(pipe: Pipeline, kind: str, name: str, version: int, digest: str | None) -> None:
    """Queue the removal of all data of a version."""
    pipe.delete(_record(kind, name, version))
    pipe.srem(make_versions_key(kind, name), version)
    if digest is not None:
        remove_blob_reference(pipe, digest, _reference(kind, name, version))
    delete_feedback(pipe, ArtifactRef(kind=kind, name=name, version=version))
