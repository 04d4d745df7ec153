"""Portfolios over HTTP: batches as JSON and as .npy, single queries, streams, the curve, and refusals."""

import io
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.e2e.test_errors import is_problem
from tests.support.samples import embedded_upload, table_upload, to_csv, trace_columns, trace_embeddings
from tests.support.servers import Server, running_server, wait_for
from tests.support.services import MEANWHILE, answered_before

PATH = "/v1/portfolios/trace"
PARQUET = "application/vnd.apache.parquet"
NPY, HEAD = {"content-type": "application/x-npy"}, {"content-type": PARQUET}
QUERIES = trace_embeddings(trace_columns(200, seed=1))


@pytest.fixture(scope="module")
def portfolio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("portfolio"), max_batch=10_000) as server:
        assert server.client.put("/v1/datasets/trace", files=embedded_upload()).status_code == 201
        assert server.client.put("/v1/datasets/plain", files=table_upload(to_csv(trace_columns()))).status_code == 201
        built = build(server, "trace", curve_points=5)
        assert built["status"] == "succeeded", built
        wait_for(lambda: server.client.get(f"{PATH}/curve").status_code == 200, 30)
        yield server


def build(server: Server, dataset: str, **params: object) -> Any:
    body = {"kind": "portfolio", "name": "trace", "dataset": dataset, "params": params}
    path = server.client.post("/v1/builds", json=body).headers["location"]
    wait_for(lambda: server.client.get(path).json()["status"] not in ("queued", "running"), 90)
    return server.client.get(path).json()


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def assign(server: Server, queries: Any = QUERIES, **body: Any) -> httpx.Response:
    return server.client.post(f"{PATH}/assignments", json={"queries": np.asarray(queries).tolist(), **body})


def post_npy(server: Server, content: bytes, **params: Any) -> httpx.Response:
    return server.client.post(f"{PATH}/assignments", params=params, content=content, headers=NPY)


@pytest.mark.parametrize("objective", ["mean", "min"])
@pytest.mark.parametrize("budget", [{"budget_total": 500.0}, {"budget": 2.5}, {"budget": "25%"}])
def test_a_batch_is_assigned_within_its_budget(portfolio: Server, budget: dict[str, Any], objective: str) -> None:
    reply = assign(portfolio, **budget, objective=objective)
    assert reply.status_code == 200, reply.text
    assignment = reply.json()
    assert len(assignment["assignments"]) == 200
    assert assignment["cost"] <= assignment["budget"]
    assert assignment["budget"] == pytest.approx(500.0, rel=0.1)
    assert assignment["usage"] == {name: assignment["assignments"].count(name) for name in ("fast", "middle", "strong")}
    assert 0 <= assignment["gap"] <= 1.1e-6
    assert 0 <= assignment["min_estimate"] <= assignment["raw_estimate"] <= 1
    assert assignment["expected"]["accuracy"] == assignment["estimated_accuracy"]
    low, high = assignment["expected"]["accuracy_interval"]
    assert low <= assignment["estimated_accuracy"] <= high
    assert assignment["artifact"] == {"kind": "portfolio", "name": "trace", "version": 1}


def test_ten_thousand_queries_come_as_npy_and_are_answered_as_in_json(portfolio: Server) -> None:
    many = trace_embeddings(trace_columns(10_000, seed=2))
    params: dict[str, Any] = {"objective": "mean", "regularization": 1.0, "gap": 0.0, "time_limit_s": 5.0}
    reply = post_npy(portfolio, npy(many), budget=4.0)
    assert reply.status_code == 200, reply.text
    assert sum(reply.json()["usage"].values()) == 10_000
    body = is_problem(post_npy(portfolio, npy(np.tile(many, (2, 1))), budget=4.0), 413, "payload-too-large")
    assert all(number in body["detail"] for number in ("20000", "10000"))
    raw, reply = post_npy(portfolio, npy(QUERIES), budget="50%", **params), assign(portfolio, budget="50%", **params)
    assert raw.status_code == reply.status_code == 200, raw.text
    assert raw.json() == reply.json()


