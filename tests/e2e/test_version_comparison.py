"""Versions are compared over HTTP, by commands, and by the client: on complete rows and on logs."""

import asyncio
import io
import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parsimony import AsyncParsimony, Parsimony
from parsimony.errors import Conflict
from tests.support.commands import ran
from tests.support.samples import TRACE_SPEC, embedded_upload, table_upload, to_csv, trace_columns, trace_embeddings
from tests.support.servers import Server, running_server, wait_for

pytestmark = pytest.mark.server
SMALL = {"samples": {"count": 10, "size": 50}}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "cascade": [{"target_precision": 0.9}, {"target_precision": 0.6, "dependence": "independent"}],
    "portfolio": [{**SMALL, "curve_points": 3}, {**SMALL, "curve_points": 8}],
}
NAMES = ("fast", "middle", "strong")
PORTFOLIO, CASCADE = "/v1/artifacts/portfolio/trace", "/v1/artifacts/cascade/trace"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("comparison")) as server:
        for name, files in (
            ("trace", embedded_upload()),
            ("unseen", embedded_upload(seed=9)),
            ("log", log_upload()),
            ("other", other_upload()),
            ("narrow", log_upload(only="fast")),
        ):
            reply = server.client.put(f"/v1/datasets/{name}", files=files)
            assert reply.status_code == 201, reply.text
        for kind, versions in OPTIONS.items():
            for params in versions:
                build(server, {"kind": kind, "name": "trace", "dataset": "trace", "params": params})
        build(server, {"kind": "cascade", "name": "trace", "dataset": "other", "params": {}})
        activated = server.client.put(f"{PORTFOLIO}/active", json={"version": 1})
        assert activated.status_code == 200
        yield server


def build(server: Server, body: dict[str, Any]) -> None:
    path = server.client.post("/v1/builds", json=body).headers["location"]
    wait_for(lambda: server.client.get(path).json()["status"] not in ("queued", "running"), 60)
    assert server.client.get(path).json()["status"] == "succeeded"


def other_upload() -> dict[str, Any]:
    """Give a trace in which the middle classifier is less sure than it was."""
    columns = trace_columns(300, seed=8)
    columns["middle_confidence"] = [0.6 * sure for sure in columns["middle_confidence"]]
    return table_upload(to_csv(columns))


def log_upload(only: str | None = None) -> dict[str, Any]:
    """Give a log of 1,200 new items: each was sent to one classifier, at random or always the same."""
    columns = trace_columns(1200, seed=3)
    chosen = np.random.default_rng(1).integers(3, size=1200)
    embeddings = io.BytesIO()
    np.save(embeddings, trace_embeddings(columns))
    for j, name in enumerate(NAMES):
        called = [
            name == only or (only is None and at == j) or (only is not None and row < 40)
            for row, at in enumerate(chosen)
        ]
        for column in [one for one in columns if one.startswith(name)]:
            columns[column] = [cell if own else "" for cell, own in zip(columns[column], called, strict=True)]
        columns[f"{name}_p"] = [1 / 3 if own and only is None else 0.9 if own else "" for own in called]
    classifiers = [{**one, "propensity": f"{one['name']}_p"} for one in TRACE_SPEC["classifiers"]]
    spec = json.dumps({**TRACE_SPEC, "classifiers": classifiers})
    table = ("table", to_csv(columns), "text/csv")
    return {"spec": (None, spec), "table": table, "embeddings": ("embeddings.npy", embeddings.getvalue())}


def evaluated(server: Server, path: str, **params: Any) -> Any:
    reply = server.client.get(f"{path}/evaluation", params=params)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_a_version_is_evaluated_on_a_log(server: Server) -> None:
    found = evaluated(server, f"{PORTFOLIO}/versions/2", on="log")
    assert found["artifact"] == {"kind": "portfolio", "name": "trace", "version": 2}
    assert 300 < found["supported_rows"] < 500
    replayed = evaluated(server, f"{PORTFOLIO}/versions/2", on="unseen")
    for name in ("accuracy", "cost"):
        one = found["figures"][name]
        assert one["method"] == "doubly_robust"
        assert one["interval"][0] < one["value"] < one["interval"][1]
        assert one["value"] == pytest.approx(replayed["figures"][name]["value"], rel=0.15)
        assert replayed["figures"][name]["method"] == "replay"
    assert [one["compared_with"] for one in found["comparisons"]] == ["logged", "active", "best_single"]
    assert found["comparisons"][2]["name"] == "always strong"


