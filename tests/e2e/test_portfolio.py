"""Portfolios over HTTP: batches as JSON and as .npy, single queries, streams, the curve, and refusals."""

import io
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import psutil
import pytest

from tests.e2e.test_errors import is_problem
from tests.support.samples import embedded_upload, table_upload, to_csv, trace_columns, trace_embeddings
from tests.support.servers import Server, running_server, wait_for
from tests.support.services import MEANWHILE, answered_before

PATH = "/v1/portfolios/trace"
NPY = {"content-type": "application/x-npy"}
QUERIES = trace_embeddings(trace_columns(200, seed=1))


@pytest.fixture(scope="module")
def portfolio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server with a portfolio called ``trace`` in it."""
    with running_server(tmp_path_factory.mktemp("portfolio"), max_batch=10_000) as server:
        assert server.client.put("/v1/datasets/trace", files=embedded_upload()).status_code == 201
        assert server.client.put("/v1/datasets/plain", files=table_upload(to_csv(trace_columns()))).status_code == 201
        built = build(server, "trace", curve_points=5)
        assert built["status"] == "succeeded", built
        wait_for(lambda: server.client.get(f"{PATH}/curve").status_code == 200, 30)
        yield server


def build(server: Server, dataset: str, **params: object) -> Any:
    body = {"solver": "portfolio", "name": "trace", "dataset": dataset, "params": params}
    path = server.client.post("/v1/builds", json=body).headers["location"]
    wait_for(lambda: server.client.get(path).json()["status"] not in ("queued", "running"), 90)
    return server.client.get(path).json()


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def assign(server: Server, queries: Any = QUERIES, **body: Any) -> httpx.Response:
    return server.client.post(f"{PATH}/assignments", json={"queries": np.asarray(queries).tolist(), **body})


@pytest.mark.parametrize("objective", ["mean", "min"])
@pytest.mark.parametrize("budget", [{"total": 500.0}, {"per_query": 2.5}, {"fraction": 0.25}])
def test_a_batch_is_assigned_within_its_budget(portfolio: Server, budget: dict[str, float], objective: str) -> None:
    reply = assign(portfolio, budget=budget, objective=objective)
    assert reply.status_code == 200, reply.text
    assignment = reply.json()
    assert len(assignment["assignments"]) == 200
    assert assignment["cost"] <= assignment["budget"]
    assert assignment["budget"] == pytest.approx(500.0, rel=0.1)
    assert assignment["usage"] == {name: assignment["assignments"].count(name) for name in ("fast", "middle", "strong")}
    assert 0 <= assignment["gap"] <= 1.1e-6
    assert 0 <= assignment["least_estimate"] <= assignment["raw_estimate"] <= 1
    assert assignment["expected"]["accuracy"] == assignment["estimated_accuracy"]
    low, high = assignment["expected"]["accuracy_interval"]
    assert low <= assignment["estimated_accuracy"] <= high
    assert assignment["artifact"] == {"solver": "portfolio", "name": "trace", "version": 1}


def test_json_and_npy_are_answered_the_same(portfolio: Server) -> None:
    params: dict[str, Any] = {"objective": "mean", "regularization": 1.0, "gap": 0.0, "time_limit_s": 5.0}
    raw = portfolio.client.post(
        f"{PATH}/assignments", params=params | {"fraction": 0.5}, content=npy(QUERIES), headers=NPY
    )
    reply = assign(portfolio, budget={"fraction": 0.5}, **params)
    assert raw.status_code == reply.status_code == 200, raw.text
    assert raw.json() == reply.json()


def test_ten_thousand_queries_come_as_npy(portfolio: Server) -> None:
    many = trace_embeddings(trace_columns(10_000, seed=2))
    reply = portfolio.client.post(f"{PATH}/assignments", params={"per_query": 4.0}, content=npy(many), headers=NPY)
    assert reply.status_code == 200, reply.text
    assert sum(reply.json()["usage"].values()) == 10_000
    over = portfolio.client.post(
        f"{PATH}/assignments", params={"per_query": 4.0}, content=npy(np.tile(many, (2, 1))), headers=NPY
    )
    body = is_problem(over, 413, "payload-too-large")
    assert "20000 queries, the limit is 10000" in body["detail"]


def test_more_budget_is_never_worse(portfolio: Server) -> None:
    levels = [assign(portfolio, budget={"per_query": b}, gap=0.0, regularization=0.0) for b in (1, 2, 3, 5, 8, 11)]
    accuracies = [reply.json()["raw_estimate"] for reply in levels]
    assert accuracies == sorted(accuracies)


def test_a_budget_below_the_cheapest_assignment_is_refused_with_its_cost(portfolio: Server) -> None:
    body = is_problem(assign(portfolio, budget={"total": 10.0}), 409, "infeasible")
    assert body["detail"] == "the cheapest assignment of 200 queries costs 200 ms, the budget is 10"
    single = {"query": QUERIES[0].tolist(), "budget": {"per_query": 0.5}}
    body = is_problem(portfolio.client.post(f"{PATH}/route", json=single), 409, "infeasible")
    assert body["detail"] == "the cheapest way to answer a query costs 1 ms, the budget is 0.5"


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
        ({"budget": {"total": 1.0, "fraction": 0.5}}, "budget"),
        ({"budget": {"total": -1.0}}, "budget.total"),
        ({"gap": -1}, "gap"),
        ({"time_limit_s": 0}, "time_limit_s"),
        ({"objective": "max"}, "objective"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_bad_batch_is_refused_where_it_is_bad(portfolio: Server, change: dict[str, Any], where: str) -> None:
    body = {"queries": QUERIES[:2].tolist(), "budget": {"fraction": 0.5}} | change
    problem = is_problem(portfolio.client.post(f"{PATH}/assignments", json=body), 422, "invalid-request")
    assert where in {".".join(map(str, error["loc"])) for error in problem["errors"]}


@pytest.mark.parametrize(
    ("content", "params", "message"),
    [
        (b"", {"fraction": 0.5}, "no readable .npy|not in version"),
        (npy(QUERIES)[:-4], {"fraction": 0.5}, "promises"),
        (npy(QUERIES.astype(np.int64)), {"fraction": 0.5}, "hold int64, must be float32"),
        (npy(QUERIES[0]), {"fraction": 0.5}, "must be queries x dimensions"),
        (npy(QUERIES[:0]), {"fraction": 0.5}, "must be queries x dimensions"),
        (npy(QUERIES[:, :1]), {"fraction": 0.5}, "200 x 1 numbers, must be n x 2"),
        (npy(np.where(QUERIES > 0.9, np.nan, QUERIES)), {"fraction": 0.5}, "must be finite"),
        (npy(QUERIES), {"fraction": 50.0}, "less than or equal to 1"),
        (npy(QUERIES), {}, "give a budget, or a min_accuracy, or both; there is neither"),
        (npy(QUERIES), {"fraction": 0.5, "total": 1.0}, "there is total and fraction"),
    ],
)
def test_bad_npy_is_refused(portfolio: Server, content: bytes, params: dict[str, float], message: str) -> None:
    reply = portfolio.client.post(f"{PATH}/assignments", params=params, content=content, headers=NPY)
    body = is_problem(reply, 422, "invalid-request")
    assert any(part in body["detail"] for part in message.split("|"))


def test_other_bodies_and_mixtures_are_refused(portfolio: Server) -> None:
    path = f"{PATH}/assignments"
    is_problem(portfolio.client.post(path, content=b"x", headers={"content-type": "text/csv"}), 415, UNSUPPORTED)
    body = {"queries": QUERIES[:2].tolist(), "budget": {"fraction": 0.5}}
    problem = is_problem(portfolio.client.post(path, params={"gap": 0.1}, json=body), 422, "invalid-request")
    assert "goes with application/x-npy" in problem["detail"]
    is_problem(portfolio.client.post("/v1/portfolios/nosuch/assignments", json=body), 404, "unknown-artifact")


UNSUPPORTED = "unsupported-media-type"


def test_a_batch_is_assigned_within_several_limits(portfolio: Server) -> None:
    labels = ["acme" if row % 2 else "basic" for row in range(200)]
    reply = assign(
        portfolio,
        budget={"per_query": 4.0},
        classifiers={"strong": {"at_most": {"share": 0.1}}, "fast": {"at_least": 30}},
        resources={"tokens": {"total": 900, "uses": {"fast": 1, "middle": 5, "strong": 9}}},
        groups={"labels": labels, "limits": {"acme": {"budget": {"total": 350}}}},
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
    assert assignment["decision"].startswith("portfolio/trace/1?accuracy=")


def test_limits_that_conflict_are_refused_with_a_smallest_set_of_them(portfolio: Server) -> None:
    limits = {"classifiers": {"fast": {"at_most": 10}, "strong": {"at_least": 5}}, "budget": {"total": 300.0}}
    body = is_problem(assign(portfolio, **limits), 409, "infeasible")
    told = {each["limit"]: each["give"] for each in body["conflict"]}
    assert set(told) == {"budget", "classifiers.fast.at_most"}  # without the five of the strong one, too
    assert "budget at most 300" in body["detail"]
    enough = {"classifiers": {"fast": {"at_most": 10}}, "budget": {"total": 300.0 + told["budget"] + 1e-6}}
    assert assign(portfolio, **enough).status_code == 200


def test_look_ups_are_answered_while_limits_are_searched(portfolio: Server) -> None:
    many = trace_embeddings(trace_columns(5_000, seed=4)).tolist()
    asked = {"queries": many, "goal": "cost", "accuracy": {"at_least": 0.6}, "gap": 0.0, "time_limit_s": 1.0}
    body = json.dumps(asked | {"classifiers": {"strong": {"at_most": 300}}}).encode()
    reply, before_it = answered_before(portfolio, f"{PATH}/assignments", body, {"content-type": "application/json"})
    assert reply.startswith(b"HTTP/1.1 200 ")
    assert before_it >= MEANWHILE


def route(server: Server, row: int = 0, budget: float = 3.0, **more: Any) -> httpx.Response:
    body = {"query": QUERIES[row].tolist(), "budget": {"per_query": budget}, **more}
    return server.client.post(f"{PATH}/route", json=body)


def test_a_single_query_is_routed_by_the_price_of_its_budget(portfolio: Server) -> None:
    rich, poor = (route(portfolio, budget=budget).json() for budget in (50.0, 1.0))
    assert rich["price"] == 0.0
    assert poor["classifier"] == "fast"
    assert poor["price"] > 0
    assert rich["budget_pacing"] is None
    assert rich["raw_estimate"] >= poor["raw_estimate"]
    assert rich["artifact"] == {"solver": "portfolio", "name": "trace", "version": 1}


def stream_of(portfolio: Server, queries: int, pacing: dict[str, Any]) -> list[dict[str, Any]]:
    """Route a stream's queries by 8 callers at once."""
    with ThreadPoolExecutor(8) as callers:
        replies = list(callers.map(lambda row: route(portfolio, row, 2.5, budget_pacing=pacing), range(queries)))
    assert {reply.status_code for reply in replies} == {200}
    return [reply.json() for reply in replies]


