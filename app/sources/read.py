"""Reading of sources: all rows are checked in parallel, and a sample becomes a dataset."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from app.sources.locations import FoundFile, find_allowed_files
from app.sources.scan import RowSampling, read_head, read_schema, scan_file
from app.store.uploads import Spec, to_columns
from models import Dataset, TraceSpec, dataset_from_columns
from models.dataset_source import DatasetSource, SourceFacts
from models.errors import Fault, InvalidRequest
from models.trace_columns import fill_confidence_scales
from solvers import Progress
from solvers.parallel import run_parallel

_REFERENCE_FILES, _REFERENCE_ROWS = 20, 100


def read_source(
    source: DatasetSource, spec: Spec, allowed: Sequence[str], progress: Progress
) -> tuple[Dataset, SourceFacts]:
    """Check every row of a source, and return the dataset of its sampled rows.

    The files are read with joblib, one file at a time in each process. If a process is lost, its file is read again.
    Equal files and seeds result in equal samples.

    Args:
        allowed: URLs of folders or buckets that must contain the files.
    Raises:
        InvalidRequest: a file is missing or malformed, has other types than the first file, has an invalid row, or
            changed while it was read.
    """
    found = find_allowed_files(str(source.url), allowed)
    rows, names = _count_rows(found, spec)
    references = _read_references(found, names)
    spec = fill_confidence_scales(spec, to_columns(references)) if isinstance(spec, TraceSpec) else spec
    sampling = RowSampling(min(1.0, source.sample_rows / max(rows, 1)), source.seed, spec.item)
    jobs = (partial(scan_file, each, number, spec, references, sampling) for number, each in enumerate(found))
    scanned = list(run_parallel(jobs, partial(_report_files, progress, len(found))))
    files = tuple(facts for facts, _ in scanned)
    sample = pa.concat_tables([table for _, table in scanned])
    dataset = dataset_from_columns(spec, to_columns(sample))
    facts = SourceFacts(
        **dict(source),
        rows=rows,
        bytes=sum(each.bytes for each in files),
        max_standard_error=estimate_standard_error(len(np.unique(dataset.item_codes)), sampling.share),
        files=files,
    )
    return dataset, facts


def _count_rows(found: Sequence[FoundFile], spec: Spec) -> tuple[int, list[str]]:
    """Return the number of rows of all files, and the spec's columns that they have.

    The types of the files are compared.
    """
    first, rows = read_schema(found[0].url, spec)
    for each in found[1:]:
        schema, more = read_schema(each.url, spec)
        for name in dict.fromkeys((*first.names, *schema.names)):
            _refuse_other_type(name, schema, first, each.url, found[0].url)
        rows += more
    return rows, list(first.names)


def _refuse_other_type(name: str, schema: pa.Schema, first: pa.Schema, url: str, first_url: str) -> None:
    own, other = ((each.field(name).type if name in each.names else "no column") for each in (schema, first))
    if own != other:
        message = f"must have the same type in all files, got {own} in {url}, and {other} in {first_url}"
        raise InvalidRequest.from_faults(Fault(("source", name), message))


def _read_references(found: Sequence[FoundFile], names: list[str]) -> pa.Table:
    """Return the first rows of some files, evenly from the whole source."""
    spread = np.unique(np.linspace(0, len(found) - 1, _REFERENCE_FILES).astype(int))
    return pa.concat_tables([read_head(found[place].url, names, _REFERENCE_ROWS) for place in spread])


def _report_files(progress: Progress, files: int, done: int) -> None:
    progress(done, files, f"{done:,} of {files:,} files checked")


def estimate_standard_error(items: int, share: float) -> float:
    """Return the largest standard error of a share in a sample without replacement."""
    return math.sqrt(0.25 / max(items, 1) * (1 - share))
