"""What a process makes once and keeps is not gone through for garbage; all else is."""

import gc
from collections.abc import Iterator

import pytest

from app.processes.garbage_collection import frozen_heap


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    gc.enable()
    gc.unfreeze()


def test_what_is_made_is_looked_at_neither_meanwhile_nor_later() -> None:
    with frozen_heap():
        assert not gc.isenabled()
        made = [[number] for number in range(1000)]
    assert gc.isenabled()
    assert not any(each is made for each in gc.get_objects())  # frozen objects are not listed


def test_what_could_not_be_made_is_collected_as_ever() -> None:
    made = [[1]]
    with pytest.raises(RuntimeError, match="no store"), frozen_heap():
        raise RuntimeError("no store")
    assert gc.isenabled()
    assert any(each is made for each in gc.get_objects())
