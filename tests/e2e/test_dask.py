"""Training loops go to a Dask cluster when there is one."""

import os

import joblib
import pytest

from app.worker import training_on


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the cluster's own
def test_training_runs_in_the_clusters_processes() -> None:
    from distributed import LocalCluster

    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    try:
        with training_on(cluster.scheduler_address):
            pids = set(joblib.Parallel()(joblib.delayed(os.getpid)() for _ in range(4)))
    finally:
        cluster.close()
    assert os.getpid() not in pids
    assert 1 <= len(pids) <= 2


def test_without_a_cluster_training_runs_in_local_processes() -> None:
    with training_on(None):
        assert joblib.effective_n_jobs() == joblib.cpu_count()
        pids = set(joblib.Parallel()(joblib.delayed(os.getpid)() for _ in range(8)))
    if joblib.cpu_count() > 1:
        assert os.getpid() not in pids
