"""The client's methods are held against the OpenAPI document, and both clients against each other."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

from app.main import create_api
from app.observability.metrics import Metrics
from app.routes.kinds import make_kind_routes
from app.settings import Settings
from parsimony import AsyncParsimony, Parsimony
from parsimony.routes import PLURALS, Routes, request_decision
from parsimony.transport import Request
from solvers import KINDS

LEFT_OUT = re.compile(
    r"/health|/metrics|/v2|/v1/(models|chat|messages|responses|embeddings|completions)|.*/events$|GET .*/decision$"
)
"""Operations of other clients' APIs; events of builds, which ``build`` waits for; and decisions by GET."""


class Frame:
    """A frame with the method of polars that uploads need."""

    def write_csv(self) -> str:
        return ""


VALUES: dict[str, Any] = {
    "name": "n",
    "recording": "n",
    "dataset": "n",
    "build": "n",
    "batch": "n",
    "version": 1,
    "before": 1,
    "after": 2,
    "size": 4,
    "on": "n",
    "items": [{}],
    "table": Frame(),
    "spec": {},
    "log": b"",
    "data": b"",
    "method": "GET",
    "path": "/v1/builds",
}
READ = {
    "cascade": ["steps.classifier", "steps.confidence_threshold", "steps.execution_time", "steps.worst_case_time"],
    "portfolio": ["classifier", "cost"],
    "policy": ["action", "sensor", "together", "cost", "probabilities", "label", "answer", "quality"],
    "pipeline": ["step.action", "step.features", "step.cost", "step.label", "step.confidence"],
    "index": ["features", "cost"],
}
"""Fields of decisions that runs of the client read."""


class Recorded(Routes):
    def __init__(self) -> None:
        self.requests: list[Request] = []

    def _send(self, request: Request) -> Any:
        self.requests.append(request)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    kinds = [make_kind_routes(kind) for kind in KINDS.values()]
    found: dict[str, Any] = create_api(Settings(), Metrics(), kinds).openapi()
    return found


def all_requests() -> Iterator[tuple[str, Request]]:
    methods = [one for one in vars(Routes).items() if not one[0].startswith("_")]
    for kind in PLURALS:
        for name, method in methods:
            client, parameters = Recorded(), list(inspect.signature(method).parameters.values())[1:]
            needed = [one for one in parameters if one.default is one.empty and one.kind != one.VAR_KEYWORD]
            given = {one.name: kind if one.name == "kind" else VALUES.get(one.name) for one in needed}
            given = {key: value for key, value in given.items() if key not in ("outcomes", "rows", "truths")}
            method(client, **given)
            yield from ((name, request) for request in client.requests)
        yield "decide", request_decision(kind, "n", None, {})


def match(document: dict[str, Any], request: Request) -> str | None:
    """Return the operation of a request, as in the document."""
    for path, operations in document["paths"].items():
        pattern = re.sub(r"\{\w+\}", "[^/]+", path)
        if re.fullmatch(pattern, request.path) and request.method.lower() in operations:
            known = {one["name"] for one in operations[request.method.lower()].get("parameters", [])}
            assert set(request.content.get("params", {})) <= known, (path, request.content["params"])
            return f"{request.method} {path}"
    return None


def test_every_operation_has_a_method_and_every_method_an_operation(document: dict[str, Any]) -> None:
    called: set[str] = set()
    for name, request in all_requests():
        operation = match(document, request)
        assert operation is not None, (name, request.method, request.path)
        called.add(operation)
    all_operations = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    missing = {one for one in all_operations - called if not LEFT_OUT.match(one) and not LEFT_OUT.match(one.split()[1])}
    assert not missing


@pytest.mark.parametrize("kind", PLURALS)
def test_fields_that_runs_read_are_in_the_replies(document: dict[str, Any], kind: str) -> None:
    operation = document["paths"][f"/v1/{PLURALS[kind]}/{{name}}/decision"]["post"]
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    for field in READ[kind] + ["decision", "expected", "artifact"]:
        at = schema
        for part in field.split("."):
            assert part in properties(document, at), field
            at = properties(document, at)[part]


def properties(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return the properties of a schema, of its members, or of its alternatives."""
    if "$ref" in schema:
        return properties(document, document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]])
    if "items" in schema:
        return properties(document, schema["items"])
    found = dict(schema.get("properties", {}))
    for each in [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())]:
        found |= properties(document, each)
    return found


def test_both_clients_have_the_same_methods() -> None:
    def methods(client: type) -> set[str]:
        return {name for name in dir(client) if not name.startswith("_")}

    only_one = methods(Parsimony) ^ methods(AsyncParsimony)
    assert only_one == {"collect_feedback", "record", "url"}
    for name in methods(Parsimony) & methods(AsyncParsimony):
        if name not in ("build", "close"):
            own, other = (list(inspect.signature(getattr(one, name)).parameters) for one in (Parsimony, AsyncParsimony))
            assert own == other, name
