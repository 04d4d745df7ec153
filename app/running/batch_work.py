"""One attempt at a batch: order of items, versions, and storage of answers."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

import orjson
from pydantic import TypeAdapter

from app.running.embedding import Embedded, embedder_name, max_texts_per_call, require_embedder, shares_embeddings
from app.running.endpoint_caller import UNKNOWN
from app.running.item_run import ItemRun
from app.running.item_start import RunDependencies
from app.running.runs import (
    AssignedBatch,
    CompletedItem,
    FailedItem,
    assign_batch,
    embed_items,
    is_assigned_together,
    new_item_run,
    record_in_rollout,
    run_assigned,
    run_to_outcome,
)
from app.serving.catalog import LoadedArtifact
from app.serving.decision_replies import list_callable_names
from app.store.batches import MAX_BATCH_DURATION_S
from app.store.pointers import Id
from app.store.repositories import Repositories
from models.batch import Batch
from models.errors import EndpointFailed, StoreRefused, StoreUnavailable, TooManyRequests
from models.run import RunItem, RunReply, Spent
from solvers.base import Plan

logger = logging.getLogger("parsimony.worker")
T = TypeVar("T")
ASSIGNMENT = "assignment"
OUTAGE_S, BATCH_POLL_INTERVAL_S = 60.0, 0.5
"""How long an item waits for an endpoint whose circuit is open, where no other can be used, and how often it looks."""
EMBEDDING_BATCH_SIZE = 1024
"""Number of items that are embedded together, unless all items of the batch are assigned together."""
_EMBEDDED: TypeAdapter[Embedded] = TypeAdapter(Embedded)
_ASSIGNED: TypeAdapter[tuple[dict[int, str], dict[str, Any]]] = TypeAdapter(tuple[dict[int, str], dict[str, Any]])


@dataclass(frozen=True, slots=True)
class BatchWork:
    """One attempt at a batch."""

    repos: Repositories
    batch: Batch
    attempt: int
    loaded: LoadedArtifact[Plan]
    dependencies: RunDependencies
    recorded: dict[str, str | None] = field(default_factory=dict)
    """The problem of each endpoint's confidences that was recorded last; None: no problem."""

    async def run_all(self) -> None:
        """Run all items that have no answer."""
        if is_assigned_together(self.loaded, self.batch.limits):
            await self.run_assigned_items()
        else:
            await self.run_each()

    async def report_circuits_and_confidences(self) -> None:
        """Report open circuits and differing confidences until this coroutine is canceled."""
        reported = frozenset[str]()
        while True:
            names = self.dependencies.caller.open_circuits()
            if names != reported:
                with suppress(StoreRefused):  # a full store: it is reported again when circuits change
                    await self._patiently(self.repos.batches.record_circuits, self.batch.id, self.attempt, names)
                reported = names
            await self.record_confidences()
            await self.refresh_rollouts()
            self.dependencies.budgets.update_budgets(await self._patiently(self.repos.budgets.get_all))
            with suppress(StoreUnavailable, StoreRefused):  # it is repeated
                await self.dependencies.recorder.read_recordings()
            await asyncio.sleep(BATCH_POLL_INTERVAL_S)

    async def refresh_rollouts(self) -> None:
        """Read the rollouts; the batch uses that of its artifact."""

        def load(artifact: Id, version: int) -> LoadedArtifact[Plan] | None:
            if artifact != (self.loaded.ref.kind, self.loaded.ref.name):
                return None
            record = self.repos.artifacts.get_record(*artifact, version)
            return LoadedArtifact[Plan].from_record(record, self.repos.artifacts.load_plan(record))

        await self._patiently(self.dependencies.rollouts.refresh_rollouts, load)

    async def record_confidences(self) -> None:
        """Record how confidences compare with the build's, in the batch and for all servers."""
        findings = self.dependencies.confidences.latest_findings(self.loaded.ref)
        if findings == self.recorded:  # a report that a new registration dropped is not repeated
            return
        problems = [f"endpoint {name!r}: {problem}" for name, problem in findings.items() if problem is not None]
        with suppress(StoreRefused):  # a store that is full: it is retried
            await self._patiently(self.repos.batches.record_confidence_problems, self.batch.id, self.attempt, problems)
            await self._patiently(self.repos.confidence_reports.record_findings, self.loaded.ref, findings)
            self.recorded.update(findings)

    async def run_each(self) -> None:
        """Run each item separately, by the version that a rollout chooses."""
        unanswered = await self._unanswered()
        if self._embedder is None:
            await self._each(unanswered, self._run_alone)
            return
        for at in range(0, len(unanswered), EMBEDDING_BATCH_SIZE):
            await self._run_embedded(unanswered[at : at + EMBEDDING_BATCH_SIZE])

    async def _run_embedded(self, indices: Sequence[int]) -> None:
        """Embed items, and run each with its embedding.

        Items of a version with other embeddings are run without one.
        """
        alike = list(indices)
        if self.batch.divided and self.dependencies.rollouts.is_running:
            items = await self._patiently(self.repos.batches.get_items, self.batch.id, indices)
            versions = zip(indices, map(self._choose, items), strict=True)
            alike = [index for index, version in versions if shares_embeddings(version, self.loaded)]
        embeddings = await self._embeddings_of(alike)

        async def run(index: int) -> None:
            await self._run_alone(index, embeddings.get(index))

        await self._each(sorted(set(indices) - set(alike) | embeddings.keys()), run)

    async def _run_alone(self, index: int, embedded: Embedded | None = None) -> None:
        """Run an item separately, and store its outcome."""
        item = await self._patiently(self.repos.batches.get_item, self.batch.id, index)
        version, attempts = self._choose(item), count()

        def run() -> Awaitable[CompletedItem | FailedItem]:
            item_run = new_item_run(version, item, self.batch.limits, self.dependencies)
            if embedded is not None and shares_embeddings(version, self.loaded):
                item_run = item_run.with_embedding(*embedded, is_charged=next(attempts) > 0)
            return run_to_outcome(version, item_run, self.dependencies)

        await self._keep(index, version, await self._run(version, run))

    def _choose(self, item: RunItem) -> LoadedArtifact[Plan]:
        """Return the version that decides for an item; a canary divides items with an id."""
        if item.id is None or not self.batch.divided:
            return self.loaded
        return self.dependencies.rollouts.choose(self.loaded, item.id)

    @property
    def _embedder(self) -> str | None:
        return embedder_name(self.loaded)

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
                return run_assigned(self.loaded, item_run, whole, names[index], self.dependencies)

            await self._keep(index, self.loaded, await self._run(self.loaded, assigned))

        await self._each(indices, run)

    def _new_item_run(self, item: RunItem) -> ItemRun:
        return new_item_run(self.loaded, item, self.batch.limits, self.dependencies)

    async def _embeddings_of(self, indices: list[int]) -> dict[int, Embedded]:
        """Return the embeddings of items; each request has as many texts as the embedder accepts."""
        embeddings: dict[int, Embedded] = {}

        async def embed(indices: list[int]) -> None:
            embeddings.update(await self._embeddings(indices))

        many = max_texts_per_call(self.loaded, self.dependencies.caller)
        await self._each([indices[at : at + many] for at in range(0, len(indices), many)], embed)
        return embeddings

    async def _embeddings(self, indices: list[int]) -> dict[int, Embedded]:
        """Return the embeddings of items: sent, stored by an earlier attempt, or computed.

        Embeddings are computed by concurrent requests. Items without an embedding are stored as failed.
        """
        batches = self.repos.batches
        items = await self._patiently(batches.get_items, self.batch.id, indices)
        made = await self._patiently(
            batches.list_checkpoints, self.batch.id, [f"embedding:{index}" for index in indices]
        )
        embeddings = {index: _EMBEDDED.validate_json(one) for index, one in zip(indices, made, strict=True) if one}
        lacking = {index: item for index, item in zip(indices, items, strict=True) if index not in embeddings}
        texts = {index for index, item in lacking.items() if item.embedding is None}
        if texts:
            await self._wait_for(frozenset([require_embedder(self.loaded)]), time.monotonic() + OUTAGE_S)
        outcomes = await self._embedded(lacking, time.monotonic() + OUTAGE_S)
        there = {index: one for index, one in outcomes.items() if not isinstance(one, FailedItem)}
        if keep := {f"embedding:{index}": _EMBEDDED.dump_json(there[index]) for index in texts & there.keys()}:
            await self._patiently(batches.store_checkpoint, self.batch.id, self.attempt, keep)
        for index, one in outcomes.items():
            if isinstance(one, FailedItem):
                await self._keep(index, self._choose(lacking[index]), one)
        return embeddings | there

    async def _embedded(self, items: Mapping[int, RunItem], until: float) -> dict[int, Embedded | FailedItem]:
        """Embed items; repeat those for which no call was made."""
        item_runs = [self._new_item_run(item) for item in items.values()]
        outcomes = dict(zip(items, await embed_items(self.loaded, item_runs, self.dependencies), strict=True))
        uncalled = {index: items[index] for index, one in outcomes.items() if _is_uncalled(one)}
        if uncalled and time.monotonic() < until:
            await asyncio.sleep(BATCH_POLL_INTERVAL_S)
            await self._wait_for(frozenset([require_embedder(self.loaded)]), until)
            outcomes |= await self._embedded(uncalled, until)
        return outcomes

    async def _assignment(
        self, indices: list[int], vectors: Sequence[Sequence[float]]
    ) -> tuple[dict[int, str], dict[str, Any]]:
        """Return the classifier of each item, from an earlier attempt or by assigning all now."""
        batches = self.repos.batches
        (kept,) = await self._patiently(batches.list_checkpoints, self.batch.id, [ASSIGNMENT])
        if kept is not None:
            return _ASSIGNED.validate_json(kept)
        first = self._new_item_run(await self._patiently(batches.get_item, self.batch.id, indices[0]))
        made = await assign_batch(self.loaded, first, vectors, self.dependencies)
        whole = (dict(zip(indices, made.names, strict=True)), made.facts)
        await self._patiently(
            batches.store_checkpoint, self.batch.id, self.attempt, {ASSIGNMENT: _ASSIGNED.dump_json(whole)}
        )
        return whole

    async def _run(
        self, version: LoadedArtifact[Plan], run: Callable[[], Awaitable[CompletedItem | FailedItem]]
    ) -> CompletedItem | FailedItem:
        """Run an item as soon as a classifier can be called.

        While all circuits are open, this item and all later ones would fail immediately. An item is run again if no
        call was made for it, if a limit per minute delays it, or if the store is unavailable.
        """
        names, until = frozenset(list_callable_names(version)), time.monotonic() + OUTAGE_S
        embedder = embedder_name(version)
        while True:
            await self._wait_for(names, until)
            if embedder is not None and not shares_embeddings(version, self.loaded):  # its embedding is part of the run
                await self._wait_for(frozenset([str(embedder)]), until)
            outcome = await run()
            if isinstance(outcome, FailedItem) and isinstance(outcome.error, TooManyRequests | StoreUnavailable):
                await asyncio.sleep(min(getattr(outcome.error, "wait_s", 1.0), 60.0))  # a limit per minute of a budget
                continue
            if _was_called(outcome, names) or time.monotonic() > until:
                return outcome
            await asyncio.sleep(BATCH_POLL_INTERVAL_S)

    async def _wait_for(self, names: frozenset[str], until: float) -> None:
        """Wait while all of the endpoints have open circuit breakers."""
        while names <= self.dependencies.caller.open_circuits() and time.monotonic() < until:
            await asyncio.sleep(BATCH_POLL_INTERVAL_S)

    async def _keep(self, index: int, version: LoadedArtifact[Plan], outcome: CompletedItem | FailedItem) -> None:
        """Store the outcome of an item.

        If the store is unavailable, wait for it, so that paid answers are not lost.
        """
        record_in_rollout(version, outcome, self.dependencies)
        if isinstance(outcome, CompletedItem):
            line, spent = _line(version, outcome), outcome.run.spent
        else:
            line = orjson.dumps(_without_answer(outcome)).decode()
            cost, seconds = (sum(getattr(step, name) for step in outcome.steps) for name in ("cost", "seconds"))
            spent = Spent(cost=cost, seconds=seconds, unit=self.batch.unit)

        def keep() -> None:
            self.repos.batches.store_answer(
                self.batch.id, self.attempt, index, line, is_answer=isinstance(outcome, CompletedItem), spent=spent
            )

        await self._patiently(keep)

    async def _unanswered(self) -> list[int]:
        return await self._patiently(self.repos.batches.list_unanswered, self.batch)

    async def _each(self, indices: Iterable[T], do: Callable[[T], Awaitable[None]]) -> None:
        """Process items, or groups of items, with the batch's concurrency."""
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
        """Use the store off the event loop; wait while it is unavailable."""
        until = time.monotonic() + MAX_BATCH_DURATION_S
        while True:
            try:
                return await asyncio.to_thread(work, *args)
            except StoreUnavailable as error:
                if time.monotonic() > until:
                    raise
                logger.warning("batch waits batch=%s error=%s", self.batch.id, error)
                await asyncio.sleep(1.0)


