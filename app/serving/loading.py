"""Plans from the store, many at a time: a few round trips for hundreds, decoded while the next are fetched."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Generic, TypeVar

from app.store import codec
from app.store.artifacts import Artifacts, checked_plan
from app.store.pointers import Id, Pointer
from models import ArtifactManifest, ArtifactRecord, ArtifactRef
from models.errors import CorruptArtifact, ParsimonyError, StoreUnavailable
from solvers import KINDS, AnyKind
from solvers.base import Plan

P = TypeVar("P", bound=Plan, covariant=True)

logger = logging.getLogger("parsimony.catalog")
_MOST_AT_ONCE = 200
_MOST_BYTES = 16 * 2**20
"""Of the artifacts that are fetched at once; one that is larger is fetched alone."""


@dataclass(frozen=True, slots=True)
class LoadedArtifact(Generic[P]):
    """A plan in memory, and which version of which artifact it is."""

    record: ArtifactRecord
    ref: ArtifactRef
    plan: P
    kind: AnyKind

    @classmethod
    def from_record(cls, record: ArtifactRecord, plan: P) -> "LoadedArtifact[P]":  # type: ignore[misc]  # it is only kept
        """Make it of a version's record and its plan."""
        return cls(record, record.ref, plan, KINDS[record.kind])


def bytes_of(loaded: LoadedArtifact[Plan]) -> bytes:
    """Write a plan in memory as the bytes that it was loaded from.

    Raises StoreUnavailable where an older version of the service wrote them otherwise.
    """
    fields = ArtifactManifest.model_fields.keys() - {"format"}
    data = codec.encode(loaded.plan, loaded.record.model_dump(mode="json", include=set(fields)))
    if sha256(data).hexdigest() != loaded.record.sha256:
        raise StoreUnavailable(
            f"the bytes of {loaded.ref.spelt} cannot be written as they were: only the store has them"
        )
    return data


Loaded = dict[Id, LoadedArtifact[Plan] | ParsimonyError]
"""Plans, or why one cannot be loaded."""


def load_artifacts(artifacts: Artifacts, pointers: Mapping[Id, Pointer]) -> Iterator[Loaded]:
    """Load the plans that pointers show, some at a time; one that is bad keeps no other back."""
    with ThreadPoolExecutor(1, thread_name_prefix="loading") as decoder:  # two would wait for each other's Python
        decoding: Future[Loaded] | None = None
        for batch in _batches(_records(artifacts, pointers)):
            records = {one: record for one, record in batch.items() if isinstance(record, ArtifactRecord)}
            fetched = artifacts.unchecked_data(list(records.values()))
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
    while some := dict(islice(left, _MOST_AT_ONCE)):
        yield from artifacts.get_records(some).items()


def _batches(
    records: Iterable[tuple[Id, ArtifactRecord | ParsimonyError]],
) -> Iterator[dict[Id, ArtifactRecord | ParsimonyError]]:
    """Put together what is fetched at once."""
    batch: dict[Id, ArtifactRecord | ParsimonyError] = {}
    held = 0
    for one, record in records:
        size = record.bytes if isinstance(record, ArtifactRecord) else 0
        if batch and (len(batch) == _MOST_AT_ONCE or held + size > _MOST_BYTES):
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
        return LoadedArtifact.from_record(record, checked_plan(record, data))
    except ParsimonyError as error:
        return error
    except Exception as error:  # a bug of ours, which must not keep the others from being loaded
        logger.exception("%s %r version %d cannot be decoded", record.kind, record.name, record.version)
        return CorruptArtifact(f"the artifact cannot be decoded: {error!r}")
