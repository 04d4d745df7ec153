"""Budgets of keys, teams, and artifacts hold for chats, runs, and batches, and replies have what is left."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.e2e import visits
from tests.e2e.chats import called, register, running_chats
from tests.support.commands import ran
from tests.support.llm_server import LlmServer, running_llms
from tests.support.patience import patient
from tests.support.servers import Server, wait_for

PRICES = {
    "cheap": {"input_per_million": 1.0, "output_per_million": 2.0},
    "strong": {"input_per_million": 30.0, "output_per_million": 60.0},
}
LONG = " and so on" * 300
"""The models report 1,000 input tokens, which the estimate by length must not be below."""
EASY: Any = [{"role": "user", "content": f"an easy prompt{LONG}"}]
HARD: Any = [{"role": "user", "content": f"a prompt{LONG}"}]
COST = {name: (1000 * one["input_per_million"] + 4 * one["output_per_million"]) / 1e6 for name, one in PRICES.items()}
TEAM = {"scope": "team", "target": "search", "unit": "USD", "period": "day"}
LIMITED = {"max_tokens": 10}


@pytest.fixture(scope="module")
def llms() -> Iterator[LlmServer]:
    with running_llms() as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    keys = "ops:build,alice:decide@search,bob:decide@search,carol:decide,dave:decide@report"
    with running_chats(tmp_path_factory.mktemp("budgets"), api_keys=keys) as server:
        yield server


@pytest.fixture(autouse=True)
def _as_new(llms: LlmServer, server: Server) -> None:
    llms.switch()
    register(server, llms, **{name: {"prices": prices} for name, prices in PRICES.items()})
    for one in server.client.get("/v1/budgets").json()["items"]:
        assert server.client.delete(f"/v1/budgets/{one['name']}").status_code == 204


def put(server: Server, name: str = "search", **fields: Any) -> dict[str, Any]:
    reply = server.client.put(f"/v1/budgets/{name}", json={**TEAM, **fields})
    assert reply.status_code in (200, 201), reply.text
    shown: dict[str, Any] = reply.json()
    return shown


def balance(server: Server, name: str = "search", at: int = 0) -> dict[str, Any]:
    one: dict[str, Any] = server.client.get(f"/v1/budgets/{name}").json()["balances"][at]
    return one


def chat(server: Server, key: str = "alice", **fields: Any) -> httpx.Response:
    body = {"model": "cascade/chat", "messages": EASY, **LIMITED, **fields}
    return server.client.post("/v1/chat/completions", json=body, headers={"authorization": f"Bearer {key}"})


def test_a_budget_is_set_shown_replaced_and_deleted(server: Server) -> None:
    shown = put(server, amount=2.0, requests_per_minute=60)
    assert [(one["quantity"], one["amount"], one["spent"]) for one in shown["balances"]] == [
        ("cost", 2.0, 0.0),
        ("requests", 60.0, 0.0),
    ]
    assert shown["balances"][0]["resets_at"].endswith("T00:00:00.000Z")
    assert chat(server).status_code == 200
    put(server, amount=3.0, period="total")
    one = balance(server)
    assert (one["spent"], one["resets_at"]) == (pytest.approx(COST["cheap"]), None)
    assert [each["name"] for each in server.client.get("/v1/budgets").json()["items"]] == ["search"]
    other = put(server, "ms", unit="ms", amount=1.0)
    assert len(other["warnings"]) == 3
    assert server.client.delete("/v1/budgets/search").status_code == 204
    assert server.client.get("/v1/budgets/search").status_code == 404
    assert put(server, amount=2.0)["balances"][0]["spent"] == 0.0


@pytest.mark.parametrize(
    ("fields", "loc"),
    [
        ({}, ["body"]),
        ({"amount": -1.0}, ["amount"]),
        ({"amount": 1.0, "period": "week"}, ["period"]),
        ({"amount": 1.0, "scope": "artifact", "target": "chat"}, ["body"]),
        ({"amount": 1.0, "offline_share": 2.0}, ["offline_share"]),
        ({"requests_per_minute": 0}, ["requests_per_minute"]),
    ],
)
def test_an_invalid_budget_is_refused(server: Server, fields: dict[str, Any], loc: list[str]) -> None:
    reply = server.client.put("/v1/budgets/search", json={**TEAM, **fields})
    assert reply.status_code == 422
    assert reply.json()["errors"][0]["loc"] == loc
    assert server.client.get("/v1/budgets/search").status_code == 404


def test_who_may_not_build_sees_no_budgets(server: Server) -> None:
    headers = {"authorization": "Bearer alice"}
    assert server.client.get("/v1/budgets", headers=headers).status_code == 403
    assert server.client.put("/v1/budgets/x", json={**TEAM, "amount": 1.0}, headers=headers).status_code == 403


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_team_is_charged_by_true_usage_and_refused_with_the_numbers(server: Server, streamed: bool) -> None:
    """Both members' chats count, easy ones with one call and hard ones with two; other keys are not limited."""
    amount = 4 * COST["strong"]
    put(server, amount=amount)
    spent, answered = 0.0, 0
    for place in range(20):
        reply = chat(server, ("alice", "bob")[place % 2], messages=(EASY, HARD)[place % 2], stream=streamed)
        if reply.status_code == 402:
            break
        assert reply.status_code == 200, reply.text
        spent += COST["cheap"] + COST["strong"] * (place % 2)
        answered += 1
        assert balance(server)["spent"] == pytest.approx(spent)
        assert balance(server)["reserved"] == 0.0
        assert reply.headers["x-parsimony-budget"] == "search"
        left = float(reply.headers["x-parsimony-budget-remaining"])
        if not streamed:
            assert left == pytest.approx(amount - spent, abs=1e-6)
        assert reply.headers["x-parsimony-budget-reset"].endswith("Z")
    assert 5 < answered < 9
    error = reply.json()["error"]
    assert error["code"] == "budget-spent"
    assert (error["budget"]["amount"], error["budget"]["budget"]) == (amount, "search")
    assert error["budget"]["spent"] == pytest.approx(spent)
    assert error["budget"]["planned"] > amount - spent
    assert chat(server, "carol").status_code == 200
    assert balance(server)["spent"] == pytest.approx(spent)
    run = server.client.post(
        "/v1/cascades/chat/runs", json={"item": "an easy prompt"}, headers={"authorization": "Bearer bob"}
    )
    assert (run.status_code, run.json()["budget"]["quantity"]) == (402, "cost")


