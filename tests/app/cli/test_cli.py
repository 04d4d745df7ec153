"""The command line: tables for people, the API's JSON for programs, and refusals in one line."""

import errno
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from app.processes.clock import current_timestamp
from app.routes.kinds import make_kind_routes
from app.store.repositories import Repositories
from models import BuildRequest
from solvers import KINDS
from tests.support import stored
from tests.support.cases import first_quick
from tests.support.commands import ran
from tests.support.patience import patient
from tests.support.samples import TRACE_SPEC, to_csv, trace_columns, trace_embeddings
from tests.support.servers import environment, wait_for

Run = Callable[..., tuple[int, str, str]]
ROUTES = cache(make_kind_routes)


@pytest.fixture
def run(repos: Repositories, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Give a function that runs a command on the store and gives status, output and errors."""
    assert repos.settings.redis_url is not None
    monkeypatch.setenv("PARSIMONY_REDIS_URL", repos.settings.redis_url)
    monkeypatch.setattr("app.main.make_kind_routes", ROUTES)  # which takes longer than a command

    def run(*arguments: object, typed: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        return ran(monkeypatch, capsys, *arguments)

    return run


def done(result: tuple[int, str, str]) -> str:
    status, out, err = result
    assert status == 0, err
    assert max(map(len, out.splitlines()), default=0) <= 80
    return out


def parsed(result: tuple[int, str, str]) -> Any:
    status, out, err = result
    assert status == 0, err
    return json.loads(out)


def refused(result: tuple[int, str, str], status: int = 1) -> str:
    exit_status, out, err = result
    assert (exit_status, out) == (status, "")
    lines = err.splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("parsimony: ")
    return lines[0].removeprefix("parsimony: ")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    table, spec = tmp_path / "trace.csv", tmp_path / "spec.json"
    table.write_bytes(to_csv(trace_columns(60)))
    spec.write_text(json.dumps(TRACE_SPEC))
    return table, spec


def test_a_dataset_is_added_listed_shown_and_deleted(run: Run, files: tuple[Path, Path], repos: Repositories) -> None:
    table, spec = files
    np.save(vectors := table.with_name("vectors.npy"), np.ones((60, 4), dtype=np.float32))
    command = ("dataset", "add", "trace", table, "--spec", spec)
    added = done(run(*command))
    assert "cat, dog, owl" in added
    assert [line for line in done(run("dataset", "show", "trace")).splitlines() if "advised" not in line] == (
        added.splitlines()
    )
    assert "60" in done(run("dataset", "list"))
    assert parsed(run(*command, "--embeddings", vectors, "--json"))["embedding_dimensions"] == 4
    info = repos.datasets.get_info("trace").model_dump(mode="json")
    assert parsed(run("dataset", "show", "trace", "--json")) == {**info, "advised": False}
    assert parsed(run("dataset", "list", "--json")) == {"items": [info]}
    table.write_bytes(to_csv(trace_columns(60) | {"strong_ms": ["slow"] * 60}))
    assert refused(run(*command)).startswith("table.strong_ms: ")
    done(run("dataset", "delete", "trace"))
    assert repos.datasets.get_infos() == []


@pytest.mark.parametrize(
    ("command", "named"),
    first_quick(
        [
            ("dataset show nosuch", "'nosuch'"),
            ("dataset delete nosuch", "'nosuch'"),
            ("build oracle x --dataset trace --local", "kind: "),
            ("build cascade x --dataset nosuch --local", "'nosuch'"),
            ("build cascade x --dataset nosuch", "'nosuch'"),
            ("build cascade X_Y --dataset trace", "name: "),
            ("build cascade x --dataset trace --seed -1", "seed: "),
            ("build cascade x --dataset trace -p a=1 --local", "params.a: "),
            ("build cascade x --dataset trace -p target_precision=NaN", "params.target_precision: "),
            ("artifacts frog", "frog"),
            ("artifacts cascade nosuch", "'nosuch'"),
            ("artifacts cascade plan --activate 9", "version 9"),
            ("artifacts --activate 1", "activate: "),
            ("artifacts --delete", "delete: "),
            ("artifacts cascade plan --delete --activate 1", "delete: "),
            ("artifacts cascade plan --even-active", "even-active: "),
            ("decide cascade nosuch", "'nosuch'"),
            ("decide oracle plan", "kind: "),
            ("decide cascade plan deadline=2", "at most 6"),
            ("decide cascade plan deadline=2 deadline=3", "deadline: "),
            ("decide cascade plan deadline=nan", "deadline: "),
            ("decide cascade plan deadlin=2", "deadlin: "),
            ("decide cascade plan --version 3", "version 3"),
            ("export cascade nosuch -o x", "'nosuch'"),
            ("export cascade plan -o /no/such/folder/x", "/no/such/folder/x: "),
            (f"import {__file__}", "artifact"),
            ("plot cascade plan -o x.pdf", "output: "),
            ("plot cascade plan -o x", "output: "),
            ("plot oracle plan -o x.png", "kind: "),
            ("plot cascade nosuch -o x.png", "'nosuch'"),
            ("plot cascade plan --version 3 -o x.png", "version 3"),
            ("plot cascade plan -o /no/such/folder/x.png", "/no/such/folder/x.png: "),
            ("bench nosuch", "'nosuch'"),
            ("bench ../cli", "'../cli'"),
        ],
        18,
    ),
)
def test_a_refusal_is_one_line_and_status_1(command: str, named: str, run: Run, repos: Repositories) -> None:
    stored.put_trace(repos)
    stored.publish(repos)
    line = refused(run(*command.split()))
    assert line.startswith(named) if named.endswith(": ") else named in line


WRONG_USAGE = """nosuch | dataset nosuch | dataset add x | dataset add x /no/such/table --spec /no/such/spec
    | build cascade | build cascade x --dataset d --seed much | build cascade x --dataset d -p novalue | decide cascade
    | decide cascade plan deadline | artifacts --activate two | import /no/such/file | export cascade plan
    | plot cascade plan | dataset list --nosuch"""


@pytest.mark.parametrize("command", WRONG_USAGE.split("|"))
def test_wrong_usage_is_status_2_with_no_trace(command: str, run: Run) -> None:
    status, out, err = run(*command.split())
    assert (status, out, "Traceback" in err) == (2, "", False)
    assert err.startswith("Usage: ")


@pytest.mark.slow
def test_a_benchmark_has_help_of_its_own() -> None:
    def help_of(*arguments: str) -> str:
        return subprocess.run([sys.executable, "-m", "app", "bench", *arguments], capture_output=True, text=True).stdout

    assert "--minutes" in help_of("soak", "--help")
    assert "Name of the benchmark" in help_of("--help")


@pytest.mark.slow
def test_help_and_decisions_load_nothing_that_they_do_not_need() -> None:
    def loaded_by(module: str) -> set[str]:
        code = f"import sys, {module}; print(*sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return set(done.stdout.split())

    learning = {"sklearn", "scipy", "joblib", "numba", "moocore", "fastapi", "matplotlib"}
    assert loaded_by("app.cli.main") & (learning | {"numpy", "pydantic", "redis", "rich"}) == set()
    kinds = {f"solvers.{name}" for name in KINDS}
    store = {"redis", "aiohttp", "app.store.client", "app.store.codec", "pyarrow"}
    unasked = learning | kinds | {"prometheus_client", "rq"}
    assert loaded_by("app.cli.decisions") & (unasked | store) == set()
    assert loaded_by("app.main") & {"sklearn", "scipy", "joblib", "numba", "matplotlib"} == set()


def test_the_version_is_said_and_a_misspelt_command_is_put_right(run: Run) -> None:
    assert re.fullmatch(r"parsimony \d+\.\d+\.\d+\n", done(run("--version")))
    status, _, err = run("bilds")
    assert (status, "Did you mean 'builds'" in err) == (2, True)


def test_builds_are_listed_shown_and_cancelled(run: Run, repos: Repositories) -> None:
    stored.put_trace(repos)
    assert parsed(run("builds", "list", "--json")) == {"items": []}
    queued = repos.builds.enqueue_build(BuildRequest(kind="cascade", name="mine", dataset="trace"))
    assert queued.id in done(run("builds", "list"))
    assert [one["id"] for one in parsed(run("builds", "list", "--json"))["items"]] == [queued.id]
    assert "queued" in done(run("builds", "show", queued.id))
    assert parsed(run("builds", "cancel", queued.id, "--json"))["status"] == "cancelled"
    assert repos.builds.get(queued.id).status == "cancelled"
    assert "'nosuch'" in refused(run("builds", "show", "nosuch"))


def test_a_build_in_this_process_shows_its_progress_and_the_artifact(run: Run, repos: Repositories) -> None:
    stored.put_trace(repos)
    command = ("build", "cascade", "mine", "--dataset", "trace", "--local", "-p")
    status, out, err = run(*command, "target_precision=0.9")
    assert (status, "cascade mine, version 1" in out) == (0, True)
    assert max(map(len, out.splitlines())) <= 80
    assert err.startswith("cascade mine: ")
    assert len(err.splitlines()) == len(set(err.splitlines()))
    assert repos.artifacts.get_record("cascade", "mine").params["target_precision"] == 0.9
    more = ("dependence=independent", "-p", "deadlines=[5, 12]", "-p", 'deterministic="strong"', "--seed", 3, "--json")
    built = parsed(run(*command, *more))
    assert built == repos.artifacts.get_record("cascade", "mine").model_dump(mode="json")
    assert (built["seed"], built["params"]["deadlines"]) == (3, [5.0, 12.0])
    assert (built["params"]["dependence"], built["params"]["deterministic"]) == ("independent", "strong")


@pytest.mark.slow
def test_a_build_in_a_worker_is_waited_for(run: Run, repos: Repositories, tmp_path: Path) -> None:
    stored.put_trace(repos)
    with (tmp_path / "worker.log").open("w") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "app", "worker"],
            env=environment(tmp_path, redis_url=repos.settings.redis_url, build_timeout=60),
            stderr=log,
        )
    try:
        built = parsed(run("build", "cascade", "mine", "--dataset", "trace", "--json"))
        assert built == repos.artifacts.get_record("cascade", "mine").model_dump(mode="json")
        repos.datasets.put("table", stored.features(), created_at=current_timestamp())
        line = refused_last(run("build", "index", "mine", "--dataset", "table", "-p", "learner=no.such.Learner"))
        assert "no.such.Learner" in line
    finally:
        worker.terminate()
        assert worker.wait(timeout=patient(20)) == 0
    assert "PARSIMONY_BUILD_TIMEOUT_S" in (tmp_path / "worker.log").read_text()


def refused_last(result: tuple[int, str, str]) -> str:
    status, out, err = result
    assert (status, out) == (1, "")
    assert "Traceback" not in err
    return err.splitlines()[-1]


def test_artifacts_are_listed_shown_and_rolled_back(run: Run, repos: Repositories) -> None:
    for seed in (0, 1):
        stored.publish(repos, seed=seed)
    stored.publish(repos, "other")
    listed = done(run("artifacts"))
    assert ("plan" in listed, "other" in listed) == (True, True)
    assert "other" not in done(run("artifacts", "cascade", "plan"))
    done(run("artifacts", "cascade", "plan", "--activate", 1))
    assert repos.artifacts.get_record("cascade", "plan").version == 1
    items = parsed(run("artifacts", "cascade", "plan", "--json"))["items"]
    assert [(item["version"], item["active"]) for item in items] == [(1, True), (2, False)]
    active = [record.model_dump(mode="json") for record in repos.artifacts.list_page().items]
    assert parsed(run("artifacts", "--json")) == {"items": active}


def test_all_artifacts_and_datasets_are_listed_however_many_pages_they_take(
    run: Run, repos: Repositories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.store.artifacts.MAX_PAGE_SIZE", 2)
    monkeypatch.setattr("app.store.datasets.MAX_PAGE_SIZE", 2)
    for number in range(5):
        stored.publish(repos, f"plan-{number}")
        stored.put_trace(repos, f"trace-{number}")
    for command in (("artifacts",), ("artifacts", "cascade"), ("dataset", "list")):
        kind = "trace" if "dataset" in command else "plan"
        names = [item["name"] for item in parsed(run(*command, "--json"))["items"]]
        assert names == [f"{kind}-{number}" for number in range(5)]


def test_an_artifact_is_deleted_once_its_name_is_typed(run: Run, repos: Repositories) -> None:
    for seed in (0, 1, 2):
        stored.publish(repos, seed=seed)
    command = ("artifacts", "cascade", "plan")
    refused(run(*command, "--delete-version", 3, "--yes"))
    done(run(*command, "--delete-version", 1, "--yes"))
    printed = parsed(run(*command, "--delete-version", 3, "--even-active", "--yes", "--json"))
    assert printed == {"deleted": {"kind": "cascade", "name": "plan", "version": 3}}
    assert [record.version for record in repos.artifacts.list_versions("cascade", "plan")] == [2]
    refused_last(run(*command, "--delete", typed="other\n"))
    assert repos.artifacts.has_artifact("cascade", "plan")
    assert run(*command, "--delete", typed="plan\n")[0] == 0
    assert not repos.artifacts.has_artifact("cascade", "plan")
    refused(run(*command, "--delete", "--yes"))


def test_a_decision_is_a_table_or_json(run: Run, repos: Repositories) -> None:
    stored.publish(repos, seed=0)
    stored.publish(repos, seed=1)
    shown = done(run("decide", "cascade", "plan", "deadline=7"))
    assert "cascade plan, version 2, in ms" in shown
    assert "K2" in shown
    decision = parsed(run("decide", "cascade", "plan", "deadline=7", "--version", 1, "--json"))
    assert decision["artifact"] == {"kind": "cascade", "name": "plan", "version": 1}
    assert (decision["cascade"], decision["deadline"]) == (["K2"], 7.0)
    unbounded = parsed(run("decide", "cascade", "plan", "--json"))
    assert (unbounded["cascade"], unbounded["deadline"]) == (["K1", "K2"], None)


def test_an_artifact_is_exported_and_imported(run: Run, repos: Repositories, tmp_path: Path) -> None:
    first, _ = stored.publish(repos, seed=0), stored.publish(repos, seed=1)
    file = tmp_path / "plan.artifact"
    printed = done(run("export", "cascade", "plan", "--version", 1, "-o", file))
    assert first.sha256 in printed.replace("\n", "")
    assert file.read_bytes() == repos.artifacts.get_bytes(first)
    imported = parsed(run("import", file, "--json"))
    assert (imported["version"], imported["sha256"], imported["active"]) == (3, first.sha256, True)
    assert "cascade plan, version 4" in done(run("import", file))
    file.write_bytes(file.read_bytes()[:-1])
    refused(run("import", file))
    assert repos.artifacts.get_record("cascade", "plan").version == 4


def test_an_artifact_is_drawn_into_a_file(run: Run, repos: Repositories, tmp_path: Path) -> None:
    stored.publish(repos, seed=0)
    stored.publish(repos, seed=1)
    file = tmp_path / "plan.svg"
    said = "".join(done(run("plot", "cascade", "plan", "-o", file)).split())  # a long path is broken to fit 80 columns
    assert said == f"wrote{file}:cascadeplanversion2"
    assert file.read_bytes().startswith(b"<?xml")
    printed = parsed(run("plot", "cascade", "plan", "--version", 1, "-o", file, "--json"))
    assert printed["artifact"] == {"kind": "cascade", "name": "plan", "version": 1}
    assert (printed["file"], printed["bytes"]) == (str(file), len(file.read_bytes()))


@pytest.mark.parametrize(
    "setting",
    ["PORT=http", "REDIS_URL=http://x", "LOG_LEVEL=loud", "REDIS_URL=redis://localhost:port", "API_KEYS=topsecret"],
)
def test_a_bad_setting_is_refused_by_its_variable(setting: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    name, _, value = setting.partition("=")
    monkeypatch.setenv(f"PARSIMONY_{name}", value)
    for line in (refused(run("dataset", "list")), refused(run("worker"))):
        assert line.startswith(f"PARSIMONY_{name}: ")
        assert "topsecret" not in line


@pytest.mark.slow
def test_the_module_runs_as_a_program_with_an_embedded_store(files: tuple[Path, Path], tmp_path: Path) -> None:
    table, spec = files

    def program(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "app", *map(str, arguments)],
            env=environment(tmp_path / "data"),
            capture_output=True,
            text=True,
            timeout=patient(60),
            check=False,
        )

    added = program("dataset", "add", "trace", table, "--spec", spec, "--json")
    assert added.returncode == 0
    assert len(added.stderr.splitlines()) == 1
    assert json.loads(added.stdout)["rows"] == 60
    assert "trace" in program("dataset", "list").stdout
    missing = program("dataset", "show", "nosuch")
    assert (missing.returncode, missing.stdout, len(missing.stderr.splitlines())) == (1, "", 1)
    assert program("nosuch").returncode == 2


def test_a_store_that_is_made_by_a_command_is_told(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PARSIMONY_REDIS_URL", f"unix://{tmp_path}/none.sock")
    assert refused(run("dataset", "list")).startswith("store unavailable: ")
    monkeypatch.delenv("PARSIMONY_REDIS_URL")
    monkeypatch.setenv("PARSIMONY_DATA_DIR", str(tmp_path / "fresh"))
    first, again = (run("dataset", "list")[2] for _ in range(2))
    assert f"{tmp_path / 'fresh' / 'redis'}; " in first
    assert "PARSIMONY_URL" in first
    assert "PARSIMONY_URL" not in again


@pytest.mark.slow
def test_a_batch_is_assigned_from_a_file_into_a_csv(run: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    table, spec = files
    vectors, chosen = tmp_path / "vectors.npy", tmp_path / "chosen.csv"
    np.save(vectors, trace_embeddings(trace_columns(60)))
    done(run("dataset", "add", "trace", table, "--spec", spec, "--embeddings", vectors))
    built = run("build", "portfolio", "trace", "--dataset", "trace", "--local", "-p", "curve_points=3")
    assert "frugal_mct" in done(built)
    command = ("portfolio", "assign", "trace", vectors)
    assert "min_estimate" in done(run(*command, "--budget", 3, "-o", chosen))
    assignment = parsed(run(*command, "--budget-total", 180, "--objective", "min", "--json"))
    assert assignment["cost"] <= assignment["budget"] == 180
    lines = chosen.read_text().splitlines()
    assert lines[0] == "query,classifier"
    assert len(lines) == 61
    refused(run(*command))
    assert "60 ms" in refused(run(*command, "--budget-total", 1))
    limits = tmp_path / "limits.json"
    limits.write_text('{"classifiers": {"strong": {"at_most": 5}}, "accuracy": {"at_least": 0.1}}')
    limited = parsed(run(*command, "--budget-total", 180, "--constraints", limits, "--json"))
    assert limited["usage"]["strong"] <= 5
    assert limited["prices"][0]["limit"] == "budget"
    assert "classifiers.strong.at_most" in done(run(*command, "--budget-total", 180, "--constraints", limits))
    same = (*command, "--budget-total", 180, "--constraints", limits)
    costs, table, whole = tmp_path / "costs.npy", tmp_path / "queries.parquet", tmp_path / "whole.json"
    np.save(costs, np.tile([1.0, 4.0, 10.0], (60, 1)))
    done(run(*same, "--costs", costs, "-o", tmp_path / "chosen.parquet"))
    assert pa.parquet.read_table(tmp_path / "chosen.parquet").num_rows == 60
    pa.parquet.write_table(pa.table({"embedding": list(np.load(vectors).astype(float))}), table)
    done(run("portfolio", "assign", "trace", table, *same[4:], "-o", whole))
    assert json.loads(whole.read_text()) == limited
    limits.write_text('{"accuracy": {"at_least": 1}}')
    assert "accuracy.at_least" in refused(run(*command, "--constraints", limits))
    limits.write_text("[]")
    assert refused(run(*command, "--constraints", limits)).startswith("constraints: ")
    vectors.write_bytes(b"no array")
    assert refused(run(*command, "--budget", "50%")).startswith("queries: ")
    single = run("decide", "portfolio", "trace", "query=[0.9, 0.9]", "budget=3", "--json")
    assert parsed(single)["classifier"] in ("fast", "middle", "strong")


@pytest.mark.slow
def test_it_ends_when_told_also_as_the_first_process_of_a_container(files: tuple[Path, Path], tmp_path: Path) -> None:
    alone = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    if shutil.which("unshare") is None or subprocess.run([*alone, "true"], capture_output=True).returncode != 0:
        pytest.skip("no process can be the first of a namespace here")
    os.mkfifo(spec := tmp_path / "never.json")
    command = [*alone, sys.executable, "-m", "app", "dataset", "add", "mine", str(files[0]), "--spec", str(spec)]
    writers: list[int] = []
    with subprocess.Popen(command, env=environment(tmp_path / "data")) as outside:
        try:
            wait_for(lambda: hold_open(spec, writers), 60)
            first = int(Path(f"/proc/{outside.pid}/task/{outside.pid}/children").read_text())
            wait_for(lambda: ended_by_signal(outside, first), 60)
            assert outside.returncode == 128 + signal.SIGTERM
        finally:
            outside.kill()
    os.close(writers[0])


def ended_by_signal(outside: subprocess.Popen[bytes], first: int) -> bool:
    """Tell the process to end, and again if it did not: between Python's check for signals and a read that blocks, a
    signal is noted and interrupts nothing."""
    with suppress(ProcessLookupError):
        os.kill(first, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        outside.wait(5)
    return outside.returncode is not None


def hold_open(pipe: Path, writers: list[int]) -> bool:
    """Open the pipe for writing if some process reads it: that one then waits for what is never written."""
    try:
        writers.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
    return bool(writers)


@pytest.mark.slow
def test_a_table_is_tried_in_memory(run: Run, repos: Repositories, tmp_path: Path) -> None:
    table = tmp_path / "March logs.csv"
    table.write_bytes(to_csv({**trace_columns(), "note": ["x"] * 400}))
    status, out, err = run("try", table, "--json")
    assert status == 0, err
    advice = json.loads(out)
    assert advice["dataset"] == "march-logs"
    assert {one["kind"] for one in advice["kinds"]} >= {"cascade", "policy"}
    assert advice["alternatives"]
    assert "note" in err
    assert repos.datasets.list_page(limit=10, cursor=None).total == 0
    refused(run("try", table, "--min-accuracy", "2"))
    assert "conversation" in refused(run("try", table, "--conversation", "{}"))


@pytest.mark.slow
def test_a_log_of_calls_is_imported_and_built(run: Run, repos: Repositories, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    log, trace = tmp_path / "calls.jsonl", tmp_path / "trace.parquet"
    with log.open("w") as file:
        for number in range(400):
            model, hard = ("small", "large")[rng.random() < 0.5], rng.random() < 0.5
            right = rng.random() < (0.95 if model == "large" or not hard else 0.2)
            prompt = f"{'Prove' if hard else 'Name'} theorem {number}"
            cost = 1.0 if model == "small" else 9.0
            file.write(json.dumps({"model": model, "prompt": prompt, "correct": right, "cost": cost}) + "\n")
    report = parsed(run("import-logs", log, "--name", "calls", "-o", trace, "--json"))
    assert (report["calls"], report["rows"], sum(one["calls"] for one in report["models"])) == (400, 400, 400)
    shown = parsed(run("dataset", "show", "calls", "--json"))
    assert (shown["complete_rows"], shown["embedding_dimensions"]) == (0, 258)
    assert shown["warnings"][-1]["code"] == "partial-calls"
    done(run("build", "portfolio", "calls", "--dataset", "calls", "--local"))
    costs = [
        parsed(run("decide", "portfolio", "calls", f"text={word} theorem 7", "budget=5", "--json"))["cost"]
        for word in ("Name", "Prove")
    ]
    assert costs == [1.0, 9.0]
    assert "30 rows" in refused(run("build", "cascade", "calls", "--dataset", "calls", "--local"))
    refused(run("import-logs", log, "--pointer", "prompt=/x"))
    assert run("import-logs", log, "-o", trace)[0] == 0
    outcomes = tmp_path / "feedback.jsonl"
    with_ids = [{"id": str(k), **json.loads(line)} for k, line in enumerate(log.read_text().splitlines())]
    outcomes.write_text(
        "\n".join(json.dumps({"request_id": one["id"], "correct": one.pop("correct")}) for one in with_ids)
    )
    log.write_text("\n".join(map(json.dumps, with_ids)))
    tried = run("try", log, "--feedback", outcomes, "--conversation", '{"window_tokens": 500}')
    assert tried[0] == 0, tried
    assert "--feedback" in tried[1]
    assert "--conversation" in tried[1]
    assert parsed(run("try", log, "--feedback", outcomes, "--json"))["recommended"]
