"""The catalog: what is published answers; whatever happens to the store, what is in memory goes on answering."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.catalog import Catalog, CatalogThread
from app.embedded import EmbeddedRedis
from app.parts import Parts, open_parts
from app.settings import Settings
from app.store import key
from models import CascadeQuery
from models.errors import StoreUnavailable, UnknownArtifact, UnknownVersion
from tests.app import stored
from tests.servers import wait_for


@pytest.fixture
def catalog(parts: Parts) -> Catalog:
    """Give a catalog that has seen version 1 of ``plan``."""
    stored.publish(parts)
    catalog = Catalog(parts.artifacts)
    catalog.refresh()
    return catalog


def version(catalog: Catalog, name: str = "plan") -> int:
    """Give the version that answers."""
    return catalog.get("cascade", name).ref.version


def test_nothing_is_loaded_before_the_first_look(parts: Parts) -> None:
    stored.publish(parts)
    catalog = Catalog(parts.artifacts)
    assert (catalog.loaded, catalog.store_up, catalog.plans) == (False, False, {})
    with pytest.raises(StoreUnavailable, match="not been loaded yet"):  # nobody can say that it does not exist
        catalog.get("cascade", "plan")


def test_what_is_published_answers_after_the_next_look(parts: Parts, catalog: Catalog) -> None:
    assert (catalog.loaded, catalog.store_up) == (True, True)
    assert version(catalog) == 1
    live = catalog.get("cascade", "plan")
    assert live.plan.decide(CascadeQuery(deadline=7.0)).cascade == ("K2",)
    stored.publish(parts, seed=1)
    stored.publish(parts, "second")
    catalog.refresh()
    assert (version(catalog), version(catalog, "second")) == (2, 1)


def test_a_roll_back_is_followed(parts: Parts, catalog: Catalog) -> None:
    stored.publish(parts, seed=1)
    catalog.refresh()
    parts.artifacts.activate("cascade", "plan", 1)
    catalog.refresh()
    assert version(catalog) == 1


def test_a_plan_that_did_not_change_is_not_loaded_again(parts: Parts, catalog: Catalog) -> None:
    plan = catalog.get("cascade", "plan").plan
    stored.publish(parts, "second")
    catalog.refresh()
    assert catalog.get("cascade", "plan").plan is plan


def test_an_artifact_that_is_not_there_is_unknown_and_others_are_named(catalog: Catalog) -> None:
    with pytest.raises(UnknownArtifact, match="there is no cascade artifact called 'other'; there are plan"):
        catalog.get("cascade", "other")
    with pytest.raises(UnknownArtifact, match=r"there is no index artifact called 'plan'$"):
        catalog.get("index", "plan")


def test_a_version_that_is_not_active_answers_when_it_is_asked_for(parts: Parts, catalog: Catalog) -> None:
    stored.publish(parts, seed=1)
    catalog.refresh()
    assert catalog.at("cascade", "plan", 1).ref.version == 1
    for asked in (2, None):
        assert catalog.at("cascade", "plan", asked) is catalog.get("cascade", "plan")
    with pytest.raises(UnknownVersion, match="cascade 'plan' has no version 3"):
        catalog.at("cascade", "plan", 3)


def test_a_corrupt_artifact_leaves_the_version_before_it_in_service_and_is_reported(
    parts: Parts, catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    bad = stored.publish(parts, seed=1)
    stored.publish(parts, "second")
    parts.store.client.setrange(key("blob", bad.sha256), 60, b"\xff\xff\xff")
    catalog.refresh()
    assert (version(catalog), version(catalog, "second")) == (1, 1)
    assert "do not match their SHA-256" in catalog.problems["cascade", "plan"]
    catalog.refresh()
    assert catalog.load_failures == 1
    assert caplog.text.count("cannot load cascade 'plan', the version in service stays") == 1
    stored.publish(parts, seed=2)
    catalog.refresh()
    assert version(catalog) == 3
    assert catalog.problems == {}


@pytest.mark.parametrize(
    "damage",
    [
        {"set": (key("version", "cascade", "plan", 2), b'{"from": "a later version"}')},
        {"delete": (key("version", "cascade", "plan", 2),)},
        {"hset": (key("active"), "oracle/plan", "1 abc")},
    ],
)
def test_what_another_version_of_the_service_wrote_is_reported_and_the_rest_goes_on(
    damage: dict[str, tuple[object, ...]], parts: Parts, catalog: Catalog
) -> None:
    stored.publish(parts, seed=1)
    for command, arguments in damage.items():
        getattr(parts.store.client, command)(*arguments)
    stored.publish(parts, "second")
    catalog.refresh()
    assert version(catalog, "second") == 1
    assert len(catalog.problems) == 1


def test_an_artifact_of_a_solver_that_is_not_known_is_reported(parts: Parts, catalog: Catalog) -> None:
    record = parts.store.client.get(key("version", "cascade", "plan", 1))
    assert isinstance(record, bytes)
    later = record.replace(b'"solver":"cascade"', b'"solver":"oracle"')
    parts.store.client.set(key("version", "oracle", "plan", 1), later)
    parts.store.client.hset(key("active"), "oracle/plan", "1 abc")
    catalog.refresh()
    assert (
        catalog.problems["oracle", "plan"]
        == "the artifact is for the solver 'oracle', known are cascade, index, portfolio, pipeline, policy"
    )
    assert version(catalog) == 1


def test_a_store_that_came_back_empty_does_not_wipe_the_catalog(parts: Parts, catalog: Catalog) -> None:
    parts.store.client.flushdb()
    catalog.refresh()
    assert version(catalog) == 1
    assert catalog.get("cascade", "plan").plan.decide(CascadeQuery()).cascade == ("K1", "K2")
    with pytest.raises(UnknownVersion):
        catalog.at("cascade", "plan", 2)


def test_a_store_that_is_away_leaves_the_plans_and_says_so(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as server, open_parts(Settings(redis_url=server.url), client_name="test") as parts:
        stored.publish(parts)
        catalog = Catalog(parts.artifacts)
        catalog.refresh()
    wait_for(lambda: not Path(server.url.removeprefix("unix://")).exists(), 10)
    with pytest.raises(StoreUnavailable):
        catalog.refresh()
    assert (catalog.loaded, catalog.store_up, version(catalog)) == (True, False, 1)
    parts.store.close()


@contextmanager
def running(catalog: Catalog, parts: Parts, counts: dict[str, int]) -> Iterator[CatalogThread]:
    """Run the catalog's thread, counting what it calls."""

    def count(name: str) -> None:
        counts[name] = counts.get(name, 0) + 1

    thread = CatalogThread(
        catalog,
        parts.store,
        chores=lambda: count("chores"),
        revive=lambda: (count("revive"), parts.revive())[1],  # type: ignore[func-returns-value]
        note=lambda: count("note"),
    )
    thread.start()
    try:
        yield thread
    finally:
        thread.stop()
        assert not thread.is_alive()


