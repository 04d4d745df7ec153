"""Versions are evaluated on recordings over HTTP, by the command, and by the clients, as on datasets of their rows."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from parsimony import AsyncParsimony, InvalidRequest, Parsimony
from parsimony.errors import Conflict
from tests.e2e.test_version_comparison import CASCADE, NAMES, OPTIONS, PORTFOLIO, build
from tests.support.commands import ran
from tests.support.samples import embedded_upload, trace_columns, trace_embeddings
from tests.support.servers import Server, running_server

pytestmark = pytest.mark.server
ROWS = 900
COSTS = {"fast": 1.0, "middle": 3.0}
OLD, NEW = "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server with two versions of each artifact, and recordings of a complete and two incomplete logs."""
    with running_server(tmp_path_factory.mktemp("recorded")) as server:
        server.client.put("/v1/datasets/trace", files=embedded_upload()).raise_for_status()
        for kind, versions in OPTIONS.items():
            for params in versions:
                build(server, {"kind": kind, "name": "trace", "dataset": "trace", "params": params})
        for path in (PORTFOLIO, CASCADE):
            server.client.put(f"{path}/active", json={"version": 1}).raise_for_status()
        chosen = np.random.default_rng(1).integers(3, size=ROWS)
        record(server, "whole", [NAMES] * ROWS, None)
        record(server, "log", [(NAMES[at],) for at in chosen], 1 / 3)
        narrow = [("fast",) if row > 40 else ("fast", "middle", "strong") for row in range(ROWS)]
        record(server, "narrow", narrow, 0.9)
        yield server


def record(server: Server, name: str, called: Sequence[tuple[str, ...]], propensity: float | None) -> None:
    """Post rows with the calls of some classifiers, and truths; the first 300 rows are older."""
    columns = trace_columns(ROWS, seed=3)
    vectors = trace_embeddings(columns).tolist()

    def call(classifier: str, row: int) -> dict[str, Any]:
        sure = columns.get(f"{classifier}_confidence")
        return {
            "classifier": classifier,
            "label": columns[f"{classifier}_says"][row],
            "confidence": None if sure is None else sure[row],
            "cost": COSTS.get(classifier, columns["strong_ms"][row]),
            "propensity": propensity,
        }

    rows = [
        {
            "id": str(row),
            "time": OLD if row < 300 else NEW,
            "embedding": vectors[row],
            "calls": [call(classifier, row) for classifier in called[row]],
        }
        for row in range(ROWS)
    ]
    truths = [{"id": str(row), "truth": columns["truth"][row]} for row in range(ROWS)]
    server.client.put(f"/v1/recordings/{name}", json={"unit": "ms", "classifiers": NAMES}).raise_for_status()
    for part, items in (("rows", rows), ("truths", truths)):
        server.client.post(f"/v1/recordings/{name}/{part}", json={"items": items}).raise_for_status()


def evaluate(server: Server, path: str, on: str, **params: Any) -> dict[str, Any]:
    reply = server.client.get(f"{path}/versions/2/evaluation", params={"on": on, **params})
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


@pytest.mark.parametrize(
    ("path", "recording", "method"),
    [(PORTFOLIO, "whole", "replay"), (CASCADE, "whole", "replay"), (PORTFOLIO, "log", "doubly_robust")],
)
def test_a_recording_is_evaluated_as_its_dataset(server: Server, path: str, recording: str, method: str) -> None:
    before = server.client.get("/v1/datasets").json()["total"]
    found = evaluate(server, path, recording)
    assert server.client.get("/v1/datasets").json()["total"] == before
    frozen = server.client.post(f"/v1/recordings/{recording}/dataset", json={"dataset": f"{recording}.frozen"})
    assert frozen.status_code == 201, frozen.text
    same = evaluate(server, path, f"{recording}.frozen")
    server.client.delete(f"/v1/datasets/{recording}.frozen").raise_for_status()
    assert found.pop("recording") == {"name": recording, "recorded_rows": ROWS, "unused": {}}
    assert (found.pop("dataset"), same.pop("dataset"), same.pop("recording")) == (None, f"{recording}.frozen", None)
    assert found == same
    accuracy = found["figures"]["accuracy"]
    assert accuracy["method"] == method
    assert accuracy["interval"][0] < accuracy["value"] < accuracy["interval"][1]
    if method == "doubly_robust":
        assert 0 < accuracy["effective_rows"] < 600
        assert accuracy["snips"]["value"] == pytest.approx(accuracy["value"], abs=0.1)


