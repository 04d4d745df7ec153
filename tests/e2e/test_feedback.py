"""Feedback over HTTP: outcomes come in by decision id or by inputs, drift is told, and a rebuild learns from rows."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest

from app.store.client import Store, key
from app.store.embedded_files import socket_path
from solvers import KINDS
from tests.support.patience import patient
from tests.support.samples import trace_columns, trace_embeddings
from tests.support.servers import Server, environment, running_server, wait_for
from tests.support.subjects import SAMPLES, build_all, upload_all

INPUTS = {solver: sample.inputs for solver, sample in SAMPLES.items()}


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("feedback")) as server:
        upload_all(server)
        build_all(server)
        yield server


MADE_UP = "0123456789ab"


def decided(server: Server, solver: str) -> dict[str, Any]:
    path = f"/v1/{KINDS[solver].plural}/plan/decision"
    return dict(server.client.post(path, json=INPUTS[solver]).json())


def give(server: Server, *items: dict[str, Any]) -> httpx.Response:
    body = json.dumps({"items": items})
    for solver in INPUTS:
        if f"{solver}/plan/1@{MADE_UP}" in body:
            digits = server.client.get(f"/v1/artifacts/{solver}/plan/versions").json()["items"][0]["sha256"][:12]
            body = body.replace(f"{solver}/plan/1@{MADE_UP}", f"{solver}/plan/1@{digits}")
    return server.client.post("/v1/feedback", content=body, headers={"content-type": "application/json"})


def report(server: Server, solver: str) -> dict[str, Any]:
    feedback: dict[str, Any] = server.client.get(f"/v1/feedback/{solver}/plan").json()
    return feedback


def ref(solver: str, version: int = 1) -> dict[str, Any]:
    return {"solver": solver, "name": "plan", "version": version}


@pytest.mark.parametrize("solver", KINDS)
def test_an_outcome_told_by_id_or_by_inputs_is_held_against_the_same_estimates(subjects: Server, solver: str) -> None:
    """The decision's id carries what was expected; the artifact and its inputs give it again."""
    before = report(subjects, solver)
    decision = decided(subjects, solver)["decision"]
    assert decision.startswith(f"{solver}/plan/1@")
    assert give(subjects, {"decision": decision, "correct": True, "cost": 2.5, "time": 2.5}).status_code == 200
    by_id = report(subjects, solver)
    again = {"artifact": ref(solver), "inputs": INPUTS[solver], "correct": True, "cost": 2.5, "time": 2.5}
    reply = {"counted": 1, "rows": 0, "drift": {f"{solver}/plan/1": []}, "alarms": {}}
    assert give(subjects, again).json() == reply
    by_inputs = report(subjects, solver)
    assert by_inputs["outcomes"] == by_id["outcomes"] + 1 == before["outcomes"] + 2
    for quantity in ("accuracy", "cost", "time"):
        first, second = by_id[quantity]["estimated"], by_inputs[quantity]["estimated"]
        assert second == first if first is None else second == pytest.approx(first, rel=1e-12)
    assert by_id["time" if solver == "cascade" else "cost"]["estimated"] is not None


def test_what_is_expected_is_what_the_reply_says(subjects: Server) -> None:
    """The numbers of the id are those of what is expected, beside it."""
    index, portfolio = decided(subjects, "index"), decided(subjects, "portfolio")
    assert index["decision"].endswith(f"?accuracy={index['expected']['accuracy']!r}&cost={index['cost']!r}")
    assert portfolio["decision"].endswith(f"&cost={portfolio['cost']!r}")
    cascade = decided(subjects, "cascade")
    assert cascade["decision"].endswith(f"time={cascade['expected']['time']!r}")
    low, high = cascade["expected"]["time_interval"]
    assert low < cascade["expected"]["time"] < high


def test_an_outcome_of_another_artifact_with_the_same_number_is_refused(subjects: Server) -> None:
    decision = decided(subjects, "cascade")["decision"]
    other = re.sub("@[0-9a-f]{4}", "@0000", decision)
    reply = give(subjects, {"decision": other, "correct": True})
    assert (reply.status_code, reply.json()["type"]) == (404, "urn:parsimony:unknown-version")


