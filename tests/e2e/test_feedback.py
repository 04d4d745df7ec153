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

from app.store.client import Store, make_store_key
from app.store.embedded_files import socket_path
from solvers import KINDS
from tests.support.kinds import SAMPLES, build_all, upload_all
from tests.support.patience import patient
from tests.support.samples import trace_columns, trace_embeddings
from tests.support.servers import Server, environment, running_server, wait_for

INPUTS = {kind: sample.inputs for kind, sample in SAMPLES.items()}


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("feedback")) as server:
        upload_all(server)
        build_all(server)
        yield server


MADE_UP = "0123456789ab"


def decided(server: Server, kind: str) -> dict[str, Any]:
    path = f"/v1/{KINDS[kind].plural}/plan/decision"
    return dict(server.client.post(path, json=INPUTS[kind]).json())


def give(server: Server, *items: dict[str, Any]) -> httpx.Response:
    body = json.dumps({"items": items})
    for kind in INPUTS:
        if f"{kind}/plan/1@{MADE_UP}" in body:
            digits = server.client.get(f"/v1/artifacts/{kind}/plan/versions").json()["items"][0]["sha256"][:12]
            body = body.replace(f"{kind}/plan/1@{MADE_UP}", f"{kind}/plan/1@{digits}")
    return server.client.post("/v1/feedback", content=body, headers={"content-type": "application/json"})


def report(server: Server, kind: str) -> dict[str, Any]:
    feedback: dict[str, Any] = server.client.get(f"/v1/feedback/{kind}/plan").json()
    return feedback


def ref(kind: str, version: int = 1) -> dict[str, Any]:
    return {"kind": kind, "name": "plan", "version": version}


@pytest.mark.parametrize("kind", KINDS)
def test_an_outcome_told_by_id_or_by_inputs_is_held_against_the_same_estimates(kinds: Server, kind: str) -> None:
    """The decision's id carries what was expected; the artifact and its inputs give it again."""
    before = report(kinds, kind)
    decision = decided(kinds, kind)["decision"]
    assert decision.startswith(f"{kind}/plan/1@")
    assert give(kinds, {"decision": decision, "correct": True, "cost": 2.5, "time": 2.5}).status_code == 200
    by_id = report(kinds, kind)
    again = {"artifact": ref(kind), "inputs": INPUTS[kind], "correct": True, "cost": 2.5, "time": 2.5}
    reply = {"accepted": 1, "rows": 0, "drift": {f"{kind}/plan/1": []}, "alarms": {}}
    assert give(kinds, again).json() == reply
    by_inputs = report(kinds, kind)
    assert by_inputs["outcomes"] == by_id["outcomes"] + 1 == before["outcomes"] + 2
    for quantity in ("accuracy", "cost", "time"):
        first, second = by_id[quantity]["estimated"], by_inputs[quantity]["estimated"]
        assert second == first if first is None else second == pytest.approx(first, rel=1e-12)
    assert by_id["time" if kind == "cascade" else "cost"]["estimated"] is not None


def test_what_is_expected_is_what_the_reply_says(kinds: Server) -> None:
    """The numbers of the id are those of what is expected, beside it."""
    index, portfolio = decided(kinds, "index"), decided(kinds, "portfolio")
    assert index["decision"].endswith(f"?accuracy={index['expected']['accuracy']!r}&cost={index['cost']!r}")
    assert portfolio["decision"].endswith(f"&cost={portfolio['cost']!r}")
    cascade = decided(kinds, "cascade")
    assert cascade["decision"].endswith(f"time={cascade['expected']['time']!r}")
    low, high = cascade["expected"]["time_interval"]
    assert low < cascade["expected"]["time"] < high


def test_an_outcome_of_another_artifact_with_the_same_number_is_refused(kinds: Server) -> None:
    decision = decided(kinds, "cascade")["decision"]
    other = re.sub("@[0-9a-f]{4}", "@0000", decision)
    reply = give(kinds, {"decision": other, "correct": True})
    assert (reply.status_code, reply.json()["type"]) == (404, "urn:parsimony:unknown-version")


def test_batches_have_an_id_too(kinds: Server) -> None:
    """An assignment's expects means."""
    queries = {"queries": [[0.9, 0.4], [0.4, 0.9]], "budget": "60%"}
    assigned = kinds.client.post("/v1/portfolios/plan/assignments", json=queries).json()
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
    ({"artifact": ref("cascade"), "inputs": {"deadline": 0.1}, "correct": True}, "*", "not yield a decision"),
    ({"artifact": ref("cascade"), "inputs": {"line": 1}, "correct": True}, "*", ""),
    ({"artifact": ref("index"), "inputs": {"budget": -1}, "correct": True}, "*", "must be at least 0"),
    ({"artifact": ref("index"), "cost": -1}, "cost", "must be at least 0"),
    ({"decision": AN_ID, "row": {"truth": "cat"}}, "*", "missing"),
    ({"decision": AN_ID, "correct": True, "embedding": [1.0]}, "", "row"),
]
"""An outcome, the field that is refused (of the outcome as a whole: none; any: a star), and what the refusal names."""


