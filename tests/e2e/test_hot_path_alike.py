"""Generated requests, good and bad: the hot path and the routes behind it give the same answers.

A request reaches the route if a letter of its first parameter's name is escaped, or its content type names a charset.
"""

import json
import random
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.servers import Server

pytestmark = pytest.mark.smoke

TIMES = 120
"""Requests for each look-up."""
HEADERS = ("content-type", "content-length", "x-request-id")
ODD = ["nan", "inf", "", "x", "-1", "1e999", "0x1", "true", "1_0", "012", "12.", ".5", "1e2", " 3", "null"]


def number(draw: random.Random, most: float) -> str:
    return draw.choice(ODD) if draw.random() < 0.25 else f"{draw.uniform(0, most):.6g}"


def queries(draw: random.Random, names: dict[str, float], choices: dict[str, list[str]]) -> str:
    """Write a query string: some parameters left out, some twice, some unknown."""
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
    all_subjects: Server, path: str, names: dict[str, float], choices: dict[str, list[str]]
) -> None:
    draw, seen = random.Random(path), set()
    for _ in range(TIMES):
        query = queries(draw, names, choices)
        if not query:
            continue
        escaped = f"%{ord(query[0]):02x}{query[1:]}"
        same = {"x-request-id": "same"}
        hot, routed = (all_subjects.client.get(f"/v1/{path}?{q}", headers=same) for q in (query, escaped))
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
def test_a_look_up_by_post_is_answered_alike(all_subjects: Server, path: str, make: Any) -> None:
    draw, seen = random.Random(path), set()
    for _ in range(TIMES):
        body = json.dumps(make(draw) | ({"unknown": 1} if draw.random() < 0.1 else {}))
        if draw.random() < 0.1:
            body = body[: draw.randrange(len(body))]
        kinds = ("application/json", "application/json; charset=utf-8")
        hot, routed = (
            all_subjects.client.post(f"/v1/{path}", content=body, headers={"content-type": k, "x-request-id": "same"})
            for k in kinds
        )
        seen.add(alike(hot, routed, body))
    assert {200, 422} <= seen


def test_a_long_body_is_refused_wherever_it_goes(all_subjects: Server) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'{"acquired": {"age": 1'
        for _ in range(20):
            yield b"0" * 100_000
        yield b"}}"

    for path in ("pipelines/plan/decision", "portfolios/plan/decision", "pipelines/nosuch/decision"):
        reply = all_subjects.client.post(f"/v1/{path}", content=chunks(), headers={"content-type": "application/json"})
        assert reply.status_code == 413
        assert reply.json()["type"] == "urn:parsimony:payload-too-large"


def test_every_subject_says_what_it_would_decide_or_why_not(all_subjects: Server) -> None:
    asked: dict[str, Any] = {"name": "plan", "size": 64, "budget": 4, "deadline": 13}
    by_solver = {
        one["artifact"]["solver"]: one for one in all_subjects.client.get("/v1/decisions", params=asked).json()["items"]
    }
    assert by_solver.keys() == {"cascade", "index", "portfolio", "pipeline", "policy"}
    assert "query" in by_solver["portfolio"].pop("refusal")
    assert all(one["worth"]["headline"] for one in by_solver.values())
    strict = all_subjects.client.get("/v1/decisions", params=asked | {"min_accuracy": 1.0}).json()["items"]
    refusals = {one["artifact"]["solver"]: one["refusal"] for one in strict}
    assert "asked is 1" in refusals["index"]
    assert "asked is" in refusals["cascade"]
    for solver, path in {
        "cascade": "cascades/plan/decision?deadline=13&budget=4",
        "index": "indexes/plan/decision?size=64&budget=4",
        "pipeline": "pipelines/plan/decision?budget=4",
    }.items():
        alone = all_subjects.client.get(f"/v1/{path}").json()
        assert by_solver[solver]["decision"] | {"artifact": by_solver[solver]["artifact"]} == alone
        assert by_solver[solver]["refusal"] is None
    assert by_solver["policy"]["decision"]["action"] in ("acquire", "classify")


def test_what_cannot_be_answered_says_why(all_subjects: Server) -> None:
    asked: dict[str, Any] = {"name": "plan", "budget": 0, "deadline": 0}
    by_solver = {
        one["artifact"]["solver"]: one for one in all_subjects.client.get("/v1/decisions", params=asked).json()["items"]
    }
    assert "size" in by_solver["index"]["refusal"]
    assert by_solver["index"]["ignored"] == by_solver["pipeline"]["ignored"] == ["deadline"]
    assert "cheapest configuration" in by_solver["pipeline"]["refusal"]
    assert by_solver["cascade"]["decision"] is None
    reply = all_subjects.client.get("/v1/decisions?name=nosuch")
    assert (reply.status_code, reply.json()["type"]) == (404, "urn:parsimony:unknown-artifact")
    assert all_subjects.client.get("/v1/decisions?name=plan&budget=nan").status_code == 422
