"""Runs of items: begin them, drive them, and tell them; several at the same time."""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from app.running.asked import Asked, seconds_allowed
from app.running.embedding import Embedded, Unembedded, embed, takes_embeddings
from app.running.executor import OnText, Ran, RunProgress, Tariff, drive, run_of, steps_of
from app.running.start import (
    Started,
    Tools,
    batch_options,
    refuse_hopeless,
    refuse_unless_assignable,
    run_query,
    start,
    start_decided,
    text_of,
)
from app.serving.answers import facts_of, out_of_order
from app.serving.catalog import Live
from models.errors import Fault, InvalidRequest, ParsimonyError
from models.run import FailedRun, Run, RunItem, RunLimits, RunReply, RunStep
from models.units import seconds_in
from solvers.base import Plan


@dataclass(frozen=True, slots=True)
class Done:
    """A run that has an answer. ran: as it went, with the text of the answer."""

    run: Run
    facts: dict[str, Any]
    ran: Ran


@dataclass(frozen=True, slots=True)
class Undone:
    """A run that has none, and what was called for it."""

    error: ParsimonyError
    steps: tuple[RunStep, ...]
    item_id: str | None


async def run_one(live: Live[Plan], item: RunItem, limits: RunLimits, tools: Tools) -> Done:
    """Run an item; raises what refuses it, EndpointFailed or RunTimeout if there is no answer."""
    return await run_asked(live, asked_of(live, item, limits, tools), tools)


async def run_asked(live: Live[Plan], asked: Asked, tools: Tools, on_text: OnText | None = None) -> Done:
    """Run what was asked, as ``run_one`` does. on_text: takes the pieces of the answer while they come, where they
    do."""
    work = partial(outcome_of, live, asked, tools, on_text)
    outcome = await tools.queue.run_one(tools.client, work, asked.limits.timeout_s)
    if isinstance(outcome, Undone):
        raise outcome.error
    return outcome


async def run_each(
    live: Live[Plan], items: tuple[RunItem, ...], limits: RunLimits, tools: Tools
) -> tuple[list[Done | Undone], float]:
    """Run several items, some at the same time, each endpoint's limit kept; and give the seconds that all took.

    The time of an item begins when it starts. A portfolio assigns them as a whole first, if it is given a budget.
    Raises InvalidRequest or Infeasible for what refuses all of them.
    """
    started = time.monotonic()
    first = asked_of(live, items[0], limits, tools)
    if takes_embeddings(live):
        asked = [replace(first, item=item, progress=RunProgress()) for item in items]
        outcomes = await (_assigned if assigns(live, limits) else _embedded_together)(live, asked, tools)
    else:
        work = partial(_run_item, live, limits, tools)
        outcomes = await tools.queue.run_each(tools.client, items, work)
    return outcomes, time.monotonic() - started


async def _run_item(live: Live[Plan], limits: RunLimits, tools: Tools, item: RunItem) -> Done | Undone:
    return await outcome_of(live, asked_of(live, item, limits, tools), tools)


async def outcome_of(live: Live[Plan], asked: Asked, tools: Tools, on_text: OnText | None = None) -> Done | Undone:
    """Run an item, to its answer or to why it has none; calls in vain that may have been paid are told as planned."""
    planned: Mapping[str, float] = {}
    try:
        started = await start(live, asked, tools)
        planned = started.planned
        return await _driven(live, asked, started, tools, on_text)
    except ParsimonyError as error:
        return Undone(error, steps_of(asked.progress.heard, tariff(live, planned), None), asked.item.id)


def asked_of(live: Live[Plan], item: RunItem, limits: RunLimits, tools: Tools) -> Asked:
    """Begin the time of an item; raises InvalidRequest for a deadline in a unit that is none of time."""
    seconds = seconds_allowed(limits, live.kind.time_unit(live.plan) or live.record.unit)
    return Asked(item, limits, seconds, time.monotonic() + seconds, tools.caller.open_circuits())


async def _driven(
    live: Live[Plan],
    asked: Asked,
    started: Started,
    tools: Tools,
    on_text: OnText | None = None,
) -> Done:
    facts = {**started.facts, "open_circuits": out_of_order(live, asked.without)}
    asked.progress.facts |= facts
    ran = await drive(
        started.runner,
        tools.caller,
        asked.item.item,
        asked.ends_at,
        off_loop=started.is_slow,
        progress=asked.progress,
        on_text=on_text,
    )
    tools.confidences.observe(live.ref, live.record.summary.get("confidences", {}), ran.heard)
    return Done(run_of(ran, tariff(live, started.planned), asked.item.id), facts, ran)


def tariff(live: Live[Plan], planned: Mapping[str, float] = MappingProxyType({})) -> Tariff:
    """Give how calls for an artifact are reckoned. planned: what they are expected to cost, except its embedder's."""
    known = {str(live.record.params.get("embedder")): live.kind.embedding_cost(live.plan), **planned}
    return Tariff(lambda name: float(known.get(name, 0.0)), live.record.unit, seconds_in(live.record.unit))


async def _embedded_together(live: Live[Plan], asked: Sequence[Asked], tools: Tools) -> list[Done | Undone]:
    """Embed the items, many in a request, and run each by itself."""
    refuse_hopeless(live, asked[0])
    embeddings = await embeddings_of(live, asked, tools)

    async def run(each: tuple[Asked, Embedded | Undone]) -> Done | Undone:
        one, embedding = each
        if isinstance(embedding, Undone):
            return embedding
        return await outcome_of(live, one.restarted().knowing(*embedding), tools)

    return await tools.queue.run_each(tools.client, list(zip(asked, embeddings, strict=True)), run)


