"""What HTTP makes of our errors: one table from class to status and code, and the replies of RFC 9457."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match

from models import errors
from models.errors import ConflictingLimit, ConflictingLimits, Fault, InvalidRequest, NotFound, ParsimonyError

logger = logging.getLogger("parsimony.problems")
MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 5

PROBLEMS: dict[type[ParsimonyError], tuple[int, str]] = {
    ParsimonyError: (500, "internal"),
    errors.InvalidRequest: (422, "invalid-request"),
    errors.UnknownDataset: (404, "unknown-dataset"),
    errors.UnknownBuild: (404, "unknown-build"),
    errors.UnknownAdvice: (404, "unknown-advice"),
    errors.UnknownArtifact: (404, "unknown-artifact"),
    errors.UnknownVersion: (404, "unknown-version"),
    errors.UnknownEndpoint: (404, "unknown-endpoint"),
    errors.UnknownBatch: (404, "unknown-batch"),
    errors.Infeasible: (409, "infeasible"),
    errors.Conflict: (409, "conflict"),
    errors.Changed: (412, "precondition-failed"),
    errors.PayloadTooLarge: (413, "payload-too-large"),
    errors.UnsupportedMediaType: (415, "unsupported-media-type"),
    errors.Unauthorized: (401, "unauthorized"),
    errors.Forbidden: (403, "forbidden"),
    errors.TooManyBuilds: (429, "too-many-builds"),
    errors.TooManyRequests: (429, "too-many-requests"),
    errors.RequestTimeout: (408, "request-timeout"),
    errors.StoreUnavailable: (503, "store-unavailable"),
    errors.StoreRefused: (503, "store-unavailable"),
    errors.SolverTimeout: (504, "solver-timeout"),
    errors.EndpointFailed: (502, "endpoint-failed"),
    errors.RunTimeout: (504, "run-timeout"),
}
_OPENAI, _OPEN_INFERENCE = ("/v1/chat/", "/v1/models"), "/v2"
"""Where the paths of other APIs begin, whose clients read errors in their own form only."""
_METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
HTTP_CODES = {
    400: "invalid-request",
    404: "not-found",
    405: "method-not-allowed",
    408: "request-timeout",
    415: "unsupported-media-type",
}
"""Errors of the framework, without an exception of ours."""


class ProblemFault(BaseModel):
    """One thing wrong with the input."""

    loc: list[str | int] = Field(description="where it is: the field, by its path")
    msg: str = Field(description="what is wrong with it, with the numbers")


class ProblemLimit(BaseModel):
    """One of the limits that cannot be kept together."""

    limit: str = Field(description="its path in the request", examples=["classifiers.large.at_most"])
    bound: float = Field(description="what it is; of floors a share, from 0 to 1", examples=[100.0])
    most: bool = Field(description="whether that is the most, else the least", examples=[True])
    give: float | None = Field(
        description="by how much it must be relaxed while the others are kept; null if time ran out",
        examples=[12.0],
    )


class Problem(BaseModel):
    """An error reply (RFC 9457)."""

    type: str = Field(description="urn:parsimony:<code>", examples=["urn:parsimony:infeasible"])
    title: str = Field(description="the code in words", examples=["infeasible"])
    status: int = Field(description="the HTTP status", examples=[409])
    detail: str = Field(
        description="a sentence with the numbers",
        examples=["the fastest cascade takes at most 3.0, the deadline is 2.0"],
    )
    instance: str = Field(description="the request's id, which finds it in the log")
    errors: list[ProblemFault] | None = Field(default=None, description="what is wrong, for invalid input")
    conflict: list[ProblemLimit] | None = Field(
        default=None,
        description="a smallest set of conflicting limits of an assignment",
    )


def make_problem(
    status: int,
    code: str,
    detail: str,
    request_id: str,
    faults: Iterable[Fault] = (),
    headers: dict[str, str] | None = None,
    conflict: Iterable[ConflictingLimit] = (),
) -> JSONResponse:
    """Make the reply."""
    body: dict[str, Any] = {
        "type": f"urn:parsimony:{code}",
        "title": code.replace("-", " "),
        "status": status,
        "detail": detail,
        "instance": f"urn:parsimony:request:{request_id}",
    }
    listed = [{"loc": list(fault.loc), "msg": fault.msg} for fault in faults]
    if listed:
        body["errors"] = listed
    limits = [asdict(limit) for limit in conflict]
    if limits:
        body["conflict"] = limits
    return JSONResponse(body, status, _headers(status) | (headers or {}), MEDIA_TYPE)


def _headers(status: int) -> dict[str, str]:
    """Return headers of an error reply: when to retry, how to authenticate."""
    if status in (429, 503):
        return {"Retry-After": str(RETRY_AFTER_S)}
    return {"WWW-Authenticate": "Bearer"} if status == 401 else {}


def problem_of(error: ParsimonyError, request_id: str) -> JSONResponse:
    """Make the reply to one of our errors, by the nearest of its classes that the table knows."""
    status, code = _problem_of_kind(error)
    faults = error.faults if isinstance(error, InvalidRequest) else ()
    conflict = error.conflict if isinstance(error, ConflictingLimits) else ()
    return make_problem(status, code, str(error), request_id, faults, conflict=conflict)


def status_of(error: ParsimonyError) -> int:
    """Give the HTTP status of one of our errors."""
    return _problem_of_kind(error)[0]


def _problem_of_kind(error: ParsimonyError) -> tuple[int, str]:
    """Find status and code, by the nearest of its classes that the table knows."""
    return next(PROBLEMS[kind] for kind in type(error).__mro__ if kind in PROBLEMS)


def reply_to(error: ParsimonyError, path: str, request_id: str) -> JSONResponse:
    """Make the reply in the format of the requested API: OpenAI, Open Inference Protocol, or RFC 9457."""
    return _in_another_form(path, *_problem_of_kind(error), str(error)) or problem_of(error, request_id)


def _in_another_form(
    path: str, status: int, code: str, detail: str, headers: dict[str, str] | None = None
) -> JSONResponse | None:
    """Make the reply in the format of a foreign API, by its path; None for our own API."""
    if path.startswith(_OPENAI):
        error_body: Any = {"message": detail, "type": code, "param": None, "code": code}
    elif path.startswith(_OPEN_INFERENCE):
        error_body = detail
    else:
        return None
    return JSONResponse({"error": error_body}, status, _headers(status) | (headers or {}))


class OpenAIFault(BaseModel):
    """What went wrong, in OpenAI's words."""

    message: str = Field(description="a sentence with the numbers")
    type: str = Field(description="the code, as of our problems", examples=["infeasible"])
    param: str | None = Field(description="always null")
    code: str = Field(description="the same code")


