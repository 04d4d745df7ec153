"""The service runs items itself: registered, decided, called, answered, over HTTP as callers do it."""

import asyncio
import io
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pyarrow as pa
import pyarrow.parquet
import pytest
import tritonclient.http as tritonclient
from playwright.sync_api import expect
from tritonclient.utils import InferenceServerException

from app.store import codec
from models import Trace, TraceSpec, dataset_from_columns
from solvers.confidence_profile import WINDOW, profile_confidences
from tests.e2e import visits
from tests.support.commands import ran
from tests.support.model_process import ModelServer
from tests.support.patience import patient
from tests.support.replays import built
from tests.support.servers import Server, running_server, wait_for
from tests.support.trained import COSTS, LEARN, TRACED, embedding, trace_table, trained

KEY = "sk-very-secret"
FRESH = LEARN + TRACED
"""The first image that nobody has seen."""
BUILDS: dict[str, dict[str, Any]] = {
    "cascade": {"target_precision": 0.9},
    "portfolio": {"embedder": "embedder", "curve_points": 5},
    "policy": {"points": 4, "trees": 8, "depth": 2},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, models: ModelServer) -> Iterator[Server]:
    """Run a server with three artifacts of the trained classifiers, each behind a protocol of its own."""
    with running_server(tmp_path_factory.mktemp("runs"), endpoint_hosts="127.0.0.1", secret_test=KEY) as server:
        fill(server, models)
        yield server


def fill(server: Server, models: ModelServer) -> None:
    """Import the artifacts, register where the classifiers are, and wait until all of them answer."""
    for data in artifacts():
        headers = {"content-type": "application/octet-stream"}
        imported = server.client.post("/v1/artifacts/import", content=data, headers=headers)
        assert imported.status_code == 201, imported.text
    register(server, models)
    wait_for(lambda: answering(server) == set(BUILDS), 20, "the artifacts are not loaded")


def register(server: Server, models: ModelServer) -> None:
    for name, endpoint in endpoints(models).items():
        assert server.client.put(f"/v1/endpoints/{name}", json=endpoint).status_code in (200, 201)


@contextmanager
def imported(server: Server, data: bytes, prefix: str) -> Iterator[str]:
    headers = {"content-type": "application/octet-stream"}
    record = server.client.post("/v1/artifacts/import", content=data, headers=headers)
    assert record.status_code == 201
    name = record.json()["name"]
    wait_for(lambda: server.client.get(f"/v1/{prefix}/{name}/curve").status_code == 200, 20, "it is not loaded")
    yield name
    server.client.delete(f"/v1/artifacts/{record.json()['kind']}/{name}")


@pytest.fixture(scope="module")
def nameless(server: Server) -> Iterator[str]:
    with imported(server, next(artifacts({"portfolio": {"curve_points": 5}}, "nameless")), "portfolios") as name:
        yield name


@contextmanager
def imported_knowing(server: Server) -> Iterator[str]:
    data = next(artifacts({"policy": BUILDS["policy"] | {"embedder": "embedder"}}, "knowing"))
    with imported(server, data, "policies") as name:
        yield name


@pytest.fixture(scope="module")
def knowing(server: Server) -> Iterator[str]:
    with imported_knowing(server) as name:
        yield name


@pytest.fixture(scope="module")
def judged(server: Server) -> Iterator[str]:
    with imported_judged(server) as name:
        yield name


@contextmanager
def imported_judged(server: Server) -> Iterator[str]:
    """Have a policy that was told only whether its classifiers' answers were right, by its name."""
    spec, columns, vectors = trace_table()
    truth = np.array(columns["truth"])
    right = {f"{name} right": truth == np.array(columns[f"{name} says"]) for name in COSTS}
    classifiers = [
        {"name": each["name"], "cost": each["cost"], "correct": f"{each['name']} right"}
        | ({} if each["name"] == "all" else {"confidence": each["confidence"]})
        for each in spec["classifiers"]
    ]
    arrays = {name: np.array(values) for name, values in columns.items()} | right
    judged_spec = TraceSpec.model_validate({"kind": "trace", "unit": "ms", "classifiers": classifiers})
    dataset = dataset_from_columns(judged_spec, arrays, vectors)
    loaded = built("policy", dataset, trees=16, depth=2, embedder="embedder")
    about = {"kind": "policy", "name": "judged", "dataset": "judged", "dataset_sha256": "0" * 64, "seed": 0}
    params = {"embedder": "embedder"}
    data = codec.encode(loaded.plan, {**about, "params": params, "unit": "ms", "summary": loaded.record.summary})
    with imported(server, data, "policies") as name:
        yield name


def artifacts(builds: dict[str, dict[str, Any]] = BUILDS, name: str = "digits") -> Iterator[bytes]:
    spec, columns, vectors = trace_table()
    arrays = {name: np.array(values) for name, values in columns.items()}
    dataset = dataset_from_columns(TraceSpec.model_validate(spec), arrays, vectors)
    assert isinstance(dataset, Trace)
    for kind, params in builds.items():
        loaded = built(kind, dataset, **params)
        about = {"kind": kind, "name": name, "dataset": "digits", "dataset_sha256": "0" * 64, "seed": 0}
        summary = {**loaded.record.summary, "confidences": profile_confidences(dataset)}
        manifest = {**about, "params": params, "unit": "ms", "summary": summary}
        yield codec.encode(loaded.plan, manifest)


def endpoints(models: ModelServer) -> dict[str, Any]:
    """Give the endpoints: each classifier behind another protocol, and an embedder."""
    return {
        "few-pixels": models.json_endpoint("few-pixels", secret="PARSIMONY_SECRET_TEST", secret_header="X-Key"),
        "half": models.inference_endpoint("half"),
        "all": models.chat_endpoint("all"),
        "embedder": {"protocol": "openai-embeddings", "url": models.url, "model": "e"},
    }


def answering(server: Server) -> set[str]:
    return {item["kind"] for item in server.client.get("/v1/artifacts").json()["items"]}


@pytest.fixture(autouse=True)
def _no_faults(models: ModelServer, server: Server) -> None:
    """Switch faults off, and register the endpoints anew, so that no circuit is open."""
    models.switch()
    for name, endpoint in endpoints(models).items():
        server.client.delete(f"/v1/endpoints/{name}")
        server.client.put(f"/v1/endpoints/{name}", json=endpoint)


def image(place: int) -> list[float]:
    pixels: list[float] = trained().images[FRESH + place].tolist()
    return pixels


def run(server: Server, kind: str, **body: Any) -> httpx.Response:
    plural = {"policy": "policies", "index": "indexes"}.get(kind, f"{kind}s")
    return server.client.post(f"/v1/{plural}/digits/runs", json=body)


def accuracy_of(replies: list[dict[str, Any]]) -> float:
    truth = trained().truth
    right: float = np.mean([reply["label"] == truth[FRESH + i] for i, reply in enumerate(replies)]).item()
    return right


def test_a_cascade_answers_images_that_nobody_has_seen_as_it_said(server: Server) -> None:
    replies = [run(server, "cascade", item=image(i), id=str(i), timeout_s=20).json() for i in range(120)]
    said = replies[0]["expected"]["accuracy_interval"]
    assert said[0] - 0.1 <= accuracy_of(replies) <= said[1] + 0.1
    steps = replies[0]["steps"]
    assert steps[-1]["accepted"]
    assert [step["accepted"] for step in steps].count(True) == 1
    assert all(reply["degraded"] is None for reply in replies)
    assert replies[0]["spent"]["cost"] == pytest.approx(sum(step["cost"] for step in steps))
    decided = server.client.get("/v1/cascades/digits/decision").json()
    assert [step["classifier"] for step in steps] == decided["cascade"][: len(steps)]
    outcome = {"items": [{"decision": replies[0]["decision"], "correct": True, "time": 1.0}]}
    assert server.client.post("/v1/feedback", json=outcome).json()["accepted"] == 1
    graph = server.client.get("/v1/cascades/digits/inference-graph").json()["spec"]["nodes"]["root"]
    decided = server.client.get("/v1/cascades/digits/decision?deadline=1e6").json()
    assert [step["serviceName"] for step in graph["steps"]] == decided["cascade"]
    thresholds = [step["confidence_threshold"] for step in decided["steps"][:-1]]
    conditions = [step.get("condition") for step in graph["steps"]]
    assert conditions == [None, *(f"[@this].#(confidence<{threshold!r})" for threshold in thresholds)]


