"""What is stored under the names with a prefix: numbers and bytes of datasets and artifacts."""

from collections.abc import Iterator, Sequence
from typing import cast

from app.store.client import Store, make_store_key, read_json
from app.store.feedback import record_key
from app.store.paging import NameIndex
from app.store.pointers import Id, Pointers, parse_id
from solvers import KINDS

DATASETS = make_store_key("datasets")
"""The set of the names of datasets."""
_CHUNK = 100
"""Records that are read at a time: those of large artifacts have tens of kilobytes."""
_ALL = 2**31 - 1


def make_dataset_key(name: str) -> str:
    """Return the store key of a dataset's record."""
    return make_store_key("dataset", name)


def make_versions_key(kind: str, name: str) -> str:
    """Return the store key of the set of an artifact's versions."""
    return make_store_key("versions", kind, name)


def open_dataset_names(store: Store) -> NameIndex:
    """Return the sorted index of the names of datasets."""
    return NameIndex(store, DATASETS, make_store_key("dataset-names"), source_is_hash=False)


class TeamUsage:
    """Counts what is stored under the names with a prefix.

    Args:
        prefix: the prefix of the names.
    """

    def __init__(self, store: Store, prefix: str) -> None:
        self._store, self._prefix = store, prefix
        self._artifacts = sorted(f"{kind}/{prefix}" for kind in KINDS)

    def count_datasets(self) -> int:
        """Return the number of datasets."""
        return open_dataset_names(self._store).names_after(None, 0, [self._prefix])[1]

    def count_artifacts(self) -> int:
        """Return the number of artifacts of all kinds."""
        return Pointers(self._store).names.names_after(None, 0, self._artifacts)[1]

    def measure_datasets(self) -> dict[str, int]:
        """Return the bytes of each dataset. Complexity: O(datasets)."""
        names, _ = open_dataset_names(self._store).names_after(None, _ALL, [self._prefix])
        sizes = self._read_sizes([make_dataset_key(name) for name in names])
        return dict(zip(names, sizes, strict=True))

    def measure_artifacts(self) -> int:
        """Return the bytes of all versions of artifacts. Complexity: O(versions)."""
        fields, _ = Pointers(self._store).names.names_after(None, _ALL, self._artifacts)
        ids = [parse_id(field) for field in fields]
        keys = [record_key(*one, int(number)) for one, each in self._read_versions(ids) for number in each]
        return sum(self._read_sizes(keys))

    def _read_versions(self, ids: Sequence[Id]) -> Iterator[tuple[Id, set[bytes]]]:
        with self._store.open_pipeline() as pipe:
            for one in ids:
                pipe.smembers(make_versions_key(*one))
            yield from zip(ids, cast("list[set[bytes]]", pipe.execute()), strict=True)

    def _read_sizes(self, keys: Sequence[str]) -> Iterator[int]:
        """Yield the bytes in each record; 0 for a record that was deleted meanwhile."""
        for start in range(0, len(keys), _CHUNK):
            for record in self._store.get_many(list(keys[start : start + _CHUNK])):
                yield 0 if record is None else int(read_json(record)["bytes"])
