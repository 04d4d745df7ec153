"""Whoever follows ``docs/add-a-solver.md`` has a sixth subject: its files, written into a copy, make one that works."""

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
from tests.support.samples import trace_upload
from tests.support.servers import Server, code_of, environment, running_server, wait_for

ROOT = Path(__file__).parents[2]
STEPS = dict(re.findall(r'```\w+ title="([^"]+)"\n(.*?)```', (ROOT / "docs" / "add-a-solver.md").read_text(), re.S))
LINE = "solvers/__init__.py: SOLVERS"
PLAIN = ("app/pictures/single.py", "app/console/templates/single.html", "app/console/static/pages/single.js")
"""What a subject can do without."""
SAMPLE = """
from models.single import SingleOptions, SingleQuery
from tests.support import subjects

subjects.SAMPLES["single"] = subjects.Sample(
    "trace",
    SingleOptions(),
    (SingleQuery(), SingleQuery(min_accuracy=0.5)),
    (SingleQuery(min_accuracy=1.0),),
    judged_rows=400,
    inputs={"min_accuracy": 0.5},
)
"""
"""Step 7: what the contract tests ask."""


@dataclass
class Copy:
    """A copy of the repository with the new subject in it, and the service that runs from it."""

    root: Path
    server: Server

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run Python with words in the copy, on the service's store."""
        env = environment(self.server.data_dir) | code_of(self.root)
        done = subprocess.run([sys.executable, *arguments], cwd=self.root, env=env, capture_output=True, text=True)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done


def copied(root: Path) -> None:
    """Copy what git knows, and follow the steps."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    for name in listed.stdout.split("\n"):
        if name and (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    for name, text in STEPS.items():
        if name != LINE:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
    registry = root / "solvers" / "__init__.py"
    text = registry.read_text().replace("from solvers import cascade,", "from solvers import single, cascade,")
    registry.write_text(text.replace('    "policy": policy.solver,\n', f'    "policy": policy.solver,\n{STEPS[LINE]}'))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copy]:
    """Serve from the copy, with one ``single`` called ``plan`` built in it."""
    folder = tmp_path_factory.mktemp("copy")
    copied(folder / "repository")
    with running_server(folder / "data", root=folder / "repository") as server:
        made = Copy(folder / "repository", server)
        assert server.client.put("/v1/datasets/trace", files=trace_upload()).status_code == 201
        made.run("-m", "app", "build", "single", "plan", "--dataset", "trace")
        yield made


def test_the_document_has_a_file_for_each_step() -> None:
    assert {*PLAIN, LINE, "models/single.py", "solvers/single/__init__.py", "app/routes/single.py"} == STEPS.keys()


@pytest.mark.slow
def test_it_decides_over_http_in_the_command_line_and_beside_the_others(copy: Copy) -> None:
    client = copy.server.client
    wait_for(lambda: client.get("/v1/singles/plan/decision").status_code == 200, 10)
    reply = client.get("/v1/singles/plan/decision", params={"min_accuracy": 0.6}).json()
    best = client.get("/v1/singles/plan/decision", params={"min_accuracy": 1.0})
    asked = client.get("/v1/decisions", params={"name": "plan"}).json()["items"]
    document = client.get("/openapi.json").json()
    outcome = {"items": [{"decision": reply["decision"], "correct": True}]}
    counted = client.post("/v1/feedback", json=outcome).json()["counted"]
    printed = json.loads(copy.run("-m", "app", "decide", "single", "plan", "min_accuracy=0.6", "--json").stdout)
    assert printed["classifier"] == reply["classifier"]
    assert reply["accuracy"] >= 0.6
    assert (best.status_code, best.json()["type"]) == (409, "urn:parsimony:infeasible")
    assert [one["artifact"]["solver"] for one in asked] == ["single"]
    assert "SingleOptions" in document["components"]["schemas"]
    assert "/v1/singles/{name}/decision" in document["paths"]
    assert counted == 1


@pytest.mark.slow
def test_it_has_a_picture_and_says_so_where_it_has_none(copy: Copy) -> None:
    copy.run("-m", "app", "plot", "single", "plan", "-o", "single.png")
    assert (copy.root / "single.png").read_bytes().startswith(b"\x89PNG")
    (copy.root / PLAIN[0]).rename(copy.root / "kept.py")
    done = copy.run("-m", "app", "plot", "single", "plan", "-o", "none.png", check=False)
    (copy.root / "kept.py").rename(copy.root / PLAIN[0])
    assert (done.returncode, done.stderr.strip()) == (1, "parsimony: there is no picture of a single")


@pytest.mark.slow
def test_the_contract_tests_run_over_it(copy: Copy) -> None:
    (copy.root / "tests" / "support" / "with_single.py").write_text(SAMPLE)
    tests = ["tests/solvers/test_contract.py", "tests/solvers/test_estimates.py"]
    done = copy.run("-m", "pytest", "-q", "-p", "tests.support.with_single", "-k", "single", *tests)
    assert re.search(r"\b[89] passed|\b1\d passed", done.stdout), done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("own", [True, False], ids=["its own page", "the plain page"])
@visits.MARKS[0]
@visits.MARKS[1]
def test_it_has_a_page_and_stands_in_the_overview(copy: Copy, own: bool) -> None:
    page = copy.root / PLAIN[1]
    if not own:
        page.rename(copy.root / "kept.html")
    try:
        with visits.browser() as browser, visits.visit(browser, copy.server.url) as visit:
            for path in ("/", "/compare", "/artifacts/single/plan"):
                visit.page.goto(path)
                visit.page.wait_for_load_state("networkidle")
                assert (visit.outside, visit.complaints) == ([], []), path
            text = visit.page.inner_text("main")
    finally:
        if not own:
            (copy.root / "kept.html").rename(page)
    assert "Versions" in text
    assert own == ("Which classifier, if one is to answer for all?" in text)
    assert own == ("right," in text)
