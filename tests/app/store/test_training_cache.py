"""What builds remember for each other."""

import pytest

from app.store.client import Store
from app.store.training_cache import TrainingCache


def test_what_was_remembered_is_found_again_by_name(store: Store) -> None:
    cache = TrainingCache(store)
    cache["accuracy of a,b"] = b"\x00\x01"
    assert TrainingCache(store)["accuracy of a,b"] == b"\x00\x01"
    assert cache.get("something else") is None
    assert "something else" not in cache
    assert len(cache) == 1


def test_what_was_forgotten_is_unknown(store: Store) -> None:
    cache = TrainingCache(store)
    cache["a"] = b"1"
    del cache["a"]
    with pytest.raises(KeyError, match="a"):
        cache["a"]
    with pytest.raises(KeyError, match="a"):
        del cache["a"]


def test_an_entry_does_not_stay_for_ever(store: Store) -> None:
    cache = TrainingCache(store)
    cache["a"] = b"1"
    (name,) = store.client.scan_iter(match="parsimony:memo:*")
    assert 0 < store.client.ttl(name) <= 30 * 24 * 3600


def test_names_cannot_be_listed(store: Store) -> None:
    with pytest.raises(TypeError, match="by name"):
        iter(TrainingCache(store))
