"""Runs of items: start, drive, and report them; several concurrently."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from app.running.embedding import Embedded, FailedEmbedding, embed_texts, takes_embeddings
from app.running.executor import CallPricing, CompletedRun, OnText, RunProgress, drive_runner, to_run, to_run_steps
from app.running.item_run import ItemRun, time_limit_of
from app.running.item_start import (
    DecidedRun,
    RunDependencies,
    batch_options,
    refuse_infeasible_item,
    refuse_unless_assignable,
    run_query,
    start_decided,
    start_item,
    text_of,
)
from app.serving.answers import decision_facts, unavailable_names
from app.serving.catalog import LoadedArtifact
from models.errors import Fault, InvalidRequest, ParsimonyError
from models.run import FailedRun, Run, RunItem, RunLimits, RunReply, RunStep
from models.units import seconds_in
from solvers.base import Plan


@dataclass(frozen=True, slots=True)
class CompletedItem:
    """An item with an answer. completed: its run, with the text of the answer."""

    run: Run
    facts: dict[str, Any]
    completed: CompletedRun


@dataclass(frozen=True, slots=True)
class FailedItem:
    """An item without an answer, and the calls made for it."""

    error: ParsimonyError
    steps: tuple[RunStep, ...]
    item_id: str | None


async def run_one(
    loaded: LoadedArtifact[Plan], item: RunItem, limits: RunLimits, tools: RunDependencies
) -> CompletedItem:
    """Run an item; raises InvalidRequest, Infeasible, EndpointFailed, or RunTimeout."""
    return await run_item(loaded, new_item_run(loaded, item, limits, tools), tools)


async def run_item(
    loaded: LoadedArtifact[Plan], asked: ItemRun, tools: RunDependencies, on_text: OnText | None = None
) -> CompletedItem:
    """Run an item, as ``run_one`` does. on_text: receives the pieces of the answer, where it is streamed."""
    work = partial(run_to_outcome, loaded, asked, tools, on_text)
    outcome = await tools.queue.run_one(tools.client, work, asked.limits.timeout_s)
    if isinstance(outcome, FailedItem):
        raise outcome.error
    return outcome


async def run_each(
    loaded: LoadedArtifact[Plan], items: tuple[RunItem, ...], limits: RunLimits, tools: RunDependencies
) -> tuple[list[CompletedItem | FailedItem], float]:
    """Run several items, some at the same time, each endpoint's limit kept; and give the seconds that all took.

    The time of an item begins when it starts. A portfolio assigns them as a whole first, if it is given a budget.
    Raises InvalidRequest or Infeasible for what refuses all of them.
    """
    started = time.monotonic()
    first = new_item_run(loaded, items[0], limits, tools)
    if takes_embeddings(loaded):
        asked = [replace(first, item=item, progress=RunProgress()) for item in items]
        outcomes = await (_assigned if is_assigned_together(loaded, limits) else _embedded_together)(
            loaded, asked, tools
        )
    else:
        work = partial(_run_item, loaded, limits, tools)
        outcomes = await tools.queue.run_each(tools.client, items, work)
    return outcomes, time.monotonic() - started


async def _run_item(
    loaded: LoadedArtifact[Plan], limits: RunLimits, tools: RunDependencies, item: RunItem
) -> CompletedItem | FailedItem:
    return await run_to_outcome(loaded, new_item_run(loaded, item, limits, tools), tools)


async def run_to_outcome(
    loaded: LoadedArtifact[Plan], asked: ItemRun, tools: RunDependencies, on_text: OnText | None = None
) -> CompletedItem | FailedItem:
    """Run an item to its answer or its error; failed calls that may have been paid are counted at their planned
    cost."""
    planned: Mapping[str, float] = {}
    try:
        started = await start_item(loaded, asked, tools)
        planned = started.planned_costs
        return await _driven(loaded, asked, started, tools, on_text)
    except ParsimonyError as error:
        return FailedItem(error, to_run_steps(asked.progress.results, pricing_of(loaded, planned), None), asked.item.id)


def new_item_run(loaded: LoadedArtifact[Plan], item: RunItem, limits: RunLimits, tools: RunDependencies) -> ItemRun:
    """Start the time of an item; raises InvalidRequest for a deadline in a unit that is not one of time."""
    seconds = time_limit_of(limits, loaded.kind.time_unit(loaded.plan) or loaded.record.unit)
    return ItemRun(item, limits, seconds, time.monotonic() + seconds, tools.caller.open_circuits())


async def _driven(
    loaded: LoadedArtifact[Plan],
    asked: ItemRun,
    started: DecidedRun,
    tools: RunDependencies,
    on_text: OnText | None = None,
) -> CompletedItem:
    facts = {**started.facts, "open_circuits": unavailable_names(loaded, asked.excluded)}
    asked.progress.facts |= facts
    ran = await drive_runner(
        started.runner,
        tools.caller,
        asked.item.item,
        asked.ends_at,
        off_loop=started.is_slow,
        progress=asked.progress,
        on_text=on_text,
    )
    tools.confidences.observe_results(loaded.ref, loaded.record.summary.get("confidences", {}), ran.results)
    return CompletedItem(to_run(ran, pricing_of(loaded, started.planned_costs), asked.item.id), facts, ran)


def pricing_of(loaded: LoadedArtifact[Plan], planned: Mapping[str, float] = MappingProxyType({})) -> CallPricing:
    """Return the pricing of an artifact's calls. planned: expected costs, except its embedder's."""
    known = {str(loaded.record.params.get("embedder")): loaded.kind.embedding_cost(loaded.plan), **planned}
    return CallPricing(lambda name: float(known.get(name, 0.0)), loaded.record.unit, seconds_in(loaded.record.unit))


async def _embedded_together(
    loaded: LoadedArtifact[Plan], asked: Sequence[ItemRun], tools: RunDependencies
) -> list[CompletedItem | FailedItem]:
    """Embed the items, many in a request, and run each by itself."""
    refuse_infeasible_item(loaded, asked[0])
    embeddings = await embed_items(loaded, asked, tools)

    async def run(each: tuple[ItemRun, Embedded | FailedItem]) -> CompletedItem | FailedItem:
        one, embedding = each
        if isinstance(embedding, FailedItem):
            return embedding
        return await run_to_outcome(loaded, one.with_new_start().with_embedding(*embedding), tools)

    return await tools.queue.run_each(tools.client, list(zip(asked, embeddings, strict=True)), run)


async def _assigned(
    loaded: LoadedArtifact[Plan], asked: Sequence[ItemRun], tools: RunDependencies
) -> list[CompletedItem | FailedItem]:
    """Embed the items, assign them all within the budget, and run each as it was assigned."""
    refuse_sizes(one.item for one in asked)
    refuse_unless_assignable(loaded, asked[0], len(asked))
    embeddings = await embed_items(loaded, asked, tools)
    there = {place: one for place, one in enumerate(embeddings) if not isinstance(one, FailedItem)}
    outcomes: dict[int, CompletedItem | FailedItem] = {
        place: one for place, one in enumerate(embeddings) if isinstance(one, FailedItem)
    }
    if there:
        assigned = await assign_batch(loaded, asked[0], [vector for vector, _ in there.values()], tools)
        knowing = [asked[place].with_embedding(*one) for place, one in there.items()]

        async def run(one: tuple[ItemRun, str]) -> CompletedItem | FailedItem:
            return await run_assigned(loaded, one[0].with_new_start(), assigned, one[1], tools)

        each = list(zip(knowing, assigned.names, strict=True))
        outcomes |= dict(zip(there, await tools.queue.run_each(tools.client, each, run), strict=True))
    return [outcomes[place] for place in range(len(asked))]


def is_assigned_together(loaded: LoadedArtifact[Plan], limits: RunLimits) -> bool:
    """Return whether items of an artifact are assigned together within these limits."""
    return loaded.kind.assigner is not None and limits.budget_pacing is None


@dataclass(frozen=True, slots=True)
class AssignedBatch:
    """A batch as it was assigned. names: for each item its classifier. facts: what replies report of it."""

    names: tuple[str, ...]
    facts: dict[str, Any]


def refuse_sizes(items: Iterable[RunItem]) -> None:
    """Raise InvalidRequest where items that are to be assigned together have sizes."""
    if any(item.size is not None for item in items):
        raise InvalidRequest.from_faults(
            Fault(
                ("items",),
                "must have no sizes to be assigned together: run them one by one",
            )
        )


async def assign_batch(
    loaded: LoadedArtifact[Plan], asked: ItemRun, vectors: Sequence[Sequence[float]], tools: RunDependencies
) -> AssignedBatch:
    """Assign the items of a batch, by their embeddings, within the limits of one of them.

    What is unavailable gets none while there is another. Raises Infeasible, or InvalidRequest where embeddings have
    different lengths.
    """
    if len({len(vector) for vector in vectors}) > 1:
        raise InvalidRequest.from_faults(Fault(("items",), "have embeddings of different lengths"))
    assigner, options = loaded.kind.assigner, batch_options(loaded, asked)
    assert assigner is not None
    estimates = await asyncio.to_thread(assigner.estimate, loaded.plan, np.array(vectors))
    seconds = tools.settings.solve_timeout_s
    assignment = await asyncio.to_thread(assigner.assign, loaded.plan, estimates, options, seconds, asked.excluded)
    return AssignedBatch(assignment.assignments, decision_facts(loaded, options, assignment))


async def run_assigned(
    loaded: LoadedArtifact[Plan], asked: ItemRun, assigned: AssignedBatch, name: str, tools: RunDependencies
) -> CompletedItem | FailedItem:
    """Run an item by the classifier that it was assigned; where that fails, the best other one that costs no more
    takes its place: the batch's budget holds."""
    planned: Mapping[str, float] = {}
    try:
        query = run_query(loaded, asked, asked.item.embedding)
        started = start_decided(loaded, asked, query, tools, assigned=name)
        planned = started.planned_costs
        return await _driven(loaded, asked, replace(started, facts=assigned.facts), tools)
    except ParsimonyError as error:
        return FailedItem(error, to_run_steps(asked.progress.results, pricing_of(loaded, planned), None), asked.item.id)


