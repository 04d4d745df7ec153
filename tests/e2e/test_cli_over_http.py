"""The command line from another machine: with ``PARSIMONY_URL`` it says what the server says, and needs no store."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

from app.cli.main import main
from tests.support.commands import ran
from tests.support.kinds import SAMPLES
from tests.support.samples import TRACE_SPEC, to_csv, trace_columns
from tests.support.servers import Server, free_port, running_server

KEY = "k"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """Give a function that runs a command in a folder of its own, speaking to an address."""
    monkeypatch.chdir(tmp_path)

    def run(url: str, *arguments: object) -> tuple[int, str, str]:
        monkeypatch.setenv("PARSIMONY_URL", url)
        monkeypatch.setenv("PARSIMONY_KEY", KEY)
        monkeypatch.setattr("sys.argv", ["parsimony", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert not (tmp_path / "data" / "redis").exists()  # no store is made where a server is spoken to
        return int(ended.value.code or 0), out, err

    return run


def _parsed(result: tuple[int, str, str]) -> Any:
    status, out, err = result
    assert status == 0, err
    return json.loads(out)


def test_lists_are_those_of_the_server(run: Any, all_kinds: Server) -> None:
    for command, path in (("artifacts", "artifacts"), ("dataset list", "datasets"), ("builds list", "builds")):
        said = _parsed(run(all_kinds.url, *command.split(), "--json"))
        replied = all_kinds.client.get(f"/v1/{path}").json()["items"]
        assert [item["created_at"] for item in said["items"]] == [item["created_at"] for item in replied][:20]


@pytest.mark.parametrize("kind", SAMPLES)
def test_every_subject_decides_as_over_http(kind: str, run: Any, all_kinds: Server) -> None:
    inputs = [f"{key}={json.dumps(value)}" for key, value in SAMPLES[kind].inputs.items()]
    said = _parsed(run(all_kinds.url, "decide", kind, "plan", *inputs, "--json"))
    assert said["artifact"] == {"kind": kind, "name": "plan", "version": 1}
    assert "expected" in said
    if kind == "portfolio":
        dimensions = all_kinds.client.get("/v1/datasets/trace").json()["embedding_dimensions"]
        np.save("queries.npy", np.zeros((3, dimensions), np.float32))
        said = _parsed(run(all_kinds.url, "portfolio", "assign", "plan", "queries.npy", "--budget", "90%", "--json"))
        assert len(said["assignments"]) == 3


def test_a_dataset_is_uploaded_and_advised_on_and_a_cascade_built_asked_exported_and_deleted(
    run: Any, all_kinds: Server, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_bytes(to_csv(trace_columns(60)))
    (tmp_path / "spec.json").write_text(json.dumps(TRACE_SPEC))
    url = all_kinds.url
    stored = _parsed(run(url, "dataset", "add", "remote", "t.csv", "--spec", "spec.json", "--json"))
    assert stored["rows"] == 60
    status, _, refusal = run(url, "advise", "remote")
    assert (status, "60 rows" in refusal) == (1, True)
    built = _parsed(
        run(url, "build", "cascade", "remote", "--dataset", "remote", "-p", "target_precision=0.8", "--json")
    )
    assert built["name"] == "remote"
    assert run(url, "export", "cascade", "remote", "-o", "remote.parsimony")[0] == 0
    assert _parsed(run(url, "import", "remote.parsimony", "--json"))["version"] == 2
    for command in (
        "artifacts @ --activate 1",
        "plot @ -o remote.svg",
        "feedback @",
        "artifacts @ --delete-version 2 --yes",
    ):
        assert run(url, *command.replace("@", "cascade remote").split())[0] == 0
    assert run(url, "artifacts", "cascade", "remote", "--delete", "--yes")[0] == 0
    assert all_kinds.client.get("/v1/artifacts/cascade/remote").status_code == 404
    assert run(url, "dataset", "delete", "remote")[0] == 0


def test_fresh_rows_are_evaluated_from_a_file(run: Any, all_kinds: Server, tmp_path: Path) -> None:
    """A CSV file of the log's own columns, renamed; the reply is that of the API for the same items."""
    cells = trace_columns(50, seed=3)
    columns = {"truth": cells["truth"]}
    for name in ("fast", "middle", "strong"):
        columns[f"{name}.label"] = cells[f"{name}_says"]
        if name != "strong":
            columns[f"{name}.confidence"] = cells[f"{name}_confidence"]
    (tmp_path / "fresh.csv").write_bytes(to_csv(columns))
    found = _parsed(run(all_kinds.url, "evaluate", "cascade", "plan", "fresh.csv", "budget=6", "--json"))
    right = [item["label"] == truth for item, truth in zip(found["items"], cells["truth"], strict=True)]
    assert found["summary"]["accuracy"] == pytest.approx(np.mean(right))
    assert run(all_kinds.url, "evaluate", "policy", "plan", "fresh.csv", "-o", "out.parquet")[0] == 0
    assert (tmp_path / "out.parquet").read_bytes()[:4] == b"PAR1"
    (tmp_path / "bad.txt").write_text("x")
    for wrong in (["bad.txt"], ["fresh.csv", "nosuch=1"], ["fresh.csv", "-o", "out.xls"]):
        assert run(all_kinds.url, "evaluate", "cascade", "plan", *wrong)[0] == 1
    points = _parsed(run(all_kinds.url, "curve", "cascade", "plan", "--json"))["points"]
    assert points == all_kinds.client.get("/v1/cascades/plan/curve").json()["points"]


