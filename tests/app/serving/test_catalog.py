"""The catalog: what is published answers; whatever happens to the store, what is in memory goes on answering."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.serving.catalog import FULL_REFRESH_INTERVAL_S, Catalog
from app.serving.refresh import CatalogThread
from app.settings import Settings
from app.store.artifacts import decode_plan
from app.store.client import CHANNEL, make_store_key
from app.store.embedded import EmbeddedRedis
from app.store.pointers import Pointers
from app.store.repositories import Repositories, open_repositories
from models import ArtifactRecord
from models.cascade import CascadeQuery
from models.errors import StoreUnavailable, UnknownArtifact, UnknownVersion
from tests.support import stored
from tests.support.servers import wait_for


@pytest.fixture
def catalog(repos: Repositories) -> Catalog:
    stored.publish(repos)
    catalog = Catalog(repos.artifacts)
    catalog.refresh_plans()
    return catalog


def version(catalog: Catalog, name: str = "plan") -> int:
    return catalog.get("cascade", name).ref.version


def test_nothing_is_loaded_before_the_first_look(repos: Repositories) -> None:
    stored.publish(repos)
    catalog = Catalog(repos.artifacts)
    assert (catalog.loaded, catalog.store_up, catalog.plans) == (False, False, {})
    with pytest.raises(StoreUnavailable, match="not loaded yet"):  # nobody can say that it does not exist
        catalog.get("cascade", "plan")


def test_what_is_published_answers_after_the_next_look(repos: Repositories, catalog: Catalog) -> None:
    assert (catalog.loaded, catalog.store_up) == (True, True)
    assert version(catalog) == 1
    loaded = catalog.get("cascade", "plan")
    assert loaded.plan.decide(CascadeQuery(deadline=7.0)).cascade == ("K2",)  # type: ignore[attr-defined]
    stored.publish(repos, seed=1)
    stored.publish(repos, "second")
    catalog.refresh_plans()
    assert (version(catalog), version(catalog, "second")) == (2, 1)
    second = catalog.get("cascade", "second").plan
    repos.artifacts.activate("cascade", "plan", 1)
    catalog.refresh_plans()
    assert version(catalog) == 1
    assert catalog.get("cascade", "second").plan is second
    for kind, name, others in (("cascade", "other", "plan, second"), ("index", "plan", "")):
        with pytest.raises(UnknownArtifact, match=f"'{name}'.*{others}$"):
            catalog.get(kind, name)


def test_a_version_that_is_not_active_answers_when_it_is_asked_for(repos: Repositories, catalog: Catalog) -> None:
    stored.publish(repos, seed=1)
    catalog.refresh_plans()
    assert catalog.get_version("cascade", "plan", 1).ref.version == 1
    for asked in (2, None):
        assert catalog.get_version("cascade", "plan", asked) is catalog.get("cascade", "plan")
    with pytest.raises(UnknownVersion, match="version 3 of cascade 'plan' not found"):
        catalog.get_version("cascade", "plan", 3)


def test_a_corrupt_artifact_leaves_the_version_before_it_in_service_and_is_reported(
    repos: Repositories, catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    bad = stored.publish(repos, seed=1)
    stored.publish(repos, "second")
    repos.store.client.setrange(make_store_key("blob", bad.sha256), 60, b"\xff\xff\xff")
    catalog.refresh_plans()
    assert (version(catalog), version(catalog, "second")) == (1, 1)
    assert "SHA-256" in catalog.problems["cascade", "plan"]
    catalog.refresh_plans()
    assert catalog.load_failures == caplog.text.count("kind=cascade name='plan'") == 1
    stored.publish(repos, seed=2)
    catalog.refresh_plans()
    assert version(catalog) == 3
    assert catalog.problems == {}
    bad = stored.publish(repos, "bad")
    repos.store.client.delete(make_store_key("blob", bad.sha256))
    catalog.refresh_plans()
    assert "not found" in catalog.problems["cascade", "bad"]
    repos.artifacts.delete_all("cascade", "bad")
    catalog.refresh_plans()
    assert catalog.problems == {}


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ({"set": (make_store_key("version", "cascade", "plan", 2), b'{"from": "a later version"}')}, ""),
        ({"set": (make_store_key("version", "cascade", "plan", 2), b"{not json")}, "JSON"),
        ({"delete": (make_store_key("version", "cascade", "plan", 2),)}, ""),
        ({"hset": (make_store_key("active"), "oracle/plan", "1 abc")}, ""),
        (
            {
                "copy": (make_store_key("version", "oracle", "plan", 1),),
                "hset": (make_store_key("active"), "oracle/plan", "1 abc"),
            },
            "'oracle'",
        ),
    ],
)
def test_what_another_version_of_the_service_wrote_is_reported_and_the_rest_goes_on(
    damage: dict[str, tuple[Any, ...]], problem: str, repos: Repositories, catalog: Catalog
) -> None:
    stored.publish(repos, seed=1)
    for command, arguments in damage.items():
        if command == "copy":
            record = repos.store.client.get(make_store_key("version", "cascade", "plan", 1))
            assert isinstance(record, bytes)
            repos.store.client.set(arguments[0], record.replace(b'"kind":"cascade"', b'"kind":"oracle"'))
        else:
            getattr(repos.store.client, command)(*arguments)
    stored.publish(repos, "second")
    catalog.refresh_plans()
    assert version(catalog, "second") == 1
    (found,) = catalog.problems.values()
    assert problem in found


def test_a_store_that_came_back_empty_does_not_wipe_the_catalog_and_a_restored_backup_is_followed(
    repos: Repositories, catalog: Catalog
) -> None:
    kept = {name: repos.store.client.dump(name) for name in stored.keys(repos)}
    stored.publish(repos, seed=1)
    catalog.refresh_plans()
    assert version(catalog) == 2
    repos.store.client.flushdb()
    for name, dumped in kept.items():
        assert isinstance(dumped, bytes)
        repos.store.client.restore(name, 0, dumped)
    catalog.refresh_plans()
    assert version(catalog) == 1
    repos.store.client.flushdb()
    catalog.refresh_plans()
    assert version(catalog) == 1
    assert catalog.get("cascade", "plan").plan.decide(CascadeQuery()).cascade == ("K1", "K2")  # type: ignore[attr-defined]
    with pytest.raises(UnknownVersion):
        catalog.get_version("cascade", "plan", 2)


def test_a_store_that_is_away_leaves_the_plans_and_says_so(tmp_path: Path) -> None:
    with (
        EmbeddedRedis(tmp_path) as server,
        open_repositories(Settings(redis_url=server.url), client_name="test") as repos,
    ):
        stored.publish(repos)
        catalog = Catalog(repos.artifacts)
        catalog.refresh_plans()
    wait_for(lambda: not Path(server.url.removeprefix("unix://")).exists(), 10)
    with pytest.raises(StoreUnavailable):
        catalog.refresh_plans()
    assert (catalog.loaded, catalog.store_up, version(catalog)) == (True, False, 1)
    unloaded = Catalog(repos.artifacts)
    with pytest.raises(StoreUnavailable):
        unloaded.refresh_plans()
    with pytest.raises(StoreUnavailable, match="not loaded yet: store unavailable"):
        unloaded.get("cascade", "plan")
    repos.store.close()


@contextmanager
def running(catalog: Catalog, repos: Repositories, counts: dict[str, int]) -> Iterator[CatalogThread]:

    def count(name: str) -> None:
        counts[name] = counts.get(name, 0) + 1

    thread = CatalogThread(
        catalog,
        repos.store,
        chores=lambda: count("chores"),
        revive=lambda: (count("revive"), repos.restart_store())[1],  # type: ignore[func-returns-value]
        note=lambda: count("note"),
    )
    thread.start()
    try:
        yield thread
    finally:
        thread.stop()
        assert not thread.is_alive()


def test_the_thread_follows_an_announcement_within_a_second(repos: Repositories) -> None:
    catalog, counts = Catalog(repos.artifacts), dict[str, int]()
    with running(catalog, repos, counts):
        wait_for(lambda: catalog.loaded, 5)
        for number in (1, 2, 3):
            stored.publish(repos, seed=number)
            wait_for(lambda: catalog.plans and version(catalog) == number, 1.0)  # noqa: B023
        stored.publish(repos, "older")
        wait_for(lambda: ("cascade", "older") in catalog.plans, 1.0)
        repos.artifacts.delete_all("cascade", "older")
        wait_for(lambda: ("cascade", "older") not in catalog.plans, 1.0)
        assert catalog.problems == {}
        moved_by_an_older_version(repos, 1)
        repos.store.execute("publish", CHANNEL, "cascade/plan")
        wait_for(lambda: version(catalog) == 1, 1.0)
    assert (counts["chores"] >= 3, counts["note"] >= 3, "revive" in counts) == (True, True, False)


def test_the_thread_finds_what_was_never_announced(repos: Repositories) -> None:
    catalog = Catalog(repos.artifacts)
    with running(catalog, repos, {}):
        wait_for(lambda: catalog.loaded, 5)
        quietly = stored.publish(repos)
        repos.store.client.hset(make_store_key("active"), "cascade/other", f"1 {quietly.sha256}")
        record = repos.store.client.get(make_store_key("version", "cascade", "plan", 1))
        assert isinstance(record, bytes)
        repos.store.client.set(make_store_key("version", "cascade", "other", 1), record.replace(b'"plan"', b'"other"'))
        wait_for(lambda: ("cascade", "other") in catalog.plans, 5.0)


def answers(repos: Repositories) -> bool:
    try:
        repos.store.check_connection()
    except StoreUnavailable:
        return False
    return True


def test_the_thread_lives_through_an_absence_of_the_store(tmp_path: Path) -> None:
    with open_repositories(Settings(data_dir=tmp_path), client_name="test") as repos:
        assert repos.embedded is not None
        stored.publish(repos)
        catalog, counts = Catalog(repos.artifacts), dict[str, int]()
        with running(catalog, repos, counts):
            wait_for(lambda: catalog.loaded, 5)
            repos.store.client.shutdown(save=True)
            wait_for(lambda: answers(repos), 10)
            stored.publish(repos, seed=1)
            wait_for(lambda: version(catalog) == 2, 5)


def test_a_deleted_artifact_answers_no_more_and_a_lost_one_does(repos: Repositories, catalog: Catalog) -> None:
    stored.publish(repos, "lost")
    stored.publish(repos, "kept")
    catalog.refresh_plans()
    repos.artifacts.delete_all("cascade", "plan")
    repos.store.client.delete(*stored.keys(repos, "*lost*"))
    repos.store.client.hdel(make_store_key("active"), "cascade/lost")
    catalog.refresh_plans()
    with pytest.raises(UnknownArtifact, match="available: kept, lost"):
        catalog.get("cascade", "plan")
    assert (version(catalog, "lost"), version(catalog, "kept")) == (1, 1)
    assert list(catalog.problems) == [("cascade", "lost")]
    stored.publish(repos)
    stored.publish(repos, "lost", seed=1)
    catalog.refresh_plans()
    assert (version(catalog), catalog.problems) == (2, {})
    stored.publish(repos, seed=1)
    catalog.refresh_plans()
    for gone, left in ((3, 2), (2, None)):  # a deleted version gives way to the one before
        repos.artifacts.delete("cascade", "plan", gone, even_active=True)
        catalog.refresh_plans()
        assert left is None or version(catalog) == left
    assert (("cascade", "plan") in catalog.plans, catalog.problems) == (False, {})


@pytest.fixture
def full_looks(repos: Repositories, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    looks, usual = list[int](), Pointers.get_all
    monkeypatch.setattr(Pointers, "get_all", lambda self: (looks.append(1), usual(self))[1])  # type: ignore[func-returns-value]
    return looks


def test_a_look_costs_what_moved(repos: Repositories, catalog: Catalog, full_looks: list[int]) -> None:
    for name in ("a", "b", "c"):
        stored.publish(repos, name)
        catalog.refresh_plans()
        catalog.refresh_plans()
    repos.artifacts.delete_all("cascade", "b")
    catalog.refresh_plans()
    assert full_looks == []
    assert catalog.plans.keys() == {("cascade", name) for name in ("plan", "a", "c")}
    assert catalog.changed == {("cascade", name) for name in ("plan", "a", "b", "c")}


def test_what_was_not_noted_is_seen_by_the_number_or_by_the_next_full_look(
    repos: Repositories, catalog: Catalog, full_looks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.publish(repos, seed=1)
    catalog.refresh_plans()
    moved_by_an_older_version(repos, 1)
    catalog.refresh_plans()
    assert (version(catalog), full_looks) == (2, [])
    moment = time.monotonic() + FULL_REFRESH_INTERVAL_S
    monkeypatch.setattr("app.serving.catalog.time.monotonic", lambda: moment)
    catalog.refresh_plans()
    assert (version(catalog), full_looks) == (1, [1])


def moved_by_an_older_version(repos: Repositories, version: int) -> None:
    """Move the pointer of ``plan`` as a version of the service does that notes no moves."""
    digest = repos.artifacts.get_record("cascade", "plan", version).sha256
    repos.store.client.hset(make_store_key("active"), "cascade/plan", f"{version} {digest}")


@pytest.mark.parametrize(("announced", "looks"), [("cascade/plan", 0), ("", 1)])
def test_what_an_older_version_announces_is_followed(
    repos: Repositories, catalog: Catalog, full_looks: list[int], announced: str, looks: int
) -> None:
    stored.publish(repos, seed=1)
    catalog.refresh_plans()
    moved_by_an_older_version(repos, 1)
    catalog.refresh_plans([announced])
    assert (version(catalog), len(full_looks)) == (1, looks)


def test_many_are_loaded_a_batch_at_a_time_and_bad_ones_keep_no_other_back(
    repos: Repositories, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [stored.publish(repos, f"n-{number:03}") for number in range(450)]
    for record in records[::100]:
        repos.store.client.delete(make_store_key("blob", record.sha256))
    repos.store.client.set(make_store_key("version", "cascade", "n-001", 1), b"{not json")
    catalog, seen = Catalog(repos.artifacts), list[int]()
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            seen.append(len(catalog.plans))
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    catalog.refresh_plans()
    done.set()
    watcher.join()
    assert (len(catalog.plans), len(catalog.problems), catalog.load_failures) == (444, 6, 6)
    assert [at for at in seen if 0 < at < 444], "the first answer only when the last is loaded"
    with pytest.raises(UnknownArtifact) as refusal:
        catalog.get("cascade", "none")
    assert len(str(refusal.value)) < 200

    def fails_for_bad(record: ArtifactRecord, data: bytes | None) -> object:
        return 1 / 0 if record.name == "bad" else decode_plan(record, data)

    monkeypatch.setattr("app.serving.loaded_artifact.decode_plan", fails_for_bad)
    for name in ("bad", "good"):
        stored.publish(repos, name)
    catalog.refresh_plans()
    assert version(catalog, "good") == 1
    assert "ZeroDivisionError" in catalog.problems["cascade", "bad"]
    assert "n-002, n-003" in str(refusal.value)