def test_a_stream_is_paced_and_never_exceeds_its_total(portfolio: Server) -> None:
    """200 queries from 8 callers at once share 500 ms; the 201st is refused."""
    replies: list[dict[str, Any]] = []
    for trial in range(5):  # an answer for which the ledger is late is not corrected: then the host is too busy
        pacing = {"ledger": f"stream{trial}", "total": 500.0, "queries": 200}
        replies = stream_of(portfolio, 200, pacing)
        if all(reply["budget_pacing"]["corrected"] for reply in replies):
            break
    spent = sum(reply["cost"] for reply in replies)
    assert 0.95 * 500 <= spent <= 500 * (1 + 1e-9)
    assert sorted(reply["budget_pacing"]["queries"] for reply in replies) == list(range(1, 201))
    assert max(reply["budget_pacing"]["spent"] for reply in replies) == pytest.approx(spent)
    assert all(reply["budget_pacing"]["corrected"] for reply in replies)
    while (more := route(portfolio, budget_pacing=pacing)).status_code == 200:
        assert more.json()["budget_pacing"]["spent"] <= 500 * (1 + 1e-9)
    body = is_problem(more, 409, "infeasible")
    assert f"ledger '{pacing['ledger']}' has spent" in body["detail"]
    hopeless = route(portfolio, budget_pacing=pacing | {"ledger": "poor", "total": 100.0})
    assert "200 queries costs 200 ms, the total is 100" in is_problem(hopeless, 409, "infeasible")["detail"]


