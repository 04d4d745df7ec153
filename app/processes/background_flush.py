"""Repeated writes of pending values to the store, from an event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from models.errors import StoreRefused, StoreUnavailable

FLUSH_INTERVAL_S = 1.0
"""Pause between additions, and time limit of the last one."""


@dataclass(slots=True)
class BackgroundFlush:
    """Writes pending values to the store every second; a failed write is repeated.

    Attributes:
        flush: makes one write.
        is_waiting: returns whether any values are pending.
    """

    flush: Callable[[], Awaitable[None]]
    is_waiting: Callable[[], bool]
    _task: "asyncio.Task[None] | None" = None

    def start_flushing(self) -> None:
        """Start the background writes, unless they are running."""
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while self.is_waiting():
            await asyncio.sleep(FLUSH_INTERVAL_S)
            with suppress(StoreUnavailable, StoreRefused):
                await self.flush()

    async def close(self) -> None:
        """Stop, and write the pending values if the store is available.

        These include the values of a failed write.
        """
        if self._task is not None:
            self._task.cancel()
        with suppress(StoreUnavailable, StoreRefused, TimeoutError):
            async with asyncio.timeout(FLUSH_INTERVAL_S):
                await self.flush()
                await self.flush()
