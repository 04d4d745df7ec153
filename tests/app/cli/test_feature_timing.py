"""Timing a user's own feature functions."""

import json
from pathlib import Path

import pytest

from app.cli.feature_timing import cost_of, measure
from models import InvalidRequest
from solvers import silent
from tests.app.cli.test_cli import Run, parsed, run

__all__ = ["run"]
FEATURES = """
import time

def item(*size):
    return size

def constant(item):
    time.sleep(0.001)

def failing(item):
    return 1 / 0

def linear(item):
    time.sleep(0.0002 * item[0])
"""


@pytest.fixture
def _functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_features.py").write_text(FEATURES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("_functions")
def test_every_function_is_timed_at_every_size() -> None:
    timings = measure(["my_features:constant", "my_features:linear"], "my_features:item", ["5", "20"], 3, 1, silent)
    assert {name: [row[0] for row in rows] for name, rows in timings.items()} == {
        "constant": [5, 5, 5, 20, 20, 20],
        "linear": [5, 5, 5, 20, 20, 20],
    }
    assert all(row[1] >= 1.0 for row in timings["constant"])
    assert min(row[1] for row in timings["linear"] if row[0] == 20) >= 4.0
    _, function, _ = cost_of(timings["linear"], 1, 1.0)
    assert function([[20.0]])[0] >= max(row[1] for row in timings["linear"])


@pytest.mark.usefixtures("_functions")
def test_sizes_of_two_dimensions_are_two_arguments() -> None:
    assert measure(["my_features:constant"], "my_features:item", ["4x3"], 1, 0, silent)["constant"][0][:2] == [4, 3]


@pytest.mark.usefixtures("_functions")
@pytest.mark.parametrize(
    ("feature", "size", "reason"),
    [
        ("constant", "5", "must be module:function"),
        ("my_features:nosuch", "5", "cannot be imported"),
        ("nosuch:constant", "5", "cannot be imported"),
        ("my_features:time", "5", "is no function"),
        ("my_features:constant", "0", "at least 1"),
        ("my_features:constant", "x", "at least 1"),
        ("my_features:constant", "inf", "at least 1"),
    ],
)
def test_what_cannot_be_timed_is_refused(feature: str, size: str, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        measure([feature], "my_features:item", [size], 1, 0, silent)


@pytest.mark.usefixtures("_functions")
def test_the_command_writes_costs_that_a_spec_takes(run: Run, tmp_path: Path) -> None:
    command = [
        "index",
        "measure",
        "my_features:constant",
        "--item",
        "my_features:item",
        "--sizes",
        "4,8",
        "--degree",
        "1",
    ]
    printed = parsed(run(*command, "--repeats", "2", "-o", tmp_path / "costs.json", "--json"))
    assert json.loads((tmp_path / "costs.json").read_text()) == printed
    assert set(printed["constant"]) == {"timings", "degree", "quantile"}
    status, out, _ = run(*command, "--repeats", "2")
    assert status == 0
    assert "constant" in out


@pytest.mark.usefixtures("_functions")
def test_too_few_sizes_are_refused_before_anything_is_timed() -> None:
    with pytest.raises(InvalidRequest, match="are 2, degree 2 needs 3"):
        measure(["my_features:linear"], "my_features:item", ["5", "20"], 1, 2, silent)


@pytest.mark.usefixtures("_functions")
def test_a_function_that_fails_is_named_with_the_size() -> None:
    with pytest.raises(InvalidRequest, match="failing failed at size 5: ZeroDivisionError"):
        measure(["my_features:failing"], "my_features:item", ["5"], 1, 0, silent)
