"""The store's narrow door, on a real server: transactions, bytes by their SHA-256, and its absence and refusals."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from app.settings import Settings
from app.store.client import CHANNEL, Pipeline, Store, add_blob_reference, make_store_key, remove_blob_reference
from app.store.embedded import EmbeddedRedis
from app.store.embedded_files import socket_path
from app.store.repositories import Repositories, open_repositories
from models import BuildProgress
from models.errors import StoreRefused, StoreUnavailable
from tests.support import stored
from tests.support.servers import wait_for

EVERY_CALL: dict[str, Callable[[Repositories], Any]] = {
    "ping": lambda repos: repos.store.check_connection(),
    "members": lambda repos: repos.store.get_members("x"),
    "blob": lambda repos: repos.store.get_blob("x"),
    "announcements": lambda repos: repos.store.read_announcements().__enter__(),
    "dataset put": stored.put_trace,
    "dataset list": lambda repos: repos.datasets.get_infos(),
    "dataset show": lambda repos: repos.datasets.get_info("trace"),
    "dataset delete": lambda repos: repos.datasets.delete("trace"),
    "publish": stored.publish,
    "pointers": lambda repos: repos.artifacts.get_pointers(),
    "versions": lambda repos: repos.artifacts.list_versions("cascade", "plan"),
    "record": lambda repos: repos.artifacts.get_record("cascade", "plan"),
    "activate": lambda repos: repos.artifacts.activate("cascade", "plan", 1),
    "artifact delete": lambda repos: repos.artifacts.delete("cascade", "plan", 1),
    "artifacts' page": lambda repos: repos.artifacts.list_page(prefix="a"),
    "moves": lambda repos: repos.artifacts.pointing.list_changes(b"1-1"),
    "records": lambda repos: repos.artifacts.get_records({("cascade", "plan"): (1, "")}),
    "artifact delete all": lambda repos: repos.artifacts.delete_all("cascade", "plan"),
    "deleted": lambda repos: repos.artifacts.find_deleted([("cascade", "plan")]),
    "names mended": lambda repos: repos.datasets.repair_record(),
    "builds open": lambda repos: repos.builds.count_open(),
    "enqueue": lambda repos: repos.builds.enqueue_build(stored.request()),
    "build": lambda repos: repos.builds.get("1"),
    "builds": lambda repos: repos.builds.list_page().items,
    "cancel": lambda repos: repos.builds.cancel("1"),
    "start": lambda repos: repos.builds.start_build("1"),
    "report": lambda repos: repos.builds.report_progress("1", BuildProgress()),
    "beat": lambda repos: repos.builds.renew_heartbeat("1"),
    "beats": lambda repos: repos.builds.list_heartbeats(),
    "unended": lambda repos: repos.builds.list_unended(),
    "waiting": lambda repos: repos.builds.is_waiting("1"),
    "workers": lambda repos: repos.builds.count_workers(),
}


def keep(store: Store, data: bytes, reference: str) -> str:
    digest = sha256(data).hexdigest()

    def change(pipe: Pipeline) -> None:
        pipe.multi()
        add_blob_reference(pipe, data, digest, reference)

    store.run_transaction(change)
    return digest


def drop(store: Store, digest: str, reference: str) -> None:

    def change(pipe: Pipeline) -> None:
        pipe.multi()
        remove_blob_reference(pipe, digest, reference)

    store.run_transaction(change)


def test_equal_bytes_are_kept_once_and_go_with_their_last_reference(store: Store) -> None:
    digest = keep(store, b"same", "one")
    assert keep(store, b"same", "two") == digest
    assert store.client.keys(make_store_key("blob", "*")) == [make_store_key("blob", digest).encode()]
    drop(store, digest, "one")
    drop(store, digest, "other")
    assert store.get_blob(digest) == b"same"
    store.client.set(make_store_key("blob", digest), b"sane")
    with pytest.raises(StoreRefused, match=f"SHA-256 {digest[:12]}…"):
        store.get_blob(digest)
    drop(store, digest, "two")
    assert store.get_blob(digest) is None
    assert store.client.keys() == []


def test_a_change_runs_again_if_what_it_watched_was_changed_meanwhile(store: Store) -> None:
    store.client.set("n", 1)
    runs = 0

    def change(pipe: Pipeline) -> int:
        nonlocal runs
        runs += 1
        seen = int(pipe.get("n"))  # type: ignore[arg-type]
        if runs == 1:
            store.client.set("n", 10)
        pipe.multi()
        pipe.set("n", seen + 1)
        return seen + 1

    assert store.run_transaction(change, "n") == 11
    assert (runs, store.client.get("n")) == (2, b"11")

    def refuse(pipe: Pipeline) -> None:
        pipe.multi()
        pipe.set("n", 1)
        raise StoreRefused("no")

    with pytest.raises(StoreRefused, match="no"):
        store.run_transaction(refuse)
    assert store.client.get("n") == b"11"


def test_an_announcement_is_heard(store: Store) -> None:
    with store.read_announcements() as wait:
        assert not wait(0.05)
        store.execute("publish", CHANNEL, "cascade/x")
        assert wait(2.0) == ["cascade/x"]
        assert not wait(0.05)
    store.client.set("a", b'{"x": 1}')
    assert [store.get_many(names) for names in (["b", "a"], [])] == [[None, b'{"x": 1}'], []]


@pytest.mark.parametrize("name", EVERY_CALL)
def test_without_a_store_every_call_says_that_it_cannot_be_reached(name: str, tmp_path: Path) -> None:
    settings = Settings(redis_url=f"unix://{tmp_path}/none.sock", data_dir=tmp_path)
    with (
        open_repositories(settings, client_name="test") as repos,
        pytest.raises(StoreUnavailable, match="store unavailable"),
    ):
        EVERY_CALL[name](repos)


def test_a_store_that_goes_and_comes_back_resumes_on_the_same_connection(tmp_path: Path) -> None:
    first = EmbeddedRedis(tmp_path)
    store = Store(first.url)
    digest = keep(store, b"data", "one")
    first.close()
    wait_for(lambda: not socket_path(first.folder).exists(), 10)
    with pytest.raises(StoreUnavailable, match="store unavailable"):
        store.get_blob(digest)
    with EmbeddedRedis(tmp_path):
        assert store.get_blob(digest) == b"data"
    store.close()


@contextmanager
def full(store: Store) -> Iterator[None]:
    store.client.config_set("maxmemory", 1)
    try:
        yield
    finally:
        store.client.config_set("maxmemory", 0)


def everything(repos: Repositories) -> dict[str, object]:
    return {name: repos.store.client.dump(name) for name in stored.keys(repos)}


@pytest.mark.parametrize("what", ["dataset put", "publish", "enqueue", "activate"])
def test_a_full_store_refuses_and_keeps_nothing_of_it(what: str, repos: Repositories) -> None:
    stored.put_trace(repos, seed=1)
    stored.publish(repos, seed=1)
    repos.builds.enqueue_build(stored.request())
    assert {name.partition(":")[0] for name in stored.keys(repos)} == {"parsimony", "rq"}
    repos.builds.cancel(repos.builds.list_page().items[0].id)
    before = everything(repos)
    with full(repos.store), pytest.raises(StoreRefused, match=r"store rejected the command: .*maxmemory"):
        EVERY_CALL[what](repos)
    assert everything(repos) == before
    with full(repos.store):
        assert repos.datasets.load(repos.datasets.get_info("trace")).rows == 60
        repos.datasets.delete("trace")
    assert repos.datasets.get_infos() == []