def test_batches_have_an_id_too(subjects: Server) -> None:
    """An assignment's expects means."""
    queries = {"queries": [[0.9, 0.4], [0.4, 0.9]], "budget": "60%"}
    assigned = subjects.client.post("/v1/portfolios/plan/assignments", json=queries).json()
    assert re.match(r"portfolio/plan/1@[0-9a-f]{12}\?accuracy=", assigned["decision"])
    assert assigned["decision"].endswith(f"&cost={assigned['expected']['cost']!r}")
    assert assigned["expected"]["cost"] == pytest.approx(assigned["cost"] / 2, rel=0.05)


AN_ID = f"cascade/plan/1@{MADE_UP}?time=2"
BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"correct": True}, "", ""),
    ({"decision": f"cascade/plan/1@{MADE_UP}?accuracy=0.5"}, "", ""),
    *(
        ({"decision": f"cascade/plan{end}", "correct": True}, "decision", "")
        for end in ("", f"/1@{MADE_UP}?accuracy=2")
    ),
    *(
        ({"decision": f"cascade/plan/1@{MADE_UP}?{end}", "correct": True}, "decision", "")
        for end in ("a=1", "cost=1&cost=2")
    ),
    ({"decision": AN_ID, "correct": True, "classifier": "x"}, "classifier", "fast"),
    ({"decision": f"index/plan/1@{MADE_UP}?cost=2", "correct": True, "classifier": "x"}, "classifier", ""),
    ({"artifact": ref("cascade"), "inputs": {"deadline": -1}, "correct": True}, "*", "greater than 0"),
    ({"artifact": ref("cascade"), "inputs": {"deadline": 0.1}, "correct": True}, "*", "no decision"),
    ({"artifact": ref("cascade"), "inputs": {"line": 1}, "correct": True}, "*", ""),
    ({"artifact": ref("index"), "inputs": {"budget": -1}, "correct": True}, "*", "greater than or equal to 0"),
    ({"artifact": ref("index"), "cost": -1}, "cost", "greater than or equal to 0"),
    ({"decision": AN_ID, "row": {"truth": "cat"}}, "*", "missing"),
    ({"decision": AN_ID, "correct": True, "embedding": [1.0]}, "", "row"),
]
"""An outcome, the field that is refused (of the outcome as a whole: none; any: a star), and what the refusal names."""


@pytest.mark.parametrize(("item", "field", "message"), BAD)
def test_a_bad_outcome_is_refused_by_its_field_and_nothing_is_counted(
    subjects: Server, item: dict[str, Any], field: str, message: str
) -> None:
    """Good ones beside it are not counted either."""
    before = report(subjects, "cascade")
    reply = give(subjects, item, {"decision": AN_ID, "correct": True})
    assert reply.status_code == 422, reply.text
    fault = reply.json()["errors"][0]
    assert fault["loc"][:2] == ["items", 0]
    assert field == "*" or fault["loc"][2:] == [field] * bool(field)
    assert message in fault["msg"]
    assert report(subjects, "cascade") == before


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"{", b'{"items": [}', b'{"items": "\xff"}', b"[" * 100_000, b"9" * 5000, b"[]", b'"items"', b"7"],
)
def test_a_body_that_is_none_is_refused_as_every_route_refuses_it(subjects: Server, body: bytes) -> None:
    """To the letter as that of a route which the framework reads."""
    headers = {"content-type": "application/json"}
    ours = subjects.client.post("/v1/feedback", content=body, headers=headers)
    usual = subjects.client.post("/v1/cascades/solve", content=body, headers=headers)
    assert ours.status_code == usual.status_code == 422
    assert {**ours.json(), "instance": ""} == {**usual.json(), "instance": ""}


@pytest.mark.parametrize(
    ("body", "places"),
    [
        ({}, [["items"]]),
        ({"items": []}, [["items"]]),
        ({"items": {}}, [["items"]]),
        ({"items": [7], "more": 1}, [["more"], ["items", 0]]),
        ({"items": [{"decision": 1}, {"decision": ""}]}, [["items", 0, "decision"], ["items", 1]]),
        ({"items": [{"decision": AN_ID, "time": 2.0}] * 10_001}, [["items"]]),
    ],
)
def test_every_fault_of_a_body_is_told_at_its_place(subjects: Server, body: Any, places: list[list[Any]]) -> None:
    """The outcomes are read one by one, and refused together."""
    faults = subjects.client.post("/v1/feedback", json=body).json()["errors"]
    assert [fault["loc"] for fault in faults] == places
    assert all(fault["msg"] for fault in faults)


