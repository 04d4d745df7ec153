"""Portfolio queries in Parquet, and assignments in CSV and Parquet.

The embedding is one column per dimension or one column of lists. Alternatively, a column has texts. Further columns
are ``size``, ``group``, and ``costs``.
"""

import csv
import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
from numpy.typing import NDArray

from app.store.table_types import PARQUET
from app.store.uploads import check_column_count, limit_memory, run_in_reader
from models.columns import find_duplicate_name
from models.errors import Fault, InvalidRequest, PayloadTooLarge

EMBEDDING, TEXT, BESIDE = "embedding", "text", ("size", "group", "costs")
"""The column of embeddings, where they are lists; that of texts instead; and what else a query may have."""
METADATA = b"parsimony"
"""Under which Parquet's metadata has all of the reply but the assignments, as JSON."""
Columns = dict[str, Any]


def read_query_table(data: bytes, *, max_bytes: int, run_in: Callable[..., Columns]) -> Columns:
    """Parse queries from Parquet as arrays by name.

    The names are ``embedding``, (n, d), or ``text``; and ``size``, ``group``, and ``costs`` if the table has them.

    Args:
        run_in: reads the file in a separate process, as in ``read_dataset``.
    Raises:
        InvalidRequest: the table is malformed.
    """
    with tempfile.NamedTemporaryFile(prefix="parsimony-", suffix=".parquet") as file:
        file.write(data)
        file.flush()
        return run_in_reader(run_in, _columns, Path(file.name), max_bytes, where="queries")


def _columns(path: Path, max_bytes: int) -> Columns:
    with limit_memory(max_bytes):
        try:
            return read_columns(read_parquet_within(path, max_bytes, "queries"))
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise InvalidRequest.from_faults(Fault(("queries",), f"must be readable Parquet: {error}")) from error


def read_columns(table: pa.Table) -> Columns:
    """Return the columns of a table of queries, as ``read_query_table`` does; raises InvalidRequest."""
    names = table.column_names
    read: Columns = {name: number_columns(table, name) for name in ("size", "costs") if name in names}
    if "group" in names:
        read["group"] = _texts(table, "group")
    if TEXT in names:
        _refuse_strays(names, TEXT)
        return {TEXT: _texts(table, TEXT), **read}
    vectors = _vectors(table, names)
    return {EMBEDDING: vectors if vectors.ndim == 2 else vectors[:, None], **read}


def _vectors(table: pa.Table, names: list[str]) -> NDArray[np.float64]:
    if EMBEDDING in names:
        _refuse_strays(names, EMBEDDING)
        return number_columns(table, EMBEDDING)
    own = [name for name in names if name not in BESIDE]
    if not own:
        raise InvalidRequest.from_faults(Fault(("queries",), "must have a column of embeddings or of texts"))
    return np.column_stack([number_columns(table, name) for name in own])


def _refuse_strays(names: list[str], own: str) -> None:
    """Raise InvalidRequest for an unknown column."""
    known = (own, *BESIDE)
    stray = next((name for name in names if name not in known), None)
    if stray is not None:
        raise InvalidRequest.from_faults(
            Fault(("queries", stray), f"is not a known column; available: {', '.join(known)}")
        )


def read_parquet_within(path: Path, max_bytes: int, where: str) -> pa.Table:
    """Read a Parquet table that has at most ``max_bytes`` when decompressed.

    Repeated values (dictionaries) count in every row.

    Args:
        where: location of faults.
    Raises:
        PayloadTooLarge: the table exceeds the limit.
        InvalidRequest: a column name is duplicate.
    """
    metadata = pa.parquet.read_metadata(path)
    too_large = PayloadTooLarge(f"the {metadata.num_rows} rows must unpack to at most {max_bytes} bytes")
    check_column_count(metadata.num_columns)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    unpacked = sum(group.total_byte_size for group in groups)
    if max(unpacked, metadata.num_rows * metadata.num_columns) > max_bytes:
        raise too_large
    table = pa.parquet.read_table(path)
    table.validate(full=True)  # codes may point outside their dictionary, and would be followed
    table = _written_out(table)
    if table.nbytes > max_bytes:
        raise too_large
    repeated = find_duplicate_name(table.column_names)
    if repeated is not None:
        raise InvalidRequest.from_faults(Fault((where, repeated), "is a duplicate column"))
    return table


def _written_out(table: pa.Table) -> pa.Table:
    """Replace dictionary codes in columns by their values."""
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(field.type.value_type))
    return table


def number_columns(table: pa.Table, name: str, where: str = "queries") -> NDArray[np.float64]:
    """Convert a column of numbers, or of equally long lists, to (n,) or (n, d)."""
    column, place = table.column(name), (where, name)
    kind, width = column.type, None
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        if column.null_count:
            raise InvalidRequest.from_faults(Fault(place, "must be a list in every row, got a missing one"))
        widths = set(pa.compute.list_value_length(column).to_pylist())
        if len(widths) != 1:
            raise InvalidRequest.from_faults(
                Fault(place, f"must have lists of equal length, got lengths from {min(widths)} to {max(widths)}")
            )
        (width,) = widths
        column = pa.chunked_array([pa.compute.list_flatten(chunk) for chunk in column.chunks], kind.value_type)
        kind = kind.value_type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)) or column.null_count:
        fault = "has missing numbers" if column.null_count else f"has the type {kind}"
        raise InvalidRequest.from_faults(Fault(place, f"{fault}, must be numbers, or lists of numbers"))
    flat = np.asarray(column.cast(pa.float64(), safe=False).to_numpy())
    return flat if width is None else flat.reshape(table.num_rows, width)


def _texts(table: pa.Table, name: str) -> list[str]:
    column = table.column(name)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)) or column.null_count:
        fault = "has missing cells" if column.null_count else f"has the type {column.type}"
        raise InvalidRequest.from_faults(Fault(("queries", name), f"{fault}, must be text in every row"))
    texts: list[str] = column.to_pylist()
    return texts


def as_csv(reply: bytes) -> bytes:
    """Return assignments as CSV: query number, counted from 1, and classifier."""
    out = io.StringIO(newline="")
    csv.writer(out).writerows([("query", "classifier"), *enumerate(orjson.loads(reply)["assignments"], start=1)])
    return out.getvalue().encode()


def as_parquet(reply: bytes) -> bytes:
    """Return assignments as Parquet, with the reply's other fields as metadata."""
    facts = orjson.loads(reply)
    classifiers = pa.array(facts.pop("assignments"), pa.string()).dictionary_encode()
    queries = pa.array(np.arange(1, len(classifiers) + 1))
    table = pa.table({"query": queries, "classifier": classifiers})
    out = io.BytesIO()
    pa.parquet.write_table(table.replace_schema_metadata({METADATA: orjson.dumps(facts)}), out)
    return out.getvalue()


WRITERS: dict[str, Callable[[bytes], bytes]] = {"text/csv": as_csv, PARQUET: as_parquet}
"""What a reply may be written as instead of JSON."""
