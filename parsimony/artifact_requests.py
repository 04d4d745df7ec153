"""Requests of artifacts: their decisions and records."""

from collections.abc import Mapping
from typing import Any

from parsimony.errors import InvalidRequest, NotFound
from parsimony.functions import to_plain
from parsimony.transport import Request
from parsimony.uploads import make_path

PLURALS = {
    "cascade": "cascades",
    "index": "indexes",
    "pipeline": "pipelines",
    "policy": "policies",
    "portfolio": "portfolios",
}
MAX_PAGE = 1000


def plural_of(kind: str) -> str:
    """Return the name of a kind in paths; raises InvalidRequest."""
    if kind not in PLURALS:
        raise InvalidRequest(f"kind must be one of {', '.join(PLURALS)}, got {kind!r}", code="invalid-request")
    return PLURALS[kind]


def request_records(kind: str, name: str, version: int | None) -> Request:
    """Return the request of the record of the active version, or for ``find_version`` of those of all versions."""
    if version is None:
        return Request("GET", make_path("artifacts", kind, name), True, {})
    return Request("GET", make_path("artifacts", kind, name, "versions"), True, {"params": {"limit": MAX_PAGE}})


def find_version(reply: Any, version: int | None) -> Any:
    """Return the record of a version from the reply to ``request_records``; raises NotFound."""
    if version is None:
        return reply
    found = [one for one in reply["items"] if one["version"] == version]
    if not found:
        raise NotFound(f"version {version} not found", code="unknown-version", status=404)
    return found[0]


def request_decision(kind: str, name: str, version: int | None, query: Mapping[str, Any]) -> Request:
    """Return the request of a decision. POST, which takes every field of a query, changes nothing."""
    path = make_path(plural_of(kind), name, "decision")
    return Request(
        "POST", path, True, {"json": to_json_values(query), "params": drop_none_values({"version": version})}
    )


def request_shared_decision(
    kind: str, name: str, version: int | None, query: Mapping[str, Any], tag: str = ""
) -> Request:
    """Return the request of a decision that is the same for all items: by GET, and only if its ETag is not ``tag``."""
    if any(isinstance(value, Mapping) for value in query.values()):
        return request_decision(kind, name, version, query)
    path, headers = make_path(plural_of(kind), name, "decision"), {"If-None-Match": tag} if tag else {}
    params = drop_none_values({**to_json_values(query), "version": version})
    return Request("GET", path, True, {"params": params, "headers": headers})


def changes_versions(request: Request) -> bool:
    """Return whether a request may change which version of an artifact decides."""
    return request.method != "GET" and request.path.startswith(make_path("artifacts"))


def drop_none_values(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that are not None."""
    return {name: value for name, value in params.items() if value is not None}


def to_json_values(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields as JSON has them."""
    return {name: to_plain(value) for name, value in fields.items()}
