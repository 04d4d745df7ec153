"""The client's methods are held against the OpenAPI document, and both clients against each other."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

from parsimony import AsyncParsimony, Parsimony
from parsimony.artifact_requests import PLURALS, request_decision, request_shared_decision
from parsimony.transport import Request
from tools.write_client_types import ROOT, find_operation, list_requests, make_document, write_types

LEFT_OUT = re.compile(
    r"/health|/metrics|/v2|/v1/(models|chat|messages|responses|embeddings|completions)|.*/events$|GET .*/decision$"
    r"|HEAD "
)
"""Operations of other clients' APIs; events of builds, which ``build`` waits for; decisions by GET; and offsets of
uploads, which ``upload_table`` reads."""


READ = {
    "cascade": ["steps.classifier", "steps.confidence_threshold", "steps.execution_time", "steps.worst_case_time"],
    "portfolio": ["classifier", "cost"],
    "policy": ["action", "sensor", "together", "cost", "probabilities", "label", "answer", "quality"],
    "pipeline": ["step.action", "step.features", "step.cost", "step.label", "step.confidence"],
    "index": ["features", "cost"],
}
"""Fields of decisions that runs of the client read."""


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return make_document()


def all_requests() -> Iterator[tuple[str, Request]]:
    for kind in PLURALS:
        yield from list_requests(kind)
        yield "decide", request_decision(kind, "n", None, {})
        yield "decide", request_shared_decision(kind, "n", 1, {})


def test_the_types_of_replies_and_methods_are_up_to_date() -> None:
    """If this fails, run ``python tools/write_client_types.py``."""
    for path, text in write_types().items():
        assert (ROOT / path).read_text() == text, path


def test_every_operation_has_a_method_and_every_method_an_operation(document: dict[str, Any]) -> None:
    called: set[str] = set()
    for name, request in all_requests():
        found = find_operation(document, request)
        if found is None and name == "decide" and request.method == "GET":
            continue  # portfolios decide by POST only
        assert found is not None, (name, request.method, request.path)
        path, operation = found
        assert set(request.content.get("params", {})) <= {one["name"] for one in operation.get("parameters", [])}, path
        called.add(f"{request.method} {path}")
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