def test_a_range_of_time_is_evaluated(server: Server) -> None:
    newer = evaluate(server, PORTFOLIO, "whole", since="2026-02-15T00:00:00Z")
    older = evaluate(server, PORTFOLIO, "whole", until="2026-02-15T00:00:00Z")
    assert (newer["rows"], older["rows"]) == (600, 300)
    params = {"on": "whole", "since": "2100-01-01T00:00:00Z"}
    empty = server.client.get(f"{PORTFOLIO}/versions/2/evaluation", params=params)
    assert (empty.status_code, empty.json()["errors"][0]["loc"]) == (422, ["since"])
    params = {"on": "whole", "since": "yesterday"}
    assert server.client.get(f"{PORTFOLIO}/versions/2/evaluation", params=params).status_code == 422


def test_a_recording_without_the_calls_of_a_version_is_refused(server: Server) -> None:
    reply = server.client.get(f"{PORTFOLIO}/versions/2/evaluation", params={"on": "narrow", "budget": 20})
    assert (reply.status_code, reply.json()["type"]) == (409, "urn:parsimony:small-overlap")
    assert reply.json()["overlap"]["supported_rows"] < ROWS
    assert reply.json()["overlap"]["covered"] < 0.95


def test_rows_that_a_version_learned_from_are_refused(server: Server) -> None:
    freeze = {"dataset": "learned", "until": "2026-02-15T00:00:00Z"}
    server.client.post("/v1/recordings/whole/dataset", json=freeze).raise_for_status()
    build(server, {"kind": "cascade", "name": "learned", "dataset": "learned", "params": {"target_precision": 0.9}})
    path = "/v1/artifacts/cascade/learned/versions/1/evaluation"
    refused = server.client.get(path, params={"on": "whole", "until": "2026-02-15T00:00:00Z"})
    assert (refused.status_code, refused.json()["errors"][0]["loc"]) == (422, ["on"])
    assert "cascade/learned/1" in refused.json()["errors"][0]["msg"]
    fresh = server.client.get(path, params={"on": "whole", "since": "2026-02-15T00:00:00Z"})
    assert (fresh.status_code, fresh.json()["rows"]) == (200, 600)


def test_versions_are_compared_on_a_recording(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PARSIMONY_URL", server.url)
    asked = ("diff", "portfolio", "trace", "--from", "1", "--to", "2", "--on", "whole")
    status, out, err = ran(monkeypatch, capsys, *asked, "--since", "2026-02-15T00:00:00Z", "--json")
    assert status == 0, err
    logged = json.loads(out)["logged"]
    assert (logged["dataset"], logged["recording"]["name"], logged["rows"]) == (None, "whole", 600)
    assert logged["compared_rows"] == 600
    assert "rows of recording whole" in ran(monkeypatch, capsys, *asked)[1]
    with Parsimony(server.url) as client:
        found = client.diff_versions("portfolio", "trace", 1, 2, on="whole", since="2026-02-15T00:00:00Z")
        assert found["logged"] == logged
        with pytest.raises(InvalidRequest) as refused:
            client.diff_versions("portfolio", "trace", 1, 2, since="2026-02-15T00:00:00Z")
    assert refused.value.details["errors"][0]["loc"] == ["since"]


def test_a_dataset_comes_before_a_recording_of_its_name(server: Server) -> None:
    server.client.put("/v1/datasets/log", files=embedded_upload(seed=9)).raise_for_status()
    assert (evaluate(server, PORTFOLIO, "log")["dataset"], evaluate(server, PORTFOLIO, "log")["rows"]) == ("log", 400)
    recorded = evaluate(server, PORTFOLIO, "log", until="2100-01-01T00:00:00Z")
    assert (recorded["recording"]["name"], recorded["rows"]) == ("log", ROWS)
    server.client.delete("/v1/datasets/log").raise_for_status()


def test_the_command_and_the_clients_evaluate_recordings(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PARSIMONY_URL", server.url)
    asked = ("evaluate-version", "portfolio", "trace", "2", "--on", "whole", "--since", "2026-02-15T00:00:00Z")
    status, out, err = ran(monkeypatch, capsys, *asked, "budget=2", "--json")
    assert status == 0, err
    assert (json.loads(out)["rows"], json.loads(out)["limits"]) == (600, {"budget": 2.0})
    assert ran(monkeypatch, capsys, *asked)[0] == 0

    async def ask() -> Any:
        async with AsyncParsimony(server.url) as client:
            return await client.evaluate_version(
                "portfolio", "trace", 2, on="whole", since="2026-02-15T00:00:00Z", budget=2.0
            )

    assert asyncio.run(ask()) == json.loads(out)
    with Parsimony(server.url) as client, pytest.raises(Conflict):
        client.evaluate_version("portfolio", "trace", 2, on="narrow", budget=20)