@pytest.mark.parametrize(
    ("path", "version"),
    [
        (f"{PORTFOLIO}/versions/2/evaluation?on=trace", "portfolio/trace/2"),
        (f"{CASCADE}/versions/1/evaluation?on=other", "cascade/trace/3"),
        (f"{CASCADE}/diff?from=1&to=3&on=other", "cascade/trace/3"),
    ],
)
def test_rows_that_a_version_learned_from_are_refused(path: str, version: str, server: Server) -> None:
    refused = server.client.get(path)
    fault = refused.json()["errors"][0]
    assert (refused.status_code, fault["loc"]) == (422, ["on"])
    assert version in fault["msg"]


def test_limits_are_those_of_the_kind(server: Server) -> None:
    cheap = evaluated(server, f"{PORTFOLIO}/versions/2", on="log", budget=1.0)
    assert cheap["limits"] == {"budget": 1.0}
    assert cheap["figures"]["cost"]["value"] == pytest.approx(1.0)
    unknown = server.client.get(f"{PORTFOLIO}/versions/2/evaluation", params={"on": "log", "speed": 1})
    assert unknown.status_code == 422


def test_a_log_without_the_calls_of_a_version_is_refused(server: Server) -> None:
    reply = server.client.get(f"{PORTFOLIO}/versions/2/evaluation", params={"on": "narrow", "budget": 20})
    problem = reply.json()
    assert (reply.status_code, problem["type"]) == (409, "urn:parsimony:small-overlap")
    assert problem["overlap"]["rows"] == 1200
    assert problem["overlap"]["supported_rows"] < 900
    assert problem["overlap"]["covered"] < 0.95


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (f"{PORTFOLIO}/versions/9/evaluation?on=log", "unknown-version"),
        ("/v1/artifacts/portfolio/other/versions/1/evaluation?on=log", "unknown-artifact"),
        (f"{PORTFOLIO}/versions/1/evaluation?on=absent", "unknown-dataset"),
        (f"{PORTFOLIO}/versions/1/evaluation?on=absent&since=2026-01-01T00:00:00Z", "unknown-recording"),
        (f"{PORTFOLIO}/versions/1/evaluation?on=log&since=2026-01-01T00:00:00Z", "unknown-recording"),
        (f"{PORTFOLIO}/diff?from=1&to=9", "unknown-version"),
    ],
)
def test_unknown_names_are_not_found(path: str, code: str, server: Server) -> None:
    reply = server.client.get(path)
    assert (reply.status_code, reply.json()["type"]) == (404, f"urn:parsimony:{code}")


def test_records_are_compared(server: Server) -> None:
    found = server.client.get(f"{CASCADE}/diff", params={"from": 1, "to": 2}).json()
    changes = {one["what"]: (one["before"], one["after"]) for one in found["changes"]}
    assert changes["parameter dependence"] == ("joint", "independent")
    assert found["before"]["expected"]["cost_interval"] is not None
    assert [found[one]["active"] for one in ("before", "after")] == [False, False]
    assert found["logged"] is None


def test_versions_are_compared_within_limits(server: Server) -> None:
    path = f"{PORTFOLIO}/diff?from=1&to=2&on=log"
    default, cheap = (server.client.get(path + limit).json() for limit in ("", "&budget=1"))
    assert cheap["before"]["limits"] == cheap["after"]["limits"] == {"budget": 1.0}
    assert cheap["before"]["expected"]["cost"] == pytest.approx(1.0)
    assert cheap["logged"]["before"]["cost"]["value"] == pytest.approx(1.0)
    assert default["before"]["limits"] != {"budget": 1.0}
    assert default["logged"]["before"]["cost"]["value"] > 1.0
    unknown = server.client.get(f"{path}&speed=1")
    assert (unknown.status_code, unknown.json()["errors"][0]["loc"]) == (422, ["speed"])
    accurate = server.client.get(f"{path}&min_accuracy=0.01").json()["before"]
    assert accurate["expected"]["cost"] == pytest.approx(1.0)
    typo = server.client.get(f"{CASCADE}/diff", params={"from": 1, "to": 2, "excluded": "typo"})
    assert (typo.status_code, typo.json()["errors"][0]["loc"][0]) == (422, "excluded")
    excluded = "&excluded=" + "x" * 200
    asked = HTTPConnection("127.0.0.1", server.port)
    asked.request("GET", path + 400 * excluded)
    assert asked.getresponse().status == 400
    short = server.client.get(f"{CASCADE}/diff", params={"from": 1, "to": 2, "budget": 1e-6})
    assert (short.status_code, short.json()["type"]) == (409, "urn:parsimony:infeasible")