def test_a_spent_budget_calls_only_the_cheapest_classifier(server: Server, llms: LlmServer) -> None:
    put(server, amount=0.01, when_spent="cheapest")
    for model in ("cascade/chat", "portfolio/chat"):
        llms.switch()
        reply = chat(server, model=model, messages=HARD, max_tokens=1000)
        assert called(reply.json()) == ["cheap"]
        assert "search" in reply.json()["parsimony"]["degraded"]
        assert llms.calls() == {"cheap": 1}, "the embedder is not called either"
    headers = {"authorization": "Bearer bob"}
    items = [{"item": f"a prompt{LONG}"}, {"item": f"another prompt{LONG}"}]
    many = server.client.post("/v1/cascades/chat/runs", json={"items": items}, headers=headers).json()
    assert [[step["classifier"] for step in one["steps"]] for one in many["items"]] == [["cheap"], ["cheap"]]
    assert balance(server)["spent"] == pytest.approx(4 * COST["cheap"])
    assert 'parsimony_budget_outcomes_total{budget="search",outcome="cheapest"}' in server.client.get("/metrics").text


def test_an_alert_only_alerts(server: Server) -> None:
    put(server, amount=COST["cheap"] / 2, when_spent="alert", requests_per_minute=1)
    replies = [chat(server) for _ in range(3)]
    assert {one.status_code for one in replies} == {200}
    assert {one.headers["x-parsimony-budget-alert"] for one in replies} == {"search"}
    assert {one.headers["x-parsimony-budget-remaining"] for one in replies} == {"0"}
    assert "budget spent budget=search" in server.log.read_text()


def test_limits_per_minute_are_shared_by_a_team(server: Server) -> None:
    put(server, requests_per_minute=3)
    replies = [chat(server, ("alice", "bob")[place % 2]) for place in range(8)]  # a minute may end in between
    statuses = [one.status_code for one in replies]
    assert 2 <= statuses.count(429) <= 5
    refused = next(one for one in replies if one.status_code == 429)
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert refused.json()["error"]["code"] == "too-many-requests"
    put(server, "tokens", tokens_per_minute=100, scope="artifact", target="portfolio/chat")
    refused = chat(server, "carol", model="portfolio/chat", max_tokens=1000)  # more than any minute has
    assert (refused.status_code, refused.json()["error"]["budget"]["quantity"]) == (402, "tokens")
    assert chat(server, "carol").status_code == 200


