"""Assignment of Parquet files that memory need not hold: time, memory, and the gap to the exact programme's result.

A portfolio of seven classifiers is built from 10,000 rows. Queries are made from a seed, with embeddings of 16 numbers.
The batch is assigned from file to file; a million of its queries are also assigned by the exact solver in memory.
"""

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from rich.console import Console

from app.sources.assign_files import assign_files
from models import Trace, TraceSpec
from models.portfolio import AssignmentOptions, BatchBudget
from solvers import BuildContext, portfolio
from solvers.base import make_generator, no_progress
from solvers.portfolio import PortfolioPlan

CLASSIFIERS, DIMENSIONS, ROWS, FILE_ROWS, COMPARED = 7, 16, 10_000, 500_000, 1_000_000
BUDGET = BatchBudget(budget="30%")


def main() -> None:
    parser = argparse.ArgumentParser(prog="parsimony bench assign", description=__doc__)
    parser.add_argument("--queries", type=int, default=2_000_000, help="queries of the batch")
    count = parser.parse_args().queries
    plan, console = _build(), Console(width=120)
    with tempfile.TemporaryDirectory(prefix="parsimony-bench-") as scratch:
        folder = Path(scratch) / "queries"
        folder.mkdir()
        for number, first in enumerate(range(0, count, FILE_ROWS)):
            _write(folder / f"{number:05}.parquet", _draw(min(FILE_ROWS, count - first), number + 1))
        done = assign_files(plan, {}, f"file://{folder}", BUDGET, Path(scratch) / "out.parquet", no_progress)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    seconds = f"{done.estimate_s:.0f} s of estimates, {done.solve_s:.0f} s of the programme"
    console.print(f"{count:,} queries: {seconds}, {peak} MB")
    console.print(
        f"cost {done.cost:.6f} of {done.budget:.6f}; accuracy {done.estimated_accuracy:.5f}; gap {done.gap:.1e}"
    )
    _compare(console, plan)


def _compare(console: Console, plan: PortfolioPlan) -> None:
    """Assign a million queries from file to file, and by the exact solver in memory."""
    queries = _draw(COMPARED, 1)
    with tempfile.TemporaryDirectory(prefix="parsimony-bench-") as scratch:
        _write(Path(scratch) / "queries.parquet", queries)
        output = Path(scratch) / "out.parquet"
        large = assign_files(plan, {}, f"file://{scratch}/queries.parquet", BUDGET, output, no_progress)
    started = time.monotonic()
    estimates, expected = plan.estimate(queries), plan.predict_costs(queries)
    exact = plan.assign(estimates, AssignmentOptions(budget=BUDGET.budget), None, None, expected)
    seconds = (time.monotonic() - started, large.estimate_s + large.solve_s)
    for name, each, taken in zip(("exact", "from files"), (exact, large), seconds, strict=True):
        figures = f"accuracy {each.estimated_accuracy:.6f}, cost {each.cost:.4f}, gap {each.gap:.1e}, {taken:.1f} s"
        console.print(f"{COMPARED:,} queries, {name}: {figures}")


def _write(path: Path, queries: Any) -> None:
    columns = pa.FixedSizeListArray.from_arrays(pa.array(queries.reshape(-1)), DIMENSIONS)
    pa.parquet.write_table(pa.table({"embedding": columns}), path, row_group_size=100_000)


def _draw(count: int, seed: int) -> Any:
    return np.random.default_rng(seed).normal(size=(count, DIMENSIONS)).astype(np.float32)


def _build() -> PortfolioPlan:
    """Build a portfolio of classifiers, each of which knows a region best; the more expensive ones know more."""
    rng = np.random.default_rng(0)
    items, regions = _draw(ROWS, 0), rng.normal(size=(CLASSIFIERS, DIMENSIONS)) / np.sqrt(DIMENSIONS)
    chance = 1 / (1 + np.exp(-(items @ regions.T + 0.3 * np.arange(CLASSIFIERS))))
    columns = {f"ok{j}": rng.random(ROWS) < chance[:, j] for j in range(CLASSIFIERS)}
    classifiers = [{"name": f"m{j}", "cost": 0.001 * 2**j, "correct": f"ok{j}"} for j in range(CLASSIFIERS)]
    spec = TraceSpec.model_validate_json(json.dumps({"kind": "trace", "unit": "USD", "classifiers": classifiers}))
    trace = Trace.from_columns(spec, columns, items)
    fitted = portfolio.kind.fit(trace, portfolio.kind.options(), make_generator(0), BuildContext())
    assert isinstance(fitted.plan, PortfolioPlan)
    return fitted.plan


if __name__ == "__main__":
    main()
