"""How the reading of datasets by reference grows with rows and processes.

Parquet files with six classifiers are made from a seed. Each pass checks every row and samples 100,000; its time, its
CPU time, and the largest memory of a process are measured. A cascade of the sample is compared with one of a whole file
of 500,000 rows.
"""

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pyarrow as pa
import pyarrow.parquet
from rich.console import Console
from rich.table import Table

from app.sources.read import read_source
from app.store.uploads import parse_spec
from models import Dataset
from models.dataset_source import DatasetSource
from models.savings import Savings
from solvers import KINDS, BuildContext
from solvers.base import make_generator, no_progress

CLASSIFIERS, FILE_ROWS, SAMPLE = 6, 500_000, 100_000
SPEC: dict[str, Any] = {
    "kind": "trace",
    "unit": "USD",
    "classifiers": [
        {"name": f"m{j}", "cost": 4.0**j, "correct": f"ok{j}", "confidence": f"p{j}"} for j in range(CLASSIFIERS)
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="parsimony bench scale", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 4_000_000], help="rows of the sources")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2], help="processes that read files")
    parser.add_argument("--folder", type=Path, help="folder for the files; default: a temporary one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="parsimony-bench-") as scratch:
        folder = options.folder or Path(scratch)
        _measure(folder, options.rows, options.processes)


def _measure(folder: Path, sizes: Sequence[int], processes: Sequence[int]) -> None:
    table = Table("rows", "MB", "processes", "seconds", "CPU s", "M rows/s", "memory, MB", title="one pass")
    for rows in sorted(sizes):
        source = folder / str(rows)
        _write(source, rows)
        megabytes = sum(each.stat().st_size for each in source.iterdir()) / 1e6
        for count in processes:
            seconds, cpu, peak, _ = _in_process(_read, source, count)
            rate = rows / seconds / 1e6
            table.add_row(
                f"{rows:,}", *map("{:.0f}".format, (megabytes, count, seconds, cpu)), f"{rate:.2f}", str(peak)
            )
    console = Console(width=120)
    console.print(table)
    _compare(console, folder / str(max(sizes)))


def _compare(console: Console, source: Path) -> None:
    """Compare a cascade of the sample with one of a whole file, which is read into memory."""
    first = min(source.iterdir())
    table = Table("learned from", "rows", "memory, MB", "cost", "accuracy", "saved", "95 % interval", title="cascade")
    for what, place, sampled in (("sample", source, SAMPLE), ("one file", first, FILE_ROWS)):
        rows, peak, saved = _in_process(_read_and_build, place, sampled)
        low, high = saved.saved_interval
        figures = (f"{saved.cost:.4g}", f"{saved.accuracy:.4f}", f"{saved.saved:.1%}", f"{low:.1%} to {high:.1%}")
        table.add_row(what, f"{rows:,}", str(peak), *figures)
    console.print(table)


def _read_and_build(place: Path, sampled: int) -> tuple[int, int, Savings]:
    _, _, _, dataset = _read(place, 1, sampled)
    kind = KINDS["cascade"]
    fitted = kind.fit(dataset, kind.options(), make_generator(0), BuildContext())
    assert fitted.savings is not None
    return dataset.rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, fitted.savings


def _write(folder: Path, rows: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, rows, FILE_ROWS)):
        path = folder / f"part-{number:05}.parquet"
        if not path.exists():
            table = _make_rows(min(FILE_ROWS, rows - first), number)
            pa.parquet.write_table(table, path.with_suffix(".tmp"), row_group_size=100_000)
            path.with_suffix(".tmp").rename(path)


def _make_rows(rows: int, seed: int) -> pa.Table:
    """Draw classifiers of rising accuracy; their confidences are calibrated."""
    rng = np.random.default_rng(seed)
    difficulty = rng.random(rows)
    columns: dict[str, Any] = {}
    for j in range(CLASSIFIERS):
        sure = np.clip(1 - difficulty * (0.9 - 0.14 * j) + rng.normal(0, 0.05, rows), 0.01, 0.99)
        columns |= {f"p{j}": sure.astype(np.float32), f"ok{j}": rng.random(rows) < sure}
    return pa.table(columns)


def _read(place: Path, processes: int, sample_rows: int = SAMPLE) -> tuple[float, float, int, Dataset]:
    """Read a source; return seconds, CPU seconds, the largest memory of a process in MB, and the sample."""
    source = DatasetSource(url=f"file://{place}", sample_rows=sample_rows)
    backend = "loky" if processes > 1 else "sequential"
    started = time.perf_counter()
    with joblib.parallel_config(backend=backend, n_jobs=processes):
        dataset, _ = read_source(source, parse_spec(json.dumps(SPEC)), (f"file://{place}",), no_progress)
    seconds = time.perf_counter() - started
    if processes > 1:
        joblib.externals.loky.get_reusable_executor().shutdown(wait=True)
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(each.ru_utime + each.ru_stime for each in usages)
    return seconds, cpu, max(each.ru_maxrss for each in usages) // 1024, dataset


def _in_process(work: Any, *args: Any) -> Any:
    """Run work in a process of its own, so that memory and CPU time are its own."""
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, partial(work, *args)))
    process.start()
    sender.close()
    result = receiver.recv()
    process.join()
    return result


def _send(sender: Any, work: Any) -> None:
    sender.send(work())


if __name__ == "__main__":
    main()
