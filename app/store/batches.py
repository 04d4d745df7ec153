"""Batches in the store: their queue, status, heartbeats, and expiry.

A batch's items are deleted when it ends. Its record and answers expire ``BATCH_TTL_S`` later. A batch that no worker
starts expires ``BATCH_ITEMS_TTL_S`` after it was queued.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from typing import cast
from uuid import uuid4

from app.processes.clock import current_timestamp
from app.store.batch_items import (
    BATCH_ITEMS_TTL_S,
    TOTALS,
    BatchItems,
    answers_key,
    checkpoint_key,
    ended_field,
    items_key,
    record_key,
)
from app.store.client import Pipeline, Store, make_store_key, read_model
from app.store.job_queue import JobQueue
from app.store.paging import DEFAULT_PAGE_SIZE, Page, list_newest_page
from models import BuildStatus
from models.batch import Batch, BatchFacts
from models.errors import TooManyBuilds, UnknownBatch
from models.run import RunItem, Spent

BATCH_TTL_S = 7 * 24 * 3600
"""How long an ended batch and its output are kept."""
MAX_BATCH_DURATION_S = 24 * 3600
"""How long a batch may run, from when a worker takes it."""
MAX_WORKER_DEATHS = 3
"""How often in a row a worker may die of a batch without a single answer before the batch is given up."""
PREFIX = "batch-"
_JOB = "app.running.batch_worker.run_batch"
_KIND = "batch"
_ALL, _NUMBER = make_store_key("batches", "all"), make_store_key("batches", "number")
_OPEN, _BEATS = make_store_key("batches", "open"), make_store_key("batches", "beats")


class Batches(BatchItems):
    """Repository of batches."""

    def __init__(self, store: Store, *, queue_limit: int) -> None:
        super().__init__(store)
        self._queue, self._queue_limit = JobQueue(store), queue_limit

    def enqueue_batch(self, facts: BatchFacts, items: Iterable[RunItem]) -> Batch:
        """Queue a batch; raises TooManyBuilds if the queue is full."""
        waiting = sum(batch.status == "queued" for batch in self.list_unended())
        if waiting >= self._queue_limit:
            raise TooManyBuilds(f"queue full: {waiting} batches, maximum is {self._queue_limit}; retry later")
        self.store_items(facts.id, items)
        counts = dict.fromkeys(("begun_with", "deaths", "done", "failed", "cost", "seconds"), "0")
        record = {"about": facts.model_dump_json(), "status": "queued", "attempt": "1", **counts}

        def change(pipe: Pipeline) -> None:
            number = int(cast("bytes | None", pipe.get(_NUMBER)) or 0) + 1
            pipe.multi()
            pipe.set(_NUMBER, number)
            pipe.zadd(_ALL, {facts.id: number})
            pipe.sadd(_OPEN, facts.id)
            pipe.hset(record_key(facts.id), mapping=record)  # type: ignore[arg-type]
            pipe.expire(record_key(facts.id), BATCH_ITEMS_TTL_S)
            self._enqueue(pipe, facts.id, 1)

        self._store.run_transaction(change, _NUMBER)
        return _read(facts.id, {name.encode(): value.encode() for name, value in record.items()})

    def get(self, batch_id: str) -> Batch:
        """Return a batch; raises UnknownBatch."""
        return _read(batch_id, self._store.execute("hgetall", record_key(batch_id)))

    def list_page(self, *, limit: int = DEFAULT_PAGE_SIZE, cursor: str | None = None) -> Page[Batch]:
        """Return a page of batches, newest first."""
        self._forget_gone()
        page = list_newest_page(self._store, _KIND, _ALL, limit, cursor)
        return Page(self._those(page.items), page.next, page.total)

    def list_unended(self) -> list[Batch]:
        """Return the queued and running batches."""
        return self._those(self._store.get_members(_OPEN))

    def cancel(self, batch_id: str) -> Batch:
        """Cancel a queued or running batch; no effect if it has ended.

        Raises UnknownBatch.
        """
        job = f"{batch_id}-{self.enqueue_attempt(batch_id)}"
        batch = self.end_batch(batch_id, "cancelled", None)
        self._queue.stop(job)  # a worker that has just taken it sees its status before its next answer
        return batch

    def start_batch(self, batch_id: str, attempt: int) -> Batch | None:
        """Mark a queued batch as running; return None if this attempt is not queued."""

        def change(pipe: Pipeline) -> bool:
            record = cast("dict[bytes, bytes]", pipe.hgetall(record_key(batch_id)))
            if record.get(b"status") != b"queued" or record[b"attempt"] != str(attempt).encode():
                return False
            pipe.multi()
            pipe.hset(record_key(batch_id), "status", "running")
            pipe.hsetnx(record_key(batch_id), "started_at", current_timestamp())
            pipe.hincrby(_BEATS, batch_id, 1)
            return True

        return self.get(batch_id) if self._store.run_transaction(change, record_key(batch_id)) else None

    def renew_heartbeat(self, batch_id: str) -> None:
        """Renew the heartbeat of a batch."""
        self._store.execute("hincrby", _BEATS, batch_id, 1)

    def record_circuits(self, batch_id: str, attempt: int, names: Collection[str]) -> None:
        """Record the open circuit breakers in the worker of a running attempt."""
        self._note(batch_id, attempt, "open_circuits", sorted(names))

    def record_confidence_problems(self, batch_id: str, attempt: int, problems: Sequence[str]) -> None:
        """Record how the confidences of a running attempt differ from the build's.

        The record remains after the batch has ended.
        """
        self._note(batch_id, attempt, "confidence_problems", problems)

    def _note(self, batch_id: str, attempt: int, field: str, texts: Sequence[str]) -> None:
        def change(pipe: Pipeline) -> None:
            record = cast("dict[bytes, bytes]", pipe.hgetall(record_key(batch_id)))
            if record.get(b"status") == b"running" and record[b"attempt"] == str(attempt).encode():
                pipe.multi()
                pipe.hset(record_key(batch_id), field, json.dumps(texts))

        self._store.run_transaction(change, record_key(batch_id))

    def list_heartbeats(self) -> dict[str, int]:
        """Return the heartbeat counter of each running batch."""
        return {batch_id: int(beat) for batch_id, beat in self._store.get_texts(_BEATS).items()}

    def is_waiting(self, batch_id: str) -> bool:
        """Return whether the batch waits in the job queue."""
        job = f"{batch_id}-{self.enqueue_attempt(batch_id)}"
        return self._queue.has_job(job)

    def end_batch(self, batch_id: str, status: BuildStatus, error: str | None) -> Batch:
        """Set the final status of a batch; no effect if it has ended.

        Raises UnknownBatch.
        """

        def change(pipe: Pipeline) -> None:
            batch = _read(batch_id, cast("dict[bytes, bytes]", pipe.hgetall(record_key(batch_id))))
            if not batch.ended:
                pipe.multi()
                _write_end(pipe, batch_id, status, error)

        self._store.run_transaction(change, record_key(batch_id))
        return self.get(batch_id)

    def requeue_or_fail(self, batch_id: str, attempt: int, why: str) -> None:
        """Queue a batch again after its worker died; it continues with unanswered items.

        After several consecutive deaths without any answer, the batch fails instead.
        """

        def change(pipe: Pipeline) -> None:
            record = cast("dict[bytes, bytes]", pipe.hgetall(record_key(batch_id)))
            batch = _read(batch_id, record)
            if batch.ended or int(record[b"attempt"]) != attempt:
                return
            finished = batch.done + batch.failed
            deaths = 1 + (int(record[b"deaths"]) if finished == int(record[b"begun_with"]) else 0)
            pipe.multi()
            if deaths >= MAX_WORKER_DEATHS:
                _write_end(pipe, batch_id, "failed", f"{why}; {deaths} times without an answer")
                return
            again = {"status": "queued", "attempt": attempt + 1, "deaths": deaths, "begun_with": finished}
            pipe.hset(record_key(batch_id), mapping=again)  # type: ignore[arg-type]
            pipe.hdel(record_key(batch_id), "open_circuits")
            pipe.hdel(_BEATS, batch_id)
            self._enqueue(pipe, batch_id, attempt + 1)

        self._store.run_transaction(change, record_key(batch_id))

    def enqueue_attempt(self, batch_id: str) -> int:
        """Return the number of the current attempt of a batch; raises UnknownBatch."""
        attempt = self._store.execute("hget", record_key(batch_id), "attempt")
        if attempt is None:
            raise UnknownBatch(f"batch {batch_id!r} not found")
        return int(attempt)

    def _those(self, ids: Sequence[str]) -> list[Batch]:
        """Read batches; expired ones are omitted."""
        with self._store.open_pipeline() as pipe:
            for batch_id in ids:
                pipe.hgetall(record_key(batch_id))
            records = cast("list[dict[bytes, bytes]]", pipe.execute())
        return [_read(batch_id, record) for batch_id, record in zip(ids, records, strict=True) if record]

    def _forget_gone(self) -> None:
        """Remove expired batches from the list."""
        ids = [name.decode() for name in self._store.execute("zrange", _ALL, 0, -1)]
        with self._store.open_pipeline() as pipe:
            for batch_id in ids:
                pipe.exists(record_key(batch_id))
            there = cast("list[int]", pipe.execute())
        gone = [batch_id for batch_id, is_there in zip(ids, there, strict=True) if not is_there]
        if gone:
            self._store.execute("zrem", _ALL, *gone)
            self._store.execute("srem", _OPEN, *gone)

    def _enqueue(self, pipe: Pipeline, batch_id: str, attempt: int) -> None:
        """Queue a separate job for each attempt, so that leftovers of older ones do not matter."""
        # the batch ends itself before its job does
        self._queue.enqueue_job(pipe, _JOB, f"{batch_id}-{attempt}", MAX_BATCH_DURATION_S + 60)


def new_id() -> str:
    """Return a new batch id."""
    return f"{PREFIX}{uuid4().hex}"


def parse_job_id(job_id: str) -> tuple[str, int] | None:
    """Return the batch id and the attempt of a job id; None for a build's job.

    >>> parse_job_id("batch-7d0c-2"), parse_job_id("7d0c")
    (('batch-7d0c', 2), None)
    """
    batch_id, _, attempt = job_id.rpartition("-")
    return (batch_id, int(attempt)) if job_id.startswith(PREFIX) and attempt.isdecimal() else None


def _write_end(pipe: Pipeline, batch_id: str, status: BuildStatus, error: str | None) -> None:
    facts = {"status": status, "finished_at": current_timestamp()} | ({} if error is None else {"error": error})
    pipe.hset(record_key(batch_id), mapping=facts)  # type: ignore[arg-type]
    pipe.hdel(record_key(batch_id), "open_circuits")
    pipe.hincrby(TOTALS, ended_field(status), 1)
    pipe.srem(_OPEN, batch_id)
    pipe.hdel(_BEATS, batch_id)
    pipe.delete(items_key(batch_id), checkpoint_key(batch_id))
    pipe.expire(record_key(batch_id), BATCH_TTL_S)
    pipe.expire(answers_key(batch_id), BATCH_TTL_S)


def _read(batch_id: str, record: dict[bytes, bytes]) -> Batch:
    if not record:
        raise UnknownBatch(f"batch {batch_id!r} not found")
    fields = {name.decode(): value.decode() for name, value in record.items()}
    facts = read_model(BatchFacts, record[b"about"])
    spent = Spent(cost=float(fields["cost"]), seconds=float(fields["seconds"]), unit=facts.unit)
    return Batch(
        **dict(facts),
        status=cast("BuildStatus", fields["status"]),
        done=int(fields["done"]),
        failed=int(fields["failed"]),
        spent=spent,
        started_at=fields.get("started_at"),
        finished_at=fields.get("finished_at"),
        error=fields.get("error"),
        open_circuits=tuple(json.loads(fields.get("open_circuits", "[]"))),
        confidence_problems=tuple(json.loads(fields.get("confidence_problems", "[]"))),
    )
