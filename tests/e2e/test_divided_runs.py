"""A canary divides items by id: alike for single runs, lists, and the Open Inference Protocol, on every server."""

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from app.store.embedded import EmbeddedRedis
from tests.e2e.test_batches import ended, output, queued, show
from tests.e2e.test_runs import artifacts, endpoints, image
from tests.support.model_process import ModelServer
from tests.support.servers import Server, running_server, wait_for
from tests.support.services import OCTETS, running_worker
from tests.support.trained import COSTS

BUILDS: dict[str, dict[str, Any]] = {
    "cascade": {"target_precision": 0.9},
    "portfolio": {"embedder": "embedder", "curve_points": 5},
    "policy": {"embedder": "embedder", "trees": 16, "depth": 2},
}
PATHS = {kind: f"/v1/{'policies' if kind == 'policy' else kind + 's'}/digits" for kind in BUILDS}
IDS = [f"request:{row}" for row in range(24)]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, models: ModelServer) -> Iterator[tuple[Server, Server]]:
    """Run two servers and a worker on one store, with two versions of each artifact, the second one in a canary."""
    folder = tmp_path_factory.mktemp("divided")
    with EmbeddedRedis(folder / "store") as redis:
        settings: dict[str, Any] = {"redis_url": redis.url, "endpoint_hosts": "127.0.0.1", "secret_test": "key"}
        worker: dict[str, Any] = settings | {"folder": folder / "worker"}
        with (
            running_server(folder / "1", **settings) as one,
            running_server(folder / "2", **settings) as other,
            running_worker(**worker),
        ):
            for data in [*artifacts(BUILDS), *artifacts(BUILDS)]:
                one.client.post("/v1/artifacts/import", content=data, headers=OCTETS).raise_for_status()
            for name, endpoint in endpoints(models).items():
                one.client.put(f"/v1/endpoints/{name}", json=endpoint).raise_for_status()
            for kind in BUILDS:
                path = f"/v1/artifacts/{kind}/digits"
                one.client.put(f"{path}/active", json={"version": 1}).raise_for_status()
                one.client.put(f"{path}/rollout", json={"version": 2, "share": 0.5}).raise_for_status()
            for server in (one, other):
                for kind in BUILDS:
                    wait_for(lambda s=server, k=kind: set(run_list(s, k, IDS)) == {1, 2}, 20)
            yield one, other


def item_of(kind: str, place: int = 0) -> dict[str, Any]:
    return {"item": image(place)} | ({} if kind == "cascade" else {"text": json.dumps(image(place))})


def limits_of(kind: str) -> dict[str, float]:
    return {} if kind == "cascade" else {"budget": 6.0}


def run_list(server: Server, kind: str, ids: Sequence[str | None], **params: int) -> list[int]:
    """Run items in one request, and return the versions that answered; 0 for a failed item."""
    items = [item_of(kind) | ({} if one is None else {"id": one}) for one in ids]
    reply = server.client.post(f"{PATHS[kind]}/runs", json={"items": items, **limits_of(kind)}, params=params)
    if reply.status_code != 200:
        return []
    assert [one["id"] for one in reply.json()["items"]] == list(ids)
    return [one["artifact"]["version"] if "artifact" in one else 0 for one in reply.json()["items"]]


def run_single(server: Server, kind: str, item_id: str) -> int:
    body = {**item_of(kind), "id": item_id, **limits_of(kind)}
    reply = server.client.post(f"{PATHS[kind]}/runs", json=body)
    assert reply.status_code == 200, reply.text
    return int(reply.json()["artifact"]["version"])


def infer(server: Server, request_id: str, rows: int) -> int:
    """Run images by the Open Inference Protocol, and return the version of the reply."""
    images = [image(0)] * rows
    tensor = {"name": "input-0", "shape": [rows, 64], "datatype": "FP64", "data": images}
    reply = server.client.post("/v2/models/cascade.digits/infer", json={"id": request_id, "inputs": [tensor]})
    assert reply.status_code == 200, reply.text
    return int(reply.json()["model_version"])


def count_costs(server: Server, kind: str) -> list[int]:
    cost = server.client.get(f"/v1/artifacts/{kind}/digits/rollout").json()["cost"]
    return [cost["active"]["outcomes"], cost["candidate"]["outcomes"]]


@pytest.mark.parametrize("kind", BUILDS)
def test_an_id_has_one_version_on_every_server_and_path(servers: tuple[Server, Server], kind: str) -> None:
    one, other = servers
    versions = run_list(one, kind, IDS)
    assert run_list(other, kind, IDS[::-1]) == versions[::-1]
    assert [run_single(server, kind, each) for server in servers for each in IDS] == 2 * versions
    assert 4 < versions.count(2) < 20


def test_rows_of_tensors_are_divided_by_their_ids(servers: tuple[Server, Server]) -> None:
    one, other = servers
    singles = [run_single(one, "cascade", f"{name}:0") for name in IDS]
    assert [infer(other, name, rows=1) for name in IDS] == singles
    versions = run_list(one, "cascade", IDS)
    time.sleep(2.5)  # until both servers have added the costs of earlier runs
    before = count_costs(one, "cascade")
    assert infer(other, "request", rows=len(IDS)) == 1
    expected = [before[0] + versions.count(1), before[1] + versions.count(2)]
    wait_for(lambda: count_costs(one, "cascade") == expected, 10, lambda: (count_costs(one, "cascade"), expected))


