"""Append-only log of one process, in JSON lines.

Lines are on disk once ``append_lines`` returns. A log is created under a temporary name and renamed once it is locked.
So a log without a lock has no writer.
"""

import fcntl
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

SUFFIX = ".jsonl"


class LogFile:
    """A new log in a folder, locked until it is closed.

    Its name begins with the time in nanoseconds, so that names sort by age.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = folder / f"{time.time_ns():020d}-{uuid4().hex[:12]}{SUFFIX}"
        self.opened_at = time.monotonic()
        self.size = 0
        hidden = self.path.with_suffix(".new")
        self._file = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            hidden.rename(self.path)
            sync_folder(folder)
        except BaseException:
            os.close(self._file)
            raise

    def append_lines(self, lines: Sequence[bytes]) -> None:
        """Append lines, which are on disk once this method returns.

        Raises OSError; then the log contains none of the lines.
        """
        data = b"".join(line + b"\n" for line in lines)
        try:
            written = 0
            while written < len(data):
                written += os.write(self._file, data[written:])
            os.fdatasync(self._file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self.size)
            raise
        self.size += len(data)

    def close(self) -> None:
        """Release the log, so that it can be converted to a segment."""
        os.close(self._file)


def sync_folder(folder: Path) -> None:
    """Sync a folder's entries to disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
