"""Recordings over HTTP: runs and posted rows are kept, explored, joined with truths, and frozen into datasets."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from parsimony import AsyncParsimony, Parsimony
from tests.e2e.test_runs import artifacts, endpoints, image, run
from tests.support import stored
from tests.support.commands import ran
from tests.support.model_process import ModelServer
from tests.support.servers import Server, running_server, wait_for
from tests.support.trained import COSTS, LEARN, TRACED, embedding, trained

ARTIFACT = {"kind": "cascade", "name": "digits"}
FRESH = LEARN + TRACED
BUILDS: dict[str, dict[str, Any]] = {
    "cascade": {"target_precision": 0.9},
    "portfolio": {"embedder": "embedder", "curve_points": 5},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, models: ModelServer) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("recordings")
    with running_server(folder, endpoint_hosts="127.0.0.1", secret_test="key") as server:
        for data in artifacts(BUILDS):
            headers = {"content-type": "application/octet-stream"}
            assert server.client.post("/v1/artifacts/import", content=data, headers=headers).status_code == 201
        for name, endpoint in endpoints(models).items():
            assert server.client.put(f"/v1/endpoints/{name}", json=endpoint).status_code == 201
        wait_for(lambda: len(server.client.get("/v1/artifacts").json()["items"]) == len(BUILDS), 20)
        wait_for(lambda: run(server, "cascade", item=image(0)).status_code == 200, 20)
        yield server


@pytest.fixture(autouse=True)
def _as_new(server: Server, models: ModelServer) -> None:
    models.switch()
    for one in server.client.get("/v1/recordings").json()["items"]:
        assert server.client.delete(f"/v1/recordings/{one['name']}").status_code == 204


def put(server: Server, name: str = "digits", status: int = 201, **fields: Any) -> dict[str, Any]:
    reply = server.client.put(f"/v1/recordings/{name}", json={"artifact": ARTIFACT, **fields})
    assert reply.status_code == status, reply.text
    shown: dict[str, Any] = reply.json()
    return shown


def post(server: Server, part: str, items: Any, name: str = "digits") -> httpx.Response:
    return server.client.post(f"/v1/recordings/{name}/{part}", json={"items": items})


def freeze(server: Server, name: str = "digits", **fields: Any) -> httpx.Response:
    return server.client.post(f"/v1/recordings/{name}/dataset", json={"dataset": "frozen", **fields})


def shown(server: Server, name: str = "digits") -> dict[str, Any]:
    one: dict[str, Any] = server.client.get(f"/v1/recordings/{name}").json()
    return one


def wait_for_rows(server: Server, count: int, name: str = "digits") -> None:
    wait_for(lambda: shown(server, name)["rows"] >= count, 10, lambda: str(shown(server, name)))


def explore_first(server: Server) -> None:
    """Run an item, so that what was explored today is read from the store, in the background."""
    assert run(server, "cascade", item=image(0)).status_code == 200
    time.sleep(1.2)


def spent_models(server: Server) -> set[str]:
    return {each["model"] for each in server.client.get("/v1/spend", params={"by": ["model"]}).json()["rows"]}


def rows_on_disk(server: Server) -> list[dict[str, Any]]:
    """Return the rows of all recordings whose log is open, in the order in which they were written."""
    paths = (server.data_dir / "recordings").glob("*/rows/*.jsonl")
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def call(name: str, label: str, **fields: Any) -> dict[str, Any]:
    return {"classifier": name, "label": label, "cost": 1.0, **fields}


def test_a_recording_is_set_listed_replaced_and_deleted(server: Server) -> None:
    one = put(server, sample=0.5)
    assert (one["recording"]["sample"], one["unit"], one["bytes"]) == (0.5, "ms", 0)
    put(server, "second")
    put(server, status=200, sample=1.0)
    page = server.client.get("/v1/recordings?limit=1").json()
    assert ([each["name"] for each in page["items"]], page["total"]) == (["digits"], 2)
    rest = server.client.get(f"/v1/recordings?cursor={page['next']}").json()
    assert ([each["name"] for each in rest["items"]], rest["next"]) == (["second"], None)
    assert server.client.delete("/v1/recordings/second").status_code == 204
    for path in ("", "/rows", "/truths", "/dataset"):
        bodies = {"": {"artifact": ARTIFACT, "sample": 2}, "/dataset": {"dataset": "x"}}
        wrong = bodies.get(path, {"items": [{"id": "a"}]})
        method = "PUT" if not path else "POST"
        found = server.client.request(method, f"/v1/recordings/second{path}", json=wrong)
        assert found.status_code == (404 if path else 422), found.text
    assert server.client.get("/v1/recordings/second").json()["type"] == "urn:parsimony:unknown-recording"


@pytest.mark.parametrize(
    ("fields", "status", "place"),
    [
        ({"artifact": {"kind": "cascade", "name": "none"}}, 404, None),
        ({"artifact": {"kind": "none", "name": "none"}}, 422, ["artifact", "kind"]),
        ({"explore": 0.1}, 422, ["body"]),
        ({"reference": "stranger"}, 422, ["reference"]),
        ({"max_bytes": 10}, 422, ["max_bytes"]),
    ],
)
def test_recordings_that_cannot_be_are_refused(server: Server, fields: Any, status: int, place: Any) -> None:
    reply = server.client.put("/v1/recordings/wrong", json={"artifact": ARTIFACT, **fields})
    assert reply.status_code == status, reply.text
    assert place is None or reply.json()["errors"][0]["loc"] == place, reply.text


@pytest.mark.parametrize(
    ("part", "item", "place"),
    [
        ("rows", {"id": "b", "calls": []}, ["items", 1, "calls"]),
        ("rows", {"id": "b", "calls": [call("half", "1", propensity=0.0)]}, ["items", 1, "calls", 0, "propensity"]),
        ("rows", {"id": "b", "calls": [call("half", "1"), call("half", "2")]}, ["items", 1]),
        ("rows", {"id": "b", "time": "2026-01-01", "calls": [call("half", "1")]}, ["items", 1, "time"]),
        ("truths", {"id": "b"}, ["items", 1]),
        ("truths", {"id": "b", "quality": {"half": 1.5}}, ["items", 1, "quality", "half"]),
    ],
)
def test_wrong_rows_and_truths_are_refused_with_their_place(server: Server, part: str, item: Any, place: Any) -> None:
    put(server)
    right = {"id": "a", "calls": [call("half", "1")]} if part == "rows" else {"id": "a", "truth": "1"}
    reply = post(server, part, [right, item])
    assert reply.status_code == 422
    assert reply.json()["errors"][0]["loc"] == place, reply.text
    assert shown(server)["rows"] == 0


@pytest.mark.parametrize(
    ("part", "item", "places"),
    [
        ("rows", {"calls": [call("all", "1"), call("stranger", "1")]}, [["calls", 1, "classifier"]]),
        ("rows", {"candidates": ["all", "stranger"], "calls": [call("all", "1")]}, [["candidates", 1]]),
        ("truths", {"correct": {"stranger": True, "half": False}}, [["correct", "stranger"]]),
        ("truths", {"quality": {"half": 0.5, "stranger": 1.0}}, [["quality", "stranger"]]),
    ],
)
def test_nothing_is_stored_of_a_request_that_names_another_classifier(
    server: Server, part: str, item: Any, places: list[list[Any]]
) -> None:
    put(server, reference="all")
    right = {"calls": [call("half", "1"), call("all", "1")]} if part == "rows" else {"truth": "1"}
    reply = post(server, part, [{"id": "a", **right}, {"id": "b", **item}, {"id": "c", **item}])
    assert (reply.status_code, reply.json()["type"]) == (422, "urn:parsimony:invalid-request")
    faults = reply.json()["errors"]
    assert [fault["loc"] for fault in faults] == [["items", at, *place] for at in (1, 2) for place in places]
    for name in ("stranger", *COSTS):
        assert name in faults[0]["msg"]
    assert not list((server.data_dir / "recordings").glob(f"*/{part}/*"))
    assert post(server, part, [{"id": "a", **right}]).json() == {"accepted": 1}


def test_names_of_other_versions_are_accepted(server: Server) -> None:
    put(server)
    row = {"id": "a", "version": 2, "calls": [call("K1", "1"), call("all", "1")]}
    assert post(server, "rows", [row]).status_code == 422
    headers = {"content-type": "application/octet-stream"}
    record = server.client.post("/v1/artifacts/import", content=stored.artifact("digits"), headers=headers).json()
    versions = f"/v1/artifacts/cascade/digits/versions/{record['version']}"
    assert server.client.put("/v1/artifacts/cascade/digits/active", json={"version": 1}).status_code == 200
    wait_for(lambda: run(server, "cascade", item=image(0)).status_code == 200, 10)
    assert post(server, "rows", [row]).json() == {"accepted": 1}
    assert post(server, "truths", [{"id": "a", "correct": {"K2": True}}]).json() == {"accepted": 1}
    assert server.client.delete(versions).status_code == 204
    assert post(server, "truths", [{"id": "a", "correct": {"K2": True}}]).status_code == 422


def test_a_recording_of_posted_rows_may_list_its_classifiers(server: Server) -> None:
    put(server, artifact=None, unit="USD", classifiers=["one", "two"], reference="two")
    assert post(server, "rows", [{"id": "a", "calls": [call("one", "1")]}]).status_code == 200
    refused = post(server, "truths", [{"id": "a", "correct": {"three": True}}])
    assert refused.json()["errors"][0]["loc"] == ["items", 0, "correct", "three"]
    put(server, artifact=None, unit="USD", classifiers=["one"], reference="two", status=422)
    put(server, "other", classifiers=["all"], status=422)


def test_runs_are_recorded_explored_and_frozen(server: Server, models: ModelServer) -> None:
    """All runs are explored, so the dataset is complete: every call has its propensity, and truths their items."""
    put(server, explore=1.0, explore_budget=1e6)
    explore_first(server)
    for place in range(60):
        assert run(server, "cascade", item=image(place), id=f"image-{place}").status_code == 200
    wait_for_rows(server, 61)
    one = shown(server)
    assert (one["rows"], one["rows_with_truth"]) == (61, 0)
    assert 0.1 < one["explored_share"] <= 1
    wait_for(lambda: shown(server)["explored_cost"] > 0, 5)
    assert freeze(server).json()["errors"][0]["loc"] == ["since"]
    truths = [{"id": f"image-{place}", "truth": str(trained().truth[FRESH + place])} for place in range(50)]
    assert post(server, "truths", truths).json() == {"accepted": 50}
    assert shown(server)["rows_with_truth"] == 50
    reply = freeze(server)
    assert reply.status_code == 201, reply.text
    frozen = reply.json()
    could_not = sum(count for reason, count in frozen["unused"].items() if "could not be explored" in reason)
    assert (frozen["recorded_rows"], could_not < 40) == (61, True)
    assert frozen["rows"] + frozen["unused"]["rows without truth"] + could_not == 61
    assert frozen["complete_rows"] in (None, frozen["rows"])
    assert {each["name"] for each in frozen["spec"]["classifiers"]} == set(COSTS)
    assert frozen["spec"]["label"] == "truth"
    assert frozen["spec"]["label_source"] is None
    wait_for(lambda: spent_models(server) >= {"few-pixels", "half", "all"}, 5)
    body = {"kind": "cascade", "name": "again", "dataset": "frozen", "params": {"target_precision": 0.9}}
    build = server.client.post("/v1/builds", json=body).json()
    with server.client.stream("GET", f"/v1/builds/{build['id']}/events") as events:
        assert '"succeeded"' in [line for line in events.iter_lines() if line.startswith("data: ")][-1]
    later = freeze(server, since=one["newest"], dataset="later")
    assert later.status_code == 422


def test_exploration_ends_with_its_budget_and_later_rows_say_so(server: Server, models: ModelServer) -> None:
    """One item is planned to cost 14 ms, and costs more: no further one may be explored. Failed calls are rows, too."""
    put(server, explore=1.0, explore_budget=1e6)
    explore_first(server)
    put(server, status=200, explore=1.0, explore_budget=shown(server)["explored_cost"] + 40.0)
    models.switch(all="slow", half="slow")
    for place in range(12):
        assert run(server, "cascade", item=image(place), id=f"image-{place}").status_code == 200
    wait_for_rows(server, 13)
    rows = {row["id"]: row for row in rows_on_disk(server) if row["id"].startswith("image-")}
    explored = [row for row in rows.values() if row["explore"] == 1.0]
    assert 1 <= len(explored) < 12
    for row in rows.values():
        by_exploration = [each for each in row["calls"] if each["is_explored"]]
        assert {each["propensity"] for each in row["calls"]} == {1.0}
        assert not by_exploration or row["explore"] == 1.0
        assert row["explore"] == 0.0 or len(row["calls"]) == 3
    assert rows["image-11"]["explore"] == 0.0
    truths = [{"id": f"image-{place}", "truth": str(trained().truth[FRESH + place])} for place in range(12)]
    assert post(server, "truths", truths).status_code == 200
    reply = freeze(server).json()
    unused = reply.get("unused", {"could not be explored": 0})
    assert any("could not be explored" in reason for reason in unused)


def test_nothing_is_kept_of_runs_that_are_not_drawn(server: Server) -> None:
    put(server, sample=0.0)
    put(server, "half", sample=0.5)
    for place in range(40):
        assert run(server, "cascade", item=image(place % 5)).status_code == 200
    wait_for(lambda: shown(server, "half")["rows"] >= 5, 10)
    time.sleep(0.6)
    assert shown(server)["rows"] == 0
    assert 5 <= shown(server, "half")["rows"] < 36
    assert len({row["id"] for row in rows_on_disk(server)}) <= 5  # items without an id: a keyed hash names them


def test_embeddings_that_the_service_computes_are_recorded(server: Server) -> None:
    """Some texts are run alone and some together: with the embedder's embedding, and the policy's own call."""
    put(server, artifact={"kind": "portfolio", "name": "digits"}, keeps_items=True)
    items = [{"item": image(at), "text": json.dumps(image(at)), "id": f"i{at}"} for at in range(12)]
    for item in items[:6]:
        assert run(server, "portfolio", **item, budget=6.0).status_code == 200
    assert run(server, "portfolio", items=items[6:], budget=6.0).status_code == 200
    wait_for_rows(server, 12)
    truths = [{"id": f"i{place}", "truth": str(trained().truth[FRESH + place])} for place in range(12)]
    assert post(server, "truths", truths).status_code == 200
    reply = freeze(server, dataset="embedded")
    assert reply.status_code == 201, reply.text
    frozen = reply.json()
    assert (frozen["rows"], frozen["embedding_dimensions"]) == (12, embedding(trained().images[:1]).shape[1])
    kept = {row["id"]: row["item"] for row in rows_on_disk(server)}
    assert json.loads(kept["i3"]) == image(3)


def test_batches_and_lists_of_items_are_recorded(server: Server) -> None:
    put(server)
    items = [{"item": image(place), "id": f"list-{place}"} for place in range(5)]
    assert server.client.post("/v1/cascades/digits/runs", json={"items": items}).status_code == 200
    wait_for_rows(server, 5)
    lines = "\n".join(map(json.dumps, items))
    files: Any = {"spec": (None, json.dumps(ARTIFACT), "application/json"), "file": ("items.jsonl", lines)}
    batch = server.client.post("/v1/batches", files=files)
    assert batch.status_code in (201, 202), batch.text
    wait_for_rows(server, 10)


def test_the_command_line_and_the_clients_record_and_freeze(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PARSIMONY_URL", server.url)

    def command(*words: str, status: int = 0) -> tuple[str, str]:
        ended, out, err = ran(monkeypatch, capsys, "recordings", *words)
        assert ended == status, err
        return out, err

    command("add", "mine", "cascade/digits", "explore=0.5", "explore_budget=10")
    rows = [{"id": f"r{n}", "calls": [call("half", str(n % 2)), call("all", str(n % 3 % 2))]} for n in range(30)]
    truths = [{"id": f"r{n}", "truth": str(n % 2)} for n in range(29)]
    with Parsimony(server.url) as client:
        assert client.put_recording("mine", {"artifact": ARTIFACT})["recording"]["explore"] == 0.0
        assert client.add_rows("mine", *rows[:20]) == {"accepted": 20}

    async def add_rest() -> Any:
        async with AsyncParsimony(server.url) as client:
            await client.add_rows("mine", *rows[20:])
            await client.add_truths("mine", *truths)
            return await client.freeze_recording("mine", "by-client", until="2100-01-01T00:00:00Z")

    assert asyncio.run(add_rest())["rows"] == 29
    assert "mine" in command("list")[0]
    frozen = json.loads(command("dataset", "mine", "by-command", "--json")[0])
    assert (frozen["recorded_rows"], frozen["rows"]) == (30, 29)
    assert "without truth" in command("dataset", "mine", "by-command")[1]
    command("delete", "mine")
    command("delete", "mine", status=1)


@pytest.mark.parametrize("when", ["0001-01-01T00:00:00+14:00", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59-14:00"])
def test_times_that_no_clock_shows_are_refused(server: Server, when: str) -> None:
    put(server)
    assert post(server, "rows", [{"id": "a", "time": when, "calls": [call("mlp", "1")]}]).status_code == 422
    assert shown(server)["rows"] == 0


def test_a_recording_stays_with_its_artifact(server: Server) -> None:
    put(server)
    reply = server.client.put("/v1/recordings/digits", json={"artifact": {"kind": "portfolio", "name": "digits"}})
    assert reply.status_code == 409
    assert shown(server)["recording"]["artifact"] == ARTIFACT


def test_outcomes_do_not_count_if_their_truths_cannot_be_written(server: Server) -> None:
    put(server)
    outcomes = server.client.get("/v1/feedback/cascade/digits").json()["outcomes"]
    decision = run(server, "cascade", item=image(0)).json()["decision"]
    wait_for_rows(server, 1)
    folder = max((server.data_dir / "recordings").iterdir(), key=lambda one: one.stat().st_mtime)
    (folder / "truths").write_text("in the way")
    sent = {"items": [{"decision": decision, "item": "a", "truth": "1", "answer": "1"}]}
    assert server.client.post("/v1/feedback", json=sent).status_code == 503
    assert server.client.get("/v1/feedback/cascade/digits").json()["outcomes"] == outcomes
    (folder / "truths").unlink()
    assert server.client.post("/v1/feedback", json=sent).status_code == 200
    assert server.client.get("/v1/feedback/cascade/digits").json()["outcomes"] == outcomes + 1


def test_posted_rows_become_a_partial_trace(server: Server) -> None:
    put(server, reference="all")
    rows = [
        {
            "id": f"row-{number}",
            "explore": 0.5,
            "embedding": [float(number % 7), 1.0],
            "calls": [call("half", str(number % 2), propensity=1.0)]
            + ([call("all", str(number % 4 // 2), propensity=0.5, is_explored=True)] if number % 3 == 0 else []),
        }
        for number in range(90)
    ]
    assert post(server, "rows", rows).json() == {"accepted": 90}
    frozen = freeze(server, dataset="posted").json()
    assert (frozen["rows"], frozen["unused"]) == (30, {"rows without truth": 60})
    assert frozen["spec"]["label_source"] == "all"
    assert "reference-labels" in {one["code"] for one in frozen["warnings"]}
    assert post(server, "truths", [{"id": f"row-{n}", "correct": {"half": True, "all": n % 2 == 0}} for n in range(90)])
    frozen = freeze(server, dataset="posted").json()
    assert (frozen["rows"], frozen["complete_rows"], frozen["spec"]["label_source"]) == (90, 30, None)
    assert [one["propensity"] for one in frozen["spec"]["classifiers"]] == ["all.propensity", "half.propensity"]
    assert frozen["replaced"]["rows"] == 30


def test_deletion_removes_the_files(server: Server) -> None:
    put(server)
    assert post(server, "rows", [{"id": "a", "calls": [call("half", "1")]}]).status_code == 200
    root = server.data_dir / "recordings"
    before = list(root.glob("*/rows/*"))
    assert before
    assert server.client.delete("/v1/recordings/digits").status_code == 204
    wait_for(lambda: not any(Path(one).exists() for one in before), 5)


def test_rows_are_posted_before_there_is_an_artifact(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("PARSIMONY_URL", server.url)
    assert ran(monkeypatch, capsys, "recordings", "add", "posted", "unit=USD")[0] == 0
    row = {"key": "k", "calls": [{"classifier": "one", "label": "a", "cost": 1, "propensity": 1}]}
    rows = [{**row, "id": "x"}, {**row, "id": "x"}, {**row, "id": "y", "key": None}, {**row, "id": "z", "key": None}]
    assert post(server, "rows", rows, "posted").json()["accepted"] == 4
    truths = [{"id": name, "truth": label} for name, label in zip("xyz", "aab", strict=True)]
    assert post(server, "truths", truths, "posted").status_code == 200
    frozen = freeze(server, "posted", dataset="posted").json()
    assert (frozen["rows"], frozen["recorded_rows"]) == (3, 3)
    assert "posted rows" in ran(monkeypatch, capsys, "recordings", "list")[1]
    for fields in ({"unit": "USD"}, {"artifact": None}, {"artifact": None, "unit": "USD", "sample": 0.5}):
        put(server, "refused", status=422, **fields)
    put(server, "posted", status=409, artifact=None, unit="EUR")
    put(server, "posted", status=409)


def test_automation_accepts_only_recordings_of_its_artifact(server: Server) -> None:
    def automate(recording: str) -> httpx.Response:
        spec = {"rebuild_on_drift": True, "recording": recording}
        return server.client.put("/v1/artifacts/cascade/digits/automation", json=spec)

    put(server)
    put(server, "other", artifact={"kind": "portfolio", "name": "digits"})
    assert automate("digits").status_code == 201
    assert automate("none").status_code == 404
    refused = automate("other")
    assert (refused.status_code, refused.json()["errors"][0]["loc"][-1]) == (422, "recording")
    server.client.put("/v1/artifacts/cascade/digits/automation", json={}).raise_for_status()
