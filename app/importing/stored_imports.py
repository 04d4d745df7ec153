"""Imports of uploaded logs into the store, in separate processes."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet

from app.importing.call_coverage import measure_trace_coverage
from app.importing.log_files import read_records
from app.importing.log_import import choose_pointers, import_calls, parse_pointers, summarize_models
from app.importing.logged_calls import ImportReport, read_feedback
from app.importing.pivot import PROMPT
from app.store.dataset_upload import DatasetStore
from app.store.table_types import PARQUET
from app.store.uploads import limit_memory, parse_spec, read_dataset
from models.log_import import ImportedModel, ImportOptions
from models.prices import Prices
from models.recording import CallCoverage
from models.stored_dataset import DatasetInfo, ReplacedDataset


@dataclass(frozen=True, slots=True)
class LogUpload:
    """Files and options of an uploaded log.

    Attributes:
        max_bytes: limit of the trace.
    """

    log: Path
    feedback: Path | None
    prices: Mapping[str, Prices]
    options: ImportOptions
    max_bytes: int


@dataclass(frozen=True, slots=True)
class ParsedLog:
    """An uploaded log as a trace; its table is on disk.

    Attributes:
        prompts: the prompt of each row.
    """

    table: Path
    spec: Mapping[str, Any]
    prompts: list[str]
    report: ImportReport
    models: tuple[ImportedModel, ...]
    coverage: CallCoverage


def read_log(upload: LogUpload) -> ParsedLog:
    """Convert an uploaded log to a trace in the same folder.

    Raises InvalidRequest for a log without a usable call.
    """
    with limit_memory(upload.max_bytes):
        pointers = choose_pointers(upload.log, upload.options.format, parse_pointers(upload.options.pointers))
        outcomes = {} if upload.feedback is None else read_feedback(read_records(upload.feedback))
        options = upload.options
        imported = import_calls({upload.log: pointers}, options, upload.prices, outcomes)
        path = upload.log.with_suffix(".parquet")
        pyarrow.parquet.write_table(imported.table, path)
        columns = {one["name"]: one.get("quality") or one["correct"] for one in imported.spec["classifiers"]}
        coverage = measure_trace_coverage(imported.table, PROMPT, columns)
        prompts = imported.table[PROMPT].to_pylist()
        return ParsedLog(path, imported.spec, prompts, imported.report, summarize_models(imported), coverage)


def store_log(
    read: ParsedLog,
    embeddings: bytes | None,
    store: DatasetStore,
    name: str,
    created_at: str,
    allow: Callable[[str | None], None],
    max_bytes: int,
) -> tuple[DatasetInfo, ReplacedDataset | None]:
    """Store a trace; arguments, result, and errors are as in ``Datasets.put``."""
    with limit_memory(max_bytes), store.open_datasets() as datasets:
        spec = parse_spec(json.dumps(read.spec).encode())
        dataset = read_dataset(spec, read.table, PARQUET, embeddings, max_bytes=max_bytes)
        return datasets.put(name, dataset, created_at=created_at, allow=allow)
