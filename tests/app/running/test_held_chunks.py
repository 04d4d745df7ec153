"""Chunks of an answer that may be escalated are held up to a limit."""

import pytest

from app.running.caller import ChunkStream
from app.running.executor import MAX_HELD_CHUNKS, HeldChunks


@pytest.mark.parametrize(
    ("count", "released"),
    [(0, 0), (3, 3), (MAX_HELD_CHUNKS, MAX_HELD_CHUNKS), (MAX_HELD_CHUNKS + 1, 0), (2 * MAX_HELD_CHUNKS, 0)],
)
def test_chunks_are_released_once_in_order_unless_there_are_too_many(count: int, released: int) -> None:
    held, taken = HeldChunks(), list[object]()
    for place in range(count):
        held.hold_chunk({"place": place})
    for _ in range(2):
        held.release_chunks(ChunkStream(taken.append))
    assert taken == [{"place": place} for place in range(released)]
