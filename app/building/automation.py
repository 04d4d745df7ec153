"""Automatic steps after drift: a rebuild, and the rollout of its version."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from threading import Thread

from app.building.rebuild import MIN_ROWS_SINCE_CHANGE, request_next, start_rebuild
from app.building.start_rollout import start_rollout
from app.store.automations import CLAIM_S, StoredAutomation
from app.store.pointers import Id
from app.store.repositories import Repositories
from models import ArtifactRecord, Build
from models.errors import InvalidRequest, NotFound, ParsimonyError, StoreRefused, StoreUnavailable, TooManyBuilds
from models.feedback import Alarm
from models.rebuild import RebuildRequest
from models.recording import FreezeRequest, FrozenDataset
from models.rollout import AutomationSpec, RolloutRequest

logger = logging.getLogger("parsimony.automation")
AUTOMATION = "automation"
"""Who starts these rollouts."""


Freeze = Callable[[str, FreezeRequest], FrozenDataset]
"""Makes a dataset of the rows of a recording, by its name."""


@dataclass(slots=True)
class AutomationRunner:
    """Takes the steps of all artifacts in a separate thread, because a step can take seconds."""

    repos: Repositories
    freeze: Freeze
    _thread: Thread | None = None

    def run_in_background(self, records: Mapping[Id, StoredAutomation]) -> None:
        """Take the next steps, unless earlier steps are still running; call it every few seconds.

        Args:
            records: flags and state of each artifact.
        """
        if records and (self._thread is None or not self._thread.is_alive()):
            self._thread = Thread(target=self._run, args=(records,), name="automation", daemon=True)
            self._thread.start()

    def _run(self, records: Mapping[Id, StoredAutomation]) -> None:
        try:
            run_automations(self.repos, records, self.freeze)
        except (StoreUnavailable, StoreRefused) as error:
            logger.warning("automation waits error=%s", error)


def run_automations(repos: Repositories, records: Mapping[Id, StoredAutomation], freeze: Freeze) -> None:
    """Take the next step of each artifact whose automation is on; raises StoreUnavailable or StoreRefused."""
    for artifact, record in records.items():
        try:
            _rebuild(repos, artifact, record, freeze)
            _roll_out(repos, artifact, record)
        except (StoreUnavailable, StoreRefused):
            raise
        except (NotFound, TooManyBuilds, _TooFewRows):  # the artifact was deleted, or the step is claimed again later
            continue
        except ParsimonyError as error:
            problem = str(error)
            logger.warning("automation failed artifact=%s error=%s", "/".join(artifact), problem)
            repos.automations.change_record(artifact, lambda one, problem=problem: replace(one, problem=problem))  # type: ignore[misc]


class _TooFewRows(Exception):
    """A recording has too few rows since the change."""


def _rebuild(repos: Repositories, artifact: Id, record: StoredAutomation, freeze: Freeze) -> None:
    """Start a rebuild of a drifted version, once enough rows came since the change."""
    if not record.spec.rebuild_on_drift:
        return
    active = repos.artifacts.get_record(*artifact)
    is_done = record.drifted_version == active.version and (record.build is not None or record.problem is not None)
    alarms = [] if is_done else repos.feedback.get_alarms(active.ref)
    if not alarms or not _has_enough(repos, active, alarms[-1], record.spec):
        return
    now = time.time()

    def claim(one: StoredAutomation) -> StoredAutomation | None:
        if one != record or now - one.claimed_at < CLAIM_S:  # another server was faster
            return None
        return StoredAutomation(one.spec, drifted_version=active.version, claimed_at=now)

    if repos.automations.change_record(artifact, claim) is None:
        return
    if record.spec.recording is None:
        started: Build = start_rebuild(repos, active, RebuildRequest(activate=False))
    else:
        started = _build_from_recording(repos, active, record.spec.recording, alarms[-1], freeze)
    logger.info("rebuild after drift artifact=%s version=%d build=%s", "/".join(artifact), active.version, started.id)
    repos.automations.change_record(artifact, lambda one: replace(one, build=started.id, claimed_at=0.0))


def _has_enough(repos: Repositories, active: ArtifactRecord, alarm: Alarm, spec: AutomationSpec) -> bool:
    """Return whether enough feedback came since the change point: rows, or outcomes with a recording."""
    if spec.recording is not None:
        outcomes = repos.feedback.get_sums(active.ref).get("outcomes", 0)
        return outcomes - alarm.change_point >= MIN_ROWS_SINCE_CHANGE
    if repos.feedback.count_rows(active.ref) < MIN_ROWS_SINCE_CHANGE:
        return False
    rows = repos.feedback.get_rows(active.ref)
    return sum(row.number >= alarm.change_point for row in rows) >= MIN_ROWS_SINCE_CHANGE


def _build_from_recording(
    repos: Repositories, active: ArtifactRecord, recording: str, alarm: Alarm, freeze: Freeze
) -> Build:
    """Queue a build from the rows of a recording since the change.

    Raises _TooFewRows: they are too few yet.
    """
    dataset = f"{active.name[:50]}.{active.version + 1}"
    try:
        frozen = freeze(recording, FreezeRequest(dataset=dataset, since=alarm.changed_at))
    except InvalidRequest as error:
        raise _TooFewRows from error
    if frozen.rows < MIN_ROWS_SINCE_CHANGE:
        raise _TooFewRows
    return repos.builds.enqueue_build(request_next(active, dataset, activate=False))


def _roll_out(repos: Repositories, artifact: Id, record: StoredAutomation) -> None:
    """Start the rollout of a rebuilt version."""
    if record.build is None or record.spec.rollout is None or record.rollout_version is not None or record.problem:
        return
    build = repos.builds.get(record.build)
    if build.status in ("failed", "cancelled"):
        problem = build.error or f"the rebuild was {build.status}"
        repos.automations.change_record(artifact, lambda one: replace(one, problem=problem))
    elif build.artifact is not None:
        version = build.artifact.version
        rules = RolloutRequest(**record.spec.rollout.model_dump(), version=version)
        start_rollout(repos, artifact, rules, AUTOMATION)
        repos.automations.change_record(
            artifact, lambda one: replace(one, rollout_version=version) if one.build == record.build else None
        )
