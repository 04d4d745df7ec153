"""One attempt at a batch: which items are run when, by which version, and how their answers are stored."""

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

from app.running.caller import UNKNOWN
from app.running.embedding import Embedded, embedder_name, embedder_of, texts_at_once
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
from app.serving.answers import callable_names
from app.serving.catalog import LoadedArtifact
from app.store.batches import LONGEST_S
from app.store.pointers import Id
from app.store.repositories import Repositories
from models.batch import Batch
from models.errors import EndpointFailed, StoreRefused, StoreUnavailable, TooManyRequests
from models.run import RunItem, RunReply, Spent
from solvers.base import Plan

logger = logging.getLogger("parsimony.worker")
T = TypeVar("T")
ASSIGNMENT = "assignment"
OUTAGE_S, LOOK_S = 60.0, 0.5
"""How long an item waits for an endpoint whose circuit is open, where no other can be used, and how often it looks."""
EMBEDDED_AT_ONCE = 1024
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
    tools: RunDependencies
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
            names = self.tools.caller.open_circuits()
            if names != reported:
                with suppress(StoreRefused):  # a full store: it is reported again when circuits change
                    await self._patiently(self.repos.batches.note_circuits, self.batch.id, self.attempt, names)
                reported = names
            await self.record_confidences()
            await self.refresh_rollouts()
            self.tools.budgets.update_budgets(await self._patiently(self.repos.budgets.get_all))
            with suppress(StoreUnavailable, StoreRefused):  # it is repeated
                await self.tools.recorder.read_recordings()
            await asyncio.sleep(LOOK_S)

    async def refresh_rollouts(self) -> None:
        """Read the rollouts; the batch uses the one of its artifact."""

        def load(artifact: Id, version: int) -> LoadedArtifact[Plan] | None:
            if artifact != (self.loaded.ref.kind, self.loaded.ref.name):
                return None
            record = self.repos.artifacts.get_record(*artifact, version)
            return LoadedArtifact[Plan].from_record(record, self.repos.artifacts.load_plan(record))

        await self._patiently(self.tools.rollouts.refresh_rollouts, load)

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

    async def run_each(self) -> None:
        """Run each item by itself, by the version that a rollout chooses."""
        unanswered = await self._unanswered()
        if self._embedder is None:
            await self._each(unanswered, self._run_alone)
            return
        for at in range(0, len(unanswered), EMBEDDED_AT_ONCE):
            await self._run_embedded(unanswered[at : at + EMBEDDED_AT_ONCE])

    async def _run_embedded(self, indices: Sequence[int]) -> None:
        """Embed items, and run each with its embedding; those of a version with another embedder without."""
        alike = list(indices)
        if self.batch.divided and self.tools.rollouts.is_running:
            items = await self._patiently(self.repos.batches.get_items, self.batch.id, indices)
            versions = zip(indices, map(self._choose, items), strict=True)
            alike = [index for index, version in versions if embedder_name(version) == self._embedder]
        embeddings = await self._embeddings_of(alike)

        async def run(index: int) -> None:
            await self._run_alone(index, embeddings.get(index))

        await self._each(sorted(set(indices) - set(alike) | embeddings.keys()), run)

    async def _run_alone(self, index: int, embedded: Embedded | None = None) -> None:
        """Run an item by itself, and store its outcome."""
        item = await self._patiently(self.repos.batches.get_item, self.batch.id, index)
        version, attempts = self._choose(item), count()

        def run() -> Awaitable[CompletedItem | FailedItem]:
            item_run = new_item_run(version, item, self.batch.limits, self.tools)
            if embedded is not None and embedder_name(version) == self._embedder:
                item_run = item_run.with_embedding(*embedded, is_charged=next(attempts) > 0)
            return run_to_outcome(version, item_run, self.tools)

        await self._keep(index, version, await self._run(version, run))

    def _choose(self, item: RunItem) -> LoadedArtifact[Plan]:
        """Return the version that decides for an item: a canary chooses that of items with an id."""
        if item.id is None or not self.batch.divided:
            return self.loaded
        return self.tools.rollouts.choose(self.loaded, item.id)

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
                return run_assigned(self.loaded, item_run, whole, names[index], self.tools)

            await self._keep(index, self.loaded, await self._run(self.loaded, assigned))

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
                await self._keep(index, self._choose(lacking[index]), one)
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

    async def _run(
        self, version: LoadedArtifact[Plan], run: Callable[[], Awaitable[CompletedItem | FailedItem]]
    ) -> CompletedItem | FailedItem:
        """Run an item once a classifier can be called.

        While all circuits are open, this item and all later ones would fail at once. An item is run again if nothing
        was called for it, if a limit per minute delays it, or if the store is unavailable.
        """
        names, until = frozenset(callable_names(version)), time.monotonic() + OUTAGE_S
        embedder = embedder_name(version)
        while True:
            await self._wait_for(names, until)
            if embedder not in (None, self._embedder):  # its embedding is part of the run
                await self._wait_for(frozenset([str(embedder)]), until)
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

    async def _keep(self, index: int, version: LoadedArtifact[Plan], outcome: CompletedItem | FailedItem) -> None:
        """Store what became of an item; the store may be away for a while, what was paid is not given up for that."""
        record_in_rollout(version, outcome, self.tools)
        if isinstance(outcome, CompletedItem):
            line, spent = _line(version, outcome), outcome.run.spent
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
    if outcome.steps and all(step.error == UNKNOWN for step in outcome.steps):
        return True  # no endpoint is registered
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
    """Write a run without an answer, with the class of its error, which determines the HTTP status."""
    steps = [step.model_dump(mode="json") for step in undone.steps]
    return {"id": undone.item_id, "error": str(undone.error), "kind": type(undone.error).__name__, "steps": steps}
