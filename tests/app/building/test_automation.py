"""What follows from drift: one rebuild, one rollout, each only where its flag is set."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.building.automation import _rebuild, _report_end, run_automations
from app.building.run_build import _build_and_publish
from app.store.feedback import AddedOutcomes
from app.store.repositories import Repositories
from app.store.rollouts import Observations
from models import ArtifactRef, InvalidRequest
from models.errors import ParsimonyError, UnknownRecording, UnknownRollout
from models.feedback import Estimates, Outcome
from models.recording import FreezeRequest, FrozenDataset
from models.rollout import AutomationSpec
from tests.support import stored
from tests.support.samples import trace_columns

ARTIFACT = ("cascade", "plan")
ROLLOUT: dict[str, Any] = {"mode": "shadow", "promote": {}}
FROM_RECORDING = AutomationSpec(rebuild_on_drift=True, recording="traffic")

_BUILT: list[bytes] = []


def built_once(repos: Repositories) -> bytes:
    """Build from the sample trace, which each test stores again, once for all tests."""
    if not _BUILT:
        _BUILT.append(stored.built(repos, stored.request()))
    return _BUILT[0]


@pytest.fixture
def drifted(repos: Repositories) -> Repositories:
    """Give a store whose only version has an alarm, and 300 rows of feedback."""
    stored.put_trace(repos)
    repos.artifacts.publish(built_once(repos), created_at="2026-01-01T00:00:00+00:00")
    add_rows(repos, 300)
    assert repos.feedback.get_alarms(ArtifactRef(kind="cascade", name="plan", version=1))
    return repos


def add_rows(repos: Repositories, rows: int, *, correct: bool = False) -> None:
    columns = trace_columns(rows, 5)
    count = AddedOutcomes(100)
    for k in range(rows):
        row = {name: np.asarray(cells)[k].item() for name, cells in columns.items()}
        outcome = Outcome(decision="cascade/plan/1?accuracy=0.9", correct=correct, row=row)
        count.add(outcome, Estimates(accuracy=0.9))
    repos.feedback.add({ArtifactRef(kind="cascade", name="plan", version=1): count}, 1e9)


def freeze(recording: str, request: FreezeRequest) -> FrozenDataset:
    raise InvalidRequest(f"{recording} has no rows")


def freeze_into(
    repos: Repositories, rows: list[int], requests: list[FreezeRequest]
) -> Callable[[str, FreezeRequest], FrozenDataset]:
    """Return a function that stores a dataset of the next number of rows, and notes the request."""

    def freeze_rows(recording: str, request: FreezeRequest) -> FrozenDataset:
        requests.append(request)
        count = rows[min(len(requests), len(rows)) - 1]
        created_at = "2026-01-01T00:00:00+00:00"
        info, replaced = repos.datasets.put(request.dataset, stored.trace(count), created_at=created_at)
        return FrozenDataset(**dict(info), replaced=replaced, recorded_rows=count, unused={})

    return freeze_rows


def run_all(repos: Repositories) -> None:
    """Take all steps, with the builds that they queue."""
    run_automations(repos, repos.automations.get_all(), freeze)
    for build in repos.builds.list_unended():
        started = repos.builds.start_build(build.id)
        assert started is not None
        _build_and_publish(repos, started)
    run_automations(repos, repos.automations.get_all(), freeze)


def roll_out_canary(repos: Repositories) -> None:
    """Rebuild the drifted version, and start the canary of the new one."""
    canary = {"mode": "canary", "share": 0.5, "promote": {}}
    repos.automations.put(ARTIFACT, AutomationSpec.model_validate({"rebuild_on_drift": True, "rollout": canary}))
    run_all(repos)


def versions(repos: Repositories) -> list[tuple[int, bool]]:
    return [(one.version, one.active) for one in repos.artifacts.list_versions(*ARTIFACT)]


def test_nothing_follows_without_a_flag(drifted: Repositories) -> None:
    run_all(drifted)
    drifted.automations.put(ARTIFACT, AutomationSpec.model_validate({"rollout": ROLLOUT}))
    run_all(drifted)
    assert versions(drifted) == [(1, True)]
    assert drifted.automations.get(ARTIFACT).build is None


def test_drift_leads_to_one_rebuild_that_waits(drifted: Repositories) -> None:
    assert drifted.automations.put(ARTIFACT, AutomationSpec(rebuild_on_drift=True))
    for _ in range(3):
        run_all(drifted)
    assert versions(drifted) == [(1, True), (2, False)]
    record = drifted.automations.get(ARTIFACT)
    assert (record.drifted_version, record.rollout_version, record.problem) == (1, None, None)
    with pytest.raises(UnknownRollout):
        drifted.rollouts.get(ARTIFACT)


def test_servers_that_read_at_the_same_time_rebuild_once(drifted: Repositories) -> None:
    drifted.automations.put(ARTIFACT, AutomationSpec(rebuild_on_drift=True))
    read = drifted.automations.get(ARTIFACT)
    for _ in range(2):
        _rebuild(drifted, ARTIFACT, read, freeze)
    assert len(drifted.builds.list_unended()) == 1


def test_a_rebuild_is_rolled_out_once(drifted: Repositories) -> None:
    drifted.automations.put(ARTIFACT, AutomationSpec.model_validate({"rebuild_on_drift": True, "rollout": ROLLOUT}))
    for _ in range(3):
        run_all(drifted)
    rollout = drifted.rollouts.get(ARTIFACT)
    assert (rollout.rules.version, rollout.mode, rollout.status, len(rollout.events)) == (2, "shadow", "running", 1)
    assert rollout.events[0].by == "automation"
    drifted.rollouts.stop_rollout(ARTIFACT, "anonymous")
    run_all(drifted)
    assert (versions(drifted), drifted.rollouts.get(ARTIFACT).status) == ([(1, True), (2, False)], "stopped")


@pytest.mark.parametrize("status", ["running", "promoted", "stopped"])
def test_a_rollout_keeps_its_evidence_if_the_server_dies_before_it_records_it(
    drifted: Repositories, status: str
) -> None:
    roll_out_canary(drifted)
    outcomes = [(version, 0.5 * version) for version in (1, 2)] * (300 if status == "promoted" else 5)
    drifted.rollouts.add_observations({ARTIFACT: Observations(accuracies=outcomes)})
    if status == "stopped":
        drifted.rollouts.stop_rollout(ARTIFACT, "anonymous")
    before = drifted.rollouts.get(ARTIFACT)
    assert (before.status, before.to_reply(ARTIFACT).accuracy.active.outcomes > 0) == (status, True)
    drifted.automations.change_record(ARTIFACT, lambda one: replace(one, rollout_version=None, events=()))
    run_automations(drifted, drifted.automations.get_all(), freeze)
    after = drifted.rollouts.get(ARTIFACT)
    assert after.to_reply(ARTIFACT) == before.to_reply(ARTIFACT)
    assert (events(drifted), drifted.automations.get(ARTIFACT).problem) == (["rollout"], None)


@pytest.mark.parametrize("status", ["aborted", "stopped"])
def test_after_an_aborted_or_stopped_rollout_the_next_alarm_starts_a_rebuild(
    drifted: Repositories, status: str
) -> None:
    roll_out_canary(drifted)
    if status == "stopped":
        drifted.rollouts.stop_rollout(ARTIFACT, "anonymous")
    else:
        worse = [(version, 2.0 - version) for version in (1, 2)] * 300
        drifted.rollouts.add_observations({ARTIFACT: Observations(accuracies=worse)})
    read = drifted.automations.get(ARTIFACT)
    for _ in range(2):  # servers that read at the same time
        _report_end(drifted, ARTIFACT, read)
    for _ in range(2):
        run_all(drifted)
    record = drifted.automations.get(ARTIFACT)
    assert (events(drifted), "version 2" in str(record.problem)) == (["rebuild", "rollout", "failed"], True)
    assert versions(drifted) == [(1, True), (2, False)]
    drifted.automations.change_record(ARTIFACT, lambda one: replace(one, alarm=1))  # the alarm is another one now
    run_all(drifted)
    assert versions(drifted) == [(1, True), (2, False), (3, False)]
    record = drifted.automations.get(ARTIFACT)
    assert (record.rollout_version, record.problem) == (3, None)


def test_too_few_rows_wait(repos: Repositories) -> None:
    stored.put_trace(repos)
    repos.artifacts.publish(built_once(repos), created_at="2026-01-01T00:00:00+00:00")
    repos.automations.put(ARTIFACT, AutomationSpec(rebuild_on_drift=True))
    add_rows(repos, 150)
    run_all(repos)
    assert versions(repos) == [(1, True)]
    add_rows(repos, 150)
    run_all(repos)
    assert versions(repos) == [(1, True), (2, False)]


def test_a_rebuild_that_fails_is_reported_and_not_repeated(drifted: Repositories) -> None:
    drifted.automations.put(ARTIFACT, AutomationSpec.model_validate({"rebuild_on_drift": True, "rollout": ROLLOUT}))
    run_automations(drifted, drifted.automations.get_all(), freeze)
    (build,) = drifted.builds.list_unended()
    drifted.builds.end_build(build.id, "failed", "out of luck")
    for _ in range(2):
        run_all(drifted)
    assert drifted.automations.get(ARTIFACT).problem == "out of luck"
    assert versions(drifted) == [(1, True)]


def test_flags_keep_what_has_followed(drifted: Repositories) -> None:
    drifted.automations.put(ARTIFACT, AutomationSpec(rebuild_on_drift=True))
    run_all(drifted)
    assert not drifted.automations.put(ARTIFACT, AutomationSpec())
    assert drifted.automations.get(ARTIFACT).drifted_version == 1
    drifted.artifacts.delete_all(*ARTIFACT)
    assert drifted.automations.get_all() == {}


def release_claim(repos: Repositories) -> None:
    """Let another server take the step that was claimed."""
    repos.automations.change_record(ARTIFACT, lambda one: replace(one, claimed_at=0.0))


def events(repos: Repositories) -> list[str]:
    return [one.event for one in repos.automations.get(ARTIFACT).events]


def test_a_rebuild_learns_from_a_recording(drifted: Repositories) -> None:
    requests: list[FreezeRequest] = []
    freeze_few = freeze_into(drifted, [150, 250], requests)
    drifted.automations.put(ARTIFACT, FROM_RECORDING)
    for _ in range(2):
        run_automations(drifted, drifted.automations.get_all(), freeze_few)
    assert (len(requests), drifted.builds.list_unended(), events(drifted)) == (1, [], ["waiting"])
    release_claim(drifted)
    run_automations(drifted, drifted.automations.get_all(), freeze_few)
    (build,) = drifted.builds.list_unended()
    assert (build.dataset, build.activate) == (requests[0].dataset, False)
    assert events(drifted) == ["waiting", "rebuild"]
    assert all(one.since is not None for one in requests)


def test_a_dataset_of_the_user_is_not_overwritten(drifted: Repositories) -> None:
    for number in range(2, 5):
        stored.put_trace(drifted, f"plan.{number}", seed=number)
    before = {one.name: one.sha256 for one in drifted.datasets.get_infos()}
    drifted.automations.put(ARTIFACT, FROM_RECORDING)
    run_automations(drifted, drifted.automations.get_all(), freeze_into(drifted, [250], []))
    after = {one.name: one.sha256 for one in drifted.datasets.get_infos()}
    assert (before.items() <= after.items(), len(after) - len(before)) == (True, 1)


def test_too_few_recorded_rows_are_one_event(drifted: Repositories) -> None:
    requests: list[FreezeRequest] = []
    drifted.automations.put(ARTIFACT, FROM_RECORDING)
    for _ in range(3):
        run_automations(drifted, drifted.automations.get_all(), freeze_into(drifted, [150], requests))
        release_claim(drifted)
    assert (len(requests), events(drifted)) == (3, ["waiting"])
    assert len(drifted.datasets.get_infos()) == 2
    assert "150" in drifted.automations.get(ARTIFACT).events[0].reason


@pytest.mark.parametrize("error", [UnknownRecording("recording 'traffic' not found"), InvalidRequest("no usable row")])
def test_a_recording_that_fails_is_an_event_once_per_alarm(drifted: Repositories, error: ParsimonyError) -> None:
    requests: list[str] = []

    def freeze_nothing(recording: str, request: FreezeRequest) -> FrozenDataset:
        requests.append(recording)
        raise error

    def run_twice() -> None:
        for _ in range(2):
            run_automations(drifted, drifted.automations.get_all(), freeze_nothing)
            release_claim(drifted)

    drifted.automations.put(ARTIFACT, FROM_RECORDING)
    run_twice()
    assert (requests, events(drifted)) == (["traffic"], ["failed"])
    record = drifted.automations.get(ARTIFACT)
    assert (record.problem, str(error) in record.events[0].reason) == (str(error), True)
    add_rows(drifted, 300, correct=True)  # the mean changes again: a further alarm
    run_twice()
    assert (len(requests), events(drifted)) == (2, ["failed", "failed"])
    drifted.automations.put(ARTIFACT, FROM_RECORDING)  # by a person who has repaired it
    run_twice()
    assert (len(requests), events(drifted)) == (3, ["failed"] * 3)


@pytest.mark.parametrize("recording", [None, "traffic"])
def test_a_build_is_queued_once_if_the_server_dies_before_it_records_it(
    drifted: Repositories, recording: str | None
) -> None:
    drifted.automations.put(ARTIFACT, AutomationSpec(rebuild_on_drift=True, recording=recording))
    requests: list[FreezeRequest] = []
    freeze_rows = freeze_into(drifted, [250], requests)
    run_automations(drifted, drifted.automations.get_all(), freeze_rows)
    (build,) = drifted.builds.list_unended()
    datasets = len(drifted.datasets.get_infos())
    claimed = replace(drifted.automations.get(ARTIFACT), build=None, planned_build=build.id, claimed_at=1.0)
    drifted.automations.change_record(ARTIFACT, lambda one: claimed)
    add_rows(drifted, 300, correct=True)
    run_automations(drifted, drifted.automations.get_all(), freeze_rows)
    assert [one.id for one in drifted.builds.list_unended()] == [build.id]
    assert drifted.automations.get(ARTIFACT).build == build.id
    assert len(drifted.datasets.get_infos()) == datasets


def test_a_version_that_was_deleted_before_its_rollout_is_an_event(drifted: Repositories) -> None:
    drifted.automations.put(ARTIFACT, AutomationSpec(rebuild_on_drift=True))
    run_all(drifted)
    drifted.artifacts.delete(*ARTIFACT, 2)
    drifted.automations.put(ARTIFACT, AutomationSpec.model_validate({"rebuild_on_drift": True, "rollout": ROLLOUT}))
    for _ in range(2):
        run_automations(drifted, drifted.automations.get_all(), freeze)
    assert events(drifted) == ["rebuild", "failed"]
