"""Files of batches: items are parsed in passes, whose memory does not grow with their number."""

import io
import tracemalloc

import pytest

from app.running.batches import ItemLines
from models.errors import InvalidRequest


def test_items_can_be_read_several_times() -> None:
    lines = ItemLines(io.BytesIO(b'\xef\xbb\xbf{"item": 1}\n\n{"item": 2, "id": "b"}'))
    for _ in range(2):
        assert [(item.item, item.id) for item in lines] == [(1, None), (2, "b")]


def test_a_malformed_line_is_named_after_valid_ones() -> None:
    lines = iter(ItemLines(io.BytesIO(b'{"item": 1}\n{"item": 2\n')))
    assert next(lines).item == 1
    with pytest.raises(InvalidRequest) as caught:
        next(lines)
    assert "line 2" in str(caught.value)


def test_memory_does_not_grow_with_the_number_of_items() -> None:
    file = io.BytesIO(b"".join(b'{"item": "a text of some words", "id": "%d"}\n' % row for row in range(30_000)))
    tracemalloc.start()
    assert sum(1 for _ in ItemLines(file)) == 30_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000
