"""Builds: what may follow on what, the queue's limit, and the watch over builds whose worker has died."""

from collections.abc import Callable
from typing import Any

import pytest

from app.building.watchdog import GAP_S, SILENCE_S, Watchdog
from app.processes.clock import now
from app.store import builds as module
from app.store.batches import Batches
from app.store.builds import Builds
from app.store.client import Store, key
from app.store.repositories import Repositories
from models import ArtifactRecord, Build, BuildProgress, BuildStatus, InvalidRequest
from models.errors import Cancelled, TooManyBuilds, UnknownArtifact, UnknownBuild, UnknownDataset
from tests.support import stored


@pytest.fixture
def builds(repos: Repositories) -> Builds:
    stored.put_trace(repos)
    return repos.builds


def publish(repos: Repositories, build_id: str, *, between: Callable[[], Any] = lambda: None) -> ArtifactRecord:
    """Publish an artifact as a build's worker does; ``between`` happens inside, once the check was made."""
    check, commit = repos.builds.committing(build_id)

    def checked(pipe: Any) -> None:
        check(pipe)
        between()

    return repos.artifacts.publish(
        stored.artifact(), created_at=now(), check=checked, commit=commit, watched=(Builds.watched(build_id),)
    )


def ended(builds: Builds, status: BuildStatus) -> Build:
    return builds.end(builds.enqueue(stored.request()).id, status, None)


def test_a_build_is_queued_with_its_defaults_filled_in(builds: Builds) -> None:
    build = builds.enqueue(stored.request(params={"target_precision": 0.9}, seed=7))
    assert builds.get(build.id) == build
    assert (build.status, build.seed, build.artifact, build.started_at) == ("queued", 7, None, None)
    assert build.params["target_precision"] == 0.9
    assert build.params["dependence"] == "joint"
    assert builds.is_waiting(build.id)
    assert [b.id for b in builds.unended()] == [build.id]


def test_a_build_that_is_queued_is_given_whatever_the_store_refuses_afterwards(builds: Builds, store: Store) -> None:
    store.client.acl_setuser("default", enabled=True, nopass=True, commands=["-zrange"])
    try:
        build = builds.enqueue(stored.request())
    finally:
        store.client.acl_setuser("default", enabled=True, nopass=True, commands=["+zrange"])
    assert builds.is_waiting(build.id)
    assert builds.get(build.id) == build


def test_builds_are_listed_the_newest_first(builds: Builds) -> None:
    ids = [builds.enqueue(stored.request()).id for _ in range(3)]
    assert [build.id for build in builds.page().items] == ids[::-1]


def test_a_worker_takes_a_build_once(builds: Builds) -> None:
    build = builds.enqueue(stored.request())
    started = builds.start(build.id)
    assert started is not None
    assert started.status == "running"
    assert started.started_at is not None
    assert builds.start(build.id) is None
    assert builds.beats() == {build.id: 1}


def test_progress_is_shown_and_does_not_change_the_rest(builds: Builds) -> None:
    build = builds.enqueue(stored.request())
    builds.start(build.id)
    builds.report(build.id, BuildProgress(done=3, total=9, message="solving"))
    shown = builds.get(build.id)
    assert shown.progress == BuildProgress(done=3, total=9, message="solving")
    assert shown.status == "running"
    assert builds.page().items[0].progress.done == 3


def test_a_beat_counts_up(builds: Builds) -> None:
    build = builds.enqueue(stored.request())
    builds.start(build.id)
    builds.beat(build.id)
    assert builds.beats() == {build.id: 2}


def test_a_publication_and_its_success_are_one(repos: Repositories, builds: Builds) -> None:
    build = builds.enqueue(stored.request())
    builds.start(build.id)
    record = publish(repos, build.id)
    done = builds.get(build.id)
    assert done.status == "succeeded"
    assert done.finished_at is not None
    assert done.artifact is not None
    assert (done.artifact.name, done.artifact.version) == ("plan", record.version)
    assert builds.unended() == []
    assert builds.beats() == {}


@pytest.mark.parametrize("status", ["cancelled", "failed", "succeeded"])
def test_a_build_that_has_ended_publishes_nothing(status: BuildStatus, repos: Repositories, builds: Builds) -> None:
    build = builds.enqueue(stored.request())
    builds.start(build.id)
    builds.end(build.id, status, None)
    with pytest.raises(Cancelled, match=f"build {build.id} is {status}"):
        publish(repos, build.id)
    with pytest.raises(UnknownArtifact):
        repos.artifacts.record("cascade", "plan")
    assert stored.keys(repos, key("blob", "*")) == [key("blob", repos.datasets.info("trace").sha256)]


