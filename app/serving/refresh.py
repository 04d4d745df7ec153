"""Keeps the catalog fresh, and does what else there is to do every few seconds."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import get_args

from app.building.watchdog import Watchdog
from app.observability.metrics import Metrics
from app.serving.catalog import FULL_LOOK_S, Catalog
from app.store.client import Store
from app.store.demo_progress import DemoProgress, demo_progress
from app.store.pointers import Id
from app.store.repositories import Repositories
from models import ArtifactRef, BuildStatus
from models.endpoint import Endpoint
from models.errors import ParsimonyError, StoreRefused

logger = logging.getLogger("parsimony.catalog")
POLL_S = 2.0


class CatalogThread(threading.Thread):
    """Keeps a catalog fresh until it is stopped.

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
        last_error = ""
        while not self._stopping.is_set():
            try:
                self._listen()
            except ParsimonyError as error:
                if str(error) != last_error:
                    logger.warning("%s", error)
                    last_error = str(error)
                self._catalog.store_up, self._catalog.away = False, str(error)
                self.looked.set()
                self._note()
                self._stopping.wait(0.5)
                self._try_revive()
            except Exception:  # whatever it is, the plans in memory must go on being kept fresh
                logger.exception("the catalog's thread continues after an internal error")
                self._stopping.wait(POLL_S)

    def stop(self) -> None:
        """Stop at the next round and wait for it."""
        self._stopping.set()
        self.join(timeout=POLL_S + 1.0)

    def _listen(self) -> None:
        with self._store.read_announcements() as wait:
            self._catalog.look_at_all_next()
            heard: list[str] = []
            while not self._stopping.is_set():
                self._catalog.refresh_plans(heard)
                self._chores()
                self._note()
                self.looked.set()
                waited_until = time.monotonic() + POLL_S
                heard = []
                while not self._stopping.is_set() and time.monotonic() < waited_until and not heard:
                    heard = wait(0.25)

    def _try_revive(self) -> None:
        try:
            self._revive()
        except ParsimonyError as error:
            logger.warning("%s", error)


class HousekeepingJobs:
    """What the catalog's thread does besides: give up builds and batches whose worker died, keep the gauges right."""

    def __init__(self, repos: Repositories, catalog: Catalog, metrics: Metrics) -> None:
        self._repos, self._catalog, self._metrics = repos, catalog, metrics
        self._watch = Watchdog(repos.builds, repos.batches)
        self._failures = 0
        self.due = 0.0
        """When to query the store again."""
        self._mend_due = 0.0
        self._changed: set[Id] = set()
        """Artifacts whose plan came or was replaced since drift was looked at."""
        self._drifts: dict[str, tuple[str, ...]] = {}
        self._circuits: set[str] = set()
        """Endpoints whose circuit was ever open in a batch."""
        self.workers = 0
        self.refusal: str | None = None
        self.hazards: list[str] = []
        self.confidence_reports: Mapping[tuple[ArtifactRef, str], str] = {}
        self.demo: DemoProgress | None = None
        self.endpoints: Mapping[str, Endpoint] = {}
        self._reading_endpoints = threading.Lock()

    def note_activity(self) -> None:
        """Bring the gauges up to date, whether or not the store was reached."""
        catalog, metrics = self._catalog, self._metrics
        metrics.store_up.set(catalog.store_up)
        metrics.artifacts_loaded.set(len(catalog.plans))
        metrics.refreshed_at.set(catalog.refreshed_at)
        metrics.load_failures.inc(catalog.load_failures - self._failures)
        self._failures = catalog.load_failures

    def run(self) -> None:
        """Do what needs the store; a read-only store does not end the refresh."""
        if self._catalog.changed:
            self._forget_deleted()
        if time.monotonic() < self.due:  # many announcements may follow each other
            return
        self.due = time.monotonic() + POLL_S / 2
        self.refusal, self.hazards = self._repos.store.write_refusal(), self._repos.store.list_hazards()
        try:
            self._look()
        except StoreRefused as error:
            self.refusal = str(error)

    def _look(self) -> None:
        self.demo = demo_progress(self._repos.store)
        self.confidence_reports = self._repos.confidence_reports.list_problems()
        self.look_at_endpoints()
        self._watch.check_builds()
        self.workers = self._repos.builds.count_workers()
        counts = self._repos.builds.count_by_status()
        for status in get_args(BuildStatus):
            self._metrics.builds.labels(status).set(counts.get(status, 0))
        for kind, (ended, seconds) in self._repos.builds.total_durations().items():
            self._metrics.builds_ended.labels(kind).set(ended)
            self._metrics.building_seconds.labels(kind).set(seconds)
        self._count_batches()
        self._note_drift()
        if time.monotonic() >= self._mend_due:
            self._mend_due = time.monotonic() + FULL_LOOK_S
            self._repos.datasets.repair_record()

    def _count_batches(self) -> None:
        metrics, totals = self._metrics, self._repos.batches.get_totals()
        batches = self._repos.batches.list_unended()
        unended = Counter(batch.status for batch in batches)
        circuits = Counter(name for batch in batches for name in batch.open_circuits)
        for name in {*self._circuits, *circuits}:
            metrics.batch_circuits.labels(name).set(circuits[name])
        self._circuits.update(circuits)
        for status in get_args(BuildStatus):
            metrics.batches.labels(status).set(totals.ended.get(status, unended[status]))
        for outcome, count in totals.items.items():
            metrics.batch_items.labels(outcome).set(count)
        for unit, cost in totals.spent.items():
            metrics.batch_spent.labels(unit).set(cost)

    def look_at_endpoints(self) -> None:
        """Read where classifiers are; one at a time, so that no older reading takes the place of a newer one."""
        with self._reading_endpoints:
            self.endpoints = self._repos.endpoints.get_all()

    def _note_drift(self) -> None:
        """Update the drift metrics of the active versions."""
        drifts, plans = self._repos.feedback.get_drifts(), self._catalog.plans
        differing = {*drifts.items()} ^ {*self._drifts.items()}
        changed = {_artifact(version) for version, _ in differing} | self._changed
        for kind, name in changed & plans.keys():
            self._metrics.note_drift(kind, name, drifts.get(plans[kind, name].ref.spelt, ()))
        self._drifts, self._changed = drifts, set()

    def _forget_deleted(self) -> None:
        """Take over which plans changed, and remove metrics of those that are gone."""
        changed, self._catalog.changed = self._catalog.changed, set()
        self._changed |= changed
        for kind, name in changed - self._catalog.plans.keys():
            self._metrics.remove_artifact(kind, name)


def _artifact(version: str) -> Id:
    """Give the artifact kind and name of kind/name/version.

    >>> _artifact("index/digits/3")
    ('index', 'digits')
    """
    kind, name, _ = version.split("/")
    return kind, name