def test_a_deadline_holds_whatever_hangs(server: Server, models: ModelServer) -> None:
    """The last one is left the ten milliseconds that it was planned to take, which a busy machine may need longer."""
    decided = server.client.get("/v1/cascades/digits/decision").json()
    first = decided["cascade"][0]
    models.switch(**{first: "hang"})
    for _ in range(12):
        server.client.put(f"/v1/endpoints/{first}", json=endpoints(models)[first])  # its circuit never opens
        started = time.monotonic()
        reply = run(server, "cascade", item=image(1), deadline=2000.0)
        assert time.monotonic() - started < 2.0 + patient(1.0)
        if reply.status_code != 504:
            break
    assert reply.status_code == 200, reply.text
    assert first in reply.json()["degraded"]
    assert reply.json()["label"] is not None


@pytest.mark.parametrize("faulty", COSTS)
@pytest.mark.parametrize(
    ("fault", "said", "tries"),
    [
        ("slow", None, 1),
        ("busy-once", None, 2),
        ("busy", "answered 429", 2),
        ("error", "answered 500", 1),
        ("hang", "no answer within", 1),
        ("reset", "connection lost", 1),
        ("garbage", "must be JSON", 1),
        ("endless", "bytes", 1),
        ("wrong-shape", "", 1),
        ("redirect", "redirects are not followed", 1),
    ],
)
def test_whatever_a_classifier_does_its_run_is_in_time_and_pays_nothing_twice(
    server: Server, models: ModelServer, fault: str, said: str | None, tries: int, faulty: str
) -> None:
    """Each protocol's classifier by itself; which of them a cascade comes to is for the item to say."""
    met = 0
    for place in range(3):
        models.switch(**{faulty: fault})
        started = time.monotonic()
        reply = run(server, "cascade", item=image(place), deadline=1500.0)
        assert time.monotonic() - started < 1.5 + patient(1.0)
        assert reply.status_code in (200, 502, 504), reply.text
        called = models.counted()["calls"]
        assert all(count <= (tries if name == faulty else 1) for name, count in called.items()), called
        if not called.get(faulty):
            continue
        met += 1
        assert called[faulty] == tries
        if reply.status_code != 200:
            assert said is not None
            continue
        answer = reply.json()
        (step,) = [step for step in answer["steps"] if step["classifier"] == faulty]
        assert (step["error"] is None, said is None or said in step["error"]) == (said is None, True), step
        assert said is None or faulty in answer["degraded"]
        assert step["attempts"] == tries
        assert answer["spent"]["cost"] == pytest.approx(sum(each["cost"] for each in answer["steps"]))
        assert answer["spent"]["cost"] <= 1500.0 + 1000 * patient(0.2), "costs are times here"
    first = server.client.get("/v1/cascades/digits/decision").json()["cascade"][0]
    assert met or faulty != first, "it was never called"


def test_a_portfolio_embeds_routes_and_falls_back(server: Server, models: ModelServer) -> None:
    text = json.dumps(image(2))  # which the dearest can read, for it is asked by chat
    reply = run(server, "portfolio", item=text, budget="90%").json()
    called = [step["classifier"] for step in reply["steps"]]
    assert called[0] == "embedder"
    models.switch(**{called[1]: "error"})
    # the stand-ins read pixels, which the text of a chat is not for the others: all that counts is who is called
    other = run(server, "portfolio", item=image(2), embedding=vector(2), budget="90%").json()
    assert other["degraded"].startswith(f"{called[1]}: answered 500")
    assert len({step["classifier"] for step in other["steps"]}) == 2


def vector(place: int) -> list[float]:
    numbers: list[float] = embedding(np.array([image(place)]))[0].tolist()
    return numbers


def test_a_list_is_assigned_as_a_whole_within_its_budget(server: Server) -> None:
    items = [{"item": image(i), "embedding": vector(i), "id": str(i)} for i in range(60)]
    reply = run(server, "portfolio", items=items, budget=4.0).json()
    planned = [COSTS[item["steps"][-1]["classifier"]] for item in reply["items"]]
    assert sum(planned) <= 4.0 * 60 * (1 + 1e-9)
    assert [item["id"] for item in reply["items"]] == [str(i) for i in range(60)]
    assert accuracy_of(reply["items"]) > 0.7
    assert reply["spent"]["cost"] == pytest.approx(sum(item["spent"]["cost"] for item in reply["items"]))


def post(server: Server, what: str, **body: Any) -> httpx.Response:
    return server.client.post(f"/v1/portfolios/digits/{what}", json=body)


def test_a_text_is_routed_as_its_embedding_is(server: Server, models: ModelServer) -> None:
    for place, fraction in ((0, 0.2), (1, 0.5), (2, 0.9)):
        asked = {"budget": f"{100 * fraction:.6f}%", "item": str(place)}
        by_text = post(server, "decision", text=json.dumps(image(place)), **asked).json()
        plain = post(server, "decision", query=vector(place), **asked).json()
        took = by_text.pop("embedding")
        assert by_text == plain
        assert (took["endpoint"], 0 < took["cost"] <= 1000 * took["seconds"]) == ("embedder", True)
    assert models.counted()["calls"] == {"embedder": 3}


def test_texts_are_assigned_as_their_embeddings_are_many_in_a_request(server: Server, models: ModelServer) -> None:
    server.client.put("/v1/endpoints/embedder", json=endpoints(models)["embedder"] | {"max_texts": 8})
    texts = [json.dumps(image(i)) for i in range(30)]
    asked = {"budget": 4.0}
    by_texts = post(server, "assignments", texts=texts, **asked).json()
    plain = post(server, "assignments", queries=[vector(i) for i in range(30)], **asked).json()
    assert (by_texts["assignments"], len(set(by_texts["assignments"])) > 1) == (plain["assignments"], True)
    assert by_texts["cost"] == pytest.approx(plain["cost"])
    counted = models.counted()
    assert (counted["texts"], counted["calls"]) == (30, {"embedder": 4})
    form = {"texts": (None, json.dumps(texts)), "constraints": (None, json.dumps(asked))}
    parts = server.client.post("/v1/portfolios/digits/assignments", files=form, headers={"accept": "text/csv"})
    assert [row.split(",")[1] for row in parts.text.splitlines()[1:]] == plain["assignments"]
    table = as_parquet(text=texts, group=["a", "b"] * 15)
    limits = {"groups": {"limits": {"a": {"classifiers": {"all": {"at_most": 0}}}}}}
    whole: Any = {"queries": ("q.parquet", table), "constraints": (None, json.dumps(asked | limits))}
    limited = server.client.post("/v1/portfolios/digits/assignments", files=whole).json()
    assert "all" not in limited["assignments"][::2]
    assert limited["embedding"]["cost"] > 0


