"""Cache of trained models across builds; unused entries expire."""

from collections.abc import Iterator, MutableMapping
from hashlib import sha256

from app.store.client import Store, make_store_key, translate_errors

TRAINED_MODEL_TTL_S = 30 * 24 * 3600
"""Seconds without use after which an entry expires."""


class TrainingCache(MutableMapping[str, bytes]):
    """Mutable mapping of trained models in the store; lost entries are trained again."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getitem__(self, name: str) -> bytes:
        value: bytes | None = self._store.execute("getex", _entry(name), ex=TRAINED_MODEL_TTL_S)
        if value is None:
            raise KeyError(name)
        return value

    def __setitem__(self, name: str, value: bytes) -> None:
        self._store.execute("set", _entry(name), value, ex=TRAINED_MODEL_TTL_S)

    def __delitem__(self, name: str) -> None:
        if not self._store.execute("delete", _entry(name)):
            raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        raise TypeError("a cache is read by name; it stores digests of names only")

    def __len__(self) -> int:
        with translate_errors():
            return sum(1 for _ in self._store.client.scan_iter(match=_entry_pattern(), count=1000))


def _entry(name: str) -> str:
    return make_store_key("memo", sha256(name.encode()).hexdigest())


def _entry_pattern() -> str:
    return make_store_key("memo", "*")
