"""Raw bytes to and from a server, as no well-behaved client sends them."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from tests.support.servers import free_port, wait_for


def ask(port: int, *pieces: bytes, pause_s: float = 0.0, timeout_s: float = 20.0) -> bytes:
    """Send pieces with pauses between them, and read until the server closes or nothing has come for so long."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as raw:
        for piece in pieces:
            if not sent(raw, piece):
                break
            time.sleep(pause_s)
        return rest(raw)


def sent(raw: socket.socket, data: bytes) -> bool:
    try:
        raw.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


def rest(raw: socket.socket) -> bytes:
    received = b""
    try:
        while part := raw.recv(65536):
            received += part
    except (ConnectionResetError, TimeoutError):
        pass
    return received


def trickle(port: int, head: bytes, drop: bytes, every_s: float, most_s: float) -> tuple[float, bytes]:
    """Send a head, then drop after drop; give the seconds until the server closed, and what it had said."""
    with socket.create_connection(("127.0.0.1", port), timeout=every_s) as raw:
        started, received = time.monotonic(), b""
        raw.sendall(head)
        while time.monotonic() - started < most_s:
            try:
                part = raw.recv(65536)
                if not part:
                    break
                received += part
            except TimeoutError:
                pass
            except ConnectionResetError:
                break
            if drop and not sent(raw, drop):
                break
        return time.monotonic() - started, received


@contextmanager
def serving(app: Any) -> Iterator[int]:
    port = free_port()
    config = uvicorn.Config(
        app, host="127.0.0.1", port=port, http="httptools", ws="none", log_config=None, access_log=False, lifespan="off"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    try:
        wait_for(lambda: server.started, 10)
        yield port
    finally:
        server.should_exit = True
        thread.join()
