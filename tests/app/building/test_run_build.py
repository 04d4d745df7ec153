"""What a worker runs: the same request gives the same bytes, and a build ends as it should."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.building.run_build import build_locally
from app.store.artifacts import decode_manifest
from app.store.builds import validate_build_request
from app.store.repositories import Repositories
from models import BuildProgress
from models.errors import Cancelled, StoreRefused, UnknownDataset
from solvers import KINDS
from tests.support import stored
from tests.support.patience import patient
from tests.support.servers import environment, wait_for

pytestmark = pytest.mark.server


def run(repos: Repositories, build_id: str, tmp_path: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run a build as RQ does: in a process of its own. ``before`` is Python that runs first."""
    code = f"{before}\nfrom app.building.run_build import run_build\nrun_build({build_id!r})"
    settings = environment(tmp_path, redis_url=repos.settings.redis_url)
    return subprocess.run(
        [sys.executable, "-c", code], env=settings, capture_output=True, text=True, timeout=patient(60), check=False
    )


def test_the_same_request_gives_the_same_bytes_and_another_others(repos: Repositories) -> None:
    info = stored.put_trace(repos)
    stored.put_trace(repos, "other", seed=1)
    asked = stored.request(params={"target_precision": 0.9}, seed=5)
    others: list[dict[str, Any]] = [{"seed": 1}, {"dataset": "other"}, {"name": "x"}, {"params": {}}]
    built = [stored.built(repos, each) for each in (asked, *(asked.model_copy(update=change) for change in others))]
    assert len(set(built)) == len(built)
    assert stored.built(repos, asked) == built[0]
    manifest = decode_manifest(built[-1])
    assert (manifest.dataset, manifest.dataset_sha256, manifest.seed) == ("trace", info.sha256, 5)
    assert (manifest.kind, manifest.name, manifest.unit) == ("cascade", "plan", "ms")
    assert manifest.params == KINDS["cascade"].options().model_dump(mode="json")
    assert manifest.summary


def test_a_build_in_this_process_publishes_and_tells_its_progress(repos: Repositories) -> None:
    asked = stored.request()
    steps: list[BuildProgress] = []  # which takes nothing but plain integers

    def note(done: int, total: int, message: str) -> None:
        steps.append(BuildProgress(done=done, total=total, message=message))

    def stop(done: int, total: int, message: str) -> None:
        raise Cancelled("enough")

    with pytest.raises(UnknownDataset):
        build_locally(repos, asked, validate_build_request(asked)[1], note)
    stored.put_trace(repos)
    with pytest.raises(Cancelled, match="enough"):
        build_locally(repos, asked, validate_build_request(asked)[1], stop)
    assert repos.artifacts.get_pointers() == {}
    record = build_locally(repos, asked, validate_build_request(asked)[1], note)
    assert repos.artifacts.get_record("cascade", "plan") == record
    assert steps
    assert all(step.total == 0 or step.done <= step.total for step in steps)
    assert repos.artifacts.get_bytes(record) == stored.built(repos, asked)


def test_a_queued_build_runs_to_its_end(repos: Repositories, tmp_path: Path) -> None:
    stored.put_trace(repos)
    asked = stored.request(params={"target_precision": 0.9})
    build = repos.builds.enqueue_build(asked)
    assert run(repos, build.id, tmp_path).stderr == ""
    done = repos.builds.get(build.id)
    assert (done.status, done.error) == ("succeeded", None)
    assert done.artifact is not None
    assert done.progress.message != "waiting for a worker"
    record = repos.artifacts.get_record("cascade", "plan")
    assert repos.artifacts.get_bytes(record) == stored.built(repos, asked)


def test_a_build_whose_table_is_gone_fails_and_a_cancelled_one_does_nothing(
    repos: Repositories, tmp_path: Path
) -> None:
    info = stored.put_trace(repos)
    build, cancelled = (repos.builds.enqueue_build(stored.request()) for _ in range(2))
    repos.builds.cancel(cancelled.id)
    assert run(repos, cancelled.id, tmp_path).returncode == 0
    assert repos.builds.get(cancelled.id).status == "cancelled"
    repos.store.client.delete(f"parsimony:blob:{info.sha256}")
    with pytest.raises(StoreRefused):
        repos.datasets.load(info)
    assert run(repos, build.id, tmp_path).returncode == 0
    failed = repos.builds.get(build.id)
    assert failed.status == "failed"
    assert "'trace' not found" in (failed.error or "")
    assert repos.artifacts.get_pointers() == {}


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        ("MemoryError", "ran out of memory"),
        ("JobTimeoutException", "PARSIMONY_BUILD_TIMEOUT_S"),
        ("ZeroDivisionError", "{id}"),
    ],
)
def test_a_build_that_breaks_says_why(failure: str, error: str, repos: Repositories, tmp_path: Path) -> None:
    stored.put_trace(repos)
    build = repos.builds.enqueue_build(stored.request())
    breaking = (
        "import app.store.datasets\nfrom rq.timeouts import JobTimeoutException\n"
        f"def load(self, info): raise {failure}\napp.store.datasets.Datasets.load = load"
    )
    finished = run(repos, build.id, tmp_path, breaking)
    failed = repos.builds.get(build.id)
    assert (failed.status, error.format(id=build.id) in (failed.error or "")) == ("failed", True)
    assert (finished.returncode == 0) == (failure != "ZeroDivisionError")
    assert repos.artifacts.get_pointers() == {}


def test_a_build_ends_with_the_process_that_started_it(repos: Repositories, tmp_path: Path) -> None:
    code = """
import os, signal, time
from app.processes.parent_death import die_with_parent
if not os.fork():
    die_with_parent(signal.SIGKILL, os.getppid())
    print(os.getpid(), flush=True)
time.sleep(60)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    wait_for(lambda: not _alive(child), 5)
    parent.stdout.close()


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]
    except FileNotFoundError:
        return False