async def _assigned(live: Live[Plan], asked: Sequence[Asked], tools: Tools) -> list[Done | Undone]:
    """Embed the items, assign them all within the budget, and run each as it was assigned."""
    refuse_sizes(one.item for one in asked)
    refuse_unless_assignable(live, asked[0], len(asked))
    embeddings = await embeddings_of(live, asked, tools)
    there = {place: one for place, one in enumerate(embeddings) if not isinstance(one, Undone)}
    outcomes: dict[int, Done | Undone] = {place: one for place, one in enumerate(embeddings) if isinstance(one, Undone)}
    if there:
        assigned = await assign(live, asked[0], [vector for vector, _ in there.values()], tools)
        knowing = [asked[place].knowing(*one) for place, one in there.items()]

        async def run(one: tuple[Asked, str]) -> Done | Undone:
            return await run_assigned(live, one[0].restarted(), assigned, one[1], tools)

        each = list(zip(knowing, assigned.names, strict=True))
        outcomes |= dict(zip(there, await tools.queue.run_each(tools.client, each, run), strict=True))
    return [outcomes[place] for place in range(len(asked))]


def assigns(live: Live[Plan], limits: RunLimits) -> bool:
    """Return whether items of an artifact are assigned together within these limits."""
    return live.kind.assigner is not None and limits.budget_pacing is None


@dataclass(frozen=True, slots=True)
class Assigned:
    """A batch as it was assigned. names: for each item its classifier. facts: what replies report of it."""

    names: tuple[str, ...]
    facts: dict[str, Any]


def refuse_sizes(items: Iterable[RunItem]) -> None:
    """Raise InvalidRequest where items that are to be assigned together have sizes."""
    if any(item.size is not None for item in items):
        raise InvalidRequest.at(Fault(("items",), "have sizes: run them one by one, or leave the sizes out"))


async def assign(live: Live[Plan], asked: Asked, vectors: Sequence[Sequence[float]], tools: Tools) -> Assigned:
    """Assign the items of a batch, by their embeddings, within the limits of one of them.

    What is unavailable gets none while there is another. Raises Infeasible, or InvalidRequest where embeddings have
    different lengths.
    """
    if len({len(vector) for vector in vectors}) > 1:
        raise InvalidRequest.at(Fault(("items",), "have embeddings of different lengths"))
    assigner, options = live.kind.assigner, batch_options(live, asked)
    assert assigner is not None
    estimates = await asyncio.to_thread(assigner.estimate, live.plan, np.array(vectors))
    seconds = tools.settings.solve_timeout_s
    assignment = await asyncio.to_thread(assigner.assign, live.plan, estimates, options, seconds, asked.without)
    return Assigned(assignment.assignments, facts_of(live, options, assignment))


async def run_assigned(live: Live[Plan], asked: Asked, assigned: Assigned, name: str, tools: Tools) -> Done | Undone:
    """Run an item by the classifier that it was assigned; where that fails, the best other one that costs no more
    takes its place: the batch's budget holds."""
    planned: Mapping[str, float] = {}
    try:
        query = run_query(live, asked, asked.item.embedding)
        started = start_decided(live, asked, query, tools, assigned=name)
        planned = started.planned
        return await _driven(live, asked, replace(started, facts=assigned.facts), tools)
    except ParsimonyError as error:
        return Undone(error, steps_of(asked.progress.heard, tariff(live, planned), None), asked.item.id)


async def embeddings_of(live: Live[Plan], asked: Sequence[Asked], tools: Tools) -> list[Embedded | Undone]:
    """Give the embedding of each item and what was called for it, or the run that has no answer for want of it; those
    that are made are made together. Raises InvalidRequest, before anything is called, where one cannot be made."""
    given: dict[int, Embedded] = {
        place: (one.item.embedding, []) for place, one in enumerate(asked) if one.item.embedding is not None
    }
    lacking = [place for place in range(len(asked)) if place not in given]
    texts = [_text_at(live, asked, place) for place in lacking]
    made = await embed(live, texts, tools.caller, min((one.ends_at for one in asked), default=0.0))
    outcomes: dict[int, Embedded | Undone] = {**given}
    for place, one in zip(lacking, made, strict=True):
        if isinstance(one, Unembedded):
            outcomes[place] = Undone(one.error, steps_of([one.heard], tariff(live), None), asked[place].item.id)
        else:
            outcomes[place] = one
    return [outcomes[place] for place in range(len(asked))]


def _text_at(live: Live[Plan], asked: Sequence[Asked], place: int) -> str:
    """Give the text of an item of a list; raises InvalidRequest, with its place, if it has none."""
    try:
        return text_of(live, asked[place].item)
    except InvalidRequest as error:
        raise InvalidRequest.at(*(Fault(("items", place, *each.loc), each.msg) for each in error.faults)) from error


def reply_of(live: Live[Plan], done: Done) -> RunReply:
    """Tell a run together with the artifact that decided it."""
    return RunReply(**dict(done.run), artifact=live.ref, **done.facts)


def failed(undone: Undone, status: int) -> FailedRun:
    """Tell a run without an answer."""
    return FailedRun(id=undone.item_id, error=str(undone.error), status=status, steps=undone.steps)