class OpenAIError(BaseModel):
    """An error reply in OpenAI's form."""

    error: OpenAIFault = Field(description="what went wrong")


class InferenceError(BaseModel):
    """An error reply in the form of the Open Inference Protocol."""

    error: str = Field(description="a sentence with the numbers")


def internal_problem(path: str, request_id: str) -> JSONResponse:
    """Make the reply to a bug: the log has the trace, the caller gets the id."""
    detail = f"an internal error; the log has it under the request's id {request_id}"
    return _in_another_form(path, 500, "internal", detail) or make_problem(500, "internal", detail, request_id)


def install(app: FastAPI, page: Callable[[str], Response]) -> None:
    """Let every error of the application become a problem reply.

    page: makes what a browser is shown instead where nothing is at an address of a page, from what is missing.
    """

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, ParsimonyError)
        if isinstance(error, NotFound) and _for_people(request):
            return page(str(error))
        return reply_to(error, request.url.path, request.state.request_id)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        if _for_people(request) and all(fault["loc"][0] == "path" for fault in error.errors()):
            return page(_nothing_at(request))
        faults = [_placed(fault) for fault in error.errors()]
        return reply_to(InvalidRequest.from_validation(faults), request.url.path, request.state.request_id)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 404 and _for_people(request):
            return page(_nothing_at(request))
        return _http_problem(app, request, error)

    async def left(request: Request, error: Exception) -> JSONResponse:
        return _http_problem(app, request, HTTPException(400))  # which nobody reads: the caller went away

    async def bug(request: Request, error: Exception) -> JSONResponse:
        # Logged by the telemetry, to which it is raised again.
        return internal_problem(request.url.path, request.state.request_id)

    app.add_exception_handler(ParsimonyError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(ClientDisconnect, left)
    app.add_exception_handler(Exception, bug)


def _for_people(request: Request) -> bool:
    """Return whether a browser requests a page; paths under /v1 are for programs."""
    accepted = request.headers.get("accept", "")
    return request.method in ("GET", "HEAD") and "text/html" in accepted and not request.url.path.startswith("/v1/")


def _nothing_at(request: Request) -> str:
    """Return the message, with the operations of the kind of artifact that the path names."""
    message, parts = f"not found: {request.url.path}", request.url.path.split("/")
    operations = request.app.state.operations.get(parts[2]) if len(parts) > 3 and parts[1] == "v1" else None
    return f"{message}; {parts[2]} have {', '.join(operations)}" if operations else message


def _placed(fault: dict[str, Any]) -> dict[str, Any]:
    """Return a fault with its location in the request; for invalid JSON, the message has the character's position."""
    if fault["type"] == "json_invalid":
        reason = f"{fault.get('ctx', {}).get('error', 'unreadable')} at character {fault['loc'][-1]}"
        return {**fault, "loc": ("body",), "ctx": {"error": reason}}
    return {**fault, "loc": _location(fault["loc"])}


def _location(loc: Iterable[str | int]) -> tuple[str | int, ...]:
    """Leave out what only FastAPI knows: that it was the body."""
    parts = tuple(loc)
    return parts[1:] if len(parts) > 1 and parts[0] in ("body", "query", "path") else parts


def _http_problem(app: FastAPI, request: Request, error: HTTPException) -> JSONResponse:
    path, request_id, status = request.url.path, request.state.request_id, error.status_code
    if status == 400:  # FastAPI could not read the body
        fault = Fault(("body",), "must be JSON; it may be nested too deeply")
        return reply_to(InvalidRequest("the body must be JSON", [fault]), path, request_id)
    detail = _nothing_at(request) if status == 404 else str(error.detail)
    headers: dict[str, str] = {}
    if status == 405:
        headers = {"Allow": _allowed_methods(app, request)}
        detail = f"{request.method} is not for this path, {headers['Allow']} is"
    code = HTTP_CODES.get(status, "http-error")
    reply = _in_another_form(path, status, code, detail, headers)
    return reply or make_problem(status, code, detail, request_id, headers=headers)


def _allowed_methods(app: FastAPI, request: Request) -> str:
    """Ask all routes which methods they take on this path; each alone would name only its own."""

    def taken(method: str) -> bool:
        scope = {**request.scope, "method": method}
        return any(route.matches(scope)[0] == Match.FULL for route in app.routes)

    return ", ".join(filter(taken, _METHODS))
