"""The notebooks run from top to bottom, and what they print is true."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.patience import patient
from tests.support.servers import Server, running_server
from tools.run_examples import EXAMPLES, OUTPUTS, write_page

pytestmark = [pytest.mark.docs, pytest.mark.slow]


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_stored_outputs_are_of_these_cells(name: str) -> None:
    """If this fails, run ``python tools/run_examples.py`` while a server runs."""
    page = write_page(name)
    assert page.count("```text") >= 2
    assert all((OUTPUTS / figure).exists() for figure in re.findall(r"!\[\]\((.*?)\)", page))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("examples")) as server:
        server.wait_for_worker()
        yield server


def printed(name: str, folder: Path, server: Server | None = None) -> str:
    """Run a notebook as a script, and return what it prints."""
    variables = {**os.environ, "MPLBACKEND": "Agg", "XDG_STATE_HOME": str(folder)}
    if server is not None:
        variables["PARSIMONY_URL"] = server.url
    command = [sys.executable, "-W", "ignore", str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=patient(300))
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(line: str, text: str) -> list[float]:
    """Return the numbers of the line that starts with ``line``."""
    (found,) = [each for each in text.splitlines() if each.startswith(line)]
    return [float(one) for one in re.findall(r"\d+\.?\d*", found.removeprefix(line))]


def test_the_promise_from_logs_holds_next_month(server: Server, tmp_path: Path) -> None:
    text = printed("llm_logs", tmp_path, server)
    (promised, cost, _, _), (accuracy, spent, _, _) = numbers("promised:", text), numbers("next month:", text)
    assert abs(accuracy - promised) < 4
    assert abs(spent - cost) < 0.15 * cost
    today, bill, _, _ = numbers("as logged:", text)
    assert spent < 0.8 * bill
    assert accuracy > today - 4


def test_the_policy_is_cheaper_than_every_fixed_set_of_tests(tmp_path: Path) -> None:
    text = printed("triage", tmp_path)
    (*_, total) = numbers("policy:", text)
    fixed = [float(one) for one in re.findall(r"(\d+\.\d) EUR in total", text)]
    assert len(fixed) == 5
    assert total < min(fixed)
    (*_, apart), (*_, together) = (numbers(f"{name}:", text) for name in ("each draws blood", "one draw"))
    assert together < apart


def test_a_recorded_cascade_answers_images(server: Server, tmp_path: Path) -> None:
    text = printed("deadline", tmp_path, server)
    assert text.startswith("800 rows")
    (always,) = numbers("always the remote model:", text)
    accuracy = float(re.search(r"\n([\d.]+)% correct, ", text)[1])  # type: ignore[index]
    assert accuracy > always - 2.5
    by_logistic = int(re.search(r"'logistic': (\d+)", text)[1])  # type: ignore[index]
    assert by_logistic > 0.4 * 497
