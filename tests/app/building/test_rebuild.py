"""Rebuilds: which rows the next version learns from, and whether what it promises holds in a changed world."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.building.rebuild import MIN_ROWS_SINCE_CHANGE, PreparedRebuild, prepare_rebuild, sample_by_age, start_rebuild
from app.building.run_build import build_locally
from app.processes.clock import format_timestamp
from app.serving.catalog import LoadedArtifact
from app.store.build_owners import BuildOwner
from app.store.builds import validate_build_request
from app.store.feedback import AddedOutcomes
from app.store.repositories import Repositories
from models import ArtifactRecord, BuildRequest
from models.cascade import CascadeQuery
from models.errors import Conflict, Forbidden, TooManyBuilds
from models.feedback import Estimates, Outcome
from models.rebuild import RebuildRequest
from models.team_quota import TeamQuota
from solvers import no_progress
from tests.support import stored
from tests.support.replays import NAMES, World, replay_cascade

STORED_AT = 1_000_000.0
DAY = 86_400.0


def changed(world: World, share: float = 0.3) -> World:
    """Make a world in which each classifier is wrong on this share of the items, however sure it is."""
    rng = np.random.default_rng(len(world.correct))
    broken = rng.random(world.correct.shape) < share
    labels = np.unique(world.trace["label"])
    places = np.searchsorted(labels, world.trace["label"])
    wrong, says = labels[(places + 2) % len(labels)], {}
    for k, name in enumerate(NAMES):
        given = world.trace[f"{name}_says"]
        says[f"{name}_says"] = np.where(broken[:, k] & world.correct[:, k], wrong, given)
    return replace(world, trace=world.trace | says, correct=world.correct & ~broken)


_BUILT: list[bytes] = []
"""What is built from the same rows for each test."""


@pytest.fixture
def record(repos: Repositories) -> ArtifactRecord:
    world = World.of(1, 600)
    repos.datasets.put("trace", world.dataset("cascade"), created_at=format_timestamp(STORED_AT))
    if not _BUILT:
        _BUILT.append(stored.built(repos, stored.request()))
    return repos.artifacts.publish(_BUILT[0], created_at=format_timestamp(STORED_AT))


def build(repos: Repositories, request: BuildRequest) -> ArtifactRecord:
    return build_locally(repos, request, validate_build_request(request)[1], no_progress)


def send_rows(repos: Repositories, record: ArtifactRecord, world: World, at: float) -> None:
    count, columns = AddedOutcomes(1000), [*world.trace]
    for place, cells in enumerate(zip(*(world.trace[name].tolist() for name in columns), strict=True)):
        embedding = tuple(world.embeddings[place].tolist())
        row = dict(zip(columns, cells, strict=True))
        correct = bool(world.correct[place, -1])
        outcome = Outcome(artifact=record.ref, correct=correct, row=row, embedding=embedding)
        count.add(outcome, Estimates(accuracy=0.93))
    repos.feedback.add({record.ref: count}, at)


def prepare(repos: Repositories, record: ArtifactRecord, **options: Any) -> PreparedRebuild:
    return prepare_rebuild(repos, record, RebuildRequest.model_validate_json(json.dumps(options)))


@pytest.mark.slow
def test_what_a_version_rebuilt_after_an_alarm_promises_holds_in_the_changed_world(
    repos: Repositories, record: ArtifactRecord
) -> None:
    """It learns from the rows since the change point alone; of all rows its promise would be far too good."""
    send_rows(repos, record, World.of(2, 500), STORED_AT + DAY)
    send_rows(repos, record, changed(World.of(3, 600)), STORED_AT + 2 * DAY)
    prepared = prepare(repos, record)
    assert abs((prepared.change_point or 0) - 501) < 30
    assert (prepared.old_rows, prepared.new_rows) == (0, 1101 - (prepared.change_point or 0))
    fresh = changed(World.of(4, 20_000))
    promises = []
    for request in (prepared.request, prepare(repos, record, only_new=False, dataset="all-rows").request):
        newer = build(repos, request)
        loaded = LoadedArtifact.from_record(newer, repos.artifacts.load_plan(newer))
        promises.append(
            next(each for each in replay_cascade(loaded, fresh, CascadeQuery()) if each.quantity == "accuracy")
        )
    (low, high), true = promises[0].interval, promises[0].true
    assert low <= true <= high
    assert promises[1].said > promises[1].true + 0.08


def test_without_enough_rows_since_the_change_all_rows_are_taken(repos: Repositories, record: ArtifactRecord) -> None:
    send_rows(repos, record, World.of(2, 500), STORED_AT + DAY)
    send_rows(repos, record, changed(World.of(3, MIN_ROWS_SINCE_CHANGE - 50), 0.6), STORED_AT + 2 * DAY)
    assert repos.feedback.get_alarms(record.ref)
    prepared = prepare(repos, record)
    assert (prepared.change_point, prepared.old_rows) == (None, 600)


def test_a_rebuild_that_is_refused_stores_no_rows(repos: Repositories, record: ArtifactRecord) -> None:
    send_rows(repos, record, World.of(2, 50), STORED_AT + DAY)
    before, owner = repos.datasets.get_infos(), BuildOwner("red", 1)
    started = start_rebuild(repos, record, RebuildRequest(), owner)
    assert started.new_rows == 50
    stored = repos.datasets.get_infos()
    assert len(stored) == len(before) + 1
    with pytest.raises(TooManyBuilds):
        start_rebuild(repos, record, RebuildRequest(dataset="another"), owner)
    assert repos.datasets.get_infos() == stored


@pytest.mark.parametrize(
    ("options", "old", "new"),
    [
        ({}, 600, 150),
        ({"only_new": True}, 0, 150),
        ({"since": format_timestamp(STORED_AT + 5 * DAY)}, 0, 50),
        ({"since": format_timestamp(STORED_AT - DAY)}, 600, 150),
        ({"since": format_timestamp(STORED_AT - DAY), "only_new": True}, 0, 150),
    ],
)
def test_a_request_chooses_rows_by_their_age(
    repos: Repositories, record: ArtifactRecord, options: dict[str, Any], old: int, new: int
) -> None:
    """The old dataset's rows are as old as the dataset."""
    send_rows(repos, record, World.of(2, 100), STORED_AT + DAY)
    send_rows(repos, record, World.of(3, 50), STORED_AT + 10 * DAY)
    prepared = prepare(repos, record, **options)
    assert (prepared.old_rows, prepared.new_rows) == (old, new)
    assert repos.datasets.get_info(prepared.request.dataset).rows == old + new


