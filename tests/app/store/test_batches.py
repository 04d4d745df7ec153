"""Batches in the store: what may follow on what, answers that are counted once, and what goes when."""

from typing import Any, cast

import pytest

from app.building.watchdog import HEARTBEAT_TIMEOUT_S, Watchdog
from app.processes.clock import current_timestamp
from app.store.batch_items import BATCH_ITEMS_TTL_S, ENDED
from app.store.batches import BATCH_TTL_S, MAX_WORKER_DEATHS, Batches, new_id, parse_job_id
from app.store.client import Store, make_store_key
from app.store.repositories import Repositories
from models import ArtifactRef, BuildStatus, InvalidRequest
from models.batch import Batch, BatchFacts
from models.errors import Cancelled, TooManyBuilds, UnknownBatch
from models.run import RunItem, RunLimits, Spent


@pytest.fixture
def batches(repos: Repositories) -> Batches:
    return repos.batches


def added(batches: Batches, items: int = 3, **changes: Any) -> Batch:
    artifact, limits = ArtifactRef(kind="cascade", name="digits", version=1), RunLimits(deadline=25.0)
    facts: dict[str, Any] = {"id": new_id(), "artifact": artifact, "limits": limits, "max_concurrency": 2}
    facts |= {"total": items, "unit": "ms", "created_at": current_timestamp()}
    return batches.enqueue_batch(BatchFacts(**facts | changes), [RunItem(item=[i], id=str(i)) for i in range(items)])


def keep(
    batches: Batches, batch: Batch, place: int, line: str = "{}", *, attempt: int = 1, answer: bool = True
) -> None:
    spent = Spent(cost=2.0, seconds=0.5, unit="ms")
    batches.store_answer(batch.id, attempt, place, line, is_answer=answer, spent=spent)


def test_a_batch_that_is_queued_is_given_whatever_the_store_refuses_afterwards(batches: Batches, store: Store) -> None:
    store.client.acl_setuser("default", enabled=True, nopass=True, commands=["-hgetall"])
    try:
        batch = added(batches)
    finally:
        store.client.acl_setuser("default", enabled=True, nopass=True, commands=["+hgetall"])
    assert batches.get(batch.id) == batch


def test_a_batch_is_queued_with_all_that_was_asked(batches: Batches) -> None:
    batch = added(batches)
    assert (batch.status, batch.done, batch.failed, batch.total) == ("queued", 0, 0, 3)
    assert batch == batches.get(batch.id)
    assert batch.limits == RunLimits(deadline=25.0)
    assert batches.get_item(batch.id, 2) == RunItem(item=[2], id="2")
    assert batches.is_waiting(batch.id)


def test_what_was_made_of_all_batches_is_counted_and_outlives_them(batches: Batches, repos: Repositories) -> None:
    before = batches.get_totals()
    for status, unit in (("succeeded", "USD"), ("failed", "USD"), ("cancelled", "ms")):
        batch = added(batches)
        batches.start_batch(batch.id, 1)
        for place, answer in ((0, True), (1, False), (1, True)):
            spent = Spent(cost=2.5, seconds=0.5, unit=unit)
            batches.store_answer(batch.id, 1, place, "{}", is_answer=answer, spent=spent)
        batches.end_batch(batch.id, cast("BuildStatus", status), None)
        batches.end_batch(batch.id, "failed", "again")
        repos.store.execute("delete", make_store_key("batch", batch.id))
    after = batches.get_totals()
    assert {status: after.ended[status] - before.ended[status] for status in after.ended} == dict.fromkeys(ENDED, 1)
    assert (after.items["done"] - before.items["done"], after.items["failed"] - before.items["failed"]) == (3, 3)
    assert after.spent["USD"] - before.spent.get("USD", 0.0) == pytest.approx(10.0)
    assert after.spent["ms"] - before.spent.get("ms", 0.0) == pytest.approx(5.0)


def test_an_answer_is_counted_once_however_often_it_comes(batches: Batches) -> None:
    batch = added(batches)
    batches.start_batch(batch.id, 1)
    keep(batches, batch, 1, "first")
    keep(batches, batch, 1, "again")
    keep(batches, batch, 0, "none", answer=False)
    kept = batches.get(batch.id)
    assert (kept.done, kept.failed, kept.spent) == (1, 1, Spent(cost=4.0, seconds=1.0, unit="ms"))
    assert [text for _, text in batches.iterate_answers(kept)] == ["none", "first"]
    assert batches.list_unanswered(kept) == [2]


def test_only_the_attempt_that_runs_a_batch_may_write(batches: Batches) -> None:
    batch = added(batches)
    with pytest.raises(Cancelled):
        keep(batches, batch, 0)
    assert batches.start_batch(batch.id, 2) is None
    assert batches.start_batch(batch.id, 1) is not None
    assert batches.start_batch(batch.id, 1) is None
    assert batches.list_checkpoints(batch.id, ["assignment"]) == [None]
    batches.store_checkpoint(batch.id, 1, {"assignment": b"{}", "embedding:0": b"[]"})
    for reason in ("it was told to stop", "it was killed"):
        batches.requeue_or_fail(batch.id, 1, reason)
    assert batches.enqueue_attempt(batch.id) == 2
    assert batches.list_checkpoints(batch.id, ["embedding:0", "embedding:1", "assignment"]) == [b"[]", None, b"{}"]
    assert batches.start_batch(batch.id, 2) is not None
    with pytest.raises(Cancelled):
        keep(batches, batch, 0, attempt=1)
    with pytest.raises(Cancelled):
        batches.store_checkpoint(batch.id, 1, {"assignment": b"{}", "embedding:0": b"[]"})
    keep(batches, batch, 0, attempt=2)
    assert batches.get(batch.id).done == 1