def as_parquet(**columns: Any) -> bytes:
    out = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"text": ["a", "b"], "vector": [1.0, 2.0]}, "queries.vector"),
        ({"text": ["a", None]}, "queries.text: has missing cells, must be text in every row"),
        ({"text": ["a", ""]}, "texts.1: String should have at least 1 character"),
        ({"text": [1, 2]}, "queries.text: has the type int64, must be text in every row"),
    ],
)
def test_a_column_that_is_not_of_texts_is_refused_and_nothing_embedded(
    server: Server, models: ModelServer, columns: dict[str, Any], why: str
) -> None:
    headers = {"content-type": "application/vnd.apache.parquet"}
    path = "/v1/portfolios/digits/assignments?budget=4"
    reply = server.client.post(path, content=as_parquet(**columns), headers=headers)
    assert (reply.status_code, models.counted()["calls"]) == (422, {})
    assert why in reply.json()["detail"]


def test_texts_of_a_list_are_embedded_by_one_request_and_share_its_cost(server: Server, models: ModelServer) -> None:
    prices = {"per_call": 1.0, "input_per_million": 2.5e5}
    server.client.put("/v1/endpoints/embedder", json=endpoints(models)["embedder"] | {"prices": prices})
    items = [{"item": image(i), "text": json.dumps(image(i))} for i in range(7)]
    reply = run(server, "portfolio", items=items, budget=4.0).json()
    calls = [item["steps"][0] for item in reply["items"]]
    assert {call["classifier"] for call in calls} == {"embedder"}
    assert sum(call["cost"] for call in calls) == pytest.approx(1.0 + 0.25 * 64 * 7)
    assert models.counted()["calls"]["embedder"] == 1
    given = [{"item": image(i), "embedding": vector(i)} for i in range(7)]
    plain = run(server, "portfolio", items=given, budget=4.0).json()
    for by_text, one in zip(reply["items"], plain["items"], strict=True):
        assert by_text["steps"][1]["classifier"] == one["steps"][0]["classifier"]


def test_a_text_that_the_embedder_refuses_leaves_the_others_their_embeddings(
    server: Server, models: ModelServer
) -> None:
    items: list[dict[str, Any]] = [{"item": image(i), "text": json.dumps(image(i))} for i in range(9)]
    items[4]["text"] = "no image"
    reply = run(server, "portfolio", items=items, budget=4.0).json()
    failed = [place for place, item in enumerate(reply["items"]) if "status" in item]
    assert failed == [4]
    assert "embedder: answered 400" in reply["items"][4]["error"]
    whole = post(server, "assignments", texts=[item["text"] for item in items], budget=4.0)
    assert (whole.status_code, "text 5: " in whole.json()["detail"]) == (502, True)
    good, bad = run(server, "cascade", items=[{"item": image(0)}, {"item": {"no": "pixels"}}]).json()["items"]
    assert (good["label"] is None, bad["status"], bool(bad["error"])) == (False, 502, True)


@pytest.mark.parametrize(
    ("what", "texts"), [("decision", {"text": "[0.5]"}), ("assignments", {"texts": ["[0.5]"] * 3})]
)
def test_a_text_without_an_embedding_is_told_why(
    server: Server, models: ModelServer, nameless: str, what: str, texts: dict[str, Any]
) -> None:
    here = {"text": json.dumps(image(0))} if what == "decision" else {"texts": [json.dumps(image(0))]}
    asked = {"budget": "50%"}
    for fault, numbers in (("error", ("500",)), ("other-length", ("3", "16")), ("beyond", ("1e+30",))):
        models.switch(embedder=fault)
        failed = post(server, what, **here, **asked)
        assert (failed.status_code, failed.json()["type"]) == (502, "urn:parsimony:endpoint-failed")
        assert all(number in failed.json()["detail"] for number in numbers), failed.text
    models.switch()
    vectors: dict[str, Any] = {"query": [1.0]} if what == "decision" else {"queries": [[1.0]]}
    assert [post(server, what, **more, **asked).status_code for more in ({**here, **vectors}, {})] == [422, 422]
    dear = post(server, what, **here, budget=1e-6)
    assert (dear.status_code, dear.json()["type"]) == (409, "urn:parsimony:infeasible")
    server.client.delete("/v1/endpoints/embedder")
    assert post(server, what, **here, **asked).status_code in (422, 502)
    reply = server.client.post(f"/v1/portfolios/{nameless}/{what}", json=texts | asked)
    assert (reply.status_code, reply.json()["errors"][0]["loc"]) == (422, [*texts])


@pytest.mark.parametrize(
    "asked",
    [
        {"budget": 1e-6},
        {"min_accuracy": 1.0},
        {"classifiers": {name: {"at_most": 0} for name in COSTS}},
        {"groups": {"labels": ["a", "b"], "limits": {"b": {"budget_total": 1e-6}}}},
    ],
    ids=["budget", "accuracy", "classifiers", "groups"],
)
def test_texts_whose_limits_cannot_be_kept_are_refused_before_they_are_embedded(
    server: Server, models: ModelServer, asked: dict[str, Any]
) -> None:
    def infeasible() -> float:
        label = 'parsimony_decisions_total{kind="portfolio",name="digits",outcome="infeasible"}'
        lines = server.client.get("/metrics").text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(label))

    before, texts = infeasible(), [json.dumps(image(i)) for i in range(2)]
    reply = post(server, "assignments", texts=texts, **asked)
    plain = post(server, "assignments", queries=[vector(i) for i in range(2)], **asked)
    assert (reply.status_code, reply.json()["type"]) == (409, "urn:parsimony:infeasible"), reply.text
    assert reply.json()["detail"] == plain.json()["detail"]
    assert reply.json().get("conflict") == plain.json().get("conflict")
    assert models.counted()["calls"] == {}
    assert infeasible() == before + 2


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory, models: ModelServer) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("hasty")
    with running_server(folder, endpoint_hosts="127.0.0.1", secret_test=KEY, solve_timeout_s=patient(0.7)) as server:
        fill(server, models)
        yield server


@pytest.mark.parametrize("what", ["decision", "assignments"])
def test_the_time_of_a_decision_is_over_while_its_embedder_hangs(hasty: Server, models: ModelServer, what: str) -> None:
    text = json.dumps(image(0))
    texts = {"text": text} if what == "decision" else {"texts": [text, json.dumps(image(1))]}
    asked = texts | {"budget": "50%"}
    assert post(hasty, what, **asked).status_code == 200
    models.switch(embedder="hang")
    reply = post(hasty, what, **asked)
    assert (reply.status_code, reply.json()["type"]) == (504, "urn:parsimony:run-timeout")
    assert "embedder: no answer within" in reply.json()["detail"]
    assert models.counted()["calls"] == {"embedder": 1}
    wait_for(lambda: models.counted()["left"].get("embedder") == 1, 5, "its call is not given up")
    hasty.client.put("/v1/endpoints/embedder", json=endpoints(models)["embedder"] | {"timeout_s": 0.05})
    own = post(hasty, what, **asked)
    hasty.client.put("/v1/endpoints/embedder", json=endpoints(models)["embedder"])
    assert (own.status_code, own.json()["type"]) == (502, "urn:parsimony:endpoint-failed"), "it is the embedder's time"


def test_the_time_of_runs_is_over_while_their_embedder_hangs(server: Server, models: ModelServer) -> None:
    models.switch(embedder="hang")
    items = [{"item": image(i), "text": json.dumps(image(i))} for i in range(3)]
    limits = {"budget": 4.0, "timeout_s": 0.4}
    alone = run(server, "portfolio", **items[0], **limits)
    assert (alone.status_code, alone.json()["type"]) == (504, "urn:parsimony:run-timeout")
    many = run(server, "portfolio", items=items, **limits).json()["items"]
    assert [(item["status"], "no answer within" in item["error"]) for item in many] == [(504, True)] * 3
    assert models.counted()["calls"] == {"embedder": 2}, "nothing is called without an embedding"
    assert server.client.get("/v1/endpoints/embedder").json()["circuit"] == "closed", "the time was the caller's"