@pytest.mark.parametrize(
    ("artifact", "code"),
    [
        (ref("cascade", 9), "unknown-version"),
        ({"solver": "cascade", "name": "other", "version": 1}, "unknown-artifact"),
        ({"solver": "oracle", "name": "plan", "version": 1}, "unknown-artifact"),
    ],
)
def test_an_unknown_version_is_404(subjects: Server, artifact: dict[str, Any], code: str) -> None:
    """Whichever way it is named."""
    spelt = f"{artifact['solver']}/{artifact['name']}/{artifact['version']}@{MADE_UP}?time=1"
    for item in ({"artifact": artifact, "correct": True}, {"decision": spelt, "correct": True}):
        reply = give(subjects, item)
        assert (reply.status_code, reply.json()["type"]) == (404, f"urn:parsimony:{code}")


def test_drift_is_raised_in_the_record_and_the_metrics_and_can_be_forgotten(subjects: Server) -> None:
    """A policy whose answers are all wrong has drifted; deleting its feedback clears it."""
    decision = decided(subjects, "policy")["decision"]
    reply = give(subjects, *[{"decision": decision, "correct": False, "cost": 1.0, "classifier": "fast"}] * 200)
    assert reply.json()["drift"] == {"policy/plan/1": ["accuracy"]}
    (alarm,) = reply.json()["alarms"]["policy/plan/1"]
    assert (alarm["quantity"], alarm["direction"], alarm["after"]) == ("accuracy", "below", 0)
    assert alarm["change_point"] <= 16
    feedback = report(subjects, "policy")
    assert feedback["accuracy"]["drift"]
    assert feedback["classifiers"][0]["classifier"] == "fast"
    assert subjects.client.get("/v1/artifacts/policy/plan").json()["drift"] == ["accuracy"]
    listed = subjects.client.get("/v1/artifacts", params={"solver": "policy"}).json()["items"]
    assert listed[0]["drift"] == ["accuracy"]
    line = 'parsimony_drift{name="plan",quantity="accuracy",solver="policy"} 1.0'
    wait_for(lambda: line in subjects.client.get("/metrics").text, 10)
    assert 'parsimony_feedback_total{name="plan",solver="policy"}' in subjects.client.get("/metrics").text
    assert subjects.client.delete("/v1/feedback/policy/plan").status_code == 204
    assert report(subjects, "policy")["outcomes"] == 0
    wait_for(lambda: line not in subjects.client.get("/metrics").text, 10)


def test_outcomes_change_no_answer(subjects: Server) -> None:
    """Whatever is told, the same question is answered alike."""
    before = decided(subjects, "index")
    assert give(subjects, *[{"decision": before["decision"], "correct": False, "cost": 1e6}] * 300).json()["drift"] == {
        "index/plan/1": ["accuracy", "cost"]
    }
    assert decided(subjects, "index") == before


def rows(places: range) -> list[dict[str, Any]]:
    columns = trace_columns()
    vectors = trace_embeddings(columns)
    decision = f"cascade/plan/1@{MADE_UP}?time=2.0"
    cells = [{name: column[place] for name, column in columns.items()} for place in places]
    return [
        {"decision": decision, "row": row, "embedding": vectors[place].tolist()}
        for place, row in zip(places, cells, strict=True)
    ]


def run(server: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "app", *arguments]
    return subprocess.run(
        command, env=environment(server.data_dir), capture_output=True, text=True, timeout=patient(120)
    )


def test_a_rebuild_learns_from_the_old_dataset_and_the_rows(subjects: Server) -> None:
    """It makes the next version, from a dataset of its own, and begins with no feedback."""
    refused = run(subjects, "rebuild", "index", "plan")
    assert (refused.returncode, "has no rows among its feedback" in refused.stderr) == (1, True)
    assert give(subjects, *rows(range(50))).json()["rows"] == 50
    table = run(subjects, "feedback", "cascade", "plan")
    assert table.returncode == 0
    assert "50 rows" in table.stdout
    done = run(subjects, "rebuild", "cascade", "plan", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["version"], record["dataset"]) == (2, "trace.2")
    assert subjects.client.get("/v1/datasets/trace.2").json()["rows"] == 450
    assert record["params"] == subjects.client.get("/v1/artifacts/cascade/plan/versions").json()["items"][0]["params"]
    wait_for(lambda: report(subjects, "cascade")["artifact"]["version"] == 2, 5)
    assert report(subjects, "cascade")["outcomes"] == 0
    assert subjects.client.get("/v1/feedback/cascade/plan", params={"version": 1}).json()["rows"] == 50


