"""Resumable uploads: files that grow by parts, in a folder that servers and workers share.

Each upload is a folder, named by its id, with the received bytes and a record. The size of the file is the offset at
which the upload continues, so nothing is lost if a process is killed. A file lock excludes other processes.
"""

import fcntl
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path

from models.dataset_source import UPLOAD_ID_PATTERN
from models.errors import Conflict, Fault, InvalidRequest, PayloadTooLarge, StoreRefused, UnknownUpload

UPLOAD_TTL_S = 24 * 3600.0
"""Seconds without a change after which an upload expires."""
_DATA, _RECORD, _SCRATCH = "data", "upload.json", "scratch"


@dataclass(frozen=True, slots=True)
class UploadState:
    """An upload.

    Attributes:
        offset: number of bytes that were received.
        length: number of bytes of the complete upload.
        metadata: the header ``Upload-Metadata`` of its creation.
    """

    id: str
    offset: int
    length: int
    metadata: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class HeldUpload:
    """A complete upload that no other process changes or deletes.

    Attributes:
        scratch: an empty folder, which is deleted afterward.
    """

    path: Path
    scratch: Path

    def delete(self) -> None:
        """Delete the upload."""
        shutil.rmtree(self.path.parent)


class UploadWriter:
    """Appends to an upload; no more than its length."""

    def __init__(self, file: FileIO, state: UploadState) -> None:
        self._file, self.state, self.offset = file, state, state.offset

    def write(self, data: bytes) -> None:
        """Append bytes; after an error, a part of them may have been appended."""
        rest = memoryview(data)
        while rest:
            written = self._file.write(rest) or 0
            self.offset += written
            rest = rest[written:]

    def require_room(self, count: int) -> None:
        """Raise PayloadTooLarge if further bytes would exceed the upload's length."""
        end, length = self.offset + count, self.state.length
        if end > length:
            raise PayloadTooLarge(f"the upload must have at most {length} bytes (Upload-Length), got {end} or more")


class ResumableUploads:
    """The uploads in a folder.

    Args:
        max_bytes: maximum length of an upload.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder, self.max_bytes = folder, max_bytes

    def create_upload(self, length: int, metadata: str = "") -> UploadState:
        """Create an empty upload.

        Raises:
            PayloadTooLarge: the length exceeds the maximum.
            StoreRefused: the disk has less free space.
        """
        if length > self.max_bytes:
            limit = f"at most {self.max_bytes} bytes (PARSIMONY_MAX_UPLOAD_BYTES)"
            raise PayloadTooLarge(f"the upload must have {limit}, got {length}")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        free = shutil.disk_usage(self.folder).free
        if length > free:
            message = f"no room for the upload: {free} bytes are free (PARSIMONY_UPLOAD_DIR), it has {length}"
            raise StoreRefused(f"{message}; free disk space and retry")
        upload_id = secrets.token_hex(16)
        own = self.folder / upload_id
        own.mkdir(mode=0o700)
        (own / _RECORD).write_text(json.dumps({"length": length, "metadata": metadata}))
        (own / _DATA).touch()
        return self.get(upload_id)

    def get(self, upload_id: str) -> UploadState:
        """Return the state of an upload; raises UnknownUpload."""
        own = self._find_folder(upload_id)
        try:
            record, status = json.loads((own / _RECORD).read_bytes()), (own / _DATA).stat()
        except FileNotFoundError as error:
            raise _unknown(upload_id) from error
        expires_at = datetime.fromtimestamp(status.st_mtime + UPLOAD_TTL_S, UTC)
        return UploadState(upload_id, status.st_size, record["length"], record["metadata"], expires_at)

    @contextmanager
    def open_writer(self, upload_id: str, offset: int) -> Iterator[UploadWriter]:
        """Yield a writer at the end of an upload.

        Raises Conflict if another request uses the upload, or if the offset is not its size.
        """
        with self._lock(upload_id) as path, FileIO(path, "ab") as file:
            state = self.get(upload_id)
            if offset != state.offset:
                raise Conflict(f"Upload-Offset must be {state.offset}, got {offset}; continue there")
            yield UploadWriter(file, state)

    def require_complete(self, upload_id: str) -> UploadState:
        """Return a complete upload, which expires later from now on.

        Raises InvalidRequest if bytes are missing.
        """
        state = self.get(upload_id)
        if state.offset != state.length:
            missing = f"must be complete, got {state.offset} of {state.length} bytes; continue the upload"
            raise InvalidRequest.from_faults(Fault(("source", "upload"), missing))
        os.utime(self._find_folder(upload_id) / _DATA)
        return state

    @contextmanager
    def hold_upload(self, upload_id: str) -> Iterator[HeldUpload]:
        """Yield a complete upload, which nothing else changes or deletes meanwhile."""
        with self._lock(upload_id) as path:
            self.require_complete(upload_id)
            scratch = path.with_name(_SCRATCH)
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(mode=0o700)
            try:
                yield HeldUpload(path, scratch)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)

    def clear_scratch(self, upload_id: str) -> None:
        """Delete the files that an ended check of an upload left behind."""
        shutil.rmtree(self._find_folder(upload_id) / _SCRATCH, ignore_errors=True)

    def delete(self, upload_id: str) -> None:
        """Delete an upload; raises Conflict if another request or build uses it."""
        with self._lock(upload_id):
            shutil.rmtree(self._find_folder(upload_id))

    def delete_expired(self, now: float | None = None) -> int:
        """Delete the uploads that have not changed for ``UPLOAD_TTL_S``; return their number."""
        oldest = (time.time() if now is None else now) - UPLOAD_TTL_S
        expired = [own for own in self._list_folders() if _modified_at(own) < oldest]
        for own in expired:
            with suppress(Conflict, FileNotFoundError):
                if (own / _DATA).exists():
                    self.delete(own.name)
                else:
                    shutil.rmtree(own)
        return len(expired)

    def _list_folders(self) -> list[Path]:
        return [each for each in self.folder.glob("*") if re.fullmatch(UPLOAD_ID_PATTERN, each.name)]

    def _find_folder(self, upload_id: str) -> Path:
        if not re.fullmatch(UPLOAD_ID_PATTERN, upload_id):
            raise _unknown(upload_id)
        return self.folder / upload_id

    @contextmanager
    def _lock(self, upload_id: str) -> Iterator[Path]:
        """Yield the path of an upload's bytes, while no other request or process uses it."""
        path = self._find_folder(upload_id) / _DATA
        try:
            file = path.open("r+b")  # network file systems lock only files that are open for writing
        except FileNotFoundError as error:
            raise _unknown(upload_id) from error
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Conflict(f"upload {upload_id!r} is in use by another request or a build; retry later") from error
            if not path.exists():  # deleted before it was locked
                raise _unknown(upload_id)
            yield path


def _modified_at(own: Path) -> float:
    """Return when an upload changed last, in seconds since 1970; infinity if it was deleted meanwhile."""
    for path in (own / _DATA, own):
        with suppress(FileNotFoundError):
            return path.stat().st_mtime
    return float("inf")


def _unknown(upload_id: str) -> UnknownUpload:
    return UnknownUpload(f"upload {upload_id!r} not found; it may have expired or been used")
