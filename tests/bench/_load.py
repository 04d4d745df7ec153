"""Load from one process: as much as the server can answer, or at appointed times. Connections are kept alive."""

import asyncio
import time
from collections.abc import Callable
from typing import cast

CONNECTIONS = 16


class Caller(asyncio.Protocol):
    """One connection; a reply is told when it has come whole: a decision ends with its artifact's and its own brace."""

    def __init__(self, request: bytes, answered: Callable[["Caller"], None]) -> None:
        self.request, self._answered = request, answered
        self.transport: asyncio.Transport
        self.due, self._got = 0.0, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way to write."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class

    def data_received(self, data: bytes) -> None:
        """Take a reply, or a part of one."""
        self._got += data
        if self._got.endswith(b"}}"):
            assert self._got.startswith(b"HTTP/1.1 200"), self._got[:200]
            self._got = b""
            self._answered(self)

    def ask(self, due: float) -> None:
        """Send the request that was due then."""
        self.due = due
        self.transport.write(self.request)


async def _callers(port: int, target: str, key: str, answered: Callable[[Caller], None]) -> list[Caller]:
    request = f"GET {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(lambda: Caller(request, answered), "127.0.0.1", port) for _ in range(CONNECTIONS)
    ]
    return [caller for _, caller in made]


async def capacity(port: int, target: str, key: str, seconds: float) -> float:
    """Ask as fast as replies come, for so many seconds: the replies in a second."""
    count, end = 0, time.perf_counter() + seconds

    def answered(caller: Caller) -> None:
        nonlocal count
        count += 1
        if time.perf_counter() < end:
            caller.ask(0.0)

    callers = await _callers(port, target, key, answered)
    for caller in callers:
        caller.ask(0.0)
    await asyncio.sleep(seconds + 0.2)
    for caller in callers:
        caller.transport.close()
    return count / seconds


async def latencies(port: int, target: str, key: str, rate: float, seconds: float) -> list[float]:
    """Ask at so many appointed times a second: for each the time from then to its reply, in seconds."""
    delays: list[float] = []
    waiting: list[float] = []
    idle: list[Caller] = []

    def answered(caller: Caller) -> None:
        delays.append(time.perf_counter() - caller.due)
        if waiting:
            caller.ask(waiting.pop(0))
        else:
            idle.append(caller)

    idle += await _callers(port, target, key, answered)
    callers, start, sent = list(idle), time.perf_counter(), 0
    while sent < rate * seconds:
        due = start + sent / rate
        pause = due - time.perf_counter()
        if pause > 0:
            await asyncio.sleep(pause)
        sent += 1
        if idle:
            idle.pop().ask(due)
        else:
            waiting.append(due)
    while len(delays) < sent:
        await asyncio.sleep(0.05)
    for caller in callers:
        caller.transport.close()
    return delays
