"""Parquet files of any size, in batches of bounded memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from app.sources.scan import BATCH_ROWS
from app.store.uploads import check_schema, sum_unpacked_bytes, unreadable_parquet
from models import FeaturesSpec, TraceSpec

_BATCH_BYTES = 16 * 2**20
"""About the decoded bytes of a batch."""
_BUFFER_BYTES = 2**20


class ParquetBatches:
    """The spec's columns of a Parquet file, in batches.

    Attributes:
        names: columns of the spec that the file has.
        read_bytes: how far the current pass has come, of ``total_bytes``; an estimate by rows.
    """

    def __init__(self, spec: FeaturesSpec | TraceSpec, path: Path) -> None:
        self._path, self.read_bytes, self.total_bytes = path, 0, path.stat().st_size
        with self._open() as file:
            self.names = check_schema(spec, file.schema_arrow)
            self._rows, self._batch_rows = file.metadata.num_rows, _choose_batch_rows(file, self.names)

    def read_raw(self) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Yield each batch twice: its types are those of the file."""
        return ((batch, batch) for batch in self.read_batches())

    def convert_rows(self, raw: pa.Table) -> pa.Table:
        """Return rows of the first pass unchanged."""
        return raw

    def read_batches(self) -> Iterator[pa.Table]:
        """Yield the batches."""
        done = 0
        with self._open() as file:
            for batch in file.iter_batches(batch_size=self._batch_rows, columns=self.names, use_threads=False):
                done += batch.num_rows
                self.read_bytes = self.total_bytes * done // max(self._rows, 1)
                yield pa.Table.from_batches([batch]).select(self.names)

    @contextmanager
    def _open(self) -> Iterator[pa.parquet.ParquetFile]:
        try:
            with pa.OSFile(str(self._path)) as file:
                yield pa.parquet.ParquetFile(file, buffer_size=_BUFFER_BYTES, pre_buffer=False)  # it holds whole files
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise unreadable_parquet(error) from error


def _choose_batch_rows(file: pa.parquet.ParquetFile, names: list[str]) -> int:
    """Return the rows of a batch with about ``_BATCH_BYTES`` of the columns."""
    row_bytes = max(sum_unpacked_bytes(file.metadata, names) / max(file.metadata.num_rows, 1), 8 * len(names), 1)
    return max(1, min(BATCH_ROWS, int(_BATCH_BYTES / row_bytes)))
