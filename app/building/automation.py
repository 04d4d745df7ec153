"""Automatic steps after drift: a rebuild, and the rollout of its version."""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Thread
from uuid import uuid4

from app.building.rebuild import MIN_ROWS_SINCE_CHANGE, make_next_build_request, prepare_rebuild
from app.building.start_rollout import start_rollout
from app.store.automations import CLAIM_TTL_S, StoredAutomation
from app.store.pointers import Id
from app.store.repositories import Repositories
from models import ArtifactRecord, Build, BuildRequest
from models.errors import ParsimonyError, StoreRefused, StoreUnavailable, TooManyBuilds, UnknownBuild, UnknownRollout
from models.feedback import Alarm
from models.rebuild import RebuildRequest
from models.recording import FreezeRequest, FrozenDataset
from models.rollout import AutomationSpec, RolloutRequest
from models.team_quota import require_same_owner

logger = logging.getLogger("parsimony.automation")
AUTOMATION = "automation"
"""Who starts these rollouts."""


Freeze = Callable[[str, FreezeRequest], FrozenDataset]
"""Makes a dataset of the rows of a recording, by its name."""


@dataclass(slots=True)
class AutomationRunner:
    """Takes automatic steps for all artifacts in a thread, because a step takes seconds."""

    repos: Repositories
    freeze: Freeze
    _thread: Thread | None = None

    def run_in_background(self, records: Mapping[Id, StoredAutomation]) -> None:
        """Take the next steps, unless earlier steps are still running.

        Call it every few seconds.

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
    """Take the next step of each artifact with automation.

    Raises StoreUnavailable or StoreRefused.
    """
    for artifact, record in records.items():
        try:
            _rebuild(repos, artifact, record, freeze)
            _roll_out(repos, artifact, record)
            _report_end(repos, artifact, record)
        except (StoreUnavailable, StoreRefused):
            raise
        except TooManyBuilds:  # the step is claimed again later
            continue
        except _TooFewRows as wait:
            reason = str(wait)
            repos.automations.change_record(artifact, lambda one, reason=reason: _with_wait(one, reason))  # type: ignore[misc]
        except ParsimonyError as error:
            _record_failure(repos, artifact, str(error))


def _record_failure(repos: Repositories, artifact: Id, problem: str, known: StoredAutomation | None = None) -> None:
    """Record the reason why a step failed; a deleted artifact has no record.

    Args:
        known: the record as it was read; nothing is recorded if it has changed since. None skips this check.
    """

    def add_failure(one: StoredAutomation) -> StoredAutomation | None:
        return one.with_failure(problem) if known is None or one == known else None

    if repos.automations.change_record(artifact, add_failure) is not None:
        logger.warning("automation failed artifact=%s error=%s", "/".join(artifact), problem)


class _TooFewRows(Exception):
    """A recording has too few rows since the change."""


def _with_wait(record: StoredAutomation, reason: str) -> StoredAutomation | None:
    """Return the record with a ``waiting`` event; None if that is the last event."""
    is_known = bool(record.events) and record.events[-1].event == "waiting"
    return None if is_known else record.with_event("waiting", reason)


def _rebuild(repos: Repositories, artifact: Id, record: StoredAutomation, freeze: Freeze) -> None:
    """Start a rebuild of a drifted version, once enough rows arrived since the change."""
    if not record.spec.rebuild_on_drift:
        return
    active = repos.artifacts.get_record(*artifact)
    has_rebuilt = record.drifted_version == active.version and record.build is not None
    alarms = [] if has_rebuilt and record.problem is None else repos.feedback.get_alarms(active.ref)
    if not alarms or _has_failed(record, active, alarms[-1]):
        return
    if not _has_enough(repos, active, alarms[-1], record.spec):
        return
    claimed = _claim_rebuild(repos, artifact, record, active, alarms[-1])
    if claimed is None or claimed.planned_build is None:
        return
    started = _queue_build(repos, active, claimed.spec.recording, claimed.planned_build, alarms[-1], freeze)
    logger.info("rebuild after drift artifact=%s version=%d build=%s", "/".join(artifact), active.version, started.id)
    reason = f"version {active.version} has drifted: build {started.id} from dataset {started.dataset}"
    repos.automations.change_record(
        artifact,
        lambda one: replace(
            one.with_event("rebuild", reason), build=started.id, problem=None, planned_build=None, claimed_at=0.0
        ),
    )


def _has_failed(record: StoredAutomation, active: ArtifactRecord, alarm: Alarm) -> bool:
    """Return whether the rebuild after this alarm has failed."""
    tried = record.drifted_version, record.alarm
    return record.problem is not None and tried == (active.version, alarm.detected)


def _claim_rebuild(
    repos: Repositories, artifact: Id, record: StoredAutomation, active: ArtifactRecord, alarm: Alarm
) -> StoredAutomation | None:
    """Claim the rebuild after an alarm; None if another server claimed it first."""
    now = time.time()

    def claim(one: StoredAutomation) -> StoredAutomation | None:
        if one != record or now - one.claimed_at < CLAIM_TTL_S:
            return None
        planned = one.planned_build if one.drifted_version == active.version else None
        return StoredAutomation(
            one.spec,
            drifted_version=active.version,
            alarm=alarm.detected,
            planned_build=planned or uuid4().hex,
            claimed_at=now,
            events=one.events,
        )

    return repos.automations.change_record(artifact, claim)


def _queue_build(
    repos: Repositories, active: ArtifactRecord, recording: str | None, build_id: str, alarm: Alarm, freeze: Freeze
) -> Build:
    """Queue the rebuild.

    If a server that died has already queued it, return the build of this id.
    """
    with suppress(UnknownBuild):
        return repos.builds.get(build_id)
    if recording is None:
        request = prepare_rebuild(repos, active, RebuildRequest(activate=False)).request
    else:
        request = _freeze_rows(repos, active, recording, build_id, alarm, freeze)
    return repos.builds.enqueue_build(request, build_id=build_id)


def _has_enough(repos: Repositories, active: ArtifactRecord, alarm: Alarm, spec: AutomationSpec) -> bool:
    """Return whether enough feedback arrived since the change point.

    With a recording, outcomes are counted; otherwise rows.
    """
    if spec.recording is not None:
        outcomes = repos.feedback.get_sums(active.ref).get("outcomes", 0)
        return outcomes - alarm.change_point >= MIN_ROWS_SINCE_CHANGE
    if repos.feedback.count_rows(active.ref) < MIN_ROWS_SINCE_CHANGE:
        return False
    rows = repos.feedback.get_rows(active.ref)
    return sum(row.number >= alarm.change_point for row in rows) >= MIN_ROWS_SINCE_CHANGE


def _freeze_rows(
    repos: Repositories, active: ArtifactRecord, recording: str, build_id: str, alarm: Alarm, freeze: Freeze
) -> BuildRequest:
    """Store a recording's rows since the change as a dataset; return the build request.

    The dataset's name includes digits of the build's id, so that it replaces only a dataset of the same step.

    Raises _TooFewRows if there are too few rows so far.
    """
    dataset = f"{active.name[:36]}.{active.version + 1}.{build_id[:8]}"
    require_same_owner(repos.settings.team_quotas, dataset, active.name)
    frozen = freeze(recording, FreezeRequest(dataset=dataset, since=alarm.changed_at))
    if frozen.rows < MIN_ROWS_SINCE_CHANGE:
        have = f"recording {recording!r} must have {MIN_ROWS_SINCE_CHANGE} usable rows since {alarm.changed_at}"
        raise _TooFewRows(f"{have}, got {frozen.rows} of {frozen.recorded_rows}; send the truths of more items")
    return make_next_build_request(active, dataset, activate=False)


def _roll_out(repos: Repositories, artifact: Id, record: StoredAutomation) -> None:
    """Start the rollout of a rebuilt version."""
    if record.build is None or record.spec.rollout is None or record.rollout_version is not None or record.problem:
        return
    build = repos.builds.get(record.build)
    if build.status in ("failed", "cancelled"):
        _record_failure(repos, artifact, build.error or f"the rebuild was {build.status}")
    elif build.artifact is not None:
        version = build.artifact.version
        rules = RolloutRequest(**record.spec.rollout.model_dump(), version=version)
        # by the id of its build: if a server dies before it records the step, the rollout continues
        start_rollout(repos, artifact, rules, AUTOMATION, rollout_id=build.id)
        reason = f"{rules.mode} of version {version}"
        repos.automations.change_record(
            artifact,
            lambda one: (
                replace(one.with_event("rollout", reason), rollout_version=version) if one.build == build.id else None
            ),
        )


def _report_end(repos: Repositories, artifact: Id, record: StoredAutomation) -> None:
    """Record that the rollout of the rebuilt version was aborted or stopped.

    The next alarm starts another rebuild.
    """
    if record.rollout_version is None or record.problem:
        return
    with suppress(UnknownRollout):
        rollout = repos.rollouts.get(artifact)
        if rollout.id == record.build and rollout.status in ("aborted", "stopped"):
            end = f"{rollout.status}: {rollout.events[-1].reason}"
            _record_failure(repos, artifact, f"the rollout of version {record.rollout_version} was {end}", record)
