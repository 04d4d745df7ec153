"""Turns of items: a few start at a time, each caller has a limit, and callers take turns."""

import asyncio
import itertools
from collections import Counter
from functools import partial

import pytest

from app.running.item_queue import MAX_CONCURRENT_STARTS, ItemQueue
from models.errors import RunTimeout


def test_each_caller_has_a_limit_of_its_own() -> None:
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()

    async def work(caller: str, item: int) -> int:
        running[caller] += 1
        most[caller] = max(most[caller], running[caller])
        await asyncio.sleep(0.001)
        running[caller] -= 1
        return item

    async def run() -> list[list[int]]:
        queue = ItemQueue(3)
        return await asyncio.gather(*(queue.run_each(one, range(20), partial(work, one)) for one in ("a", "b")))

    assert asyncio.run(run()) == [list(range(20))] * 2
    assert most == {"a": 3, "b": 3}


def test_a_few_items_start_between_two_looks_of_the_event_loop() -> None:
    """Another callback runs again before more than a few have started, whatever waits."""
    started = 0
    seen: list[int] = []

    async def work(item: int) -> None:
        nonlocal started
        started += 1
        await asyncio.sleep(1)

    async def run() -> None:
        queue = ItemQueue(1000)
        running = asyncio.gather(*(queue.run_each(str(key), range(50), work) for key in range(8)))
        while started < 400:
            seen.append(started)
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(run())
    assert max(after - before for before, after in itertools.pairwise(seen)) <= MAX_CONCURRENT_STARTS


def test_a_caller_with_one_item_waits_for_no_backlog_of_another() -> None:
    order: list[str] = []

    async def work(name: str) -> None:
        order.append(name)
        await asyncio.sleep(0)

    async def run() -> None:
        queue = ItemQueue(2)
        backlog = asyncio.ensure_future(queue.run_each("a", ["a"] * 500, work))
        await asyncio.sleep(0.001)
        await queue.run_one("b", partial(work, "b"))
        assert not backlog.done()
        await backlog

    asyncio.run(run())
    assert 500 - order.index("b") > 300


def test_a_turn_that_does_not_come_in_time_is_a_timeout() -> None:
    async def run() -> None:
        queue = ItemQueue(1)
        holding = asyncio.ensure_future(queue.run_one("a", lambda: asyncio.sleep(60)))
        await asyncio.sleep(0.01)
        with pytest.raises(RunTimeout):
            await queue.run_one("a", lambda: asyncio.sleep(0), 0.01)
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)
        await queue.run_one("a", lambda: asyncio.sleep(0), 5.0)

    asyncio.run(run())


@pytest.mark.parametrize("pauses", range(6))
def test_items_of_a_caller_that_has_left_hold_no_turn(pauses: int) -> None:
    async def run() -> None:
        queue = ItemQueue(2)
        leaving = asyncio.ensure_future(queue.run_each("a", range(20), lambda item: asyncio.sleep(0.001)))
        for _ in range(pauses):
            await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        assert await queue.run_each("a", [1, 2, 3], lambda item: asyncio.sleep(0, item)) == [1, 2, 3]

    asyncio.run(run())