def test_a_batch_is_tried_again_as_long_as_it_comes_further(batches: Batches) -> None:
    batch = added(batches, 10)
    attempt = 1
    for place in range(2 * MAX_WORKER_DEATHS):
        assert batches.start_batch(batch.id, attempt) is not None
        keep(batches, batch, place, attempt=attempt)
        batches.requeue_or_fail(batch.id, attempt, "it died")
        attempt += 1
    for _ in range(MAX_WORKER_DEATHS - 1):
        assert batches.start_batch(batch.id, attempt) is not None
        batches.requeue_or_fail(batch.id, attempt, "it died")
        attempt += 1
    failed = batches.get(batch.id)
    assert (failed.status, failed.done) == ("failed", 2 * MAX_WORKER_DEATHS)
    assert (failed.error or "").startswith("it died; 3 times")


def test_what_has_ended_stays_as_it_is_and_its_items_are_gone(batches: Batches, repos: Repositories) -> None:
    batch = added(batches)
    batches.start_batch(batch.id, 1)
    keep(batches, batch, 0)
    cancelled = batches.cancel(batch.id)
    assert (cancelled.status, cancelled.finished_at is not None) == ("cancelled", True)
    batches.requeue_or_fail(batch.id, 1, "it died")
    assert batches.end_batch(batch.id, "failed", "no") == batches.cancel(batch.id) == cancelled
    with pytest.raises(Cancelled):
        keep(batches, batch, 1)
    with pytest.raises(Cancelled):
        batches.get_item(batch.id, 1)
    assert list(batches.iterate_answers(cancelled)) == [(0, "{}")]
    assert batches.list_unended() == []
    for kind in ("batch", "batch-answers"):
        assert 0 < repos.store.execute("ttl", make_store_key(kind, batch.id)) <= BATCH_TTL_S


def test_nothing_of_a_batch_stays_for_ever(batches: Batches, repos: Repositories) -> None:
    batch = added(batches)
    batches.start_batch(batch.id, 1)
    keep(batches, batch, 0)
    batches.store_checkpoint(batch.id, 1, {"assignment": b"{}", "embedding:0": b"[]"})
    for kind in ("batch", "batch-items", "batch-answers", "batch-work"):
        assert 0 < repos.store.execute("ttl", make_store_key(kind, batch.id)) <= BATCH_ITEMS_TTL_S
    repos.store.execute("delete", make_store_key("batch", batch.id))
    assert batches.list_page().items == []
    assert repos.store.get_members(make_store_key("batches", "open")) == []
    with pytest.raises(UnknownBatch):
        batches.get(batch.id)


def test_batches_come_in_pages_the_newest_first(batches: Batches) -> None:
    ids = [added(batches, 1).id for _ in range(5)]
    first = batches.list_page(limit=3)
    rest = batches.list_page(limit=3, cursor=first.next)
    assert [batch.id for batch in (*first.items, *rest.items)] == ids[::-1]
    assert (first.total, rest.next) == (5, None)
    batches.start_batch(ids[0], 1)
    with pytest.raises(TooManyBuilds, match="4"):
        added(Batches(batches._store, queue_limit=4))
    assert [parse_job_id(job) for job in ("7d0c3b9a", "batch-", "batch-x", "batch-7d0c-", "batch-7d0c-x", "")] == [
        None
    ] * 6
    with pytest.raises(InvalidRequest):
        batches.list_page(cursor="none")


def test_a_batch_whose_beat_stands_still_is_queued_again(repos: Repositories) -> None:
    moment = 0.0
    watchdog = Watchdog(repos.builds, repos.batches, lambda: moment)
    batch = added(repos.batches)
    waiting, beating = added(repos.batches), added(repos.batches)
    for each in (batch, beating):
        repos.batches.start_batch(each.id, 1)
    for _ in range(int(HEARTBEAT_TIMEOUT_S) + 5):
        moment += 1.0
        repos.batches.renew_heartbeat(beating.id)
        watchdog.check_builds()
        if moment < HEARTBEAT_TIMEOUT_S:
            assert repos.batches.get(batch.id).status == "running"
    assert (repos.batches.get(batch.id).status, repos.batches.enqueue_attempt(batch.id)) == ("queued", 2)
    assert (repos.batches.get(waiting.id).status, repos.batches.enqueue_attempt(waiting.id)) == ("queued", 1)
    assert repos.batches.get(beating.id).status == "running"


def test_problems_of_confidences_are_noted_by_the_attempt_that_runs_and_stay(batches: Batches) -> None:
    batch = added(batches)
    batches.record_confidence_problems(batch.id, 1, ["too early"])
    batches.start_batch(batch.id, 1)
    batches.record_confidence_problems(batch.id, 2, ["another attempt"])
    assert batches.get(batch.id).confidence_problems == ()
    batches.record_confidence_problems(batch.id, 1, ["a", "b"])
    batches.record_circuits(batch.id, 1, ["a"])
    ended = batches.end_batch(batch.id, "succeeded", None)
    assert (ended.confidence_problems, ended.open_circuits) == (("a", "b"), ())