def test_a_build_that_is_cancelled_while_it_publishes_publishes_nothing(repos: Repositories, builds: Builds) -> None:
    build = builds.enqueue(stored.request())
    builds.start(build.id)
    with pytest.raises(Cancelled, match="is cancelled"):
        publish(repos, build.id, between=lambda: builds.cancel(build.id))
    assert repos.artifacts.pointers() == {}
    assert builds.get(build.id).status == "cancelled"


def test_a_build_that_was_never_taken_publishes_nothing(repos: Repositories, builds: Builds) -> None:
    build = builds.enqueue(stored.request())
    with pytest.raises(Cancelled, match="is queued"):
        publish(repos, build.id)
    assert repos.artifacts.pointers() == {}


@pytest.mark.parametrize("running", [False, True])
def test_a_cancelled_build_waits_no_more_and_cannot_go_on(running: bool, builds: Builds) -> None:
    build = builds.enqueue(stored.request())
    if running:
        builds.start(build.id)
    cancelled = builds.cancel(build.id)
    assert (cancelled.status, builds.get(build.id).status) == ("cancelled", "cancelled")
    assert cancelled.finished_at is not None
    assert not builds.is_waiting(build.id)
    assert builds.start(build.id) is None
    with pytest.raises(Cancelled):
        builds.report(build.id, BuildProgress())


@pytest.mark.parametrize("first", ["succeeded", "failed", "cancelled"])
@pytest.mark.parametrize("then", ["succeeded", "failed", "cancelled"])
def test_a_build_ends_once(first: BuildStatus, then: BuildStatus, builds: Builds) -> None:
    build = ended(builds, first)
    assert builds.end(build.id, then, "later") == build
    assert builds.cancel(build.id) == build
    assert builds.get(build.id) == build


def test_a_failed_build_says_why(builds: Builds) -> None:
    build = builds.enqueue(stored.request())
    builds.start(build.id)
    builds.end(build.id, "failed", "it ran out of memory")
    assert (builds.get(build.id).status, builds.get(build.id).error) == ("failed", "it ran out of memory")


@pytest.mark.parametrize("build_id", ["nosuch", "", "a:b", "*"])
def test_a_build_that_does_not_exist_is_unknown(build_id: str, builds: Builds) -> None:
    calls: list[Callable[[str], Any]] = [
        builds.get,
        builds.cancel,
        builds.start,
        lambda i: builds.report(i, BuildProgress()),
        lambda i: builds.end(i, "failed", None),
    ]
    for call in calls:
        with pytest.raises(UnknownBuild, match="there is no build"):
            call(build_id)


def test_the_progress_of_a_build_is_no_build(builds: Builds) -> None:
    build = builds.enqueue(stored.request())
    builds.start(build.id)
    builds.report(build.id, BuildProgress(done=1))
    with pytest.raises(UnknownBuild):
        builds.get(f"{build.id}:progress")


def test_the_queue_takes_no_more_than_its_limit(repos: Repositories, store: Store) -> None:
    stored.put_trace(repos)
    builds = Builds(store, queue_limit=2, timeout_s=60)
    first, _ = builds.enqueue(stored.request()), builds.enqueue(stored.request())
    with pytest.raises(TooManyBuilds, match="2 builds are waiting, the limit is 2; try again later"):
        builds.enqueue(stored.request())
    assert len(builds.page().items) == 2
    builds.cancel(first.id)
    assert builds.enqueue(stored.request()).status == "queued"


@pytest.mark.parametrize(
    ("changes", "loc"),
    [
        ({"solver": "oracle"}, ("solver",)),
        ({"params": {"target_precision": float("nan")}}, ("params", "target_precision")),
        ({"params": {"target_precision": "0.9"}}, ("params", "target_precision")),
        ({"params": {"target_precision": True}}, ("params", "target_precision")),
        ({"params": {"deadlines": [1.0, float("inf")]}}, ("params", "deadlines", 1)),
        ({"params": {"surprise": 1}}, ("params", "surprise")),
        ({"dataset": "table"}, ("dataset",)),
    ],
)
def test_a_bad_request_is_refused_by_its_field_and_not_queued(
    changes: dict[str, Any], loc: tuple[Any, ...], repos: Repositories, builds: Builds
) -> None:
    repos.datasets.put("table", stored.features(), created_at=now())
    with pytest.raises(InvalidRequest) as caught:
        builds.enqueue(stored.request(**changes))
    assert [fault.loc for fault in caught.value.faults] == [loc]
    assert builds.page().items == []


