"""Quotas of what is stored under a team's names: counted at each write, also of writes at the same time."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from threading import Barrier, local
from typing import Any

import pytest

from app.building import run_build as worker
from app.store.artifacts import Artifacts
from app.store.builds import Builds
from app.store.client import Store
from app.store.datasets import Datasets
from app.store.name_quotas import NameQuotas
from app.store.repositories import Repositories
from app.store.team_usage import TeamUsage
from models import Build
from models.dataset_source import DatasetSource
from models.errors import QuotaExceeded, UnknownArtifact
from models.team_quota import TeamQuota
from tests.support import stored
from tests.support.patience import patient

TIME = "2026-11-30T00:00:00Z"


def limit(repos: Repositories, **most: int) -> Repositories:
    """Return the repositories with a quota of the team red, whose names begin with ``red-``."""
    quotas = NameQuotas({"red": TeamQuota(names="red-", **most), "blue": TeamQuota(names="blue-")})
    return replace(
        repos,
        quotas=quotas,
        datasets=Datasets(repos.store, quotas),
        artifacts=Artifacts(repos.store, quotas),
        builds=Builds(repos.store, queue_limit=20, timeout_s=60, quotas=quotas),
    )


def put(repos: Repositories, name: str, rows: int = 60, seed: int = 0) -> int:
    """Store a trace, and return its bytes."""
    return repos.datasets.put(name, stored.trace(rows, seed), created_at=TIME)[0].bytes


def count_successes(work: Callable[[int], Any], times: int) -> int:
    """Do the same work in several threads at once; count those that no quota refuses."""

    def succeeds(number: int) -> bool:
        try:
            work(number)
        except QuotaExceeded:
            return False
        return True

    with ThreadPoolExecutor(times) as pool:
        return sum(pool.map(succeeds, range(times)))


def test_a_team_has_its_number_of_datasets_and_others_have_theirs(repos: Repositories) -> None:
    put(repos, "red-before")
    shared = limit(repos, datasets=2)
    put(shared, "red-a")
    with pytest.raises(QuotaExceeded) as refused:
        put(shared, "red-b")
    assert all(word in str(refused.value) for word in ("datasets", "'red'", "2", "PARSIMONY_TEAM_QUOTAS"))
    put(shared, "red-a", seed=1)
    for name in ("blue-a", "blue-b", "blue-c", "red", "plain"):
        put(shared, name)
    shared.datasets.delete("red-before")
    put(shared, "red-b")
    assert len(shared.datasets.get_infos()) == 7


def test_a_team_has_its_number_of_artifacts_of_all_kinds_and_any_number_of_versions(repos: Repositories) -> None:
    shared = limit(repos, artifacts=2)
    for name in ("red-a", "red-b", "red-a", "plain", "blue-a", "blue-b", "blue-c"):
        stored.publish(shared, name)
    with pytest.raises(QuotaExceeded):
        stored.publish(shared, "red-c")
    with pytest.raises(UnknownArtifact):
        shared.artifacts.get_record("cascade", "red-c")
    shared.artifacts.delete_all("cascade", "red-b")
    assert stored.publish(shared, "red-c").version == 1


def test_bytes_are_those_of_datasets_and_versions_and_of_a_replacement_the_difference(repos: Repositories) -> None:
    small, large = put(repos, "small", rows=60), put(repos, "large", rows=400)
    version = len(stored.artifact("red-plan"))
    shared = limit(repos, bytes=large + small + version)
    put(shared, "red-a", rows=400)
    stored.publish(shared, "red-plan")
    put(shared, "red-b", rows=60)
    with pytest.raises(QuotaExceeded) as refused:
        stored.publish(shared, "red-plan", seed=1)
    assert str(large + small + version) in str(refused.value)
    with pytest.raises(QuotaExceeded):
        put(shared, "red-b", rows=400)
    put(shared, "red-a", rows=400, seed=1)
    put(shared, "red-a", rows=60, seed=1)
    stored.publish(shared, "red-plan", seed=1)
    put(shared, "plain", rows=400)


def test_a_team_above_a_lowered_quota_may_still_store_less(repos: Repositories) -> None:
    put(repos, "red-a", rows=400)
    shared = limit(repos, bytes=10)
    with pytest.raises(QuotaExceeded):
        put(shared, "red-a", rows=401)
    put(shared, "red-a", rows=60)
    with pytest.raises(QuotaExceeded):
        put(shared, "red-b", rows=60)


def let_meet(monkeypatch: pytest.MonkeyPatch, counting: str, threads: int) -> None:
    """Let each of these threads count what is stored before any of them writes."""
    count, met, meeting = getattr(TeamUsage, counting), local(), Barrier(threads)

    def count_and_meet(usage: TeamUsage) -> Any:
        counted = count(usage)
        if not hasattr(met, "once"):
            met.once = meeting.wait(timeout=patient(30))
        return counted

    monkeypatch.setattr(TeamUsage, counting, count_and_meet)


def test_writes_at_the_same_time_keep_the_number_of_datasets(
    repos: Repositories, monkeypatch: pytest.MonkeyPatch
) -> None:
    quotas = limit(repos, datasets=3).quotas
    let_meet(monkeypatch, "count_datasets", 8)

    def store_dataset(number: int) -> None:
        with closing(Store(repos.store.url)) as own:
            Datasets(own, quotas).put(f"red-{number}", stored.trace(), created_at=TIME)

    assert count_successes(store_dataset, 8) == 3
    assert len(repos.datasets.get_infos()) == 3


def test_writes_at_the_same_time_keep_the_bytes(repos: Repositories, monkeypatch: pytest.MonkeyPatch) -> None:
    let_meet(monkeypatch, "measure_artifacts", 8)
    size = len(stored.artifact("red-0"))
    quotas = limit(repos, bytes=4 * size + size // 2).quotas

    def publish(number: int) -> None:
        with closing(Store(repos.store.url)) as own:
            Artifacts(own, quotas).publish(stored.artifact(f"red-{number}", seed=number), created_at=TIME)

    assert count_successes(publish, 8) == 4


def test_a_build_whose_result_would_be_refused_is_not_queued(repos: Repositories) -> None:
    put(repos, "trace")
    shared = limit(repos, artifacts=1, datasets=1)
    stored.publish(shared, "red-a")
    with pytest.raises(QuotaExceeded):
        shared.builds.enqueue_build(stored.request("red-b"))
    shared.builds.enqueue_build(stored.request("red-a"))
    shared.builds.enqueue_build(stored.request("plain"))
    put(shared, "red-rows")
    source = DatasetSource(url="file:///data/rows.parquet")
    spec = shared.datasets.get_info("trace").spec
    with pytest.raises(QuotaExceeded):
        shared.builds.enqueue_source("red-more", spec, source)
    shared.builds.enqueue_source("red-rows", spec, source)
    assert shared.builds.count_open() == 3


def test_a_build_fails_with_the_reason_if_the_quota_is_full_when_it_publishes(
    repos: Repositories, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(repos, "trace", rows=400)
    shared = limit(repos, artifacts=1)
    build = shared.builds.enqueue_build(stored.request("red-b", params={"target_precision": 0.9}))
    stored.publish(shared, "red-a")
    keys = stored.keys(repos, "*red-b*")
    monkeypatch.setenv("PARSIMONY_REDIS_URL", repos.store.url)
    monkeypatch.setenv("PARSIMONY_TEAM_QUOTAS", '{"red": {"names": "red-", "artifacts": 1}}')
    worker.run_build(build.id)
    ended: Build = repos.builds.get(build.id)
    assert ended.status == "failed"
    assert all(word in (ended.error or "") for word in ("artifacts", "'red'", "PARSIMONY_TEAM_QUOTAS"))
    assert stored.keys(repos, "*red-b*") == keys == []
    assert repos.store.get_members(f"parsimony:refs:{repos.artifacts.get_record('cascade', 'red-a').sha256}") == [
        "artifact/cascade/red-a/1"
    ]


def test_names_without_a_quota_take_no_further_commands(repos: Repositories) -> None:
    def count_commands(work: Callable[[], Any]) -> int:
        before = repos.store.execute("info", "stats")["total_commands_processed"]
        work()
        return int(repos.store.execute("info", "stats")["total_commands_processed"] - before)

    shared = limit(repos, datasets=5, bytes=10**9)
    plain = count_commands(lambda: put(repos, "a"))
    assert count_commands(lambda: put(shared, "b")) == plain
    assert count_commands(lambda: put(shared, "blue-b")) == plain
    assert count_commands(lambda: put(shared, "red-b")) > plain
