"""Frozen recordings: the rows of a time range become a stored dataset, in a separate process."""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet

from app.importing.recorded_trace import FrozenTrace, build_recorded_trace, join_truths
from app.processes.clock import current_timestamp
from app.recording.segments import ROWS, TRUTHS, iterate_tables
from app.recording.writer import RecordingWriter
from app.serving.version_evaluation import sample_rows
from app.store import codec
from app.store.dataset_upload import DatasetStore
from app.store.repositories import Repositories
from app.store.table_types import PARQUET
from app.store.uploads import limit_memory, parse_spec, read_dataset, run_in_reader
from models import Dataset
from models.errors import Fault, InvalidRequest, PayloadTooLarge, UnknownArtifact
from models.recording import FreezeRequest, FrozenDataset, RecordingSpec, TimeRange, UsedRows, timestamp_to_seconds

MAX_ROWS = 500_000
"""Rows of a range of time that can become a dataset."""


@dataclass(frozen=True, slots=True)
class RecordingFreeze:
    """A recording's folder, and the range of rows that becomes a dataset.

    Attributes:
        max_bytes: limit of the dataset's table.
        setup: set-up groups of the recorded artifact, as its summary has them.
    """

    folder: Path
    spec: RecordingSpec
    unit: str
    times: TimeRange
    max_bytes: int
    setup: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class RecordedTrace:
    """A sample of the rows of a recording as an encoded trace.

    Attributes:
        sha256: SHA-256 that the dataset of all rows would have if it were stored.
    """

    data: bytes
    sha256: str
    used: UsedRows


def freeze_by_name(
    name: str, freeze: FreezeRequest, repos: Repositories, writer: RecordingWriter, run_in: Callable[..., Any]
) -> FrozenDataset:
    """Store rows of a recording as a dataset, in a separate process.

    Args:
        run_in: runs a function in the process.
    Raises:
        UnknownRecording: no recording has this name.
        InvalidRequest, PayloadTooLarge: as ``freeze_recording``.
    """
    work = _plan_freeze(name, freeze, repos, writer)
    freezing = partial(freeze_recording, work, freeze.dataset, repos.make_dataset_store(), current_timestamp())
    return run_in_reader(run_in, freezing, where="dataset")


def load_by_name(
    name: str, times: TimeRange, repos: Repositories, writer: RecordingWriter, run_in: Callable[..., Any]
) -> RecordedTrace:
    """Return rows of a recording as a trace, without storing it.

    Arguments and errors are those of ``freeze_by_name``.
    """
    return run_in_reader(run_in, encode_recording, _plan_freeze(name, times, repos, writer), where="on")


def _plan_freeze(name: str, times: TimeRange, repos: Repositories, writer: RecordingWriter) -> RecordingFreeze:
    stored = repos.recordings.get(name)
    folder, limit = writer.folder_of(stored.id), repos.settings.max_body_bytes
    return RecordingFreeze(folder, stored.spec, stored.unit, times, limit, _read_setup(stored.spec, repos))


def _read_setup(spec: RecordingSpec, repos: Repositories) -> Sequence[Mapping[str, Any]]:
    """Return the set-up groups of the recorded artifact; none if it has been deleted."""
    if spec.artifact is None:
        return ()
    try:
        record = repos.artifacts.get_record(spec.artifact.kind, spec.artifact.name)
    except UnknownArtifact:
        return ()
    return tuple(record.summary.get("setup", ()))


def _list_setup(groups: Sequence[Mapping[str, Any]], classifiers: Sequence[str]) -> list[dict[str, Any]]:
    """Return set-up groups as a trace's spec has them, for its classifiers."""
    listed = [
        {
            "name": group["name"],
            "cost": group["cost"],
            "classifiers": [name for name in group.get("classifiers", group.get("features")) if name in classifiers],
        }
        for group in groups
    ]
    return [group for group in listed if group["classifiers"]]


