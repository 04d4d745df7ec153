"""The thread that keeps a worker running."""

import psutil

from app.building.supervisor import SupervisedWorker


def test_one_that_is_stopped_before_it_began_starts_no_worker() -> None:
    before = {child.pid for child in psutil.Process().children()}
    beside = SupervisedWorker(1.0)
    beside._stopping.set()
    beside.run()
    assert {child.pid for child in psutil.Process().children()} <= before