def test_a_budget_below_the_cheapest_assignment_is_refused_with_its_cost(portfolio: Server) -> None:
    body = is_problem(assign(portfolio, budget_total=10.0), 409, "infeasible")
    assert all(number in body["detail"] for number in ("at least 200 ms", "got 10"))
    body = is_problem(route(portfolio, budget=0.5), 409, "infeasible")
    assert all(number in body["detail"] for number in ("at least 1 ms", "got 0.5"))
    rich, poor = (route(portfolio, budget=budget).json() for budget in (50.0, 1.0))
    assert (rich["price"], poor["price"] > 0, poor["classifier"]) == (0.0, True, "fast")
    assert rich["budget_pacing"] is None
    assert rich["raw_estimate"] >= poor["raw_estimate"]
    assert rich["artifact"] == {"kind": "portfolio", "name": "trace", "version": 1}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"queries": []}, "queries"),
        ({"queries": [[0.5]]}, "queries"),
        ({"queries": [[0.5, 0.5], [0.5]]}, "queries"),
        ({"queries": [[0.5, "x"]]}, "queries.0.1"),
        ({"queries": [[0.5, None]]}, "queries.0.1"),
        ({"queries": [[0.5, 1e300]]}, "queries.0.1"),
        ({"budget": {}}, "budget"),
        ({"budget_total": 1.0}, ""),
        ({"budget": None, "budget_total": -1.0}, "budget_total"),
        ({"gap": -1}, "gap"),
        ({"time_limit_s": 0}, "time_limit_s"),
        ({"objective": "max"}, "objective"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_bad_batch_is_refused_where_it_is_bad(portfolio: Server, change: dict[str, Any], where: str) -> None:
    body = {"queries": QUERIES[:2].tolist(), "budget": "50%"} | change
    problem = is_problem(portfolio.client.post(f"{PATH}/assignments", json=body), 422, "invalid-request")
    assert where in {".".join(map(str, error["loc"])) for error in problem["errors"]}


@pytest.mark.parametrize(
    ("content", "params", "message"),
    [
        (b"", {"budget": "50%"}, ""),
        (npy(QUERIES)[:-4], {"budget": "50%"}, "1600 bytes"),
        (npy(QUERIES.astype(np.int64)), {"budget": "50%"}, "int64"),
        (npy(QUERIES[0]), {"budget": "50%"}, "queries, dimensions"),
        (npy(QUERIES[:0]), {"budget": "50%"}, "queries, dimensions"),
        (npy(QUERIES[:, :1]), {"budget": "50%"}, "200 x 1"),
        (npy(np.where(QUERIES > 0.9, np.nan, QUERIES)), {"budget": "50%"}, "finite"),
        (npy(QUERIES), {"budget": "5000%"}, "budget"),
        (npy(QUERIES), {}, "budget"),
        (npy(QUERIES), {"budget": 0.5, "budget_total": 1.0}, "cannot be combined"),
    ],
)
def test_bad_npy_and_other_bodies_are_refused(
    portfolio: Server, content: bytes, params: dict[str, Any], message: str
) -> None:
    body = is_problem(post_npy(portfolio, content, **params), 422, "invalid-request")
    assert message in body["detail"]
    path, asked = f"{PATH}/assignments", {"queries": QUERIES[:2].tolist(), "budget": "50%"}
    other = portfolio.client.post(path, content=b"x", headers={"content-type": "text/csv"})
    is_problem(other, 415, "unsupported-media-type")
    is_problem(portfolio.client.post(path, params={"gap": 0.1}, json=asked), 422, "invalid-request")
    is_problem(portfolio.client.post("/v1/portfolios/nosuch/assignments", json=asked), 404, "unknown-artifact")
    plain = {"kind": "portfolio", "name": "plain", "dataset": "plain"}
    (fault,) = is_problem(portfolio.client.post("/v1/builds", json=plain), 422, "invalid-request")["errors"]
    assert fault["loc"] == ["dataset"], "without embeddings there is no portfolio"


def test_a_batch_is_assigned_within_several_limits(portfolio: Server) -> None:
    labels = ["acme" if row % 2 else "basic" for row in range(200)]
    reply = assign(
        portfolio,
        budget=4.0,
        classifiers={"strong": {"at_most": {"share": 0.1}}, "fast": {"at_least": 30}},
        resources={"tokens": {"total": 900, "uses": {"fast": 1, "middle": 5, "strong": 9}}},
        groups={"labels": labels, "limits": {"acme": {"budget_total": 350}}},
        min_group_accuracy=0.5,
    )
    assert reply.status_code == 200, reply.text
    assignment = reply.json()
    assert assignment["usage"]["strong"] <= 20
    assert assignment["usage"]["fast"] >= 30
    assert assignment["cost"] <= assignment["budget"] == 800.0
    prices = {each["limit"]: each for each in assignment["prices"]}
    assert prices["classifiers.strong.at_most"]["used"] == assignment["usage"]["strong"]
    assert prices["resources.tokens"]["used"] <= prices["resources.tokens"]["at_most"] == 900
    assert any(each["price"] > 0 for each in assignment["prices"])
    assert 0 <= assignment["gap"] <= 1e-4
    assert re.match(r"portfolio/trace/1@[0-9a-f]{12}\?accuracy=", assignment["decision"])


LIMITS: dict[str, Any] = {
    "goal": "cost",
    "accuracy": {"at_least": 0.6},
    "classifiers": {"strong": {"at_most": 60}},
    "resources": {"tokens": {"total": 900}},
    "groups": {"limits": {"acme": {"budget_total": 500}}},
}
LABELS = ["acme" if row % 2 else "basic" for row in range(200)]
COSTS = np.random.default_rng(3).uniform(0.5, 1.5, (200, 1)) * np.array([1.0, 4.0, 10.0])
TOKENS = np.random.default_rng(4).integers(1, 9, (200, 3)).astype(float)


def in_json(portfolio: Server) -> dict[str, Any]:
    asked = {**LIMITS, "costs": COSTS.tolist(), "groups": {"labels": LABELS, **LIMITS["groups"]}}
    asked["resources"] = {"tokens": {"total": 900, "uses": TOKENS.tolist()}}
    reply = assign(portfolio, **asked)
    assert reply.status_code == 200, reply.text
    body: dict[str, Any] = reply.json()
    return body


def table_of(**columns: Any) -> bytes:
    out = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), out)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["npy", "lists", "columns"])