@pytest.mark.parametrize(("item", "field", "message"), BAD)
def test_a_bad_outcome_is_refused_by_its_field_and_nothing_is_counted(
    kinds: Server, item: dict[str, Any], field: str, message: str
) -> None:
    """Good ones beside it are not counted either."""
    before = report(kinds, "cascade")
    reply = give(kinds, item, {"decision": AN_ID, "correct": True})
    assert reply.status_code == 422, reply.text
    fault = reply.json()["errors"][0]
    assert fault["loc"][:2] == ["items", 0]
    assert field == "*" or fault["loc"][2:] == [field] * bool(field)
    assert message in fault["msg"]
    assert report(kinds, "cascade") == before


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"{", b'{"items": [}', b'{"items": "\xff"}', b"[" * 100_000, b"9" * 5000, b"[]", b'"items"', b"7"],
)
def test_a_body_that_is_none_is_refused_as_every_route_refuses_it(kinds: Server, body: bytes) -> None:
    """To the letter as that of a route which the framework reads."""
    headers = {"content-type": "application/json"}
    ours = kinds.client.post("/v1/feedback", content=body, headers=headers)
    usual = kinds.client.post("/v1/cascades/solve", content=body, headers=headers)
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
def test_every_fault_of_a_body_is_told_at_its_place(kinds: Server, body: Any, places: list[list[Any]]) -> None:
    """The outcomes are read one by one, and refused together."""
    faults = kinds.client.post("/v1/feedback", json=body).json()["errors"]
    assert [fault["loc"] for fault in faults] == places
    assert all(fault["msg"] for fault in faults)


@pytest.mark.parametrize(
    ("artifact", "code"),
    [
        (ref("cascade", 9), "unknown-version"),
        ({"kind": "cascade", "name": "other", "version": 1}, "unknown-artifact"),
        ({"kind": "oracle", "name": "plan", "version": 1}, "unknown-artifact"),
    ],
)
def test_an_unknown_version_is_404(kinds: Server, artifact: dict[str, Any], code: str) -> None:
    """Whichever way it is named."""
    spelt = f"{artifact['kind']}/{artifact['name']}/{artifact['version']}@{MADE_UP}?time=1"
    for item in ({"artifact": artifact, "correct": True}, {"decision": spelt, "correct": True}):
        reply = give(kinds, item)
        assert (reply.status_code, reply.json()["type"]) == (404, f"urn:parsimony:{code}")


def test_drift_is_raised_in_the_record_and_the_metrics_and_can_be_forgotten(kinds: Server) -> None:
    """A policy whose answers are all wrong has drifted; deleting its feedback clears it."""
    decision = decided(kinds, "policy")["decision"]
    reply = give(kinds, *[{"decision": decision, "correct": False, "cost": 1.0, "classifier": "fast"}] * 200)
    assert reply.json()["drift"] == {"policy/plan/1": ["accuracy"]}
    (alarm,) = reply.json()["alarms"]["policy/plan/1"]
    assert (alarm["quantity"], alarm["direction"], alarm["after"]) == ("accuracy", "below", 0)
    assert alarm["change_point"] <= 16
    feedback = report(kinds, "policy")
    assert feedback["accuracy"]["drift"]
    assert feedback["classifiers"][0]["classifier"] == "fast"
    assert kinds.client.get("/v1/artifacts/policy/plan").json()["drift"] == ["accuracy"]
    listed = kinds.client.get("/v1/artifacts", params={"kind": "policy"}).json()["items"]
    assert listed[0]["drift"] == ["accuracy"]
    line = 'parsimony_drift{kind="policy",name="plan",quantity="accuracy"} 1.0'
    wait_for(lambda: line in kinds.client.get("/metrics").text, 10)
    assert 'parsimony_feedback_total{kind="policy",name="plan"}' in kinds.client.get("/metrics").text
    assert kinds.client.delete("/v1/feedback/policy/plan").status_code == 204
    assert report(kinds, "policy")["outcomes"] == 0
    wait_for(lambda: line not in kinds.client.get("/metrics").text, 10)


def test_outcomes_change_no_answer(kinds: Server) -> None:
    """Whatever is told, the same question is answered alike."""
    before = decided(kinds, "index")
    assert give(kinds, *[{"decision": before["decision"], "correct": False, "cost": 1e6}] * 300).json()["drift"] == {
        "index/plan/1": ["accuracy", "cost"]
    }
    assert decided(kinds, "index") == before


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


