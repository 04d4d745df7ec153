"""Who may do what, and how often: API keys with roles, and a limit on requests. Pure ASGI: the hot path passes it."""

import hmac
from hashlib import sha256
from ipaddress import IPv6Network
from math import ceil

from starlette.types import ASGIApp, Receive, Scope, Send

from app.http.problems import reply_to
from app.http.rate_limit import RateLimiter
from app.settings import Role
from models.errors import Forbidden, ParsimonyError, TooManyRequests, Unauthorized

_GUARDED = ("/v1/", "/v2")
_UNLIMITED = "/health/"
"""What load balancers ask: a limit that others use up must not take a server out of service."""
_BUILDERS = ("/v1/datasets", "/v1/drafts", "/v1/builds", "/v1/advice", "/v1/artifacts", "/v1/endpoints")
"""Where whatever changes something needs the role ``build``."""
_OF_ALL = "/v1/batches"
"""Where nothing does: who may run items may run files of them, and stop that."""


class ApiKeyAuth:
    """Lets a request through if its key has the role it needs; without keys, lets everybody through.

    roles: the role of each key, by the key's SHA-256. rate: requests a second for each key, or for each address of
    those who send none that is known; None: no limit.
    """

    def __init__(self, app: ASGIApp, roles: dict[bytes, Role], rate: float | None = None) -> None:
        self.app, self.roles = app, roles
        self._buckets = None if rate is None else RateLimiter(rate)
        self._guards = bool(roles) or rate is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._guards and scope["type"] == "http" and not scope["path"].startswith(_UNLIMITED):
            error = self._refusal(scope)
            if error is not None:
                response = reply_to(error, scope["path"], scope["state"]["request_id"])
                if isinstance(error, TooManyRequests):
                    response.headers["retry-after"] = str(ceil(error.wait_s))
                    scope["state"]["route"] = "limited"  # as the metrics are to call it
                await response(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _refusal(self, scope: Scope) -> ParsimonyError | None:
        digest, role = self._caller(scope) if self.roles else (b"", None)
        if role is not None:
            scope["state"]["key"] = digest[:4].hex()
        if self._buckets is not None:
            wait = self._buckets.take(digest if role else address_of(scope))
            if wait:
                return TooManyRequests(f"the next request may come in {wait:.3g} s (PARSIMONY_RATE_LIMIT)", wait)
        if not self.roles or not scope["path"].startswith(_GUARDED):
            return None
        if role is None:
            return Unauthorized("send a known key as 'Authorization: Bearer <key>'")
        deletes = scope["method"] == "DELETE" and not scope["path"].startswith(_OF_ALL)
        changes = deletes or (scope["method"] not in ("GET", "HEAD", "OPTIONS") and scope["path"].startswith(_BUILDERS))
        if changes and role != "build":
            return Forbidden(f"this needs a key with the role build, the key sent has the role {role}")
        return None

    def _caller(self, scope: Scope) -> tuple[bytes, Role | None]:
        """Give the SHA-256 of the key sent, and its role; every known key is compared in constant time."""
        sent = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, key = sent.partition(b" ")
        digest = sha256(key.strip()).digest()
        granted: Role | None = None
        for known, role in self.roles.items():
            if hmac.compare_digest(known, digest) and scheme.lower() == b"bearer":
                granted = role
        return digest, granted


def client_of(scope: Scope) -> str:
    """Identify who sent a request: by the known key, or by the address."""
    return str(scope["state"].get("key") or address_of(scope))


def address_of(scope: Scope) -> str:
    """Give the caller's address; of IPv6 the network of 64 bits, all of which one caller has.

    >>> [address_of({"client": client}) for client in (("192.0.2.1", 80), ("2001:db8::1:2", 80), None)]
    ['192.0.2.1', '2001:db8::/64', '']
    """
    address = scope["client"][0] if scope["client"] else ""
    try:
        return str(IPv6Network((address.partition("%")[0], 64), strict=False)) if ":" in address else address
    except ValueError:  # a proxy's own way of writing one
        return str(address)
