"""Quotas of teams over HTTP: a team with many builds leaves room in the queue for the builds of others."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from tests.support.samples import TRACE_SPEC, trace_upload
from tests.support.servers import Server, held_worker, running_server, wait_for
from tests.support.stored import artifact

TEAMS = "red-key:build@red,also-red:build@red,blue-key:build@blue,plain-key:build"
QUOTAS = '{"red": {"open_builds": 1}, "*": {"open_builds": 2}}'


def send_as(server: Server, key: str, method: str, path: str, **body: Any) -> httpx.Response:
    return server.client.request(method, path, headers={"authorization": f"Bearer {key}"}, **body)


def start_build(server: Server, key: str, name: str) -> httpx.Response:
    body = {"kind": "cascade", "name": name, "dataset": "trace", "params": {"target_precision": 0.9}}
    return send_as(server, key, "POST", "/v1/builds", json=body)


def is_refused(reply: httpx.Response) -> bool:
    return (reply.status_code, reply.json()["type"]) == (429, "urn:parsimony:too-many-builds")


def test_a_team_has_its_quota_of_open_builds_and_leaves_the_queue_to_others(tmp_path: Path) -> None:
    with running_server(tmp_path, api_keys=TEAMS, team_quotas=QUOTAS) as server:
        server.client.headers["authorization"] = "Bearer plain-key"
        server.wait_for_worker()
        assert server.client.put("/v1/datasets/trace", files=trace_upload()).status_code == 201
        with held_worker(server):
            first = start_build(server, "red-key", "a")
            assert first.status_code == 202, first.text
            assert is_refused(start_build(server, "also-red", "b"))
            assert is_refused(send_as(server, "red-key", "POST", "/v1/advice", json={"dataset": "trace"}))
            others = [
                start_build(server, key, key) for key in ("blue-key", "blue-key", "plain-key", "plain-key", "plain-key")
            ]
            assert [reply.status_code for reply in others] == [202] * 5
            assert is_refused(start_build(server, "blue-key", "c"))
        path = first.headers["location"]
        wait_for(lambda: server.client.get(path).json()["status"] == "succeeded", 60)
        assert start_build(server, "also-red", "b").status_code == 202


def test_a_team_has_its_rate_and_a_quiet_one_beside_it_is_answered(tmp_path: Path) -> None:
    quotas = '{"red": {"requests_per_second": 1}}'
    with running_server(tmp_path, api_keys=TEAMS, team_quotas=quotas) as server:
        with ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(lambda _: send_as(server, "red-key", "GET", "/v1/datasets"), range(8)))
        refused = [reply for reply in replies if reply.status_code == 429]
        assert refused
        assert refused[0].json()["type"] == "urn:parsimony:too-many-requests"
        assert {send_as(server, "blue-key", "GET", "/v1/datasets").status_code for _ in range(8)} == {200}


OWN_NAMES = '{"red": {"names": "red-", "datasets": 1, "artifacts": 1, "bytes": 60000}, "blue": {"names": "blue-"}}'


def is_over_quota(reply: httpx.Response, quota: str) -> bool:
    """Whether a reply is 409 for a quota, and its message names it."""
    if (reply.status_code, reply.json()["type"]) != (409, "urn:parsimony:quota-exceeded"):
        return False
    detail = reply.json()["detail"]
    assert all(word in detail for word in (quota, "'red'", "PARSIMONY_TEAM_QUOTAS")), detail
    return True


def put_trace(server: Server, key: str, name: str, rows: int = 400) -> httpx.Response:
    return send_as(server, key, "PUT", f"/v1/datasets/{name}", files=trace_upload(rows))


def test_what_was_stored_before_counts_and_a_greedy_team_leaves_a_quiet_one_alone(tmp_path: Path) -> None:
    with running_server(tmp_path, api_keys=TEAMS) as server:
        assert put_trace(server, "blue-key", "red-before").status_code == 201
    with running_server(tmp_path, api_keys=TEAMS, team_quotas=OWN_NAMES) as server:
        assert send_as(server, "blue-key", "DELETE", "/v1/datasets/red-before").status_code == 403
        assert is_over_quota(put_trace(server, "red-key", "red-more"), "datasets")
        assert put_trace(server, "red-key", "red-before", rows=300).status_code == 200
        assert send_as(server, "red-key", "DELETE", "/v1/datasets/red-before").status_code == 204
        with ThreadPoolExecutor(8) as pool:
            greedy = pool.map(lambda number: put_trace(server, "red-key", f"red-{number}"), range(6))
            quiet = pool.map(lambda number: put_trace(server, "blue-key", f"blue-{number}"), range(2))
            replies = list(greedy)
            assert {reply.status_code for reply in quiet} == {201}
        stored = [reply for reply in replies if reply.status_code == 201]
        assert len(stored) == 1
        assert all(is_over_quota(reply, "datasets") for reply in replies if reply not in stored)
        name = stored[0].json()["name"]
        assert is_over_quota(put_trace(server, "red-key", name, rows=4000), "bytes")
        assert send_as(server, "red-key", "GET", f"/v1/datasets/{name}").json()["rows"] == 400


def test_every_way_to_store_something_keeps_the_quotas(tmp_path: Path) -> None:
    quotas = '{"red": {"names": "red-", "datasets": 1, "artifacts": 1}}'
    with running_server(tmp_path, api_keys=TEAMS, team_quotas=quotas, dataset_sources="file:///data") as server:
        assert put_trace(server, "red-key", "red-rows").status_code == 201

        def send(method: str, path: str, **body: Any) -> httpx.Response:
            return send_as(server, "red-key", method, path, **body)

        log = '{"prompt": "a", "model": "m", "cost": 1.0, "correct": true}\n' * 30
        assert is_over_quota(send("PUT", "/v1/datasets/red-log/calls", files={"log": ("log.jsonl", log)}), "datasets")
        source = {"spec": (None, json.dumps(TRACE_SPEC)), "source": (None, '{"url": "file:///data/x.parquet"}')}
        assert is_over_quota(send("PUT", "/v1/datasets/red-source", files=source), "datasets")
        assert send("PUT", "/v1/recordings/red-runs", json={"unit": "ms"}).status_code == 201
        items = [{"id": str(number), "calls": [{"classifier": "a", "cost": 1.0, "label": "x"}]} for number in range(30)]
        assert send("POST", "/v1/recordings/red-runs/rows", json={"items": items}).status_code == 200
        truths = [{"id": str(number), "truth": "xy"[number % 2]} for number in range(30)]
        assert send("POST", "/v1/recordings/red-runs/truths", json={"items": truths}).status_code == 200
        frozen = send("POST", "/v1/recordings/red-runs/dataset", json={"dataset": "red-frozen"})
        assert is_over_quota(frozen, "datasets"), frozen.text

        def import_artifact(name: str) -> httpx.Response:
            headers = {"authorization": "Bearer red-key", "content-type": "application/octet-stream"}
            return server.client.post("/v1/artifacts/import", headers=headers, content=artifact(name))

        assert import_artifact("red-plan").status_code == 201
        assert is_over_quota(import_artifact("red-other"), "artifacts")
        assert import_artifact("red-plan").json()["version"] == 2
        body = {"kind": "cascade", "name": "red-new", "dataset": "red-rows"}
        assert is_over_quota(send("POST", "/v1/builds", json=body), "artifacts")
        assert [one["name"] for one in send("GET", "/v1/datasets").json()["items"]] == ["red-rows"]
        assert [one["name"] for one in send("GET", "/v1/artifacts").json()["items"]] == ["red-plan"]
        assert send("GET", "/v1/builds").json()["items"] == []