def freeze_recording(work: RecordingFreeze, dataset: str, store: DatasetStore, created_at: str) -> FrozenDataset:
    """Store rows of a recording as a dataset.

    Raises:
        InvalidRequest: no row can be used, or the rows are not a valid trace.
        PayloadTooLarge: the range has more than ``MAX_ROWS`` rows.
        QuotaExceeded: the team of the dataset's name has its maximum of datasets or bytes.
    """
    with limit_memory(work.max_bytes), store.open_datasets() as datasets:
        trace, used = _make_trace(work)
        info, replaced = datasets.put(dataset, trace, created_at=created_at)
        return FrozenDataset(**dict(info), replaced=replaced, **dict(used))


def encode_recording(work: RecordingFreeze) -> RecordedTrace:
    """Return a sample of a recording's rows; raises the errors of ``freeze_recording``."""
    with limit_memory(work.max_bytes):
        trace, used = _make_trace(work)
        digest = sha256(codec.encode(trace, {})).hexdigest()
        sample, _ = sample_rows(trace)
        return RecordedTrace(codec.encode(sample, {}), digest, used)


def _make_trace(work: RecordingFreeze) -> tuple[Dataset, UsedRows]:
    """Return the rows of a recording as a checked trace.

    Raises InvalidRequest if no row can be used.
    """
    rows = read_rows(work.folder, work.times)
    truths = join_truths(_read_truths(work.folder))
    frozen = build_recorded_trace(rows, truths, work.spec.reference, work.unit)
    if not frozen.table.num_rows:
        reasons = "; ".join(f"{count:,} {reason}" for reason, count in frozen.unused.most_common())
        message = f"must have a row that can be used, got {len(rows):,} rows ({reasons or 'none'})"
        raise InvalidRequest.from_faults(Fault(("since",), message))
    setup = _list_setup(work.setup, [each["name"] for each in frozen.spec["classifiers"]])
    frozen.spec.update({"setup": setup} if setup else {})
    used = UsedRows(recorded_rows=len(rows), unused=dict(frozen.unused.most_common()))
    return validate_frozen_trace(frozen, work.max_bytes), used


def validate_frozen_trace(frozen: FrozenTrace, max_bytes: int) -> Dataset:
    """Check a frozen trace in the same way as uploads; raises InvalidRequest."""
    with tempfile.TemporaryDirectory(prefix="parsimony-") as folder:
        table, vectors = Path(folder) / "table.parquet", Path(folder) / "vectors.npy"
        pyarrow.parquet.write_table(frozen.table, table)
        if frozen.embeddings is not None:
            np.save(vectors, frozen.embeddings, allow_pickle=False)
        embeddings = None if frozen.embeddings is None else vectors.read_bytes()
        spec = parse_spec(json.dumps(frozen.spec).encode())
        return read_dataset(spec, table, PARQUET, embeddings, max_bytes=max_bytes)


def read_rows(folder: Path, times: TimeRange) -> list[dict[str, Any]]:
    """Return the rows of a time range, oldest first, one per key; raises PayloadTooLarge."""
    since = -np.inf if times.since is None else timestamp_to_seconds(times.since)
    until = np.inf if times.until is None else timestamp_to_seconds(times.until)
    rows: list[dict[str, Any]] = []
    keys = set[str | None]()
    for table in iterate_tables(folder / "rows", ROWS):
        is_within = pc.and_(pc.greater_equal(table["time"], since), pc.less(table["time"], until))
        for row in table.filter(is_within).to_pylist():
            if row["key"] is None or row["key"] not in keys:
                rows.append(row)
                keys.add(row["key"])
        if len(rows) > MAX_ROWS:
            raise PayloadTooLarge(f"the range must have at most {MAX_ROWS:,} rows; set since and until closer")
    return sorted(rows, key=lambda row: float(row["time"]))


def _read_truths(folder: Path) -> Iterator[dict[str, Any]]:
    for table in iterate_tables(folder / "truths", TRUTHS):
        yield from table.to_pylist()
