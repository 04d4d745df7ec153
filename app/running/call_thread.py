"""Thread with its own event loop for all calls to endpoints.

Decisions are answered on the server's event loop, so slow or large replies of endpoints delay only other calls.
Results are passed back a few at a time for the same reason.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")
MAX_CONCURRENT_RESULTS = 2
"""Results that are handed over before the callers' event loop looks for other work."""


class CallThread:
    """Runs coroutines on an event loop in its own thread.

    Create it on the event loop of its callers.
    """

    def __init__(self) -> None:
        self._callers_loop = asyncio.get_running_loop()
        self._results: deque[Callable[[], None]] = deque()
        self._is_handing_over = False
        self._has_started = threading.Event()
        self._thread = threading.Thread(target=self._run_loop, name="endpoint-calls", daemon=True)
        self._thread.start()
        self._has_started.wait()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result; cancel it if the caller is canceled."""
        answer: asyncio.Future[T] = self._callers_loop.create_future()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            task = self._loop.create_task(work)
            tasks.append(task)
            task.add_done_callback(
                lambda done: self._callers_loop.call_soon_threadsafe(
                    self._queue_result, partial(_hand_over, done, answer)
                )
            )

        self._loop.call_soon_threadsafe(begin)
        try:
            return await answer
        except asyncio.CancelledError:
            self._loop.call_soon_threadsafe(lambda: tasks[0].cancel())
            raise

    async def close(self) -> None:
        """Cancel running coroutines, and wait for the thread to end."""
        self._loop.call_soon_threadsafe(self._is_closed.set)
        await asyncio.to_thread(self._thread.join)

    def _run_loop(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._wait_for_close())

    async def _wait_for_close(self) -> None:
        self._loop, self._is_closed = asyncio.get_running_loop(), asyncio.Event()
        self._has_started.set()
        await self._is_closed.wait()

    def _queue_result(self, hand_over: Callable[[], None]) -> None:
        self._results.append(hand_over)
        if not self._is_handing_over:
            self._hand_over_some()

    def _hand_over_some(self) -> None:
        """Pass on a few results, and continue in the next iteration of the event loop."""
        self._is_handing_over = bool(self._results)
        for _ in range(min(MAX_CONCURRENT_RESULTS, len(self._results))):
            self._results.popleft()()
        if self._is_handing_over:
            self._callers_loop.call_soon(self._hand_over_some)


def _hand_over(done: asyncio.Task[T], answer: asyncio.Future[T]) -> None:
    """Pass the outcome of a coroutine to its caller, unless the caller was canceled."""
    error = None if done.cancelled() else done.exception()
    if answer.done():
        return
    if done.cancelled():
        answer.cancel()
    elif error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(done.result())
