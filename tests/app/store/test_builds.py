"""Builds: what may follow on what, the queue's limit, and the watch over builds whose worker has died."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from app.building.watchdog import HEARTBEAT_TIMEOUT_S, MAX_CHECK_GAP_S, Watchdog
from app.processes.clock import current_timestamp
from app.store import builds as module
from app.store.batches import Batches
from app.store.build_owners import BuildOwner
from app.store.builds import Builds
from app.store.client import Store, make_store_key
from app.store.repositories import Repositories
from models import ArtifactRecord, Build, BuildProgress, BuildStatus, InvalidRequest
from models.errors import Cancelled, TooManyBuilds, UnknownBuild, UnknownDataset
from tests.support import stored


@pytest.fixture
def builds(repos: Repositories) -> Builds:
    stored.put_trace(repos)
    return repos.builds


def started(builds: Builds) -> str:
    build = builds.enqueue_build(stored.request())
    builds.start_build(build.id)
    return build.id


def publish(repos: Repositories, build_id: str, *, between: Callable[[], Any] = lambda: None) -> ArtifactRecord:
    """Publish an artifact as a build's worker does; ``between`` happens inside, once the check was made."""
    check, commit = repos.builds.commit_result(build_id)

    def checked(pipe: Any) -> None:
        check(pipe)
        between()

    return repos.artifacts.publish(
        stored.artifact(),
        created_at=current_timestamp(),
        check=checked,
        commit=commit,
        watched=(Builds.watch_cancellation(build_id),),
    )


def test_open_builds_of_a_team_are_bounded_and_ended_ones_do_not_count(builds: Builds) -> None:
    red, blue = BuildOwner("red", 2), BuildOwner("blue", 1)

    def start_build(owner: BuildOwner) -> str | None:
        try:
            return builds.enqueue_build(stored.request(), owner=owner).id
        except TooManyBuilds:
            return None

    with ThreadPoolExecutor(6) as pool:
        ids = [one for one in pool.map(start_build, [red] * 6) if one]
    assert len(ids) == 2
    with pytest.raises(TooManyBuilds):
        builds.check_room(red)
    builds.check_room(blue)
    assert start_build(blue)
    assert start_build(BuildOwner())
    builds.start_build(ids[1])
    assert not start_build(red), "a running build counts, too"
    builds.cancel(ids[0])
    builds.check_room(red)
    assert start_build(red)
    assert not start_build(red)


def ended(builds: Builds, status: BuildStatus) -> Build:
    return builds.end_build(builds.enqueue_build(stored.request()).id, status, "it ran out of memory")


def test_a_build_is_queued_taken_once_reported_on_and_publishes_as_it_succeeds(
    repos: Repositories, builds: Builds
) -> None:
    build = builds.enqueue_build(stored.request(params={"target_precision": 0.9}, seed=7))
    other = builds.enqueue_build(stored.request())
    for place, each in enumerate((build, other), 1):
        waiting = builds.get(each.id)
        assert waiting.progress.message.startswith(f"place {place} ")
        assert waiting.model_copy(update={"progress": each.progress}) == each
        assert waiting in builds.list_page().items
    assert (build.status, build.seed, build.artifact, build.started_at) == ("queued", 7, None, None)
    assert (build.params["target_precision"], build.params["dependence"]) == (0.9, "joint")
    assert builds.is_waiting(build.id)
    assert {each.id for each in builds.list_unended()} == {build.id, other.id}
    assert [each.id for each in builds.list_page().items] == [other.id, build.id]
    assert builds.count_by_status() == {"queued": 2}
    builds.cancel(other.id)
    taken = builds.start_build(build.id)
    assert taken is not None
    assert (taken.status, taken.started_at is None) == ("running", False)
    assert builds.start_build(build.id) is None
    assert builds.list_heartbeats() == {build.id: 1}
    builds.renew_heartbeat(build.id)
    assert builds.list_heartbeats() == {build.id: 2}
    assert {status: count for status, count in builds.count_by_status().items() if count} == {
        "running": 1,
        "cancelled": 1,
    }
    progress = BuildProgress(done=3, total=9, message="solving")
    builds.report_progress(build.id, progress)
    assert (builds.get(build.id).progress, builds.get(build.id).status) == (progress, "running")
    assert builds.list_page().items[1].progress.done == 3
    with pytest.raises(UnknownBuild):
        builds.get(f"{build.id}:progress")
    record = publish(repos, build.id)
    done = builds.get(build.id)
    assert (done.status, done.finished_at is None) == ("succeeded", False)
    assert done.artifact is not None
    assert (done.artifact.name, done.artifact.version) == ("plan", record.version)
    assert (builds.list_unended(), builds.list_heartbeats()) == ([], {})


