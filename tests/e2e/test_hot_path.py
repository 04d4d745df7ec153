"""The hot path and the routes behind it give the same answers to requests, good and bad.

A request reaches the route if a letter of its first parameter's name is escaped, or its content type names a charset.
"""

import asyncio
import json
import random
from collections.abc import Iterator, MutableMapping
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from app.http.fast_router import FastRouter, FastRoutes
from app.observability.metrics import Metrics
from app.routes.kinds import make_kind_routes
from app.running.endpoint_caller import EndpointCaller
from app.running.ssrf_guard import SsrfGuard
from app.serving.catalog import Catalog
from app.serving.decision_replies import FastDecisionRoute
from app.serving.rollouts import RolloutSplitter
from app.settings import Settings
from app.store.repositories import open_repositories
from solvers import KINDS
from tests.support.cases import case_count
from tests.support.servers import Server

pytestmark = pytest.mark.smoke

PATH = "/v1/cascades/trace/decision"


GOOD = ["12", "12.5", "1e2", "14.25", "99999999", "012", "12.", ".5e2", "2", "1_0"]
BAD = ["0.5", "nan", "inf", "-inf", "", "-3", "0", "x", "true", "1e999", "0x10"]
BAD += ["12&deadline=13", "12&dedline=13", "12&a"]


@pytest.mark.parametrize("value", GOOD + BAD)
def test_the_hot_path_answers_as_the_route_does(server: Server, value: str) -> None:
    """An escape in the parameter's name, or a version, says the same and is left to the route."""
    same_id = {"x-request-id": "same"}
    hot = server.client.get(f"{PATH}?deadline={value}", headers=same_id)
    routed = server.client.get(f"{PATH}?%64eadline={value}", headers=same_id)
    assert alike(hot, routed, value) == (200 if value in GOOD else hot.status_code)
    assert (hot.status_code == 200) == (value in GOOD)
    if "&" in value:
        assert hot.json()["errors"][0]["loc"] == [value.rpartition("&")[2].partition("=")[0]]
    if value not in GOOD:
        return
    decision = hot.json()
    by_version = server.client.get(f"{PATH}?deadline={value}&version={decision['artifact']['version']}")
    assert by_version.content == hot.content
    assert decision["maximum_duration"] <= float(value)
    assert [step["classifier"] for step in decision["steps"]] == decision["cascade"]
    assert decision["steps"][-1]["confidence_threshold"] is None
    assert all(0 < step["confidence_threshold"] < 1 for step in decision["steps"][:-1])
    assert decision["steps"][0]["probability_of_reaching"] == 1.0
    assert decision["artifact"] == {"kind": "cascade", "name": "trace", "version": 1}


def test_the_step_function_agrees_with_single_decisions(server: Server) -> None:
    reply = server.client.get("/v1/cascades/trace/deadlines").json()
    assert reply["unit"] == "ms"
    for span in reply["items"]:
        at = server.client.get(PATH, params={"deadline": span["deadline_from"]}).json()
        assert (at["cascade"], at["expected_duration"]) == (span["cascade"], span["expected_duration"])
    assert reply["items"][-1]["deadline_to"] is None


