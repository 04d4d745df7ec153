"""Runs of items: begin them, drive them, and tell them; several at the same time."""

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from app.running.asked import Asked, seconds_allowed
from app.running.embedding import Embedded, Embedding, Unembedded, embed, takes_embeddings
from app.running.executor import OnText, Ran, RunProgress, Tariff, drive, run_of, steps_of
from app.running.start import (
    REFUSALS,
    STARTS,
    Started,
    Tools,
    batch_options,
    planned_costs,
    refuse_unless_assignable,
    text_of,
)
from app.serving.answers import facts_of, out_of_order
from app.serving.catalog import Live
from models.arrays import Floats
from models.errors import Fault, Infeasible, InvalidRequest, ParsimonyError
from models.portfolio import Assignment, AssignmentOptions
from models.portfolio_constraints import ConstrainedAssignment
from models.run import FailedRun, Run, RunItem, RunLimits, RunReply, RunStep
from models.units import seconds_in
from solvers.policy import PolicyPlan
from solvers.portfolio import PortfolioPlan
from solvers.portfolio import run as portfolio_run

LEAST_S = 0.1
"""Seconds that an assignment gets, at least."""


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


async def run_one(live: Live[Any], item: RunItem, limits: RunLimits, tools: Tools) -> Done:
    """Run an item; raises what refuses it, EndpointFailed or RunTimeout if there is no answer."""
    return await run_asked(live, asked_of(live, item, limits, tools), tools)


async def run_asked(live: Live[Any], asked: Asked, tools: Tools, on_text: OnText | None = None) -> Done:
    """Run what was asked, as ``run_one`` does. on_text: takes the pieces of the answer while they come, where they
    do."""
    work = partial(outcome_of, live, asked, tools, on_text)
    outcome = await tools.queue.run_one(tools.client, work, asked.limits.timeout_s)
    if isinstance(outcome, Undone):
        raise outcome.error
    return outcome


async def run_each(
    live: Live[Any], items: tuple[RunItem, ...], limits: RunLimits, tools: Tools
) -> tuple[list[Done | Undone], float]:
    """Run several items, some at the same time, each endpoint's limit kept; and give the seconds that all took.

    The time of an item begins when it starts. A portfolio assigns them as a whole first, if it is given a budget.
    Raises InvalidRequest or Infeasible for what refuses all of them.
    """
    started = time.monotonic()
    first = asked_of(live, items[0], limits, tools)
    if takes_embeddings(live) or live.ref.solver == "portfolio":
        asked = [replace(first, item=item, progress=RunProgress()) for item in items]
        is_batch = live.ref.solver == "portfolio" and limits.budget_pacing is None
        outcomes = await (_assigned if is_batch else _embedded_together)(live, asked, tools)
    else:
        work = partial(_run_item, live, limits, tools)
        outcomes = await tools.queue.run_each(tools.client, items, work)
    return outcomes, time.monotonic() - started


async def _run_item(live: Live[Any], limits: RunLimits, tools: Tools, item: RunItem) -> Done | Undone:
    return await outcome_of(live, asked_of(live, item, limits, tools), tools)


async def outcome_of(live: Live[Any], asked: Asked, tools: Tools, on_text: OnText | None = None) -> Done | Undone:
    """Run an item, to its answer or to why it has none; calls in vain that may have been paid are told as planned."""
    planned: Mapping[str, float] = {}
    try:
        started = await STARTS[live.ref.solver](live, asked, tools)
        planned = started.planned
        return await _driven(live, asked, started, tools, on_text)
    except ParsimonyError as error:
        return Undone(error, steps_of(asked.progress.heard, tariff(live, planned), None), asked.item.id)


def asked_of(live: Live[Any], item: RunItem, limits: RunLimits, tools: Tools) -> Asked:
    """Begin the time of an item; raises InvalidRequest for a deadline in a unit that is none of time."""
    timed = live.plan.time_unit if isinstance(live.plan, PolicyPlan) else ""
    seconds = seconds_allowed(limits, timed or live.record.unit)
    return Asked(item, limits, seconds, time.monotonic() + seconds, tools.caller.open_circuits())


async def _driven(
    live: Live[Any],
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
        off_loop=started.off_loop,
        progress=asked.progress,
        on_text=on_text,
    )
    tools.confidences.observe(live.ref, live.record.summary.get("confidences", {}), ran.heard)
    return Done(run_of(ran, tariff(live, started.planned), asked.item.id), facts, ran)


def tariff(live: Live[Any], planned: Mapping[str, float] = MappingProxyType({})) -> Tariff:
    """Give how calls for an artifact are reckoned. planned: what they are expected to cost, except its embedder's."""
    known: dict[Any, float] = {live.record.params.get("embedder"): getattr(live.plan, "embedding_cost", 0.0), **planned}
    return Tariff(lambda name: float(known.get(name, 0.0)), live.record.unit, seconds_in(live.record.unit))


async def _embedded_together(live: Live[Any], asked: Sequence[Asked], tools: Tools) -> list[Done | Undone]:
    """Embed the items, many in a request, and run each by itself."""
    REFUSALS[live.ref.solver](live, asked[0])
    embeddings = await embeddings_of(live, asked, tools)

    async def run(each: tuple[Asked, Embedded | Undone]) -> Done | Undone:
        one, embedding = each
        if isinstance(embedding, Undone):
            return embedding
        return await outcome_of(live, one.restarted().knowing(*embedding), tools)

    return await tools.queue.run_each(tools.client, list(zip(asked, embeddings, strict=True)), run)