def test_npy_and_parquet_are_answered_as_json_is_with_every_limit(portfolio: Server, kind: str) -> None:
    embedding: Any = {"embedding": list(QUERIES.astype(float))}
    if kind == "columns":
        embedding = {f"e{place}": column for place, column in enumerate(QUERIES.T)}
    limits: dict[str, Any] = dict(LIMITS)
    parts = {"uses.tokens": npy(TOKENS), "queries": table_of(**embedding, costs=list(COSTS), group=pa.array(LABELS))}
    if kind == "npy":
        limits["groups"] = {"labels": LABELS, **LIMITS["groups"]}
        parts |= {"queries": npy(QUERIES), "costs": npy(COSTS)}
    files = {name: (name, data) for name, data in parts.items()}
    form = portfolio.client.post(f"{PATH}/assignments", files=files, data={"constraints": json.dumps(limits)})
    assert form.status_code == 200, form.text
    assert form.json() == in_json(portfolio)


def test_parquet_with_a_budget_is_answered_as_json_in_every_form_that_is_accepted(portfolio: Server) -> None:
    body, params = table_of(embedding=list(QUERIES.astype(float))), {"budget": "50%"}
    expected = assign(portfolio, **params).json()
    replies = [
        portfolio.client.post(f"{PATH}/assignments", params=params, content=body, headers=HEAD | {"accept": accept})
        for accept in ("*/*", "text/csv", PARQUET)
    ]
    assert replies[0].json() == expected
    assert [reply.headers["content-type"] for reply in replies[1:]] == ["text/csv; charset=utf-8", PARQUET]
    rows = replies[1].text.splitlines()
    assert rows[0] == "query,classifier"
    assert rows[1:] == [f"{place},{name}" for place, name in enumerate(expected["assignments"], start=1)]
    table = pa.parquet.read_table(io.BytesIO(replies[2].content))
    assert table.column("classifier").to_pylist() == expected["assignments"]
    rest = json.loads(table.schema.metadata[b"parsimony"])
    assert rest == {name: value for name, value in expected.items() if name != "assignments"}


