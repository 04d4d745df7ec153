"""Timing a user's own feature functions."""

import json
from pathlib import Path

import pytest

from app.cli.feature_timing import fit_cost_spec, measure
from models import InvalidRequest
from solvers import no_progress
from tests.app.cli.test_cli import Run, parsed, run

__all__ = ["run"]
FEATURES = """
import time
def item(*size): return size
def constant(item): time.sleep(0.001)
def failing(item): return 1 / 0
def linear(item): time.sleep(0.0002 * item[0])
"""


@pytest.fixture(autouse=True)
def _functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_features.py").write_text(FEATURES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_every_function_is_timed_at_every_size() -> None:
    timings = measure(
        ["my_features:constant", "my_features:linear"], "my_features:item", ["5", "20"], 3, 1, no_progress
    )
    sizes = {name: [row[0] for row in rows] for name, rows in timings.items()}
    assert sizes["constant"] == sizes["linear"] == [5, 5, 5, 20, 20, 20]
    assert all(row[1] >= 1.0 for row in timings["constant"])
    assert min(row[1] for row in timings["linear"] if row[0] == 20) >= 4.0
    _, function, _ = fit_cost_spec(timings["linear"], 1, 1.0)
    assert function([[20.0]])[0] >= max(row[1] for row in timings["linear"])
    assert measure(["my_features:constant"], "my_features:item", ["4x3"], 1, 0, no_progress)["constant"][0][:2] == [
        4,
        3,
    ]


@pytest.mark.parametrize(
    ("feature", "size", "degree", "reason"),
    [
        ("constant", "5", 0, "constant"),
        ("my_features:nosuch", "5", 0, "my_features:nosuch"),
        ("nosuch:constant", "5", 0, "nosuch:constant"),
        ("my_features:time", "5", 0, "my_features:time"),
        *(("my_features:constant", size, 0, "at least 1") for size in ("0", "x", "inf")),
        ("my_features:linear", "5", 1, "degree 1 requires 2"),
        ("my_features:failing", "5", 0, "failing .* 5: ZeroDivisionError"),
    ],
)
def test_what_cannot_be_timed_is_refused(feature: str, size: str, degree: int, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        measure([feature], "my_features:item", [size], 1, degree, no_progress)


def test_the_command_writes_costs_that_a_spec_takes(run: Run, tmp_path: Path) -> None:
    options = "--item my_features:item --sizes 4,8 --degree 1 --repeats 2"
    command = ["index", "measure", "my_features:constant", *options.split()]
    printed = parsed(run(*command, "-o", tmp_path / "costs.json", "--json"))
    assert json.loads((tmp_path / "costs.json").read_text()) == printed
    assert set(printed["constant"]) == {"timings", "degree", "quantile"}
    status, out, _ = run(*command)
    assert (status, "constant" in out) == (0, True)
