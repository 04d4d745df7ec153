"""Who waits for whom: asked of the kernel, in threads that end with the test."""

import os
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from app.processes.priority import BATCHES_NICE, give_way, look_ups_first


def _slice_ns() -> int:
    """Give the calling thread's slice, as the kernel tells it."""
    file = Path(f"/proc/self/task/{threading.get_native_id()}/sched")
    match = re.search(r"se\.slice\s*:\s*(\d+)", file.read_text()) if file.exists() else None
    if match is None:
        pytest.skip("this kernel does not tell a thread's slice")
    return int(match[1])


def _in_a_thread(*steps: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(1) as one:
        return [one.submit(step).result() for step in steps]


def _nice() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def _of_a_thread_of_its_own() -> Any:
    return _in_a_thread(_slice_ns)[0]


def test_who_answers_look_ups_asks_for_short_slices_and_so_do_the_threads_it_starts() -> None:
    before, _, after, inherited = _in_a_thread(_slice_ns, look_ups_first, _slice_ns, _of_a_thread_of_its_own)
    if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 12):
        pytest.skip("this kernel has one length of slice for all")
    assert before != 100_000
    assert after == inherited == 100_000


def test_a_priority_set_before_is_kept() -> None:
    before, _, _, nice = _in_a_thread(_nice, give_way, look_ups_first, _nice)
    assert nice == max(BATCHES_NICE, before)


def test_who_was_started_at_a_low_priority_is_not_raised() -> None:
    def lowest() -> None:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), BATCHES_NICE + 5)

    assert _in_a_thread(lowest, give_way, _nice)[-1] == BATCHES_NICE + 5