def _was_called(outcome: CompletedItem | FailedItem, names: frozenset[str]) -> bool:
    """Return whether a run must not be repeated.

    This is so if it called any of these names, called its embedder in vain, or has an answer or a fault without a call.
    """
    if isinstance(outcome, CompletedItem) or not isinstance(outcome.error, EndpointFailed):
        return True
    if outcome.steps and all(step.error == UNKNOWN for step in outcome.steps):
        return True  # no endpoint is registered
    return any(step.attempts and (step.classifier in names or step.error is not None) for step in outcome.steps)


def _is_uncalled(outcome: Embedded | FailedItem) -> bool:
    """Return whether a text has no embedding although no call failed.

    An example is an embedder with an open circuit breaker.
    """
    return isinstance(outcome, FailedItem) and not any(step.attempts and step.error for step in outcome.steps)


def _line(loaded: LoadedArtifact[Plan], completed_item: CompletedItem) -> str:
    """Write a run in the form of a reply; its facts may have been parsed from JSON."""
    facts = orjson.loads(orjson.dumps(completed_item.facts, default=vars))
    reply = {**completed_item.run.model_dump(mode="json"), "artifact": loaded.ref.model_dump(mode="json"), **facts}
    return RunReply.model_validate_json(orjson.dumps(reply)).model_dump_json()


def _without_answer(failed_item: FailedItem) -> dict[str, Any]:
    """Write a run without an answer; the class of its error determines the HTTP status."""
    steps = [step.model_dump(mode="json") for step in failed_item.steps]
    return {
        "id": failed_item.item_id,
        "error": str(failed_item.error),
        "kind": type(failed_item.error).__name__,
        "steps": steps,
    }
