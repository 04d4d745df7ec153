"""Names of teams over HTTP: every operation that changes an object is for the team whose prefix its name has."""

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute

from app.main import create_api
from app.observability.metrics import Metrics
from app.routes.kinds import make_kind_routes
from app.settings import Settings
from solvers import KINDS
from tests.support import stored
from tests.support.commands import ran
from tests.support.samples import TRACE_SPEC, to_csv, trace_columns, trace_upload
from tests.support.servers import Server, held_worker, running_server, wait_for

KEYS = {team: f"{team or 'plain'}-key" for team in ("red", "blue", "green", "")}
"""Two teams with names, one without, and no team."""
QUOTAS = '{"red": {"names": "red-"}, "blue": {"names": "blue-"}, "green": {"open_builds": 5}}'
ENDPOINT = {"protocol": "json", "url": "https://models.example/x", "body": {"x": "{{item}}"}, "label": "/label"}
BUDGET = {"scope": "artifact", "target": "cascade/NAME", "amount": 1.0}

CHANGES: dict[str, dict[str, Any]] = {
    "PUT /v1/datasets/{name}": {},
    "DELETE /v1/datasets/{name}": {},
    "PUT /v1/datasets/{name}/calls": {},
    "POST /v1/builds": {"kind": "cascade", "name": "NAME", "dataset": "common", "params": {"target_precision": 0.9}},
    "POST /v1/advice": {"dataset": "NAME"},
    "DELETE /v1/artifacts/{kind}/{name}": {},
    "PUT /v1/artifacts/{kind}/{name}/active": {"version": 1},
    "POST /v1/artifacts/{kind}/{name}/rebuild": {},
    "DELETE /v1/artifacts/{kind}/{name}/versions/{version}": {},
    "PUT /v1/artifacts/{kind}/{name}/rollout": {"version": 1},
    "DELETE /v1/artifacts/{kind}/{name}/rollout": {},
    "PUT /v1/artifacts/{kind}/{name}/automation": {"rebuild_on_drift": True},
    "PUT /v1/endpoints/{name}": ENDPOINT,
    "DELETE /v1/endpoints/{name}": {},
    "PUT /v1/budgets/{name}": BUDGET,
    "DELETE /v1/budgets/{name}": {},
    "PUT /v1/recordings/{name}": {"unit": "ms"},
    "DELETE /v1/recordings/{name}": {},
    "POST /v1/recordings/{recording}/dataset": {"dataset": "NAME"},
    "DELETE /v1/feedback/{kind}/{name}": {},
}
"""A body of each operation that changes the object of a name; ``NAME`` is where the body has it."""
IN_OTHER_TESTS = {
    "POST /v1/artifacts/import": "the name is in the bytes",
    "DELETE /v1/builds/{build_id}": "the name is that of the build",
    "DELETE /v1/batches/{batch_id}": "the team is that which pays",
}
USES = {
    "POST /v1/drafts": "stores nothing",
    "OPTIONS /v1/uploads": "stores nothing",
    "POST /v1/uploads": "an upload has no name",
    "PATCH /v1/uploads/{upload_id}": "an upload has no name, and its id is secret",
    "DELETE /v1/uploads/{upload_id}": "an upload has no name, and its id is secret",
    "POST /v1/cascades/solve": "stores nothing",
    "POST /v1/chat/completions": "runs an artifact",
    "POST /v1/completions": "runs an artifact",
    "POST /v1/responses": "runs an artifact",
    "POST /v1/messages": "runs an artifact",
    "POST /v1/messages/count_tokens": "stores nothing",
    "POST /v1/embeddings": "calls an endpoint",
    "POST /v2/models/{name}/infer": "runs an artifact",
    "POST /v1/batches": "runs an artifact",
    "POST /v1/endpoints/{name}/probe": "calls an endpoint once",
    "POST /v1/recordings/{name}/rows": "adds runs of the sender, as recorded runs are",
    "POST /v1/recordings/{name}/truths": "adds outcomes, as feedback does",
    "POST /v1/feedback": "adds outcomes",
    "POST /v1/portfolios/{name}/assignments": "decides",
    **{
        f"POST /v1/{kind.plural}/{{name}}/{use}": f"{use} only"
        for kind in KINDS.values()
        for use in ("decision", "runs")
    },
    **{f"POST /v1/{kind.plural}/{{name}}/evaluate": "evaluates only" for kind in KINDS.values()},
}
"""Operations that every team may do with the objects of others, and why."""


def list_operations(router: APIRouter, prefix: str = "") -> Iterator[str]:
    """Yield the operations of a router and of those that it includes, also what OpenAPI leaves out."""
    for route in router.routes:
        if isinstance(route, APIRoute):
            yield from (f"{method} {prefix}{route.path}" for method in route.methods or ())
        included: Any = route
        if hasattr(route, "original_router"):
            yield from list_operations(included.original_router, prefix + included.include_context.prefix)


