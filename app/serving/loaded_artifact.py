"""Loading of artifacts from the store in batches; decoding overlaps with fetching."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Generic, TypeVar

from app.store import codec
from app.store.artifacts import Artifacts, decode_plan
from app.store.pointers import Id, Pointer
from models import ArtifactManifest, ArtifactRecord, ArtifactRef
from models.errors import CorruptArtifact, ParsimonyError, StoreUnavailable
from solvers import KINDS, AnyKind
from solvers.base import Plan

P = TypeVar("P", bound=Plan, covariant=True)

logger = logging.getLogger("parsimony.catalog")
_MAX_AT_ONCE = 200
_MAX_BYTES = 16 * 2**20
"""Of the artifacts that are fetched at once; one that is larger is fetched alone."""


@dataclass(frozen=True, slots=True)
class LoadedArtifact(Generic[P]):
    """A plan in memory, with the artifact version that it was loaded from.

    Attributes:
        is_randomized: whether a canary chose this version at random for an item, so that its outcomes may be compared.
    """

    record: ArtifactRecord
    ref: ArtifactRef
    plan: P
    kind: AnyKind
    is_randomized: bool = False

    @classmethod
    def from_record(cls, record: ArtifactRecord, plan: P) -> "LoadedArtifact[P]":  # type: ignore[misc]  # it is only kept
        """Return the loaded artifact of a record and its plan."""
        return cls(record, record.ref, plan, KINDS[record.kind])


def get_original_bytes(loaded: LoadedArtifact[Plan]) -> bytes:
    """Return a loaded plan as the bytes that it was loaded from.

    Raises StoreUnavailable if an older version of the service encoded it differently.
    """
    fields = ArtifactManifest.model_fields.keys() - {"format"}
    data = codec.encode(loaded.plan, loaded.record.model_dump(mode="json", include=set(fields)))
    if sha256(data).hexdigest() != loaded.record.sha256:
        raise StoreUnavailable(
            f"the original bytes of {loaded.ref.full_name} are only in the store, which is unavailable; retry later"
        )
    return data


Loaded = dict[Id, LoadedArtifact[Plan] | ParsimonyError]
"""Plans, or why one cannot be loaded."""


def load_artifacts(artifacts: Artifacts, pointers: Mapping[Id, Pointer]) -> Iterator[Loaded]:
    """Yield the loaded artifacts of pointers; an invalid artifact does not affect the others."""
    with ThreadPoolExecutor(1, thread_name_prefix="loading") as decoder:  # two would wait for each other's Python
        decoding: Future[Loaded] | None = None
        for batch in _batches(_records(artifacts, pointers)):
            records = {one: record for one, record in batch.items() if isinstance(record, ArtifactRecord)}
            fetched = artifacts.get_unverified_bytes(list(records.values()))
            if decoding is not None:
                yield decoding.result()
            decoding = decoder.submit(_decode, records, fetched)
            yield {one: record for one, record in batch.items() if isinstance(record, ParsimonyError)}
        if decoding is not None:
            yield decoding.result()


def _records(
    artifacts: Artifacts, pointers: Mapping[Id, Pointer]
) -> Iterator[tuple[Id, ArtifactRecord | ParsimonyError]]:
    left = iter(pointers.items())
    while some := dict(islice(left, _MAX_AT_ONCE)):
        yield from artifacts.get_records(some).items()


def _batches(
    records: Iterable[tuple[Id, ArtifactRecord | ParsimonyError]],
) -> Iterator[dict[Id, ArtifactRecord | ParsimonyError]]:
    """Group artifacts to be fetched together."""
    batch: dict[Id, ArtifactRecord | ParsimonyError] = {}
    held = 0
    for one, record in records:
        size = record.bytes if isinstance(record, ArtifactRecord) else 0
        if batch and (len(batch) == _MAX_AT_ONCE or held + size > _MAX_BYTES):
            yield batch
            batch, held = {}, 0
        batch[one] = record
        held += size
    if batch:
        yield batch


def _decode(records: Mapping[Id, ArtifactRecord], fetched: Iterable[bytes | None]) -> Loaded:
    return {one: _decoded(record, data) for (one, record), data in zip(records.items(), fetched, strict=True)}


def _decoded(record: ArtifactRecord, data: bytes | None) -> LoadedArtifact[Plan] | ParsimonyError:
    try:
        return LoadedArtifact.from_record(record, decode_plan(record, data))
    except ParsimonyError as error:
        return error
    except Exception as error:  # a bug of ours, which must not keep the others from being loaded
        logger.exception(
            "failed to decode artifact kind=%s name=%r version=%d", record.kind, record.name, record.version
        )
        return CorruptArtifact(f"the artifact cannot be decoded: {error!r}")
