"""JSON request bodies: the decoder, and batches that routes parse in a thread."""

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
from models.base import MAX_LISTED
from models.columns import find_duplicate_name
from models.errors import UnsupportedMediaType

V = TypeVar("V", bound=Value)
M = TypeVar("M", bound=BaseModel)
PIECE, PIECE_BYTES = 100, 100_000
"""Items of a batch that are checked at a time, and about how many bytes of it."""


def decode_json(body: bytes) -> Any:
    """Decode a JSON text.

    Raises:
        RequestValidationError: invalid JSON, including NaN and infinities, as in FastAPI.
        InvalidRequest: an object has a duplicate key, so that one of the values would be lost.
    """
    if not body:
        raise RequestValidationError([{"type": "missing", "loc": ("body",), "msg": ""}])
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        place = find_lone_surrogate(body) if "surrogate" in error.msg else None
        if place is not None:
            raise InvalidRequest.from_faults(
                Fault(place, "must not have lone surrogates, which are no text")
            ) from error
        fault = {"type": "json_invalid", "loc": ("body", error.pos), "msg": "", "ctx": {"error": error.msg}}
        raise RequestValidationError([fault]) from error
    repeated = None if has_unique_keys(content, body) else find_duplicate_key(body)
    if repeated is not None:
        raise InvalidRequest.from_faults(Fault((repeated,), "is a duplicate name"))
    return content


def find_lone_surrogate(body: bytes) -> tuple[str | int, ...] | None:
    """Return the path of a text with a lone surrogate; None if there is none.

    >>> find_lone_surrogate(b'{"a": ["b", "\\\\ud800"]}')
    ('a', 1)
    """
    try:
        waiting: list[tuple[tuple[str | int, ...], Any]] = [((), json.loads(body))]
    except (ValueError, RecursionError):
        return None
    while waiting:
        place, each = waiting.pop()
        if isinstance(each, str) and _has_surrogate(each):
            return place
        if isinstance(each, dict):
            if any(map(_has_surrogate, each)):
                return place or ("body",)
            waiting += [((*place, name), value) for name, value in each.items()]
        elif isinstance(each, list):
            waiting += [((*place, at), value) for at, value in enumerate(each)]
    return None


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def find_duplicate_key(body: bytes) -> str | None:
    """Return a duplicate key of any object in a JSON text; None if there is none.

    Raises InvalidRequest if the text is nested too deeply.

    >>> find_duplicate_key(b'{"acquired": {"fast": 1, "fast": 2}}'), find_duplicate_key(b'{"a": {"b": 1}, "b": 2}')
    ('fast', None)
    """
    repeated_names: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        repeated = find_duplicate_name(name for name, _ in pairs)
        repeated_names.extend([] if repeated is None else [repeated])

    try:
        json.loads(body, object_pairs_hook=note)
    except RecursionError as error:
        raise InvalidRequest.from_faults(Fault(("body",), "is nested too deeply")) from error
    return repeated_names[0] if repeated_names else None


def has_unique_keys(content: Any, body: bytes) -> bool:
    """Return whether the parsed content proves that no object has a duplicate key.

    Each key is followed by a colon, so the text has at least as many colons as the content has keys. If the numbers
    are equal, no key is duplicate. If there are more colons, a key is duplicate or a text contains a colon.

    >>> has_unique_keys({"a": [{"b": 1}]}, b'{"a": [{"b": 1}]}'), has_unique_keys({"a": 1}, b'{"a": 1, "a": 1}')
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
    """Route whose body is decoded by ``decode_json``; other media types are rejected."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler, which receives the decoded body."""
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle

        async def decode_and_handle(request: Request) -> Response:
            require_media_type(request, JSON)
            body = await request.body()
            content = decode_json(body) if body else None
            try:
                return await handle(_Decoded(request.scope, replay_body(body, request.receive), content))
            except RecursionError as error:
                raise InvalidRequest.from_faults(Fault(("body",), "is nested too deeply")) from error

        return decode_and_handle


class JsonRouter(APIRouter):
    """Router whose routes decode JSON by ``decode_json``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(route_class=JsonRoute, **options)


class _Decoded(Request):
    """A request whose body is already decoded."""

    def __init__(self, scope: Scope, receive: Receive, content: Any) -> None:
        super().__init__(scope, receive)
        self._content = content

    async def json(self) -> Any:
        """Return the decoded body."""
        return self._content


def require_media_type(request: Request, *known: str) -> str:
    """Return the request's media type; raises UnsupportedMediaType for unknown types."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in known:
        raise UnsupportedMediaType(f"Content-Type must be {' or '.join(known)}, got {kind or 'none'}")
    return kind


def negotiate_media_type(request: Request, *known: str) -> str:
    """Return the first supported media type in the Accept header; by default JSON."""
    accepted = [part.partition(";")[0].strip().lower() for part in request.headers.get("accept", "").split(",")]
    return next((one for one in accepted if one in known or one == JSON), JSON)


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a ``receive`` that replays a body that was already read."""
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def validate_body(kind: type[M], content: Any) -> M:
    """Validate parsed content; raises RequestValidationError as FastAPI does."""
    try:
        return kind.model_validate(content, from_attributes=True)
    except ValidationError as error:
        raise RequestValidationError([{**fault, "loc": ("body", *fault["loc"])} for fault in error.errors()]) from error


def find_batch_items(content: Any) -> list[Any]:
    """Return the items of a batch; empty if the content is not a batch."""
    items = content.get("items") if isinstance(content, dict) else None
    return items if isinstance(items, list) else []


def validate_in_chunks(kind: type[V], content: Any, length: int, max_items: float = math.inf) -> V:
    """Validate a batch like ``validate_body``, one chunk of its ``items`` at a time.

    Between chunks, the event loop can answer decisions. Faults outside the items are reported with those of the first
    chunk.

    Args:
        length: size of the JSON text in bytes.
        max_items: maximum number of items.
    """
    items = find_batch_items(content)
    if not 0 < len(items) <= max_items:
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
            if len(faults) + error.error_count() > MAX_LISTED:
                message = f"has more than {MAX_LISTED} faults, too many to list"
                raise RequestValidationError([{"type": "value_error", "loc": ("body",), "msg": message}]) from None
            faults += _placed(error, start)
    if faults:
        raise RequestValidationError(faults)
    batch: V = first.model_copy(update={"items": tuple(whole)})
    return batch


@cache
def _items_of(kind: type[Value]) -> TypeAdapter[tuple[Any, ...]]:
    """Return a validator of a batch's items, as strict as that of the whole batch."""
    strict = ConfigDict(strict=True, allow_inf_nan=False)
    return TypeAdapter(kind.model_fields["items"].rebuild_annotation(), config=strict)


def _placed(error: ValidationError, start: int) -> list[Any]:
    """Return the faults of a chunk, with indices of items in the whole batch."""
    faults = [fault for fault in error.errors() if fault["loc"]]
    return [{**fault, "loc": ("body", "items", int(fault["loc"][0]) + start, *fault["loc"][1:])} for fault in faults]