def test_each_operation_that_is_no_reading_is_known_to_check_names_or_to_need_none() -> None:
    api = create_api(Settings(), Metrics(), [make_kind_routes(kind) for kind in KINDS.values()])
    found = set(list_operations(api.router))
    writing = {one for one in found if one.partition(" ")[0] not in ("GET", "HEAD")}
    listed = [one.replace("{recording}", "{name}") for one in (*CHANGES, *IN_OTHER_TESTS, *USES)]
    assert len(listed) == len(set(listed))
    assert writing == set(listed)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    keys = ",".join(f"{key}:build@{team}" if team else f"{key}:build" for team, key in KEYS.items())
    with running_server(tmp_path_factory.mktemp("teams"), api_keys=keys, team_quotas=QUOTAS) as server:
        assert send(server, "", "PUT", "/v1/datasets/common", files=trace_upload()).status_code == 201
        assert send(server, "", "PUT", "/v1/recordings/common", json={"unit": "ms"}).status_code == 201
        server.wait_for_worker()
        yield server


def send(server: Server, team: str, method: str, path: str, **body: Any) -> httpx.Response:
    return server.client.request(method, path, headers={"authorization": f"Bearer {KEYS[team]}"}, **body)


def is_refused(reply: httpx.Response, *named: str) -> bool:
    """Whether a reply is 403 for a name, and its message has these words."""
    if reply.status_code != 403:
        return False
    body = reply.json()
    assert body["type"] == "urn:parsimony:forbidden"
    assert all(word in body["detail"] for word in ("PARSIMONY_TEAM_QUOTAS", *named)), body["detail"]
    return True


@pytest.mark.parametrize("operation", CHANGES)
def test_an_operation_changes_names_of_the_own_team_only(shared: Server, operation: str) -> None:
    method, template = operation.split()

    def change(team: str, name: str) -> httpx.Response:
        path = template.format(kind="cascade", name=name, version=1, recording="common")
        body = json.dumps(CHANGES[operation]).replace("NAME", name)
        return send(shared, team, method, path, json=json.loads(body))

    for team in ("blue", "green", ""):
        assert is_refused(change(team, "red-x"), "'red-x'", "'red-'", "'red'")
    assert is_refused(change("red", "x"), "'x'", "'red-'", "'red'")
    assert is_refused(change("red", "redx"), "'redx'")
    for team, name in (("red", "red-x"), ("blue", "blue-x"), ("green", "x"), ("", "x")):
        reply = change(team, name)
        assert reply.status_code not in (401, 403, 500), reply.text
    if "datasets/{name}" in template or "{kind}" in template:
        assert change("blue", "RED").status_code == 422, "the syntax is checked first"


def test_an_imported_artifact_has_a_name_of_the_own_team(shared: Server) -> None:
    def import_as(team: str, name: str) -> httpx.Response:
        headers = {"authorization": f"Bearer {KEYS[team]}", "content-type": "application/octet-stream"}
        return shared.client.post("/v1/artifacts/import", headers=headers, content=stored.artifact(name))

    assert is_refused(import_as("blue", "red-plan"), "'red-plan'")
    assert is_refused(import_as("", "red-plan"), "'red-plan'")
    assert is_refused(import_as("red", "plan"), "'plan'")
    assert send(shared, "", "GET", "/v1/artifacts/cascade/red-plan").status_code == 404
    assert [import_as("red", "red-plan").json()["version"] for _ in "ab"] == [1, 2]
    activate: dict[str, Any] = {
        "method": "PUT",
        "path": "/v1/artifacts/cascade/red-plan/active",
        "json": {"version": 1},
    }
    assert is_refused(send(shared, "blue", **activate), "'red-plan'")
    assert send(shared, "", "GET", "/v1/artifacts/cascade/red-plan").json()["version"] == 2
    assert send(shared, "red", **activate).status_code == 200


def test_a_build_is_cancelled_by_the_team_of_its_name(shared: Server) -> None:
    with held_worker(shared):
        body = CHANGES["POST /v1/builds"] | {"name": "red-queued"}
        path = send(shared, "red", "POST", "/v1/builds", json=body).headers["location"]
        for team in ("blue", "green", ""):
            assert is_refused(send(shared, team, "DELETE", path), "'red-queued'")
        assert send(shared, "blue", "GET", path).json()["status"] == "queued"
        assert send(shared, "red", "DELETE", path).json()["status"] == "cancelled"
    assert send(shared, "red", "DELETE", "/v1/builds/nosuch").status_code == 404


