"""Catalog of loaded artifacts: read without locks, updated atomically.

A thread listens to announcements and also polls for changes every few seconds. So a lost announcement delays a change
by only a few seconds. Every minute the thread reads all pointers, because older versions of the service do not log
changes. If the store is unavailable or empty, the loaded artifacts continue to answer; deleted artifacts are unloaded.
"""

import heapq
import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from app.serving.loaded_artifact import LoadedArtifact, load_artifacts
from app.store.artifacts import Artifacts, known_names
from app.store.pointers import Id, Pointer
from models import ArtifactRecord
from models.errors import ParsimonyError, StoreRefused, StoreUnavailable, UnknownArtifact, UnknownVersion
from solvers.base import Plan

__all__ = ["Catalog", "LoadedArtifact"]
logger = logging.getLogger("parsimony.catalog")
FULL_REFRESH_INTERVAL_S = 60.0
"""How often all pointers are held against what is in memory."""
_TRIED_AGAIN = 10
"""Bad artifacts that are tried again at each look; all of them are at a full one."""
_NAMED = 11
"""Names of a kind's artifacts that messages list, and one more, to know whether there are others."""
_LOST = "is in memory only, the store has lost it; restore a backup, or build or import it again"


@dataclass(slots=True)
class Catalog:
    """Loaded artifacts of this process; requests read it, and one thread writes it."""

    artifacts: Artifacts
    plans: dict[Id, LoadedArtifact[Plan]] = field(default_factory=dict)
    problems: dict[Id, str] = field(default_factory=dict)
    loaded: bool = False
    store_up: bool = False
    is_store_empty: bool = False
    """Whether the store holds no artifact any more, while some in memory were not deleted."""
    store_error: str | None = None
    """Why the store could not be reached at the last look, if it could not."""
    refreshed_at: float = field(default_factory=time.monotonic)
    load_failures: int = 0
    changed: set[Id] = field(default_factory=set)
    """Artifacts whose plan was added, removed, or replaced; consumers clear it."""
    _mark: bytes | None = None
    """Changes up to this mark have been read; None: all pointers must be read."""
    _pointed: set[Id] = field(default_factory=set)
    """The artifacts that had a pointer at the last look."""
    _counted: dict[Id, int] = field(default_factory=dict)
    """How many versions of each artifact there ever were, when it was last loaded."""
    _full_look_due: float = 0.0
    _names: tuple[Mapping[Id, LoadedArtifact[Plan]], dict[str, list[str]]] = field(default_factory=lambda: ({}, {}))
    """The first names of each kind, and the plans of which they are."""

    def get(self, kind: str, name: str) -> LoadedArtifact[Plan]:
        """Return the active version of an artifact.

        Raises UnknownArtifact, or StoreUnavailable before the first load.
        """
        loaded = self.plans.get((kind, name))
        if loaded is None:
            self.require_loaded()
            known = known_names(self._first_names(kind))
            raise UnknownArtifact(f"{kind} artifact {name!r} not found{known}")
        return loaded

    def get_version(self, kind: str, name: str, version: int | None) -> LoadedArtifact[Plan]:
        """Return a version of an artifact; an inactive version is loaded from the store.

        Raises UnknownArtifact or UnknownVersion.
        """
        loaded = self.get(kind, name)
        if version is None or version == loaded.ref.version:
            return loaded
        record = self.get_version_record(kind, name, version)
        return LoadedArtifact.from_record(record, self.artifacts.load_plan(record))

    def load_version(self, artifact: Id, version: int) -> LoadedArtifact[Plan]:
        """Return a version of an artifact, given by kind and name, as ``get_version`` does."""
        return self.get_version(*artifact, version)

    def list_built_from(self, dataset: str) -> list[Id]:
        """Return the artifacts built from a dataset.

        Raises StoreUnavailable before the first load.
        """
        self.require_loaded()
        return [one for one, loaded in list(self.plans.items()) if loaded.record.dataset == dataset]

    def get_version_record(self, kind: str, name: str, version: int) -> ArtifactRecord:
        """Return the record of a version without loading its plan.

        Raises UnknownArtifact or UnknownVersion.
        """
        loaded = self.get(kind, name)
        if version == loaded.ref.version:
            return loaded.record
        self.require_reachable_store()
        try:
            return self.artifacts.get_record(kind, name, version)
        except UnknownArtifact as error:  # only in memory any more
            raise UnknownVersion(f"version {version} of {kind} {name!r} not found") from error

    def require_loaded(self) -> None:
        """Raise StoreUnavailable before the first load."""
        if not self.loaded:
            why = "" if self.store_error is None else f": {self.store_error}"
            raise StoreUnavailable(f"artifacts are not loaded yet{why}")

    def require_reachable_store(self) -> None:
        """Raise StoreUnavailable immediately if the last poll did not reach the store."""
        if self.store_error is not None:
            raise StoreUnavailable(self.store_error)

    def refresh_plans(self, announced: Iterable[str] = ()) -> None:
        """Load changed artifacts; if one is invalid, the previous version stays loaded.

        Args:
            announced: names of changed artifacts as ``kind/name``; any other text refreshes all.
        """
        try:
            self._look({(kind, name) for kind, _, name in (text.partition("/") for text in announced)})
        except StoreUnavailable as error:
            self.store_up, self.store_error = False, str(error)
            raise
        self.store_up, self.store_error, self.loaded = True, None, True
        self.refreshed_at = time.monotonic()

    def request_full_refresh(self) -> None:
        """Compare all pointers at the next refresh, because announcements may be lost."""
        self._mark = None

    def _look(self, announced: set[Id]) -> None:
        pointing = self.artifacts.pointing
        is_due = time.monotonic() >= self._full_look_due or not all(name for _, name in announced)
        changes = None if is_due or self._mark is None else pointing.list_changes(self._mark)
        if changes is None:
            self._look_at_all()
            return
        tried_again = [one for one, _ in zip(self.problems, range(_TRIED_AGAIN), strict=False)]
        asked = changes.changed.union(tried_again, announced)
        self._follow(asked, pointing.get_pointers(asked))
        self._mark = changes.mark
        if len(self._pointed) != changes.count:  # a pointer changed without an entry in the log
            self._look_at_all()

    def _look_at_all(self) -> None:
        pointers, mark = self.artifacts.pointing.get_all()
        self._follow({*pointers, *self.plans, *self.problems}, pointers)
        self.is_store_empty = not pointers and bool(self.plans)
        self._pointed = set(pointers)
        self._mark, self._full_look_due = mark, time.monotonic() + FULL_REFRESH_INTERVAL_S

    def _follow(self, asked: Iterable[Id], pointers: Mapping[Id, Pointer]) -> None:
        """Load or unload artifacts according to their pointers."""
        asked = set(asked)
        if not asked:
            return
        fresh = {one: pointer for one, pointer in pointers.items() if not self._holds(one, pointer)}
        failed = self._load(fresh)
        gone = [one for one in asked if one not in pointers]
        deleted = self.artifacts.find_deleted(one for one in gone if one in self.plans)
        if deleted:
            self.plans = {one: loaded for one, loaded in self.plans.items() if one not in deleted}
            self.changed |= deleted
        lost = {one: _LOST for one in gone if one in self.plans}
        self._reserve_numbers(one for one in lost if self.problems.get(one) != _LOST)
        self._counted |= self.artifacts.version_counters(fresh)
        kept = {one: text for one, text in self.problems.items() if one not in pointers and one not in gone}
        self.problems = kept | failed | lost
        self._pointed.update(pointers)
        self._pointed.difference_update(gone)

    def _reserve_numbers(self, lost: Iterable[Id]) -> None:
        """Reserve version numbers after the store lost its counters.

        Ids of decisions contain version numbers, which must not be reused.
        """
        numbers = {one: max(self._counted.get(one, 0), self.plans[one].record.version) for one in lost}
        with suppress(StoreRefused):  # a store that takes no writes takes no new version either
            self.artifacts.reserve_numbers(numbers)

    def _holds(self, artifact: Id, pointer: Pointer) -> bool:
        loaded = self.plans.get(artifact)
        return loaded is not None and (loaded.record.version, loaded.record.sha256) == pointer

    def _load(self, pointers: Mapping[Id, Pointer]) -> dict[Id, str]:
        """Load artifacts; each one answers as soon as it is loaded."""
        failed: dict[Id, str] = {}
        for batch in load_artifacts(self.artifacts, pointers) if pointers else ():
            lives = {one: loaded for one, loaded in batch.items() if isinstance(loaded, LoadedArtifact)}
            self.plans = self.plans | lives if lives else self.plans
            self.changed |= lives.keys()
            bad = {one: str(error) for one, error in batch.items() if isinstance(error, ParsimonyError)}
            self._report(bad)
            failed |= bad
        return failed

    def _report(self, bad: Mapping[Id, str]) -> None:
        """Log artifacts that cannot be loaded, once per reason."""
        new = {one: text for one, text in bad.items() if self.problems.get(one) != text}
        for one, text in new.items():
            logger.error("failed to load artifact, active version unchanged kind=%s name=%r error=%s", *one, text)
        self.load_failures += len(new)
        self.problems = self.problems | new

    def _first_names(self, kind: str) -> list[str]:
        """Return the first sorted names of a kind's artifacts; cached until plans change."""
        plans, names = self._names
        if plans is not self.plans:
            plans = self.plans
            by_kind: dict[str, list[str]] = {}
            for held, name in list(plans):
                by_kind.setdefault(held, []).append(name)
            names = {held: heapq.nsmallest(_NAMED, known) for held, known in by_kind.items()}
            self._names = (plans, names)
        return names.get(kind, [])
