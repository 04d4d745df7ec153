"""Lists a page at a time, and artifacts that are deleted, over HTTP."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support import stored
from tests.support.samples import trace_upload
from tests.support.servers import Server, running_server, wait_for

OCTETS = {"content-type": "application/octet-stream"}
LISTS = ("/v1/artifacts", "/v1/artifacts/cascade/versions/versions", "/v1/builds", "/v1/datasets")


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server with five of everything, without a key; ``decide`` may decide only."""
    folder = tmp_path_factory.mktemp("full")
    with running_server(folder, api_keys="k:build,decide:decide") as server:
        server.client.headers["authorization"] = "Bearer k"
        for number in range(5):
            publish(server, f"plan-{number}")
            publish(server, "versions", number)
            assert server.client.put(f"/v1/datasets/trace-{number}", files=trace_upload()).status_code == 201
            body = {"kind": "cascade", "name": "built", "dataset": f"trace-{number}"}
            path = server.client.post("/v1/builds", json=body).headers["location"]
            wait_for(lambda: server.client.get(path).json()["status"] == "succeeded", 30)  # noqa: B023
        yield server


def publish(server: Server, name: str, seed: int = 0) -> None:
    reply = server.client.post("/v1/artifacts/import", content=stored.artifact(name, seed), headers=OCTETS)
    assert reply.is_success, reply.text


def get(server: Server, path: str, **query: Any) -> Any:
    reply = server.client.get(path, params=query)
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize("path", LISTS)
def test_every_list_has_pages_that_hold_each_item_once(full: Server, path: str) -> None:
    whole = get(full, path)
    assert (whole["next"], whole["total"]) == (None, len(whole["items"]))
    assert whole["total"] >= 5
    for limit in (1, 2, 4):
        items, cursor = [], None
        while True:
            page = get(full, path, limit=limit, **({"cursor": cursor} if cursor else {}))
            assert len(page["items"]) <= limit
            items += page["items"]
            cursor = page["next"]
            if cursor is None:
                break
            assert httpx.QueryParams({"cursor": cursor}) == httpx.QueryParams(f"cursor={cursor}"), "it is URL-safe"
        assert items == whole["items"]
    cursor = get(full, path, limit=1)["next"]
    statuses = [full.client.get(other, params={"cursor": cursor}).status_code for other in LISTS]
    assert statuses == [200 if path == other else 422 for other in LISTS]


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize(
    ("field", "value"),
    [("limit", "0"), ("limit", "1001"), ("limit", "x"), ("cursor", "oops"), ("cursor", ""), ("cursor", "a" * 500)],
)
def test_a_bad_limit_or_cursor_is_refused_by_its_field(full: Server, path: str, field: str, value: str) -> None:
    reply = full.client.get(path, params={field: value})
    assert reply.status_code == 422
    assert [error["loc"][-1] for error in reply.json()["errors"]] == [field]


def test_artifacts_are_found_by_dataset_prefix_and_without_summaries(full: Server) -> None:
    path = "/v1/artifacts"
    wait_for(lambda: get(full, path, dataset="trace-4")["total"] == 1, 5)
    assert [item["name"] for item in get(full, path, dataset="trace-4")["items"]] == ["built"]
    page = get(full, path, dataset="trace", prefix="plan-", limit=2, kind="cascade")
    assert ([item["name"] for item in page["items"]], page["total"]) == (["plan-0", "plan-1"], 5)
    assert [i["name"] for i in get(full, path, prefix="plan", limit=9)["items"]] == [f"plan-{n}" for n in range(5)]
    assert get(full, path, dataset="trace", name="plan-0")["items"][0]["summary"] == {"found": 1}
    assert {str(item["summary"]) for item in get(full, path, summary=False)["items"]} == {"{}"}
    assert get(full, path, dataset="none") == {"items": [], "next": None, "total": 0}


def test_a_deleted_artifact_is_gone_within_a_second_and_its_name_counts_on(full: Server) -> None:
    publish(full, "doomed")
    publish(full, "doomed", 1)
    decide, path = "/v1/cascades/doomed/decision", "/v1/artifacts/cascade/doomed"
    wait_for(lambda: full.client.get(decide).status_code == 200, 5)
    decision = full.client.get(decide).json()["decision"]
    outcome = {"items": [{"decision": decision, "correct": True}]}
    assert full.client.post("/v1/feedback", json=outcome).status_code == 200
    reply = full.client.delete(path, headers={"authorization": "Bearer decide"})
    assert reply.status_code == 403
    assert full.client.delete(path).status_code == 204
    wait_for(lambda: full.client.get(decide).status_code == 404, 1.0)
    assert full.client.get(decide).json()["type"] == "urn:parsimony:unknown-artifact"
    for gone in (path, f"{path}/versions", f"{path}/versions/1/export", "/v1/feedback/cascade/doomed"):
        assert full.client.get(gone).status_code == 404, gone
    assert full.client.delete(path).status_code == 404
    assert full.client.post("/v1/feedback", json=outcome).status_code == 404
    assert "doomed" not in "".join(get(full, "/health/ready")["problems"])
    wait_for(lambda: "doomed" not in full.client.get("/metrics").text, 5)
    publish(full, "doomed")
    assert get(full, path)["version"] == 3
    assert get(full, "/v1/feedback/cascade/doomed")["outcomes"] == 0
    publish(full, "doomed", 1)
    refused = full.client.delete(f"{path}/versions/4")
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:parsimony:conflict")
    assert full.client.delete(f"{path}/versions/4", params={"even_active": True}).status_code == 204
    assert get(full, path)["version"] == 3
    wait_for(lambda: full.client.get(decide).json().get("artifact", {}).get("version") == 3, 5)
    assert full.client.delete(f"{path}/versions/3", params={"even_active": True}).status_code == 204
    wait_for(lambda: full.client.get(decide).status_code == 404, 1.0)