def test_a_batch_is_cancelled_by_the_team_that_pays_for_it(shared: Server) -> None:
    headers = {"authorization": f"Bearer {KEYS['']}", "content-type": "application/octet-stream"}
    shared.client.post("/v1/artifacts/import", headers=headers, content=stored.artifact("plan"))
    for name in ("K1", "K2"):
        assert send(shared, "", "PUT", f"/v1/endpoints/{name}", json=ENDPOINT).status_code in (200, 201)
    files = {"spec": (None, '{"kind": "cascade", "name": "plan"}'), "file": ("items.jsonl", b'{"item": "x"}\n')}
    with held_worker(shared):
        paths = {
            team: send(shared, team, "POST", "/v1/batches", files=files).headers["location"]
            for team in ("red", "green")
        }
        for team in ("blue", "green", ""):
            assert is_refused(send(shared, team, "DELETE", paths["red"]), "'red'")
        for path, team in ((paths["red"], "red"), (paths["green"], "blue")):
            assert send(shared, team, "DELETE", path).json()["status"] == "cancelled"


def test_names_further_down_in_a_body_are_those_of_the_own_team(shared: Server) -> None:
    rebuild = "/v1/artifacts/cascade/red-x/rebuild"
    assert is_refused(send(shared, "red", "POST", rebuild, json={"dataset": "blue-rows"}), "'blue-rows'")
    record = {"artifact": {"kind": "cascade", "name": "red-plan"}, "sample": 0.5}
    assert is_refused(send(shared, "blue", "PUT", "/v1/recordings/blue-runs", json=record), "'red-plan'")


@pytest.mark.parametrize(
    ("team", "scope", "target", "is_allowed"),
    [
        ("red", "team", "red", True),
        ("red", "team", "blue", False),
        ("red", "team", "green", False),
        ("red", "artifact", "cascade/plan", False),
        ("green", "team", "red", False),
        ("green", "artifact", "cascade/red-plan", False),
        ("green", "artifact", "cascade/plan", True),
        ("green", "key", "nosuch", True),
        ("", "team", "red", True),
        ("", "artifact", "cascade/red-plan", True),
    ],
)
def test_a_team_sets_budgets_of_itself_and_keys_without_a_team_those_of_all(
    shared: Server, team: str, scope: str, target: str, is_allowed: bool
) -> None:
    name = "red-budget" if team == "red" else "budget"
    body = {"scope": scope, "target": target, "amount": 1.0}
    reply = send(shared, team, "PUT", f"/v1/budgets/{name}", json=body)
    assert reply.status_code in (200, 201) if is_allowed else is_refused(reply, repr(target)), reply.text


def test_keys_of_a_team_are_limited_by_that_team(shared: Server) -> None:
    red_key = sha256(KEYS["red"].encode()).hexdigest()[:8]
    body = {"scope": "key", "target": red_key, "amount": 1.0}
    assert is_refused(send(shared, "blue", "PUT", "/v1/budgets/blue-budget", json=body), repr(red_key))
    assert send(shared, "red", "PUT", "/v1/budgets/red-key", json=body).status_code == 201


def test_other_teams_may_read_and_use_what_they_may_not_change(shared: Server) -> None:
    files = trace_upload()
    assert send(shared, "red", "PUT", "/v1/datasets/red-rows", files=files).status_code in (200, 201)
    assert is_refused(send(shared, "blue", "PUT", "/v1/datasets/red-rows", files=trace_upload(100)), "'red-rows'")
    assert send(shared, "blue", "GET", "/v1/datasets/red-rows").json()["rows"] == 400
    body = CHANGES["POST /v1/builds"] | {"name": "blue-plan", "dataset": "red-rows"}
    build = send(shared, "blue", "POST", "/v1/builds", json=body)
    assert build.status_code == 202
    path = build.headers["location"]
    wait_for(lambda: send(shared, "red", "GET", path).json()["status"] == "succeeded", 60)
    assert send(shared, "red", "POST", "/v1/cascades/blue-plan/decision", json={}).status_code == 200


def test_a_command_prints_why_a_name_is_refused(
    shared: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "spec.json").write_text(json.dumps(TRACE_SPEC))
    (tmp_path / "rows.csv").write_bytes(to_csv(trace_columns(50)))
    monkeypatch.setenv("PARSIMONY_URL", shared.url)
    monkeypatch.setenv("PARSIMONY_KEY", KEYS["blue"])
    put = ("dataset", "add", "red-new", tmp_path / "rows.csv", "--spec", tmp_path / "spec.json")
    status, out, err = ran(monkeypatch, capsys, *put)
    assert (status, out) == (1, "")
    assert all(word in err for word in ("red-new", "'red-'", "PARSIMONY_TEAM_QUOTAS", "PARSIMONY_KEY"))
    assert "Traceback" not in err


def test_without_keys_names_are_those_of_everybody(tmp_path: Path) -> None:
    with running_server(tmp_path, team_quotas=QUOTAS) as server:
        assert server.client.put("/v1/datasets/red-rows", files=trace_upload()).status_code == 201
        assert server.client.delete("/v1/datasets/red-rows").status_code == 204
