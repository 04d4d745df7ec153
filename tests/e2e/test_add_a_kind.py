"""Whoever follows ``docs/add-a-kind.md`` has a sixth kind: its files, written into a copy, make one that works."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e import visits
from tests.support.model_process import ModelServer
from tests.support.samples import trace_upload
from tests.support.servers import Server, code_of, environment, running_server, wait_for
from tests.support.trained import trained

ROOT = Path(__file__).parents[2]
CHAPTER = (ROOT / "docs" / "add-a-kind.md").read_text()
BLOCKS = [block.groups() for block in re.finditer(r'```(\w+) title="([^"]+)"\n(.*?)```', CHAPTER, re.S)]
FILES = {name: text for kind, name, text in BLOCKS if kind != "diff"}
CHANGES = {name: text for kind, name, text in BLOCKS if kind == "diff"}


@dataclass
class Copy:
    """A copy of the repository with the new kind in it, and the service that runs from it."""

    root: Path
    server: Server

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        env = environment(self.server.data_dir) | code_of(self.root)
        done = subprocess.run([sys.executable, *arguments], cwd=self.root, env=env, capture_output=True, text=True)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done


def copied(root: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    for name in listed.stdout.split("\n"):
        if name and (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name, text in CHANGES.items():
        (root / name).write_text(changed((root / name).read_text(), text))


def changed(text: str, change: str) -> str:
    """Make a change as the chapter writes it: lines that stand exactly once, with some removed and some added."""
    for part in change.split("@@\n"):
        lines = part.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] != "+")
        after = "".join(line[1:] for line in lines if line[0] != "-")
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    folder = tmp_path_factory.mktemp("copy")
    copied(folder / "repository")
    with running_server(folder / "data", root=folder / "repository", endpoint_hosts="127.0.0.1") as server:
        made = Copy(folder / "repository", server)
        uploaded = server.client.put("/v1/datasets/trace", files=trace_upload())
        assert uploaded.status_code == 201, uploaded.text
        made.run("-m", "app", "build", "single", "plan", "--dataset", "trace")
        yield made


def test_the_document_has_a_file_or_a_change_for_each_step() -> None:
    assert {"models/single.py", "solvers/single/__init__.py"} == FILES.keys()
    kept = {"solvers/__init__.py", "pyproject.toml", "app/console/static/kinds.js", "tests/support/kinds.py"}
    assert kept == CHANGES.keys()


@pytest.mark.slow
def test_it_is_in_the_house_style_and_keeps_the_contracts_of_imports(copy: Copy) -> None:
    copy.run("-m", "ruff", "check", "--no-cache", ".")
    copy.run("-m", "ruff", "format", "--no-cache", "--check", ".")
    said = copy.run(
        "-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    )
    assert "0 broken" in said.stdout


@pytest.mark.slow
def test_it_decides_over_http_in_the_command_line_and_beside_the_others(copy: Copy) -> None:
    client = copy.server.client
    wait_for(lambda: client.get("/v1/singles/plan/decision").status_code == 200, 10)
    reply = client.get("/v1/singles/plan/decision", params={"min_accuracy": 0.6}).json()
    best = client.get("/v1/singles/plan/decision", params={"min_accuracy": 1.0})
    asked = client.get("/v1/decisions", params={"name": "plan"}).json()["items"]
    document = client.get("/openapi.json").json()
    outcome = {"items": [{"decision": reply["decision"], "correct": True}]}
    counted = client.post("/v1/feedback", json=outcome).json()["accepted"]
    printed = json.loads(copy.run("-m", "app", "decide", "single", "plan", "min_accuracy=0.6", "--json").stdout)
    assert printed["classifier"] == reply["classifier"]
    assert reply["accuracy"] >= 0.6
    assert (best.status_code, best.json()["type"]) == (409, "urn:parsimony:infeasible")
    assert [one["artifact"]["kind"] for one in asked] == ["single"]
    assert "SingleOptions" in document["components"]["schemas"]
    assert "/v1/singles/{name}/decision" in document["paths"]
    assert counted == 1


@pytest.mark.slow
def test_it_runs_items_and_answers_chats(copy: Copy, models: ModelServer) -> None:
    client = copy.server.client
    for name in ("fast", "middle", "strong"):
        assert client.put(f"/v1/endpoints/{name}", json=models.chat_endpoint("all")).status_code == 201
    pixels = json.dumps(trained().images[0].tolist())
    run = client.post("/v1/singles/plan/runs", json={"item": pixels, "min_accuracy": 0.6}).json()
    assert [step["classifier"] for step in run["steps"]] == [
        step["classifier"] for step in run["steps"] if step["accepted"]
    ]
    body = {"model": "single/plan", "messages": [{"role": "user", "content": pixels}]}
    chat = client.post("/v1/chat/completions", json=body).json()
    assert chat["choices"][0]["message"]["content"] == run["label"]
    assert "single/plan" in [one["id"] for one in client.get("/v1/models").json()["data"]]
    both = {"items": [{"item": pixels, "id": "a"}, {"item": pixels, "id": "b"}]}
    assert [one["label"] for one in client.post("/v1/singles/plan/runs", json=both).json()["items"]] == [
        run["label"]
    ] * 2
    models.switch(all="error")
    assert client.post("/v1/singles/plan/runs", json={"item": pixels}).status_code == 502
    models.switch()


@pytest.mark.slow
def test_it_evaluates_items_and_has_a_curve(copy: Copy) -> None:
    client = copy.server.client
    items = [{"values": {"fast": "cat", "middle": "cat", "strong": truth}, "truth": "cat"} for truth in ("cat", "dog")]
    reply = client.post("/v1/singles/plan/evaluate", json={"min_accuracy": 0.95, "items": items}).json()
    assert [item["path"] for item in reply["items"]] == [["strong"]] * 2
    assert reply["summary"]["accuracy"] == 0.5
    curve = client.get("/v1/singles/plan/curve").json()
    accuracies = [point["expected"]["accuracy"] for point in curve["points"]]
    assert accuracies == sorted(accuracies)
    assert curve["points"][-1]["decision"]["classifier"] == "strong"


@pytest.mark.slow
def test_it_has_a_picture(copy: Copy) -> None:
    copy.run("-m", "app", "plot", "single", "plan", "-o", "single.png")
    assert (copy.root / "single.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_contract_tests_run_over_it(copy: Copy) -> None:
    tests = ["tests/solvers/test_contract.py", "tests/solvers/test_estimates.py"]
    done = copy.run("-m", "pytest", "-q", "-k", "single", *tests)
    assert re.search(r"\b[89] passed|\b1\d passed", done.stdout), done.stdout


@pytest.mark.slow
@visits.MARKS[0]
@visits.MARKS[1]
def test_it_has_a_page_and_is_in_the_overview(copy: Copy) -> None:
    with visits.browser() as browser, visits.visit(browser, copy.server.url) as visit:
        for path in ("/", "/artifacts/single/plan"):
            visit.page.goto(path)
            visit.page.wait_for_load_state("networkidle")
            assert (visit.outside, visit.complaints) == ([], []), path
            assert "plan" in visit.page.inner_text("main")
        points = copy.server.client.get("/v1/singles/plan/curve").json()["points"]
        assert points[-1]["decision"]["classifier"] in visit.page.inner_text("#what")
        assert visit.page.get_by_role("slider", name="Operating point").is_visible()
