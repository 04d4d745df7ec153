"""The thread that keeps a worker running."""

import psutil

from app.building.supervisor import SupervisedWorker
from app.running.batch_job import run_batch


def test_one_that_is_stopped_before_it_began_starts_no_worker() -> None:
    before = {child.pid for child in psutil.Process().children()}
    worker = SupervisedWorker(1.0, run_batch)
    worker._stopping.set()
    worker.run()
    assert {child.pid for child in psutil.Process().children()} <= before
