"""The items of batches and their answers: each answer is stored and counted in one step of the store, so that one that
was paid for is never called again, whenever the worker dies.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.store.client import Store, make_key, read_model
from models.batch import Batch
from models.errors import Cancelled
from models.run import RunItem, Spent

WAITING_S = 30 * 24 * 3600
"""How long a batch is kept that has not ended."""
DONE, NOT_DONE = "done", "failed"
"""What is counted of items: those with an answer, and those without."""
ENDED = ("succeeded", "failed", "cancelled")
TOTALS = make_key("batches", "totals")
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
for place = 3, #ARGV, 2 do
    redis.call('HSET', KEYS[2], ARGV[place], ARGV[place + 1])
end
redis.call('EXPIRE', KEYS[2], ARGV[2])
return {{1}}
"""
"""Stores what was worked out on the way, if the batch still runs."""


@dataclass(frozen=True, slots=True)
class BatchTotals:
    """All batches together. ended: batches by what became of them; items: by whether they have an answer; spent: by
    unit."""

    ended: Mapping[str, int]
    items: Mapping[str, int]
    spent: Mapping[str, float]


class BatchItems:
    """The items and answers of one store's batches."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get_item(self, batch_id: str, place: int) -> RunItem:
        """Give an item of a batch that has not ended; raises Cancelled."""
        return self.get_items(batch_id, [place])[0]

    def get_items(self, batch_id: str, places: Sequence[int]) -> list[RunItem]:
        """Give some items of a batch that has not ended; raises Cancelled."""
        texts: list[bytes | None] = self._store.execute("hmget", items_key(batch_id), list(places))
        if None in texts:
            raise Cancelled(f"{batch_id} has ended")
        return [read_model(RunItem, text) for text in texts if text is not None]

    def list_unanswered(self, batch: Batch) -> list[int]:
        """List the items that have no stored answer, in order."""
        answered = {int(place) for place in self._store.execute("hkeys", answers_key(batch.id))}
        return [place for place in range(batch.total) if place not in answered]

    def keep_answer(self, batch_id: str, attempt: int, place: int, line: str, *, is_answer: bool, spent: Spent) -> None:
        """Store what became of an item, and count it; raises Cancelled if the batch is not run by this attempt any
        more."""
        counter = DONE if is_answer else NOT_DONE
        figures = (repr(float(spent.cost)), repr(float(spent.seconds)), WAITING_S)
        given = [attempt, place, line, counter, *figures, f"{_SPENT}{spent.unit}"]
        keys = [record_key(batch_id), answers_key(batch_id), TOTALS]
        _refuse_ended(batch_id, self._store.run(_KEEP_ANSWER, keys, given))

    def keep_work(self, batch_id: str, attempt: int, works: Mapping[str, bytes]) -> None:
        """Store what was worked out on the way to the answers, by name, so that it need not be found again; raises
        Cancelled."""
        pairs = [each for work in works.items() for each in work]
        given = [attempt, WAITING_S, *pairs]
        _refuse_ended(batch_id, self._store.run(_KEEP_WORK, [record_key(batch_id), work_key(batch_id)], given))

    def list_works(self, batch_id: str, names: Sequence[str]) -> list[bytes | None]:
        """Give what was worked out on the way, by name; None for what was not."""
        kept: list[bytes | None] = self._store.execute("hmget", work_key(batch_id), list(names))
        return kept

    def get_totals(self) -> BatchTotals:
        """Count what was made of all batches ever, those that are forgotten, too."""
        counted = self._store.get_texts(TOTALS)
        return BatchTotals(
            ended={status: int(counted.get(ended_field(status), 0)) for status in ENDED},
            items={outcome: int(counted.get(outcome, 0)) for outcome in (DONE, NOT_DONE)},
            spent={name.removeprefix(_SPENT): float(cost) for name, cost in counted.items() if name.startswith(_SPENT)},
        )

    def iterate_answers(self, batch: Batch) -> Iterator[tuple[int, str]]:
        """Give the answers that are stored, with the places of their items, in the order of these."""
        for first in range(0, batch.total, _PIECE):
            places = range(first, min(first + _PIECE, batch.total))
            texts: list[bytes | None] = self._store.execute("hmget", answers_key(batch.id), list(places))
            yield from ((place, text.decode()) for place, text in zip(places, texts, strict=True) if text is not None)

    def keep_items(self, batch_id: str, items: Sequence[RunItem]) -> None:
        """Write the items before the batch is there: nobody sees half of a file."""
        for first in range(0, len(items), _PIECE):
            piece = enumerate(items[first : first + _PIECE], start=first)
            texts = {str(place): item.model_dump_json(exclude_unset=True) for place, item in piece}
            with self._store.open_pipeline() as pipe:
                pipe.hset(items_key(batch_id), mapping=texts)  # type: ignore[arg-type]
                pipe.expire(items_key(batch_id), WAITING_S)
                pipe.execute()


def _refuse_ended(batch_id: str, reply: list[int]) -> None:
    if reply[0] < 0:
        raise Cancelled(f"{batch_id} is not run here any more")


def ended_field(status: str) -> str:
    """Spell the field that counts the batches of which this became, in the key ``TOTALS``."""
    return f"{_ENDED}{status}"


def record_key(batch_id: str) -> str:
    """Spell the key of what is known of a batch."""
    return make_key("batch", batch_id)


def items_key(batch_id: str) -> str:
    """Spell the key of its items."""
    return make_key("batch-items", batch_id)


def answers_key(batch_id: str) -> str:
    """Spell the key of its answers."""
    return make_key("batch-answers", batch_id)


def work_key(batch_id: str) -> str:
    """Spell the key of what was worked out on the way: embeddings, and the assignment of a portfolio."""
    return make_key("batch-work", batch_id)
