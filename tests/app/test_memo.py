"""What builds remember for each other."""

import pytest

from app.memo import Memo
from app.store import Store


def test_what_was_remembered_is_found_again_by_name(store: Store) -> None:
    memo = Memo(store)
    memo["accuracy of a,b"] = b"\x00\x01"
    assert Memo(store)["accuracy of a,b"] == b"\x00\x01"
    assert memo.get("something else") is None
    assert "something else" not in memo
    assert len(memo) == 1


def test_what_was_forgotten_is_unknown(store: Store) -> None:
    memo = Memo(store)
    memo["a"] = b"1"
    del memo["a"]
    with pytest.raises(KeyError, match="a"):
        memo["a"]
    with pytest.raises(KeyError, match="a"):
        del memo["a"]


def test_an_entry_does_not_stay_for_ever(store: Store) -> None:
    memo = Memo(store)
    memo["a"] = b"1"
    (name,) = store.client.scan_iter(match="parsimony:memo:*")
    assert 0 < store.client.ttl(name) <= 30 * 24 * 3600


def test_names_cannot_be_listed(store: Store) -> None:
    with pytest.raises(TypeError, match="by name"):
        iter(Memo(store))