def test_a_paced_stream_counts_its_runs_in_the_ledger_and_calls_nobody_beyond_its_rate_limit(server: Server) -> None:
    """Neither first nor after a failure: what the ledger has not counted is not called."""

    def paced(place: int, **pacing: Any) -> httpx.Response:
        body = {"item": image(place), "embedding": vector(place), "budget": "100%"}
        return run(server, "portfolio", **body, budget_pacing=pacing)

    terms = {"ledger": "runs", "total": 12.0, "queries": 4}
    assert [paced(place, **terms).status_code for place in range(4)] == [200] * 4
    assert 409 in {paced(3, **terms).status_code for _ in range(12)}
    summary = server.client.get("/v1/artifacts/portfolio/digits").json()["summary"]
    names = [one["name"] for one in summary["classifiers"]]
    limits = {name: {"at_most": 2, "window_s": 600} for name in names}
    replies = [
        paced(place, ledger="rated", total=1e6, queries=40, classifiers=limits) for place in range(3 * len(names))
    ]
    assert {reply.status_code for reply in replies} <= {200, 409}
    called = [step["classifier"] for reply in replies for step in reply.json().get("steps", [])]
    assert max(called.count(name) for name in names) == 2
    assert len(called) <= 2 * len(names)


def test_a_policy_that_knows_embeddings_runs_by_one_or_by_the_items_text(
    server: Server, models: ModelServer, knowing: str
) -> None:
    """A step is told the same embedding, and says the same; the text costs a call of the embedder."""
    path, text = f"/v1/policies/{knowing}", json.dumps(image(5))
    given = server.client.post(
        f"{path}/runs", json={"item": image(5), "embedding": vector(5), "budget": 6.0, "id": "5"}
    )
    made = server.client.post(f"{path}/runs", json={"item": image(5), "text": text, "budget": 6.0, "id": "5"})
    assert given.json()["label"] == made.json()["label"]
    embedded, *acquired = [step["classifier"] for step in made.json()["steps"]]
    assert (embedded, acquired) == ("embedder", [step["classifier"] for step in given.json()["steps"]])
    assert models.counted()["calls"]["embedder"] == 1
    step = server.client.post(f"{path}/decision", json={"embedding": vector(5), "budget": 6.0, "item": "5"}).json()
    assert step.get("sensor") == (acquired[0] if acquired else None)


def test_a_policy_that_knows_embeddings_pays_nothing_before_it_has_one(
    server: Server, models: ModelServer, knowing: str
) -> None:
    path = f"/v1/policies/{knowing}"
    lacking = server.client.post(f"{path}/runs", json={"item": image(5)})
    assert (lacking.status_code, lacking.json()["errors"][0]["loc"]) == (422, ["embedding"])
    (decision,) = server.client.get("/v1/decisions", params={"name": knowing}).json()["items"]
    assert (decision["decision"], "embedding: " in decision["refusal"]) == (None, True)
    for model in (f"policy/{knowing}@deadline=0.000001", "portfolio/digits@budget=0"):
        for only in (False, True):
            chat = {"model": model, "messages": messages(3), "parsimony": {"route_only": only}}
            assert server.client.post("/v1/chat/completions", json=chat).status_code == 409
    unreachable = server.client.post(f"{path}/runs", json={"item": "text", "min_accuracy": 1.0})
    assert unreachable.status_code == 409
    assert models.counted()["calls"] == {}
    models.switch(embedder="error")
    failed = server.client.post(f"{path}/runs", json={"item": "text"})
    assert failed.status_code == 502
    models.switch(embedder="beyond")
    beyond = server.client.post(f"{path}/runs", json={"item": json.dumps(image(5))})
    assert (beyond.status_code, "1e+30" in beyond.json()["detail"]) == (502, True), beyond.text
    assert set(models.counted()["calls"]) == {"embedder"}


def test_texts_of_a_policys_list_are_embedded_by_one_request(server: Server, models: ModelServer, knowing: str) -> None:
    path, items = f"/v1/policies/{knowing}/runs", [{"item": image(i), "id": str(i)} for i in range(6)]
    with_texts = [{**one, "text": json.dumps(one["item"])} for one in items] + [{"item": image(6), "text": "no image"}]
    answers = server.client.post(path, json={"items": with_texts, "budget": 6.0}).json()["items"]
    assert ([place for place, one in enumerate(answers) if "status" in one], answers[6]["status"]) == ([6], 502)
    calls = models.counted()["calls"]["embedder"]
    assert calls <= 2 * 3 + 1, "halves are sent apart where one of seven is refused"
    given = [{**one, "embedding": vector(i)} for i, one in enumerate(items)]
    plain = server.client.post(path, json={"items": given, "budget": 6.0}).json()["items"]
    assert models.counted()["calls"]["embedder"] == calls
    for made, one in zip(answers, plain, strict=False):
        assert [step["classifier"] for step in made["steps"]] == ["embedder"] + [s["classifier"] for s in one["steps"]]
    unreachable = server.client.post(path, json={"items": with_texts, "min_accuracy": 1.0})
    lacking = server.client.post(path, json={"items": [with_texts[0], items[1]]})
    assert (lacking.status_code, lacking.json()["errors"][0]["loc"]) == (422, ["items", 1, "embedding"])
    assert (unreachable.status_code, models.counted()["calls"]["embedder"]) == (409, calls)


def test_a_policy_acquires_answers_and_combines_them(server: Server) -> None:
    replies = [run(server, "policy", item=image(i), id=str(i), budget=6.0).json() for i in range(60)]
    assert accuracy_of(replies) > 0.7
    assert all(reply["probabilities"] for reply in replies)


@pytest.mark.parametrize(
    ("fault", "status", "said"),
    [("error", 502, "500"), ("garbage", 502, "JSON"), ("wrong-shape", 502, ""), ("hang", 504, "")],
)
def test_when_all_fail_or_hang_the_caller_is_told_so(
    server: Server, models: ModelServer, fault: str, status: int, said: str
) -> None:
    models.switch(**dict.fromkeys(COSTS, fault))
    reply = run(server, "cascade", item=image(0), timeout_s=0.5 if fault == "hang" else 20)
    code = "run-timeout" if fault == "hang" else "endpoint-failed"
    assert (reply.status_code, reply.json()["type"]) == (status, f"urn:parsimony:{code}")
    assert said in reply.json()["detail"]
    assert "secret" not in reply.text


def test_a_caller_who_goes_away_cancels_its_calls(server: Server, models: ModelServer) -> None:
    models.switch(**dict.fromkeys(COSTS, "hang"))
    with pytest.raises(httpx.ReadTimeout):
        server.client.post("/v1/cascades/digits/runs", json={"item": image(0)}, timeout=0.5)
    wait_for(lambda: sum(models.counted()["left"].values()) == 1, 10, "the call goes on")


@pytest.mark.parametrize(
    ("kind", "body", "loc"),
    [
        ("cascade", {}, ["body"]),
        ("cascade", {"item": 1, "items": [{"item": 1}]}, ["body"]),
        ("cascade", {"item": 1, "embedding": [1.0]}, ["embedding"]),
        ("cascade", {"item": 1, "budget": "150%"}, ["budget"]),
        ("cascade", {"item": 1, "deadline": -1}, ["deadline"]),
        ("cascade", {"item": 1, "max_item_cost": 1.0}, ["max_item_cost"]),
        ("cascade", {"item": 1, "tradeoff": 1.0}, ["tradeoff"]),
        ("cascade", {"item": 1, "min_coverage": 0.5}, ["min_coverage"]),
        ("portfolio", {"items": [{"item": 1}], "max_item_cost": 1.0}, ["max_item_cost"]),
        ("portfolio", {"item": [1], "budget": 5.0}, ["embedding"]),
        ("portfolio", {"item": 1, "embedding": [1.0], "budget": 5.0}, ["query"]),
        ("cascade", {"item": 1, "surprise": 1}, ["surprise"]),
        ("policy", {"item": 1, "embedding": [0.5]}, ["embedding"]),
        ("policy", {"item": 1, "text": "a text"}, ["text"]),
    ],
)
def test_what_means_nothing_is_refused(server: Server, kind: str, body: dict[str, Any], loc: list[str]) -> None:
    reply = run(server, kind, **body)
    assert reply.status_code == 422, reply.text
    assert reply.json()["errors"][0]["loc"] == loc


