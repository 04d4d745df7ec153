"""Imports of uploaded logs into the store, in a separate process like uploads of tables."""

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet

from app.importing.imports import choose_pointers, import_calls, parse_pointers
from app.importing.log_files import read_records
from app.importing.logged_calls import ImportReport, read_feedback
from app.store.client import Store
from app.store.datasets import Datasets
from app.store.table_types import PARQUET
from app.store.uploads import limit_memory, parse_spec, read_dataset
from models.log_import import ImportOptions
from models.prices import Prices
from models.stored_dataset import DatasetInfo, Replaced


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


def store_calls(
    upload: LogUpload, url: str, name: str, created_at: str, allow: Callable[[str | None], None]
) -> tuple[DatasetInfo, Replaced | None, ImportReport]:
    """Turn an uploaded log into a trace, and store it in the store at ``url``.

    Returns the same as ``Datasets.put``, and the numbers of used and unused records. Raises InvalidRequest for a log
    without a usable call.
    """
    with limit_memory(upload.max_bytes), closing(Store(url, client_name="parsimony-upload")) as store:
        pointers = choose_pointers(upload.log, None, parse_pointers(upload.options.pointers))
        outcomes = {} if upload.feedback is None else read_feedback(read_records(upload.feedback))
        imported = import_calls([upload.log], pointers, upload.options.unit, upload.prices, outcomes)
        table = upload.log.with_suffix(".parquet")
        pyarrow.parquet.write_table(imported.table, table)
        spec = parse_spec(json.dumps(imported.spec).encode())
        dataset = read_dataset(spec, table, PARQUET, None, max_bytes=upload.max_bytes)
        info, replaced = Datasets(store).put(name, dataset, created_at=created_at, allow=allow)
        return info, replaced, imported.report