def test_several_budgets_hold_together(server: Server) -> None:
    """A key's, its team's, and an artifact's; what one refuses, none is charged for."""
    key = sha256(b"alice").hexdigest()[:8]
    put(server, "alice", scope="key", target=key, amount=1.0)
    put(server, "chat", scope="artifact", target="cascade/chat", amount=1.0)
    put(server, amount=0.0)
    assert chat(server).status_code == 402
    assert [balance(server, name)["reserved"] for name in ("alice", "chat", "search")] == [0.0] * 3
    put(server, amount=1.0)
    assert chat(server).status_code == chat(server, "bob").status_code == 200
    spent = [balance(server, name)["spent"] / COST["cheap"] for name in ("alice", "chat", "search")]
    assert spent == pytest.approx([1.0, 2.0, 2.0])


def test_a_call_whose_caller_leaves_is_charged_as_planned(server: Server, llms: LlmServer) -> None:
    put(server, amount=100.0)
    llms.switch(cheap={"delay_s": 5.0})
    with pytest.raises(httpx.ReadTimeout):
        server.client.post(
            "/v1/chat/completions",
            json={"model": "cascade/chat", "messages": EASY, "max_tokens": 500_000},
            headers={"authorization": "Bearer alice"},
            timeout=1.0,
        )
    wait_for(lambda: balance(server)["spent"] > 0, 10)
    assert balance(server)["spent"] == pytest.approx(1.0, rel=0.01)
    assert balance(server)["reserved"] == 0.0


def test_a_failed_call_is_not_charged(server: Server, llms: LlmServer) -> None:
    put(server, amount=10.0)
    llms.switch(cheap={"status": 503}, strong={"status": 503})
    assert chat(server).status_code in (429, 502)
    assert (balance(server)["spent"], balance(server)["reserved"]) == (0.0, 0.0)


def test_the_items_of_a_batch_are_charged_to_who_queued_it(server: Server, llms: LlmServer) -> None:
    amount = 8 * COST["cheap"] + COST["strong"]
    put(server, amount=amount)
    lines = "\n".join(json.dumps({"item": f"an easy prompt {i}{LONG}", "id": str(i)}) for i in range(12))
    spec = json.dumps({"kind": "cascade", "name": "chat", "max_concurrency": 1})
    files: dict[str, Any] = {"spec": (None, spec), "file": ("items", lines, "application/jsonl")}
    register(server, llms, **{name: {"prices": prices, "max_tokens": 10} for name, prices in PRICES.items()})
    reply = server.client.post("/v1/batches", files=files, headers={"authorization": "Bearer bob"})
    assert (reply.status_code, reply.json()["team"]) == (202, "search")
    path = reply.headers["location"]
    wait_for(lambda: server.client.get(path).json()["status"] == "succeeded", patient(60), server.log.read_text)
    batch = server.client.get(path).json()
    assert batch["failed"] > 0 < batch["done"]
    assert balance(server)["spent"] == pytest.approx(batch["spent"]["cost"])
    assert balance(server)["spent"] <= amount
    output = [json.loads(line) for line in server.client.get(f"{path}/output").text.splitlines()]
    assert {line["status"] for line in output if "error" in line} == {402}


def test_an_assignment_is_planned_within_what_is_left_and_counts(server: Server) -> None:
    """Ten hard queries: with the mean budget all get the strong model; then only as many as the budget pays."""
    body = {"queries": [[0.0, 1.0]] * 10, "budget": "100%"}
    path, headers = "/v1/portfolios/chat/assignments", {"authorization": "Bearer alice"}
    free = server.client.post(path, json=body, headers=headers).json()
    assert free["assignments"] == ["strong"] * 10
    put(server, amount=0.5)
    first = server.client.post(path, json=body, headers=headers)
    assert first.json()["assignments"] == ["strong"] * 10
    assert float(first.headers["x-parsimony-budget-remaining"]) == pytest.approx(0.5 - free["cost"])
    second = server.client.post(path, json=body, headers=headers).json()
    assert 0 < second["assignments"].count("strong") < 10
    assert balance(server)["spent"] == pytest.approx(free["cost"] + second["cost"])
    assert balance(server)["spent"] <= 0.5
    put(server, amount=balance(server)["spent"])
    assert server.client.post(path, json=body, headers=headers).status_code == 402
    put(server, amount=balance(server)["spent"], when_spent="cheapest")
    assert server.client.post(path, json=body, headers=headers).json()["assignments"] == ["cheap"] * 10
    costs = [[1e-3, 1.0]] * 10  # more than the mean of the cheapest, by which the budget was reserved
    own = server.client.post(path, json={**body, "costs": costs}, headers=headers)
    assert (own.status_code, own.json().get("assignments")) == (200, ["cheap"] * 10), own.text