def test_endpoints_are_kept_listed_probed_and_forgotten_and_no_key_is_ever_told(server: Server) -> None:
    listed = server.client.get("/v1/endpoints?limit=2").json()
    assert (listed["total"], len(listed["items"])) == (4, 2)
    rest = server.client.get(f"/v1/endpoints?cursor={listed['next']}").json()
    assert [item["name"] for item in (*listed["items"], *rest["items"])] == ["all", "embedder", "few-pixels", "half"]
    shown = server.client.get("/v1/endpoints/few-pixels").json()
    assert (shown["circuit"], shown["secret_known"]) == ("closed", True)
    probed = server.client.post("/v1/endpoints/few-pixels/probe", json={"item": image(0)}).json()
    assert (probed["error"], probed["attempts"]) == (None, 1)
    assert probed["label"] in trained().truth
    run(server, "cascade", item=image(0))
    for path in ("/v1/endpoints", "/v1/endpoints/few-pixels", "/metrics", "/health/ready", "/openapi.json"):
        assert KEY not in server.client.get(path).text
    assert KEY not in server.log.read_text()
    for file in Path(server.data_dir).rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes()
    assert server.client.delete("/v1/endpoints/half").status_code == 204
    assert server.client.get("/v1/endpoints/half").status_code == 404
    assert server.client.delete("/v1/endpoints/half").json()["type"] == "urn:parsimony:unknown-endpoint"
    assert server.client.post("/v1/endpoints/half/probe", json={"item": 1}).status_code == 404


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"url": "http://169.254.169.254/"}, "PARSIMONY_ENDPOINT_HOSTS"),
        ({"url": "http://example.org/"}, "PARSIMONY_ENDPOINT_HOSTS"),
        ({"url": "file:///etc/passwd"}, "url"),
        ({"url": "http://user:pass@127.0.0.1/"}, "password"),
        ({"url": "http://127.0.0.1/ x"}, "space"),
        ({"url": "http://{{item}}/"}, "host"),
        ({"secret": "AWS_SECRET_ACCESS_KEY"}, "pattern"),
        ({"secret": "PARSIMONY_REDIS_URL"}, "pattern"),
        ({"secret_header": "X: y\r\nZ"}, "pattern"),
        ({"label": "no/pointer"}, "JSON pointer"),
        ({"body": json.loads("[" * 40 + "]" * 40)}, "32 levels"),
    ],
)
def test_an_endpoint_that_must_not_be_called_is_refused(
    server: Server, models: ModelServer, change: dict[str, Any], said: str
) -> None:
    reply = server.client.put("/v1/endpoints/bad", json=models.json_endpoint("all") | change)
    assert reply.status_code == 422, reply.text
    assert said in reply.text
    assert server.client.get("/v1/endpoints/bad").status_code == 404


def client_of(server: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=patient(20.0))


def messages(place: int) -> Any:
    return [{"role": "user", "content": json.dumps(image(place))}]


@pytest.fixture
def chats(server: Server, models: ModelServer) -> None:
    for name in COSTS:
        server.client.put(f"/v1/endpoints/{name}", json=models.chat_endpoint(name))


@pytest.mark.usefixtures("chats")
@pytest.mark.parametrize("model", ["cascade/digits", "portfolio/digits@budget=5", "policy/digits@budget=5"])
def test_a_chat_client_needs_two_changed_words(server: Server, models: ModelServer, model: str) -> None:
    with client_of(server) as client:
        assert {"cascade/digits", "portfolio/digits", "policy/digits"} <= {one.id for one in client.models.list()}
        raw = client.chat.completions.with_raw_response.create(model=model, messages=messages(3), temperature=0.5)
        reply = raw.parse()
    assert reply.choices[0].message.content in set(trained().truth)
    assert reply.usage is not None
    assert reply.usage.total_tokens >= 65
    assert raw.headers["x-parsimony-artifact"] == f"{model.split('/')[0]}/digits/1"
    assert set(json.loads(raw.headers["x-parsimony-called"])) <= {*COSTS, "embedder"}
    assert raw.headers["x-parsimony-decision"].startswith(model.split("/")[0])
    if not model.startswith("portfolio"):
        return
    models.switch()
    asked = {"model": model, "messages": messages(4), "parsimony": {"route_only": True}}
    extras = server.client.post("/v1/chat/completions", json=asked).json()["parsimony"]
    assert [one["classifier"] for one in extras["candidates"] if one["taken"]] == [extras["classifier"]]
    assert all(one["because"] for one in extras["candidates"])
    assert set(models.counted()["calls"]) == {"embedder"}


def test_a_chat_with_a_policy_that_knows_embeddings_has_its_last_text_embedded(
    server: Server, models: ModelServer, knowing: str
) -> None:
    asked = {"model": f"policy/{knowing}@budget=6", "messages": [{"role": "user", "content": json.dumps(image(5))}]}
    item = {"id": "the same operating point twice"}
    reply = server.client.post("/v1/chat/completions", json=asked | {"parsimony": item})
    assert reply.status_code == 200, reply.text
    called = [step["classifier"] for step in reply.json()["parsimony"]["steps"]]
    assert called[0] == "embedder"
    models.switch()
    routed = server.client.post("/v1/chat/completions", json=asked | {"parsimony": item | {"route_only": True}})
    assert routed.status_code == 200, routed.text
    assert routed.json()["parsimony"]["sensor"] == called[1]
    assert routed.json()["usage"]["prompt_tokens"] == 64
    assert models.counted()["calls"] == {"embedder": 1}


def test_a_policy_of_judged_answers_gives_the_one_that_it_takes(
    server: Server, models: ModelServer, judged: str
) -> None:
    budget = sum(COSTS.values()) / 2
    path = f"/v1/policies/{judged}/runs"
    replies = [
        server.client.post(path, json={"item": image(i), "text": json.dumps(image(i)), "id": str(i), "budget": budget})
        for i in range(60)
    ]
    assert {reply.status_code for reply in replies} == {200}, replies[0].text
    answers = [reply.json() for reply in replies]
    low, high = answers[0]["expected"]["accuracy_interval"]
    assert low - 0.1 <= accuracy_of(answers) <= high + 0.1
    for one in answers:
        (taken,) = [step for step in one["steps"] if step["accepted"]]
        assert (one["label"], one["degraded"]) == (taken["label"], None)
        assert 0 < one["confidence"] <= 1
    assert np.mean([one["confidence"] for one in answers]) == pytest.approx(accuracy_of(answers), abs=0.12)
    models.switch(**{name: "error" for name in COSTS if name != "all"})
    left = server.client.post(path, json={"item": image(1), "text": json.dumps(image(1)), "id": "1"}).json()
    assert [step["classifier"] for step in left["steps"] if step["accepted"]] == ["all"]


@pytest.mark.usefixtures("chats")
def test_a_chat_with_a_policy_of_judged_answers_is_answered_by_one_of_them(
    server: Server, models: ModelServer, judged: str
) -> None:
    for name in COSTS:
        server.client.put(f"/v1/endpoints/{name}", json=models.chat_endpoint(name, answer={"kind": "text"}))
    asked: Any = {"model": f"policy/{judged}@budget={sum(COSTS.values())}", "messages": messages(3)}
    with client_of(server) as client:
        whole = client.chat.completions.create(**asked)
        chunks = list(client.chat.completions.create(**asked, stream=True))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert text in set(trained().truth)
    route_only = server.client.post("/v1/chat/completions", json=asked | {"parsimony": {"route_only": True}}).json()
    assert route_only["parsimony"]["action"] == "acquire"
    assert (
        server.client.post("/v1/chat/completions", json=asked | {"model": f"policy/{judged}@budget=0"}).status_code
        == 409
    )


