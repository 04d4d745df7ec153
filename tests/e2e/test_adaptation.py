"""With everything on, drift leads to a rebuild, a canary, and its promotion; a worse version is aborted."""

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest

from tests.support.adaptation import NAME, Traffic, build_version, prepare, send_traffic
from tests.support.model_process import ModelServer
from tests.support.servers import Server, running_server

ITEMS, CHANGE, LAST = 9_000, 1_500, 1_000


@pytest.fixture
def server(models: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("adaptation")
    with running_server(folder, endpoint_hosts="127.0.0.1", log_level="warning") as server:
        yield server


@pytest.mark.slow
def test_the_service_recovers_from_a_change_of_the_world(server: Server, models: ModelServer) -> None:
    prepare(server, models, adapts=True, explore=0.5)
    traffic = Traffic.draw(ITEMS, CHANGE, seed=1)
    asyncio.run(send_traffic(server, traffic))
    alarms = server.client.get(f"/v1/feedback/cascade/{NAME}?version=1").json()["alarms"]
    assert CHANGE < alarms[0]["detected"] <= CHANGE + 500
    (rollout,) = server.client.get("/v1/rollouts").json()["items"]
    assert [one["event"] for one in rollout["events"]] == ["started", "promoted"]
    assert rollout["events"][0]["by"] == "automation"
    assert set(traffic.version[-LAST:]) == {2}
    before = traffic.correct[CHANGE : CHANGE + 500].mean()
    best = max(accuracy for accuracy, _ in traffic.attainable(ITEMS - LAST))
    after = traffic.correct[-LAST:].mean()
    assert after > before
    assert after >= best - 0.005 - 2 * np.sqrt(best * (1 - best) / LAST)


def test_a_deliberately_worse_version_is_aborted_within_its_share(server: Server, models: ModelServer) -> None:
    prepare(server, models, adapts=False)
    build_version(server, "wrong", is_wrong=True)
    rules = {"version": 2, "share": 0.2, "promote": {}}
    server.client.put(f"/v1/artifacts/cascade/{NAME}/rollout", json=rules).raise_for_status()
    traffic = Traffic.draw(2_500, 2_500, seed=2)
    asyncio.run(send_traffic(server, traffic))
    rollout = server.client.get(f"/v1/artifacts/cascade/{NAME}/rollout").json()
    assert rollout["status"] == "aborted"
    assert (traffic.version == 2).mean() <= 0.25
    assert set(traffic.version[-200:]) == {1}
