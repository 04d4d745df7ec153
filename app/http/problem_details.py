"""Error replies (RFC 9457): HTTP status and code of each exception class."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict
from math import ceil
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Match

from app.http.protocol_errors import OPENAI_INVALID, ErrorFacts, ProblemBudget, format_protocol_error
from models import errors
from models.errors import (
    BudgetSpent,
    ConflictingLimit,
    ConflictingLimits,
    EndpointsBusy,
    Fault,
    InvalidRequest,
    NotFound,
    ParsimonyError,
    ProviderRefused,
    SmallOverlap,
    SpentBound,
    TooManyRequests,
)
from models.overlap import Overlap

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
    errors.UnknownBudget: (404, "unknown-budget"),
    errors.UnknownRollout: (404, "unknown-rollout"),
    errors.UnknownRecording: (404, "unknown-recording"),
    errors.UnknownUpload: (404, "unknown-upload"),
    errors.Infeasible: (409, "infeasible"),
    errors.SmallOverlap: (409, "small-overlap"),
    errors.Conflict: (409, "conflict"),
    errors.PreconditionFailed: (412, "precondition-failed"),
    errors.PayloadTooLarge: (413, "payload-too-large"),
    errors.UnsupportedMediaType: (415, "unsupported-media-type"),
    errors.Unauthorized: (401, "unauthorized"),
    errors.Forbidden: (403, "forbidden"),
    errors.QuotaExceeded: (409, "quota-exceeded"),
    errors.TooManyBuilds: (429, "too-many-builds"),
    errors.TooManyRequests: (429, "too-many-requests"),
    errors.BudgetSpent: (402, "budget-spent"),
    errors.RequestTimeout: (408, "request-timeout"),
    errors.StoreUnavailable: (503, "store-unavailable"),
    errors.StoreRefused: (503, "store-unavailable"),
    errors.SolverTimeout: (504, "solver-timeout"),
    errors.EndpointFailed: (502, "endpoint-failed"),
    errors.EndpointsBusy: (429, "endpoints-busy"),
    errors.ProviderRefused: (400, "provider-refused"),
    errors.RunTimeout: (504, "run-timeout"),
}
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
    """An invalid field of the request."""

    loc: list[str | int] = Field(description="path of the invalid field")
    msg: str = Field(description="the reason, with the bound and the value")


class ProblemLimit(BaseModel):
    """A limit that conflicts with other limits."""

    limit: str = Field(description="path of the limit in the request", examples=["classifiers.large.at_most"])
    bound: float = Field(description="value of the limit; for floors a share, from 0 to 1", examples=[100.0])
    most: bool = Field(description="true: an upper bound; false: a lower bound", examples=[True])
    give: float | None = Field(
        description="amount by which the limit must be relaxed if the others stay; null: time ran out",
        examples=[12.0],
    )


class ProblemOverlap(BaseModel):
    """The support that logged rows give to the evaluation of a version."""

    rows: int = Field(description="number of rows", examples=[2000])
    supported_rows: int = Field(description="rows in which all calls of the version were logged", examples=[160])
    effective_rows: float = Field(
        description="effective sample size of these rows, weighted by inverse propensities", examples=[24.5]
    )
    covered: float = Field(
        description="share of the rows that the weighted rows represent; about 1 if calls like those of the version "
        "were logged for all types of items",
        examples=[0.62],
    )


class Problem(BaseModel):
    """An error reply (RFC 9457)."""

    type: str = Field(description="urn:parsimony:<code>", examples=["urn:parsimony:infeasible"])
    title: str = Field(description="short description of the code", examples=["infeasible"])
    status: int = Field(description="the HTTP status", examples=[409])
    detail: str = Field(
        description="the reason in a sentence, with bounds and values",
        examples=["the fastest cascade takes at most 3.0, the deadline is 2.0"],
    )
    instance: str = Field(description="id of the request, as in the log")
    errors: list[ProblemFault] | None = Field(default=None, description="the invalid fields, for invalid input")
    conflict: list[ProblemLimit] | None = Field(
        default=None,
        description="a minimal set of conflicting limits of an assignment",
    )
    budget: ProblemBudget | None = Field(default=None, description="the budget that refuses the item")
    overlap: ProblemOverlap | None = Field(
        default=None, description="how far logged rows support a version that cannot be evaluated on them"
    )


def make_problem(
    status: int,
    code: str,
    detail: str,
    request_id: str,
    faults: Iterable[Fault] = (),
    headers: dict[str, str] | None = None,
    conflict: Iterable[ConflictingLimit] = (),
    bound: SpentBound | None = None,
    overlap: Overlap | None = None,
) -> JSONResponse:
    """Return an error reply."""
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
    if bound is not None:
        body["budget"] = asdict(bound)
    if overlap is not None:
        body["overlap"] = {name: getattr(overlap, name) for name in ProblemOverlap.model_fields}
    return JSONResponse(body, status, _headers(status) | (headers or {}), MEDIA_TYPE)


def _headers(status: int) -> dict[str, str]:
    """Return the headers of an error reply, such as when to retry."""
    if status in (429, 503):
        return {"Retry-After": str(RETRY_AFTER_S)}
    return {"WWW-Authenticate": "Bearer"} if status == 401 else {}


def make_error_problem(error: ParsimonyError, request_id: str) -> JSONResponse:
    """Return the error reply of an exception, by its nearest class in ``PROBLEMS``."""
    status, code = _problem_of_kind(error)
    faults = error.faults if isinstance(error, InvalidRequest) else ()
    conflict = error.conflict if isinstance(error, ConflictingLimits) else ()
    bound = error.bound if isinstance(error, BudgetSpent) else None
    overlap = error.overlap if isinstance(error, SmallOverlap) else None
    return make_problem(status, code, str(error), request_id, faults, _headers_of(error), conflict, bound, overlap)


def _headers_of(error: ParsimonyError) -> dict[str, str]:
    """Return headers that depend on the exception, such as its waiting time."""
    return {"Retry-After": str(ceil(error.wait_s))} if isinstance(error, EndpointsBusy | TooManyRequests) else {}


def http_status_of(error: ParsimonyError) -> int:
    """Return the HTTP status of an exception."""
    return _problem_of_kind(error)[0]


def _problem_of_kind(error: ParsimonyError) -> tuple[int, str]:
    """Return the status and code of the nearest class in ``PROBLEMS``.

    A provider's error keeps the provider's status.
    """
    status, code = next(PROBLEMS[kind] for kind in type(error).__mro__ if kind in PROBLEMS)
    return error.reply.status if isinstance(error, ProviderRefused) else status, code


def make_error_response(error: ParsimonyError, path: str, request_id: str) -> JSONResponse:
    """Return the error reply in the format of the requested API.

    The formats are OpenAI's, Anthropic's, the Open Inference Protocol's, and RFC 9457.
    """
    reply = _in_another_form(path, _facts_of(error), request_id, _headers_of(error))
    return reply or make_error_problem(error, request_id)


def protocol_error_body(error: ParsimonyError, path: str, request_id: str) -> Any:
    """Return the body of an error in another API's format, for a stream that has begun."""
    written = format_protocol_error(path, _facts_of(error), request_id)
    assert written is not None
    return written[1]


