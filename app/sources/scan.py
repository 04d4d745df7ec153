"""One pass over a Parquet file: every row is checked, and some are sampled.

Memory: the spec's columns of one batch of rows, and the sampled rows. Time: O(bytes), in two passes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from app.sources.locations import FoundFile, find_file, open_filesystem, split_url
from app.store.uploads import Spec, check_schema, to_columns
from models import TraceSpec, dataset_from_columns
from models.dataset_source import SourceFile
from models.errors import Fault, InvalidRequest

BATCH_ROWS = 65_536
_CHUNK = 2**20


@dataclass(frozen=True, slots=True, eq=False)
class RowSampling:
    """Sampling with equal probability for each item; without an item column, each row."""

    share: float
    seed: int
    item: str | None


@contextmanager
def open_parquet(url: str) -> Iterator[pa.parquet.ParquetFile]:
    """Open a Parquet file; raises InvalidRequest that names it if it cannot be read."""
    scheme, path = split_url(url)
    try:
        with open_filesystem(scheme).open_input_file(path) as file:
            yield pa.parquet.ParquetFile(file, buffer_size=_CHUNK)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InvalidRequest.from_faults(Fault(("source",), f"{url} must be readable Parquet: {error}")) from error


def read_schema(url: str, spec: Spec) -> tuple[pa.Schema, int]:
    """Return the types of the spec's columns in a file, and its number of rows."""
    with open_parquet(url) as parquet:
        schema = parquet.schema_arrow
        return pa.schema([schema.field(name) for name in check_schema(spec, schema)]), parquet.metadata.num_rows


def read_head(url: str, names: list[str], rows: int) -> pa.Table:
    """Return the first rows of a file."""
    with open_parquet(url) as parquet:
        batch = next(parquet.iter_batches(batch_size=rows, columns=names), None)
        empty = pa.schema([parquet.schema_arrow.field(name) for name in names]).empty_table()
        return empty if batch is None else pa.Table.from_batches([batch])


def scan_file(
    found: FoundFile, number: int, spec: Spec, references: pa.Table, sampling: RowSampling
) -> tuple[SourceFile, pa.Table]:
    """Check all rows of a file; return its facts and its sampled rows.

    Args:
        number: index of the file in the source, which the sample of its rows depends on.
        references: some rows of all files. They are checked with each batch, so that faults of small tables, such as a
            single class, are not reported for a batch.
    Raises:
        InvalidRequest: a row is invalid, or the file changed while it was read.
    """
    generator = np.random.default_rng([sampling.seed, number])
    digest, sampled, offset = _hash_file(found.url), [references.slice(0, 0)], 0
    with open_parquet(found.url) as parquet:
        for batch in parquet.iter_batches(batch_size=BATCH_ROWS, columns=references.column_names):
            table = pa.Table.from_batches([batch]).select(references.column_names)
            _check_rows(found.url, offset, table, spec, references)
            sampled.append(table.filter(pa.array(_choose_rows(table, sampling, generator))))
            offset += table.num_rows
    if find_file(found.url) != found:
        raise InvalidRequest.from_faults(Fault(("source",), f"{found.url} changed while it was read; try again"))
    facts = SourceFile(url=found.url, rows=offset, bytes=found.bytes, sha256=digest, modified=found.modified)
    return facts, pa.concat_tables(sampled)


def require_unchanged_file(file: SourceFile) -> None:
    """Raise InvalidRequest if a file changed since its rows were checked."""
    now = find_file(file.url)
    if (now.bytes, now.modified) == (file.bytes, file.modified):
        return
    if now.bytes != file.bytes or _hash_file(file.url) != file.sha256:
        message = f"{file.url} changed since the dataset was stored; store the dataset again"
        raise InvalidRequest.from_faults(Fault(("source",), message))


def _check_rows(url: str, offset: int, table: pa.Table, spec: Spec, references: pa.Table) -> None:
    """Check a batch; faults refer to rows of the file.

    Faults without a row concern all rows, so they are checked in the sample.
    """
    # texts are not embedded
    without_text = spec.model_copy(update={"text": None}) if isinstance(spec, TraceSpec) else spec
    try:
        dataset_from_columns(without_text, to_columns(pa.concat_tables([table, references])))
    except InvalidRequest as error:
        own = [fault for fault in error.faults if fault.row is not None and fault.row < table.num_rows]
        if own:
            raise InvalidRequest.from_faults(*(_locate_fault(fault, url, offset) for fault in own)) from error


def _locate_fault(fault: Fault, url: str, offset: int) -> Fault:
    """Return a fault with the row number in its file."""
    assert fault.row is not None
    message = fault.msg.replace(f"row {fault.row + 1}", f"row {offset + fault.row + 1} of {url}", 1)
    return Fault(("source", *fault.loc[1:]), message, offset + fault.row)


def _choose_rows(table: pa.Table, sampling: RowSampling, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Return which rows are sampled, (n,)."""
    if sampling.item is None:
        return np.asarray(generator.random(table.num_rows) < sampling.share, dtype=np.bool_)
    codes = table.column(sampling.item).combine_chunks()
    codes = codes if pa.types.is_dictionary(codes.type) else codes.dictionary_encode()
    shares = np.array([_item_share(str(name), sampling.seed) for name in codes.dictionary.to_pylist()])
    return np.asarray(shares[np.asarray(codes.indices)] < sampling.share, dtype=np.bool_)


def _item_share(name: str, seed: int) -> float:
    """Return a number from 0 to 1 that depends only on an item's name.

    So all rows of the item are sampled together.
    """
    return int.from_bytes(sha256(f"{seed}/{name}".encode()).digest()[:7]) / 2**56


def _hash_file(url: str) -> str:
    scheme, path = split_url(url)
    digest = sha256()
    try:
        with open_filesystem(scheme).open_input_file(path) as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise InvalidRequest.from_faults(Fault(("source",), f"{url} cannot be read: {error}")) from error
    return digest.hexdigest()
