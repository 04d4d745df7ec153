"""Runs of items: start, execute, and report runs, several concurrently."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from app.running.caller import RATE_LIMITED, Caller, ChunkStream
from app.running.conversations import begin_turn, end_turn
from app.running.embedding import Embedded, FailedEmbedding, embed_texts, takes_embeddings
from app.running.executor import CallPricing, CompletedRun, RunProgress, drive_runner, to_run, to_run_steps
from app.running.item_budget import hold_item
from app.running.item_run import ItemRun
from app.running.item_start import (
    DecidedRun,
    RunDependencies,
    batch_options,
    make_run_query,
    refuse_infeasible_item,
    refuse_unless_assignable,
    start_decided,
    start_fixed,
    start_item,
    text_of,
)
from app.running.run_deadline import time_limit_of
from app.serving.answers import decision_facts, unavailable_names
from app.serving.catalog import LoadedArtifact
from models.errors import (
    BudgetSpent,
    EndpointFailed,
    EndpointsBusy,
    Fault,
    InvalidRequest,
    ParsimonyError,
    RunTimeout,
    StoreRefused,
    StoreUnavailable,
    TooManyRequests,
)
from models.run import FailedRun, Run, RunItem, RunLimits, RunReply, RunStep
from parsimony.units import seconds_in
from solvers.base import Plan

NOT_OF_VERSION = (BudgetSpent, TooManyRequests, StoreUnavailable, StoreRefused)
"""Errors of an item that do not depend on the version that decided."""


@dataclass(frozen=True, slots=True)
class CompletedItem:
    """An item with an answer, its run, and the text of the answer."""

    run: Run
    facts: dict[str, Any]
    completed: CompletedRun


@dataclass(frozen=True, slots=True)
class FailedItem:
    """An item without an answer, and the calls made for it."""

    error: ParsimonyError
    steps: tuple[RunStep, ...]
    item_id: str | None


async def run_item(
    loaded: LoadedArtifact[Plan], item_run: ItemRun, tools: RunDependencies, stream: ChunkStream | None = None
) -> CompletedItem:
    """Run an item in the queue of calls, and wait for its result.

    Args:
        stream: receives the chunks of a streamed answer.

    Raises:
        ParsimonyError: the run failed; the message has the reason.
    """
    work = partial(run_to_outcome, loaded, item_run, tools, stream)
    outcome = await tools.queue.run_one(tools.client, work, item_run.limits.timeout_s)
    record_in_rollout(loaded, outcome, tools)
    if isinstance(outcome, FailedItem):
        raise outcome.error
    return outcome


def record_in_rollout(
    loaded: LoadedArtifact[Plan], outcome: CompletedItem | FailedItem, tools: RunDependencies
) -> None:
    """Record the outcome of an item in the rollout that chose its version; once, however often the item was tried.

    Refusals by budgets, rate limits, and the store do not depend on the version.
    """
    if isinstance(outcome, CompletedItem):
        tools.rollouts.record_run(loaded, outcome.run.spent.cost, is_answered=True)
    elif not isinstance(outcome.error, NOT_OF_VERSION):
        is_called = any(step.attempts for step in outcome.steps)
        cost = sum(step.cost for step in outcome.steps) if is_called else None
        tools.rollouts.record_run(loaded, cost, is_answered=False)


async def run_each(
    loaded: LoadedArtifact[Plan], items: tuple[RunItem, ...], limits: RunLimits, tools: RunDependencies
) -> tuple[list[CompletedItem | FailedItem], float]:
    """Run several items concurrently, and return their outcomes and total seconds.

    The endpoints' concurrency limits are kept. The time limit of an item begins when it starts. A portfolio with a
    budget assigns all items together first.

    Raises InvalidRequest or Infeasible if the request as a whole is refused.
    """
    started = time.monotonic()
    first = new_item_run(loaded, items[0], limits, tools)
    if takes_embeddings(loaded):
        item_runs = [replace(first, item=item, progress=RunProgress()) for item in items]
        outcomes = await (_assigned if is_assigned_together(loaded, limits) else _embedded_together)(
            loaded, item_runs, tools
        )
    else:
        work = partial(_run_item, loaded, limits, tools)
        outcomes = await tools.queue.run_each(tools.client, items, work)
    for one in outcomes:
        record_in_rollout(loaded, one, tools)
    return outcomes, time.monotonic() - started


async def _run_item(
    loaded: LoadedArtifact[Plan], limits: RunLimits, tools: RunDependencies, item: RunItem
) -> CompletedItem | FailedItem:
    return await run_to_outcome(loaded, new_item_run(loaded, item, limits, tools), tools)


async def run_to_outcome(
    loaded: LoadedArtifact[Plan], item_run: ItemRun, tools: RunDependencies, stream: ChunkStream | None = None
) -> CompletedItem | FailedItem:
    """Run an item, and return its answer or its error.

    Failed calls that may have been paid count at their planned cost.
    """

    async def start(held: ItemRun) -> DecidedRun:
        return await start_item(loaded, held, tools)

    try:
        item_run, turn = await begin_turn(loaded, item_run, tools)
        outcome = await _run_traced(loaded, item_run, tools, start, stream)
        if isinstance(outcome, CompletedItem):
            await end_turn(loaded, turn, outcome.completed.answer, tools)
        return outcome
    except ParsimonyError as error:
        return _to_failed(loaded, item_run, {}, error)


async def _run_traced(
    loaded: LoadedArtifact[Plan],
    item_run: ItemRun,
    tools: RunDependencies,
    start: Callable[[ItemRun], Awaitable[DecidedRun]],
    stream: ChunkStream | None = None,
    names: Sequence[str] | None = None,
) -> CompletedItem | FailedItem:
    """Start and run an item within its budgets, and return its answer or its error.

    Args:
        start: starts the run that the budgets leave.
        names: the classifiers that may be called; None: all of the artifact's.
    """
    planned: Mapping[str, float] = {}
    with tools.caller.tracing.trace_run(loaded.ref) as traced:
        try:
            async with hold_item(loaded, item_run, tools, pricing_of(loaded), names) as held:
                started = await start(held.item_run)
                planned = started.planned_costs
                traced.record_decision(started.facts, started.explain)
                held.pricing = pricing_of(loaded, planned)
                done = await _driven(loaded, held.item_run, started, tools, stream)
            traced.record_run(done.run)
            return done
        except ParsimonyError as error:
            traced.record_error(error)
            return _to_failed(loaded, item_run, planned, error)


def _to_failed(
    loaded: LoadedArtifact[Plan], item_run: ItemRun, planned: Mapping[str, float], error: ParsimonyError
) -> FailedItem:
    steps = to_run_steps(item_run.progress.results, pricing_of(loaded, planned), None)
    return FailedItem(error, steps, item_run.item.id)


def new_item_run(loaded: LoadedArtifact[Plan], item: RunItem, limits: RunLimits, tools: RunDependencies) -> ItemRun:
    """Return the run of an item, whose time starts now.

    Raises InvalidRequest for a deadline if the unit is not a unit of time.
    """
    seconds = time_limit_of(limits, loaded.kind.time_unit(loaded.plan) or loaded.record.unit)
    return ItemRun(item, limits, seconds, time.monotonic() + seconds, tools.caller.open_circuits())


async def _driven(
    loaded: LoadedArtifact[Plan],
    item_run: ItemRun,
    started: DecidedRun,
    tools: RunDependencies,
    stream: ChunkStream | None = None,
) -> CompletedItem:
    facts = {**started.facts, "open_circuits": unavailable_names(loaded, item_run.excluded)}
    item_run.progress.facts |= facts
    try:
        ran = await drive_runner(
            started.runner,
            tools.caller,
            item_run.item.item,
            item_run.ends_at,
            off_loop=started.is_slow,
            progress=item_run.progress,
            stream=stream,
            client=tools.client,
        )
    except RunTimeout:
        raise
    except EndpointFailed as error:
        busy = _as_busy(error, unavailable_names(loaded, item_run.excluded), item_run.progress, tools.caller)
        if busy is None:
            raise
        raise busy from error
    tools.confidences.observe_results(loaded.ref, loaded.record.summary.get("confidences", {}), ran.results)
    pricing = pricing_of(loaded, started.planned_costs)
    tools.recorder.record_run(loaded, item_run, ran, pricing, tools)
    return CompletedItem(to_run(ran, pricing, item_run.item.id), facts, ran)


def _as_busy(
    error: EndpointFailed, unavailable: Sequence[str], progress: RunProgress, caller: Caller
) -> EndpointsBusy | None:
    """Return the error of a run whose calls all met rate limits, with the shortest wait; None for other failures."""
    failed = [one for one in progress.results if one.error is not None]
    waits = {name: caller.rate_limit_seconds(name) for name in (*unavailable, *(one.name for one in failed))}
    limited = {
        one.name for one in failed if one.provider_error is not None and one.provider_error.status == RATE_LIMITED
    }
    if not waits or any(wait is None and name not in limited for name, wait in waits.items()):
        return None
    known = [wait for wait in waits.values() if wait is not None]
    return EndpointsBusy(str(error), min(known)) if known else EndpointsBusy(str(error))


def pricing_of(loaded: LoadedArtifact[Plan], planned: Mapping[str, float] = MappingProxyType({})) -> CallPricing:
    """Return the pricing of an artifact's calls.

    Args:
        planned: expected costs by name, without the embedder's.
    """
    known = {str(loaded.record.params.get("embedder")): loaded.kind.embedding_cost(loaded.plan), **planned}
    return CallPricing(lambda name: float(known.get(name, 0.0)), loaded.record.unit, seconds_in(loaded.record.unit))


async def _embedded_together(
    loaded: LoadedArtifact[Plan], item_runs: Sequence[ItemRun], tools: RunDependencies
) -> list[CompletedItem | FailedItem]:
    """Embed the items, many in a request, and run each by itself."""
    refuse_infeasible_item(loaded, item_runs[0])
    embeddings = await embed_items(loaded, item_runs, tools)

    async def run(each: tuple[ItemRun, Embedded | FailedItem]) -> CompletedItem | FailedItem:
        one, embedding = each
        if isinstance(embedding, FailedItem):
            return embedding
        return await run_to_outcome(loaded, one.with_new_start().with_embedding(*embedding), tools)

    return await tools.queue.run_each(tools.client, list(zip(item_runs, embeddings, strict=True)), run)


async def _assigned(
    loaded: LoadedArtifact[Plan], item_runs: Sequence[ItemRun], tools: RunDependencies
) -> list[CompletedItem | FailedItem]:
    """Embed the items, assign them all within the budget, and run each as it was assigned."""
    refuse_sizes(one.item for one in item_runs)
    refuse_unless_assignable(loaded, item_runs[0], len(item_runs))
    embeddings = await embed_items(loaded, item_runs, tools)
    there = {index: one for index, one in enumerate(embeddings) if not isinstance(one, FailedItem)}
    outcomes: dict[int, CompletedItem | FailedItem] = {
        index: one for index, one in enumerate(embeddings) if isinstance(one, FailedItem)
    }
    if there:
        assigned = await assign_batch(loaded, item_runs[0], [vector for vector, _ in there.values()], tools)
        knowing = [item_runs[index].with_embedding(*one) for index, one in there.items()]

        async def run(one: tuple[ItemRun, str]) -> CompletedItem | FailedItem:
            return await run_assigned(loaded, one[0].with_new_start(), assigned, one[1], tools)

        each = list(zip(knowing, assigned.names, strict=True))
        outcomes |= dict(zip(there, await tools.queue.run_each(tools.client, each, run), strict=True))
    return [outcomes[index] for index in range(len(item_runs))]


def is_assigned_together(loaded: LoadedArtifact[Plan], limits: RunLimits) -> bool:
    """Return whether items of an artifact are assigned together under these limits."""
    return loaded.kind.assigner is not None and limits.budget_pacing is None


@dataclass(frozen=True, slots=True)
class AssignedBatch:
    """An assigned batch: the classifier of each item, and facts for the replies."""

    names: tuple[str, ...]
    facts: dict[str, Any]


def refuse_sizes(items: Iterable[RunItem]) -> None:
    """Raise InvalidRequest if items that are assigned together have sizes."""
    if any(item.size is not None for item in items):
        raise InvalidRequest.from_faults(
            Fault(
                ("items",),
                "sizes are not supported for batch assignment; run the items one by one",
            )
        )


async def assign_batch(
    loaded: LoadedArtifact[Plan], item_run: ItemRun, vectors: Sequence[Sequence[float]], tools: RunDependencies
) -> AssignedBatch:
    """Assign the items of a batch by their embeddings.

    Unavailable classifiers are not used if another one is available.

    Raises:
        Infeasible: the limits cannot be kept.
        InvalidRequest: embeddings have different lengths.
    """
    if len({len(vector) for vector in vectors}) > 1:
        raise InvalidRequest.from_faults(Fault(("items",), "must have embeddings of equal length"))
    assigner, options = loaded.kind.assigner, batch_options(loaded, item_run)
    assert assigner is not None
    estimates = await asyncio.to_thread(assigner.estimate, loaded.plan, np.array(vectors))
    seconds = tools.settings.solve_timeout_s
    assignment = await asyncio.to_thread(assigner.assign, loaded.plan, estimates, options, seconds, item_run.excluded)
    return AssignedBatch(assignment.assignments, decision_facts(loaded, options, assignment))


async def run_assigned(
    loaded: LoadedArtifact[Plan], item_run: ItemRun, assigned: AssignedBatch, name: str, tools: RunDependencies
) -> CompletedItem | FailedItem:
    """Run an item with its assigned classifier.

    If the call fails, the best other classifier that does not cost more is called, so that the batch's budget holds.
    """

    async def start(held: ItemRun) -> DecidedRun:
        if held.classifier is not None:
            started = start_fixed(loaded, held, held.classifier, held.degraded)
        else:
            query = make_run_query(loaded, held, held.item.embedding)
            started = start_decided(loaded, held, query, tools, assigned=name)
        return replace(started, facts=assigned.facts)

    return await _run_traced(loaded, item_run, tools, start, names=[name])


async def embed_items(
    loaded: LoadedArtifact[Plan], item_runs: Sequence[ItemRun], tools: RunDependencies
) -> list[Embedded | FailedItem]:
    """Return for each item its embedding and the embedder's call results, or a FailedItem.

    Embeddings that the request lacks are computed together. Raises InvalidRequest before any call if one of these items
    has no text.
    """
    given: dict[int, Embedded] = {
        index: (one.item.embedding, []) for index, one in enumerate(item_runs) if one.item.embedding is not None
    }
    lacking = [index for index in range(len(item_runs)) if index not in given]
    texts = [_text_at(loaded, item_runs, index) for index in lacking]
    made = await embed_texts(loaded, texts, tools.caller, min((one.ends_at for one in item_runs), default=0.0))
    outcomes: dict[int, Embedded | FailedItem] = {**given}
    for index, one in zip(lacking, made, strict=True):
        if isinstance(one, FailedEmbedding):
            outcomes[index] = FailedItem(
                one.error, to_run_steps([one.result], pricing_of(loaded), None), item_runs[index].item.id
            )
        else:
            outcomes[index] = one
    return [outcomes[index] for index in range(len(item_runs))]


def _text_at(loaded: LoadedArtifact[Plan], item_runs: Sequence[ItemRun], index: int) -> str:
    """Return the text of an item of a list; raises InvalidRequest with the item's index if it has none."""
    try:
        return text_of(loaded, item_runs[index].item)
    except InvalidRequest as error:
        raise InvalidRequest.from_faults(
            *(Fault(("items", index, *each.loc), each.msg) for each in error.faults)
        ) from error


def to_run_reply(loaded: LoadedArtifact[Plan], done: CompletedItem) -> RunReply:
    """Return the API's reply of a run, with the artifact that decided."""
    return RunReply(**dict(done.run), artifact=loaded.ref, **done.facts)


def to_failed_run(undone: FailedItem, status: int) -> FailedRun:
    """Return the API's representation of an item without an answer."""
    return FailedRun(id=undone.item_id, error=str(undone.error), status=status, steps=undone.steps)