def test_decisions_are_counted_by_outcome(server: Server) -> None:
    def counted(outcome: str) -> float:
        label = f'parsimony_decisions_total{{kind="cascade",name="trace",outcome="{outcome}"}} '
        lines = [line for line in server.client.get("/metrics").text.splitlines() if line.startswith(label)]
        return float(lines[0].split()[-1]) if lines else 0.0

    before = counted("answered"), counted("infeasible")
    server.client.get(PATH)
    server.client.get(PATH, params={"deadline": 0.5})
    assert (counted("answered"), counted("infeasible")) == (before[0] + 1, before[1] + 1)
    root = httpx.get(server.url, trust_env=False)
    assert (root.status_code, root.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert 'href="/docs"' in root.text


TIMES = case_count(120, 40)
"""Requests for each look-up."""
HEADERS = ("content-type", "content-length", "x-request-id")
ODD = ["nan", "inf", "", "x", "-1", "1e999", "0x1", "true", "1_0", "012", "12.", ".5", "1e2", " 3", "null"]


def number(draw: random.Random, most: float) -> str:
    return draw.choice(ODD) if draw.random() < 0.25 else f"{draw.uniform(0, most):.6g}"


def queries(draw: random.Random, names: dict[str, float], choices: dict[str, list[str]]) -> str:
    pairs = [f"{name}={number(draw, most)}" for name, most in names.items() if draw.random() < 0.8]
    pairs += [f"{name}={draw.choice(values)}" for name, values in choices.items() if draw.random() < 0.4]
    if draw.random() < 0.1:
        pairs.append(draw.choice(["unknown=1", *pairs]) if pairs else "unknown=1")
    draw.shuffle(pairs)
    return "&".join(pairs)


def alike(first: httpx.Response, second: httpx.Response, asked: object) -> int:
    assert first.status_code == second.status_code, asked
    assert first.content == second.content, asked
    assert [first.headers.get(name) for name in HEADERS] == [second.headers.get(name) for name in HEADERS], asked
    return first.status_code


@pytest.mark.parametrize(
    ("path", "names", "choices"),
    [
        ("cascades/plan/decision", {"deadline": 30}, {}),
        ("indexes/plan/decision", {"size": 300, "budget": 12}, {"method": ["poly-dom", "greedy", "naive", "best"]}),
        ("pipelines/plan/decision", {"budget": 8, "min_accuracy": 1.1, "min_coverage": 1.1}, {}),
    ],
)
def test_a_look_up_by_get_is_answered_alike(
    all_kinds: Server, path: str, names: dict[str, float], choices: dict[str, list[str]]
) -> None:
    draw, seen = random.Random(path), set()
    for _ in range(TIMES):
        query = queries(draw, names, choices)
        if not query:
            continue
        escaped = f"%{ord(query[0]):02x}{query[1:]}"
        same = {"x-request-id": "same"}
        hot, routed = (all_kinds.client.get(f"/v1/{path}?{q}", headers=same) for q in (query, escaped))
        seen.add(alike(hot, routed, query))
    assert {200, 422} <= seen


def a_route(draw: random.Random) -> Any:
    return {
        "query": [draw.choice([draw.random(), 2, -1.5, "x", None]) for _ in range(draw.choice([2, 2, 2, 2, 1, 3]))]
        if draw.random() < 0.4
        else [draw.random(), draw.random()],
        "budget": draw.choice(["50%", "5", "101%", draw.uniform(0, 15), {}, 3, -1]),
    }


def a_step(draw: random.Random) -> Any:
    values = {
        "age": [draw.uniform(20, 90), "old", None, [1.0]],
        "blood": [[5.0, None], [8, 1], 3],
        "ward": ["a", 1, None],
    }
    known = {name: draw.choice(choices) for name, choices in values.items() if draw.random() < 0.6}
    return {"acquired": known} | ({"solution": draw.choice([0, 1, 999, -1, "x"])} if draw.random() < 0.3 else {})


def an_item(draw: random.Random) -> Any:
    values: dict[str, list[Any]] = {
        "fast": [["cat", 0.9], "cat", ["dog", 2], {"label": "owl", "confidence": 0.4}],
        "strong": ["cat", 3],
    }
    known = {name: draw.choice(choices) for name, choices in values.items() if draw.random() < 0.5}
    targets: list[dict[str, Any]] = [{}, {"budget": draw.uniform(0, 12)}, {"tradeoff": 0.02}, {"budget": "x"}]
    return {"acquired": known, "item": f"item-{draw.random()}", **draw.choice(targets)}


@pytest.mark.parametrize(
    ("path", "make"),
    [("policies/plan/decision", an_item), ("portfolios/plan/decision", a_route), ("pipelines/plan/decision", a_step)],
)
def test_a_look_up_by_post_is_answered_alike(all_kinds: Server, path: str, make: Any) -> None:
    draw, seen = random.Random(path), set()
    for _ in range(TIMES):
        body = json.dumps(make(draw) | ({"unknown": 1} if draw.random() < 0.1 else {}))
        if draw.random() < 0.1:
            body = body[: draw.randrange(len(body))]
        kinds = ("application/json", "application/json; charset=utf-8")
        hot, routed = (
            all_kinds.client.post(f"/v1/{path}", content=body, headers={"content-type": k, "x-request-id": "same"})
            for k in kinds
        )
        seen.add(alike(hot, routed, body))
    assert {200, 422} <= seen


def test_a_long_body_is_refused_wherever_it_goes(all_kinds: Server) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'{"acquired": {"age": 1'
        for _ in range(20):
            yield b"0" * 100_000
        yield b"}}"

    for path in ("pipelines/plan/decision", "portfolios/plan/decision", "pipelines/nosuch/decision"):
        reply = all_kinds.client.post(f"/v1/{path}", content=chunks(), headers={"content-type": "application/json"})
        assert reply.status_code == 413
        assert reply.json()["type"] == "urn:parsimony:payload-too-large"


def test_every_subject_says_what_it_would_decide_or_why_not(all_kinds: Server) -> None:
    asked: dict[str, Any] = {"name": "plan", "size": 64, "budget": 4, "deadline": 13}
    by_kind = {
        one["artifact"]["kind"]: one for one in all_kinds.client.get("/v1/decisions", params=asked).json()["items"]
    }
    assert by_kind.keys() == {"cascade", "index", "portfolio", "pipeline", "policy"}
    assert "query" in by_kind["portfolio"].pop("refusal")
    assert all(one["savings"]["headline"] for one in by_kind.values())
    strict = all_kinds.client.get("/v1/decisions", params=asked | {"min_accuracy": 1.0}).json()["items"]
    refusals = {one["artifact"]["kind"]: one["refusal"] for one in strict}
    assert refusals["index"]
    assert refusals["cascade"]
    for kind, path in {
        "cascade": "cascades/plan/decision?deadline=13&budget=4",
        "index": "indexes/plan/decision?size=64&budget=4",
        "pipeline": "pipelines/plan/decision?budget=4",
    }.items():
        alone = all_kinds.client.get(f"/v1/{path}").json()
        assert by_kind[kind]["decision"] | {"artifact": by_kind[kind]["artifact"]} == alone
        assert by_kind[kind]["refusal"] is None
    assert by_kind["policy"]["decision"]["action"] in ("acquire", "classify")
    nothing = all_kinds.client.get("/v1/decisions?name=plan&budget=0&deadline=0").json()["items"]
    by_kind = {one["artifact"]["kind"]: one for one in nothing}
    assert "size" in by_kind["index"]["refusal"]
    assert by_kind["index"]["ignored"] == by_kind["pipeline"]["ignored"] == ["deadline"]
    assert by_kind["pipeline"]["refusal"]
    assert by_kind["cascade"]["decision"] is None
    reply = all_kinds.client.get("/v1/decisions?name=nosuch")
    assert (reply.status_code, reply.json()["type"]) == (404, "urn:parsimony:unknown-artifact")
    assert all_kinds.client.get("/v1/decisions?name=plan&budget=nan").status_code == 422


DECLARED: tuple[FastDecisionRoute, ...] = tuple(
    look_up for kind in KINDS.values() for look_up in make_kind_routes(kind).fast_routes
)
GET: dict[str, str] = {
    "cascade": "deadline=13",
    "index": "size=64&budget=4",
    "pipeline": "budget=6",
    "policy": "budget=6.0",
}
POST: dict[str, Any] = {
    "cascade": {"deadline": 13},
    "index": {"size": 64, "budget": 4, "computed": ["glucose"]},
    "pipeline": {"budget": 6, "acquired": {"age": 50.0}},
    "policy": {"budget": 6.0, "item": "one", "acquired": {"fast": ["cat", 0.9]}},
    "portfolio": {"query": [0.9, 0.9], "budget": "50%"},
}
"""A plain question for each: its query string, or its body."""


async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError(f"{scope['path']} was left to the route")


@pytest.fixture(scope="module")
def catalog(all_kinds: Server) -> Catalog:
    with open_repositories(Settings(data_dir=all_kinds.data_dir), client_name="test") as repos:
        catalog = Catalog(repos.artifacts)
        catalog.refresh_plans()
    return catalog


@pytest.mark.parametrize("look_up", DECLARED, ids=lambda look_up: f"{look_up.method} {look_up.path}")
def test_the_hot_path_answers_with_no_route_behind_it(catalog: Catalog, look_up: FastDecisionRoute) -> None:
    asked = {("GET", kind) for kind in GET} | {("POST", kind) for kind in POST}
    assert {(each.method, each.kind) for each in DECLARED} == asked
    query = GET[look_up.kind] if look_up.method == "GET" else ""
    body = None if look_up.method == "GET" else POST[look_up.kind]
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": json.dumps(body).encode()}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope: dict[str, Any] = {
        "type": "http",
        "method": look_up.method,
        "path": look_up.path.replace("{name}", "plan"),
        "query_string": query.encode(),
        "headers": [(b"content-type", b"application/json")] if body is not None else [],
    }

    async def answer() -> None:
        caller = EndpointCaller(SsrfGuard(()), Metrics())
        traffic = RolloutSplitter(None, Metrics())  # type: ignore[arg-type]  # without a rollout
        scope["state"] = {"context": SimpleNamespace(catalog=catalog, caller=caller, rollouts=traffic)}
        await FastRouter(nothing, FastRoutes(DECLARED), Metrics())(scope, receive, send)
        await caller.close()

    asyncio.run(answer())
    assert sent[0]["status"] == 200
    assert json.loads(sent[1]["body"])["artifact"]["kind"] == look_up.kind
