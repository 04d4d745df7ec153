"""The live plans, in memory: read without a lock, replaced in one assignment when something is published.

A thread listens to announcements and looks at the pointers every few seconds besides, so a lost message costs seconds.
When the store is away, or came back empty, the plans in memory go on answering.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from app.artifacts import Artifacts, Id, known_names
from app.store import Store
from models import ArtifactRecord, ArtifactRef
from models.errors import ParsimonyError, StoreUnavailable, UnknownArtifact, UnknownVersion

logger = logging.getLogger("parsimony.catalog")
POLL_S = 2.0
_LOST = "is in memory only, the store has lost it; restore a backup, or build or import it again"


@dataclass(frozen=True, slots=True)
class Live:
    """A plan in memory, and which version of which artifact it is."""

    record: ArtifactRecord
    ref: ArtifactRef
    plan: Any


@dataclass(slots=True)
class Catalog:
    """What this process can answer from. Everything here is read by requests and written by one thread."""

    artifacts: Artifacts
    plans: dict[Id, Live] = field(default_factory=dict)
    problems: dict[Id, str] = field(default_factory=dict)
    loaded: bool = False
    store_up: bool = False
    away: str | None = None
    """Why the store could not be reached at the last look, if it could not."""
    refreshed_at: float = field(default_factory=time.monotonic)
    load_failures: int = 0

    def get(self, solver: str, name: str) -> Live:
        """Give the active version; raises UnknownArtifact, or StoreUnavailable before the first load."""
        live = self.plans.get((solver, name))
        if live is None:
            self.refuse_unless_loaded()
            known = sorted(n for s, n in self.plans if s == solver)
            raise UnknownArtifact(f"there is no {solver} artifact called {name!r}{known_names(known)}")
        return live

    def at(self, solver: str, name: str, version: int | None) -> Live:
        """Give a version, from the store if it is not the active one; raises UnknownArtifact or UnknownVersion."""
        live = self.get(solver, name)
        if version is None or version == live.ref.version:
            return live
        return self._load(self.record_at(solver, name, version))

    def record_at(self, solver: str, name: str, version: int) -> ArtifactRecord:
        """Give a version's record, for which no plan is loaded; raises UnknownArtifact or UnknownVersion."""
        live = self.get(solver, name)
        if version == live.ref.version:
            return live.record
        self.refuse_if_away()
        try:
            return self.artifacts.record(solver, name, version)
        except UnknownArtifact as error:  # only in memory any more
            raise UnknownVersion(f"{solver} {name!r} has no version {version}") from error

    def refuse_unless_loaded(self) -> None:
        """Raise StoreUnavailable before the first load: until then nobody can say what there is."""
        if not self.loaded:
            raise StoreUnavailable("the artifacts have not been loaded yet")

    def refuse_if_away(self) -> None:
        """Raise StoreUnavailable if the last look found the store away: nobody need wait to find it out again."""
        if self.away is not None:
            raise StoreUnavailable(self.away)

    def refresh(self) -> None:
        """Hold the pointers against what is in memory and load what is new; a bad artifact leaves the old one."""
        try:
            pointers = self.artifacts.pointers()
            fresh = {i: p for i, p in pointers.items() if not self._holds(i, p)}
            loaded = {i for i in fresh if self._try_load(i)}
        except StoreUnavailable as error:
            self.store_up, self.away = False, str(error)
            raise
        bad = {i: text for i, text in self.problems.items() if i in fresh and i not in loaded}
        self.problems = bad | {i: _LOST for i in self.plans if i not in pointers}
        self.store_up, self.away, self.loaded = True, None, True
        self.refreshed_at = time.monotonic()

    def _holds(self, artifact: Id, pointer: tuple[int, str]) -> bool:
        live = self.plans.get(artifact)
        return live is not None and (live.record.version, live.record.sha256) == pointer

    def _try_load(self, artifact: Id) -> bool:
        """Load an artifact, which answers from then on: it need not wait for those that take long."""
        try:
            self.plans = self.plans | {artifact: self._load(self.artifacts.record(*artifact))}
        except StoreUnavailable:
            raise
        except ParsimonyError as error:
            if self.problems.get(artifact) != str(error):
                logger.error("cannot load %s %r, the version in service stays: %s", *artifact, error)
                self.load_failures += 1
                self.problems = self.problems | {artifact: str(error)}
            return False
        return True

    def _load(self, record: ArtifactRecord) -> Live:
        return Live(record, record.ref, self.artifacts.plan(record))


class CatalogThread(threading.Thread):
    """Keeps a catalog fresh until it is told to stop.

    ``chores`` run in each round that reached the store, ``revive`` in each that did not, ``note`` in every round.
    """

    def __init__(
        self,
        catalog: Catalog,
        store: Store,
        *,
        chores: Callable[[], None],
        revive: Callable[[], None],
        note: Callable[[], None],
    ) -> None:
        super().__init__(name="catalog", daemon=True)
        self._catalog, self._store = catalog, store
        self._chores, self._revive, self._note = chores, revive, note
        self._stopping = threading.Event()
        self.looked = threading.Event()
        """Set once the first look has ended, well or not."""

    def run(self) -> None:
        """Listen and look until stopped, through every absence of the store."""
        told = ""
        while not self._stopping.is_set():
            try:
                self._listen()
            except ParsimonyError as error:
                if str(error) != told:
                    logger.warning("%s", error)
                    told = str(error)
                self._catalog.store_up, self._catalog.away = False, str(error)
                self.looked.set()
                self._note()
                self._stopping.wait(0.5)
                self._try_revive()
            except Exception:  # whatever it is, the plans in memory must go on being kept fresh
                logger.exception("the catalog's thread goes on after an internal error")
                self._stopping.wait(POLL_S)

    def stop(self) -> None:
        """Stop at the next round and wait for it."""
        self._stopping.set()
        self.join(timeout=POLL_S + 1.0)

    def _listen(self) -> None:
        with self._store.announcements() as wait:
            while not self._stopping.is_set():
                self._catalog.refresh()
                self.looked.set()
                self._chores()
                self._note()
                waited_until = time.monotonic() + POLL_S
                while not self._stopping.is_set() and time.monotonic() < waited_until and not wait(0.25):
                    pass

    def _try_revive(self) -> None:
        try:
            self._revive()
        except ParsimonyError as error:
            logger.warning("%s", error)