def _facts_of(error: ParsimonyError) -> ErrorFacts:
    """Return the fields of an error reply; a provider's own fields are kept."""
    status, code = _problem_of_kind(error)
    if isinstance(error, InvalidRequest):
        where = ".".join(map(str, error.faults[0].loc)) if error.faults else ""
        return ErrorFacts(status, code, str(error), OPENAI_INVALID, where or None, is_invalid=status == 422)
    if isinstance(error, ProviderRefused):
        reply = error.reply
        return ErrorFacts(status, reply.code or code, str(error), reply.type or OPENAI_INVALID, reply.param)
    if isinstance(error, BudgetSpent) and error.bound is not None:
        return ErrorFacts(status, code, str(error), budget=asdict(error.bound))
    return ErrorFacts(status, code, str(error))


def _in_another_form(
    path: str, error: ErrorFacts, request_id: str, headers: dict[str, str] | None = None
) -> JSONResponse | None:
    """Return the error reply in the format of the path's API; None for Parsimony's own API."""
    written = format_protocol_error(path, error, request_id)
    if written is None:
        return None
    status, body = written
    return JSONResponse(body, status, _headers(status) | (headers or {}))


def internal_problem(path: str, request_id: str) -> JSONResponse:
    """Return the error reply of a bug: the request id, but no traceback."""
    detail = f"an internal error; the log has it under the request's id {request_id}"
    reply = _in_another_form(path, ErrorFacts(500, "internal", detail), request_id)
    return reply or make_problem(500, "internal", detail, request_id)


