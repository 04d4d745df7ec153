"""Training loops run in local processes, which end with the build (on a cluster: test_cluster.py)."""

import os
import signal
import subprocess
import sys
from typing import Any

import joblib
import numpy as np
import psutil
import pytest

from app.building.run_build import joblib_backend
from app.store import codec
from models.errors import ParsimonyError
from models.index import IndexOptions
from solvers import BuildContext
from solvers.index import fit
from tests.oracles.index import small_table
from tests.support.patience import patient
from tests.support.servers import wait_for


@pytest.fixture(autouse=True)
def _processes_to_train_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "2")


def test_without_a_cluster_training_runs_in_local_processes() -> None:
    with joblib_backend(None):
        assert joblib.effective_n_jobs() == joblib.cpu_count()
        pids = set(joblib.Parallel()(joblib.delayed(os.getpid)() for _ in range(8)))
    if joblib.cpu_count() > 1:
        assert os.getpid() not in pids


TRAINING = """
import os, sys, time
import joblib
from app.store import codec
from app.building.run_build import joblib_backend
from models.errors import ParsimonyError
from models.index import IndexOptions
from solvers import BuildContext
from solvers.index import fit
from tests.oracles.index import small_table

def work(i):
    time.sleep(0.2)
    return os.getpid()

with joblib_backend(None):
    print(*set(joblib.Parallel()(joblib.delayed(work)(i) for i in range(4))), flush=True)
    if sys.argv[1] == "killed":
        joblib.Parallel()(joblib.delayed(work)(i) for i in range(1000))
os._exit(0)
"""


@pytest.mark.parametrize("end", ["done", "killed"])
def test_no_process_of_a_training_outlives_it(end: str) -> None:
    training = subprocess.Popen(
        [sys.executable, "-c", TRAINING, end], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert training.stdout is not None
    pids = [int(pid) for pid in training.stdout.readline().split()]
    assert pids
    if end == "killed":
        training.kill()
    training.wait(timeout=patient(30))
    training.stdout.close()
    wait_for(lambda: not any(psutil.pid_exists(pid) for pid in pids), 10, "they live on")


def test_a_killed_trainer_is_said_to_be() -> None:
    def work(place: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ParsimonyError, match="may be out of memory"), joblib_backend(None):
        joblib.Parallel()(joblib.delayed(work)(place) for place in range(4))


@pytest.mark.parametrize(
    ("learner", "params"), [("sklearn.svm.SVC", {}), ("sklearn.ensemble.RandomForestClassifier", {"n_estimators": 10})]
)
def test_the_bytes_of_a_plan_do_not_tell_how_many_processes_trained_it(learner: str, params: dict[str, Any]) -> None:
    table = small_table(rows=60, features=2)
    options = IndexOptions(learner=learner, learner_params=params, folds=2)
    alone = codec.encode(fit(table, options, np.random.default_rng(0), BuildContext()).plan, {})
    with joblib_backend(None):
        together = codec.encode(fit(table, options, np.random.default_rng(0), BuildContext()).plan, {})
    assert alone == together
