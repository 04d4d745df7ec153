"""Paths of the embedded Redis' socket and lock files."""

import fcntl
import os
import tempfile
from hashlib import sha256
from pathlib import Path

_SOCKET_LIMIT = 100  # a Unix socket's path may have 108 bytes


START_TIMEOUT_S = 30.0


def socket_path(folder: Path) -> Path:
    """Return the path of the server's Unix socket.

    If the folder's path is too long for a socket, the socket is in the temp directory.
    """
    here = folder / "redis.sock"
    if len(os.fsencode(here)) <= _SOCKET_LIMIT:
        return here
    name = f"parsimony-{os.getuid()}-{sha256(os.fsencode(folder)).hexdigest()[:16]}"
    return Path(tempfile.gettempdir()) / name / "redis.sock"


def open_lock(folder: Path) -> int:
    return os.open(folder / "users", os.O_RDWR | os.O_CREAT, 0o600)


def try_lock(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