def test_decisions_on_rows_are_compared(server: Server) -> None:
    found = server.client.get(f"{CASCADE}/diff", params={"from": 1, "to": 3, "on": "unseen"}).json()
    logged = found["logged"]
    assert {"dataset", "thresholds"} & {one["what"] for one in found["changes"]}
    assert 0 < logged["changed_rows"] <= 400
    assert logged["rows"] == logged["compared_rows"] == 400
    assert logged["before"]["cost"]["method"] == "replay"
    assert logged["differences"]["cost"]["value"] == pytest.approx(
        logged["after"]["cost"]["value"] - logged["before"]["cost"]["value"]
    )
    assert sum(one["answers_after"] for one in logged["shares"]) == pytest.approx(1.0)
    assert len(logged["examples"]) == min(logged["changed_rows"], 10)
    for one in logged["examples"]:
        assert one["before"] != one["after"]
    same = server.client.get(f"{CASCADE}/diff", params={"from": 1, "to": 1, "on": "unseen"}).json()
    assert (same["changes"], same["logged"]["changed_rows"]) == ([], 0)


def test_choices_are_known_for_rows_without_their_calls(server: Server) -> None:
    logged = server.client.get(f"{PORTFOLIO}/diff", params={"from": 1, "to": 2, "on": "log"}).json()["logged"]
    assert logged["compared_rows"] == logged["rows"] == 1200
    refused = server.client.get(f"{CASCADE}/diff", params={"from": 1, "to": 2, "on": "narrow"}).json()["logged"]
    assert (refused["before"], refused["differences"]) == (None, None)
    assert refused["refusal"]


def test_the_page_needs_no_script(server: Server) -> None:
    headers = {"accept": "text/html,application/xhtml+xml"}
    reply = server.client.get(f"{CASCADE}/diff", params={"from": 1, "to": 2, "on": "unseen"}, headers=headers)
    assert reply.headers["content-type"].startswith("text/html")
    assert "style-src 'self' 'sha256-" in reply.headers["content-security-policy"]
    assert "<script" not in reply.text
    assert "parameter dependence" in reply.text


def test_commands_show_the_same(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PARSIMONY_URL", server.url)
    versions = ("--from", "1", "--to", "2")
    status, out, _ = ran(monkeypatch, capsys, "diff", "cascade", "trace", *versions, "--on", "unseen")
    assert status == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "| parameter dependence" in out
    page = tmp_path / "diff.html"
    status, _, _ = ran(monkeypatch, capsys, "diff", "cascade", "trace", *versions, "--output", page)
    assert (status, page.read_text()[:15]) == (0, "<!doctype html>")
    asked = ("evaluate-version", "portfolio", "trace", "2", "--on", "log")
    status, out, _ = ran(monkeypatch, capsys, *asked, "budget=1", "--json")
    assert (status, json.loads(out)["limits"]) == (0, {"budget": 1.0})
    status, out, _ = ran(monkeypatch, capsys, *asked)
    assert status == 0
    assert "always strong" in out


def test_the_client_compares_versions(server: Server) -> None:
    with Parsimony(server.url) as client:
        found = client.evaluate_version("portfolio", "trace", 2, on="log", budget=1.0)
        assert found["limits"] == {"budget": 1.0}
        assert client.diff_versions("cascade", "trace", 1, 2)["logged"] is None
        with pytest.raises(Conflict) as refused:
            client.evaluate_version("portfolio", "trace", 2, on="narrow", budget=20)
        assert refused.value.details["overlap"]["rows"] == 1200
    same = asyncio.run(ask_async(server.url))
    assert same == found


async def ask_async(url: str) -> Any:
    async with AsyncParsimony(url) as client:
        logged = (await client.diff_versions("cascade", "trace", 1, 2, on="unseen"))["logged"]
        assert logged is not None
        assert logged["rows"] == 400
        return await client.evaluate_version("portfolio", "trace", 2, on="log", budget=1.0)
