"""JSON bodies: the one decoder, and batches that routes read themselves, off the event loop."""

import json
import math
from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any, TypeVar

import orjson
from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from starlette.types import Message, Receive, Scope

from app.store.table_types import JSON
from models import Fault, InvalidRequest, Value
from models.base import MOST_LISTED
from models.columns import first_repeated
from models.errors import UnsupportedMediaType

V = TypeVar("V", bound=Value)
M = TypeVar("M", bound=BaseModel)
PIECE, PIECE_BYTES = 100, 100_000
"""Items of a batch that are checked at a time, and about how many bytes of it."""


def decode_json(body: bytes) -> Any:
    """Decode a JSON text.

    Raises RequestValidationError for invalid JSON, as FastAPI does (NaN and infinities are invalid), and InvalidRequest
    for a duplicate key in an object: one of the values would be lost.
    """
    if not body:
        raise RequestValidationError([{"type": "missing", "loc": ("body",), "msg": ""}])
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        fault = {"type": "json_invalid", "loc": ("body", error.pos), "msg": "", "ctx": {"error": error.msg}}
        raise RequestValidationError([fault]) from error
    repeated = None if has_each_name_once(content, body) else repeated_name(body)
    if repeated is not None:
        raise InvalidRequest.from_faults(Fault((repeated,), "is given twice"))
    return content


def repeated_name(body: bytes) -> str | None:
    """Return a duplicate key of an object in a JSON text, or None. Raises InvalidRequest if it is nested too deeply.

    >>> repeated_name(b'{"acquired": {"fast": 1, "fast": 2}}'), repeated_name(b'{"a": {"b": 1}, "b": 2}')
    ('fast', None)
    """
    repeated_names: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        repeated = first_repeated(name for name, _ in pairs)
        repeated_names.extend([] if repeated is None else [repeated])

    try:
        json.loads(body, object_pairs_hook=note)
    except RecursionError as error:
        raise InvalidRequest.from_faults(Fault(("body",), "is nested too deeply")) from error
    return repeated_names[0] if repeated_names else None


def has_each_name_once(content: Any, body: bytes) -> bool:
    """Return whether the parsed content proves that no object of the JSON text has a duplicate key.

    Every key is followed by a colon, so there are at least as many colons as keys; of duplicate keys one is
    missing in the content. As many keys as colons: none is missing. Fewer: one is missing, or a text has a colon.

    >>> has_each_name_once({"a": [{"b": 1}]}, b'{"a": [{"b": 1}]}'), has_each_name_once({"a": 1}, b'{"a": 1, "a": 1}')
    (True, False)
    """
    waiting: list[Any] = [[content]]
    missing = body.count(b":")
    while waiting and missing:
        each = waiting.pop()
        if isinstance(each, dict):
            missing -= len(each)
            each = each.values()
        waiting += [one for one in each if isinstance(one, dict | list)]
    return not missing


class JsonRoute(APIRoute):
    """A route whose JSON body is decoded by ``decode_json``; a body of another type is refused."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of FastAPI, which takes the decoded body."""
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle

        async def decode_and_handle(request: Request) -> Response:
            refuse_other_types(request, JSON)
            body = await request.body()
            content = decode_json(body) if body else None
            try:
                return await handle(_Decoded(request.scope, replay_body(body, request.receive), content))
            except RecursionError as error:
                raise InvalidRequest.from_faults(Fault(("body",), "is nested too deeply")) from error

        return decode_and_handle


class JsonRouter(APIRouter):
    """A router whose routes decode JSON by ``decode_json``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(route_class=JsonRoute, **options)


class _Decoded(Request):
    """A request whose body was decoded already."""

    def __init__(self, scope: Scope, receive: Receive, content: Any) -> None:
        super().__init__(scope, receive)
        self._content = content

    async def json(self) -> Any:
        """Return the decoded body."""
        return self._content


def refuse_other_types(request: Request, *known: str) -> str:
    """Return which of the known types the body declares; raises UnsupportedMediaType for any other."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in known:
        raise UnsupportedMediaType(f"the body is {kind or 'of no stated type'}, must be {' or '.join(known)}")
    return kind


def accepted_type(request: Request, *known: str) -> str:
    """Return the first media type of the Accept header that is JSON or among the known types; JSON if none is."""
    accepted = [part.partition(";")[0].strip().lower() for part in request.headers.get("accept", "").split(",")]
    return next((one for one in accepted if one in known or one == JSON), JSON)


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Let a body that was read be read once more."""
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def validate_body(kind: type[M], content: Any) -> M:
    """Check what was read against a type; what does not fit is refused as FastAPI refuses it."""
    try:
        return kind.model_validate(content, from_attributes=True)
    except ValidationError as error:
        raise RequestValidationError([{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors()]) from error


def items_in(content: Any) -> list[Any]:
    """Return the items of a batch; empty if the content is not a batch."""
    items = content.get("items") if isinstance(content, dict) else None
    return items if isinstance(items, list) else []


def in_pieces(kind: type[V], content: Any, length: int, most: float = math.inf) -> V:
    """Check a batch as ``validated`` does, its ``items`` a piece at a time, so that look-ups get their turn in between.

    length: bytes that it was read from. most: items that the type allows. Faults outside the items are reported with
    what is wrong in the first piece of them.
    """
    items = items_in(content)
    if not 0 < len(items) <= most:
        return validate_body(kind, content)
    step = max(1, min(PIECE, PIECE_BYTES * len(items) // length))
    whole, faults = list[Any](), list[Any]()
    first: Any = None
    try:
        first = validate_body(kind, {**content, "items": items[:step]})
        whole += first.items
    except RequestValidationError as error:
        faults += error.errors()
        if any(fault["loc"][:2] != ("body", "items") for fault in faults):
            raise
    for start in range(step, len(items), step):
        try:
            whole += _items_of(kind).validate_python(items[start : start + step], from_attributes=True)
        except ValidationError as error:
            if len(faults) + error.error_count() > MOST_LISTED:
                message = f"has more than {MOST_LISTED} faults, too many to list"
                raise RequestValidationError([{"type": "value_error", "loc": ("body",), "msg": message}]) from None
            faults += _placed(error, start)
    if faults:
        raise RequestValidationError(faults)
    batch: V = first.model_copy(update={"items": tuple(whole)})
    return batch


@cache
def _items_of(kind: type[Value]) -> TypeAdapter[tuple[Any, ...]]:
    """Make the check of a batch's items alone, as strict as the batch's own."""
    strict = ConfigDict(strict=True, allow_inf_nan=False)
    return TypeAdapter(kind.model_fields["items"].rebuild_annotation(), config=strict)


def _placed(error: ValidationError, start: int) -> list[Any]:
    """Give each fault of a piece its item's place in the whole batch; the piece itself has none that is not theirs."""
    faults = [fault for fault in error.errors() if fault["loc"]]
    return [{**fault, "loc": ("body", "items", int(fault["loc"][0]) + start, *fault["loc"][1:])} for fault in faults]
