"""Rollouts over HTTP and on the command line: shadow and canary of every kind, promotion, abort, and faults."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from solvers import KINDS
from tests.support.commands import ran
from tests.support.kinds import SAMPLES, build_all, upload_all
from tests.support.servers import Server, running_server, wait_for

WITH_ITEM = tuple(name for name, kind in KINDS.items() if "item" in kind.query.model_fields)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("rollouts")) as server:
        upload_all(server)
        build_all(server)
        build_all(server)  # the second version of each
        yield server


def put(server: Server, kind: str, **rules: Any) -> httpx.Response:
    server.client.put(f"/v1/artifacts/{kind}/plan/active", json={"version": 1}).raise_for_status()
    wait_for(lambda: decide(server, kind, "a")["artifact"]["version"] == 1 or is_running(server, kind), 5)
    return server.client.put(f"/v1/artifacts/{kind}/plan/rollout", json={"version": 2, **rules})


def is_running(server: Server, kind: str) -> bool:
    reply = server.client.get(f"/v1/artifacts/{kind}/plan/rollout")
    return reply.status_code == 200 and reply.json()["status"] == "running"


def show(server: Server, kind: str) -> dict[str, Any]:
    return dict(server.client.get(f"/v1/artifacts/{kind}/plan/rollout").json())


def decide(server: Server, kind: str, item: str, **params: int) -> dict[str, Any]:
    inputs = SAMPLES[kind].inputs | ({"item": item} if kind in WITH_ITEM else {})
    reply = server.client.post(f"/v1/{KINDS[kind].plural}/plan/decision", json=inputs, params=params)
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


def report(server: Server, decisions: list[dict[str, Any]], rates: dict[int, float], **more: Any) -> None:
    """Report as many correct answers as the rate of the version says, evenly."""
    items, counts = [], dict.fromkeys(rates, 0)
    for decision in decisions:
        version = decision["artifact"]["version"]
        counts[version] += 1
        is_correct = int(counts[version] * rates[version]) > int((counts[version] - 1) * rates[version])
        items.append({"decision": decision["decision"], "correct": is_correct, **more})
    reply = server.client.post("/v1/feedback", json={"items": items})
    assert reply.status_code == 200, reply.text


@pytest.mark.parametrize("kind", KINDS)
def test_a_canary_is_promoted_by_feedback(server: Server, kind: str) -> None:
    reply = put(server, kind, share=0.5, promote={})
    assert (reply.status_code in (200, 201), reply.json()["status"]) == (True, "running")
    decisions = [decide(server, kind, str(k)) for k in range(400)]
    versions = [one["artifact"]["version"] for one in decisions]
    assert 120 < versions.count(2) < 280
    if kind in WITH_ITEM:
        assert [decide(server, kind, str(k))["artifact"]["version"] for k in range(40)] == versions[:40]
    report(server, decisions, {1: 0.5, 2: 0.95})
    rollout = show(server, kind)
    assert (rollout["status"], [one["event"] for one in rollout["events"]]) == ("promoted", ["started", "promoted"])
    wait_for(lambda: decide(server, kind, "a")["artifact"]["version"] == 2, 5)
    assert server.client.get(f"/v1/artifacts/{kind}/plan").json()["version"] == 2


def test_decisions_that_were_not_drawn_are_not_compared(server: Server) -> None:
    put(server, "cascade", share=0.5, promote={})
    report(server, [decide(server, "cascade", str(k), version=1 + k % 2) for k in range(200)], {1: 0.5, 2: 0.95})
    accuracy = show(server, "cascade")["accuracy"]
    assert (accuracy["active"]["outcomes"], accuracy["candidate"]["outcomes"]) == (0, 0)
    report(server, [decide(server, "cascade", str(k)) for k in range(20)], {1: 0.5, 2: 0.95})
    accuracy = show(server, "cascade")["accuracy"]
    assert accuracy["active"]["outcomes"] + accuracy["candidate"]["outcomes"] == 20


@pytest.mark.parametrize("kind", ["cascade", "pipeline"])
def test_a_worse_canary_is_aborted(server: Server, kind: str) -> None:
    put(server, kind, share=0.5, promote={})
    report(server, [decide(server, kind, str(k)) for k in range(400)], {1: 0.9, 2: 0.4})
    assert show(server, kind)["status"] == "aborted"
    wait_for(lambda: {decide(server, kind, str(k))["artifact"]["version"] for k in range(20)} == {1}, 5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_shadow_only_compares(server: Server, kind: str) -> None:
    put(server, kind, mode="shadow", share=0.9)
    assert {decide(server, kind, str(k))["artifact"]["version"] for k in range(100)} == {1}
    wait_for(lambda: show(server, kind)["shadow"]["decisions"] > 10, 5)
    shadow = show(server, kind)["shadow"]
    assert (shadow["errors"], shadow["differing"]) == (0, 0)
    assert shadow["active_cost"] == pytest.approx(shadow["candidate_cost"])


def test_costs_in_feedback_can_decide(server: Server) -> None:
    put(server, "cascade", share=0.5, promote={"min_saving": 0.1}, max_item_cost=10)
    decisions = [decide(server, "cascade", str(k)) for k in range(400)]
    report(server, decisions, {1: 0.5, 2: 0.95}, cost=4.0)
    rollout = show(server, "cascade")
    assert (rollout["status"], rollout["cost_source"]) == ("running", "feedback")
    assert rollout["cost"]["difference"] == pytest.approx(0.0, abs=1e-9)


def test_a_rollout_can_be_stopped(server: Server) -> None:
    put(server, "cascade", share=0.5)
    assert server.client.delete("/v1/artifacts/cascade/plan/rollout").json()["status"] == "stopped"
    wait_for(lambda: {decide(server, "cascade", str(k))["artifact"]["version"] for k in range(20)} == {1}, 5)


@pytest.mark.parametrize(
    ("rules", "status", "field"),
    [
        ({"version": 9}, 404, None),
        ({"version": 1}, 409, None),
        ({"share": 0}, 422, "share"),
        ({"share": 1}, 422, "share"),
        ({"mode": "blue-green"}, 422, "mode"),
        ({"promote": {"max_accuracy_loss": 1}}, 422, "promote.max_accuracy_loss"),
        ({"promote": {"min_saving": -0.1}}, 422, "promote.min_saving"),
        ({"abort": {"max_extra_cost": -1}}, 422, "abort.max_extra_cost"),
        ({"max_item_cost": 0}, 422, "max_item_cost"),
        ({"until": "tomorrow"}, 422, "until"),
    ],
)
def test_rules_that_make_no_sense_are_refused(
    server: Server, rules: dict[str, Any], status: int, field: str | None
) -> None:
    reply = put(server, "index", **rules)
    assert reply.status_code == status
    if field is not None:
        assert [".".join(one["loc"]) for one in reply.json()["errors"]] == [field]


def test_an_artifact_without_a_rollout_has_none(server: Server) -> None:
    reply = server.client.get("/v1/artifacts/cascade/nothing/rollout")
    assert (reply.status_code, reply.json()["type"]) == (404, "urn:parsimony:unknown-artifact")


def test_the_command_line_starts_shows_and_stops(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put(server, "portfolio")
    server.client.delete("/v1/artifacts/portfolio/plan/rollout")
    put(server, "cascade", share=0.5)
    report(server, [decide(server, "cascade", str(k)) for k in range(20)], {1: 0.5, 2: 0.95})  # it has an interval
    monkeypatch.setenv("PARSIMONY_URL", server.url)
    named = ("portfolio", "plan")
    status, out, err = ran(monkeypatch, capsys, "rollouts", "start", *named, "--version", 2, "--min-saving", 0.1)
    assert status == 0, err
    assert max(map(len, out.splitlines())) <= 80
    status, out, err = ran(monkeypatch, capsys, "rollouts", "show", *named, "--json")
    rollout = json.loads(out)
    assert (rollout["status"], rollout["rules"]["promote"]["min_saving"]) == ("running", 0.1)
    status, out, err = ran(monkeypatch, capsys, "rollouts", "list", "--json")
    assert rollout in json.loads(out)["items"]
    out = ran(monkeypatch, capsys, "rollouts", "show", "cascade", "plan")[1]
    shown = show(server, "cascade")
    whole = ["version 1", "version 2", "outcomes", "difference", "interval", "evidence", "canary"]
    assert [word for word in [*whole, *(one["at"] for one in shown["events"])] if word not in out] == []
    assert max(map(len, out.splitlines())) <= 80
    assert ran(monkeypatch, capsys, "rollouts", "stop", *named)[0] == 0
    assert show(server, "portfolio")["status"] == "stopped"


def test_the_command_line_sets_shows_and_deletes_automation(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PARSIMONY_URL", server.url)
    fields = ("rebuild_on_drift=true", 'rollout={"mode": "shadow", "share": 0.2}')
    status, out, err = ran(monkeypatch, capsys, "automation", "set", "cascade", "plan", *fields)
    assert (status, max(map(len, out.splitlines())) <= 80) == (0, True), err
    shown = json.loads(ran(monkeypatch, capsys, "automation", "show", "cascade", "plan", "--json")[1])
    rollout = shown["spec"]["rollout"]
    assert (shown["spec"]["rebuild_on_drift"], rollout["mode"], rollout["share"]) == (True, "shadow", 0.2)
    assert (shown["problem"], shown["events"]) == (None, [])
    assert ran(monkeypatch, capsys, "automation", "set", "cascade", "plan", "rebuild=true")[0] == 1
    assert ran(monkeypatch, capsys, "automation", "delete", "cascade", "plan")[0] == 0
    assert server.client.get("/v1/artifacts/cascade/plan/automation").json()["spec"]["rebuild_on_drift"] is False


def test_a_build_can_wait_for_a_rollout(server: Server) -> None:
    sample = SAMPLES["cascade"]
    body = {"kind": "cascade", "name": "waiting", "dataset": sample.dataset, "params": sample.params}
    for activate in (False, False, True):  # the first version of a name is active in any case
        path = server.client.post("/v1/builds", json={**body, "activate": activate}).headers["location"]
        wait_for(lambda path=path: server.client.get(path).json()["status"] == "succeeded", 60)
        versions = server.client.get("/v1/artifacts/cascade/waiting/versions").json()["items"]
        assert [one["version"] for one in versions if one["active"]] == [3 if activate else 1]
