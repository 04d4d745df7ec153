"""Sources: every row is checked, samples are fair and reproducible, and changed files are noticed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from app.sources.locations import find_file
from app.sources.read import read_source
from app.sources.scan import BATCH_ROWS, require_unchanged_file
from app.store.uploads import Spec, parse_spec
from models import Dataset, Trace
from models.dataset_source import DatasetSource, SourceFacts
from models.errors import InvalidRequest
from solvers.base import no_progress

SPEC: dict[str, Any] = {
    "kind": "trace",
    "unit": "ms",
    "classifiers": [
        {"name": "small", "cost": 1.0, "correct": "small_ok", "confidence": "small_p"},
        {"name": "large", "cost": 9.0, "correct": "large_ok"},
    ],
}


def columns(rows: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    sure = rng.uniform(0.3, 1.0, rows)
    return {
        "small_p": sure,
        "small_ok": rng.random(rows) < sure,
        "large_ok": rng.random(rows) < 0.9,
        "not_read": np.arange(rows),
        "order": rng.integers(0, rows // 3 + 1, rows),
    }


def write(folder: Path, name: str, rows: int, seed: int = 0, **other: Any) -> None:
    pa.parquet.write_table(pa.table(columns(rows, seed) | other), folder / f"{name}.parquet", row_group_size=50_000)


def read(folder: Path, spec: dict[str, Any] = SPEC, **options: Any) -> tuple[Dataset, SourceFacts]:
    checked: Spec = parse_spec(json.dumps(spec))
    source = DatasetSource(url=f"file://{folder}", **options)
    return read_source(source, checked, (f"file://{folder}",), no_progress)


def test_a_source_with_fewer_rows_than_the_sample_is_read_whole(tmp_path: Path) -> None:
    for part in range(3):
        write(tmp_path, f"part-{part}", 500, part)
    dataset, facts = read(tmp_path)
    assert isinstance(dataset, Trace)
    whole = np.concatenate([columns(500, part)["small_p"] for part in range(3)])
    assert dataset.confidences[:, 0].tolist() == whole.tolist()
    assert (facts.rows, facts.max_standard_error, [file.rows for file in facts.files]) == (1500, 0.0, [500] * 3)
    assert facts.bytes == sum(file.stat().st_size for file in tmp_path.iterdir())


def test_samples_are_fair_and_equal_for_equal_seeds(tmp_path: Path) -> None:
    for part in range(4):
        write(tmp_path, f"part-{part}", 20_000, part)
    samples = [read(tmp_path, sample_rows=8000, seed=seed)[0] for seed in (1, 1, 2)]
    first, again, other = samples
    assert isinstance(first, Trace)
    assert isinstance(again, Trace)
    assert np.array_equal(first.confidences, again.confidences, equal_nan=True)
    assert abs(first.rows - 8000) < 5 * np.sqrt(8000)
    assert first.rows != other.rows
    _, facts = read(tmp_path, sample_rows=8000)
    assert facts.max_standard_error == pytest.approx(np.sqrt(0.25 / 8000 * 0.9), rel=0.05)
    whole = np.concatenate([columns(20_000, part)["large_ok"] for part in range(4)]).mean()
    errors = [
        read(tmp_path, sample_rows=2000, seed=seed)[0].quality[:, 1].mean() - whole  # type: ignore[union-attr]
        for seed in range(20)
    ]
    assert np.abs(np.mean(errors)) < 4 * np.sqrt(0.09 / 2000 / 20)


def test_rows_of_one_item_are_sampled_together(tmp_path: Path) -> None:
    for part in range(2):
        write(tmp_path, f"part-{part}", 9000, part)
    whole, _ = read(tmp_path, SPEC | {"item": "order"})
    some, facts = read(tmp_path, SPEC | {"item": "order"}, sample_rows=2000)
    sizes = dict(zip(whole.item_names, np.bincount(whole.items), strict=True))
    kept = dict(zip(some.item_names, np.bincount(some.items), strict=True))
    assert 0 < len(kept) < len(sizes)
    assert kept == {name: sizes[name] for name in kept}
    assert facts.rows == 18_000


def test_a_batch_with_one_class_only_is_valid(tmp_path: Path) -> None:
    spec = {
        "kind": "trace",
        "label": "truth",
        "unit": "ms",
        "classifiers": [{"name": "a", "cost": 1.0, "prediction": "says"}],
    }
    rows = 2 * BATCH_ROWS
    truth = np.repeat(["cat", "dog"], BATCH_ROWS)  # sorted: the first batch has cats only
    pa.parquet.write_table(pa.table({"truth": truth, "says": truth}), tmp_path / "a.parquet")
    dataset, facts = read(tmp_path, spec, sample_rows=1000)
    assert (dataset.classes, facts.rows) == (("cat", "dog"), rows)
    (tmp_path / "a.parquet").unlink()
    pa.parquet.write_table(pa.table({"truth": truth[:9], "says": truth[:9]}), tmp_path / "a.parquet")
    with pytest.raises(InvalidRequest) as caught:
        read(tmp_path, spec)
    assert [fault.loc for fault in caught.value.faults] == [("table", "truth")]


def test_an_invalid_row_is_named_with_its_file_wherever_it_is(tmp_path: Path) -> None:
    rows = BATCH_ROWS + 1000
    write(tmp_path, "good", 100)
    sure = columns(rows, 1)["small_p"]
    sure[BATCH_ROWS + 7] = 1.5
    write(tmp_path, "later", rows, 1, small_p=sure)
    with pytest.raises(InvalidRequest) as caught:
        read(tmp_path, sample_rows=100)
    (fault,) = caught.value.faults
    assert (fault.loc, fault.row) == (("source", "small_p"), BATCH_ROWS + 7)
    assert f"row {BATCH_ROWS + 8} of file://{tmp_path}/later.parquet" in fault.msg


@pytest.mark.parametrize(
    ("other", "where"),
    [
        ({"small_p": np.array(["high"] * 100)}, ("source", "small_p")),
        ({"large_ok": np.ones(100, dtype=np.int64)}, ("source", "large_ok")),
    ],
)
def test_files_with_other_types_are_refused(tmp_path: Path, other: dict[str, Any], where: tuple[str, ...]) -> None:
    write(tmp_path, "a", 100)
    write(tmp_path, "b", 100, **other)
    with pytest.raises(InvalidRequest) as caught:
        read(tmp_path)
    assert [fault.loc for fault in caught.value.faults] == [where]


def test_files_without_a_column_and_broken_files_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "a", 100)
    (tmp_path / "b.parquet").write_bytes(b"PAR1 is not all PAR1")
    with pytest.raises(InvalidRequest) as caught:
        read(tmp_path)
    assert "b.parquet" in caught.value.faults[0].msg
    few = {name: column for name, column in columns(100, 0).items() if name != "large_ok"}
    pa.parquet.write_table(pa.table(few), tmp_path / "b.parquet")
    with pytest.raises(InvalidRequest) as caught:
        read(tmp_path)
    assert caught.value.faults[0].loc == ("source", "large_ok")


def test_a_changed_file_is_noticed_and_a_touched_one_is_not(tmp_path: Path) -> None:
    write(tmp_path, "a", 100)
    _, facts = read(tmp_path)
    (file,) = facts.files
    path = tmp_path / "a.parquet"
    data = path.read_bytes()
    path.write_bytes(data)
    assert find_file(file.url).modified != file.modified
    require_unchanged_file(file)
    path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    with pytest.raises(InvalidRequest):
        require_unchanged_file(file)
    path.unlink()
    with pytest.raises(InvalidRequest):
        require_unchanged_file(file)
