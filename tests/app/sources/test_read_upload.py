"""Uploaded tables: read in batches, they give the dataset and the errors of tables that are read in memory."""

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from app.sources import csv_batches
from app.sources.read_upload import read_uploaded_table
from app.store.datasets import hash_dataset
from app.store.uploads import parse_spec, read_dataset
from models import Dataset
from models.dataset_source import DatasetSource, SourceFacts
from models.errors import InvalidRequest, PayloadTooLarge
from solvers.base import no_progress

MOST = 2**30
TRACE: dict[str, Any] = {
    "kind": "trace",
    "label": "truth",
    "item": "id",
    "text": "prompt",
    "unit": "ms",
    "classifiers": [
        {"name": "small", "cost": 1.0, "prediction": "small_says", "confidence": "small_p"},
        {"name": "large", "cost": {"column": "large_ms"}, "prediction": "large_says"},
    ],
}
FEATURES: dict[str, Any] = {
    "kind": "features",
    "label": "truth",
    "unit": "ms",
    "features": [{"name": "one", "columns": ["a", "b"], "cost": 1.0}, {"name": "two", "columns": ["c"], "cost": 2.0}],
}
ROWS = 3000


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many blocks in a small file."""
    monkeypatch.setattr(csv_batches, "BLOCK_BYTES", 16_384)


def make_columns(kind: str, rows: int = ROWS) -> dict[str, list[Any]]:
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 3, rows)
    if kind == "features":
        numbers = {"a": rng.normal(size=rows), "b": np.arange(rows), "c": rng.random(rows) < 0.5}
        return {"truth": truth.tolist()} | {name: column.tolist() for name, column in numbers.items()}
    return {
        "id": [f"{row // 2:05}" for row in range(rows)],
        "truth": truth.tolist(),
        "prompt": [f'é "quoted",\nline {row}' for row in range(rows)],
        "small_says": np.where(rng.random(rows) < 0.7, truth, 0).tolist(),
        "small_p": [round(p, 3) for p in (-rng.random(rows)).tolist()],
        "large_ms": [1, *rng.integers(1, 90, rows - 2).tolist(), 2.5],
        "large_says": truth.tolist(),
        "unread": ["x"] * rows,
    }


def write_table(path: Path, form: str, columns: dict[str, list[Any]]) -> Path:
    """Write a table as CSV, JSON Lines, or Parquet; ``csv.gz`` and ``jsonl.gz`` are gzipped."""
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if form == "parquet":
        pa.parquet.write_table(pa.table(columns), path, row_group_size=500)
        return path
    if form.startswith("jsonl"):
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    else:
        out = io.BytesIO()
        pa.csv.write_csv(pa.table(columns), out)
        data = out.getvalue()
    path.write_bytes(gzip.compress(data) if form.endswith("gz") else data)
    return path


def read_in_batches(path: Path, spec: dict[str, Any], most: int = MOST, **options: Any) -> tuple[Dataset, SourceFacts]:
    scratch = path.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    source = DatasetSource(upload="0" * 32, **options)
    checked = parse_spec(json.dumps(spec))
    return read_uploaded_table(path, source, checked, no_progress, scratch=scratch, max_bytes=most)


def read_in_memory(path: Path, spec: dict[str, Any]) -> Dataset:
    return read_dataset(parse_spec(json.dumps(spec)), path, "", None, max_bytes=MOST)


def list_faults(error: InvalidRequest) -> set[tuple[Any, ...]]:
    return {(fault.loc, fault.msg, fault.row) for fault in error.faults}


@pytest.mark.parametrize("form", ["csv", "csv.gz", "jsonl", "jsonl.gz", "parquet"])
@pytest.mark.parametrize("kind", ["trace", "features"])
def test_a_table_in_batches_is_the_dataset_of_a_table_in_memory(tmp_path: Path, form: str, kind: str) -> None:
    spec = TRACE if kind == "trace" else FEATURES
    path = write_table(tmp_path / "table", form, make_columns(kind))
    dataset, facts = read_in_batches(path, spec)
    assert hash_dataset(dataset) == hash_dataset(read_in_memory(path, spec))
    assert (facts.rows, facts.bytes, facts.max_standard_error, facts.files) == (ROWS, path.stat().st_size, 0.0, ())


def test_a_sample_has_about_the_requested_rows_and_whole_items(tmp_path: Path) -> None:
    path = write_table(tmp_path / "table", "csv", make_columns("trace"))
    dataset, facts = read_in_batches(path, TRACE, sample_rows=1000)
    assert 700 < dataset.rows < 1300
    assert dataset.rows == 2 * len(np.unique(dataset.item_codes))
    assert (facts.rows, facts.max_standard_error > 0) == (ROWS, True)
    again, _ = read_in_batches(path, TRACE, sample_rows=1000)
    assert hash_dataset(again) == hash_dataset(dataset)


@pytest.mark.parametrize("form", ["csv", "jsonl.gz", "parquet"])
@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("large_ms", "slow"),
        ("large_ms", -1.0),
        ("large_ms", float("inf")),
        ("small_p", 0.5),
        ("prompt", ""),
        ("truth", ""),
    ],
)
@pytest.mark.parametrize("row", [7, ROWS - 2])
def test_an_invalid_cell_is_named_with_its_row_as_in_memory(
    tmp_path: Path, form: str, column: str, cell: Any, row: int
) -> None:
    columns = make_columns("trace")
    columns[column][row] = cell
    if form == "parquet" and isinstance(cell, str):
        columns[column] = list(map(str, columns[column]))
    elif form == "csv":
        columns[column] = ["" if each is None else str(each) for each in columns[column]]
    path = write_table(tmp_path / "table", form, columns)
    with pytest.raises(InvalidRequest) as expected:
        read_in_memory(path, TRACE)
    with pytest.raises(InvalidRequest) as caught:
        read_in_batches(path, TRACE, sample_rows=100)
    found, wanted = (list_faults(each.value) for each in (caught, expected))
    assert found == {fault for fault in wanted if fault[2] is not None}
    assert found


@pytest.mark.parametrize(
    ("early", "late"),
    [("1", "true"), ("0", "7"), ("true", "7"), ("", "3"), ("2026-01-01", "1.5"), ("1", "2026-01-01"), ("NA", "x")],
)
def test_types_of_columns_do_not_depend_on_the_first_block(tmp_path: Path, early: str, late: str) -> None:
    columns = make_columns("features")
    columns["c"] = [early] * (ROWS - 1) + [late]
    path = write_table(tmp_path / "table", "csv", columns)
    wanted = describe_outcome(lambda: read_in_memory(path, FEATURES))
    assert describe_outcome(lambda: read_in_batches(path, FEATURES)[0]) == wanted


def describe_outcome(read: Callable[[], Dataset]) -> str:
    """Return the SHA-256 of a dataset, or the faults of a table."""
    try:
        return hash_dataset(read())
    except InvalidRequest as error:
        return str(sorted(list_faults(error)))


@pytest.mark.parametrize("text", ["", "truth,a\n", "truth,a,b,c\n", "x,y\n1,2\n", "a,a\n1,2\n", "{]\n", '{"a": [1]}\n'])
def test_tables_without_rows_or_columns_are_refused_as_in_memory(tmp_path: Path, text: str) -> None:
    path = tmp_path / "table"
    path.write_text(text)
    with pytest.raises(InvalidRequest) as expected:
        read_in_memory(path, FEATURES)
    with pytest.raises(InvalidRequest) as caught:
        read_in_batches(path, FEATURES)
    assert list_faults(caught.value) == list_faults(expected.value)


@pytest.mark.parametrize("tail", [b"1,2\n", b"\xff,2,3,true\n", b'"1,2,3,4\n'])
def test_a_malformed_last_row_is_refused_as_in_memory(tmp_path: Path, tail: bytes) -> None:
    path = write_table(tmp_path / "table", "csv", make_columns("features"))
    path.write_bytes(path.read_bytes() + tail)
    with pytest.raises(InvalidRequest) as expected:
        read_in_memory(path, FEATURES)
    with pytest.raises(InvalidRequest) as caught:
        read_in_batches(path, FEATURES)
    assert list_faults(caught.value) == list_faults(expected.value)


def test_broken_files_are_refused(tmp_path: Path) -> None:
    path = write_table(tmp_path / "table", "parquet", make_columns("features"))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InvalidRequest):
        read_in_batches(path, FEATURES)
    path = write_table(tmp_path / "table", "csv.gz", make_columns("features"))
    with pytest.raises(PayloadTooLarge):
        read_in_batches(path, FEATURES, most=10_000)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InvalidRequest):
        read_in_batches(path, FEATURES)


def test_memory_does_not_grow_with_a_parquet_file(tmp_path: Path) -> None:
    rows, path = 1_500_000, tmp_path / "table"
    rng = np.random.default_rng(0)
    table = pa.table({"truth": rng.integers(0, 2, rows)} | {name: rng.random(rows) for name in "abc"})
    pa.parquet.write_table(table, path, row_group_size=100_000)
    del table
    before, seen = pa.total_allocated_bytes(), list[int]()

    def note_memory(done: int, total: int, message: str) -> None:
        seen.append(pa.total_allocated_bytes() - before)

    source = DatasetSource(upload="0" * 32, sample_rows=100)
    read_uploaded_table(path, source, parse_spec(json.dumps(FEATURES)), note_memory, scratch=tmp_path, max_bytes=MOST)
    assert max(seen) < path.stat().st_size / 2


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_missing_column_has_the_fault_of_a_table_in_memory(tmp_path: Path, form: str) -> None:
    path = write_table(
        tmp_path / "table", form, {name: own for name, own in make_columns("trace").items() if name != "id"}
    )
    with pytest.raises(InvalidRequest) as in_memory:
        read_in_memory(path, TRACE)
    with pytest.raises(InvalidRequest) as in_batches:
        read_in_batches(path, TRACE)
    assert list_faults(in_batches.value) == list_faults(in_memory.value)


def test_a_text_after_a_missing_cell_is_named_with_its_row(tmp_path: Path) -> None:
    columns = make_columns("trace")
    cells: list[Any] = [str(cell) for cell in columns["large_ms"]]
    cells[2500], cells[2600] = "", "abc"
    path = write_table(tmp_path / "table", "csv", {**columns, "large_ms": cells})
    with pytest.raises(InvalidRequest) as in_memory:
        read_in_memory(path, TRACE)
    with pytest.raises(InvalidRequest) as in_batches:
        read_in_batches(path, TRACE)
    assert list_faults(in_batches.value) == list_faults(in_memory.value)
    assert any("2601" in fault.msg for fault in in_batches.value.faults)