async def _assigned(live: Live[PortfolioPlan], asked: Sequence[Asked], tools: Tools) -> list[Done | Undone]:
    """Embed the items, assign them all within the budget, and run each as it was assigned."""
    refuse_sizes(one.item for one in asked)
    refuse_unless_assignable(live, asked[0], len(asked))
    embeddings = await embeddings_of(live, asked, tools)
    there = {place: one for place, one in enumerate(embeddings) if not isinstance(one, Undone)}
    outcomes: dict[int, Done | Undone] = {place: one for place, one in enumerate(embeddings) if isinstance(one, Undone)}
    if there:
        vectors = [vector for vector, _ in there.values()]
        estimates, costs = await estimated(live.plan, vectors)
        assigned = await assign(live, estimates, costs, asked[0].limits, tools, asked[0].without)
        knowing = [asked[place].knowing(*one) for place, one in there.items()]
        each = zip(knowing, assigned.names, estimates, strict=True)

        async def run(one: tuple[Asked, str, Floats]) -> Done | Undone:
            return await run_assigned(live, one[0].restarted(), assigned, one[1], one[2], tools)

        outcomes |= dict(zip(there, await tools.queue.run_each(tools.client, list(each), run), strict=True))
    return [outcomes[place] for place in range(len(asked))]


@dataclass(frozen=True, slots=True)
class Assigned:
    """A batch as it was assigned. names: for each item its classifier. per_item: what an item may cost on average.
    facts: what replies say beside the runs."""

    names: tuple[str, ...]
    per_item: float
    facts: dict[str, Any]


def refuse_sizes(items: Iterable[RunItem]) -> None:
    """Raise InvalidRequest where items that are to be assigned together have sizes."""
    if any(item.size is not None for item in items):
        raise InvalidRequest.at(Fault(("items",), "have sizes: run them one by one, or leave the sizes out"))


async def estimated(plan: PortfolioPlan, vectors: Sequence[Sequence[float]]) -> tuple[Floats, Floats | None]:
    """Return for each embedding how likely each classifier is right, (n, m), and its expected costs; raises
    InvalidRequest if their lengths differ."""
    if len({len(vector) for vector in vectors}) > 1:
        raise InvalidRequest.at(Fault(("items",), "have embeddings of different lengths"))
    queries = np.array(vectors)
    return await asyncio.to_thread(plan.estimate, queries), plan.expected_costs(queries)


async def assign(
    live: Live[PortfolioPlan],
    estimates: Floats,
    costs: Floats | None,
    limits: RunLimits,
    tools: Tools,
    without: frozenset[str],
) -> Assigned:
    """Assign items within the budget, by their estimates; what is ``without`` gets none while there is another.

    Raises Infeasible.
    """
    plan, options = live.plan, batch_options(live, limits)
    assignment = await asyncio.to_thread(
        assign_among_others, plan, estimates, costs, options, tools.settings.solve_timeout_s, without
    )
    per_item = max((assignment.budget or 0.0) / len(estimates), plan.cheapest)
    return Assigned(assignment.assignments, per_item, facts_of(live, options, assignment))


def assign_among_others(
    plan: PortfolioPlan,
    estimates: Floats,
    costs: Floats | None,
    options: AssignmentOptions,
    time_limit_s: float,
    without: Collection[str],
) -> Assignment | ConstrainedAssignment:
    """Assign items to those that may be called; where these alone cannot keep the limits, to as few others as need be,
    as if these were always wrong. Raises what ``assign`` does."""
    down = np.array([name in without for name in plan.classifiers])
    if not down.any() or down.all():
        return plan.assign(estimates, options, time_limit_s, None, costs)
    ends_at = time.monotonic() + time_limit_s
    with suppress(Infeasible, InvalidRequest):  # what is wrong with the limits themselves is said of them alone
        return plan.assign(estimates, options, time_limit_s, ~down, costs)
    left = max(ends_at - time.monotonic(), LEAST_S)
    return plan.assign(np.where(down, 0.0, estimates), options, left, None, costs)


async def run_assigned(
    live: Live[PortfolioPlan],
    asked: Asked,
    assigned: Assigned,
    name: str,
    estimates: Floats,
    tools: Tools,
) -> Done | Undone:
    """Run an item by the classifier that it was assigned; where that fails, the best other one that costs no more
    takes its place: the batch's budget holds."""
    plan, costs = live.plan, planned_costs(live.plan)
    most = costs[name] + plan.embedding_cost
    other = portfolio_run.next_best(plan, estimates, assigned.per_item, most=most)
    first = other(frozenset(plan.classifiers) - {name}, 0.0)
    assert first is not None
    runner = portfolio_run.run(first, other, left=asked.left, without=asked.without)
    try:
        return await _driven(live, asked, Started(runner, assigned.facts, costs), tools)
    except ParsimonyError as error:
        return Undone(error, steps_of(asked.progress.heard, tariff(live, costs), None), asked.item.id)


async def embeddings_of(live: Embedding, asked: Sequence[Asked], tools: Tools) -> list[Embedded | Undone]:
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


def _text_at(live: Embedding, asked: Sequence[Asked], place: int) -> str:
    """Give the text of an item of a list; raises InvalidRequest, with its place, if it has none."""
    try:
        return text_of(live, asked[place].item)
    except InvalidRequest as error:
        raise InvalidRequest.at(*(Fault(("items", place, *each.loc), each.msg) for each in error.faults)) from error


def reply_of(live: Live[Any], done: Done) -> RunReply:
    """Tell a run together with the artifact that decided it."""
    return RunReply(**dict(done.run), artifact=live.ref, **done.facts)


def failed(undone: Undone, status: int) -> FailedRun:
    """Tell a run without an answer."""
    return FailedRun(id=undone.item_id, error=str(undone.error), status=status, steps=undone.steps)
