"""Uploads of files of any size in parts, which continue after errors (the protocol tus 1.0.0).

The steps are independent of how requests are sent: both clients and the command line perform them.
"""

import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from parsimony.errors import InvalidRequest, ParsimonyError, TooManyRequests, Unavailable
from parsimony.transport import Request
from parsimony.uploads import make_path

PART_BYTES = 64 * 2**20
"""Bytes of a part; smaller if the server or a proxy refuses it as too large."""
_MIN_PART_BYTES = 2**14
_MAX_FAILURES = 10
"""Consecutive failures after which an upload ends; with the pauses between them, these are about two minutes."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
_TOO_LARGE, _TIMED_OUT, _OLD_OFFSET = 413, 408, 409
_TUS = {"Tus-Resumable": "1.0.0"}
ReportUpload = Callable[["UploadProgress"], None]


@dataclass(frozen=True)
class UploadProgress:
    """How much of an upload the server has received.

    Attributes:
        upload_id: id with which the upload can be continued.
    """

    upload_id: str
    sent_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class Pause:
    """A pause of an upload, in seconds."""

    seconds: float


UploadSteps = Generator[Request | Pause, httpx.Response | None, str]


def request_upload(length: int) -> Request:
    """Return the request that creates an upload."""
    return Request("POST", make_path("uploads"), False, {"headers": {**_TUS, "Upload-Length": str(length)}})


def request_part(upload_id: str, offset: int, data: bytes) -> Request:
    """Return the request that appends bytes to an upload."""
    headers = {**_TUS, "Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
    return Request("PATCH", make_path("uploads", upload_id), False, {"headers": headers, "content": data})


def request_deletion(upload_id: str) -> Request:
    """Return the request that deletes an upload."""
    return Request("DELETE", make_path("uploads", upload_id), False, {"headers": dict(_TUS)})


def upload_file(path: str | Path, upload_id: str | None, report: ReportUpload | None) -> UploadSteps:
    """Yield the requests and pauses of an upload; return its id.

    Errors of requests are thrown into the generator. After a failure, the server is asked how much it has received.

    Args:
        upload_id: an upload of the same file to continue; None for a new one.
        report: receives the progress after each part.
    Raises:
        InvalidRequest: the upload to continue has another length than the file, or the file became shorter.
    """
    length, part_bytes = Path(path).stat().st_size, PART_BYTES
    if upload_id is None:
        created = yield request_upload(length)
        upload_id = str(_require_reply(created).json()["id"])
    offset, failures = None, 0
    with Path(path).open("rb") as file:
        while offset is None or offset < length:
            try:
                if offset is None:
                    offset = _read_offset((yield _request_offset(upload_id)), length)
                else:
                    file.seek(offset)
                    part = file.read(min(part_bytes, length - offset))
                    if not part:
                        message = f"the file must keep its {length} bytes during the upload, got {offset}"
                        raise InvalidRequest(message, code="invalid-request")
                    appended = yield request_part(upload_id, offset, part)
                    offset, failures = int(_require_reply(appended).headers["upload-offset"]), 0
                if report is not None:
                    report(UploadProgress(upload_id, offset, length))
            except ParsimonyError as error:
                if error.status == _TOO_LARGE and part_bytes > _MIN_PART_BYTES:
                    part_bytes //= 2
                    continue
                failures, offset = failures + 1, None
                if failures > _MAX_FAILURES or not _is_passing(error):
                    raise
                yield Pause(_choose_pause(failures))
    return upload_id


def advance_upload(steps: UploadSteps, outcome: httpx.Response | ParsimonyError | None) -> Request | Pause | str:
    """Return the next step of an upload after the outcome of the last one; at the end, the id."""
    try:
        return steps.throw(outcome) if isinstance(outcome, ParsimonyError) else steps.send(outcome)
    except StopIteration as end:
        return str(end.value)


def perform_upload(steps: UploadSteps, send: Callable[[Request], httpx.Response]) -> str:
    """Perform the steps of an upload with a function that sends requests; return the id."""
    outcome: httpx.Response | ParsimonyError | None = None
    while not isinstance(step := advance_upload(steps, outcome), str):
        try:
            outcome = send(step) if isinstance(step, Request) else _sleep(step.seconds)
        except ParsimonyError as error:
            outcome = error
    return step


def _sleep(seconds: float) -> httpx.Response | None:
    time.sleep(seconds)
    return None


def _request_offset(upload_id: str) -> Request:
    return Request("HEAD", make_path("uploads", upload_id), True, {"headers": dict(_TUS)})


def _require_reply(reply: httpx.Response | None) -> httpx.Response:
    assert reply is not None
    return reply


def _read_offset(reply: httpx.Response | None, length: int) -> int:
    headers: Any = _require_reply(reply).headers
    if int(headers["upload-length"]) != length:
        message = f"the file must have {headers['upload-length']} bytes, like the upload to continue, got {length}"
        raise InvalidRequest(message, code="invalid-request")
    return int(headers["upload-offset"])


def _is_passing(error: ParsimonyError) -> bool:
    """Return whether the upload can continue after an error."""
    return isinstance(error, Unavailable | TooManyRequests) or error.status in (_TIMED_OUT, _OLD_OFFSET)


def _choose_pause(failures: int) -> float:
    """Return the seconds before the next attempt: exponential with jitter."""
    longest = min(_FIRST_PAUSE_S * 2**failures, _LONGEST_PAUSE_S)
    return random.uniform(longest / 2, longest)
