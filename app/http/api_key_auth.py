"""API key authentication with roles, and rate limits; ASGI middleware."""

import asyncio
import hmac
from collections.abc import Mapping
from hashlib import sha256
from ipaddress import IPv6Network
from types import MappingProxyType

from starlette.types import ASGIApp, Receive, Scope, Send

from app.http.problem_details import make_error_response
from app.http.rate_limit import RateLimiter
from app.settings import KeyGrant
from models.budget import Payer
from models.errors import Forbidden, ParsimonyError, TooManyRequests, Unauthorized

_GUARDED = ("/v1/", "/v2")
_UNLIMITED = "/health/"
"""Paths of load balancers, without a rate limit: other clients must not take a server out of service."""
_BUILDERS = (
    "/v1/datasets",
    "/v1/drafts",
    "/v1/builds",
    "/v1/advice",
    "/v1/artifacts",
    "/v1/endpoints",
    "/v1/recordings",
    "/v1/uploads",
)
"""Paths where every change requires the role ``build``."""
_LOGGED = ("/rows", "/truths")
"""Paths of recordings to which clients with the role ``decide`` may post."""
_OPERATORS = ("/v1/budgets", "/v1/spend")
"""Paths where even reading requires the role ``build``: they show the spend of every team."""
MAX_WAIT_S = 0.5
"""How long a request may wait for the rate of its team: clients that wait for replies slow down, and get no error."""
_OF_ALL = "/v1/batches"
"""Paths where no operation requires the role ``build``: clients that may run items may run and cancel batches."""


class ApiKeyAuth:
    """Middleware that checks a request's API key, its role, and its rate.

    Without configured keys, all requests are allowed.

    Args:
        grants: role and team of each key, by the key's SHA-256.
        rate: requests per second and key, or per address for requests without a known key; None for no limit.
        team_rates: requests per second of all keys of a team; teams that are missing have no limit. Further requests
            wait up to ``MAX_WAIT_S``, and are refused if that is not enough.
    """

    def __init__(
        self,
        app: ASGIApp,
        grants: dict[bytes, KeyGrant],
        rate: float | None = None,
        team_rates: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.app, self.grants = app, grants
        self._buckets = None if rate is None else RateLimiter(rate)
        self._teams = {team: RateLimiter(most) for team, most in team_rates.items()}
        self._guards = bool(grants) or rate is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._guards and scope["type"] == "http" and not scope["path"].startswith(_UNLIMITED):
            try:
                wait = self._admit_request(scope)
            except ParsimonyError as error:
                response = make_error_response(error, scope["path"], scope["state"]["request_id"])
                if isinstance(error, TooManyRequests):
                    scope["state"]["route"] = "limited"  # as the metrics are to call it
                await response(scope, receive, send)
                return
            if wait:
                await asyncio.sleep(wait)
        await self.app(scope, receive, send)

    def _admit_request(self, scope: Scope) -> float:
        """Return the seconds that a request must wait; raises TooManyRequests, Unauthorized, or Forbidden."""
        digest, grant = self._caller(scope) if self.grants else (b"", None)
        if grant is not None:
            scope["state"]["key"], scope["state"]["team"] = digest[:4].hex(), grant.team
        if self._buckets is not None:
            wait = self._buckets.take_token(digest if grant else client_network(scope))
            if wait:
                raise TooManyRequests(f"rate limit exceeded (PARSIMONY_RATE_LIMIT); retry in {wait:.3g} s", wait)
        wait = self._take_team_token(grant.team) if grant else 0.0
        if self.grants and scope["path"].startswith(_GUARDED):
            _check_role(scope, grant)
        return wait

    def _take_team_token(self, team: str) -> float:
        if team not in self._teams:
            return 0.0
        wait = self._teams[team].take_token(team, MAX_WAIT_S)
        if wait > MAX_WAIT_S:
            reason = f"rate limit of team {team!r} exceeded (PARSIMONY_TEAM_QUOTAS)"
            raise TooManyRequests(f"{reason}; retry in {wait:.3g} s", wait)
        return wait

    def _caller(self, scope: Scope) -> tuple[bytes, KeyGrant | None]:
        """Return the SHA-256 of the request's key, and its grant.

        All known keys are compared in constant time.
        """
        digest = sha256(_sent_key(scope)).digest()
        granted: KeyGrant | None = None
        for known, grant in self.grants.items():
            if hmac.compare_digest(known, digest):
                granted = grant
        return digest, granted


def _check_role(scope: Scope, grant: KeyGrant | None) -> None:
    """Raise Unauthorized without a known key, and Forbidden if its role does not allow the operation."""
    if grant is None:
        raise Unauthorized("API key missing or unknown; send 'Authorization: Bearer <key>' or 'X-API-Key: <key>'")
    deletes = scope["method"] == "DELETE" and not scope["path"].startswith(_OF_ALL)
    changes = deletes or (scope["method"] not in ("GET", "HEAD", "OPTIONS") and scope["path"].startswith(_BUILDERS))
    if scope["method"] == "POST" and scope["path"].startswith("/v1/recordings/"):
        changes = not scope["path"].endswith(_LOGGED)
    if (changes or scope["path"].startswith(_OPERATORS)) and grant.role != "build":
        raise Forbidden(f"role must be build for this operation, got {grant.role}")


def _sent_key(scope: Scope) -> bytes:
    """Return the request's bearer token, else its ``X-API-Key``, else nothing.

    >>> [_sent_key({"headers": [each]}) for each in ((b"authorization", b"Bearer k"), (b"x-api-key", b"k"))]
    [b'k', b'k']
    """
    sent = dict(reversed(scope["headers"]))
    scheme, _, token = sent.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer":
        return bytes(token.strip())
    return b"" if scheme else bytes(sent.get(b"x-api-key", b"").strip())


def identify_client(scope: Scope) -> str:
    """Return the identity of a request's sender: the known key, else the address."""
    return str(scope["state"].get("key") or client_network(scope))


def identify_payer(scope: Scope) -> Payer:
    """Return the payer of a request: its known key, and the key's team."""
    return Payer(scope["state"].get("key", ""), scope["state"].get("team", ""))


def client_network(scope: Scope) -> str:
    """Return the client's address; for IPv6, its /64 network.

    >>> [client_network({"client": client}) for client in (("192.0.2.1", 80), ("2001:db8::1:2", 80), None)]
    ['192.0.2.1', '2001:db8::/64', '']
    """
    address = scope["client"][0] if scope["client"] else ""
    try:
        return str(IPv6Network((address.partition("%")[0], 64), strict=False)) if ":" in address else address
    except ValueError:  # a proxy's own way of writing one
        return str(address)
