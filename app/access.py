"""Who may do what: API keys with roles, and a limit on bodies. Both are pure ASGI, so that the hot path passes them."""

import hmac
from hashlib import sha256

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.problems import problem_of
from app.settings import Role
from models.errors import Forbidden, ParsimonyError, PayloadTooLarge, Unauthorized, UnsupportedMediaType

_GUARDED = "/v1/"
_BUILDERS = ("/v1/datasets", "/v1/builds", "/v1/artifacts")
"""Where whatever changes something needs the role ``build``."""


class Access:
    """Lets a request through if its key has the role it needs; without keys, lets everybody through."""

    def __init__(self, app: ASGIApp, roles: dict[bytes, Role]) -> None:
        self.app, self.roles = app, roles

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.roles and scope["type"] == "http" and scope["path"].startswith(_GUARDED):
            error = self._refusal(scope)
            if error is not None:
                await problem_of(error, scope["state"]["request_id"])(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _refusal(self, scope: Scope) -> ParsimonyError | None:
        role = self._role(scope)
        if role is None:
            return Unauthorized("send a known key as 'Authorization: Bearer <key>'")
        changes = scope["method"] == "DELETE" or (
            scope["method"] not in ("GET", "HEAD", "OPTIONS") and scope["path"].startswith(_BUILDERS)
        )
        if changes and role != "build":
            return Forbidden(f"this needs a key with the role build, the key sent has the role {role}")
        return None

    def _role(self, scope: Scope) -> Role | None:
        """Find the key's role; every known key is compared in constant time."""
        sent = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, key = sent.partition(b" ")
        digest = sha256(key.strip()).digest()
        found: Role | None = None
        for known, role in self.roles.items():
            if hmac.compare_digest(known, digest) and scheme.lower() == b"bearer":
                found = role
        return found


class BodyLimit:
    """Refuses a body over the limit: by its declared length at once, else as soon as too much of it was read."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app, self.max_bytes = app, max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        coding = next((v for n, v in scope["headers"] if n == b"content-encoding"), b"identity")
        if coding.strip().lower() not in (b"identity", b""):
            error = UnsupportedMediaType("the body has a Content-Encoding; send it plain, or a table as a gzipped file")
            await problem_of(error, scope["state"]["request_id"])(scope, receive, send)
            return
        declared = next((int(v) for n, v in scope["headers"] if n == b"content-length" and v.isdigit()), 0)
        if declared > self.max_bytes:
            await self._refuse(f"the body has {declared} bytes", scope, receive, send)
            return
        await self._pass_while_small(scope, receive, send)

    async def _pass_while_small(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count what is read; once it is too much, whatever the application replies becomes the refusal."""
        read, started, refused = 0, False, False

        async def counting() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.max_bytes:
                raise PayloadTooLarge(f"the body has more than {self.max_bytes} bytes")
            return message

        async def watching(message: Message) -> None:
            nonlocal started, refused
            if read > self.max_bytes and not started:
                if not refused:
                    refused = True
                    await self._refuse("the body goes on", scope, receive, send)
                return
            started = True
            await send(message)

        try:
            await self.app(scope, counting, watching)
        except PayloadTooLarge:  # raised before FastAPI, which would have made a reply of it
            if started:
                raise
            await self._refuse("the body goes on", scope, receive, send)

    async def _refuse(self, what: str, scope: Scope, receive: Receive, send: Send) -> None:
        error = PayloadTooLarge(f"{what}, the limit is {self.max_bytes} bytes (PARSIMONY_MAX_BODY_BYTES)")
        response = problem_of(error, scope["state"]["request_id"])
        response.headers["connection"] = "close"
        await response(scope, receive, send)
