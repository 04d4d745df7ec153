"""Deleting artifacts in a real store: nothing is left of one but the counter of its versions."""

import threading
from contextlib import suppress

import pytest

from app.store.client import Store, make_store_key
from app.store.feedback import AddedOutcomes
from app.store.pointers import MOVES
from app.store.repositories import Repositories
from models import ArtifactRef, ParsimonyError
from models.errors import Conflict, UnknownArtifact, UnknownVersion
from models.feedback import Estimates, Outcome
from tests.support import stored
from tests.support.invariants import assert_whole

ID = ("cascade", "plan")


def tell(repos: Repositories, version: int, name: str = "plan") -> None:
    ref, count = ArtifactRef(kind="cascade", name=name, version=version), AddedOutcomes(100)
    count.add(Outcome(artifact=ref, correct=True, row={"truth": "cat"}), Estimates(accuracy=0.9))
    repos.feedback.add({ref: count}, 0.0)


def test_nothing_is_left_of_a_deleted_artifact_but_its_counter(repos: Repositories) -> None:
    for seed in (0, 1, 1):
        stored.publish(repos, seed=seed)
    for version in (1, 3):
        tell(repos, version)
    repos.store.client.sadd(make_store_key("drifted"), "cascade/plan/1/accuracy")
    repos.artifacts.delete_all(*ID)
    assert stored.keys(repos) == [make_store_key("counter", *ID), MOVES]
    for call in (repos.artifacts.get_record, repos.artifacts.list_versions, repos.artifacts.delete_all):
        with pytest.raises(UnknownArtifact, match=r"cascade artifact 'plan' not found$"):
            call(*ID)
    assert repos.artifacts.list_page().items == []
    assert_whole(repos.store.client)
    with pytest.raises(UnknownVersion):
        tell(repos, 1)
    assert stored.keys(repos, make_store_key("feedback*")) == []
    record = stored.publish(repos, seed=0)
    assert (record.version, repos.artifacts.get_bytes(record)) == (4, stored.artifact(seed=0))
    assert [each.version for each in repos.artifacts.list_versions(*ID)] == [4]


def test_other_artifacts_keep_what_is_theirs(repos: Repositories) -> None:
    other = stored.publish(repos, "other")
    stored.publish(repos)
    tell(repos, 1)
    tell(repos, 1, "other")
    # as if bytes were shared
    repos.store.client.sadd(make_store_key("refs", stored.publish(repos).sha256), "artifact/index/else/1")
    repos.artifacts.delete_all(*ID)
    assert [record.name for record in repos.artifacts.list_page().items] == ["other"]
    with pytest.raises(UnknownArtifact, match="'plan' not found; available: other"):
        repos.artifacts.delete_all(*ID)
    with pytest.raises(UnknownArtifact):
        repos.artifacts.delete(*ID, 1, even_active=True)
    assert repos.artifacts.get_bytes(other)
    assert len(stored.keys(repos, make_store_key("blob", "*"))) == 2
    assert repos.feedback.make_report(other).outcomes == 1


def test_the_active_version_goes_only_if_asked_for_and_the_highest_that_remains_answers(repos: Repositories) -> None:
    first, second = (stored.publish(repos, seed=seed) for seed in (0, 1))
    stored.publish(repos, seed=2)
    with pytest.raises(Conflict, match="version 3 of cascade 'plan' is active"):
        repos.artifacts.delete(*ID, 3)
    with repos.store.read_announcements() as wait:
        repos.artifacts.delete(*ID, 3, even_active=True)
        assert wait(2.0)
    assert repos.artifacts.get_pointers() == {ID: (2, second.sha256)}
    repos.artifacts.activate(*ID, 1)
    repos.artifacts.delete(*ID, 1, even_active=True)
    assert [(r.version, r.active) for r in repos.artifacts.list_versions(*ID)] == [(2, True)]
    with pytest.raises(UnknownVersion, match=r"version 1 of .* not found; active version is 2"):
        repos.artifacts.delete(*ID, 1, even_active=True)
    repos.artifacts.delete(*ID, 2, even_active=True)
    assert stored.keys(repos) == [make_store_key("counter", *ID), MOVES]
    assert first.sha256 != second.sha256
    assert stored.publish(repos).version == 4


