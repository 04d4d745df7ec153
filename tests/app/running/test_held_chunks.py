"""Chunks of an answer that may be escalated are held up to a limit."""

import pytest

from app.running.endpoint_caller import ChunkStream
from app.running.executor import MAX_BUFFERED_CHUNKS, StreamRelay
from parsimony.runs.steps import Call


@pytest.mark.parametrize(
    ("count", "released"),
    [
        (0, 0),
        (3, 3),
        (MAX_BUFFERED_CHUNKS, MAX_BUFFERED_CHUNKS),
        (MAX_BUFFERED_CHUNKS + 1, 0),
        (2 * MAX_BUFFERED_CHUNKS, 0),
    ],
)
def test_chunks_are_released_once_in_order_unless_there_are_too_many(count: int, released: int) -> None:
    taken: list[object] = []
    relay = StreamRelay(ChunkStream(taken.append))
    receiver = relay.make_receiver(Call(("small",), 1.0, is_last=False))
    assert receiver is not None
    for place in range(count):
        receiver.take({"place": place})
    assert taken == []
    for _ in range(2):
        relay.release_chunks()
    assert taken == [{"place": place} for place in range(released)]
