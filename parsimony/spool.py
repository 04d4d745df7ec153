"""Lines that wait on disk until the server has them."""

import json
import logging
import os
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from errno import ENOSPC
from math import inf
from pathlib import Path
from typing import IO, Any

from parsimony.errors import InvalidRequest, NotFound, ParsimonyError

logger = logging.getLogger("parsimony")
BATCH, BATCH_BYTES = 1_000, 4 * 2**20
"""Most lines of a request, and the bytes after which no further line is added."""
MAX_SENT_BYTES = 16 * 2**20
"""Bytes of sent lines in the file, after which the others are moved to a new file."""
_SUFFIX = ".jsonl"


def default_folder() -> Path:
    """Return the folder of this user's files: ``parsimony`` in ``XDG_STATE_HOME``, or in ``~/.local/state``."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "parsimony"


class Spool:
    """A file of JSON lines that a thread sends in batches; each line is sent at least once.

    Lines of processes that ended without sending theirs are sent by the next spool of the same folder. Lines that the
    server refuses as invalid, and those beyond ``max_bytes``, are dropped, and their number is logged as an error.

    Args:
        folder: folder of the files, only for lines that ``send`` accepts.
        send: sends lines; raises ParsimonyError.
        max_bytes: upper bound on the bytes that wait for the server.
        interval_s: pause between batches, in seconds.
    """

    def __init__(
        self,
        folder: Path,
        send: Callable[[Sequence[Mapping[str, Any]]], None],
        *,
        max_bytes: int = 2**30,
        interval_s: float = 1.0,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._send, self._max_bytes, self._interval_s = send, max_bytes, interval_s
        self._key = uuid.uuid4().hex
        self.path = folder / f"{self._key}{_SUFFIX}"
        self._file: int | None = _create_locked(self.path)
        self._writing, self._sending = threading.Lock(), threading.Lock()
        self._size, self._sent, self._count, self.dropped = 0, 0, 0, 0
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="parsimony-spool", daemon=True)
        self._thread.start()

    def next_key(self) -> str:
        """Return a unique key of a line."""
        with self._writing:
            self._count += 1
            return f"{self._key}-{self._count}"

    def append(self, line: str) -> None:
        """Append a line, which survives a crash of this process."""
        data = line.encode() + b"\n"
        with self._writing:
            if self._file is None:
                raise ValueError("the recorder is closed")
            if self._size - self._sent + len(data) > self._max_bytes:
                self._drop(1, f"more than max_bytes={self._max_bytes:,} wait for the server")
                return
            try:
                written = os.write(self._file, data)
            except OSError as error:
                self._drop(1, str(error))
                return
            if written < len(data):  # the disk is full: a part of a line would damage the next one
                os.ftruncate(self._file, self._size)
                self._drop(1, "the disk is full")
                return
            self._size += len(data)

    def flush(self) -> None:
        """Send all lines so far. Raises ParsimonyError if the server is unavailable, or does not permit it."""
        with self._sending:
            for path in sorted(self.path.parent.glob(f"*{_SUFFIX}")):
                if path != self.path:
                    self._send_leftover(path)
            with self.path.open("rb") as file:
                file.seek(self._sent)
                for lines in _read_batches(file, self._size - self._sent):
                    self._deliver(lines)
                    self._sent += sum(map(len, lines))
            with self._writing:
                if self._file is not None and self._sent == self._size:
                    os.ftruncate(self._file, 0)
                    self._size = self._sent = 0
                elif self._file is not None and self._sent > MAX_SENT_BYTES:
                    self._file = self._move_rest(self._file)

    def _move_rest(self, file: int) -> int:
        """Move the lines that are not sent to a new file, and return it; a crash in between may repeat some."""
        rest = os.pread(file, self._size - self._sent, self._sent)
        path = self.path.with_name(f"{uuid.uuid4().hex}{_SUFFIX}")
        try:
            moved = _create_locked(path, rest)
        except OSError as error:  # the disk is full: it is tried again
            logger.warning("sent lines not deleted file=%s error=%s", self.path, error)
            return file
        old, self.path, self._size, self._sent = self.path, path, len(rest), 0
        old.unlink()
        os.close(file)
        return moved

    def close(self) -> None:
        """Send all lines if the server is available, and stop; else they stay in the file."""
        self._is_closing.set()
        self._thread.join()
        if self._file is None:
            return
        try:
            self.flush()
        except ParsimonyError as error:
            logger.error("recorded lines wait file=%s error=%s", self.path, error)
        with self._writing:
            if not self._size:
                self.path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None

    def _work(self) -> None:
        logged: tuple[type, str] | None = None
        while not self._is_closing.wait(self._interval_s):
            try:
                self.flush()
                logged = None
            except (ParsimonyError, OSError) as error:
                kind = type(error), getattr(error, "code", "")
                if kind != logged:
                    logger.warning("recorded lines wait file=%s error=%s", self.path, error)
                logged = kind
                self._is_closing.wait(getattr(error, "retry_after_s", None) or self._interval_s)

    def _deliver(self, lines: Sequence[bytes]) -> None:
        """Send lines; damaged ones are dropped. Raises ParsimonyError."""
        values = [value for line in lines if (value := _parse(line)) is not None]
        if len(values) < len(lines):
            self._drop(len(lines) - len(values), "not JSON")
        if values:
            self._send_values(values)

    def _send_values(self, values: Sequence[Any]) -> None:
        """Send parsed lines; those that are refused are dropped. Raises ParsimonyError for other failures."""
        try:
            self._send(values)
        except NotFound as error:
            self._drop(len(values), str(error))
        except InvalidRequest as error:
            if len(values) == 1:
                self._drop(1, str(error))
                return
            self._send_values(values[: len(values) // 2])
            self._send_values(values[len(values) // 2 :])

    def _drop(self, count: int, reason: str) -> None:
        self.dropped += count
        logger.error("recorded lines dropped lines=%d reason=%s", count, reason)

    def _send_leftover(self, path: Path) -> None:
        """Send the lines of an ended process, and delete its file."""
        file = _open_locked(path)
        if file is None:
            return
        with os.fdopen(file, "rb") as held:
            for lines in _read_batches(held):
                self._deliver(lines)
            path.unlink(missing_ok=True)


def _parse(line: bytes) -> Any:
    """Return the JSON value of a line; None if it is damaged."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def _create_locked(path: Path, content: bytes = b"") -> int:
    """Create and lock a file, which others only see once it is locked. Raises OSError, and leaves no file then."""
    hidden = path.with_suffix(".new")
    file = _open_locked(hidden)
    assert file is not None
    try:
        if os.write(file, content) < len(content):
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        hidden.rename(path)
    except OSError:
        os.close(file)
        hidden.unlink(missing_ok=True)
        raise
    return file


def _open_locked(path: Path) -> int | None:
    """Open a file, or return None if another process has it."""
    import fcntl  # not on Windows, where the rest of the client works

    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


def _read_batches(file: IO[bytes], most: float = inf) -> Iterator[list[bytes]]:
    """Yield complete lines of ``most`` bytes; the last one of a process that crashed may lack its end."""
    lines, size = list[bytes](), 0
    for line in file:
        if not line.endswith(b"\n") or most <= 0:
            break
        lines.append(line)
        size += len(line)
        most -= len(line)
        if len(lines) == BATCH or size >= BATCH_BYTES:
            yield lines
            lines, size = [], 0
    if lines:
        yield lines
