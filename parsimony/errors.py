"""Errors of the client, as a small tree.

::

    ParsimonyError
    ├── InvalidRequest     a field is missing, unknown, or out of range (HTTP 400, 413, 415, 422)
    ├── Infeasible         no decision keeps the limits (409)
    ├── Conflict           the request conflicts with stored data (409, 412)
    ├── NotFound           no such artifact, dataset, build, or route (404)
    ├── NotPermitted       the API key is missing, unknown, or lacks the role (401, 403)
    ├── TooManyRequests    rate limit, or a full queue (429)
    ├── ServerError        the server failed (other 5xx)
    ├── Unavailable        the server cannot be reached, or is not ready (502, 503, 504)
    └── RunFailed          no function of a run answered
"""

from collections.abc import Mapping
from typing import Any

import httpx

_PREFIX = "urn:parsimony:"
UNREACHABLE, NO_REPLY = "unreachable", "no-reply"
"""Codes without a reply: the request was not sent, or may have been received."""


class ParsimonyError(Exception):
    """An error of the server or the client.

    Attributes:
        code: the server's error code, such as ``infeasible``; empty if the server sent none.
        status: HTTP status; 0 without a reply.
        details: all fields of the error, such as ``errors`` with the place of each invalid field.
        retry_after_s: seconds to wait before trying again; None if unknown.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        status: int = 0,
        details: Mapping[str, Any] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.details = dict(details or {})
        self.retry_after_s = retry_after_s


class InvalidRequest(ParsimonyError):
    """A field of the request is missing, unknown, or out of range."""


class Infeasible(ParsimonyError):
    """No decision keeps the limits; the message has the least feasible value."""


class Conflict(ParsimonyError):
    """The request conflicts with stored data."""


class NotFound(ParsimonyError):
    """The artifact, dataset, build, or route does not exist."""


class NotPermitted(ParsimonyError):
    """The API key is missing, unknown, or lacks the role."""


class TooManyRequests(ParsimonyError):
    """The rate limit is reached, or the queue is full."""


class ServerError(ParsimonyError):
    """The server failed."""


class Unavailable(ParsimonyError):
    """The server cannot be reached, or is not ready."""


class RunFailed(ParsimonyError):
    """No function of a run answered."""


_BY_STATUS: dict[int, type[ParsimonyError]] = {
    400: InvalidRequest,
    401: NotPermitted,
    403: NotPermitted,
    404: NotFound,
    405: NotFound,
    409: Conflict,
    412: Conflict,
    413: InvalidRequest,
    415: InvalidRequest,
    422: InvalidRequest,
    429: TooManyRequests,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}
_BY_CODE: dict[str, type[ParsimonyError]] = {"infeasible": Infeasible, "conflicting-limits": Infeasible}


def error_from_reply(reply: httpx.Response) -> ParsimonyError:
    """Return the error of a reply with an error status."""
    try:
        read = reply.json()
    except ValueError:
        read = {}
    details = read if isinstance(read, dict) else {}
    code = str(details.get("type", "")).removeprefix(_PREFIX)
    kind = _BY_CODE.get(code) or _BY_STATUS.get(reply.status_code, ServerError)
    message = details.get("detail") or f"{reply.request.url} answered {reply.status_code}"
    wait = reply.headers.get("retry-after", "")
    return kind(
        str(message),
        code=code,
        status=reply.status_code,
        details=details,
        retry_after_s=float(wait) if wait.isdigit() else None,
    )


def error_from_transport(url: object, error: Exception) -> Unavailable:
    """Return the error of a server that cannot be reached or does not reply, or of a closed client."""
    is_sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout | RuntimeError)
    reason = str(error) or type(error).__name__
    return Unavailable(f"cannot reach {url}: {reason}", code=NO_REPLY if is_sent else UNREACHABLE)