def test_a_full_store_can_be_emptied(repos: Repositories) -> None:
    for name in ("plan", "other"):
        for seed in (0, 1):
            stored.publish(repos, name, seed)
    repos.store.client.config_set("maxmemory", 1)
    try:
        repos.artifacts.delete("cascade", "other", 1)
        repos.artifacts.delete_all(*ID)
        assert [record.name for record in repos.artifacts.list_page().items] == ["other"]
    finally:
        repos.store.client.config_set("maxmemory", 0)
    for _ in range(2):
        stored.publish(repos)
    repos.store.client.set(make_store_key("version", *ID, 3), b"{no json")
    repos.store.client.delete(make_store_key("version", *ID, 4))
    repos.artifacts.delete_all(*ID)  # also if it is damaged
    assert repos.artifacts.get_pointers().keys() == {("cascade", "other")}
    assert stored.keys(repos, make_store_key("version*", *ID)) == []


def test_who_deletes_all_while_others_publish_and_activate_leaves_a_whole_store(repos: Repositories) -> None:
    failures, over = list[BaseException](), threading.Event()

    def publish() -> None:
        while not over.is_set():
            try:
                record = stored.publish(repos, seed=len(failures))
                repos.artifacts.activate(*ID, max(1, record.version - 1))
            except (UnknownArtifact, UnknownVersion):
                pass
            except ParsimonyError as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=publish) for _ in range(2)]
    for thread in threads:
        thread.start()
    store = Store(repos.store.url)
    for _ in range(40):
        with suppress(UnknownArtifact):
            repos.artifacts.delete_all(*ID)
        assert_whole(store.client)
    over.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert_whole(store.client)
    store.close()


def test_what_was_deleted_is_told_from_what_was_lost(repos: Repositories) -> None:
    stored.publish(repos)
    stored.publish(repos, "lost")
    repos.artifacts.delete_all(*ID)
    repos.store.client.delete(*stored.keys(repos, "*lost*"))
    assert repos.artifacts.find_deleted([ID, ("cascade", "lost")]) == {ID}
    assert repos.artifacts.find_deleted([]) == set()


def test_what_moved_is_told_to_whoever_looked_before(repos: Repositories) -> None:
    pointing = repos.artifacts.pointing
    _, mark = pointing.get_all()
    assert pointing.list_changes(mark) is not None
    for name in ("a", "b", "a"):
        stored.publish(repos, name)
    changes = pointing.list_changes(mark)
    assert changes is not None
    assert (set(changes.changed), changes.count) == ({("cascade", "a"), ("cascade", "b")}, 2)
    again = pointing.list_changes(changes.mark)
    assert again is not None
    assert (again.changed, again.mark) == (frozenset(), changes.mark)
    repos.artifacts.activate("cascade", "a", 1)
    repos.artifacts.delete_all("cascade", "b")
    last = pointing.list_changes(again.mark)
    assert last is not None
    assert (set(last.changed), last.count) == ({("cascade", "a"), ("cascade", "b")}, 1)
    assert pointing.get_all()[1] == last.mark


def test_a_store_that_cannot_tell_what_moved_says_so(repos: Repositories) -> None:
    stored.publish(repos)
    pointing = repos.artifacts.pointing
    mark = pointing.get_all()[1]
    for _ in range(2000):
        repos.store.client.xadd(MOVES, {"artifact": "cascade/plan"}, maxlen=1000)
    assert pointing.list_changes(mark) is None, "more moved than is told"
    repos.store.client.flushdb()
    assert pointing.list_changes(mark) is None, "it is another store"
    stored.publish(repos)
    assert pointing.list_changes(mark) is None
