"""Limits concurrent items per caller, and schedules callers round-robin.

Starting a thousand items at once would block the event loop for a second.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from models.errors import RunTimeout

T = TypeVar("T")
R = TypeVar("R")
MAX_CONCURRENT_STARTS = 2
"""Items that start before the event loop looks for other work."""


class ItemQueue:
    """Runs a limited number of items per caller at a time, in order."""

    def __init__(self, max_per_caller: int) -> None:
        self.max_per_caller = max_per_caller
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._running: Counter[str] = Counter()
        self._is_scheduled = False

    async def run_one(self, caller: str, work: Callable[[], Awaitable[R]], timeout_s: float | None = None) -> R:
        """Run work when a slot is free; raises RunTimeout if no slot becomes free within ``timeout_s``."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._wait(caller)
        except TimeoutError as error:
            limit = f"{self.max_per_caller} items (PARSIMONY_MAX_CONCURRENT_ITEMS)"
            raise RunTimeout(f"concurrency limit of {limit} items reached, waited {timeout_s:.3g} s") from error
        try:
            return await work()
        finally:
            self._release(caller)

    async def run_each(self, caller: str, items: Sequence[T], work: Callable[[T], Awaitable[R]]) -> list[R]:
        """Run work for each item in a separate slot; return the results in order."""
        results: dict[int, R] = {}
        remaining = iter(enumerate(items))

        async def run_remaining() -> None:
            for index, item in remaining:
                results[index] = await self.run_one(caller, partial(work, item))

        await asyncio.gather(*(run_remaining() for _ in range(min(len(items), self.max_per_caller))))
        return [results[index] for index in range(len(items))]

    async def _wait(self, caller: str) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(future)
        self._schedule()
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():  # its turn had come
                self._release(caller)
            raise

    def _release(self, caller: str) -> None:
        self._running[caller] -= 1
        if not self._running[caller]:
            del self._running[caller]
        self._schedule()

    def _schedule(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._start_some)

    def _start_some(self) -> None:
        """Start a few items, one per caller in turn, and schedule the next ones."""
        self._is_scheduled = False
        started = sum(self._start_next() for _ in range(MAX_CONCURRENT_STARTS))
        if started == MAX_CONCURRENT_STARTS:
            self._schedule()

    def _start_next(self) -> bool:
        """Start the next item of the first caller with a free slot.

        Return whether there was one.
        """
        return any(self._running[caller] < self.max_per_caller and self._pop(caller) for caller in list(self._waiting))

    def _pop(self, caller: str) -> bool:
        """Start a caller's oldest waiting item, and move the caller to the end of the queue."""
        queue = self._waiting[caller]
        while queue:
            future = queue.popleft()
            if not future.done():  # else its caller has left
                future.set_result(None)
                break
        else:
            del self._waiting[caller]
            return False
        self._running[caller] += 1
        self._waiting.move_to_end(caller)
        if not queue:
            del self._waiting[caller]
        return True