async def embed_items(
    loaded: LoadedArtifact[Plan], asked: Sequence[ItemRun], tools: RunDependencies
) -> list[Embedded | FailedItem]:
    """Give the embedding of each item and what was called for it, or the run that has no answer for want of it; those
    that are made are made together. Raises InvalidRequest, before anything is called, where one cannot be made."""
    given: dict[int, Embedded] = {
        place: (one.item.embedding, []) for place, one in enumerate(asked) if one.item.embedding is not None
    }
    lacking = [place for place in range(len(asked)) if place not in given]
    texts = [_text_at(loaded, asked, place) for place in lacking]
    made = await embed_texts(loaded, texts, tools.caller, min((one.ends_at for one in asked), default=0.0))
    outcomes: dict[int, Embedded | FailedItem] = {**given}
    for place, one in zip(lacking, made, strict=True):
        if isinstance(one, FailedEmbedding):
            outcomes[place] = FailedItem(
                one.error, to_run_steps([one.result], pricing_of(loaded), None), asked[place].item.id
            )
        else:
            outcomes[place] = one
    return [outcomes[place] for place in range(len(asked))]


def _text_at(loaded: LoadedArtifact[Plan], asked: Sequence[ItemRun], place: int) -> str:
    """Give the text of an item of a list; raises InvalidRequest, with its place, if it has none."""
    try:
        return text_of(loaded, asked[place].item)
    except InvalidRequest as error:
        raise InvalidRequest.from_faults(
            *(Fault(("items", place, *each.loc), each.msg) for each in error.faults)
        ) from error


def to_run_reply(loaded: LoadedArtifact[Plan], done: CompletedItem) -> RunReply:
    """Make the reply of a run, with the artifact that decided it."""
    return RunReply(**dict(done.run), artifact=loaded.ref, **done.facts)


def to_failed_run(undone: FailedItem, status: int) -> FailedRun:
    """Make the reply of an item without an answer."""
    return FailedRun(id=undone.item_id, error=str(undone.error), status=status, steps=undone.steps)