def test_the_curve_shows_every_method_over_budgets(portfolio: Server) -> None:
    curve = portfolio.client.get(f"{PATH}/curve").json()
    methods = ["occam", "route", "single_best", "random", "frugal_mct", "oracle"]
    assert [each["method"] for each in curve["curves"]] == methods
    for each in curve["curves"]:
        budgets = [point["budget"] for point in each["points"]]
        assert budgets == sorted(budgets)
        assert all(sum(point["usage"].values()) == curve["items"] == 400 for point in each["points"])
        assert [point["estimated_accuracy"] is None for point in each["points"]] == [each["method"] == "random"] * 5
    prices = [price["price"] for price in curve["prices"]]
    assert prices == sorted(prices, reverse=True)
    assert prices[-1] == 0


def test_a_trace_without_embeddings_makes_no_portfolio(portfolio: Server) -> None:
    request = {"solver": "portfolio", "name": "plain", "dataset": "plain"}
    reply = portfolio.client.post("/v1/builds", json=request)
    assert reply.status_code == 422
    assert "has no embeddings" in reply.json()["detail"]
    assert reply.json()["errors"][0]["loc"] == ["dataset"]


def test_look_ups_are_answered_while_a_large_batch_is_assigned(portfolio: Server) -> None:
    many = trace_embeddings(trace_columns(10_000, seed=3))
    path = f"{PATH}/assignments?per_query=4.0&gap=0.0"
    reply, before_it = answered_before(portfolio, path, npy(many), NPY)
    assert reply.startswith(b"HTTP/1.1 200 ")
    assert before_it >= MEANWHILE  # how far they are slowed down is for the benchmark


def test_while_the_store_hangs_a_stream_is_routed_by_the_uncorrected_price(portfolio: Server) -> None:
    pacing = {"ledger": "hanging", "total": 500.0, "queries": 200}
    (store,) = [process for process in portfolio.tree() if is_store(process)]
    assert route(portfolio, budget_pacing=pacing).json()["budget_pacing"]["corrected"]
    store.suspend()
    try:
        routed = route(portfolio, budget_pacing=pacing).json()
    finally:
        store.resume()
    assert routed["budget_pacing"] == {"ledger": "hanging", "corrected": False, "spent": None, "queries": None}
    assert routed["price"] == route(portfolio).json()["price"]

    def corrected() -> bool:
        return bool(route(portfolio, budget_pacing=pacing).json()["budget_pacing"]["corrected"])

    wait_for(corrected, 15)


def is_store(process: psutil.Process) -> bool:
    command = " ".join(process.cmdline())
    return "valkey-server" in command or "redis-server" in command