def test_a_build_that_is_queued_is_given_whatever_the_store_refuses_afterwards(builds: Builds, store: Store) -> None:
    store.client.acl_setuser("default", enabled=True, nopass=True, commands=["-zrange"])
    try:
        build = builds.enqueue_build(stored.request())
    finally:
        store.client.acl_setuser("default", enabled=True, nopass=True, commands=["+zrange"])
    assert builds.is_waiting(build.id)
    assert builds.get(build.id).model_copy(update={"progress": build.progress}) == build


@pytest.mark.parametrize("status", ["cancelled", "failed", "succeeded", "queued", "cancelled meanwhile"])
def test_a_build_that_has_ended_or_was_never_taken_publishes_nothing(
    status: str, repos: Repositories, builds: Builds
) -> None:
    build = builds.enqueue_build(stored.request())
    if status != "queued":
        builds.start_build(build.id)
    between: Callable[[], Any] = lambda: None  # noqa: E731
    if status == "cancelled meanwhile":
        between = lambda: builds.cancel(build.id)  # noqa: E731
    elif status != "queued":
        builds.end_build(build.id, cast("BuildStatus", status), None)
    with pytest.raises(Cancelled, match=f"is {status.split()[0]}"):
        publish(repos, build.id, between=between)
    assert builds.get(build.id).status == status.split()[0]
    assert repos.artifacts.get_pointers() == {}
    assert stored.keys(repos, make_store_key("blob", "*")) == [
        make_store_key("blob", repos.datasets.get_info("trace").sha256)
    ]


@pytest.mark.parametrize("running", [False, True])
def test_a_cancelled_build_waits_no_more_and_cannot_go_on(running: bool, builds: Builds) -> None:
    build = builds.enqueue_build(stored.request())
    if running:
        builds.start_build(build.id)
    cancelled = builds.cancel(build.id)
    assert (cancelled.status, builds.get(build.id).status) == ("cancelled", "cancelled")
    assert cancelled.finished_at is not None
    assert not builds.is_waiting(build.id)
    assert builds.start_build(build.id) is None
    with pytest.raises(Cancelled):
        builds.report_progress(build.id, BuildProgress())


@pytest.mark.parametrize("first", ["succeeded", "failed", "cancelled"])
@pytest.mark.parametrize("then", ["succeeded", "failed", "cancelled"])
def test_a_build_ends_once(first: BuildStatus, then: BuildStatus, builds: Builds) -> None:
    build = ended(builds, first)
    assert build.error == "it ran out of memory"
    assert builds.end_build(build.id, then, "later") == build
    assert builds.cancel(build.id) == build
    assert builds.get(build.id) == build


@pytest.mark.parametrize("build_id", ["nosuch", "", "a:b", "*"])
def test_a_build_that_does_not_exist_is_unknown(build_id: str, builds: Builds) -> None:
    calls: list[Callable[[str], Any]] = [
        builds.get,
        builds.cancel,
        builds.start_build,
        lambda i: builds.report_progress(i, BuildProgress()),
        lambda i: builds.end_build(i, "failed", None),
    ]
    for call in calls:
        with pytest.raises(UnknownBuild, match=r"build .* not found"):
            call(build_id)


def test_the_queue_takes_no_more_than_its_limit(repos: Repositories, store: Store) -> None:
    stored.put_trace(repos)
    builds = Builds(store, queue_limit=2, timeout_s=60)
    first, _ = builds.enqueue_build(stored.request()), builds.enqueue_build(stored.request())
    with pytest.raises(TooManyBuilds, match="queue full: 2 builds, maximum is 2"):
        builds.enqueue_build(stored.request())
    assert len(builds.list_page().items) == 2
    builds.cancel(first.id)
    assert builds.enqueue_build(stored.request()).status == "queued"


