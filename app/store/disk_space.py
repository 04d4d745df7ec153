"""Errors of full disks."""

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models.errors import StoreRefused

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def require_disk_space(folder: Path | None = None) -> Iterator[None]:
    """Raise StoreRefused if the disk of a folder is full; None: that of temporary files."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        message = f"no room for the upload in {folder or tempfile.gettempdir()}: {error.strerror}"
        raise StoreRefused(f"{message}; free disk space and retry") from error