def test_a_half_life_keeps_rows_by_their_age_and_duplicates_none(repos: Repositories, record: ArtifactRecord) -> None:
    """Of rows that are one half-life old about half, of those that are ten about none; the seed decides which."""
    send_rows(repos, record, World.of(2, 100), STORED_AT + 9 * DAY)
    send_rows(repos, record, World.of(3, 50), STORED_AT + 10 * DAY)
    prepared = prepare(repos, record, half_life=1.0)
    assert prepared.old_rows <= 5
    assert 50 + 35 <= prepared.new_rows <= 50 + 65
    assert prepare(repos, record, half_life=1.0) == prepared
    at = np.repeat([0.0, 1.0, 2.0], 10_000)
    kept = sample_by_age(at, 1.0, 0).reshape(3, -1).mean(axis=1)
    assert kept == pytest.approx([0.25, 0.5, 1], abs=0.02)


def test_a_rebuild_without_rows_is_refused(repos: Repositories, record: ArtifactRecord) -> None:
    with pytest.raises(Conflict):
        prepare(repos, record)
    send_rows(repos, record, World.of(2, 10), STORED_AT)
    with pytest.raises(Conflict):
        prepare(repos, record, since=format_timestamp(STORED_AT + DAY))


def test_a_new_dataset_takes_a_free_name(repos: Repositories, record: ArtifactRecord) -> None:
    """The same rows take the same name again; a name that the request gives must be free."""
    send_rows(repos, record, World.of(2, 20), STORED_AT + DAY)
    names = [prepare(repos, record, only_new=only_new).request.dataset for only_new in (False, True, False, True)]
    assert names == ["trace.2", "trace.3", "trace.2", "trace.3"]
    with pytest.raises(Conflict):
        prepare(repos, record, dataset="trace")


def test_a_new_dataset_has_the_owner_of_the_artifact(repos: Repositories, record: ArtifactRecord) -> None:
    """The artifact's team pays for the rows of its rebuilds, also if another team has the first dataset."""
    send_rows(repos, record, World.of(2, 20), STORED_AT + DAY)
    quotas = {"red": TeamQuota(names="pla"), "blue": TeamQuota(names="tra")}
    shared = replace(repos, settings=repos.settings.model_copy(update={"team_quotas": quotas}))
    assert prepare(shared, record).request.dataset == "plan.2"
    for name in ("trace.9", "rows"):
        with pytest.raises(Forbidden):
            prepare(shared, record, dataset=name)
    taken = {"red": TeamQuota(names="trace.")}
    shared = replace(repos, settings=repos.settings.model_copy(update={"team_quotas": taken}))
    with pytest.raises(Forbidden):
        prepare(shared, record)
    assert [one.name for one in repos.datasets.get_infos()] == ["plan.2", "trace"]
