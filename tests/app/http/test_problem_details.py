"""What HTTP makes of our errors: every one has a status and a code of the contract."""

import json

import pytest

from app.http.problem_details import PROBLEMS, internal_problem, make_error_problem, make_error_response
from models import Fault, InvalidRequest, ParsimonyError, errors
from models.overlap import Overlap

CODES = {
    400: "provider-refused",
    401: "unauthorized",
    402: "budget-spent",
    403: "forbidden",
    404: "unknown-dataset unknown-build unknown-artifact unknown-version unknown-advice unknown-endpoint unknown-batch"
    " unknown-budget unknown-recording unknown-rollout unknown-upload",
    408: "request-timeout",
    409: "infeasible small-overlap conflict quota-exceeded",
    412: "precondition-failed",
    413: "payload-too-large",
    415: "unsupported-media-type",
    422: "invalid-request",
    429: "too-many-builds too-many-requests endpoints-busy",
    502: "endpoint-failed",
    503: "store-unavailable",
    504: "solver-timeout run-timeout",
}
CONTRACT = {code: status for status, codes in CODES.items() for code in codes.split()}
NEVER_REPLIED = {errors.ParsimonyError, errors.NotFound, errors.Cancelled}
"""The two that only have others below them, and the one that ends in the worker."""
RETRIED = (errors.TooManyBuilds, errors.EndpointsBusy, errors.StoreUnavailable, errors.StoreRefused)


def below(kind: type[ParsimonyError]) -> set[type[ParsimonyError]]:
    ours = [child for child in kind.__subclasses__() if child.__module__.split(".")[0] in ("models", "solvers", "app")]
    kinds = {kind}
    for child in ours:
        kinds |= below(child)
    return kinds


@pytest.mark.parametrize("kind", sorted(below(ParsimonyError) - NEVER_REPLIED, key=str))
def test_every_error_has_a_reply(kind: type[ParsimonyError]) -> None:
    statuses = {code: status for each, (status, code) in PROBLEMS.items() if each is not ParsimonyError}
    assert (statuses, PROBLEMS[ParsimonyError]) == (CONTRACT, (500, "internal"))
    response = make_error_problem(kind("costs 3.0, budget is 2.0"), "r1")
    body = json.loads(bytes(response.body))
    code = body["type"].removeprefix("urn:parsimony:")
    assert CONTRACT[code] == body["status"] == response.status_code
    assert response.media_type == "application/problem+json"
    assert body["detail"] == "costs 3.0, budget is 2.0"
    assert body["instance"] == "urn:parsimony:request:r1"
    assert body["title"] == code.replace("-", " ")
    assert "errors" not in body
    assert int(response.headers.get("retry-after", 0)) > 0 or kind not in RETRIED
    assert response.headers.get("www-authenticate") == ("Bearer" if code == "unauthorized" else None)


def test_faults_are_listed_with_their_place() -> None:
    response = make_error_problem(
        InvalidRequest.from_faults(Fault(("items", 0, "x"), "is bad"), Fault(("y",), "is worse")), "r1"
    )
    faults = [(fault["loc"], fault["msg"]) for fault in json.loads(bytes(response.body))["errors"]]
    assert faults == [(["items", 0, "x"], "is bad"), (["y"], "is worse")]


@pytest.mark.parametrize("kind", sorted(below(ParsimonyError) - NEVER_REPLIED, key=str))
def test_clients_of_other_apis_get_every_error_in_their_own_form(kind: type[ParsimonyError]) -> None:
    ours = make_error_problem(kind("costs 3.0, budget is 2.0"), "r1")
    code = json.loads(bytes(ours.body))["type"].removeprefix("urn:parsimony:")
    is_invalid = code in ("invalid-request", "provider-refused")
    openai_type = "invalid_request_error" if is_invalid else code
    form = {"message": "costs 3.0, budget is 2.0", "type": openai_type, "param": None, "code": code}
    forms: dict[str, object] = {"/v2/models/digits/infer": form["message"]}
    forms |= dict.fromkeys(("/v1/chat/completions", "/v1/models", "/v1/responses", "/v1/embeddings"), form)
    for path, wanted in forms.items():
        reply = make_error_response(kind("costs 3.0, budget is 2.0"), path, "r1")
        status = 400 if is_invalid and path.startswith("/v1") else ours.status_code
        assert (reply.status_code, json.loads(bytes(reply.body))) == (status, {"error": wanted})
        for header in ("retry-after", "www-authenticate"):
            assert reply.headers.get(header) == ours.headers.get(header)
    assert make_error_response(kind("x"), "/v1/datasets", "r1").media_type == "application/problem+json"
    anthropics = make_error_response(kind("costs 3.0, budget is 2.0"), "/v1/messages", "r1")
    assert anthropics.status_code == (400 if is_invalid else ours.status_code)
    body = json.loads(bytes(anthropics.body))
    assert (body["type"], body["request_id"], body["error"]["code"]) == ("error", "r1", code)
    assert (body["error"]["type"] == "invalid_request_error") == (anthropics.status_code in (400, 408, 409, 412, 415))


def test_a_bug_tells_its_id_and_nothing_else() -> None:
    body = json.loads(bytes(internal_problem("/v1/datasets", "r1").body))
    assert (body["type"], body["status"]) == ("urn:parsimony:internal", 500)
    assert body["instance"] == "urn:parsimony:request:r1"
    for path in ("/v1/chat/completions", "/v2"):
        (said,) = json.loads(bytes(internal_problem(path, "r1").body)).values()
        assert "r1" in str(said)


def test_limits_that_conflict_are_a_field_of_the_reply() -> None:
    limits = (
        errors.ConflictingLimit("budget", 10.0, True, 2.5),
        errors.ConflictingLimit("x.at_least", 3.0, False, None),
    )
    response = make_error_problem(errors.ConflictingLimits.from_limits(*limits), "r1")
    body = json.loads(bytes(response.body))
    assert (response.status_code, body["type"]) == (409, "urn:parsimony:infeasible")
    assert "12.5" in body["detail"]
    assert body["conflict"] == [
        {"limit": "budget", "bound": 10.0, "most": True, "give": 2.5},
        {"limit": "x.at_least", "bound": 3.0, "most": False, "give": None},
    ]


def test_too_little_overlap_is_reported_with_its_numbers() -> None:
    reply = make_error_problem(errors.SmallOverlap("too few", Overlap(1000, 40, 12.5, 0.55, False)), "id")
    assert json.loads(bytes(reply.body))["overlap"] == {
        "rows": 1000,
        "supported_rows": 40,
        "effective_rows": 12.5,
        "covered": 0.55,
    }