def test_a_paced_budget_plans_for_the_items_that_are_expected(server: Server) -> None:
    """After a thousand cheap items, many more are expected, so that a hard item no longer gets the strong model."""
    headers, count = {"authorization": "Bearer alice"}, 1000
    assignments, run = "/v1/portfolios/chat/assignments", "/v1/portfolios/chat/runs"
    easy = {"queries": [[1.0, 0.0]] * count, "budget": "100%"}
    hard = {"queries": [[0.0, 1.0]] * 10, "budget": "100%"}
    item = {"item": f"a prompt{LONG}", "embedding": [0.0, 1.0]}
    cost = server.client.post(assignments, json=easy, headers=headers).json()["cost"]
    accurate = {"queries": [[0.0, 1.0]] * 10, "min_accuracy": 0.8}
    wanted = server.client.post(assignments, json=accurate, headers=headers).json()["assignments"]
    period = "day" if datetime.now(UTC).hour < 23 else "hour"
    amount = 30 * cost  # a tenth is released from the start: enough for all below, at any time of the day
    put(server, amount=amount, period=period, is_paced=True, when_spent="cheapest")
    free = server.client.post(run, json=item | {"budget": "100%"}, headers=headers).json()
    assert [step["classifier"] for step in free["steps"]] == ["strong"]
    assert server.client.post(assignments, json=easy, headers=headers).json()["assignments"] == ["cheap"] * count
    planned = server.client.post(assignments, json=hard, headers=headers).json()
    assert planned["assignments"].count("cheap") > 5
    kept = server.client.post(assignments, json=accurate, headers=headers).json()["assignments"]
    assert kept == wanted
    assert kept.count("strong") > planned["assignments"].count("strong")
    one = server.client.post(run, json=item | {"budget": "100%"}, headers=headers).json()
    assert ([step["classifier"] for step in one["steps"]], one["degraded"]) == (["cheap"], None)
    sent = {"items": [item] * 2, "budget": "100%"}
    runs = server.client.post(run, json=sent, headers=headers).json()["items"]
    assert [step["classifier"] for each in runs for step in each["steps"]] == ["cheap"] * 2


def spend(server: Server, **parameters: Any) -> dict[str, Any]:
    report: dict[str, Any] = server.client.get("/v1/spend", params=parameters).json()
    return report


def test_the_spend_report_compares_with_the_strongest_model(server: Server) -> None:
    """Two easy chats, and a hard one with both calls: each would have been one call of the strong model."""
    for messages in (EASY, EASY, HARD):
        assert chat(server, "dave", messages=messages).status_code == 200

    def rows() -> dict[str, Any]:
        report = spend(server, by=["team", "model"])
        return {row["model"]: row for row in report["rows"] if row["team"] == "report"}

    wait_for(lambda: sum(row["calls"] for row in rows().values()) == 4, 10, lambda: str(rows()))
    cheap, strong = rows()["cheap"], rows()["strong"]
    assert (cheap["calls"], strong["calls"], cheap["input_tokens"]) == (3, 1, 3000)
    assert (cheap["cost"], strong["cost"]) == pytest.approx((3 * COST["cheap"], COST["strong"]))
    assert (cheap["strongest_cost"], strong["strongest_cost"]) == pytest.approx((2 * COST["strong"], COST["strong"]))
    whole = spend(server)
    key = sha256(b"dave").hexdigest()[:8]
    assert any((row["key"], row["team"], row["artifact"]) == (key, "report", "cascade/chat") for row in whole["rows"])
    (total,) = (row for row in whole["totals"] if row["unit"] == "USD" and not row["is_planned"])
    measured = [row["cost"] for row in whole["rows"] if row["unit"] == "USD" and not row["is_planned"]]
    assert total["cost"] == pytest.approx(sum(measured))


def test_the_spend_report_has_the_planned_costs_of_assignments_apart_from_those_of_calls(server: Server) -> None:
    """Assigned items that also run are measured in rows of their own, so that no row counts them twice."""
    headers, name = {"authorization": "Bearer dave"}, "portfolio/chat"

    def rows(*, is_planned: bool) -> dict[str, Any]:
        report = spend(server, by=["artifact", "team", "model"])["rows"]
        own = [row for row in report if (row["artifact"], row["team"]) == (name, "report")]
        return {row["model"]: row for row in own if row["is_planned"] == is_planned}

    measured = rows(is_planned=False)
    sent = {"queries": [[0.0, 1.0]] * 3 + [[1.0, 0.0]] * 7, "budget": "100%"}
    made = server.client.post("/v1/portfolios/chat/assignments", json=sent, headers=headers).json()
    wait_for(lambda: len(rows(is_planned=True)) == 2, 10, lambda: str(spend(server)))
    planned = rows(is_planned=True)
    assert {model: row["calls"] for model, row in planned.items()} == made["usage"] == {"strong": 3, "cheap": 7}
    assert sum(row["cost"] for row in planned.values()) == pytest.approx(made["cost"])
    assert planned["strong"]["strongest_cost"] * 10 / 3 == pytest.approx(
        sum(row["strongest_cost"] for row in planned.values())
    )
    assert rows(is_planned=False) == measured
    item = {"item": f"a prompt{LONG}", "embedding": [0.0, 1.0], "budget": "100%"}
    assert server.client.post("/v1/portfolios/chat/runs", json=item, headers=headers).status_code == 200
    wait_for(lambda: rows(is_planned=False) != measured, 10, lambda: str(spend(server)))
    assert rows(is_planned=True) == planned
    totals = spend(server)["totals"]
    assert [row["is_planned"] for row in totals if row["unit"] == "USD"] == [False, True]


