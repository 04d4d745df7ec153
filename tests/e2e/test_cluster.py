"""Builds on a Dask cluster give the bytes of local ones, also when one of its workers is killed in mid-build."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

from app.building.run_build import fit, joblib_backend
from app.processes.clock import current_timestamp
from app.settings import Settings
from app.store.client import Store
from app.store.embedded import EmbeddedRedis
from app.store.repositories import open_repositories
from models import BuildRequest, FeaturesSpec, FeatureTable, Trace
from models.errors import ParsimonyError
from solvers import KINDS
from solvers.base import no_progress
from tests.app.sources.test_read import read as read_part_files
from tests.app.sources.test_read import write as write_part
from tests.oracles.index import small_table
from tests.support.patience import patient
from tests.support.samples import MIXED_SPEC, mixed_columns
from tests.support.servers import free_port, wait_for

pytestmark = pytest.mark.filterwarnings("ignore")  # the cluster's own
FOREST = {"learner": "sklearn.ensemble.RandomForestClassifier", "learner_params": {"n_estimators": 5}}
BUILDS: dict[str, dict[str, Any]] = {
    "index": {**FOREST, "folds": 2},
    "pipeline": {**FOREST, "confidence_threshold": 0.7},
    "policy": {"points": 1, "trees": 5, "depth": 1, "folds": 2},
}
"""Parameters of small builds, by kind; each trains through joblib."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Run a scheduler and two workers, each a process that is started again when it ends."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def local(redis: EmbeddedRedis, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return {kind: _built(kind, redis, tmp_path_factory.mktemp("local"), None) for kind in BUILDS}


def _built(kind: str, redis: EmbeddedRedis, folder: Path, scheduler: str | None) -> bytes:
    store = Store(redis.url)
    store.client.flushdb()
    store.close()
    settings = Settings(redis_url=redis.url, data_dir=folder, dask_scheduler=scheduler)
    with open_repositories(settings, client_name="test") as repos:
        repos.datasets.put("data", _table(kind), created_at=current_timestamp())
        request = BuildRequest(kind=kind, name="plan", dataset="data", params=BUILDS[kind], seed=3)
        options = KINDS[kind].options.model_validate(request.params)
        return fit(repos, request, options, no_progress)


def _table(kind: str) -> FeatureTable:
    if kind == "pipeline":
        spec = FeaturesSpec.model_validate_json(json.dumps(MIXED_SPEC))
        return FeatureTable.from_columns(spec, mixed_columns(150))
    table = small_table(rows=300, features=3)  # arrays that joblib would keep on one worker
    if kind == "index":
        return table
    listed = [{"name": f"f{i}", "columns": [f"f{i}"], "cost": 1.0 + i} for i in range(3)]
    spec = FeaturesSpec.model_validate({"kind": "features", "label": "y", "unit": "ms", "features": listed})
    return FeatureTable.from_columns(spec, {f"f{i}": table.values[:, i] for i in range(3)} | {"y": table.labels})


def _kill_one_at_work(cluster: Any, killed: list[int]) -> None:
    deadline = time.monotonic() + patient(30)
    while not killed and time.monotonic() < deadline:
        at_work = [address for address, state in list(cluster.scheduler.workers.items()) if state.processing]
        pids = [nanny.pid for nanny in cluster.workers.values() if nanny.worker_address in at_work]
        for pid in pids[:1]:
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
        time.sleep(0.001)


@pytest.mark.slow
def test_a_learner_with_parallel_parts_does_them_itself(cluster: Any) -> None:
    with joblib_backend(cluster.scheduler_address):
        (inner,) = joblib.Parallel()([joblib.delayed(joblib.effective_n_jobs)(-1)])
    assert inner == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", BUILDS)
def test_a_build_on_a_cluster_gives_the_bytes_of_a_local_one(
    kind: str, cluster: Any, local: dict[str, bytes], redis: EmbeddedRedis, tmp_path: Path
) -> None:
    before = cluster.scheduler.transition_counter
    assert _built(kind, redis, tmp_path, cluster.scheduler_address) == local[kind]
    assert cluster.scheduler.transition_counter > before, "the cluster did nothing"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["index", "pipeline"])
def test_a_worker_that_is_killed_in_mid_build_costs_time_only(
    kind: str, cluster: Any, local: dict[str, bytes], redis: EmbeddedRedis, tmp_path: Path
) -> None:
    killed: list[int] = []
    killer = threading.Thread(target=_kill_one_at_work, args=(cluster, killed))
    killer.start()
    try:
        built = _built(kind, redis, tmp_path, cluster.scheduler_address)
    finally:
        killer.join()
    assert killed
    assert built == local[kind]


@pytest.mark.parametrize("address", ["nonsense://", "127.0.0.1:port", "tcp://127.0.0.1:{port}"])
def test_a_scheduler_that_is_not_there_is_said_to_be(
    address: str, redis: EmbeddedRedis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.building.dask_cluster.CONNECT_TIMEOUT_S", 1)
    address = address.format(port=free_port())
    with pytest.raises(ParsimonyError, match="cannot connect to Dask"), joblib_backend(address):
        raise AssertionError
    with pytest.raises(ParsimonyError, match="cannot connect to Dask"):
        _built("index", redis, tmp_path, address)


def _die(place: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_work_that_kills_every_worker_ends_with_the_reason(cluster: Any) -> None:
    # Dask gives the thread of a new client ten seconds: the worker that an earlier test killed is to be back by then.
    wait_for(lambda: len(cluster.scheduler_info["workers"]) == len(cluster.workers), 60)
    with pytest.raises(ParsimonyError, match="may be out of memory"), joblib_backend(cluster.scheduler_address):
        joblib.Parallel()(joblib.delayed(_die)(place) for place in range(2))


@pytest.mark.slow
@pytest.mark.parametrize("which", ["no worker for 2 s", "lost the connection"])
def test_a_cluster_without_workers_or_that_goes_away_ends_the_training_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    from distributed import LocalCluster

    monkeypatch.setattr("app.building.dask_cluster.WORKER_WAIT_S", 2)
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0", processes=False)
    leaving = threading.Timer(1.0, cluster.close if which == "lost the connection" else partial(cluster.scale, 0))
    leaving.start()
    with pytest.raises(ParsimonyError, match=which), joblib_backend(cluster.scheduler_address):
        joblib.Parallel()(joblib.delayed(time.sleep)(0.2) for _ in range(100))
    leaving.join()
    cluster.close()


@pytest.mark.slow
def test_files_are_read_on_the_cluster_as_locally_also_if_a_worker_is_lost(cluster: Any, tmp_path: Path) -> None:
    for part in range(6):
        write_part(tmp_path, f"part-{part}", 60_000, part)
    local_sample, local_facts = read_part_files(tmp_path, sample_rows=5000)
    killed: list[int] = []
    killing = threading.Thread(target=_kill_one_at_work, args=(cluster, killed))
    with joblib_backend(cluster.scheduler_address):
        killing.start()
        sample, facts = read_part_files(tmp_path, sample_rows=5000)
    killing.join()
    assert killed
    assert facts == local_facts
    assert isinstance(sample, Trace)
    assert isinstance(local_sample, Trace)
    assert np.array_equal(sample.confidences, local_sample.confidences, equal_nan=True)