TWICE = b'{"classifiers": {"strong": {"at_most": 5, "at_most": 150}}}'
"""A limit of which one value would be lost."""


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({}, "queries: "),
        ({"queries": npy(QUERIES), "texts": b'["a"]'}, "texts: "),
        ({"texts": b"{}"}, "texts"),
        ({"texts": b'["a"]', "sizes": npy(COSTS[:3, 0])}, "1 rows, one per query, got 3"),
        ({"queries": npy(QUERIES), "surprise": b"x"}, "surprise: "),
        ({"queries": npy(QUERIES), "costs": npy(COSTS[:3])}, "200 rows, one per query, got 3"),
        ({"queries": npy(QUERIES), "costs": npy(COSTS[:, :2])}, "must have 3 numbers (fast, middle, strong), got 2"),
        ({"queries": npy(QUERIES), "costs": npy(COSTS - 9)}, "must be at least 0"),
        ({"queries": npy(QUERIES), "sizes": npy(COSTS[:3, 0])}, "200 rows, one per query, got 3"),
        ({"queries": npy(QUERIES), "uses.tokens": npy(COSTS)}, "uses.tokens: "),
        ({"queries": npy(QUERIES), "constraints": b"[]"}, "constraints: "),
        ({"queries": npy(QUERIES), "constraints": b'{"budget": 3}'}, "budget: "),
        ({"queries": npy(QUERIES), "constraints": TWICE}, "at_most: "),
        ({"queries": b"PAR1 and nothing"}, "Parquet"),
        ({"queries": table_of(embedding=[[1.0, 2.0], [1.0]])}, "1 to 2"),
        ({"queries": table_of(embedding=[[1.0, 2.0]], price=[1])}, "price: "),
        ({"queries": table_of(embedding=["x"])}, "string"),
        ({"queries": table_of(a=[0.1, None], b=[0.2, 0.3])}, "missing"),
        ({"queries": table_of(a=[0.1], b=[0.2], group=[1])}, "int64"),
        ({"queries": table_of(a=np.zeros(0), b=np.zeros(0))}, "at least 1 row"),
    ],
)
def test_bad_parts_are_refused_where_they_are_bad(portfolio: Server, parts: dict[str, bytes], message: str) -> None:
    files = {name: (name, data) for name, data in parts.items()} or {"nothing": ("nothing", b"")}
    reply = portfolio.client.post(f"{PATH}/assignments", params={"budget": "50%"}, files=files)
    assert message in is_problem(reply, 422, "invalid-request")["detail"]
    body = b'{"queries": ' + json.dumps(QUERIES.tolist()).encode() + b", " + TWICE[1:]
    reply = portfolio.client.post(f"{PATH}/assignments", content=body, headers={"content-type": "application/json"})
    assert "at_most: " in is_problem(reply, 422, "invalid-request")["detail"]


def test_limits_that_conflict_are_refused_with_a_smallest_set_of_them(portfolio: Server) -> None:
    limits = {"classifiers": {"fast": {"at_most": 10}, "strong": {"at_least": 5}}, "budget_total": 300.0}
    body = is_problem(assign(portfolio, **limits), 409, "infeasible")
    given_up = {each["limit"]: each["give"] for each in body["conflict"]}
    assert set(given_up) == {"budget", "classifiers.fast.at_most"}  # without the five of the strong one, too
    enough = {"classifiers": {"fast": {"at_most": 10}}, "budget_total": 300.0 + given_up["budget"] + 1e-6}
    assert assign(portfolio, **enough).status_code == 200


def route(server: Server, row: int = 0, budget: float = 3.0, **more: Any) -> httpx.Response:
    body = {"query": QUERIES[row].tolist(), "budget": budget, **more}
    return server.client.post(f"{PATH}/decision", json=body)


def stream_of(portfolio: Server, queries: int, pacing: dict[str, Any]) -> list[dict[str, Any]]:
    with ThreadPoolExecutor(8) as callers:
        replies = list(callers.map(lambda row: route(portfolio, row, 2.5, budget_pacing=pacing), range(queries)))
    assert {reply.status_code for reply in replies} == {200}
    return [reply.json() for reply in replies]


def test_a_stream_is_paced_and_never_exceeds_its_total(portfolio: Server) -> None:
    """200 queries from 8 callers at once share 500 ms; the 201st is refused."""
    pacing = {"ledger": "stream", "total": 500.0, "queries": 200}
    replies = stream_of(portfolio, 200, pacing)
    spent = sum(reply["cost"] for reply in replies)
    assert 0.95 * 500 <= spent <= 500 * (1 + 1e-9)
    assert sorted(reply["budget_pacing"]["queries"] for reply in replies) == list(range(1, 201))
    assert max(reply["budget_pacing"]["spent"] for reply in replies) == pytest.approx(spent)
    while (more := route(portfolio, budget_pacing=pacing)).status_code == 200:
        assert more.json()["budget_pacing"]["spent"] <= 500 * (1 + 1e-9)
    assert "'stream'" in is_problem(more, 409, "infeasible")["detail"]
    hopeless = route(portfolio, budget_pacing=pacing | {"ledger": "poor", "total": 100.0})
    assert "200 ms" in is_problem(hopeless, 409, "infeasible")["detail"]


