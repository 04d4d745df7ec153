"""Names of classifiers that are allowed in rows and truths of a recording."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from app.serving.catalog import Catalog
from app.store.pointers import Id
from app.store.recordings import StoredRecording
from models.errors import MAX_FAULTS, CorruptArtifact, Fault, InvalidRequest, StoreRefused, UnknownArtifact
from models.recording import RecordedRow, Truth
from solvers import KINDS

LocatedName = tuple[tuple[str | int, ...], str]
"""The location of a name in a request, and the name."""


@dataclass(frozen=True, slots=True)
class ClassifierNames:
    """Names of the answering classifiers in all versions; each version is read once."""

    catalog: Catalog
    _by_artifact: dict[Id, dict[str, frozenset[str]]] = field(default_factory=dict)

    def check_known_classifiers(self, recording: StoredRecording, named: Iterable[LocatedName]) -> None:
        """Raise InvalidRequest for names that the artifact or the recording does not have.

        All names are accepted if a recording without an artifact lists no classifiers, or if the artifact is not
        loaded.
        """
        named = list(named)
        known = self._list_known(recording, {name for _, name in named})
        if known is None:
            return
        there = ", ".join(sorted(known))
        unknown = ((loc, name) for loc, name in named if name not in known)
        faults = [
            Fault(loc, f"classifier {name!r} not found; available: {there}")
            for loc, name in islice(unknown, MAX_FAULTS)
        ]
        if faults:
            raise InvalidRequest.from_faults(*faults)

    def _list_known(self, recording: StoredRecording, names: set[str]) -> frozenset[str] | None:
        """Return the names that a recording may have; None if all are allowed.

        Args:
            names: the requested names; other versions are read only if the active version lacks some of them.
        """
        if recording.artifact is None:
            return frozenset(recording.spec.classifiers) or None
        loaded = self.catalog.plans.get(recording.artifact)
        if loaded is None:
            return None
        active = frozenset(loaded.kind.list_answering_names(loaded.plan))
        return active if names <= active else active.union(*self._list_versions(recording.artifact))

    def _list_versions(self, artifact: Id) -> list[frozenset[str]]:
        """Return the names of each version in the store."""
        read, artifacts = self._by_artifact.get(artifact, {}), self.catalog.artifacts
        found = dict[str, frozenset[str]]()
        try:
            records = artifacts.list_versions(*artifact)
        except UnknownArtifact:  # it is in memory only
            return []
        for record in records:
            try:
                names = read.get(record.sha256) or KINDS[record.kind].list_answering_names(artifacts.load_plan(record))
            except (CorruptArtifact, StoreRefused):  # its bytes are damaged or lost: it cannot run
                continue
            found[record.sha256] = frozenset(names)
        self._by_artifact[artifact] = found
        return list(found.values())


def iterate_row_classifiers(rows: Sequence[RecordedRow]) -> Iterator[LocatedName]:
    """Yield the location and name of each classifier in posted rows."""
    for place, row in enumerate(rows):
        for number, call in enumerate(row.calls):
            yield ("items", place, "calls", number, "classifier"), call.classifier
        for number, name in enumerate(row.candidates):
            yield ("items", place, "candidates", number), name


def iterate_truth_classifiers(truths: Sequence[Truth]) -> Iterator[LocatedName]:
    """Yield the location and name of each graded classifier in truths."""
    for place, truth in enumerate(truths):
        for part, grades in (("correct", truth.correct), ("quality", truth.quality)):
            for name in grades or ():
                yield ("items", place, part, name), name
