"""Every error code of the contract that can occur, over HTTP."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import upload
from tests.support.samples import table_upload, to_csv, trace_columns, trace_upload
from tests.support.servers import Server, running_server, wait_for

SOLVE = {"classifiers": [{"name": "K1", "execution_time": 1, "success_probability": 1}]}


def is_problem(reply: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = reply.json()
    assert body["type"] == f"urn:parsimony:{code}"
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]
    assert body["instance"] == f"urn:parsimony:request:{reply.headers['x-request-id']}"
    return body


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("1e308", "must be at most"),
        ("true", "must be a number"),
        ('"1"', "must be a number"),
        *((value, "at character ") for value in ("NaN", "Infinity", "1e999")),
    ],
)
def test_a_number_that_is_none_is_refused_with_its_place(server: Server, value: str, message: str) -> None:
    body = f'{{"classifiers": [{{"name": "K1", "execution_time": {value}, "success_probability": 1}}]}}'
    reply = server.client.post("/v1/cascades/solve", content=body, headers={"content-type": "application/json"})
    (fault,) = is_problem(reply, 422, "invalid-request")["errors"]
    is_no_json = message.startswith("at")
    assert fault["loc"] == (["body"] if is_no_json else ["classifiers", 0, "execution_time"])
    assert (f"{message}{body.index(value)}" if is_no_json else message) in fault["msg"]


@pytest.mark.parametrize("value", ["NaN", "1e999", '{"a": [1, -Infinity]}', '["a", {"b": 1e400}]'])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/cascades/trace/runs", '{"item": %s}'),
        ("/v1/cascades/trace/runs", '{"items": [{"item": 1}, {"item": %s}]}'),
        ("/v1/endpoints/fast/probe", '{"item": %s}'),
        (
            "/v1/chat/completions",
            '{"model": "cascade/trace", "messages": [{"role": "user", "content": "a"}], "top_p": %s}',
        ),
        (
            "/v2/models/cascade.trace/infer",
            '{"inputs": [{"name": "x", "shape": [1], "datatype": "FP64", "data": [%s]}]}',
        ),
    ],
)
def test_an_item_holds_finite_numbers_only(server: Server, path: str, body: str, value: str) -> None:
    reply = server.client.post(path, content=body % value, headers={"content-type": "application/json"})
    assert reply.status_code == (400 if "chat" in path else 422), reply.text
    spec, line = '{"kind": "cascade", "name": "trace"}', f'{{"item": {value}}}'
    reply = server.client.post("/v1/batches", files={"spec": (None, spec), "file": ("items.jsonl", line)})
    assert "line 1" in is_problem(reply, 422, "invalid-request")["errors"][0]["loc"]


@pytest.mark.parametrize("body", ["", "{", "[]", "null", '{"classifiers": []}', '{"surprise": 1}', "[" * 100_000])
def test_a_body_of_the_wrong_shape_is_refused(server: Server, body: str) -> None:
    reply = server.client.post("/v1/cascades/solve", content=body, headers={"content-type": "application/json"})
    is_problem(reply, 422, "invalid-request")


def test_a_deadline_that_nothing_meets_is_infeasible_and_the_numbers_are_told(server: Server) -> None:
    problem = is_problem(server.client.get("/v1/cascades/trace/decision?deadline=0.5"), 409, "infeasible")
    assert "0.5" in problem["detail"]
    body = {**SOLVE, "deadline": 0.5}
    problem = is_problem(server.client.post("/v1/cascades/solve", json=body), 409, "infeasible")
    assert "0.5" in problem["detail"]


MISSING = {
    "unknown-dataset": "GET datasets/nosuch | DELETE datasets/nosuch | POST builds",
    "unknown-build": "GET builds/nosuch | GET builds/nosuch/events | DELETE builds/nosuch",
    "unknown-artifact": """GET artifacts/cascade/nosuch | GET artifacts/cascade/nosuch/versions
        | GET cascades/nosuch/decision | GET cascades/nosuch/deadlines""",
    "unknown-version": """GET artifacts/cascade/trace/versions/99/export | DELETE artifacts/cascade/trace/versions/99
        | GET cascades/trace/decision?version=99 | PUT artifacts/cascade/trace/active""",
    "not-found": "GET nowhere",
}
SENT: dict[str, Any] = {"PUT": {"version": 99}, "POST": {"kind": "cascade", "name": "x", "dataset": "nosuch"}}


@pytest.mark.parametrize(("code", "line"), [(code, line) for code in MISSING for line in MISSING[code].split("|")])
def test_what_does_not_exist_is_404(server: Server, code: str, line: str) -> None:
    method, path = line.split()
    is_problem(server.client.request(method, f"/v1/{path}", json=SENT.get(method)), 404, code)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"kind": "nosuch", "name": "x", "dataset": "trace"}, ["kind"]),
        ({"kind": "cascade", "name": "No Such", "dataset": "trace"}, ["name"]),
        (
            {"kind": "cascade", "name": "x", "dataset": "trace", "params": {"target_precision": 2}},
            ["params", "target_precision"],
        ),
        ({"kind": "cascade", "name": "x", "dataset": "trace", "params": {"surprise": 1}}, ["params", "surprise"]),
        ({"kind": "cascade", "name": "x", "dataset": "trace", "seed": -1}, ["seed"]),
    ],
)
def test_a_bad_build_names_the_field(server: Server, body: dict[str, Any], where: list[str]) -> None:
    problem = is_problem(server.client.post("/v1/builds", json=body), 422, "invalid-request")
    assert problem["errors"][0]["loc"] == where


def test_a_dataset_is_only_replaced_if_it_is_the_one_that_the_caller_knows(server: Server) -> None:
    """As two people do who each fetch it, change it and put it back: the second one is told."""
    url, uploads = "/v1/datasets/shared", [trace_upload(rows) for rows in (60, 50, 40)]
    nothing_there = {"if-none-match": "*"}
    is_problem(server.client.put(url, files=uploads[0], headers={"if-match": "*"}), 412, "precondition-failed")
    stored = server.client.put(url, files=uploads[0], headers=nothing_there)
    assert stored.status_code == 201
    known = {"if-match": stored.headers["etag"]}
    assert server.client.get(url).headers["etag"] == stored.headers["etag"] == f'"{stored.json()["sha256"]}"'
    is_problem(server.client.put(url, files=uploads[1], headers=nothing_there), 412, "precondition-failed")
    replaced = server.client.put(url, files=uploads[1], headers=known)
    assert (replaced.status_code, replaced.json()["replaced"]["rows"]) == (200, 60)
    problem = is_problem(server.client.put(url, files=uploads[2], headers=known), 412, "precondition-failed")
    assert replaced.headers["etag"] in problem["detail"]
    weakly = [("if-none-match", '"other"'), ("if-none-match", f"W/{replaced.headers['etag']}")]
    is_problem(server.client.put(url, files=uploads[2], headers=weakly), 412, "precondition-failed")
    is_problem(server.client.delete(url, headers=known), 412, "precondition-failed")
    assert server.client.get(url).json()["rows"] == 50
    assert server.client.delete(url, headers={"if-match": replaced.headers["etag"]}).status_code == 204


def test_other_media_types_are_415(server: Server) -> None:
    text = {"content-type": "text/plain"}
    for method, path in (
        ("POST", "cascades/solve"),
        ("POST", "builds"),
        ("PUT", "datasets/x"),
        ("POST", "artifacts/import"),
    ):
        reply = server.client.request(method, f"/v1/{path}", content="{}", headers=text)
        is_problem(reply, 415, "unsupported-media-type")
    files = table_upload(b"<x/>", "text/xml")
    is_problem(server.client.put("/v1/datasets/x", files=files), 415, "unsupported-media-type")


def test_a_wrong_method_is_405_and_all_right_ones_are_named(server: Server) -> None:
    reply = server.client.patch("/v1/builds")
    is_problem(reply, 405, "method-not-allowed")
    assert reply.headers["allow"] == "GET, POST"
    assert server.client.post("/v1/datasets/x").headers["allow"] == "DELETE, GET, PUT"


def test_a_bad_table_names_field_and_row_and_nothing_is_kept(server: Server) -> None:
    columns = trace_columns()
    columns["fast_confidence"][6] = "high"
    files = table_upload(to_csv(columns))
    problem = is_problem(server.client.put("/v1/datasets/bad", files=files), 422, "invalid-request")
    (fault,) = problem["errors"]
    assert (fault["loc"], "row 7" in fault["msg"]) == (["table", "fast_confidence"], True)
    is_problem(server.client.get("/v1/datasets/bad"), 404, "unknown-dataset")
    octets = {"content-type": "application/octet-stream"}
    reply = server.client.post("/v1/artifacts/import", content=b"no artifact", headers=octets)
    is_problem(reply, 422, "invalid-request")
    active = server.client.get("/v1/artifacts/cascade/trace").json()["version"]
    is_problem(server.client.delete(f"/v1/artifacts/cascade/trace/versions/{active}"), 409, "conflict")


def test_a_full_queue_is_429_and_an_open_dataset_cannot_be_deleted(tmp_path: Path) -> None:
    with running_server(tmp_path, build_queue_limit=1) as server:
        upload(server)
        worker = next(process for process in server.tree() if process.name() == "build-worker")
        worker.suspend()  # nobody takes what is queued
        try:
            body = {"kind": "cascade", "name": "x", "dataset": "trace", "params": {"target_precision": 0.9}}
            waiting = server.client.post("/v1/builds", json=body)
            assert waiting.status_code == 202
            reply = server.client.post("/v1/builds", json=body)
            is_problem(reply, 429, "too-many-builds")
            assert int(reply.headers["retry-after"]) > 0
            problem = is_problem(server.client.delete("/v1/datasets/trace"), 409, "conflict")
            assert waiting.json()["id"] in problem["detail"]
        finally:
            worker.resume()
        path = waiting.headers["location"]
        wait_for(lambda: server.client.get(path).json()["status"] == "succeeded", 20)
        deleted = server.client.delete("/v1/datasets/trace")
        assert deleted.status_code == 200
        assert {"kind": "cascade", "name": "trace", "version": 1} in deleted.json()["artifacts"]


def test_a_solve_that_takes_too_long_is_504(tmp_path: Path) -> None:
    """A hundred classifiers in pairs keep the beam busy for longer than a hundredth of a second."""
    numbers = [{"execution_time": 1 + i / 10, "success_probability": 0.3 + 0.5 * (i % 2)} for i in range(100)]
    pairs = [{"name": f"K{i}", "group": f"g{i // 2}", **each} for i, each in enumerate(numbers)]
    body = {"classifiers": [*pairs, {"name": "D", "execution_time": 1000, "success_probability": 1}]}
    with running_server(tmp_path, solve_timeout_s=0.01) as server:
        problem = is_problem(server.client.post("/v1/cascades/solve", json=body), 504, "solver-timeout")
        assert "0.01" in problem["detail"]
