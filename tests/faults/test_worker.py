"""A build that runs out of memory or time, or whose worker hangs, fails with the reason; the next one runs."""

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import pytest

from tests.e2e.test_builds import ROWS, large_upload, start_build, the_worker
from tests.support.patience import patient
from tests.support.samples import trace_upload
from tests.support.servers import Server, running_server, wait_for
from tests.support.services import build, running_worker
from tests.support.stores import running_store


def ready_to_build(server: Server) -> None:
    assert server.client.put("/v1/datasets/large", files=large_upload()).status_code == 201
    assert server.client.put("/v1/datasets/trace", files=trace_upload()).status_code == 201


def error_of(server: Server, path: str, seconds: float) -> str:
    wait_for(lambda: server.client.get(path).json()["status"] not in ("queued", "running"), seconds)
    ended = server.client.get(path).json()
    assert ended["status"] == "failed"
    return str(ended["error"])


@dataclass(frozen=True)
class Hung:
    """A server whose worker, with the process of a build, was stopped at a moment."""

    server: Server
    build: str
    processes: tuple[psutil.Process, ...]
    moment: float


@pytest.fixture(scope="module", autouse=True)
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hung]:
    with running_server(tmp_path_factory.mktemp("still")) as server:
        ready_to_build(server)
        path = start_build(server, "still")
        (horse,) = the_worker(server).children()
        horse.suspend()
        yield Hung(server, path, (horse,), time.monotonic())


@pytest.fixture(scope="module", autouse=True)
def hung(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hung]:
    with running_server(tmp_path_factory.mktemp("hung")) as server:
        ready_to_build(server)
        path = start_build(server, "hung")
        worker = the_worker(server)
        processes = (*worker.children(), worker)
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        yield Hung(server, path, processes, time.monotonic())


@pytest.fixture(scope="module", autouse=True)
def hung_outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hung]:
    folder = tmp_path_factory.mktemp("outside")
    with (
        running_store(folder / "store") as store,
        running_server(folder / "server", redis_url=store.url) as server,
        running_worker(folder / "worker", store.url) as watcher,
    ):
        ready_to_build(server)
        path = start_build(server, "hung")
        (worker,) = psutil.Process(watcher.pid).children()
        processes = (*worker.children(), worker)
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        yield Hung(server, path, processes, time.monotonic())


SHORT_S = round(patient(3))
"""What one build of the sample takes at most, and a hanging one is given."""


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("short"), build_timeout_s=SHORT_S) as server:
        ready_to_build(server)
        yield server


def test_a_build_out_of_memory_fails_and_says_so_and_the_next_one_runs(short: Server) -> None:
    """Its table is too large for what the process had before it was limited and may use again."""
    assert short.client.put("/v1/datasets/huge", files=large_upload(4 * ROWS)).status_code == 201
    path = start_build(short, "huge", "huge")
    (horse,) = the_worker(short).children()
    most = horse.memory_info().vms + 2**20
    horse.rlimit(psutil.RLIMIT_AS, (most, most))
    assert "memory" in error_of(short, path, 30)
    assert short.client.get("/v1/artifacts/cascade/huge").status_code == 404
    build(short, "next", "trace")


def has_ended(process: psutil.Process) -> bool:
    """Return whether a process has ended, waited for or not."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # between the two
        return True


def test_a_build_that_hangs_ends_with_its_time_if_that_is_short_and_the_next_one_runs(short: Server) -> None:
    path = start_build(short, "stopped")
    (horse,) = the_worker(short).children()
    horse.suspend()
    assert error_of(short, path, 60) == f"took longer than {SHORT_S} s (PARSIMONY_BUILD_TIMEOUT_S)"
    wait_for(lambda: has_ended(horse), 10)
    build(short, "next", "trace")


@pytest.mark.slow
def test_a_build_whose_own_process_hangs_fails_within_two_minutes_though_its_time_is_an_hour(still: Hung) -> None:
    assert "did nothing for 60 s: it hangs" in error_of(still.server, still.build, 120)
    assert time.monotonic() - still.moment < patient(60)
    build(still.server, "next", "trace", seconds=60)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["hung", "hung_outside"])
def test_a_build_whose_worker_hangs_fails_and_another_worker_takes_the_next(
    request: pytest.FixtureRequest, where: str
) -> None:
    hung: Hung = request.getfixturevalue(where)
    assert "its worker died: no sign of life" in error_of(hung.server, hung.build, 120)
    assert time.monotonic() - hung.moment < patient(60)
    build(hung.server, "next", "trace", seconds=60)
    log = hung.server.log if where == "hung" else hung.server.data_dir.parent / "worker" / "worker.log"
    assert "worker hangs, killing it silence_s=30" in log.read_text()
    assert not [one for one in hung.processes if one.is_running() and one.status() == psutil.STATUS_STOPPED]
