"""Runs of items: start, execute, and report runs, several concurrently."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from app.running.conversations import begin_turn, end_turn
from app.running.embedding import Embedded, FailedEmbedding, embed_texts, needs_embedding
from app.running.endpoint_caller import RATE_LIMITED, ChunkStream, EndpointCaller
from app.running.executor import CallPricing, CompletedRun, RunProgress, execute_run, to_run, to_run_steps
from app.running.item_budget import pace_batch, reserve_item_budget
from app.running.item_run import ItemRun
from app.running.item_start import (
    DecidedRun,
    RunDependencies,
    batch_options,
    get_item_text,
    make_feasible_query,
    make_run_query,
    require_assignable_batch,
    start_decided,
    start_item,
    start_with_classifier,
)
from app.running.run_time_limit import get_time_limit
from app.serving.catalog import LoadedArtifact
from app.serving.decision_replies import decision_facts, list_unavailable_names
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
from parsimony.units import seconds_per_unit
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
    loaded: LoadedArtifact[Plan], item_run: ItemRun, dependencies: RunDependencies, stream: ChunkStream | None = None
) -> CompletedItem:
    """Run an item in the call queue, and wait for its result.

    Args:
        stream: receives the chunks of a streamed answer.

    Raises:
        ParsimonyError: the run failed; the message states the reason.
    """
    work = partial(run_to_outcome, loaded, item_run, dependencies, stream)
    outcome = await dependencies.queue.run_one(dependencies.client, work, item_run.limits.timeout_s)
    record_in_rollout(loaded, outcome, dependencies)
    if isinstance(outcome, FailedItem):
        raise outcome.error
    return outcome


def record_in_rollout(
    loaded: LoadedArtifact[Plan], outcome: CompletedItem | FailedItem, dependencies: RunDependencies
) -> None:
    """Record an item's outcome in the rollout that chose its version.

    An outcome is recorded once, even if the item was tried several times. Rejections by budgets, rate limits, and the
    store do not depend on the version, so they are not recorded.
    """
    if isinstance(outcome, CompletedItem):
        dependencies.rollouts.record_run(loaded, outcome.run.spent.cost, is_answered=True)
    elif not isinstance(outcome.error, NOT_OF_VERSION):
        is_called = any(step.attempts for step in outcome.steps)
        cost = sum(step.cost for step in outcome.steps) if is_called else None
        dependencies.rollouts.record_run(loaded, cost, is_answered=False)


async def run_each(
    loaded: LoadedArtifact[Plan], items: tuple[RunItem, ...], limits: RunLimits, dependencies: RunDependencies
) -> tuple[list[CompletedItem | FailedItem], float]:
    """Run several items concurrently, and return their outcomes and total seconds.

    The endpoints' concurrency limits are kept. The time limit of an item begins when the item starts. A portfolio with
    a budget first assigns all items together.

    Raises InvalidRequest or Infeasible if the request as a whole is refused.
    """
    started = time.monotonic()
    first = new_item_run(loaded, items[0], limits, dependencies)
    if needs_embedding(loaded):
        item_runs = [replace(first, item=item, progress=RunProgress()) for item in items]
        outcomes = await (_assigned if is_assigned_together(loaded, limits) else _embedded_together)(
            loaded, item_runs, dependencies
        )
    else:
        work = partial(_run_item, loaded, limits, dependencies)
        outcomes = await dependencies.queue.run_each(dependencies.client, items, work)
    for one in outcomes:
        record_in_rollout(loaded, one, dependencies)
    return outcomes, time.monotonic() - started


async def _run_item(
    loaded: LoadedArtifact[Plan], limits: RunLimits, dependencies: RunDependencies, item: RunItem
) -> CompletedItem | FailedItem:
    return await run_to_outcome(loaded, new_item_run(loaded, item, limits, dependencies), dependencies)


async def run_to_outcome(
    loaded: LoadedArtifact[Plan], item_run: ItemRun, dependencies: RunDependencies, stream: ChunkStream | None = None
) -> CompletedItem | FailedItem:
    """Run an item, and return its answer or its error.

    Failed calls that may have been paid count at their planned cost.
    """

    async def start(held: ItemRun) -> DecidedRun:
        return await start_item(loaded, held, dependencies)

    try:
        item_run, turn = await begin_turn(loaded, item_run, dependencies)
        outcome = await _run_traced(loaded, item_run, dependencies, start, stream)
        if isinstance(outcome, CompletedItem):
            await end_turn(loaded, turn, outcome.completed.answer, dependencies)
        return outcome
    except ParsimonyError as error:
        return _to_failed(loaded, item_run, {}, error)


async def _run_traced(
    loaded: LoadedArtifact[Plan],
    item_run: ItemRun,
    dependencies: RunDependencies,
    start: Callable[[ItemRun], Awaitable[DecidedRun]],
    stream: ChunkStream | None = None,
    names: Sequence[str] | None = None,
) -> CompletedItem | FailedItem:
    """Start and run an item within its budgets, and return its answer or its error.

    Args:
        start: starts the run within what the budgets leave.
        names: the classifiers that may be called; None for all of the artifact's.
    """
    planned: Mapping[str, float] = {}
    with dependencies.caller.tracing.trace_run(loaded.ref) as traced:
        try:
            async with reserve_item_budget(loaded, item_run, dependencies, make_call_pricing(loaded), names) as held:
                started = await start(held.item_run)
                planned = started.planned_costs
                traced.record_decision(started.facts, started.explain)
                held.pricing = make_call_pricing(loaded, planned)
                done = await _driven(loaded, held.item_run, started, dependencies, stream)
            traced.record_run(done.run)
            return done
        except ParsimonyError as error:
            traced.record_error(error)
            return _to_failed(loaded, item_run, planned, error)


def _to_failed(
    loaded: LoadedArtifact[Plan], item_run: ItemRun, planned: Mapping[str, float], error: ParsimonyError
) -> FailedItem:
    steps = to_run_steps(item_run.progress.results, make_call_pricing(loaded, planned), None)
    return FailedItem(error, steps, item_run.item.id)


def new_item_run(
    loaded: LoadedArtifact[Plan], item: RunItem, limits: RunLimits, dependencies: RunDependencies
) -> ItemRun:
    """Return the run of an item, whose time starts now.

    Raises InvalidRequest for a deadline if the unit is not a unit of time.
    """
    seconds = get_time_limit(limits, loaded.kind.time_unit(loaded.plan) or loaded.record.unit)
    return ItemRun(item, limits, seconds, time.monotonic() + seconds, dependencies.caller.open_circuits())


async def _driven(
    loaded: LoadedArtifact[Plan],
    item_run: ItemRun,
    started: DecidedRun,
    dependencies: RunDependencies,
    stream: ChunkStream | None = None,
) -> CompletedItem:
    facts = {**started.facts, "open_circuits": list_unavailable_names(loaded, item_run.excluded)}
    item_run.progress.facts |= facts
    try:
        ran = await execute_run(
            started.runner,
            dependencies.caller,
            item_run.item.item,
            item_run.ends_at,
            off_loop=started.is_slow,
            progress=item_run.progress,
            stream=stream,
            client=dependencies.client,
        )
    except RunTimeout:
        raise
    except EndpointFailed as error:
        busy = _as_busy(
            error, list_unavailable_names(loaded, item_run.excluded), item_run.progress, dependencies.caller
        )
        if busy is None:
            raise
        raise busy from error
    dependencies.confidences.observe_results(loaded.ref, loaded.record.summary.get("confidences", {}), ran.results)
    pricing = make_call_pricing(loaded, started.planned_costs)
    dependencies.recorder.record_run(loaded, item_run, ran, pricing, dependencies)
    return CompletedItem(to_run(ran, pricing, item_run.item.id), facts, ran)


def _as_busy(
    error: EndpointFailed, unavailable: Sequence[str], progress: RunProgress, caller: EndpointCaller
) -> EndpointsBusy | None:
    """Return an error with the shortest wait if all calls met rate limits; else None."""
    failed = [one for one in progress.results if one.error is not None]
    waits = {name: caller.rate_limit_seconds(name) for name in (*unavailable, *(one.name for one in failed))}
    limited = {
        one.name for one in failed if one.provider_error is not None and one.provider_error.status == RATE_LIMITED
    }
    if not waits or any(wait is None and name not in limited for name, wait in waits.items()):
        return None
    known = [wait for wait in waits.values() if wait is not None]
    return EndpointsBusy(str(error), min(known)) if known else EndpointsBusy(str(error))


def make_call_pricing(loaded: LoadedArtifact[Plan], planned: Mapping[str, float] = MappingProxyType({})) -> CallPricing:
    """Return the pricing of an artifact's calls.

    Args:
        planned: expected costs by name, without the embedder's.
    """
    known = {str(loaded.record.params.get("embedder")): loaded.kind.embedding_cost(loaded.plan), **planned}
    return CallPricing(
        lambda name: float(known.get(name, 0.0)), loaded.record.unit, seconds_per_unit(loaded.record.unit)
    )


async def _embedded_together(
    loaded: LoadedArtifact[Plan], item_runs: Sequence[ItemRun], dependencies: RunDependencies
) -> list[CompletedItem | FailedItem]:
    """Embed the items, many per request, and run each item separately."""
    make_feasible_query(loaded, item_runs[0])
    embeddings = await embed_items(loaded, item_runs, dependencies)

    async def run(each: tuple[ItemRun, Embedded | FailedItem]) -> CompletedItem | FailedItem:
        one, embedding = each
        if isinstance(embedding, FailedItem):
            return embedding
        return await run_to_outcome(loaded, one.with_new_start().with_embedding(*embedding), dependencies)

    return await dependencies.queue.run_each(dependencies.client, list(zip(item_runs, embeddings, strict=True)), run)


async def _assigned(
    loaded: LoadedArtifact[Plan], item_runs: Sequence[ItemRun], dependencies: RunDependencies
) -> list[CompletedItem | FailedItem]:
    """Embed the items, assign them all within the budget, and run each as assigned."""
    _require_no_sizes(one.item for one in item_runs)
    require_assignable_batch(loaded, item_runs[0], len(item_runs))
    embeddings = await embed_items(loaded, item_runs, dependencies)
    there = {index: one for index, one in enumerate(embeddings) if not isinstance(one, FailedItem)}
    outcomes: dict[int, CompletedItem | FailedItem] = {
        index: one for index, one in enumerate(embeddings) if isinstance(one, FailedItem)
    }
    if there:
        assigned = await assign_batch(loaded, item_runs[0], [vector for vector, _ in there.values()], dependencies)
        knowing = [item_runs[index].with_embedding(*one) for index, one in there.items()]

        async def run(one: tuple[ItemRun, str]) -> CompletedItem | FailedItem:
            return await run_assigned(loaded, one[0].with_new_start(), assigned, one[1], dependencies)

        each = list(zip(knowing, assigned.names, strict=True))
        outcomes |= dict(zip(there, await dependencies.queue.run_each(dependencies.client, each, run), strict=True))
    return [outcomes[index] for index in range(len(item_runs))]


def is_assigned_together(loaded: LoadedArtifact[Plan], limits: RunLimits) -> bool:
    """Return whether items of an artifact are assigned together under these limits."""
    return loaded.kind.assigner is not None and limits.budget_pacing is None


@dataclass(frozen=True, slots=True)
class AssignedBatch:
    """An assigned batch: the classifier of each item, and facts for the replies."""

    names: tuple[str, ...]
    facts: dict[str, Any]


NO_SIZES = Fault(("items",), "sizes are not supported for batch assignment; run the items one by one")
"""The fault of items with sizes that are assigned together."""


def _require_no_sizes(items: Iterable[RunItem]) -> None:
    """Raise InvalidRequest if items that are assigned together have sizes."""
    if any(item.size is not None for item in items):
        raise InvalidRequest.from_faults(NO_SIZES)


async def assign_batch(
    loaded: LoadedArtifact[Plan], item_run: ItemRun, vectors: Sequence[Sequence[float]], dependencies: RunDependencies
) -> AssignedBatch:
    """Assign the items of a batch by their embeddings.

    Unavailable classifiers are not used if another one is available.

    Raises:
        Infeasible: the limits cannot be kept.
        InvalidRequest: embeddings have different lengths.
    """
    if len({len(vector) for vector in vectors}) > 1:
        raise InvalidRequest.from_faults(Fault(("items",), "must have embeddings of equal length"))
    paced = await pace_batch(loaded, item_run, len(vectors), dependencies)
    assigner, options = loaded.kind.assigner, batch_options(loaded, paced)
    assert assigner is not None
    estimates = await asyncio.to_thread(assigner.estimate, loaded.plan, np.array(vectors))
    seconds = dependencies.settings.solve_timeout_s
    assignment = await asyncio.to_thread(assigner.assign, loaded.plan, estimates, options, seconds, item_run.excluded)
    return AssignedBatch(assignment.assignments, decision_facts(loaded, options, assignment))


async def run_assigned(
    loaded: LoadedArtifact[Plan], item_run: ItemRun, assigned: AssignedBatch, name: str, dependencies: RunDependencies
) -> CompletedItem | FailedItem:
    """Run an item with its assigned classifier.

    If the call fails, the best other classifier that does not cost more is called, so that the batch's budget holds.
    """

    async def start(held: ItemRun) -> DecidedRun:
        if held.classifier is not None:
            started = start_with_classifier(loaded, held, held.classifier, held.degraded)
        else:
            query = make_run_query(loaded, held, held.item.embedding)
            started = start_decided(loaded, held, query, dependencies, assigned=name)
        return replace(started, facts=assigned.facts)

    return await _run_traced(loaded, item_run, dependencies, start, names=[name])


async def embed_items(
    loaded: LoadedArtifact[Plan], item_runs: Sequence[ItemRun], dependencies: RunDependencies
) -> list[Embedded | FailedItem]:
    """Return for each item its embedding and the embedder's results, or a FailedItem.

    Missing embeddings are computed together. Raises InvalidRequest before any call if an item has neither embedding nor
    text.
    """
    given: dict[int, Embedded] = {
        index: (one.item.embedding, []) for index, one in enumerate(item_runs) if one.item.embedding is not None
    }
    lacking = [index for index in range(len(item_runs)) if index not in given]
    texts = [_text_at(loaded, item_runs, index) for index in lacking]
    made = await embed_texts(loaded, texts, dependencies.caller, min((one.ends_at for one in item_runs), default=0.0))
    outcomes: dict[int, Embedded | FailedItem] = {**given}
    for index, one in zip(lacking, made, strict=True):
        if isinstance(one, FailedEmbedding):
            outcomes[index] = FailedItem(
                one.error, to_run_steps(one.results, make_call_pricing(loaded), None), item_runs[index].item.id
            )
        else:
            outcomes[index] = one
    return [outcomes[index] for index in range(len(item_runs))]


def _text_at(loaded: LoadedArtifact[Plan], item_runs: Sequence[ItemRun], index: int) -> str:
    """Return the text of an item of a list; raises InvalidRequest with the item's index if it has none."""
    try:
        return get_item_text(loaded, item_runs[index].item)
    except InvalidRequest as error:
        raise InvalidRequest.from_faults(
            *(Fault(("items", index, *each.loc), each.msg) for each in error.faults)
        ) from error


def to_run_reply(loaded: LoadedArtifact[Plan], completed_item: CompletedItem) -> RunReply:
    """Return the API's reply for a run, with the artifact that decided."""
    return RunReply(**dict(completed_item.run), artifact=loaded.ref, **completed_item.facts)


def to_failed_run(failed_item: FailedItem, status: int) -> FailedRun:
    """Return the API's representation of an item without an answer."""
    return FailedRun(id=failed_item.item_id, error=str(failed_item.error), status=status, steps=failed_item.steps)
