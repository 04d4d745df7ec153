"""Runs a batch in a worker process, and stores each answer when it is complete.

After a crash, the batch continues with the items that have no stored answer. Calls that were in progress are
repeated.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import count
from typing import Any, TypeVar

import orjson
from pydantic import TypeAdapter

from app.observability.metrics import Metrics
from app.observability.tracing import open_tracing
from app.processes.sandbox import Sandbox
from app.recording.writer import RecordingWriter
from app.running.budget_guard import BudgetGuard
from app.running.caller import Caller
from app.running.embedding import Embedded, embedder_of, takes_embeddings, texts_at_once
from app.running.item_queue import ItemQueue
from app.running.item_run import ItemRun
from app.running.item_start import RunDependencies
from app.running.run_recorder import RunRecorder
from app.running.runs import (
    AssignedBatch,
    CompletedItem,
    FailedItem,
    assign_batch,
    embed_items,
    is_assigned_together,
    new_item_run,
    run_assigned,
    run_to_outcome,
)
from app.running.spend_recorder import SpendRecorder
from app.running.ssrf_guard import SsrfGuard
from app.serving.answers import callable_names
from app.serving.catalog import LoadedArtifact
from app.serving.rollouts import RolloutTraffic
from app.settings import Settings
from app.store.batches import LONGEST_S, batch_of
from app.store.budget_accounts import BudgetAccounts
from app.store.conversations import Conversations
from app.store.ledgers import Ledgers
from app.store.repositories import Repositories, open_repositories
from models.batch import Batch
from models.budget import Payer
from models.errors import Cancelled, EndpointFailed, ParsimonyError, StoreRefused, StoreUnavailable, TooManyRequests
from models.run import RunItem, RunReply, Spent
from solvers.base import Plan

logger = logging.getLogger("parsimony.worker")
T = TypeVar("T")
ASSIGNMENT = "assignment"
OUTAGE_S, LOOK_S = 60.0, 0.5
"""How long an item waits for an endpoint whose circuit is open, where no other can be used, and how often it looks."""
EMBEDDED_AT_ONCE = 1024
"""Items of which the embeddings are held, where none waits for all the others."""
_EMBEDDED: TypeAdapter[Embedded] = TypeAdapter(Embedded)
_ASSIGNED: TypeAdapter[tuple[dict[int, str], dict[str, Any]]] = TypeAdapter(tuple[dict[int, str], dict[str, Any]])


def run_batch(job_id: str) -> None:
    """Run a queued batch to its end; continue where an earlier attempt stopped."""
    batch_id, attempt = batch_of(job_id) or ("", 0)
    with open_repositories(Settings(), client_name="parsimony-batch") as repos:
        batch = repos.batches.start_batch(batch_id, attempt)
        if batch is None:
            return
        logger.info("batch started batch=%s items=%d answered=%d", batch_id, batch.total, batch.done + batch.failed)
        try:
            asyncio.run(_run(repos, batch, attempt))
            repos.batches.end_batch(batch_id, "succeeded", None)
        except Cancelled as error:
            logger.info("%s", error)
        except StoreUnavailable:
            raise  # the result cannot be written; the watchdog will see no progress
        except BaseException as error:
            reason = _reason(error)
            repos.batches.end_batch(batch_id, "failed", reason or "an internal error; see the worker's log")
            if reason is None:
                raise


def _reason(error: BaseException) -> str | None:
    """Return why a batch failed; None for an internal error, which only the log has."""
    if isinstance(error, TimeoutError):
        return f"took longer than {LONGEST_S // 3600} hours"
    if isinstance(error, MemoryError):
        return "ran out of memory"
    return str(error) if isinstance(error, ParsimonyError) else None


async def _run(repos: Repositories, batch: Batch, attempt: int) -> None:
    async with _tools(repos, Payer(batch.key or "", batch.team or "")) as tools, asyncio.timeout(LONGEST_S):
        record = await asyncio.to_thread(
            repos.artifacts.get_record, batch.artifact.kind, batch.artifact.name, batch.artifact.version
        )
        loaded = LoadedArtifact[Plan].from_record(record, await asyncio.to_thread(repos.artifacts.load_plan, record))
        work = _Work(repos, batch, attempt, loaded, tools)
        reporting = asyncio.ensure_future(work.report_circuits_and_confidences())
        try:
            await work.run_all()
            await work.record_confidences()
        finally:
            reporting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)


@asynccontextmanager
async def _tools(repos: Repositories, payer: Payer) -> Any:
    """Return the dependencies of runs, with the currently registered endpoints and budgets."""
    metrics, tracing = Metrics(), open_tracing(version("parsimony-server"))
    caller = Caller(SsrfGuard(repos.settings.callable_hosts()), metrics, tracing=tracing)
    budgets, spending = BudgetGuard(BudgetAccounts(repos.store), metrics), SpendRecorder(repos.spending)
    recorder = RunRecorder(RecordingWriter(repos.settings.recordings_dir, metrics), repos.recordings)
    sandbox = Sandbox(repos.settings.solve_timeout_s, imports=("skops.io",))
    try:
        await recorder.read_recordings()
        budgets.update_budgets(await asyncio.to_thread(repos.budgets.get_all))
        caller.update_endpoints(await asyncio.to_thread(repos.endpoints.get_all))
        queue = ItemQueue(repos.settings.max_concurrent_items)
        yield RunDependencies(
            settings=repos.settings,
            caller=caller,
            sandbox=sandbox,
            ledgers=Ledgers(repos.store),
            is_store_up=lambda: True,
            queue=queue,
            budgets=budgets,
            spending=spending,
            rollouts=RolloutTraffic(repos.rollouts, metrics),
            conversations=Conversations(repos.store),
            recorder=recorder,
            payer=payer,
        )
    finally:
        await recorder.close()
        await asyncio.to_thread(recorder.writer.close)
        await caller.close()
        await budgets.close()
        await spending.close()
        await asyncio.to_thread(sandbox.close)
        await asyncio.to_thread(tracing.close)


@dataclass(frozen=True, slots=True)
class _Work:
    """One attempt at a batch."""

    repos: Repositories
    batch: Batch
    attempt: int
    loaded: LoadedArtifact[Plan]
    tools: RunDependencies
    recorded: dict[str, str | None] = field(default_factory=dict)
    """The problem of each endpoint's confidences that was recorded last; None: no problem."""

    async def run_all(self) -> None:
        """Run all items that have no answer."""
        if is_assigned_together(self.loaded, self.batch.limits):
            await self.run_assigned_items()
        else:
            await (self.run_embedded() if takes_embeddings(self.loaded) else self.one_by_one())

    async def report_circuits_and_confidences(self) -> None:
        """Report open circuits and differing confidences until this coroutine is canceled."""
        reported = frozenset[str]()
        while True:
            names = self.tools.caller.open_circuits()
            if names != reported:
                with suppress(StoreRefused):  # a store that is full: it is told again when circuits change
                    await self._patiently(self.repos.batches.note_circuits, self.batch.id, self.attempt, names)
                reported = names
            await self.record_confidences()
            self.tools.budgets.update_budgets(await self._patiently(self.repos.budgets.get_all))
            with suppress(StoreUnavailable, StoreRefused):  # it is repeated
                await self.tools.recorder.read_recordings()
            await asyncio.sleep(LOOK_S)

    async def record_confidences(self) -> None:
        """Record how confidences compare with those of the build, in the batch and for every server."""
        findings = self.tools.confidences.latest_findings(self.loaded.ref)
        if findings == self.recorded:  # a report that a new registration dropped is not repeated
            return
        problems = [f"endpoint {name!r}: {problem}" for name, problem in findings.items() if problem is not None]
        with suppress(StoreRefused):  # a store that is full: it is retried
            await self._patiently(self.repos.batches.note_confidences, self.batch.id, self.attempt, problems)
            await self._patiently(self.repos.confidence_reports.record_findings, self.loaded.ref, findings)
            self.recorded.update(findings)

    async def one_by_one(self) -> None:
        """Run each item by itself."""

        async def run(index: int) -> None:
            item = await self._patiently(self.repos.batches.get_item, self.batch.id, index)
            await self._keep(
                index, await self._run(lambda: run_to_outcome(self.loaded, self._new_item_run(item), self.tools))
            )

        await self._each(await self._unanswered(), run)

    async def run_embedded(self) -> None:
        """Embed the items, ``EMBEDDED_AT_ONCE`` at a time, and run each item by itself with its embedding."""
        embeddings: dict[int, Embedded] = {}

        async def run(index: int) -> None:
            item = await self._patiently(self.repos.batches.get_item, self.batch.id, index)
            attempts = count()

            def knowing() -> Awaitable[CompletedItem | FailedItem]:
                item_run = self._new_item_run(item).with_embedding(*embeddings[index], is_charged=next(attempts) > 0)
                return run_to_outcome(self.loaded, item_run, self.tools)

            await self._keep(index, await self._run(knowing))

        unanswered = await self._unanswered()
        for at in range(0, len(unanswered), EMBEDDED_AT_ONCE):
            embeddings = await self._embeddings_of(unanswered[at : at + EMBEDDED_AT_ONCE])
            await self._each(sorted(embeddings), run)

    async def run_assigned_items(self) -> None:
        """Embed the items, assign all of them within the budget, and run each with its assigned classifier.

        Embeddings and assignments that an earlier attempt stored are reused.
        """
        embeddings = await self._embeddings_of(await self._unanswered())
        if not embeddings:
            return
        indices = sorted(embeddings)
        names, facts = await self._assignment(indices, [embeddings[index][0] for index in indices])
        whole = AssignedBatch(tuple(names.values()), facts)

        async def run(index: int) -> None:
            item = await self._patiently(self.repos.batches.get_item, self.batch.id, index)
            attempts = count()

            def assigned() -> Awaitable[CompletedItem | FailedItem]:
                item_run = self._new_item_run(item).with_embedding(*embeddings[index], is_charged=next(attempts) > 0)
                return run_assigned(self.loaded, item_run, whole, names[index], self.tools)

            await self._keep(index, await self._run(assigned))

        await self._each(indices, run)

    def _new_item_run(self, item: RunItem) -> ItemRun:
        return new_item_run(self.loaded, item, self.batch.limits, self.tools)

    async def _embeddings_of(self, indices: list[int]) -> dict[int, Embedded]:
        """Return the embeddings of items; each request has as many texts as the embedder accepts."""
        embeddings: dict[int, Embedded] = {}

        async def embed(indices: list[int]) -> None:
            embeddings.update(await self._embeddings(indices))

        many = texts_at_once(self.loaded, self.tools.caller)
        await self._each([indices[at : at + many] for at in range(0, len(indices), many)], embed)
        return embeddings

    async def _embeddings(self, indices: list[int]) -> dict[int, Embedded]:
        """Return the embeddings of items: as sent, stored by an earlier attempt, or computed by one request.

        Items without an embedding are stored as failed.
        """
        batches = self.repos.batches
        items = await self._patiently(batches.get_items, self.batch.id, indices)
        made = await self._patiently(batches.list_works, self.batch.id, [f"embedding:{index}" for index in indices])
        embeddings = {index: _EMBEDDED.validate_json(one) for index, one in zip(indices, made, strict=True) if one}
        lacking = {index: item for index, item in zip(indices, items, strict=True) if index not in embeddings}
        texts = {index for index, item in lacking.items() if item.embedding is None}
        if texts:
            await self._wait_for(frozenset([embedder_of(self.loaded)]), time.monotonic() + OUTAGE_S)
        outcomes = await self._embedded(lacking, time.monotonic() + OUTAGE_S)
        there = {index: one for index, one in outcomes.items() if not isinstance(one, FailedItem)}
        if keep := {f"embedding:{index}": _EMBEDDED.dump_json(there[index]) for index in texts & there.keys()}:
            await self._patiently(batches.keep_work, self.batch.id, self.attempt, keep)
        for index, one in outcomes.items():
            if isinstance(one, FailedItem):
                await self._keep(index, one)
        return embeddings | there

    async def _embedded(self, items: Mapping[int, RunItem], until: float) -> dict[int, Embedded | FailedItem]:
        """Embed items; those for which nothing was called are tried again."""
        item_runs = [self._new_item_run(item) for item in items.values()]
        outcomes = dict(zip(items, await embed_items(self.loaded, item_runs, self.tools), strict=True))
        uncalled = {index: items[index] for index, one in outcomes.items() if _is_uncalled(one)}
        if uncalled and time.monotonic() < until:
            await asyncio.sleep(LOOK_S)
            await self._wait_for(frozenset([embedder_of(self.loaded)]), until)
            outcomes |= await self._embedded(uncalled, until)
        return outcomes

    async def _assignment(
        self, indices: list[int], vectors: Sequence[Sequence[float]]
    ) -> tuple[dict[int, str], dict[str, Any]]:
        """Return the classifier of each item, as an earlier attempt has assigned all of them, or assign them now."""
        batches = self.repos.batches
        (kept,) = await self._patiently(batches.list_works, self.batch.id, [ASSIGNMENT])
        if kept is not None:
            return _ASSIGNED.validate_json(kept)
        first = self._new_item_run(await self._patiently(batches.get_item, self.batch.id, indices[0]))
        made = await assign_batch(self.loaded, first, vectors, self.tools)
        whole = (dict(zip(indices, made.names, strict=True)), made.facts)
        await self._patiently(batches.keep_work, self.batch.id, self.attempt, {ASSIGNMENT: _ASSIGNED.dump_json(whole)})
        return whole

    async def _run(self, run: Callable[[], Awaitable[CompletedItem | FailedItem]]) -> CompletedItem | FailedItem:
        """Run an item once a classifier can be called.

        While all circuits are open, this item and all later ones would fail at once. An item is run again if nothing
        was called for it, if a limit per minute delays it, or if the store is unavailable.
        """
        names, until = frozenset(callable_names(self.loaded)), time.monotonic() + OUTAGE_S
        while True:
            await self._wait_for(names, until)
            outcome = await run()
            if isinstance(outcome, FailedItem) and isinstance(outcome.error, TooManyRequests | StoreUnavailable):
                await asyncio.sleep(min(getattr(outcome.error, "wait_s", 1.0), 60.0))  # a limit per minute of a budget
                continue
            if _was_called(outcome, names) or time.monotonic() > until:
                return outcome
            await asyncio.sleep(LOOK_S)

    async def _wait_for(self, names: frozenset[str], until: float) -> None:
        """Wait while none of the endpoints may be called."""
        while names <= self.tools.caller.open_circuits() and time.monotonic() < until:
            await asyncio.sleep(LOOK_S)

    async def _keep(self, index: int, outcome: CompletedItem | FailedItem) -> None:
        """Store what became of an item; the store may be away for a while, what was paid is not given up for that."""
        if isinstance(outcome, CompletedItem):
            line, spent = _line(self.loaded, outcome), outcome.run.spent
        else:
            line = orjson.dumps(_without_answer(outcome)).decode()
            cost, seconds = (sum(getattr(step, name) for step in outcome.steps) for name in ("cost", "seconds"))
            spent = Spent(cost=cost, seconds=seconds, unit=self.batch.unit)

        def keep() -> None:
            self.repos.batches.keep_answer(
                self.batch.id, self.attempt, index, line, is_answer=isinstance(outcome, CompletedItem), spent=spent
            )

        await self._patiently(keep)

    async def _unanswered(self) -> list[int]:
        return await self._patiently(self.repos.batches.list_unanswered, self.batch)

    async def _each(self, indices: Iterable[T], do: Callable[[T], Awaitable[None]]) -> None:
        """Do something for each item, or for several together, so many at the same time as the batch may."""
        waiting = iter(indices)

        async def in_turn() -> None:
            for index in waiting:
                await do(index)

        workers = [asyncio.ensure_future(in_turn()) for _ in range(self.batch.max_concurrency)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()

    async def _patiently(self, work: Callable[..., T], *args: Any) -> T:
        """Ask the store, off the event loop; wait for it while it is away."""
        until = time.monotonic() + LONGEST_S
        while True:
            try:
                return await asyncio.to_thread(work, *args)
            except StoreUnavailable as error:
                if time.monotonic() > until:
                    raise
                logger.warning("batch waits batch=%s error=%s", self.batch.id, error)
                await asyncio.sleep(1.0)


def _was_called(outcome: CompletedItem | FailedItem, names: frozenset[str]) -> bool:
    """Return whether a run has called any of these, or its embedder in vain, or has an answer or a fault without it."""
    if isinstance(outcome, CompletedItem) or not isinstance(outcome.error, EndpointFailed):
        return True
    return any(step.attempts and (step.classifier in names or step.error is not None) for step in outcome.steps)


def _is_uncalled(outcome: Embedded | FailedItem) -> bool:
    """Return whether a text has no embedding because nothing was called, as while the embedder's circuit is open."""
    return isinstance(outcome, FailedItem) and not any(step.attempts for step in outcome.steps)


def _line(loaded: LoadedArtifact[Plan], done: CompletedItem) -> str:
    """Write a run as replies do; the facts may have been read from JSON."""
    facts = orjson.loads(orjson.dumps(done.facts, default=vars))
    reply = {**done.run.model_dump(mode="json"), "artifact": loaded.ref.model_dump(mode="json"), **facts}
    return RunReply.model_validate_json(orjson.dumps(reply)).model_dump_json()


def _without_answer(undone: FailedItem) -> dict[str, Any]:
    """Write a run without an answer, and the class of its error, of which HTTP makes the status."""
    steps = [step.model_dump(mode="json") for step in undone.steps]
    return {"id": undone.item_id, "error": str(undone.error), "kind": type(undone.error).__name__, "steps": steps}
