"""Several processes publish, activate and delete at once: nothing is lost, nothing points into the void."""

import random
import time
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection

from app.processes.clock import current_timestamp
from app.store.artifacts import Artifacts
from app.store.client import Store
from models.errors import Conflict, UnknownArtifact, UnknownVersion
from tests.support.invariants import assert_whole
from tests.support.patience import patient
from tests.support.stored import artifact
from tests.support.stores import StoreProcess

SECONDS = 2.5
PROCESSES = 4


@dataclass
class Done:
    published: list[int] = field(default_factory=list)
    activated: int = 0
    deleted: list[int] = field(default_factory=list)


def race(url: str, seed: int, pipe: Connection) -> None:
    artifacts, draw, done = Artifacts(Store(url)), random.Random(seed), Done()
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        with suppress(Conflict, UnknownArtifact, UnknownVersion):  # another process was first
            _step(artifacts, draw, done)
    pipe.send(done)


def _step(artifacts: Artifacts, draw: random.Random, done: Done) -> None:
    what = draw.random()
    if what < 0.4:  # few different bytes, which are shared and come back after they went
        done.published.append(
            artifacts.publish(artifact(seed=draw.randrange(3)), created_at=current_timestamp()).version
        )
        return
    version = draw.choice(artifacts.list_versions("cascade", "plan")[-2:]).version  # few, so that they meet
    if what < 0.7:
        artifacts.activate("cascade", "plan", version)
        done.activated += 1
    else:
        artifacts.delete("cascade", "plan", version)
        done.deleted.append(version)


def test_processes_that_publish_activate_and_delete_at_once_lose_nothing(fresh: StoreProcess) -> None:
    fork = get_context("fork")
    pipes = [fork.Pipe() for _ in range(PROCESSES)]
    racers = [fork.Process(target=race, args=(fresh.url, seed, theirs)) for seed, (_, theirs) in enumerate(pipes)]
    for racer in racers:
        racer.start()
    while any(racer.is_alive() for racer in racers):
        assert_whole(fresh.client)
    for racer in racers:
        racer.join(timeout=patient(60))
    assert [racer.exitcode for racer in racers] == [0] * PROCESSES
    done: list[Done] = [ours.recv() for ours, _ in pipes]
    published = [version for each in done for version in each.published]
    deleted = {version for each in done for version in each.deleted}
    assert sorted(published) == list(range(1, len(published) + 1)), "a version was given twice, or none"
    kept = {int(version) for version in fresh.client.smembers("parsimony:versions:cascade:plan")}
    assert kept == set(published) - deleted
    assert int(fresh.client.get("parsimony:counter:cascade:plan")) == len(published)  # type: ignore[arg-type]
    assert min(len(published), len(deleted), sum(each.activated for each in done)) > 10
    assert_whole(fresh.client)