def test_a_stream_keeps_resources_its_tenants_totals_and_rate_limits(portfolio: Server) -> None:
    pacing = {
        "ledger": "several",
        "total": 900.0,
        "queries": 120,
        "resources": {"tokens": {"total": 400, "uses": {"fast": 1, "middle": 4, "strong": 9}}},
        "classifiers": {"strong": {"at_most": 7, "window_s": 3600}},
    }

    def paced(row: int) -> httpx.Response:
        tenant = {"name": ("acme", "basic")[row % 2], "total": 150.0, "queries": 60}
        return route(portfolio, row, budget_pacing=pacing | {"tenant": tenant})

    with ThreadPoolExecutor(8) as callers:
        replies = list(callers.map(paced, range(120)))
    answered = [(row % 2, reply.json()) for row, reply in enumerate(replies) if reply.status_code == 200]
    assert {reply.status_code for reply in replies} <= {200, 503}  # a host that is too busy for the ledger refuses
    assert len(answered) > 60
    names = [reply["classifier"] for _, reply in answered]
    assert names.count("strong") <= 7
    assert sum({"fast": 1, "middle": 4, "strong": 9}[name] for name in names) <= 400
    for tenant in (0, 1):
        assert sum(reply["cost"] for whose, reply in answered if whose == tenant) <= 150 * (1 + 1e-9)
    state = max((reply["budget_pacing"] for _, reply in answered), key=lambda one: one["queries"])
    assert state["remaining_calls"] == {"strong": 7 - names.count("strong")} or len(answered) < 120
    assert 0 < state["tenant_spent"] <= 150
    assert 0 < state["resources"]["tokens"] <= 400


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"classifiers": {"huge": {"at_most": 1, "window_s": 1}}}, "budget_pacing.classifiers.huge"),
        ({"resources": {"tokens": {"total": 1}}}, "budget_pacing.resources.tokens"),
        ({"resources": {"tokens": {"total": 1, "uses": {"fast": 1}}}}, "budget_pacing.resources.tokens.uses"),
        ({"classifiers": {"fast": {"at_most": -1, "window_s": 1}}}, "budget_pacing.classifiers.fast.at_most"),
    ],
)
def test_a_stream_within_what_there_is_not_is_refused(portfolio: Server, change: dict[str, Any], where: str) -> None:
    reply = route(portfolio, budget_pacing={"ledger": "odd", "total": 500.0, "queries": 2} | change)
    body = is_problem(reply, 422, "invalid-request")
    assert where in {".".join(map(str, error["loc"])) for error in body["errors"]}


def test_the_curve_shows_every_method_over_budgets(portfolio: Server) -> None:
    curve = portfolio.client.get(f"{PATH}/curve").json()
    series = [one["name"] for one in curve["baselines"] if len(one["points"]) > 1]
    assert len(series) == 5
    budgets = [point["limits"]["budget"] for point in curve["points"]]
    assert budgets == sorted(budgets)
    assert all(sum(point["decision"]["usage"].values()) == curve["rows"] == 400 for point in curve["points"])
    prices = [point["decision"]["price"] for point in curve["points"]]
    assert prices == sorted(prices, reverse=True)
    assert prices[-1] == 0


def test_look_ups_are_answered_while_a_large_batch_is_assigned(portfolio: Server) -> None:
    many = trace_embeddings(trace_columns(10_000, seed=3))
    path = f"{PATH}/assignments?budget=4.0&gap=0.0"
    reply, before_it = answered_before(portfolio, path, npy(many), NPY)
    assert reply.startswith(b"HTTP/1.1 200 ")
    assert before_it >= MEANWHILE  # how far they are slowed down is for the benchmark


def test_while_the_store_hangs_a_stream_is_refused(portfolio: Server) -> None:
    pacing = {"ledger": "hanging", "total": 500.0, "queries": 200}
    (store,) = [process for process in portfolio.tree() if is_store(process)]
    assert route(portfolio, budget_pacing=pacing).json()["budget_pacing"]["queries"] == 1
    store.suspend()
    try:
        assert route(portfolio).status_code == 200
        is_problem(route(portfolio, budget_pacing=pacing), 503, "store-unavailable")
    finally:
        store.resume()
    wait_for(lambda: route(portfolio, budget_pacing=pacing).status_code == 200, 15)


def is_store(process: psutil.Process) -> bool:
    command = " ".join(process.cmdline())
    return "valkey-server" in command or "redis-server" in command