def test_the_thread_follows_an_announcement_within_a_second(parts: Parts) -> None:
    catalog, counts = Catalog(parts.artifacts), dict[str, int]()
    with running(catalog, parts, counts):
        wait_for(lambda: catalog.loaded, 5)
        for number in (1, 2, 3):
            stored.publish(parts, seed=number)
            wait_for(lambda: catalog.plans and version(catalog) == number, 1.0)  # noqa: B023
    assert counts["chores"] >= 3
    assert counts["note"] >= 3
    assert "revive" not in counts


def test_the_thread_finds_what_was_never_announced(parts: Parts) -> None:
    catalog = Catalog(parts.artifacts)
    with running(catalog, parts, {}):
        wait_for(lambda: catalog.loaded, 5)
        quietly = stored.publish(parts)
        parts.store.client.hset(key("active"), "cascade/other", f"1 {quietly.sha256}")
        record = parts.store.client.get(key("version", "cascade", "plan", 1))
        assert isinstance(record, bytes)
        parts.store.client.set(key("version", "cascade", "other", 1), record.replace(b'"plan"', b'"other"'))
        wait_for(lambda: ("cascade", "other") in catalog.plans, 5.0)


def answers(parts: Parts) -> bool:
    """Whether the store is there."""
    try:
        parts.store.ping()
    except StoreUnavailable:
        return False
    return True


def test_the_thread_lives_through_an_absence_of_the_store(tmp_path: Path) -> None:
    with open_parts(Settings(data_dir=tmp_path), client_name="test") as parts:
        assert parts.embedded is not None
        stored.publish(parts)
        catalog, counts = Catalog(parts.artifacts), dict[str, int]()
        with running(catalog, parts, counts):
            wait_for(lambda: catalog.loaded, 5)
            parts.store.client.shutdown(save=True)
            wait_for(lambda: answers(parts), 10)
            stored.publish(parts, seed=1)
            wait_for(lambda: version(catalog) == 2, 5)


def test_a_record_that_is_no_json_is_reported_and_the_others_go_on(parts: Parts, catalog: Catalog) -> None:
    stored.publish(parts, seed=1)
    parts.store.client.set(key("version", "cascade", "plan", 2), b"{not json")
    stored.publish(parts, "second")
    catalog.refresh()
    assert (version(catalog), version(catalog, "second")) == (1, 1)
    assert "no JSON" in catalog.problems["cascade", "plan"]
