"""Quotas of teams over HTTP: a team with many builds leaves room in the queue for the builds of others."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from tests.support.samples import trace_upload
from tests.support.servers import Server, held_worker, running_server, wait_for

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