def test_a_dataset_of_the_wrong_kind_is_refused_with_both_kinds(repos: Repositories, builds: Builds) -> None:
    repos.datasets.put("table", stored.features(), created_at=now())
    with pytest.raises(InvalidRequest, match="'table' is of kind 'features', a cascade learns from trace"):
        builds.enqueue(stored.request(dataset="table"))


def test_a_dataset_that_does_not_exist_is_unknown(builds: Builds) -> None:
    with pytest.raises(UnknownDataset, match="there is no dataset called 'other'"):
        builds.enqueue(stored.request(dataset="other"))
    assert builds.page().items == []


def test_the_oldest_ended_builds_are_forgotten_and_open_ones_are_not(
    builds: Builds, repos: Repositories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_ENDED", 3)
    waiting = builds.enqueue(stored.request())
    old = [ended(builds, "failed").id for _ in range(5)]
    newest = builds.enqueue(stored.request())
    kept = [build.id for build in builds.page().items]
    assert kept == [newest.id, *old[:2:-1], waiting.id]
    assert len(stored.keys(repos, key("build", "*"))) == len(kept)
    with pytest.raises(UnknownBuild):
        builds.get(old[0])


class Watch:
    """A watch over builds, on a clock of its own that every look moves on."""

    def __init__(self, builds: Builds) -> None:
        self._now = 0.0
        self._watchdog = Watchdog(builds, Batches(builds._store, queue_limit=9), lambda: self._now)

    def look(self, *, for_s: float = 0.0, every_s: float = GAP_S - 1) -> None:
        passed = 0.0
        while True:
            self._watchdog.look()
            if passed >= for_s:
                break
            step = min(every_s, for_s - passed)
            self._now, passed = self._now + step, passed + step


def test_the_watch_ends_a_build_whose_beat_stands_still(builds: Builds) -> None:
    build = builds.enqueue(stored.request())
    builds.start(build.id)
    take_from_queue(builds, build.id)
    watch = Watch(builds)
    watch.look(for_s=SILENCE_S)
    assert builds.get(build.id).status == "running"
    watch.look(for_s=1)
    given_up = builds.get(build.id)
    assert given_up.status == "failed"
    assert given_up.error == "its worker died: no sign of life for 30 s"
    assert builds.unended() == []


def test_the_watch_leaves_a_build_whose_beat_goes_on(builds: Builds) -> None:
    build = builds.enqueue(stored.request())
    builds.start(build.id)
    watch = Watch(builds)
    for _ in range(4):
        watch.look(for_s=SILENCE_S)
        builds.beat(build.id)
    assert builds.get(build.id).status == "running"


def test_the_watch_leaves_a_build_that_waits_however_long(builds: Builds) -> None:
    build = builds.enqueue(stored.request())
    Watch(builds).look(for_s=10 * SILENCE_S)
    assert builds.get(build.id).status == "queued"


def test_the_watch_ends_a_queued_build_that_stands_in_no_queue(builds: Builds) -> None:
    build = builds.enqueue(stored.request())
    take_from_queue(builds, build.id)
    Watch(builds).look(for_s=SILENCE_S + 1)
    assert builds.get(build.id).status == "failed"


def test_the_watch_counts_anew_when_a_build_is_taken(builds: Builds) -> None:
    build = builds.enqueue(stored.request())
    take_from_queue(builds, build.id)
    watch = Watch(builds)
    watch.look(for_s=SILENCE_S)
    builds.start(build.id)
    watch.look(for_s=1)
    assert builds.get(build.id).status == "running"


def take_from_queue(builds: Builds, build_id: str) -> None:
    """Take a build out of the queue, as a worker does before it starts it."""
    builds._queue.stop(build_id)
    assert not builds.is_waiting(build_id)


def test_the_watch_starts_anew_after_a_time_in_which_nobody_could_look(builds: Builds) -> None:
    build = builds.enqueue(stored.request())
    builds.start(build.id)
    Watch(builds).look(for_s=2 * SILENCE_S, every_s=SILENCE_S + 1)  # the store was away
    assert builds.get(build.id).status == "running"


def test_builds_are_counted_by_what_became_of_them(builds: Builds) -> None:
    first, second = (builds.enqueue(stored.request()) for _ in range(2))
    assert builds.counts() == {"queued": 2}
    builds.start(first.id)
    builds.cancel(second.id)
    assert {status: count for status, count in builds.counts().items() if count} == {"running": 1, "cancelled": 1}
