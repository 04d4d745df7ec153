"""Assignments of files: as good as those in memory, within the budget, and refused as a whole."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from app.sources import assign_files as files
from app.sources.assign_files import assign_files
from models.errors import Infeasible, InvalidRequest
from models.portfolio import AssignmentOptions, BatchBudget
from solvers.base import no_progress
from tests.solvers.test_running import fitted_portfolio

ROWS = 500


def write(folder: Path, plan: Any, parts: int = 2) -> Any:
    vectors = np.random.default_rng(4).normal(size=(ROWS, plan.dimensions))
    for number, part in enumerate(np.array_split(vectors, parts)):
        pa.parquet.write_table(pa.table({"embedding": list(part)}), folder / f"{number}.parquet")
    return vectors


@pytest.mark.slow
def test_files_are_assigned_as_well_as_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BATCH_ROWS", 77)
    plan = fitted_portfolio()
    queries, output = tmp_path / "queries", tmp_path / "out.parquet"
    queries.mkdir()
    vectors = write(queries, plan)
    budget = BatchBudget(budget="60%")
    done = assign_files(plan, {}, f"file://{queries}", budget, output, no_progress)
    known = plan.assign(
        plan.estimate(vectors), AssignmentOptions(budget="60%"), None, None, plan.predict_costs(vectors)
    )
    table = pa.parquet.read_table(output)
    assert table.column("query").to_pylist() == list(range(1, ROWS + 1))
    named = table.column("classifier").to_pylist()
    assert done.usage == {name: named.count(name) for name in plan.classifiers}
    assert done.cost <= done.budget == pytest.approx(known.budget)
    assert done.estimated_accuracy == pytest.approx(known.estimated_accuracy, abs=0.005)
    assert done.gap < 1 / ROWS
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.parquet", "queries"]


def test_what_cannot_be_assigned_leaves_no_file(tmp_path: Path) -> None:
    plan = fitted_portfolio()
    queries, output = tmp_path / "queries", tmp_path / "out.parquet"
    queries.mkdir()
    write(queries, plan)
    with pytest.raises(Infeasible):
        assign_files(plan, {}, f"file://{queries}", BatchBudget(budget=1e-9), output, no_progress)
    with pytest.raises(InvalidRequest):
        assign_files(plan, {}, f"file://{queries}", BatchBudget(), output, no_progress)
    pa.parquet.write_table(pa.table({"text": ["a", "b"]}), queries / "9.parquet")
    with pytest.raises(InvalidRequest):
        assign_files(plan, {}, f"file://{queries}", BatchBudget(budget="60%"), output, no_progress)
    assert [path.name for path in tmp_path.iterdir()] == ["queries"]
