"""The reference of the site: generated tables are complete, and the hand-written table of limits is correct."""

import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.cli.main import COMMANDS
from app.main import create_api
from app.observability.metrics import Metrics
from app.routes.kinds import make_kind_routes
from app.settings import PREFIX, Settings
from solvers import KINDS
from tests.support.patience import patient

ROOT = Path(__file__).parents[2]
TABLES: dict[str, Callable[[], Iterator[str]]] = runpy.run_path(str(ROOT / "tools" / "reference_pages.py"))["TABLES"]


def operations() -> set[str]:
    document = create_api(Settings(), Metrics(), [make_kind_routes(kind) for kind in KINDS.values()]).openapi()
    return {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}


def metrics() -> set[str]:
    return set(re.findall(r"^# HELP (\S+)", Metrics().render_text().decode(), re.M))


def settings() -> set[str]:
    return {PREFIX + name.upper() for name in Settings.model_fields}


def rows(table: str) -> dict[str, list[str]]:
    lines = [line.strip("| ").split(" | ") for line in TABLES[table]() if line.startswith("| `")]
    return {first.strip("`"): cells for first, *cells in lines}


@pytest.mark.slow
def test_every_operation_has_a_summary() -> None:
    listed = rows("operations")
    assert listed.keys() == operations()
    assert all(summary for (summary,) in listed.values())


def test_every_setting_has_its_type_and_default() -> None:
    listed = rows("settings")
    assert listed.keys() == settings()
    assert listed["PARSIMONY_PORT"][:2] == ["integer, ≥ 0, ≤ 65535", "`8000`"]
    assert listed["PARSIMONY_LOG_FORMAT"][:2] == ["`text`, `json`", "`text`"]
    assert all(cells[2] for cells in listed.values())


def test_every_metric_has_its_type_and_labels() -> None:
    listed = rows("metrics")
    assert listed.keys() == metrics()
    assert listed["parsimony_decisions_total"][:2] == ["counter", "kind, name, outcome"]
    assert all(cells[2] for cells in listed.values())


def test_every_command_has_its_arguments_and_options() -> None:
    lines = list(TABLES["commands"]())
    headings = {line.removeprefix("### ").split()[0] for line in lines if line.startswith("### ")}
    assert headings == COMMANDS.keys()
    build = lines[lines.index("### build\n") : lines.index("### builds list\n")]
    cells = [line.split(" | ")[:3] for line in build if line.startswith("| `")]
    assert cells[0] == ["| `KIND`", "text", "required"]
    assert ["| `--seed`", "integer", "`0`"] in cells
    assert ["| `--param`, `-p`", "text, repeatable", ""] in cells
    assert not [line for line in lines if line.startswith("| `") and line.endswith("|  |")]


@pytest.mark.slow
def test_the_site_has_the_generated_tables(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=patient(120))
    expected = {"api": operations(), "metrics": metrics(), "settings": settings(), "cli": {"parsimony build KIND NAME"}}
    for page, names in expected.items():
        text = (tmp_path / "reference" / f"{page}.html").read_text()
        assert not [name for name in names if name not in text], page
        assert "generated:" not in text


def test_the_page_says_which_limits_each_kind_supports() -> None:
    page = (ROOT / "docs" / "reference" / "api.md").read_text()
    (head,) = re.findall(r"^\| limit \| meaning \| (.*) \|$", page, re.M)
    rows = dict(re.findall(r"^\| `(\w+)` \| (?:[^|]*) \|((?: (?:yes)? ?\|){5})$", page, re.M))
    for place, name in enumerate(head.split(" | ")):
        said = {limit for limit, cells in rows.items() if cells.split("|")[place].strip() == "yes"}
        fields = KINDS[name].query.model_fields.keys()
        assert said == {limit for limit in rows if limit in fields}
