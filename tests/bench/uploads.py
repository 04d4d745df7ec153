"""Memory and time of resumable uploads: the server that receives a CSV or Parquet file, and the sandbox that checks it.

python -m tests.bench.uploads --gigabytes 5 --form csv
"""

import argparse
import io
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from rich.console import Console

from parsimony import Parsimony
from tests.support.servers import running_server

CLASSES, ACCURACIES, BLOCK_ROWS = np.array(["cat", "dog", "cow", "hen", "pig"]), (0.6, 0.75, 0.85, 0.92), 400_000
SPEC: dict[str, Any] = {
    "kind": "trace",
    "label": "truth",
    "unit": "ms",
    "classifiers": [
        {"name": f"m{j}", "cost": {"column": f"ms{j}"}, "prediction": f"answer{j}", "confidence": f"p{j}"}
        for j in range(len(ACCURACIES))
    ],
}


def make_block() -> pa.Table:
    """Return rows of a trace of four classifiers."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, len(CLASSES), BLOCK_ROWS)
    columns = {"truth": CLASSES[truth]}
    for j, accuracy in enumerate(ACCURACIES):
        is_right = rng.random(BLOCK_ROWS) < accuracy
        columns[f"answer{j}"] = CLASSES[np.where(is_right, truth, rng.integers(0, len(CLASSES), BLOCK_ROWS))]
        columns[f"p{j}"] = (np.where(is_right, 0.7, 0.4) + 0.3 * rng.random(BLOCK_ROWS)).round(6)
        columns[f"ms{j}"] = (rng.random(BLOCK_ROWS) * 10 * (j + 1) + 0.1).round(3)
    return pa.table(columns)


def write_file(path: Path, form: str, size: float) -> None:
    """Write a file of about a number of bytes, by repeating a block of rows."""
    block = make_block()
    if form == "parquet":
        with pa.parquet.ParquetWriter(path, block.schema, use_dictionary=False) as writer:
            while path.stat().st_size < size:
                writer.write_table(block)
        return
    text = io.BytesIO()
    pa.csv.write_csv(block, text)
    head, _, rows = text.getvalue().partition(b"\n")
    with path.open("wb") as out:
        out.write(head + b"\n")
        while out.tell() < size:
            out.write(rows)


def watch_memory(root: psutil.Process, peaks: dict[str, float], ended: threading.Event) -> None:
    """Record the peak of the memory of each process of a server that is not shared, in MB."""
    while not ended.wait(0.1):
        with suppress(psutil.Error):
            for process in [root, *root.children(recursive=True)]:
                name = "server" if process == root else process.name()
                peaks[name] = max(peaks.get(name, 0.0), process.memory_full_info().uss / 1e6)


def measure_upload(folder: Path, form: str, size: float, console: Console) -> None:
    """Upload and check a file; print times and peaks of memory."""
    path, peaks, ended = folder / f"table.{form}", dict[str, float](), threading.Event()
    write_file(path, form, size)
    with running_server(folder / "server", cold=True) as server, Parsimony(server.url) as client:
        server.wait_for_worker()
        root = psutil.Process(server.process.pid)
        console.print(f"server, idle: {root.memory_full_info().uss / 1e6:.0f} MB")
        threading.Thread(target=watch_memory, args=(root, peaks, ended)).start()
        started = time.monotonic()
        upload_id = client.upload_table(path)
        console.print(f"upload of {path.stat().st_size / 1e9:.1f} GB: {time.monotonic() - started:.0f} s")
        started = time.monotonic()
        build = client.put_dataset_upload("large", upload_id, SPEC)
        while not build["finished_at"]:
            time.sleep(0.2)
            build = client.show_build(build["id"])
        ended.set()
        console.print(f"check: {build['status']}, {time.monotonic() - started:.0f} s, {build['error'] or 'no error'}")
        console.print({name: round(peak) for name, peak in peaks.items()})


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--form", choices=["csv", "parquet"], default="csv")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure_upload(Path(folder), given.form, given.gigabytes * 1e9, Console())


if __name__ == "__main__":
    main()
