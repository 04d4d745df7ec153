"""What follows from drift: one rebuild, one rollout, each only where its flag is set."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.building.automation import _rebuild, run_automations
from app.building.run_build import _build_and_publish
from app.store.feedback import Count
from app.store.repositories import Repositories
from models import ArtifactRef, InvalidRequest
from models.errors import UnknownRollout
from models.feedback import Estimates, Outcome
from models.recording import FreezeRequest, FrozenDataset
from models.rollout import AutomationSpec
from tests.support import stored
from tests.support.samples import trace_columns

ARTIFACT = ("cascade", "plan")
ROLLOUT: dict[str, Any] = {"mode": "shadow", "promote": {}}


@pytest.fixture
def drifted(repos: Repositories) -> Repositories:
    """Give a store whose only version has an alarm, and 300 rows of feedback."""
    stored.put_trace(repos)
    request = stored.request()
    repos.artifacts.publish(stored.built(repos, request), created_at="2026-01-01T00:00:00+00:00")
    add_rows(repos, 300)
    assert repos.feedback.get_alarms(ArtifactRef(kind="cascade", name="plan", version=1))
    return repos


def add_rows(repos: Repositories, rows: int) -> None:
    columns = trace_columns(rows, 5)
    count = Count(100)
    for k in range(rows):
        row = {name: np.asarray(cells)[k].item() for name, cells in columns.items()}
        outcome = Outcome(decision="cascade/plan/1?accuracy=0.9", correct=False, row=row)
        count.add(outcome, Estimates(accuracy=0.9))
    repos.feedback.add({ArtifactRef(kind="cascade", name="plan", version=1): count}, 1e9)


def freeze(recording: str, request: FreezeRequest) -> FrozenDataset:
    raise InvalidRequest(f"{recording} has no rows")


def run_all(repos: Repositories) -> None:
    """Take all steps, with the builds that they queue."""
    run_automations(repos, repos.automations.get_all(), freeze)
    for build in repos.builds.list_unended():
        started = repos.builds.start_build(build.id)
        assert started is not None
        _build_and_publish(repos, started)
    run_automations(repos, repos.automations.get_all(), freeze)


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


def test_too_few_rows_wait(repos: Repositories) -> None:
    stored.put_trace(repos)
    repos.artifacts.publish(stored.built(repos, stored.request()), created_at="2026-01-01T00:00:00+00:00")
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


def test_a_rebuild_learns_from_a_recording(drifted: Repositories) -> None:
    requests: list[tuple[str, str | None]] = []

    def freeze_few(recording: str, request: FreezeRequest) -> FrozenDataset:
        requests.append((recording, request.since))
        rows = 150 if len(requests) == 1 else 250
        info, replaced = drifted.datasets.put(
            request.dataset, stored.trace(rows), created_at="2026-01-01T00:00:00+00:00"
        )
        return FrozenDataset(**dict(info), replaced=replaced, recorded_rows=rows, unused={})

    drifted.automations.put(ARTIFACT, AutomationSpec(rebuild_on_drift=True, recording="traffic"))
    for _ in range(2):
        run_automations(drifted, drifted.automations.get_all(), freeze_few)
    assert (len(requests), drifted.builds.list_unended()) == (1, [])
    drifted.automations.change_record(ARTIFACT, lambda one: replace(one, claimed_at=0.0))
    run_automations(drifted, drifted.automations.get_all(), freeze_few)
    (build,) = drifted.builds.list_unended()
    assert (build.dataset, build.activate) == ("plan.2", False)
    assert {name for name, _ in requests} == {"traffic"}
    assert all(since is not None for _, since in requests)
