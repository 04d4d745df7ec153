"""Multipart forms; their files are temporary while they are checked."""

import os
from pathlib import Path
from urllib.parse import urlsplit

from fastapi import Request
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException

from app.settings import Settings
from models import Fault, InvalidRequest
from models.errors import UnsupportedMediaType


async def read_form(request: Request, parts: int, part_bytes: int) -> FormData:
    """Parse a form within limits on its parts and bytes; raises InvalidRequest."""
    try:
        return await request.form(max_files=parts, max_fields=parts, max_part_size=part_bytes)
    except MultiPartException as error:
        raise InvalidRequest.from_faults(Fault(("body",), error.message)) from error


def check_same_site(request: Request, settings: Settings) -> None:
    """Raise UnsupportedMediaType for a form from another site (CSRF protection).

    Browsers send such forms without a preflight request.
    """
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "none")
    if origin is None and site in ("none", "same-origin"):
        return
    is_own = origin is not None and urlsplit(origin).netloc == request.headers.get("host")
    if not is_own and origin not in settings.allowed_origins():
        raise UnsupportedMediaType("multipart/form-data is not supported for cross-site requests")


def read_bytes_part(form: FormData, part: str) -> bytes:
    """Return the content of a part; raises InvalidRequest if it is missing."""
    value = form.get(part)
    if value is None:
        raise InvalidRequest.from_faults(Fault((part,), "is missing"))
    return value.file.read() if isinstance(value, UploadFile) else value.encode()


def read_file_part(form: FormData, part: str) -> UploadFile:
    """Return the file of a part; raises InvalidRequest if it is missing or not a file."""
    value = form.get(part)
    if not isinstance(value, UploadFile):
        raise InvalidRequest.from_faults(Fault((part,), "is missing" if value is None else "must be sent as a file"))
    return value


def copy_part(upload: UploadFile, path: Path) -> Path:
    """Copy a received file, in the kernel, to a path that another process can open."""
    source, length = upload.file.fileno(), upload.size or 0  # the first moves it from memory to disk
    upload.file.flush()
    with path.open("wb") as out:
        at = 0
        while at < length:
            at += os.sendfile(out.fileno(), source, at, length - at)
    return path
