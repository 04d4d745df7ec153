"""CSV files of any size in batches, with the column types of a reader of the whole file.

``pyarrow`` infers a column's type from the first block of a file that it streams, and fails if a later one differs.
So there are two passes. The first infers the types of each block, and the second reads the file with the types that
are valid for all blocks: the same types that are inferred from a whole file in memory.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv

from app.store.uploads import choose_csv_columns, unreadable_csv
from models import FeaturesSpec, TraceSpec

BLOCK_BYTES = 2 * 2**20
"""Bytes of a block; no row may be longer. ``pyarrow`` reads about 30 blocks ahead."""
_BIT = "bit"
"""Kind of a column with 0 and 1 only, which also is one of booleans."""


class CsvBatches:
    """The spec's columns of a CSV file, in batches.

    Attributes:
        names: columns of the spec that the file has.
        read_bytes: how far the current pass has come, of ``total_bytes``.
    """

    def __init__(self, spec: FeaturesSpec | TraceSpec, path: Path) -> None:
        self._path, self.read_bytes, self.total_bytes = path, 0, path.stat().st_size
        self.names = choose_csv_columns(spec, path)
        self._types = dict.fromkeys(set(spec.class_columns).intersection(self.names), pa.binary())

    def read_raw(self) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Yield each batch as bytes, and with the types of its own cells; then all types are known."""
        kinds: dict[str, set[object]] = {name: set() for name in self.names if name not in self._types}
        for raw in self._stream(dict.fromkeys(self.names, pa.binary())):
            open_names = [name for name, seen in kinds.items() if pa.binary() not in seen]
            typed = _convert(raw.select(open_names), {}) if open_names else raw.select([])
            for name in open_names:
                kinds[name].add(_find_kind(typed.column(name)))
            yield raw, typed
        self._types |= {name: _join_kinds(seen) for name, seen in kinds.items()}

    def convert_rows(self, raw: pa.Table) -> pa.Table:
        """Return rows of the first pass with the types of the file."""
        return _convert(raw, self._types)

    def read_batches(self) -> Iterator[pa.Table]:
        """Yield the batches with the types of the file."""
        return self._stream(self._types)

    def _stream(self, types: dict[str, pa.DataType]) -> Iterator[pa.Table]:
        reading = pa.csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False)  # so that errors name the row
        parsing = pa.csv.ParseOptions(newlines_in_values=True)
        converting = pa.csv.ConvertOptions(include_columns=self.names, column_types=types)
        with _readable(), self._path.open("rb") as file, pa.csv.open_csv(file, reading, parsing, converting) as reader:
            for batch in reader:
                self.read_bytes = file.tell()
                yield pa.Table.from_batches([batch])


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise unreadable_csv(error) from error


def _convert(raw: pa.Table, types: dict[str, pa.DataType]) -> pa.Table:
    """Return columns of bytes with these types; the types of other columns are inferred."""
    text = _format_csv(raw)
    reading = pa.csv.ReadOptions(block_size=len(text) + 1, use_threads=False, column_names=raw.column_names)
    with _readable():
        return pa.csv.read_csv(
            pa.BufferReader(text), reading, convert_options=pa.csv.ConvertOptions(column_types=types)
        )


def _format_csv(raw: pa.Table) -> pa.Buffer:
    """Return rows as CSV without a header; ``pyarrow.csv.write_csv`` would refuse bytes that are not UTF-8."""
    cells = [pa.compute.replace_substring(column, '"', '""') for column in raw.columns]
    rows = pa.compute.binary_join_element_wise(*cells, b'","')
    lines = pa.compute.binary_join_element_wise(b'"', rows, b'"\n', b"")
    return pa.concat_arrays(lines.chunks).buffers()[2]


def _find_kind(column: pa.ChunkedArray) -> object:
    """Return the type of a column's cells; texts are bytes, because they need not be UTF-8."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pa.binary()
    if pa.types.is_integer(kind):
        bounds = pa.compute.min_max(column).as_py()
        return _BIT if bounds["min"] in (0, 1) and bounds["max"] in (0, 1) else kind
    return kind


def _join_kinds(seen: set[object]) -> pa.DataType:
    """Return the first type, in the order of ``pyarrow``, that is valid for the cells of all blocks.

    >>> _join_kinds({pa.null(), _BIT, pa.float64()}), _join_kinds({_BIT, pa.bool_()}), _join_kinds({_BIT})
    (DataType(double), DataType(bool), DataType(int64))
    """
    kinds = seen - {pa.null()}
    numbers = (_BIT, pa.int64(), pa.float64())
    if not kinds:
        return pa.null()
    if kinds <= set(numbers):
        return max((pa.int64() if kind == _BIT else kind for kind in kinds), key=numbers.index)
    kinds -= {_BIT} if pa.bool_() in kinds else set()
    return kinds.pop() if len(kinds) == 1 else pa.binary()
