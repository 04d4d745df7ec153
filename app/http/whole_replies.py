"""Writes of one turn of the event loop, sent together.

uvicorn writes the head of a reply and then its body. Sent as two, each reply costs two calls of the system, and a
server that is killed between them leaves half a reply: no proxy can ask another one then, as the head is told already.
"""

from asyncio import AbstractEventLoop, Transport
from typing import Any

MOST_HELD = 64 * 1024
"""What is sent at once when this many bytes wait."""


class WholeReplies(Transport):
    """A connection's transport, on which what is written in one turn of the loop leaves in one call of the system."""

    def __init__(self, transport: Transport, loop: AbstractEventLoop) -> None:
        super().__init__()
        self._transport, self._loop = transport, loop
        self._held: list[bytes] = []
        self._n_held = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Hold the bytes until this turn of the loop ends, or too many are held."""
        if not self._held:
            self._loop.call_soon(self._send)
        self._held.append(bytes(data))
        self._n_held += len(data)
        if self._n_held >= MOST_HELD:
            self._send()

    def close(self) -> None:
        """Close once all is sent."""
        self._send()
        self._transport.close()

    def abort(self) -> None:
        """Close at once; what is held is lost."""
        self._held, self._n_held = [], 0
        self._transport.abort()

    def is_closing(self) -> bool:
        """Tell whether the connection closes or is closed."""
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Give what is known of the connection."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Read no more for now."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        self._transport.resume_reading()

    def _send(self) -> None:
        held, self._held, self._n_held = self._held, [], 0
        if held and not self._transport.is_closing():
            self._transport.writelines(held)