def add_error_handlers(app: FastAPI, page: Callable[[str], Response]) -> None:
    """Register handlers that convert exceptions to error replies.

    Args:
        page: returns the "not found" page for browsers.
    """

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, ParsimonyError)
        if isinstance(error, NotFound) and _for_people(request):
            return page(str(error))
        return make_error_response(error, request.url.path, request.state.request_id)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        if _for_people(request) and all(fault["loc"][0] == "path" for fault in error.errors()):
            return page(_nothing_at(request))
        faults = [_placed(fault) for fault in error.errors()]
        return make_error_response(InvalidRequest.from_validation(faults), request.url.path, request.state.request_id)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 404 and _for_people(request):
            return page(_nothing_at(request))
        return _http_problem(app, request, error)

    async def left(request: Request, error: Exception) -> JSONResponse:
        return _http_problem(app, request, HTTPException(400))  # never sent: the client disconnected

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
    """Return the message for an unknown path.

    It lists the operations of the artifact kind that the path names.
    """
    message, parts = f"not found: {request.url.path}", request.url.path.split("/")
    operations = request.app.state.operations.get(parts[2]) if len(parts) > 3 and parts[1] == "v1" else None
    return f"{message}; {parts[2]} have {', '.join(operations)}" if operations else message


def _placed(fault: dict[str, Any]) -> dict[str, Any]:
    """Return a fault with its location in the request.

    For invalid JSON, the message has the position of the character.
    """
    if fault["type"] == "json_invalid":
        reason = f"{fault.get('ctx', {}).get('error', 'unreadable')} at character {fault['loc'][-1]}"
        return {**fault, "loc": ("body",), "ctx": {"error": reason}}
    return {**fault, "loc": _location(fault["loc"])}


def _location(loc: Iterable[str | int]) -> tuple[str | int, ...]:
    """Return a location without FastAPI's prefix, such as ``body``."""
    parts = tuple(loc)
    return parts[1:] if len(parts) > 1 and parts[0] in ("body", "query", "path") else parts


def _http_problem(app: FastAPI, request: Request, error: HTTPException) -> JSONResponse:
    path, request_id, status = request.url.path, request.state.request_id, error.status_code
    if status == 400:  # FastAPI could not read the body
        fault = Fault(("body",), "must be JSON; it may be nested too deeply")
        return make_error_response(InvalidRequest("the body must be JSON", [fault]), path, request_id)
    detail = _nothing_at(request) if status == 404 else str(error.detail)
    headers: dict[str, str] = {}
    if status == 405:
        headers = {"Allow": _allowed_methods(app, request)}
        detail = f"{request.method} is not for this path, {headers['Allow']} is"
    code = HTTP_CODES.get(status, "http-error")
    reply = _in_another_form(path, ErrorFacts(status, code, detail), request_id, headers)
    return reply or make_problem(status, code, detail, request_id, headers=headers)


def _allowed_methods(app: FastAPI, request: Request) -> str:
    """Return the methods that any route supports on this path."""

    def taken(method: str) -> bool:
        scope = {**request.scope, "method": method}
        return any(route.matches(scope)[0] == Match.FULL for route in app.routes)

    return ", ".join(filter(taken, _METHODS))
