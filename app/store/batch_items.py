"""Items and answers of batches.

An answer is stored and counted in one atomic step. So a paid answer is never requested again, even if the worker dies.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from app.store.client import Store, make_store_key, read_model
from models.batch import Batch
from models.errors import Cancelled
from models.run import RunItem, Spent

BATCH_ITEMS_TTL_S = 30 * 24 * 3600
"""How long a batch is kept that has not ended."""
DONE, NOT_DONE = "done", "failed"
"""What is counted of items: those with an answer, and those without."""
ENDED = ("succeeded", "failed", "cancelled")
TOTALS = make_store_key("batches", "totals")
_ENDED, _SPENT = "ended:", "spent:"
_PIECE = 500
_RUNS_STILL = """
local status, attempt = unpack(redis.call('HMGET', KEYS[1], 'status', 'attempt'))
if status ~= 'running' or attempt ~= ARGV[1] then
    return {-1}
end
"""
_KEEP_ANSWER = f"""{_RUNS_STILL}
if redis.call('HSETNX', KEYS[2], ARGV[2], ARGV[3]) == 0 then
    return {{0}}
end
redis.call('EXPIRE', KEYS[2], ARGV[7])
redis.call('HINCRBY', KEYS[1], ARGV[4], 1)
redis.call('HINCRBYFLOAT', KEYS[1], 'cost', ARGV[5])
redis.call('HINCRBYFLOAT', KEYS[1], 'seconds', ARGV[6])
redis.call('HINCRBY', KEYS[3], ARGV[4], 1)
redis.call('HINCRBYFLOAT', KEYS[3], ARGV[8], ARGV[5])
return {{1}}
"""
"""Stores an answer, if the batch still runs and has none for that item, and then counts it, of the batch and of all."""
_KEEP_WORK = f"""{_RUNS_STILL}
for index = 3, #ARGV, 2 do
    redis.call('HSET', KEYS[2], ARGV[index], ARGV[index + 1])
end
redis.call('EXPIRE', KEYS[2], ARGV[2])
return {{1}}
"""
"""Stores what was worked out on the way, if the batch still runs."""


@dataclass(frozen=True, slots=True)
class BatchTotals:
    """Totals of all batches since the store was created.

    Attributes:
        ended: number of batches by final status.
        items: number of items by outcome, answered or failed.
        spent: cost by unit.
    """

    ended: Mapping[str, int]
    items: Mapping[str, int]
    spent: Mapping[str, float]


class BatchItems:
    """Repository of the items and answers of batches."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get_item(self, batch_id: str, index: int) -> RunItem:
        """Return one item of a running batch; raises Cancelled if the batch has ended."""
        return self.get_items(batch_id, [index])[0]

    def get_items(self, batch_id: str, indices: Sequence[int]) -> list[RunItem]:
        """Return several items of a running batch; raises Cancelled if it has ended."""
        texts: list[bytes | None] = self._store.execute("hmget", items_key(batch_id), list(indices))
        if None in texts:
            raise Cancelled(f"batch {batch_id} has ended")
        return [read_model(RunItem, text) for text in texts if text is not None]

    def list_unanswered(self, batch: Batch) -> list[int]:
        """Return the positions of items without a stored answer, in order."""
        answered = {int(index) for index in self._store.execute("hkeys", answers_key(batch.id))}
        return [index for index in range(batch.total) if index not in answered]

    def store_answer(
        self, batch_id: str, attempt: int, index: int, line: str, *, is_answer: bool, spent: Spent
    ) -> None:
        """Store the outcome of an item, and add it to the totals, atomically.

        Raises Cancelled if another attempt runs the batch, or if it has ended.
        """
        counter = DONE if is_answer else NOT_DONE
        figures = (repr(float(spent.cost)), repr(float(spent.seconds)), BATCH_ITEMS_TTL_S)
        given = [attempt, index, line, counter, *figures, f"{_SPENT}{spent.unit}"]
        keys = [record_key(batch_id), answers_key(batch_id), TOTALS]
        _refuse_ended(batch_id, self._store.run(_KEEP_ANSWER, keys, given))

    def store_checkpoint(self, batch_id: str, attempt: int, works: Mapping[str, bytes]) -> None:
        """Store intermediate results by name, such as embeddings, for later attempts.

        Raises Cancelled if another attempt runs the batch, or if it has ended.
        """
        pairs = [each for work in works.items() for each in work]
        given = [attempt, BATCH_ITEMS_TTL_S, *pairs]
        _refuse_ended(batch_id, self._store.run(_KEEP_WORK, [record_key(batch_id), checkpoint_key(batch_id)], given))

    def list_checkpoints(self, batch_id: str, names: Sequence[str]) -> list[bytes | None]:
        """Return stored intermediate results by name; None for missing ones."""
        kept: list[bytes | None] = self._store.execute("hmget", checkpoint_key(batch_id), list(names))
        return kept

    def get_totals(self) -> BatchTotals:
        """Return the totals of all batches ever, including deleted ones."""
        counted = self._store.get_texts(TOTALS)
        return BatchTotals(
            ended={status: int(counted.get(ended_field(status), 0)) for status in ENDED},
            items={outcome: int(counted.get(outcome, 0)) for outcome in (DONE, NOT_DONE)},
            spent={name.removeprefix(_SPENT): float(cost) for name, cost in counted.items() if name.startswith(_SPENT)},
        )

    def iterate_answers(self, batch: Batch) -> Iterator[tuple[int, str]]:
        """Yield the position and the answer of each answered item, in order."""
        for first in range(0, batch.total, _PIECE):
            indices = range(first, min(first + _PIECE, batch.total))
            texts: list[bytes | None] = self._store.execute("hmget", answers_key(batch.id), list(indices))
            yield from ((index, text.decode()) for index, text in zip(indices, texts, strict=True) if text is not None)

    def store_items(self, batch_id: str, items: Iterable[RunItem]) -> None:
        """Store the items of a batch before its record, so that no batch is incomplete."""
        numbered = enumerate(items)
        while piece := list(islice(numbered, _PIECE)):
            texts = {str(index): item.model_dump_json(exclude_unset=True) for index, item in piece}
            with self._store.open_pipeline() as pipe:
                pipe.hset(items_key(batch_id), mapping=texts)  # type: ignore[arg-type]
                pipe.expire(items_key(batch_id), BATCH_ITEMS_TTL_S)
                pipe.execute()


def _refuse_ended(batch_id: str, reply: list[int]) -> None:
    if reply[0] < 0:
        raise Cancelled(f"batch {batch_id} is run by another worker")


def ended_field(status: str) -> str:
    """Return the field of ``TOTALS`` that counts batches with this final status."""
    return f"{_ENDED}{status}"


def record_key(batch_id: str) -> str:
    """Return the key of a batch's record."""
    return make_store_key("batch", batch_id)


def items_key(batch_id: str) -> str:
    """Return the key of a batch's items."""
    return make_store_key("batch-items", batch_id)


def answers_key(batch_id: str) -> str:
    """Return the key of a batch's answers."""
    return make_store_key("batch-answers", batch_id)


def checkpoint_key(batch_id: str) -> str:
    """Return the key of a batch's intermediate results (embeddings, assignment)."""
    return make_store_key("batch-work", batch_id)
