"""Thread that refreshes the catalog and runs periodic jobs."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

from app.building.automation import AutomationRunner
from app.building.watchdog import Watchdog
from app.observability.metrics import Metrics
from app.recording.writer import RecordingWriter
from app.serving.catalog import FULL_REFRESH_INTERVAL_S, Catalog
from app.serving.rollouts import RolloutSplitter
from app.store.budgets import StoredBudget
from app.store.client import Store
from app.store.demo_progress import DemoProgress, get_demo_progress
from app.store.pointers import Id
from app.store.recordings import StoredRecording
from app.store.repositories import Repositories
from models import ArtifactRef, BuildStatus
from models.endpoint import Endpoint
from models.errors import ParsimonyError, StoreRefused

logger = logging.getLogger("parsimony.catalog")
POLL_S = 2.0


class CatalogThread(threading.Thread):
    """Refreshes a catalog until it is stopped.

    Args:
        chores: called after each round that reached the store.
        revive: called after each round that did not reach the store.
        note: called after every round.
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
        """Listen and refresh until stopped; continues when the store is unavailable."""
        last_error = ""
        while not self._stopping.is_set():
            try:
                self._listen()
            except ParsimonyError as error:
                if str(error) != last_error:
                    logger.warning("%s", error)
                    last_error = str(error)
                self._catalog.store_up, self._catalog.store_error = False, str(error)
                self.looked.set()
                self._note()
                self._stopping.wait(0.5)
                self._try_revive()
            except Exception:  # whatever it is, the plans in memory must go on being kept fresh
                logger.exception("catalog refresh failed, retrying")
                self._stopping.wait(POLL_S)

    def stop(self) -> None:
        """Stop after the current round, and wait for the thread."""
        self._stopping.set()
        self.join(timeout=POLL_S + 1.0)

    def _listen(self) -> None:
        with self._store.read_announcements() as wait:
            self._catalog.request_full_refresh()
            announced: list[str] = []
            while not self._stopping.is_set():
                self._catalog.refresh_plans(announced)
                self._chores()
                self._note()
                self.looked.set()
                waited_until = time.monotonic() + POLL_S
                announced = []
                while not self._stopping.is_set() and time.monotonic() < waited_until and not announced:
                    announced = wait(0.25)

    def _try_revive(self) -> None:
        try:
            self._revive()
        except ParsimonyError as error:
            logger.warning("%s", error)


class HousekeepingJobs:
    """Periodic jobs: fail jobs of dead workers, and update gauges."""

    def __init__(
        self,
        repos: Repositories,
        catalog: Catalog,
        metrics: Metrics,
        rollouts: RolloutSplitter,
        recording_writer: RecordingWriter,
        automation: AutomationRunner,
    ) -> None:
        self._repos, self._catalog, self._metrics = repos, catalog, metrics
        self._rollouts, self._recording_writer, self._automation = rollouts, recording_writer, automation
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
        self.budgets: Sequence[StoredBudget] = ()
        self.recordings: Sequence[StoredRecording] = ()
        self._reading_budgets = threading.Lock()
        self._reading_endpoints = threading.Lock()
        self._reading_recordings = threading.Lock()

    def update_gauges(self) -> None:
        """Update the gauges, even if the store was not reached."""
        catalog, metrics = self._catalog, self._metrics
        metrics.store_up.set(catalog.store_up)
        metrics.artifacts_loaded.set(len(catalog.plans))
        metrics.refreshed_at.set(catalog.refreshed_at)
        metrics.load_failures.inc(catalog.load_failures - self._failures)
        self._failures = catalog.load_failures

    def run(self) -> None:
        """Run the jobs that need the store; a read-only store does not stop the refresh."""
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
        self.demo = get_demo_progress(self._repos.store)
        self.confidence_reports = self._repos.confidence_reports.list_problems()
        self.refresh_endpoints()
        self.refresh_budgets()
        self._rollouts.refresh_rollouts(self._catalog.load_version)
        automations = self._repos.automations.get_all()
        self._metrics.automations_failed.set(sum(one.problem is not None for one in automations.values()))
        self._automation.run_in_background(automations)
        self.refresh_recordings()
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
            self._mend_due = time.monotonic() + FULL_REFRESH_INTERVAL_S
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

    def refresh_endpoints(self) -> None:
        """Read the registered endpoints.

        Reads do not overlap, so an older read never replaces a newer one.
        """
        with self._reading_endpoints:
            self.endpoints = self._repos.endpoints.get_all()

    def refresh_budgets(self) -> None:
        """Read the budgets.

        Reads do not overlap, so an older read never replaces a newer one.
        """
        with self._reading_budgets:
            self.budgets = self._repos.budgets.get_all()

    def refresh_recordings(self) -> None:
        """Read the recordings and the ids of deleted ones, and pass them to their writer.

        Reads do not overlap, so an older read never replaces a newer one.
        """
        with self._reading_recordings:
            self.recordings = self._repos.recordings.get_all()
            self._recording_writer.update_recordings(self.recordings, self._repos.recordings.list_deleted())

    def _note_drift(self) -> None:
        """Update the drift metrics of the active versions."""
        drifts, plans = self._repos.feedback.get_drifts(), self._catalog.plans
        differing = {*drifts.items()} ^ {*self._drifts.items()}
        changed = {_artifact(version) for version, _ in differing} | self._changed
        for kind, name in changed & plans.keys():
            self._metrics.set_drift_gauges(kind, name, drifts.get(plans[kind, name].ref.full_name, ()))
        self._drifts, self._changed = drifts, set()

    def _forget_deleted(self) -> None:
        """Process the changed plans, and remove the metrics of deleted artifacts."""
        changed, self._catalog.changed = self._catalog.changed, set()
        self._changed |= changed
        for kind, name in changed - self._catalog.plans.keys():
            self._metrics.remove_artifact(kind, name)


def _artifact(version: str) -> Id:
    """Return the kind and name of ``kind/name/version``.

    >>> _artifact("index/digits/3")
    ('index', 'digits')
    """
    kind, name, _ = version.split("/")
    return kind, name