def test_a_chat_is_streamed_and_asked_asynchronously_from_classifiers_of_every_protocol(server: Server) -> None:
    asked: Any = {"model": "cascade/digits", "messages": messages(3)}
    with client_of(server) as client:
        chunks = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
        whole = client.chat.completions.create(**asked)
        by_policy = client.chat.completions.create(**asked | {"model": "policy/digits@budget=14"})
    assert by_policy.choices[0].message.content in set(trained().truth)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage is not None

    async def ask() -> Any:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
            reply = await client.chat.completions.create(**asked)
            return reply.choices[0].message.content

    assert asyncio.run(ask()) == text


@pytest.mark.usefixtures("chats")
def test_the_pieces_of_the_last_call_are_passed_on_as_they_come(server: Server, models: ModelServer) -> None:
    for name in COSTS:
        server.client.put(f"/v1/endpoints/{name}", json=models.chat_endpoint(name, answer={"kind": "text"}))
    asked: Any = {"model": "portfolio/digits@budget=5", "messages": messages(3), "user": "spell"}
    with client_of(server) as client:
        chunks = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
        texts = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
        assert len(texts) > 5
        assert "".join(texts).startswith("the digit is ")
        assert chunks[-1].usage is not None
        assert chunks[-1].usage.prompt_tokens > 0
        models.switch(**dict.fromkeys(COSTS, "break"))
        with pytest.raises(openai.APIError, match="interrupted"):
            list(client.chat.completions.create(**asked, stream=True))
        assert sum(models.counted()["calls"][name] for name in COSTS if name in models.counted()["calls"]) == 1
        models.switch()
        with client.chat.completions.with_streaming_response.create(**asked, stream=True) as streamed:
            headers = streamed.headers
            assert json.loads(headers["x-parsimony-called"]) == list(models.counted()["calls"])
            assert headers["x-parsimony-decision"].startswith(headers["x-parsimony-artifact"])
        models.switch(**dict.fromkeys(COSTS, "hang"))
        with pytest.raises(openai.APIStatusError):
            client.chat.completions.create(**asked, stream=True, extra_body={"parsimony": {"timeout_s": 0.4}})


@pytest.mark.usefixtures("chats")
@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("cascade/nothing", openai.NotFoundError),
        ("gpt-4o", openai.BadRequestError),
        ("cascade/digits@budget=much", openai.BadRequestError),
        ("cascade/digits@deadline=0.000001", openai.ConflictError),
    ],
)
def test_a_chats_errors_are_of_openais_kind(server: Server, model: str, kind: type[openai.APIStatusError]) -> None:
    with client_of(server) as client, pytest.raises(kind) as refused:
        client.chat.completions.create(model=model, messages=messages(0))
    assert refused.value.body is not None


def test_an_artifact_is_a_model_of_the_open_inference_protocol(server: Server, models: ModelServer) -> None:
    assert server.client.get("/v2").json()["name"] == "parsimony"
    assert server.client.get("/v2/health/ready").json() == {"ready": True}
    assert server.client.get("/v2/models/cascade.digits").json()["versions"] == ["1"]
    assert server.client.get("/v2/models/cascade.digits/ready").status_code == 200
    assert server.client.get("/v2/models/cascade.nothing").status_code == 404
    rows = [image(0), image(1)]
    tensor = {"name": "input-0", "shape": [2, 64], "datatype": "FP64", "data": rows}
    reply = server.client.post("/v2/models/cascade.digits/infer", json={"id": "a", "inputs": [tensor]})
    assert reply.status_code == 200, reply.text
    outputs = {output["name"]: output["data"] for output in reply.json()["outputs"]}
    alone = [run(server, "cascade", item=row).json()["label"] for row in rows]
    assert outputs["label"] == alone
    assert len(outputs["confidence"]) == 2
    texts = {"name": "t", "shape": [2], "datatype": "BYTES", "data": [json.dumps(row) for row in rows]}
    for name in COSTS:
        server.client.put(f"/v1/endpoints/{name}", json=models.chat_endpoint(name))
    inferred = server.client.post("/v2/models/cascade.digits/infer", json={"inputs": [texts]}).json()
    assert {output["name"]: output["data"] for output in inferred["outputs"]}["label"] == alone
    limited = {"inputs": [tensor], "parameters": {"max_item_cost": 1.0}}
    refused = server.client.post("/v2/models/cascade.digits/infer", json=limited)
    assert (refused.status_code, "max_item_cost" in refused.json()["error"]) == (422, True)
    bad = tensor | {"shape": [3, 64]}
    assert server.client.post("/v2/models/cascade.digits/infer", json={"inputs": [bad]}).status_code == 422


@pytest.mark.parametrize("binary", [False, True])
def test_a_client_of_the_open_inference_protocol_asks_for_artifacts(server: Server, binary: bool) -> None:
    """Triton's, by its defaults (tensors as bytes behind the JSON) and as plain JSON."""
    rows = np.array([image(0), image(1)])
    alone = [run(server, "cascade", item=row).json() for row in rows.tolist()]
    with tritonclient.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready("cascade.digits")
        assert not client.is_model_ready("cascade.nothing")
        metadata = client.get_model_metadata("cascade.digits")
        tensor = tritonclient.InferInput(metadata["inputs"][0]["name"], list(rows.shape), "FP64")
        tensor.set_data_from_numpy(rows, binary_data=binary)
        asked = [tritonclient.InferRequestedOutput(each["name"], binary_data=binary) for each in metadata["outputs"]]
        reply = client.infer("cascade.digits", [tensor], outputs=None if binary else asked, request_id="a")
        assert reply.as_numpy("label").astype(str).tolist() == [each["label"] for each in alone]
        assert reply.as_numpy("confidence").tolist() == [each["confidence"] for each in alone]
        with pytest.raises(InferenceServerException, match="cascade artifact 'nothing' not found"):
            client.infer("cascade.nothing", [tensor])


@pytest.mark.parametrize(
    ("length", "tensor", "behind", "said"),
    [
        ("9999", {}, b"", ""),
        ("-1", {}, b"", ""),
        (None, {"parameters": {"binary_data_size": 16}}, b"", "16"),
        ("all", {"parameters": {"binary_data_size": 8}}, b"\0" * 16, "at most 16"),
        ("all", {"parameters": {"binary_data_size": 12}}, b"\0" * 12, "FP64"),
        ("all", {"parameters": {"binary_data_size": 8}}, b"\xff" * 8, "1 of 1"),
        ("all", {"datatype": "BYTES", "parameters": {"binary_data_size": 6}}, b"\xff\0\0\0ab", "text 0 "),
        ("all", {"datatype": "BYTES", "parameters": {"binary_data_size": 5}}, b"\1\0\0\0\xff", "UTF-8"),
        ("all", {"datatype": "BF16", "parameters": {"binary_data_size": 2}}, b"ab", "BYTES"),
    ],
)
def test_tensors_that_are_none_are_refused(
    server: Server, length: str | None, tensor: dict[str, Any], behind: bytes, said: str
) -> None:
    text = json.dumps({"inputs": [{"name": "t", "shape": [1, 1], "datatype": "FP64", **tensor}]}).encode()
    stated = str(len(text)) if length == "all" else length
    headers = {"content-type": "application/octet-stream"} | (
        {"inference-header-content-length": stated} if stated else {}
    )
    reply = server.client.post("/v2/models/cascade.digits/infer", content=text + behind, headers=headers)
    assert reply.status_code == 422
    assert said in reply.json()["error"]


