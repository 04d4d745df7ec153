"""Checks and stores uploaded datasets, in a separate process.

The check needs several times the dataset's size of memory, and would block other requests of the server.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.store.client import Store
from app.store.datasets import Datasets
from app.store.name_quotas import NameQuotas
from app.store.uploads import limit_memory, parse_spec, read_dataset
from models.stored_dataset import DatasetInfo, ReplacedDataset

UPLOAD_TIMEOUT_S = 300.0
"""The longest time for checking, converting, and storing one upload."""


@dataclass(frozen=True, slots=True)
class DatasetStore:
    """The store at a URL, and the quotas of names in it."""

    url: str
    quotas: NameQuotas

    @contextmanager
    def open_datasets(self) -> Iterator[Datasets]:
        """Connect to the store, and yield its datasets."""
        with closing(Store(self.url, client_name="parsimony-upload")) as store:
            yield Datasets(store, self.quotas)


@dataclass(frozen=True, slots=True)
class DatasetUpload:
    """Files and options of an uploaded dataset.

    Attributes:
        max_bytes: limit of the table, also after decompression.
    """

    spec: bytes
    table: Path
    media_type: str
    embeddings: Path | None
    max_bytes: int


def store_upload(
    upload: DatasetUpload, store: DatasetStore, name: str, created_at: str, allow: Callable[[str | None], None]
) -> tuple[DatasetInfo, ReplacedDataset | None]:
    """Check an uploaded table and store it; return the same as ``Datasets.put``.

    Raises:
        InvalidRequest: the table is invalid; the error has all faults.
        PayloadTooLarge: the table exceeds ``max_bytes``.
        UnsupportedMediaType: the media type is not supported.
        QuotaExceeded: the team of the name has its maximum of datasets or bytes.
    """
    with limit_memory(upload.max_bytes), store.open_datasets() as datasets:
        embeddings = None if upload.embeddings is None else upload.embeddings.read_bytes()
        dataset = read_dataset(
            parse_spec(upload.spec), upload.table, upload.media_type, embeddings, max_bytes=upload.max_bytes
        )
        return datasets.put(name, dataset, created_at=created_at, allow=allow)
