"""Work in a process of its own: whatever it does to that process, the next piece finds a living one."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import numpy as np
import psutil
import pytest
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier

from app.processes.sandbox import Sandbox
from models import Fault, InvalidRequest
from models.errors import CorruptArtifact, SolverTimeout
from solvers.learners.archives import predict_archived
from tests.support.sandbox_work import die, refuse, sleep_long, start_another
from tests.support.servers import wait_for


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox(30.0)
    yield made
    made.close()


def test_it_works_elsewhere_and_in_the_same_process_each_time(sandbox: Sandbox) -> None:
    first = sandbox(os.getpid)
    assert first != os.getpid()
    assert sandbox(os.getpid) == first
    assert sandbox(divmod, 7, 2) == (3, 1)
    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(lambda i: sandbox(divmod, i, 3), range(20))) == sorted(divmod(i, 3) for i in range(20))
    assert sandbox(os.getpid) == first
    with pytest.raises(RuntimeError, match="not allowed to have children"):
        sandbox(start_another)
    assert psutil.Process(first).children() == []


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_died_is_told_and_replaced(sandbox: Sandbox, number: int) -> None:
    first = sandbox(os.getpid)
    with pytest.raises(CorruptArtifact, match=rf"crashed .*\(signal {int(number)}\)"):
        sandbox(die, number)
    assert not psutil.pid_exists(first)
    assert sandbox(os.getpid) != first
    with pytest.raises(CorruptArtifact, match=r"\(status 3\)"):
        sandbox(os._exit, 3)


def test_an_idle_process_that_was_killed_is_replaced_without_a_word(sandbox: Sandbox) -> None:
    first = sandbox(os.getpid)
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)  # all of its threads have ended
    assert sandbox(os.getpid) != first


def test_what_takes_too_long_is_killed() -> None:
    sandbox = Sandbox(0.2)
    try:
        first = sandbox(os.getpid)
        with pytest.raises(SolverTimeout, match=r"within 0\.2 s"):
            sandbox(time.sleep, 1000)
        assert not psutil.pid_exists(first)
        assert sandbox(os.getpid) != first
    finally:
        sandbox.close()


def test_our_errors_come_across_whole_and_others_as_their_trace(sandbox: Sandbox) -> None:
    with pytest.raises(InvalidRequest, match=r"items\.3\.a: is missing \(and 1 more\)") as refused:
        sandbox(refuse, "ours")
    assert refused.value.faults == (Fault(("items", 3, "a"), "is missing"), Fault(("size",), "is -1"))
    with pytest.raises(CorruptArtifact, match="is not one of 3 columns"):
        sandbox(refuse, "corrupt")
    with pytest.raises(RuntimeError, match=r"(?s)Traceback.*Odd: odd"):
        sandbox(refuse, "odd")


def test_closing_ends_the_process_also_in_the_middle_of_its_work(tmp_path: Path) -> None:
    sandbox, begun = Sandbox(60.0), tmp_path / "begun"
    with ThreadPoolExecutor(1) as pool:
        first = sandbox(os.getpid)
        working = pool.submit(sandbox, sleep_long, begun)
        wait_for(begun.exists, 20)
        sandbox.close()
        with pytest.raises(CorruptArtifact, match="crashed"):
            working.result()
    assert not psutil.pid_exists(first)
    with pytest.raises(RuntimeError):
        sandbox(os.getpid)


def test_what_it_cannot_start_with_is_no_models_fault() -> None:
    sandbox = Sandbox(1.0, imports=("no_such_module",))
    with pytest.raises(RuntimeError, match=r"failed to start \(status 1\)"):
        sandbox(os.getpid)
    sandbox.close()
    Sandbox(1.0).close()


@pytest.mark.slow
def test_a_model_that_crashes_scikit_learn_ends_only_the_other_process(sandbox: Sandbox) -> None:
    values, labels = load_iris(return_X_y=True)
    model = KNeighborsClassifier(3, algorithm="brute", metric="manhattan").fit(values, labels)
    dumps = import_module("skops.io").dumps
    good = dumps(model)
    model._y = np.full(len(labels), 10**9, dtype=np.intp)
    with pytest.raises(CorruptArtifact, match="crashed"):
        sandbox(predict_archived, dumps(model), values, 3)
    codes, _ = sandbox(predict_archived, good, values, 3)
    assert np.mean(codes == labels) > 0.9


def test_modules_that_are_found_here_are_found_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Learners of one's own are imported where their models are tried."""
    (tmp_path / "own_work.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    sandbox = Sandbox(30.0)
    assert sandbox(import_module("own_work").double, 21) == 42
    sandbox.close()