def test_a_page_of_another_site_sends_no_tensor_by_stating_no_type(server: Server) -> None:
    other, text, path = {"origin": "https://other.example"}, {"content-type": "text/plain"}, "/v2/models/cascade.digits"
    replies = [server.client.post(f"{path}/infer", content=b"{}", headers=h) for h in (other, text, other | text, {})]
    assert [reply.status_code for reply in replies] == [415, 415, 415, 422]
    json_type = {"content-type": "application/json"}
    for front in ("/v1/chat/completions", f"{path}/infer"):
        reply = server.client.post(front, content=b"\xff", headers=json_type)
        assert (reply.status_code, list(reply.json())) == (400 if "chat" in front else 422, ["error"])


_CHAT = {"messages": [{"role": "user", "content": "%s"}], "parsimony": {"timeout_s": 20.0}}
_CHATS: list[dict[str, Any]] = [
    *({"model": model, **_CHAT} for model in ("cascade/digits", "cascade/nobody", "oracle/digits")),
    {"model": "cascade/digits", "messages": []},
    *({"model": "cascade/digits", **_CHAT, **more} for more in ({"logit": 1}, {"parsimony": {"route_only": True}})),
]
_BODIES = {
    "cascades/digits/runs": """{"item": %s} | {"items": [{"item": %s}, {"item": "none"}]} | {"item": 1, "item": 2}
        | {"item": {"a:b": 1, "a:b": 2}} | {"item": 1000000000000000000000000000000} | {"item": 1, "surprise": 1}
        | {"item": 1, "budget": "50%%"} | {"item": 1, "deadline": 1e-9} | {"item": "no pixels"} | { | """,
    "cascades/nobody/runs": '{"item": 1}',
    "cascades/no body/runs": '{"item": 1}',
    "portfolios/digits/runs": '{"item": [1], "budget": 5.0}',
    "policies/digits/runs": '{"item": %s, "id": "of a drawn member"}',
    "chat/completions": "|".join(map(json.dumps, _CHATS)),
}


@pytest.mark.parametrize(
    ("path", "body"), [(f"/v1/{path}", body.strip()) for path, bodies in _BODIES.items() for body in bodies.split("|")]
)
def test_the_short_way_and_the_usual_one_reply_alike(server: Server, path: str, body: str) -> None:
    content = body.replace("%s", json.dumps(image(6))).replace("%%", "%")
    replies = [
        server.client.post(path, content=content, headers={"content-type": kind, "x-request-id": "same"})
        for kind in ("application/json", "application/json; charset=utf-8")
    ]
    short, usual = (_timeless(reply.json()) for reply in replies)
    assert short == usual
    assert replies[0].status_code == replies[1].status_code
    heads = [{(k, v) for k, v in one.headers.items() if k not in ("date", "content-length")} for one in replies]
    assert heads[0] == heads[1]
    lines = [line for line in server.client.get("/metrics").text.splitlines() if "requests_total{" in line]
    routes = {line.split('route="')[1].split('"')[0] for line in lines if "policies" in line and "runs" in line}
    assert routes <= {"/v1/policies/{name}/runs"}


def _timeless(reply: Any) -> Any:
    """Leave out of a reply what is measured or made anew.

    A server that fails closes its connection behind its reply: the next call may have that one, and breaks, or a new
    one, and is answered.
    """
    if isinstance(reply, str):
        return re.sub(r"connection lost: \w+", "answered 500", reply)
    if isinstance(reply, list):
        return [_timeless(each) for each in reply]
    if isinstance(reply, dict):
        anew = ("seconds", "cost", "created", "id")
        return {name: _timeless(value) for name, value in reply.items() if name not in anew}
    return reply


def test_many_callers_at_once_get_what_they_would_get_alone(server: Server) -> None:
    alone = [run(server, "cascade", item=image(i)).json()["label"] for i in range(16)]
    labels: dict[int, Any] = {}

    def ask(place: int) -> None:
        labels[place] = run(server, "cascade", item=image(place)).json()["label"]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [labels[i] for i in range(16)] == alone


def test_a_failing_endpoints_circuit_is_shown_and_counted(server: Server, models: ModelServer) -> None:
    first = server.client.get("/v1/cascades/digits/decision").json()["cascade"][0]
    models.switch(**{first: "error"})
    for place in range(6):
        assert run(server, "cascade", item=image(place)).status_code == 200
    assert server.client.get(f"/v1/endpoints/{first}").json()["circuit"] == "open"
    assert f"endpoint {first!r}" in " ".join(server.client.get("/health/ready").json()["problems"])
    metrics = server.client.get("/metrics").text
    assert f'parsimony_circuit_open{{endpoint="{first}"}} 1.0' in metrics
    assert f'parsimony_calls_total{{endpoint="{first}",outcome="failed"}}' in metrics
    last = run(server, "cascade", item=image(0)).json()
    assert last["open_circuits"] == [first]
    asked = {"messages": messages(3), "parsimony": {"route_only": True}}
    for model in ("cascade/digits", "portfolio/digits@budget=100%"):
        reply = server.client.post("/v1/chat/completions", json={"model": model, **asked}).json()
        assert reply["parsimony"]["open_circuits"] == [first]
    because = {one["classifier"]: one["because"] for one in reply["parsimony"]["candidates"]}
    assert [name for name, why in because.items() if why == "circuit breaker open"] == [first]
    assert reply["parsimony"]["classifier"] != first
    for reply in decided_without(server):
        assert reply["open_circuits"] == [first]
        taken = reply.get("assignments") or reply.get("cascade") or [reply.get("sensor") or reply["classifier"]]
        assert first not in taken
    assert first == min(COSTS, key=COSTS.__getitem__)
    asked = {"query": trace_table()[2][0].tolist(), "budget": COSTS[first]}
    reply = server.client.post("/v1/portfolios/digits/decision", json=asked).json()
    assert (reply["classifier"], reply["open_circuits"]) == (first, [first])  # nothing else is within the budget
    refused = server.client.post("/v1/portfolios/digits/decision", json={**asked, "excluded": [first]})
    assert refused.status_code == 409
    assert "without excluded classifiers" in refused.json()["detail"]
    assert server.client.put(f"/v1/endpoints/{first}", json=endpoints(models)[first]).status_code == 200
    assert server.client.get(f"/v1/endpoints/{first}").json()["circuit"] == "closed"
    assert first not in [step["classifier"] for step in last["steps"]]
    assert "circuit" in last["degraded"]
    assert all(reply["open_circuits"] == [] for reply in decided_without(server))


def decided_without(server: Server) -> Iterator[dict[str, Any]]:
    vector = trace_table()[2][0].tolist()
    yield server.client.get("/v1/cascades/digits/decision").json()
    yield server.client.get("/v1/cascades/digits/decision?budget=1000").json()
    items = server.client.get("/v1/decisions?name=digits&budget=1000").json()["items"]
    yield next(item["decision"] for item in items if item["artifact"]["kind"] == "cascade")
    yield server.client.post("/v1/policies/digits/decision", json={"item": "a", "tradeoff": 0.0}).json()
    asked = {"budget": "100%"}
    yield server.client.post("/v1/portfolios/digits/decision", json={"query": vector, **asked}).json()
    paced = {"ledger": "circuits", "total": 1e6, "queries": 100}
    body = {"query": vector, **asked, "budget_pacing": paced}
    yield server.client.post("/v1/portfolios/digits/decision", json=body).json()
    yield server.client.post("/v1/portfolios/digits/assignments", json={"queries": [vector] * 5, **asked}).json()
    cheapest = {"queries": [vector] * 5, "goal": "cost"}
    yield server.client.post("/v1/portfolios/digits/assignments", json=cheapest).json()


