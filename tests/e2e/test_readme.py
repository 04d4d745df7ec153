"""README and docs tell the truth: commands work, lists are complete, paths exist, and the demo keeps its promise."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.patience import patient
from tests.support.servers import Server, environment, running_server, wait_for

pytestmark = pytest.mark.docs
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text()
HOW_TO = [
    "run-items",
    "batches",
    "chat",
    "endpoints",
    "failures",
    "budgets",
    "spend",
    "logs",
    "recordings",
    "compare-versions",
    "rollouts",
    "automate-rebuilds",
]
CHAPTERS = [
    "llm-bill",
    "deadline",
    *(f"how-to/{name}" for name in HOW_TO),
    "how-to/traces",
    "how-to/route-items",
]
CHAPTERS += [
    "how-to/buy-answers",
    "how-to/python",
    "how-to/scikit-learn",
    "how-to/record-calls",
    "how-to/constrain-batches",
    "how-to/pace-streams",
    "features",
    "stages",
    "savings",
    "which-method",
    "feedback",
    "console",
]
"""In the order in which they are run: later ones use what earlier ones have made, and say so."""
BLOCKS = {
    name: re.findall(r"```bash\n(.*?)```", text, re.S)
    for name, text in {"README": README, **{name: (DOCS / f"{name}.md").read_text() for name in CHAPTERS}}.items()
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tour")
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


@pytest.fixture(scope="module")
def demo(folder: Path) -> Any:
    import json

    done = _shell("set -e\n.venv/bin/parsimony demo --json", folder, timeout=patient(400))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def tour(folder: Path, demo: Any) -> Iterator[Server]:
    with running_server(folder / "data", "--demo") as server:
        wait_for(lambda: server.client.get("/v1/endpoints").json()["total"] >= 8, 180, "no classifier is registered")
        yield server


def _shell(script: str, folder: Path, timeout: float = patient(60)) -> subprocess.CompletedProcess[str]:
    how: dict[str, Any] = {"capture_output": True, "text": True, "timeout": timeout, "check": False}
    return subprocess.run(["bash", "-c", script], cwd=folder, env=environment(folder / "data"), **how)


@pytest.mark.slow
def test_most_of_the_demos_artifacts_save_significantly_and_keep_it_on_unseen_rows(demo: Any) -> None:
    """Times are measured, and unseen images are copies of 350; simulated worlds are the same on each machine."""
    verdicts = {(each["kind"], each["name"]): each["savings"]["verdict"] for each in demo}
    assert len(verdicts) == 8
    assert {kind for kind, _ in verdicts} == {"cascade", "index", "pipeline", "policy", "portfolio"}
    assert sum(verdict == "significant" for verdict in verdicts.values()) >= 6, verdicts
    for each in demo:
        promised, unseen = each["savings"], each["unseen"]
        tolerance = 0.06 if each["name"] == "digits" else 0.025
        assert unseen["accuracy"] * unseen["coverage"] == pytest.approx(promised["accuracy"], abs=tolerance), each
        assert unseen["cost"] == pytest.approx(promised["cost"], rel=0.35), each


@pytest.mark.slow
def test_every_command_of_the_chapters_works(tour: Server, folder: Path) -> None:
    for chapter, blocks in BLOCKS.items():
        for block in blocks:
            script = block.replace("http://127.0.0.1:8000", tour.url)
            done = _shell(f"set -e -o pipefail\n{script}", folder)
            assert done.returncode == 0, (chapter, block, done.stdout, done.stderr)
            wrong = '"status":4' in done.stdout or '"status":5' in done.stdout
            assert wrong == ("deadline=0.001" in block), (chapter, block, done.stdout)
    versions = tour.client.get("/v1/artifacts/cascade/parity/versions").json()["items"]
    assert [record["version"] for record in versions if record["active"]] == [5] == [len(versions)]
    assert versions[2]["sha256"] == versions[0]["sha256"]
    again = _shell(".venv/bin/parsimony demo --if-missing", folder, timeout=patient(20))
    assert (again.returncode, "are there" in again.stderr) == (0, True)


def test_no_file_names_a_machine() -> None:
    """Paths of the machine it was written on have no place in a repository."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    home = "/" + "root/"
    for name in listed:
        if not name.endswith((".lock", ".svg")) and os.path.exists(ROOT / name):
            assert home not in (ROOT / name).read_text(errors="replace"), name
