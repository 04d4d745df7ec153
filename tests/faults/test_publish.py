"""A publication that is broken off anywhere: readers see the old version or the new one, and a retry succeeds."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection

import pytest

from app.processes.clock import current_timestamp
from app.serving.catalog import Catalog
from app.store.artifacts import Artifacts
from app.store.client import Store
from models.errors import StoreUnavailable
from tests.support.invariants import assert_whole
from tests.support.servers import wait_for
from tests.support.stored import artifact
from tests.support.stores import Proxy, StoreProcess


@contextmanager
def reading(store: StoreProcess) -> Iterator[set[int]]:
    """Read on from another connection: what it finds must be whole, and its versions never fall."""
    seen, stop, failures = set[int](), threading.Event(), list[BaseException]()
    own = Store(store.url)

    def read() -> None:
        catalog, last = Catalog(Artifacts(own)), 0
        try:
            while not stop.is_set():
                catalog.refresh_plans()
                assert not catalog.problems
                loaded = catalog.get("cascade", "plan")
                assert loaded.ref.version == loaded.record.version >= last
                assert sha256(own.get_blob(loaded.record.sha256) or b"").hexdigest() == loaded.record.sha256
                last = loaded.ref.version
                seen.add(last)
        except BaseException as error:
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield seen
    finally:
        stop.set()
        reader.join()
        own.close()
    assert not failures, failures


def sizes(fresh: StoreProcess, proxy: Proxy) -> tuple[int, int]:
    store = Store(proxy.url)
    Artifacts(store).publish(artifact(), created_at=current_timestamp())
    sent, answered = proxy.sent, proxy.answered
    Artifacts(store).publish(artifact(seed=1), created_at=current_timestamp())
    store.close()
    return proxy.sent - sent, proxy.answered - answered


@pytest.mark.parametrize("way", ["cut_after", "deaf_after"])
def test_a_connection_that_breaks_anywhere_leaves_the_old_version_or_the_new_one(
    fresh: StoreProcess, proxy: Proxy, way: str
) -> None:
    total = sizes(fresh, proxy)[way == "deaf_after"]
    watcher = Artifacts(Store(fresh.url))
    steps = sorted(random.Random(way).sample(range(1, total), min(total - 1, 60)))
    with reading(fresh) as seen:
        for seed, step in enumerate(steps, start=2):
            before = watcher.get_pointers()["cascade", "plan"][0]
            store = Store(proxy.url)
            store.check_connection()  # the handshake is done
            setattr(proxy, way, (proxy.sent if way == "cut_after" else proxy.answered) + step)
            with suppress(StoreUnavailable):
                Artifacts(store).publish(artifact(seed=seed), created_at=current_timestamp())
            setattr(proxy, way, None)
            store.close()
            after = watcher.get_pointers()["cascade", "plan"][0]
            assert after - before in (0, 1), "published twice"
            assert_whole(fresh.client)
            Artifacts(retrying := Store(proxy.url)).publish(artifact(seed=seed), created_at=current_timestamp())
            retrying.close()
            assert watcher.get_pointers()["cascade", "plan"][0] == after + 1
    assert len(seen) > len(steps) / 4
    assert_whole(fresh.client)


def publish_on(url: str, first: int, begin: Connection) -> None:
    """Publish different bytes until killed, once told to begin (the child's whole life)."""
    begin.recv()
    artifacts = Artifacts(Store(url))
    for seed in count(first):
        artifacts.publish(artifact(seed=seed), created_at=current_timestamp())


def active(store: Store) -> int:
    return Artifacts(store).get_pointers()["cascade", "plan"][0]


def published_since(store: Store, before: int) -> bool:
    return active(store) > before


def test_a_publisher_that_is_killed_at_any_moment_leaves_whole_versions(fresh: StoreProcess) -> None:
    store, draw, fork = Store(fresh.url), random.Random(0), get_context("fork")
    Artifacts(store).publish(artifact(), created_at=current_timestamp())
    pipes = [fork.Pipe() for _ in range(12)]
    publishers = [
        fork.Process(target=publish_on, args=(fresh.url, 10**6 * (trial + 1), theirs))
        for trial, (_, theirs) in enumerate(pipes)
    ]
    for publisher in publishers:
        publisher.start()
    with reading(fresh):
        for publisher, (ours, _) in zip(publishers, pipes, strict=True):
            before = active(store)
            ours.send("begin")
            wait_for(partial(published_since, store, before), 10)  # on a busy machine it may take its time to begin
            time.sleep(draw.uniform(0.0, 0.15))
            publisher.kill()
            publisher.join()
            assert_whole(fresh.client)
    before = active(store)
    assert before > len(publishers)
    assert Artifacts(store).publish(artifact(seed=1), created_at=current_timestamp()).version == before + 1
    store.close()
