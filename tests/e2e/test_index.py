"""The index over HTTP: decisions, skylines, predictions."""

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pytest
from sklearn.datasets import load_iris
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import OneClassSVM

from app.store.codec import encode
from models.index import IndexOptions
from solvers.base import BuildContext
from solvers.index import fit
from tests.e2e.test_errors import is_problem
from tests.oracles.index import small_table
from tests.support.samples import FEATURES_SPEC, feature_columns, to_csv
from tests.support.servers import Server, running_server, wait_for

PATH = "/v1/indexes/sizes"
dumps = import_module("skops.io").dumps


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server with an index called ``sizes`` in it."""
    with running_server(tmp_path_factory.mktemp("index"), max_batch=50) as server:
        files: dict[str, Any] = {
            "spec": (None, json.dumps(FEATURES_SPEC)),
            "table": ("table.csv", to_csv(feature_columns()), "text/csv"),
        }
        reply = server.client.put("/v1/datasets/features", files=files)
        assert reply.status_code == 201, reply.text
        build(server, "sizes")
        yield server


def build(server: Server, name: str, **params: object) -> Any:
    """Build an index and wait for it."""
    body = {"kind": "index", "name": name, "dataset": "features", "params": {"folds": 3, **params}}
    path = server.client.post("/v1/builds", json=body).headers["location"]
    wait_for(lambda: server.client.get(path).json()["status"] not in ("queued", "running"), 60)
    reply = server.client.get(path).json()
    assert reply["status"] == "succeeded", reply
    wait_for(lambda: server.client.get(f"/v1/indexes/{name}/skyline?size=64").status_code == 200, 5)
    return server.client.get(f"/v1/artifacts/index/{name}").json()


COLUMNS = ("glucose", "t1", "t2", "s1")


def test_the_map_says_what_decisions_say(indexed: Server) -> None:
    asked = {"low": 20, "high": 300, "points": 4, "budgets": 3, "version": 1}
    reply = indexed.client.get(f"{PATH}/winners", params=asked).json()
    assert (reply["sizes"][0], reply["sizes"][-1], reply["unit"]) == (20, 300, "ms")
    assert reply["artifact"] == {"kind": "index", "name": "sizes", "version": 1}
    for budget, row in zip(reply["budgets"], reply["winners"], strict=True):
        for size, place in zip(reply["sizes"], row, strict=True):
            decision = indexed.client.get(f"{PATH}/decision", params={"size": size, "budget": budget}).json()
            feature_set = reply["feature_sets"][place]
            assert (feature_set["features"], feature_set["accuracy"]) == (decision["features"], decision["accuracy"])
            assert feature_set["costs"][reply["sizes"].index(size)] == decision["cost"]
    assert [len(row) for row in indexed.client.get(f"{PATH}/winners").json()["winners"]] == [40] * 40


@pytest.mark.parametrize(
    ("query", "where"),
    [("low=9&high=5", "low"), ("high=0.5", "high"), ("points=1", "points"), ("budgets=201", "budgets")],
)
def test_a_bad_range_names_the_parameter(indexed: Server, query: str, where: str) -> None:
    problem = is_problem(indexed.client.get(f"{PATH}/winners?{query}"), 422, "invalid-request")
    assert problem["errors"][0]["loc"][0] == where


def test_evaluations_use_the_features_that_the_budget_allows(indexed: Server) -> None:
    columns = feature_columns()
    items = [
        {"size": 64, "truth": str(columns["outcome"][i]), "values": {name: columns[name][i] for name in COLUMNS}}
        for i in range(40)
    ]
    rich = indexed.client.post(f"{PATH}/evaluate", json={"budget": 1e6, "items": items})
    assert rich.status_code == 200, rich.text
    assert rich.json()["summary"]["accuracy"] >= 0.75
    poor = indexed.client.post(f"{PATH}/evaluate", json={"budget": 0, "items": items}).json()["items"]
    assert {(*one["path"], one["label"]) for one in poor} == {(poor[0]["label"],)}


@pytest.mark.parametrize(
    "asked", [{}, {"one_standard_error": True}, {"min_accuracy": 0.6}, {"method": "greedy"}, {"budget": "40%"}]
)
def test_evaluations_compute_what_the_decision_of_the_same_question_says(
    indexed: Server, asked: dict[str, Any]
) -> None:
    limits, values = {"budget": 1e6, **asked}, {name: feature_columns()[name][0] for name in COLUMNS}
    items = [{"size": size, "values": values} for size in (64, 20, 64)]
    reply = indexed.client.post(f"{PATH}/evaluate", json={**limits, "items": items})
    assert reply.status_code == 200, reply.text
    for size, one in zip((64, 20, 64), reply.json()["items"], strict=True):
        decision = indexed.client.get(f"{PATH}/decision", params={**limits, "size": size}).json()
        assert (one["path"], one["cost"]) == (decision["features"], decision["cost"])


def test_what_was_computed_already_is_not_paid_again(indexed: Server) -> None:
    decision = indexed.client.get(f"{PATH}/decision?size=64&budget=5&spent=3.5&computed=glucose").json()
    assert decision["cost"] <= 1.5
    fresh = indexed.client.get(f"{PATH}/decision?size=64&budget=1e6").json()
    done = "&".join(f"computed={feature}" for feature in fresh["features"])
    again = indexed.client.get(f"{PATH}/decision?size=64&budget=1e6&{done}").json()
    assert (again["features"], again["cost"]) == (fresh["features"], 0.0)


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("budget=3", "size"),
        ("size=0.5&budget=3", "size"),
        ("size=64&size=48&budget=3", "size"),
        ("size=nan&budget=3", "size"),
        ("size=64&budget=-1", "budget"),
        ("size=64&budget=3&method=best", "method"),
        ("size=64&budget=3&computed=nosuch", "computed"),
        ("size=64&budget=3&budget=4", "budget"),
    ],
)
def test_a_bad_query_names_the_parameter(indexed: Server, query: str, where: str) -> None:
    problem = is_problem(indexed.client.get(f"{PATH}/decision?{query}"), 422, "invalid-request")
    assert problem["errors"][0]["loc"][0] == where


@pytest.mark.parametrize("query", ["size=64", "size=64&budget=3", "size=1&budget=0", "size=64&budget=4.5&method=naive"])
def test_the_hot_path_answers_as_the_route_does(indexed: Server, query: str) -> None:
    same_id = {"x-request-id": "same"}
    hot = indexed.client.get(f"{PATH}/decision?{query}", headers=same_id)
    routed = indexed.client.get(f"{PATH}/decision?{query.replace('size', '%73ize', 1)}", headers=same_id)
    assert hot.status_code == routed.status_code == 200
    assert hot.content == routed.content


def test_bad_items_are_refused(indexed: Server) -> None:
    for values in ({"glucose": 1}, {"glucose": "x"}, {"texture": [1, 2, 3]}, "x"):
        body: dict[str, Any] = {"budget": 1e6, "items": [{"size": 64, "values": values}]}
        is_problem(indexed.client.post(f"{PATH}/evaluate", json=body), 422, "invalid-request")
    body = {"budget": 0, "items": [{"size": 64, "values": {"glucose": 1}}] * 51}
    is_problem(indexed.client.post(f"{PATH}/evaluate", json=body), 413, "payload-too-large")


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"learner": "os.system"}, "allowed"),
        ({"learner": "sklearn.linear_model.Nothing"}, "cannot be imported"),
        ({"learner": "sklearn.linear_model.LinearRegression"}, "classifier"),
    ],
)
def test_a_build_that_cannot_be_fails_with_the_reason(indexed: Server, params: dict[str, Any], reason: str) -> None:
    body = {"kind": "index", "name": "bad", "dataset": "features", "params": params}
    path = indexed.client.post("/v1/builds", json=body).headers["location"]
    wait_for(lambda: indexed.client.get(path).json()["status"] == "failed", 30)
    assert reason in indexed.client.get(path).json()["error"]


def test_a_trace_is_no_table_of_features(indexed: Server) -> None:
    body = {"kind": "cascade", "name": "x", "dataset": "features"}
    problem = is_problem(indexed.client.post("/v1/builds", json=body), 422, "invalid-request")
    assert problem["errors"][0]["loc"] == ["dataset"]


def made_up(name: str, model: Any) -> bytes:
    """Pack an artifact of one feature of one column, ``c0``, whose every model is this one."""
    run = fit(small_table(rows=60, features=1), OPTIONS, np.random.default_rng(0), BuildContext())
    data = np.frombuffer(dumps(model), dtype=np.uint8)
    plan = replace(run.plan, model_bytes=data, model_offsets=np.array([0, len(data)]))
    manifest = {"kind": "index", "name": name, "dataset": "d", "dataset_sha256": "0" * 64, "seed": 0}
    more = {"params": OPTIONS.model_dump(mode="json"), "unit": plan.unit, "summary": run.summary}
    return encode(plan, manifest | more)


OPTIONS = IndexOptions(learner="sklearn.naive_bayes.GaussianNB", folds=2)
ONE_ITEM = {"budget": 100, "items": [{"size": 1, "values": {"c0": 0.5}}]}


def imported(server: Server, name: str, model: Any) -> httpx.Response:
    """Import a made-up artifact and ask it for a prediction."""
    headers = {"content-type": "application/octet-stream"}
    reply = server.client.post("/v1/artifacts/import", content=made_up(name, model), headers=headers)
    assert reply.status_code == 201, reply.text
    wait_for(lambda: server.client.get(f"/v1/indexes/{name}/skyline?size=1").status_code == 200, 5)
    return server.client.post(f"/v1/indexes/{name}/evaluate", json=ONE_ITEM)


def neighbours() -> KNeighborsClassifier:
    """Train a model of one column."""
    values, labels = load_iris(return_X_y=True)
    model = KNeighborsClassifier(3, algorithm="brute", metric="manhattan")
    return model.fit(values[:, :1], labels)


def children(server: Server) -> list[int]:
    """List the processes in which models are tried, and uploads checked."""
    return [child.pid for child in psutil.Process(server.process.pid).children() if child.name() == "sandbox"]


def test_a_model_that_crashes_the_process_which_tries_it_is_refused_and_the_server_goes_on(indexed: Server) -> None:
    good = imported(indexed, "sound", neighbours())
    assert good.status_code == 200, good.text
    first, crashing = children(indexed), neighbours()
    crashing._y = np.full(len(crashing._y), 10**9, dtype=np.intp)
    problem = is_problem(imported(indexed, "crashing", crashing), 422, "invalid-request")
    assert "the sandbox process crashed while reading the input (signal 11)" in problem["detail"]
    assert indexed.process.poll() is None
    again = indexed.client.post("/v1/indexes/sound/evaluate", json=ONE_ITEM)
    assert again.json() == good.json()
    assert len(first) == len(children(indexed))
    assert len({*first} - {*children(indexed)}) == 1


def test_a_model_of_types_that_are_not_trusted_is_refused(indexed: Server) -> None:
    values = load_iris().data
    forged = make_pipeline(CountVectorizer(input="filename", vocabulary=["root"]), neighbours())
    problem = is_problem(imported(indexed, "reading", forged), 422, "invalid-request")
    assert "untrusted types: " in problem["detail"]
    assert "CountVectorizer" in problem["detail"]
    other = is_problem(imported(indexed, "outlier", OneClassSVM().fit(values[:, :1])), 422, "invalid-request")
    assert "OneClassSVM" in other["detail"]


def test_a_model_that_takes_too_long_is_given_up_and_the_server_goes_on(tmp_path: Path) -> None:
    with running_server(tmp_path, solve_timeout_s=0.01) as server:
        is_problem(imported(server, "slow", neighbours()), 504, "solver-timeout")
        assert server.client.get("/v1/indexes/slow/decision?size=1&budget=100").status_code == 200


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_the_process_for_models_ends_with_the_server(tmp_path: Path, how: str) -> None:
    with running_server(tmp_path) as server:
        assert imported(server, "sound", neighbours()).status_code == 200
        (child,) = children(server)
        if how == "killed":
            server.kill(whole_tree=False)
        else:
            assert server.stop() == 0
        wait_for(lambda: not psutil.pid_exists(child), 10)
