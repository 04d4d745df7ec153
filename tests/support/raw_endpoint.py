"""An endpoint that answers every request with given bytes, however little they are HTTP."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

Script = Callable[[bytes], Iterable[bytes]]
"""Given the head of a request, the pieces that are sent one after the other; the connection is closed after them."""


@contextmanager
def running_endpoint(script: Script) -> Iterator[str]:
    server = _RawEndpoint(script)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    server.is_listening.wait()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.loop.call_soon_threadsafe(server.is_closed.set)
        thread.join()


class _RawEndpoint:
    def __init__(self, script: Script) -> None:
        self.is_listening = threading.Event()
        self._script = script

    async def serve(self) -> None:
        self.loop, self.is_closed = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self.is_listening.set()
        await self.is_closed.wait()
        server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            for piece in self._script(head):
                writer.write(piece)
                await writer.drain()
        writer.transport.abort() if writer.transport.is_closing() else writer.close()