def test_rows_tell_of_each_classifier_how_accurate_it_still_is(subjects: Server) -> None:
    """Outcomes have no answers; one classifier's column is wrong from some row on."""
    subjects.client.delete("/v1/feedback/portfolio/plan")
    sent = [{**row, "decision": "portfolio/plan/1?cost=2.0"} for row in rows(range(400))]
    assert give(subjects, *sent).json()["drift"] == {"portfolio/plan/1": []}
    for item in sent[:100]:
        item["row"]["fast_says"] = "owl" if item["row"]["truth"] != "owl" else "cat"
    alarms = give(subjects, *sent[:100]).json()["alarms"]["portfolio/plan/1"]
    assert {(alarm["quantity"], alarm["classifier"], alarm["direction"]) for alarm in alarms} == {
        ("classifiers", "fast", "below")
    }
    assert abs(alarms[0]["change_point"] - 401) <= 20
    assert subjects.client.get("/v1/artifacts/portfolio/plan").json()["drift"] == ["classifiers"]
    subjects.client.delete("/v1/feedback/portfolio/plan")


def test_a_rebuild_over_http_queues_the_next_version(subjects: Server) -> None:
    """From the rows that the request chooses; the command line does the same against a server."""
    give(subjects, *({**row, "decision": f"policy/plan/1@{MADE_UP}?cost=2.0"} for row in rows(range(60))))
    path = "/v1/artifacts/policy/plan/rebuild"
    for body, field in (({"half_life": 0}, "half_life"), ({"since": "yesterday"}, "since"), ({"age": 1}, "age")):
        refused = subjects.client.post(path, json=body)
        assert (refused.status_code, refused.json()["errors"][0]["loc"][-1]) == (422, field)
    assert subjects.client.post("/v1/artifacts/policy/other/rebuild", json={}).status_code == 404
    reply = subjects.client.post(path, json={"only_new": True, "since": "2020-01-01T00:00:00Z"})
    assert reply.status_code == 202, reply.text
    started = reply.json()
    assert (started["old_rows"], started["new_rows"], started["change_point"]) == (0, 60, None)
    assert reply.headers["location"] == f"/v1/builds/{started['id']}"
    assert subjects.client.get(f"/v1/datasets/{started['dataset']}").json()["rows"] == 60
    subjects.client.delete(f"/v1/builds/{started['id']}")
    wait_for(lambda: subjects.client.get(f"/v1/builds/{started['id']}").json()["finished_at"] is not None, 30)
    done = run(
        subjects, "rebuild", "cascade", "plan", "--version", "1", "--only-new", "--dataset", "new-rows", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert subjects.client.get("/v1/datasets/new-rows").json()["rows"] == 50


def test_outcomes_by_id_need_no_plan_of_a_version_that_is_no_longer_active(subjects: Server) -> None:
    """Its bytes may be gone: what the record tells is enough; inputs, which are decided again, need them."""
    decision = decided(subjects, "portfolio")["decision"]
    data = subjects.client.get("/v1/artifacts/portfolio/plan/versions/1/export").content
    imported = subjects.client.post(
        "/v1/artifacts/import", content=data, headers={"content-type": "application/octet-stream"}
    ).json()
    wait_for(lambda: report(subjects, "portfolio")["artifact"]["version"] == 2, 5)
    with closing(Store(f"unix://{socket_path(subjects.data_dir.resolve() / 'redis')}")) as store:
        store.client.delete(key("blob", imported["sha256"]))
    assert give(subjects, {"decision": decision, "correct": True, "cost": 2.0}).json()["counted"] == 1
    again = {"artifact": ref("portfolio"), "inputs": INPUTS["portfolio"], "correct": True}
    assert give(subjects, again).status_code == 503
