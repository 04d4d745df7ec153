"""Plain requests to run something take a short way past FastAPI, which looks at each route, parameter and dependency.

``PlainPosts`` is a layer before it, beside ``HotPath``. Whatever is not plain (a query string, another type, a body
that does not fit, an unknown name) goes on to the route, so that every refusal is the route's. What is read is checked
by the same model, and errors have the same replies.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from fastapi import Request, Response
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.hot_path import again, is_plain_json
from app.http.json_bodies import has_each_name_once, repeated_name
from app.http.problems import reply_to
from models.errors import ParsimonyError

M = TypeVar("M", bound=BaseModel)
LONG_BYTES = 2**14
"""A body that takes about a third of a millisecond to read."""


@dataclass(frozen=True, slots=True)
class PlainPost:
    """A route: ``{prefix}{name}{suffix}``, or ``prefix`` alone where there is no suffix. kind: what its body is.
    answer: gives the reply to a request, a body and a name; None, before anything was done, hands it to the route."""

    prefix: str
    kind: type[BaseModel]
    answer: Callable[[Request, Any, str], Awaitable[Response | None]]
    suffix: str = ""

    @property
    def path(self) -> str:
        """The route's template."""
        return f"{self.prefix}{{name}}{self.suffix}" if self.suffix else self.prefix


class PlainPosts:
    """Answers plain POST requests to the declared routes, and passes everything else on."""

    def __init__(self, app: ASGIApp, declared: Iterable[PlainPost]) -> None:
        self.app = app
        self._declared = {(each.prefix, each.suffix): each for each in declared}
        self._reading = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._find(scope)
        if endpoint is None:
            await self.app(scope, receive, send)
            return
        post, name = endpoint
        request = Request(scope, receive, send)
        try:
            body = await request.body()
            read = await self._read(body, post.kind)
            reply = None if read is None else await _answer(post, request, read, name)
        except ClientDisconnect:
            await self.app(scope, _gone, send)  # which has a reply for who is gone
            return
        if reply is None:
            await self.app(scope, again(body, receive), send)
            return
        scope["state"]["route"] = post.path
        await reply(scope, receive, send)

    async def _read(self, body: bytes, kind: type[M]) -> M | None:
        """Read a plain body, None for any other; long ones one at a time, with look-ups in between."""
        if len(body) < LONG_BYTES:
            return _read(body, kind)
        async with self._reading:
            await asyncio.sleep(0)
            return _read(body, kind)

    def _find(self, scope: Scope) -> tuple[PlainPost, str] | None:
        if scope["type"] != "http" or scope["method"] != "POST" or not is_plain_json(scope):
            return None
        path = scope["path"]
        start, end = path.find("/", 4) + 1, path.rfind("/")
        post, name = self._declared.get((path, "")), ""
        if post is None and start <= end:
            post, name = self._declared.get((path[:start], path[end:])), path[start:end]
        return None if post is None else (post, name)


async def _answer(post: PlainPost, request: Request, read: BaseModel, name: str) -> Response | None:
    """Give the reply to a plain body, be it a refusal."""
    try:
        return await post.answer(request, read, name)
    except ParsimonyError as error:
        return reply_to(error, request.scope["path"], request.scope["state"]["request_id"])


def _read(body: bytes, kind: type[M]) -> M | None:
    """Read a plain body; None for any other."""
    try:
        content = json.loads(body)  # which keeps whole numbers of any length, as FastAPI's reader does
        read = kind.model_validate(content)
    except (ValueError, RecursionError, ValidationError):
        return None
    if not has_each_name_once(content, body) and repeated_name(body) is not None:
        return None
    return read


async def _gone() -> Message:
    return {"type": "http.disconnect"}