def test_a_rebuild_learns_from_the_old_dataset_and_the_rows(kinds: Server) -> None:
    """It makes the next version, from a dataset of its own, and begins with no feedback."""
    refused = run(kinds, "rebuild", "index", "plan")
    assert (refused.returncode, "has no rows among its feedback" in refused.stderr) == (1, True)
    assert give(kinds, *rows(range(50))).json()["rows"] == 50
    table = run(kinds, "feedback", "cascade", "plan")
    assert table.returncode == 0
    assert "50 rows" in table.stdout
    done = run(kinds, "rebuild", "cascade", "plan", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["version"], record["dataset"]) == (2, "trace.2")
    assert kinds.client.get("/v1/datasets/trace.2").json()["rows"] == 450
    assert record["params"] == kinds.client.get("/v1/artifacts/cascade/plan/versions").json()["items"][0]["params"]
    wait_for(lambda: report(kinds, "cascade")["artifact"]["version"] == 2, 5)
    assert report(kinds, "cascade")["outcomes"] == 0
    assert kinds.client.get("/v1/feedback/cascade/plan", params={"version": 1}).json()["rows"] == 50


def test_rows_tell_of_each_classifier_how_accurate_it_still_is(kinds: Server) -> None:
    """Outcomes have no answers; one classifier's column is wrong from some row on."""
    kinds.client.delete("/v1/feedback/portfolio/plan")
    sent = [{**row, "decision": "portfolio/plan/1?cost=2.0"} for row in rows(range(400))]
    assert give(kinds, *sent).json()["drift"] == {"portfolio/plan/1": []}
    for item in sent[:100]:
        item["row"]["fast_says"] = "owl" if item["row"]["truth"] != "owl" else "cat"
    alarms = give(kinds, *sent[:100]).json()["alarms"]["portfolio/plan/1"]
    assert {(alarm["quantity"], alarm["classifier"], alarm["direction"]) for alarm in alarms} == {
        ("classifiers", "fast", "below")
    }
    assert abs(alarms[0]["change_point"] - 401) <= 20
    assert kinds.client.get("/v1/artifacts/portfolio/plan").json()["drift"] == ["classifiers"]
    kinds.client.delete("/v1/feedback/portfolio/plan")


def test_a_rebuild_over_http_queues_the_next_version(kinds: Server) -> None:
    """From the rows that the request chooses; the command line does the same against a server."""
    give(kinds, *({**row, "decision": f"policy/plan/1@{MADE_UP}?cost=2.0"} for row in rows(range(60))))
    path = "/v1/artifacts/policy/plan/rebuild"
    for body, field in (({"half_life": 0}, "half_life"), ({"since": "yesterday"}, "since"), ({"age": 1}, "age")):
        refused = kinds.client.post(path, json=body)
        assert (refused.status_code, refused.json()["errors"][0]["loc"][-1]) == (422, field)
    assert kinds.client.post("/v1/artifacts/policy/other/rebuild", json={}).status_code == 404
    reply = kinds.client.post(path, json={"only_new": True, "since": "2020-01-01T00:00:00Z"})
    assert reply.status_code == 202, reply.text
    started = reply.json()
    assert (started["old_rows"], started["new_rows"], started["change_point"]) == (0, 60, None)
    assert reply.headers["location"] == f"/v1/builds/{started['id']}"
    assert kinds.client.get(f"/v1/datasets/{started['dataset']}").json()["rows"] == 60
    kinds.client.delete(f"/v1/builds/{started['id']}")
    wait_for(lambda: kinds.client.get(f"/v1/builds/{started['id']}").json()["finished_at"] is not None, 30)
    done = run(kinds, "rebuild", "cascade", "plan", "--version", "1", "--only-new", "--dataset", "new-rows", "--json")
    assert done.returncode == 0, done.stderr
    assert kinds.client.get("/v1/datasets/new-rows").json()["rows"] == 50


def test_outcomes_by_id_need_no_plan_of_a_version_that_is_no_longer_active(kinds: Server) -> None:
    """Its bytes may be gone: what the record tells is enough; inputs, which are decided again, need them."""
    decision = decided(kinds, "portfolio")["decision"]
    data = kinds.client.get("/v1/artifacts/portfolio/plan/versions/1/export").content
    imported = kinds.client.post(
        "/v1/artifacts/import", content=data, headers={"content-type": "application/octet-stream"}
    ).json()
    wait_for(lambda: report(kinds, "portfolio")["artifact"]["version"] == 2, 5)
    with closing(Store(f"unix://{socket_path(kinds.data_dir.resolve() / 'redis')}")) as store:
        store.client.delete(make_store_key("blob", imported["sha256"]))
    assert give(kinds, {"decision": decision, "correct": True, "cost": 2.0}).json()["accepted"] == 1
    again = {"artifact": ref("portfolio"), "inputs": INPUTS["portfolio"], "correct": True}
    assert give(kinds, again).status_code == 503