def test_the_spend_report_is_also_csv(server: Server) -> None:
    chat(server)
    wait_for(lambda: spend(server)["rows"], 10)
    reply = server.client.get("/v1/spend", params={"by": ["team", "model"]}, headers={"accept": "text/csv"})
    assert reply.headers["content-type"].startswith("text/csv")
    lines = reply.text.splitlines()
    assert lines[0] == "team,model,unit,is_planned,calls,cost,input_tokens,output_tokens,strongest_cost"
    assert any(line.startswith("search,cheap,USD,False,") for line in lines[1:])
    assert server.client.get("/v1/spend", params={"start": "2024-01-01", "end": "2026-01-01"}).status_code == 422
    assert server.client.get("/v1/spend", params={"by": "color"}).status_code == 422


@visits.NEEDED
def test_the_console_shows_the_spend_of_each_group(server: Server, browser: Browser) -> None:
    chat(server)
    assigned = {"queries": [[0.0, 1.0]], "budget": "100%"}
    server.client.post("/v1/portfolios/chat/assignments", json=assigned, headers={"authorization": "Bearer alice"})
    wait_for(lambda: len({row["is_planned"] for row in spend(server)["rows"] if row["team"] == "search"}) == 2, 10)
    with visits.visit(browser, server.url, "ops") as visit:
        visit.page.goto("/spend")
        for costs in ("measured", "planned"):
            expect(visit.page.get_by_role("row", name=f"search {costs}")).to_be_visible()
        for title in ("Cost by day (USD)", "Planned cost of assignments by day (USD)"):
            expect(visit.page.get_by_role("img", name=title, exact=True)).to_be_visible()
        visit.page.get_by_label("Group by").select_option("model")
        expect(visit.page.get_by_role("row", name="cheap measured")).to_be_visible()
        with visit.page.expect_download() as download:
            visit.page.get_by_role("button", name="Download as CSV").click()
        assert download.value.suggested_filename == "spend-model.csv"
        assert (visit.outside, visit.complaints) == ([], [])


def test_the_commands_set_list_and_delete_budgets_and_show_the_spend(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PARSIMONY_URL", server.url)
    monkeypatch.setenv("PARSIMONY_KEY", "ops")
    fields = ("scope=team", "target=search", "amount=2", "period=month", "requests_per_minute=60")
    assert ran(monkeypatch, capsys, "budgets", "set", "search", *fields)[0] == 0
    assert chat(server).status_code == 200
    status, out, _ = ran(monkeypatch, capsys, "budgets", "list", "--json")
    assert (status, json.loads(out)["items"][0]["balances"][0]["spent"]) == (0, pytest.approx(COST["cheap"]))
    assert "search" in ran(monkeypatch, capsys, "budgets", "list")[1]
    statuses = [ran(monkeypatch, capsys, "budgets", "delete", "search")[0] for _ in range(2)]
    assert statuses == [0, 1]
    wait_for(lambda: spend(server)["rows"], 10)
    assert "cheap" in ran(monkeypatch, capsys, "spend", "--by", "model")[1]


def test_a_paced_budget_releases_its_amount_over_the_period(server: Server) -> None:
    """Of a month's amount, at least a tenth and at most all is released; a total cannot be paced."""
    shown = put(server, amount=10.0, period="month", is_paced=True)["balances"][0]
    assert 1.0 <= shown["released"] <= 10.0
    put(server, amount=shown["spent"] + 1e-9, period="month", is_paced=True)
    error = chat(server).json()["error"]
    assert error["budget"]["released"] <= error["budget"]["amount"]
    refused = server.client.put("/v1/budgets/x", json={**TEAM, "amount": 1.0, "period": "total", "is_paced": True})
    assert refused.status_code == 422