@pytest.fixture
def parsimony(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Any:
    """Give a function that runs a command in a folder of its own, speaking to the server or to a store."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, url: str | None = server.url) -> tuple[int, str, str]:
        if url is not None:
            monkeypatch.setenv("PARSIMONY_URL", url)
        return ran(monkeypatch, capsys, *arguments)

    return run


def test_the_command_line_registers_probes_runs_and_forgets(
    parsimony: Any, models: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Speaking to a server, or to a store of its own: then it calls from where it is, what is allowed there."""
    Path("endpoint.json").write_text(json.dumps(models.json_endpoint("half")))
    Path("image.json").write_text(json.dumps(image(5)))
    assert parsimony("endpoint", "add", "mine", "endpoint.json")[0] == 0
    assert "mine" in parsimony("endpoint", "list")[1]
    assert json.loads(parsimony("endpoint", "show", "mine")[1])["label"] == "/answer/label"
    said = json.loads(parsimony("endpoint", "probe", "mine", "@image.json", "--json")[1])
    assert said["label"] in trained().truth
    ran = json.loads(parsimony("run", "cascade", "digits", "@image.json", "id=7", "--json")[1])
    assert (ran["id"], ran["label"] in trained().truth) == ("7", True)
    assert parsimony("run", "cascade", "digits", "@image.json")[0] == 0
    assert parsimony("endpoint", "delete", "mine")[0] == 0
    for command in (("endpoint", "delete", "mine"), ("run", "cascade", "digits", "1", "deadline=-1")):
        status, _, err = parsimony(*command)
        assert (status, err.count("\n")) == (1, 1)
    monkeypatch.delenv("PARSIMONY_URL")
    status, _, err = parsimony("endpoint", "add", "half", "endpoint.json", url=None)
    assert (status, "PARSIMONY_ENDPOINT_HOSTS" in err) == (1, True)
    monkeypatch.setenv("PARSIMONY_ENDPOINT_HOSTS", "127.0.0.1")
    assert parsimony("endpoint", "add", "half", "endpoint.json", url=None)[0] == 0
    said = json.loads(parsimony("endpoint", "probe", "half", "@image.json", "--json", url=None)[1])
    assert said["error"] is None
    assert parsimony("endpoint", "delete", "half", url=None)[0] == 0
    assert parsimony("endpoint", "probe", "half", "1", url=None)[0] == 1


def test_commands_decide_by_texts(
    parsimony: Any, server: Server, models: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [json.dumps(image(i)) for i in range(4)]
    Path("texts.txt").write_text("\n".join(texts))
    plain = post(server, "assignments", queries=[vector(i) for i in range(4)], budget=4.0).json()
    monkeypatch.setenv("PARSIMONY_DATA_DIR", str(server.data_dir))
    monkeypatch.setenv("PARSIMONY_ENDPOINT_HOSTS", "127.0.0.1")
    for url in (server.url, None):
        monkeypatch.delenv("PARSIMONY_URL", raising=False)
        command = ("decide", "portfolio", "digits", f"text={texts[0]}", 'budget="50%"', "--json")
        status, out, err = parsimony(*command, url=url)
        assert (status, "classifier" in json.loads(out or "{}")) == (0, True), err
        command = ("portfolio", "assign", "digits", "texts.txt", "--budget=4", "--json")
        status, out, err = parsimony(*command, url=url)
        assert (status, json.loads(out or "{}").get("assignments")) == (0, plain["assignments"]), err
        called = models.counted()["calls"]
        command = ("decide", "portfolio", "digits", f"text={texts[0]}", "budget=1e-9", "--json")
        status, _, err = parsimony(*command, url=url)
        assert (status, "got 1e-09" in err, models.counted()["calls"]) == (1, True, called), err


@pytest.mark.browser
@visits.NEEDED
def test_the_console_routes_a_text_once_it_is_sent(server: Server, models: ModelServer, nameless: str) -> None:
    written = json.dumps(image(3))
    with visits.browser() as browser, visits.visit(browser, server.url) as visit:
        page = visit.page
        page.goto("/artifacts/portfolio/digits")
        panel = page.get_by_role("tabpanel", name="Decide for one item")
        panel.get_by_label("text", exact=True).fill(written)
        panel.get_by_label("budget", exact=True).fill("70%")
        assert models.counted()["calls"] == {}, "each letter would be paid for"
        panel.get_by_role("button", name="Decide").click()
        reply = post(server, "decision", query=vector(3), budget="70%").json()
        expect(panel.locator(".answer dd").first).to_have_text(reply["classifier"])
        assert models.counted()["calls"] == {"embedder": 1}
        expect(panel.get_by_role("button", name="Copy curl")).to_be_visible()
        panel.get_by_label("budget", exact=True).fill("0.0000001")
        panel.get_by_role("button", name="Decide").click()
        expect(panel.locator("[data-rest]")).to_contain_text("budget must be at least")
        page.goto(f"/artifacts/portfolio/{nameless}")
        expect(panel.get_by_label("query", exact=True)).to_be_visible()
        expect(panel.get_by_label("text", exact=True)).to_have_count(0)
        assert visit.outside == []
        assert all("409" in one for one in visit.complaints), visit.complaints


@pytest.mark.browser
@visits.NEEDED
def test_the_console_registers_tries_and_forgets_an_endpoint(server: Server, models: ModelServer) -> None:
    with visits.browser() as browser, visits.visit(browser, server.url) as visit:
        page = visit.page
        page.goto("/endpoints")
        expect(page.locator("#list")).to_contain_text("few-pixels")
        page.get_by_label("Name", exact=True).fill("mine")
        page.locator("#spec").fill(json.dumps(models.json_endpoint("half")))
        page.get_by_role("button", name="Register", exact=True).click()
        expect(page.locator("#list")).to_contain_text("mine")
        page.locator("#item").fill(json.dumps(image(5)))
        page.get_by_role("button", name="Call", exact=True).click()
        expect(page.locator("#result")).to_contain_text("confidence")
        page.locator("#spec").fill("{")
        page.get_by_role("button", name="Register", exact=True).click()
        expect(page.locator("#spec-fault")).to_contain_text("JSON")
        row = page.locator("#list tr", has_text="mine")
        row.get_by_role("button", name="Delete…").click()
        page.get_by_role("dialog").get_by_role("textbox").fill("mine")
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.locator("#list")).to_contain_text("few-pixels")
        expect(page.locator("#list")).not_to_contain_text("mine")
        assert (visit.outside, visit.complaints) == ([], [])


def test_confidences_on_another_scale_than_the_builds_are_a_problem_until_they_are_back(
    server: Server, models: ModelServer
) -> None:
    name = server.client.get("/v1/cascades/digits/decision").json()["cascade"][0]
    endpoint = endpoints(models)[name]
    items = [{"item": image(place)} for place in range(WINDOW)]

    def problems_after_a_window() -> list[str]:
        assert server.client.post("/v1/cascades/digits/runs", json={"items": items}, timeout=60).status_code == 200
        return [each for each in server.client.get("/health/ready").json()["problems"] if "confidence_scale" in each]

    assert problems_after_a_window() == []
    assert server.client.post(f"/v1/endpoints/{name}/probe", json={"item": image(0)}).json()["warnings"] == []
    server.client.put(f"/v1/endpoints/{name}", json=endpoint | {"confidence_scale": "percent"})
    try:
        probed = server.client.post(f"/v1/endpoints/{name}/probe", json={"item": image(0)}).json()
        assert "confidence_scale" in " ".join(probed["warnings"])
        (problem,) = problems_after_a_window()
        assert f"endpoint {name!r}" in problem
    finally:
        server.client.put(f"/v1/endpoints/{name}", json=endpoint)
    assert problems_after_a_window() == []