def test_what_the_server_refuses_and_who_does_not_answer_is_one_line(run: Any, all_kinds: Server) -> None:
    status, out, err = run(all_kinds.url, "decide", "cascade", "nosuch")
    assert (status, out, err.count("\n")) == (1, "", 1)
    nobody = f"http://127.0.0.1:{free_port()}"
    assert nobody in run(nobody, "artifacts")[2]
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other:
        Thread(target=other.serve_forever, daemon=True).start()
        assert (
            "status 501 is not from a Parsimony server" in run(f"http://127.0.0.1:{other.server_port}", "artifacts")[2]
        )
        other.shutdown()
    assert "this command uses the store directly" in run(all_kinds.url, "demo")[2]
    assert "must start with http:// or https://" in run("ftp://nowhere", "artifacts")[2]


def test_refusals_say_what_to_set(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_server(tmp_path / "locked", api_keys="right:build") as locked:
        for key, wanted, said in (
            ("k", 1, "PARSIMONY_KEY"),
            ("right", 0, locked.url),
            ("schlüssel", 1, "PARSIMONY_KEY"),
        ):
            monkeypatch.setattr("tests.e2e.test_cli_over_http.KEY", key)
            status, _, err = run(locked.url, "dataset", "list")
            assert (status, said in err) == (wanted, True)


def test_commands_find_the_server_on_their_data_folder(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def listed() -> tuple[int, str, str]:
        return ran(monkeypatch, capsys, "builds", "list", "--json")

    monkeypatch.setenv("PARSIMONY_DATA_DIR", str(tmp_path))
    with running_server(tmp_path) as server:
        assert _parsed(listed()) == {"items": []}
        assert 'route="/v1/builds"' in server.client.get("/metrics").text
    assert not (tmp_path / "server.url").exists()
    (tmp_path / "server.url").write_text(f"http://127.0.0.1:{free_port()}")  # of one that was killed
    assert _parsed(listed()) == {"items": []}


def test_what_an_artifact_is_worth_is_one_figure_wherever_it_is_told(run: Any, all_kinds: Server) -> None:
    """In the record, in lists, in decisions side by side, in exports, and on the command line."""
    client = all_kinds.client
    decided = client.get("/v1/decisions", params={"name": "plan", "size": 64}).json()["items"]
    by_commands = _parsed(run(all_kinds.url, "artifacts", "--json"))["items"]
    for kind in SAMPLES:
        record = client.get(f"/v1/artifacts/{kind}/plan").json()
        savings = record["savings"]
        assert savings["headline"]
        listed = client.get("/v1/artifacts", params={"kind": kind}).json()["items"]
        assert next(one for one in listed if one["name"] == "plan")["savings"] == savings
        assert next(one for one in decided if one["artifact"]["kind"] == kind)["savings"] == savings
        assert next(one for one in by_commands if (one["kind"], one["name"]) == (kind, "plan"))["savings"] == savings
        exported = client.get(f"/v1/artifacts/{kind}/plan/versions/{record['version']}/export").content
        with ZipFile(BytesIO(exported)) as archive:
            assert json.loads(archive.read("manifest.json"))["summary"]["savings"] == savings
