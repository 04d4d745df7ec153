"""Forms of several parts, whose files lie in a temporary file while they are checked."""

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from fastapi import Request
from starlette.datastructures import FormData
from starlette.formparsers import MultiPartException

from app.settings import Settings
from models import Fault, InvalidRequest
from models.errors import StoreRefused, UnsupportedMediaType

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


async def read_form(request: Request, parts: int, part_bytes: int) -> FormData:
    """Read a form within limits on its parts and on the bytes of each that is not a file; raises InvalidRequest."""
    try:
        return await request.form(max_files=parts, max_fields=parts, max_part_size=part_bytes)
    except MultiPartException as error:
        raise InvalidRequest.from_faults(Fault(("body",), error.message)) from error


def refuse_other_sites(request: Request, settings: Settings) -> None:
    """Raise UnsupportedMediaType for a form that a page of another site sends: browsers send those without asking."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "none")
    if origin is None and site in ("none", "same-origin"):
        return
    is_own = origin is not None and urlsplit(origin).netloc == request.headers.get("host")
    if not is_own and origin not in settings.allowed_origins():
        raise UnsupportedMediaType("multipart/form-data is not taken from pages of other sites")


@contextmanager
def room_on_disk() -> Iterator[None]:
    """Refuse what the disk for temporary files has no room for."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        message = f"no room for the upload in {tempfile.gettempdir()}: {error.strerror}"
        raise StoreRefused(f"{message}; try again when there is more") from error
