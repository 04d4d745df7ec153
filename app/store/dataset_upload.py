"""Uploads of datasets, from files on disk to the store, outside the process that answers.

To check and convert a table takes several times its size in memory, and holds up everything else in its process.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from app.store.client import Store
from app.store.datasets import Datasets
from app.store.uploads import limit_memory, parse_spec, read_dataset
from models.stored_dataset import DatasetInfo, Replaced

UPLOAD_TIMEOUT_S = 300.0
"""The longest time for checking, converting, and storing one upload."""


@dataclass(frozen=True, slots=True)
class Upload:
    """An upload as it was received. max_bytes: of the table, also once it is unpacked."""

    spec: bytes
    table: Path
    media_type: str
    embeddings: Path | None
    max_bytes: int


def store_upload(
    upload: Upload, url: str, name: str, created_at: str, allow: Callable[[str | None], None]
) -> tuple[DatasetInfo, Replaced | None]:
    """Check a table and keep it in the store at this address, as ``Datasets.put`` does.

    Raises InvalidRequest with every fault, PayloadTooLarge, UnsupportedMediaType, and what the store raises.
    """
    with limit_memory(upload.max_bytes), closing(Store(url, client_name="parsimony-upload")) as store:
        embeddings = None if upload.embeddings is None else upload.embeddings.read_bytes()
        dataset = read_dataset(
            parse_spec(upload.spec), upload.table, upload.media_type, embeddings, max_bytes=upload.max_bytes
        )
        return Datasets(store).put(name, dataset, created_at=created_at, allow=allow)