@pytest.mark.parametrize(
    ("changes", "loc"),
    [
        ({"kind": "oracle"}, ("kind",)),
        ({"params": {"target_precision": float("nan")}}, ("params", "target_precision")),
        ({"params": {"target_precision": "0.9"}}, ("params", "target_precision")),
        ({"params": {"target_precision": True}}, ("params", "target_precision")),
        ({"params": {"deadlines": [1.0, float("inf")]}}, ("params", "deadlines", 1)),
        ({"params": {"surprise": 1}}, ("params", "surprise")),
        ({"dataset": "table"}, ("dataset",)),  # of another kind
    ],
)
def test_a_bad_request_is_refused_by_its_field_and_not_queued(
    changes: dict[str, Any], loc: tuple[Any, ...], repos: Repositories, builds: Builds
) -> None:
    repos.datasets.put("table", stored.features(), created_at=current_timestamp())
    with pytest.raises(InvalidRequest) as caught:
        builds.enqueue_build(stored.request(**changes))
    assert [fault.loc for fault in caught.value.faults] == [loc]
    with pytest.raises(UnknownDataset):
        builds.enqueue_build(stored.request(dataset="other"))
    assert builds.list_page().items == []


def test_the_oldest_ended_builds_are_forgotten_and_open_ones_are_not(
    builds: Builds, repos: Repositories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_ENDED_BUILDS", 3)
    waiting = builds.enqueue_build(stored.request())
    old = [ended(builds, "failed").id for _ in range(5)]
    newest = builds.enqueue_build(stored.request())
    kept = [build.id for build in builds.list_page().items]
    assert kept == [newest.id, *old[:2:-1], waiting.id]
    assert len(stored.keys(repos, make_store_key("build", "*"))) == len(kept)
    with pytest.raises(UnknownBuild):
        builds.get(old[0])


class Watch:
    """A watch over builds, on a clock of its own that every look moves on."""

    def __init__(self, builds: Builds) -> None:
        self._now = 0.0
        self._watchdog = Watchdog(builds, Batches(builds._store, queue_limit=9), lambda: self._now)

    def look(self, *, for_s: float = 0.0, every_s: float = MAX_CHECK_GAP_S - 1) -> None:
        passed = 0.0
        while True:
            self._watchdog.check_builds()
            if passed >= for_s:
                break
            step = min(every_s, for_s - passed)
            self._now, passed = self._now + step, passed + step


@pytest.mark.parametrize("is_started", [True, False])
def test_the_watch_ends_a_build_whose_beat_stands_still_or_that_is_in_no_queue(
    builds: Builds, is_started: bool
) -> None:
    build = started(builds) if is_started else builds.enqueue_build(stored.request()).id
    take_from_queue(builds, build)
    watch = Watch(builds)
    watch.look(for_s=HEARTBEAT_TIMEOUT_S)
    assert builds.get(build).status == ("running" if is_started else "queued")
    watch.look(for_s=1)
    given_up = builds.get(build)
    assert (given_up.status, f"{HEARTBEAT_TIMEOUT_S:g} s" in (given_up.error or "")) == ("failed", True)
    assert builds.list_unended() == []


def test_the_watch_leaves_a_build_that_beats_or_waits_or_was_just_taken(builds: Builds) -> None:
    """It also counts anew after a time in which nobody could look: the store was away."""
    build, taken, waiting = (
        started(builds),
        builds.enqueue_build(stored.request()).id,
        builds.enqueue_build(stored.request()).id,
    )
    take_from_queue(builds, taken)
    watch = Watch(builds)
    for place in range(4):
        watch.look(for_s=HEARTBEAT_TIMEOUT_S - 1)
        builds.renew_heartbeat(build)
        builds.renew_heartbeat(taken) if place else builds.start_build(taken)
        watch.look(for_s=1)
    assert [builds.get(each).status for each in (build, taken, waiting)] == ["running", "running", "queued"]
    Watch(builds).look(for_s=2 * HEARTBEAT_TIMEOUT_S, every_s=HEARTBEAT_TIMEOUT_S + 1)
    assert builds.get(build).status == "running"


def take_from_queue(builds: Builds, build_id: str) -> None:
    builds._queue.stop(build_id)
    assert not builds.is_waiting(build_id)
