"""What a job in the queue may run, and the thread that keeps a worker running."""

import psutil
import pytest
from rq.serializers import JSONSerializer

from app.building import worker
from app.building.supervisor import SupervisedWorker
from app.building.worker import BuildJob
from app.running.batch_job import run_batch
from app.store.repositories import Repositories


@pytest.mark.parametrize(
    ("job_id", "run"),
    [("7d0c", ["build 7d0c"]), ("batch-7d0c-2", ["batch batch-7d0c-2"]), ("batch-os", ["build batch-os"])],
)
def test_a_job_runs_the_build_or_the_batch_of_its_id_whatever_the_store_says(
    job_id: str, run: list[str], repos: Repositories, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    monkeypatch.setattr(worker, "run_build", lambda one: ran.append(f"build {one}"))
    monkeypatch.setattr(BuildJob, "run_batch", staticmethod(lambda one: ran.append(f"batch {one}")), raising=False)
    store = repos.store.client
    BuildJob.create("os._exit", (1,), id=job_id, connection=store, serializer=JSONSerializer).save()
    BuildJob.fetch(job_id, connection=store, serializer=JSONSerializer).perform()
    assert ran == run


def test_one_that_is_stopped_before_it_began_starts_no_worker() -> None:
    before = {child.pid for child in psutil.Process().children()}
    worker = SupervisedWorker(1.0, run_batch)
    worker._stopping.set()
    worker.run()
    assert {child.pid for child in psutil.Process().children()} <= before
