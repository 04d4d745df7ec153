"""One pass over a Parquet file: every row is checked, and some are sampled.

Memory: the spec's columns of one batch of rows, and the sampled rows. Time: O(bytes), in two passes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from app.sources.locations import FoundFile, find_file, open_filesystem, split_url
from app.store.uploads import Spec, check_schema, to_columns
from models import TraceSpec, dataset_from_columns
from models.columns import read_prompts
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
            # Buffering in advance holds the whole file; it is for stores whose requests take long.
            yield pa.parquet.ParquetFile(file, buffer_size=_CHUNK, pre_buffer=scheme != "file")
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
    digest, sampled, offset = hash_file(found.url), [references.slice(0, 0)], 0
    with open_parquet(found.url) as parquet:
        for batch in parquet.iter_batches(batch_size=BATCH_ROWS, columns=references.column_names):
            table = pa.Table.from_batches([batch]).select(references.column_names)
            _check_rows(found.url, offset, table, spec, references)
            sampled.append(table.filter(pa.array(choose_rows(table, sampling, generator))))
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
    if now.bytes != file.bytes or hash_file(file.url) != file.sha256:
        message = f"{file.url} changed since the dataset was stored; store the dataset again"
        raise InvalidRequest.from_faults(Fault(("source",), message))


def _check_rows(url: str, offset: int, table: pa.Table, spec: Spec, references: pa.Table) -> None:
    """Check a batch; faults refer to rows of the file.

    Faults without a row concern all rows, so they are checked in the sample.
    """
    found = find_row_faults(table, spec, references)
    faults = [replace(move_fault(each, offset, url), loc=("source", *each.loc[1:])) for each in found]
    if faults:
        raise InvalidRequest.from_faults(*faults)


def find_row_faults(table: pa.Table, spec: Spec, references: pa.Table) -> list[Fault]:
    """Return the faults of a batch that have a row in it, counted from the batch's first row."""
    faults: list[Fault] = []
    try:
        columns = to_columns(pa.concat_tables([table, references]))
        if isinstance(spec, TraceSpec) and spec.text is not None:  # texts are not embedded
            read_prompts(columns, spec.text, faults)
            spec = spec.model_copy(update={"text": None})
        dataset_from_columns(spec, columns)
    except InvalidRequest as error:
        faults += error.faults
    return [fault for fault in faults if fault.row is not None and fault.row < table.num_rows]


def move_fault(fault: Fault, offset: int, url: str | None = None) -> Fault:
    """Return a fault with the row number in its file, and the file's URL.

    Args:
        offset: number of rows before the batch.
    """
    assert fault.row is not None
    row = offset + fault.row
    place = f"row {row + 1}" if url is None else f"row {row + 1} of {url}"
    return replace(fault, msg=fault.msg.replace(f"row {fault.row + 1}", place, 1), row=row)


def choose_rows(table: pa.Table, sampling: RowSampling, generator: np.random.Generator) -> NDArray[np.bool_]:
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


def hash_file(url: str) -> str:
    """Return the SHA-256 of a file; raises InvalidRequest if it cannot be read."""
    scheme, path = split_url(url)
    digest = sha256()
    try:
        with open_filesystem(scheme).open_input_file(path) as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise InvalidRequest.from_faults(Fault(("source",), f"{url} cannot be read: {error}")) from error
    return digest.hexdigest()
