"""The thread that keeps a worker running."""

import psutil

from app.beside import WorkerBeside


def test_one_that_is_stopped_before_it_began_starts_no_worker() -> None:
    before = {child.pid for child in psutil.Process().children()}
    beside = WorkerBeside(1.0)
    beside._stopping.set()
    beside.run()
    assert {child.pid for child in psutil.Process().children()} <= before
