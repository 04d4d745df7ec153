"""What HTTP makes of our errors: every one has a status and a code of the contract."""

import json

import pytest

from app.http.problems import PROBLEMS, internal_problem, problem_of, reply_to
from models import Fault, InvalidRequest, ParsimonyError, errors

CONTRACT = {
    "invalid-request": 422,
    "unknown-dataset": 404,
    "unknown-build": 404,
    "unknown-artifact": 404,
    "unknown-version": 404,
    "infeasible": 409,
    "conflict": 409,
    "payload-too-large": 413,
    "unsupported-media-type": 415,
    "unauthorized": 401,
    "forbidden": 403,
    "too-many-builds": 429,
    "store-unavailable": 503,
    "solver-timeout": 504,
    "too-many-requests": 429,  # beside the contract, like all that follow
    "precondition-failed": 412,
    "request-timeout": 408,
    "unknown-advice": 404,
    "unknown-endpoint": 404,
    "unknown-batch": 404,
    "endpoint-failed": 502,
    "run-timeout": 504,
}
NEVER_REPLIED = {errors.ParsimonyError, errors.NotFound, errors.Cancelled}
"""The two that only have others below them, and the one that ends in the worker."""


def below(kind: type[ParsimonyError]) -> set[type[ParsimonyError]]:
    ours = [child for child in kind.__subclasses__() if child.__module__.split(".")[0] in ("models", "solvers", "app")]
    kinds = {kind}
    for child in ours:
        kinds |= below(child)
    return kinds


def test_the_codes_and_statuses_are_those_of_the_contract() -> None:
    statuses = {code: status for kind, (status, code) in PROBLEMS.items() if kind is not ParsimonyError}
    assert statuses == CONTRACT
    assert PROBLEMS[ParsimonyError] == (500, "internal")


@pytest.mark.parametrize("kind", sorted(below(ParsimonyError) - NEVER_REPLIED, key=str))
def test_every_error_has_a_reply(kind: type[ParsimonyError]) -> None:
    response = problem_of(kind("costs 3.0, budget is 2.0"), "r1")
    body = json.loads(bytes(response.body))
    code = body["type"].removeprefix("urn:parsimony:")
    assert CONTRACT[code] == body["status"] == response.status_code
    assert response.media_type == "application/problem+json"
    assert body["detail"] == "costs 3.0, budget is 2.0"
    assert body["instance"] == "urn:parsimony:request:r1"
    assert body["title"] == code.replace("-", " ")
    assert "errors" not in body


def test_faults_are_listed_with_their_place() -> None:
    response = problem_of(InvalidRequest.at(Fault(("items", 0, "x"), "is bad"), Fault(("y",), "is worse")), "r1")
    assert json.loads(bytes(response.body))["errors"] == [
        {"loc": ["items", 0, "x"], "msg": "is bad"},
        {"loc": ["y"], "msg": "is worse"},
    ]


@pytest.mark.parametrize("kind", [errors.TooManyBuilds, errors.StoreUnavailable, errors.StoreRefused])
def test_what_may_work_later_says_when(kind: type[ParsimonyError]) -> None:
    assert int(problem_of(kind("later"), "r1").headers["retry-after"]) > 0


def test_unauthorized_says_how_to_authorize() -> None:
    assert problem_of(errors.Unauthorized("no key"), "r1").headers["www-authenticate"] == "Bearer"


def test_a_bug_tells_its_id_and_nothing_else() -> None:
    body = json.loads(bytes(internal_problem("/v1/datasets", "r1").body))
    assert (body["type"], body["status"], body["instance"]) == (
        "urn:parsimony:internal",
        500,
        "urn:parsimony:request:r1",
    )


@pytest.mark.parametrize("kind", sorted(below(ParsimonyError) - NEVER_REPLIED, key=str))
def test_clients_of_other_apis_get_every_error_in_their_own_form(kind: type[ParsimonyError]) -> None:
    ours = problem_of(kind("costs 3.0, budget is 2.0"), "r1")
    code = json.loads(bytes(ours.body))["type"].removeprefix("urn:parsimony:")
    forms: dict[str, object] = {
        "/v1/chat/completions": {"message": "costs 3.0, budget is 2.0", "type": code, "param": None, "code": code},
        "/v1/models": {"message": "costs 3.0, budget is 2.0", "type": code, "param": None, "code": code},
        "/v2/models/digits/infer": "costs 3.0, budget is 2.0",
    }
    for path, form in forms.items():
        reply = reply_to(kind("costs 3.0, budget is 2.0"), path, "r1")
        assert (reply.status_code, json.loads(bytes(reply.body))) == (ours.status_code, {"error": form})
        for header in ("retry-after", "www-authenticate"):
            assert reply.headers.get(header) == ours.headers.get(header)
    assert reply_to(kind("x"), "/v1/datasets", "r1").media_type == "application/problem+json"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v2"])
def test_a_bug_tells_clients_of_other_apis_its_id_in_their_form(path: str) -> None:
    (said,) = json.loads(bytes(internal_problem(path, "r1").body)).values()
    assert "the request's id r1" in str(said)


def test_limits_that_conflict_are_a_field_of_the_reply() -> None:
    limits = (
        errors.ConflictingLimit("budget", 10.0, True, 2.5),
        errors.ConflictingLimit("x.at_least", 3.0, False, None),
    )
    response = problem_of(errors.ConflictingLimits.of(*limits), "r1")
    body = json.loads(bytes(response.body))
    assert (response.status_code, body["type"]) == (409, "urn:parsimony:infeasible")
    assert body["detail"] == (
        "no assignment keeps these together: budget at most 10 (would have to be 12.5); x.at_least at least 3; "
        "one must give"
    )
    assert body["conflict"] == [
        {"limit": "budget", "bound": 10.0, "most": True, "give": 2.5},
        {"limit": "x.at_least", "bound": 3.0, "most": False, "give": None},
    ]
