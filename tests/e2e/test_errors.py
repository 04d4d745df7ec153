"""Every error code of the contract that can occur, over HTTP."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import upload
from tests.support.samples import table_upload, to_csv, trace_columns, trace_upload
from tests.support.servers import Server, running_server, wait_for

SOLVE = {"classifiers": [{"name": "K1", "execution_time": 1, "success_probability": 1}]}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server with keys, a small body limit, and a queue that one build fills; no worker takes from it."""
    folder = tmp_path_factory.mktemp("guarded")
    with running_server(folder, api_keys="d-key:decide,b-key:build", max_body_bytes=20_000) as server:
        yield server


def is_problem(reply: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Check that a reply is the problem it should be, and give its body."""
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
        ("1e308", "less than or equal"),
        ("true", "valid number"),
        ('"1"', "valid number"),
    ],
)
def test_a_number_that_is_none_is_refused_with_its_place(server: Server, value: str, message: str) -> None:
    body = f'{{"classifiers": [{{"name": "K1", "execution_time": {value}, "success_probability": 1}}]}}'
    reply = server.client.post("/v1/cascades/solve", content=body, headers={"content-type": "application/json"})
    problem = is_problem(reply, 422, "invalid-request")
    assert len(problem["errors"]) == 1
    assert problem["errors"][0]["loc"] == ["classifiers", 0, "execution_time"]
    assert message in problem["errors"][0]["msg"]


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999"])
def test_a_number_that_no_json_has_is_refused_with_the_character(server: Server, value: str) -> None:
    body = f'{{"classifiers": [{{"name": "K1", "execution_time": {value}, "success_probability": 1}}]}}'
    reply = server.client.post("/v1/cascades/solve", content=body, headers={"content-type": "application/json"})
    (fault,) = is_problem(reply, 422, "invalid-request")["errors"]
    assert fault["loc"] == ["body"]
    assert f"at character {body.index(value)}" in fault["msg"]


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
    assert reply.status_code == 422, reply.text


@pytest.mark.parametrize("line", ['{"item": NaN}', '{"item": [1e999]}'])
def test_an_item_of_a_batch_holds_finite_numbers_only(server: Server, line: str) -> None:
    spec = '{"solver": "cascade", "name": "trace"}'
    reply = server.client.post("/v1/batches", files={"spec": (None, spec), "file": ("items.jsonl", line)})
    problem = is_problem(reply, 422, "invalid-request")
    assert "line 1" in problem["errors"][0]["loc"]


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


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/v1/datasets/nosuch", "unknown-dataset"),
        ("DELETE", "/v1/datasets/nosuch", "unknown-dataset"),
        ("GET", "/v1/builds/nosuch", "unknown-build"),
        ("GET", "/v1/builds/nosuch/events", "unknown-build"),
        ("DELETE", "/v1/builds/nosuch", "unknown-build"),
        ("GET", "/v1/artifacts/cascade/nosuch", "unknown-artifact"),
        ("GET", "/v1/artifacts/cascade/nosuch/versions", "unknown-artifact"),
        ("GET", "/v1/artifacts/cascade/trace/versions/99/export", "unknown-version"),
        ("DELETE", "/v1/artifacts/cascade/trace/versions/99", "unknown-version"),
        ("GET", "/v1/cascades/nosuch/decision", "unknown-artifact"),
        ("GET", "/v1/cascades/trace/decision?version=99", "unknown-version"),
        ("GET", "/v1/cascades/nosuch/deadlines", "unknown-artifact"),
        ("GET", "/nowhere", "not-found"),
    ],
)
def test_what_does_not_exist_is_404(server: Server, method: str, path: str, code: str) -> None:
    is_problem(server.client.request(method, path), 404, code)


def test_a_build_from_an_unknown_dataset_is_404(server: Server) -> None:
    body = {"solver": "cascade", "name": "x", "dataset": "nosuch"}
    is_problem(server.client.post("/v1/builds", json=body), 404, "unknown-dataset")


def test_activating_an_unknown_version_is_404(server: Server) -> None:
    reply = server.client.put("/v1/artifacts/cascade/trace/active", json={"version": 99})
    is_problem(reply, 404, "unknown-version")


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"solver": "nosuch", "name": "x", "dataset": "trace"}, ["solver"]),
        ({"solver": "cascade", "name": "No Such", "dataset": "trace"}, ["name"]),
        (
            {"solver": "cascade", "name": "x", "dataset": "trace", "params": {"target_precision": 2}},
            ["params", "target_precision"],
        ),
        ({"solver": "cascade", "name": "x", "dataset": "trace", "params": {"surprise": 1}}, ["params", "surprise"]),
        ({"solver": "cascade", "name": "x", "dataset": "trace", "seed": -1}, ["seed"]),
    ],
)
def test_a_bad_build_names_the_field(server: Server, body: dict[str, Any], where: list[str]) -> None:
    problem = is_problem(server.client.post("/v1/builds", json=body), 422, "invalid-request")
    assert problem["errors"][0]["loc"] == where


def test_the_active_version_cannot_be_deleted(server: Server) -> None:
    active = server.client.get("/v1/artifacts/cascade/trace").json()["version"]
    is_problem(server.client.delete(f"/v1/artifacts/cascade/trace/versions/{active}"), 409, "conflict")


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
    is_problem(server.client.post("/v1/cascades/solve", content="{}", headers=text), 415, "unsupported-media-type")
    is_problem(server.client.post("/v1/builds", content="{}", headers=text), 415, "unsupported-media-type")
    is_problem(server.client.put("/v1/datasets/x", content="{}", headers=text), 415, "unsupported-media-type")
    is_problem(server.client.post("/v1/artifacts/import", content="{}", headers=text), 415, "unsupported-media-type")
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
    assert problem["errors"] == [{"loc": ["table", "fast_confidence"], "msg": "must hold numbers; row 7 says 'high'"}]
    is_problem(server.client.get("/v1/datasets/bad"), 404, "unknown-dataset")


def test_bytes_that_are_no_artifact_are_refused(server: Server) -> None:
    octets = {"content-type": "application/octet-stream"}
    reply = server.client.post("/v1/artifacts/import", content=b"no artifact", headers=octets)
    is_problem(reply, 422, "invalid-request")


def test_without_a_key_nothing_under_v1_answers(guarded: Server) -> None:
    for headers in (
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Basic b-key"},
        {"authorization": "b-key"},
    ):
        reply = guarded.client.get("/v1/artifacts", headers=headers)
        is_problem(reply, 401, "unauthorized")
        assert reply.headers["www-authenticate"] == "Bearer"
    assert guarded.client.get("/health/ready").status_code == 200
    assert guarded.client.get("/docs").status_code == 200


@pytest.mark.parametrize("path", ["/v1/cascades/solve", "/v1/artifacts/import"])
def test_a_body_that_grows_too_large_is_refused_while_it_is_read(guarded: Server, path: str) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(40):
            yield b" " * 1000

    kind = "application/json" if path.endswith("solve") else "application/octet-stream"
    headers = {"authorization": "Bearer b-key", "content-type": kind}
    problem = is_problem(guarded.client.post(path, content=chunks(), headers=headers), 413, "payload-too-large")
    assert "20000" in problem["detail"]


def test_the_callers_request_id_comes_back_if_it_is_a_plain_one(server: Server) -> None:
    sent = server.client.get("/health/live", headers={"x-request-id": "abc-123"})
    assert sent.headers["x-request-id"] == "abc-123"
    for bad in (b"x" * 129, b"with space", b"caf\xe9"):
        reply = server.client.get("/health/live", headers={b"x-request-id": bad})
        assert reply.headers["x-request-id"].encode("latin-1") != bad


def test_a_full_queue_is_429_and_an_open_dataset_cannot_be_deleted(tmp_path: Path) -> None:
    with running_server(tmp_path, build_queue_limit=1) as server:
        upload(server)
        worker = next(process for process in server.tree() if process.name() == "build-worker")
        worker.suspend()  # nobody takes what is queued
        try:
            body = {"solver": "cascade", "name": "x", "dataset": "trace", "params": {"target_precision": 0.9}}
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
        assert {"solver": "cascade", "name": "trace", "version": 1} in deleted.json()["artifacts"]


def test_a_solve_that_takes_too_long_is_504(tmp_path: Path) -> None:
    """A hundred classifiers in pairs keep the beam busy for longer than a hundredth of a second."""
    pairs = [
        {
            "name": f"K{i}",
            "execution_time": 1 + i / 10,
            "success_probability": 0.3 + 0.5 * (i % 2),
            "group": f"g{i // 2}",
        }
        for i in range(100)
    ]
    body = {"classifiers": [*pairs, {"name": "D", "execution_time": 1000, "success_probability": 1}]}
    with running_server(tmp_path, solve_timeout_s=0.01) as server:
        problem = is_problem(server.client.post("/v1/cascades/solve", json=body), 504, "solver-timeout")
        assert "0.01" in problem["detail"]
