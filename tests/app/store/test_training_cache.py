"""What builds remember for each other."""

import pytest

from app.store.client import Store
from app.store.training_cache import TrainingCache


def test_what_was_remembered_is_found_again_by_name_until_it_is_forgotten(store: Store) -> None:
    cache = TrainingCache(store)
    cache["accuracy of a,b"] = b"\x00\x01"
    assert TrainingCache(store)["accuracy of a,b"] == b"\x00\x01"
    assert (cache.get("something else"), "something else" in cache, len(cache)) == (None, False, 1)
    (name,) = store.client.scan_iter(match="parsimony:memo:*")
    assert 0 < store.client.ttl(name) <= 30 * 24 * 3600
    with pytest.raises(TypeError, match="by name"):
        iter(cache)
    del cache["accuracy of a,b"]
    for call in (cache.__getitem__, cache.__delitem__):
        with pytest.raises(KeyError, match="accuracy of a,b"):
            call("accuracy of a,b")
