"""The thread on which endpoints are called: its own event loop, results in order, cancellation, and its end."""

import asyncio
import itertools
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from app.running.call_thread import MAX_CONCURRENT_RESULTS, CallThread

T = TypeVar("T")


def on_thread(work: Callable[[CallThread], Awaitable[T]]) -> T:

    async def worked() -> T:
        thread = CallThread()
        try:
            return await work(thread)
        finally:
            await thread.close()

    return asyncio.run(worked())


async def name_of_thread() -> str:
    return threading.current_thread().name


async def fail() -> None:
    raise LookupError("from the other thread")


def test_work_runs_on_a_thread_of_its_own_that_ends() -> None:
    assert on_thread(lambda thread: thread.run(name_of_thread())) == "endpoint-calls"
    assert "endpoint-calls" not in [thread.name for thread in threading.enumerate()]


def test_an_exception_comes_back() -> None:
    with pytest.raises(LookupError):
        on_thread(lambda thread: thread.run(fail()))


def test_work_of_a_caller_that_has_left_is_canceled() -> None:
    ended = threading.Event()

    async def wait_for_ever() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    async def leave(thread: CallThread) -> None:
        waiting = asyncio.create_task(thread.run(wait_for_ever()))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert await asyncio.to_thread(ended.wait, 20)

    on_thread(leave)


def test_results_that_come_together_are_handed_over_a_few_at_a_time() -> None:
    together = threading.Event()
    returned = 0

    async def wait_for_all() -> None:
        await asyncio.to_thread(together.wait)

    async def count(thread: CallThread) -> list[int]:
        async def call() -> None:
            nonlocal returned
            await thread.run(wait_for_all())
            returned += 1

        calls = asyncio.gather(*(call() for _ in range(30)))
        await asyncio.sleep(0.05)
        together.set()
        seen = []
        while returned < 30:
            seen.append(returned)
            await asyncio.sleep(0)
        await calls
        return [*seen, returned]

    seen = on_thread(count)
    assert max(after - before for before, after in itertools.pairwise(seen)) <= MAX_CONCURRENT_RESULTS