@pytest.mark.parametrize("kind", BUILDS)
def test_only_items_with_an_id_and_without_a_stated_version_are_divided(
    servers: tuple[Server, Server], kind: str
) -> None:
    one, _ = servers
    candidate = next(each for each, version in zip(IDS, run_list(one, kind, IDS), strict=True) if version == 2)
    assert run_list(one, kind, [None, candidate, *[None] * 20]) == [1, 2, *[1] * 20]
    assert set(run_list(one, kind, IDS, version=1)) == {1}


def test_faults_of_divided_items_have_their_places_in_the_request(servers: tuple[Server, Server]) -> None:
    one, _ = servers
    versions = run_list(one, "portfolio", IDS)
    for version in (1, 2):
        place = len(versions) - 1 - versions[::-1].index(version)
        items = [item_of("portfolio") | {"id": each} for each in IDS]
        del items[place]["text"]
        reply = one.client.post("/v1/portfolios/digits/runs", json={"items": items, "budget": 6.0})
        assert reply.status_code == 422
        assert reply.json()["errors"][0]["loc"][:2] == ["items", place]


@pytest.mark.parametrize("kind", ["cascade", "policy"])
def test_items_of_batches_are_divided_as_runs_are(servers: tuple[Server, Server], kind: str) -> None:
    """A batch whose spec has a version is not divided. The worker adds the costs of its runs before a batch ends."""
    one, other = servers
    one.wait_for_worker()
    versions = run_list(one, kind, IDS)
    time.sleep(2.5)  # until both servers have added the costs of earlier runs
    before = count_costs(one, kind)
    lines = "\n".join(json.dumps(item_of(kind) | {"id": each}) for each in IDS)
    assert run_batch(one, lines, kind) == versions
    assert count_costs(one, kind) == [before[0] + versions.count(1), before[1] + versions.count(2)]
    assert set(run_batch(other, lines, kind, version=1)) == {1}
    unnamed = "\n".join(json.dumps(item_of(kind)) for _ in IDS)
    assert set(run_batch(other, unnamed, kind)) == {1}


def test_texts_are_divided_as_runs_are(servers: tuple[Server, Server]) -> None:
    one, other = servers
    versions = run_list(one, "portfolio", IDS)
    body = {"text": json.dumps(image(0)), "budget": 6.0}
    replies = [
        server.client.post("/v1/portfolios/digits/decision", json=body | {"item": each}).json()
        for server in servers
        for each in IDS
    ]
    assert [one["decision"].split("@")[0] for one in replies] == 2 * [f"portfolio/digits/{each}" for each in versions]
    fixed = other.client.post("/v1/portfolios/digits/decision", json=body | {"item": IDS[0]}, params={"version": 1})
    assert fixed.json()["decision"].startswith("portfolio/digits/1@")


def test_items_that_are_tried_again_count_once(servers: tuple[Server, Server], models: ModelServer) -> None:
    """While all circuits are open, items are tried until one closes."""
    one, _ = servers
    time.sleep(2.5)  # until both servers have added earlier runs
    before = count_runs(one, "cascade")
    models.switch(**dict.fromkeys(COSTS, "error"))
    lines = "\n".join(json.dumps(item_of("cascade") | {"id": each}) for each in IDS)
    path = queued(one, lines, "cascade", max_concurrency=2)
    wait_for(lambda: sorted(show(one, path)["open_circuits"]) == sorted(COSTS), 30)
    time.sleep(2.0)  # tries
    models.switch()
    assert ended(one, path)["status"] == "succeeded"
    assert sum(count_runs(one, "cascade")) - sum(before) == len(IDS)


def count_runs(server: Server, kind: str) -> list[int]:
    answered = server.client.get(f"/v1/artifacts/{kind}/digits/rollout").json()["answered"]
    return [answered["active"]["outcomes"], answered["candidate"]["outcomes"]]


def test_a_candidate_that_cannot_run_as_the_active_version_does_is_refused(servers: tuple[Server, Server]) -> None:
    one, _ = servers
    rules = {"version": 2, "mode": "shadow", "share": 0.5}
    for data in artifacts({"policy": BUILDS["policy"] | {"embedder": "other"}}):
        made = one.client.post("/v1/artifacts/import", content=data, headers=OCTETS).json()
    one.client.put("/v1/artifacts/policy/digits/active", json={"version": 1})
    for mode in ("shadow", "canary"):
        reply = one.client.put(
            "/v1/artifacts/policy/digits/rollout", json={**rules, "version": made["version"], "mode": mode}
        )
        assert reply.status_code == 422, reply.text
        assert reply.json()["errors"][0]["loc"][-1] == "version"
    endpoint = {"protocol": "openai-embeddings", "url": "http://127.0.0.1:9", "model": "e"}
    one.client.put("/v1/endpoints/other", json=endpoint).raise_for_status()
    reply = one.client.put("/v1/artifacts/policy/digits/rollout", json={**rules, "version": made["version"]})
    assert (reply.status_code, reply.json()["errors"][0]["loc"][-1]) == (422, "mode")


def run_batch(server: Server, lines: str, kind: str, **spec: Any) -> list[int]:
    """Run a batch, and return the versions that answered."""
    path = queued(server, lines, kind, **(spec | limits_of(kind)))
    batch = ended(server, path)
    assert (batch["status"], batch["divided"]) == ("succeeded", not spec)
    answers = output(server, path)
    assert all(one["decision"].startswith(f"{kind}/digits/{one['artifact']['version']}@") for one in answers)
    return [one["artifact"]["version"] for one in answers]
