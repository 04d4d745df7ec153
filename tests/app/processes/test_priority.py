"""Who waits for whom: asked of the kernel, in threads that end with the test."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from app.processes.priority import BATCHES_NICE, lower_priority


def _in_a_thread(*steps: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(1) as one:
        return [one.submit(step).result() for step in steps]


def _nice() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_a_priority_set_before_is_kept() -> None:
    before, _, nice = _in_a_thread(_nice, lower_priority, _nice)
    assert nice == max(BATCHES_NICE, before)


def test_who_was_started_at_a_low_priority_is_not_raised() -> None:
    def lowest() -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), BATCHES_NICE + 5)

    assert _in_a_thread(lowest, lower_priority, _nice)[-1] == BATCHES_NICE + 5
