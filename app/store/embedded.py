"""Embedded Redis: one server in DATA_DIR that all local processes share.

A *keeper* process owns the server. Each process that uses the server holds a shared file lock, which the kernel
releases when the process ends for any reason. When the keeper obtains the lock exclusively, no process uses the server
any longer. Then the keeper saves the data and stops the server. If the keeper dies, the server receives a signal to
save and stop. If the server dies, it is restarted with its data.
"""

import fcntl
import os
import shutil
import sys
import time
from pathlib import Path
from types import TracebackType

from app.store.embedded_files import START_TIMEOUT_S, open_lock, socket_path, try_lock
from models.errors import StoreUnavailable

_ROOM_BYTES = 2**20
"""Bytes that must stay free in addition to what is written, for records and workers."""


class EmbeddedRedis:
    """A reference to the embedded server, which runs at least until ``close``."""

    def __init__(self, data_dir: Path) -> None:
        self.folder = data_dir.resolve() / "redis"
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        self._lock = open_lock(self.folder)
        self._keeper = 0
        try:
            self._wait_for_lock()
            self._start_if_needed()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """The URL of the embedded server."""
        return f"unix://{socket_path(self.folder)}"

    def describe_full_disk(self, more: int = 0) -> str | None:
        """Return a message if the disk lacks room for this many more bytes, else None.

        The embedded server ends when it cannot write.
        """
        free = shutil.disk_usage(self.folder).free
        if free >= more + _ROOM_BYTES:
            return None
        return f"no room on the disk under {self.folder.parent}: {free} bytes are free, {more + _ROOM_BYTES} are needed"

    def restart_keeper(self) -> None:
        """Start the keeper again if it was killed; call it if the store is unreachable."""
        self._start_if_needed()

    def close(self) -> None:
        """Release the server; after the last release, the keeper saves and stops it."""
        os.close(self._lock)

    def __enter__(self) -> "EmbeddedRedis":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait_for_lock(self) -> None:
        """Obtain the shared lock; a stopping keeper holds it exclusively until the server has saved."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not try_lock(self._lock, fcntl.LOCK_SH):
            if time.monotonic() > deadline:
                raise StoreUnavailable(
                    f"the embedded store in {self.folder} failed to stop within {START_TIMEOUT_S:.0f} s"
                )
            time.sleep(0.05)

    def _start_if_needed(self) -> None:
        """Start a keeper unless one is running; one process at a time checks."""
        with (self.folder / "starting").open("w") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            if _keeper_lives(self.folder):
                return
            if self._keeper:
                _ended(self._keeper)
            self._keeper = _spawn_keeper(self.folder)
            deadline = time.monotonic() + START_TIMEOUT_S
            while not (self.folder / "ready").exists():
                if _ended(self._keeper) or time.monotonic() > deadline:
                    raise StoreUnavailable(f"the embedded store failed to start; see {self.folder / 'redis.log'}")
                time.sleep(0.01)


def _spawn_keeper(folder: Path) -> int:
    """Start the keeper in a separate session.

    So Ctrl-C or a hang-up of the terminal does not reach the server. The keeper must outlive this process, which
    subprocess.Popen reports as a mistake, so ``posix_spawn`` is used.
    """
    (folder / "ready").unlink(missing_ok=True)
    code = "import sys; from app.store.embedded_keeper import keep_running, Path; keep_running(Path(sys.argv[1]))"
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    command = [sys.executable, "-P", "-c", code, str(folder)]  # -P: not an "app" of the current folder
    return os.posix_spawn(sys.executable, command, os.environ, file_actions=null, setsid=True)


def _ended(child: int) -> bool:
    """Return whether a child has ended, and reap it if so."""
    try:
        return os.waitpid(child, os.WNOHANG)[0] == child
    except ChildProcessError:
        return True


def _keeper_lives(folder: Path) -> bool:
    """Return whether a keeper holds its lock."""
    handle = os.open(folder / "keeper", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        return not try_lock(handle, fcntl.LOCK_EX)
    finally:
        os.close(handle)
