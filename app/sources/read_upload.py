"""Reading of uploaded tables of any size: all rows are checked, and a sample becomes a dataset.

Memory: one batch of rows, the representative rows, and the sample. Time: O(bytes), in two passes.
"""

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa

from app.sources.csv_batches import CsvBatches
from app.sources.parquet_batches import ParquetBatches
from app.sources.read import estimate_standard_error
from app.sources.scan import BATCH_ROWS, RowSampling, choose_rows, find_row_faults, move_fault
from app.sources.survey import TableBatches, TableSurvey
from app.store.uploads import Spec, convert_to_csv, is_parquet, to_columns
from models import Dataset, TraceSpec, dataset_from_columns
from models.dataset_source import DatasetSource, SourceFacts
from models.errors import Fault, InvalidRequest
from models.trace_columns import fill_confidence_scales
from solvers import Progress

_MEBIBYTE = 2**20


def read_uploaded_table(
    path: Path, source: DatasetSource, spec: Spec, progress: Progress, *, scratch: Path, max_bytes: int
) -> tuple[Dataset, SourceFacts]:
    """Check every row of a table, and return the dataset of its sampled rows.

    The format is determined by the first bytes. If all rows are sampled, the dataset and its errors are those of
    ``read_dataset``. Malformed Parquet may crash the process.

    Args:
        scratch: folder for a plain copy of gzipped files and JSON Lines.
        max_bytes: limit of the plain copy.
    Raises:
        InvalidRequest: the table is malformed, or has invalid rows; the first one of each column is reported.
        PayloadTooLarge: the table exceeds ``max_bytes`` after decompression.
    """
    batches = _open_batches(path, spec, scratch, max_bytes, progress)
    survey = _survey_rows(batches, spec, progress)
    references = batches.convert_rows(survey.concat_references())
    spec = fill_confidence_scales(spec, to_columns(references)) if isinstance(spec, TraceSpec) else spec
    _refuse_missing_columns(spec, references, batches.names)
    sampling = RowSampling(min(1.0, source.sample_rows / survey.rows), source.seed, spec.item)
    sample = _check_and_sample(batches, spec, references, sampling, progress)
    dataset = dataset_from_columns(spec, to_columns(sample))
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    facts = SourceFacts(
        **dict(source),
        rows=survey.rows,
        bytes=path.stat().st_size,
        max_standard_error=estimate_standard_error(len(np.unique(dataset.item_codes)), sampling.share),
        sha256=digest,
    )
    return dataset, facts


def _open_batches(path: Path, spec: Spec, scratch: Path, max_bytes: int, progress: Progress) -> TableBatches:
    parquet, magic = is_parquet(path, "")
    if parquet:
        return ParquetBatches(spec, path)
    progress(0, 0, "unpacking")
    return CsvBatches(spec, convert_to_csv(path, magic, "", max_bytes, scratch))


def _survey_rows(batches: TableBatches, spec: Spec, progress: Progress) -> TableSurvey:
    """Return the survey of all rows; raises InvalidRequest if there are none."""
    survey = TableSurvey(spec, batches.names)
    for raw, typed in batches.read_raw():
        survey.add_batch(raw, typed)
        _report(progress, batches, batches.read_bytes, f"{survey.rows:,} rows read")
    if not survey.rows:
        dataset_from_columns(spec, {name: np.empty(0) for name in batches.names})
    return survey


def _refuse_missing_columns(spec: Spec, references: pa.Table, names: list[str]) -> None:
    """Raise InvalidRequest for columns of the spec that the table lacks."""
    try:
        dataset_from_columns(spec, to_columns(references))
    except InvalidRequest as error:
        faults = [fault for fault in error.faults if fault.loc[0] == "table" and str(fault.loc[-1]) not in names]
        if faults:
            raise InvalidRequest.from_faults(*faults) from error


def _check_and_sample(
    batches: TableBatches, spec: Spec, references: pa.Table, sampling: RowSampling, progress: Progress
) -> pa.Table:
    """Return the sampled rows; raises InvalidRequest with the first invalid row of each column."""
    generator = np.random.default_rng([sampling.seed, 0])
    sampled, faults, offset = [references.slice(0, 0)], list[Fault](), 0
    for batch in batches.read_batches():
        for start in range(0, batch.num_rows, BATCH_ROWS):
            table = batch.slice(start, BATCH_ROWS)
            known = {fault.loc for fault in faults}
            found = find_row_faults(table, spec, references)
            faults += [move_fault(fault, offset) for fault in found if fault.loc not in known]
            sampled += [] if faults else [table.filter(pa.array(choose_rows(table, sampling, generator)))]
            offset += table.num_rows
        _report(progress, batches, batches.total_bytes + batches.read_bytes, f"{offset:,} rows checked")
    if faults:
        raise InvalidRequest.from_faults(*faults)
    return pa.concat_tables(sampled)


def _report(progress: Progress, batches: TableBatches, done: int, message: str) -> None:
    """Report the progress of two passes, in MiB."""
    progress(done // _MEBIBYTE, 2 * batches.total_bytes // _MEBIBYTE + 1, message)
