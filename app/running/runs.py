"""Runs of items: begin them, drive them, and tell them; several at the same time."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.running.executor import OnText, Ran, Tariff, drive, steps_of, told
from app.running.start import (
    STARTS,
    Asked,
    Started,
    Tools,
    embedded,
    planned_costs,
    query_of,
    refuse_unless_sensible,
    route_budget,
    seconds_allowed,
)
from app.serving.answers import facts_of
from app.serving.catalog import Live
from models.errors import EndpointFailed, Fault, InvalidRequest, ParsimonyError
from models.portfolio import AssignmentOptions, Budget
from models.run import FailedRun, Run, RunItem, RunLimits, RunStep
from models.units import seconds_in
from solvers.portfolio import PortfolioPlan
from solvers.portfolio import run as portfolio_run
from solvers.running import Heard


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


async def run_one(
    live: Live[Any], item: RunItem, limits: RunLimits, tools: Tools, on_text: OnText | None = None
) -> Done:
    """Run an item; raises what refuses it, EndpointFailed or RunTimeout if there is no answer. on_text: takes the
    pieces of the answer while they come, where they do."""
    outcome = await _outcome(live, item, limits, tools, on_text)
    if isinstance(outcome, Undone):
        raise outcome.error
    return outcome


async def run_each(
    live: Live[Any], items: tuple[RunItem, ...], limits: RunLimits, tools: Tools
) -> tuple[list[Done | Undone], float]:
    """Run several items at the same time, each endpoint's limit kept; and tell how many seconds all took.

    A portfolio assigns them as a whole first, if it is given a budget. Raises InvalidRequest or Infeasible for what
    refuses all of them.
    """
    started = time.monotonic()
    if live.ref.solver == "portfolio" and limits.budget_pacing is None:
        outcomes = await _assigned(live, items, limits, tools)
    else:
        outcomes = list(await asyncio.gather(*(_outcome(live, item, limits, tools) for item in items)))
    return outcomes, time.monotonic() - started


async def _outcome(
    live: Live[Any], item: RunItem, limits: RunLimits, tools: Tools, on_text: OnText | None = None
) -> Done | Undone:
    asked = _asked(live, item, limits, tools)
    heard: list[Heard] = []
    try:
        started = await STARTS[live.ref.solver](live, asked, tools)
        return await _driven(live, asked, started, tools, heard, on_text)
    except ParsimonyError as error:
        return Undone(error, steps_of(heard, _tariff(live, {}), None), item.id)


def _asked(live: Live[Any], item: RunItem, limits: RunLimits, tools: Tools) -> Asked:
    left = seconds_allowed(limits, live.record.unit)
    return Asked(item, limits, time.monotonic() + left, tools.caller.open_circuits())


async def _driven(
    live: Live[Any],
    asked: Asked,
    started: Started,
    tools: Tools,
    heard: list[Heard],
    on_text: OnText | None = None,
) -> Done:
    heard += started.heard
    ran = await drive(
        started.runner,
        tools.caller,
        asked.item.item,
        asked.ends_at,
        off_loop=started.off_loop,
        heard=heard,
        on_text=on_text,
    )
    return Done(told(ran, _tariff(live, started.planned), asked.item.id), started.facts, ran)


def _tariff(live: Live[Any], planned: Any) -> Tariff:
    return Tariff(lambda name: float(planned.get(name, 0.0)), live.record.unit, seconds_in(live.record.unit))


async def _assigned(
    live: Live[PortfolioPlan], items: tuple[RunItem, ...], limits: RunLimits, tools: Tools
) -> list[Done | Undone]:
    """Embed the items, assign them all within the budget, and run each as it was assigned.

    Where the classifier of an item fails, the best other one that costs no more takes its place: the batch's budget
    holds.
    """
    asked = [_asked(live, item, limits, tools) for item in items]
    if any(item.size is not None for item in items):
        raise InvalidRequest.at(Fault(("items",), "have sizes: run them one by one, or leave the sizes out"))
    refuse_unless_sensible(live, asked[0])
    plan, options = live.plan, _options(limits)
    embeddings = await asyncio.gather(*(_embedding(live, one, tools) for one in asked))
    there = [place for place, one in enumerate(embeddings) if not isinstance(one, Undone)]
    outcomes: list[Done | Undone | None] = [one if isinstance(one, Undone) else None for one in embeddings]
    if not there:
        return [one for one in outcomes if one is not None]
    vectors = [vector for vector, _ in (one for one in embeddings if not isinstance(one, Undone))]
    calls = [heard for _, heard in (one for one in embeddings if not isinstance(one, Undone))]
    if len({len(vector) for vector in vectors}) > 1:
        raise InvalidRequest.at(Fault(("items",), "have embeddings of different lengths"))
    estimates = await asyncio.to_thread(plan.estimate, np.array(vectors))
    down = np.array([name in asked[0].without for name in plan.classifiers])
    hopeful = np.where(down & ~down.all(), 0.0, estimates)  # what is down is as if it were always wrong
    assignment = await asyncio.to_thread(plan.assign, hopeful, options, tools.settings.solve_timeout_s)
    facts = facts_of(live, options, assignment)
    costs = planned_costs(plan)

    async def run(place: int) -> Done | Undone:
        name, heard, own = assignment.assignments[place], list[Heard](), asked[there[place]]
        most = costs[name] + plan.embedding_cost
        budget = max((assignment.budget or 0.0) / len(vectors), plan.cheapest)
        other = portfolio_run.next_best(plan, estimates[place], budget, most=most)
        first = other(frozenset(plan.classifiers) - {name}, 0.0)
        assert first is not None
        runner = portfolio_run.run(first, other, left=own.left, without=own.without)
        started = Started(runner, facts, costs, heard=calls[place])
        try:
            return await _driven(live, own, started, tools, heard)
        except ParsimonyError as error:
            return Undone(error, steps_of(heard, _tariff(live, costs), None), own.item.id)

    for place, outcome in zip(there, await asyncio.gather(*map(run, range(len(there)))), strict=True):
        outcomes[place] = outcome
    return [one for one in outcomes if one is not None]


async def _embedding(
    live: Live[PortfolioPlan], asked: Asked, tools: Tools
) -> tuple[tuple[float, ...], list[Heard]] | Undone:
    try:
        return await embedded(live, asked, tools)
    except EndpointFailed as error:
        return Undone(error, (), asked.item.id)


def _options(limits: RunLimits) -> AssignmentOptions:
    """Make a batch's options of what an item may cost on average."""
    asked = route_budget(limits)
    budget = asked and query_of(Budget, per_query=asked.per_query, fraction=asked.fraction)
    options: AssignmentOptions = query_of(AssignmentOptions, budget=budget, min_accuracy=limits.min_accuracy)
    return options


def failed(undone: Undone, status: int) -> FailedRun:
    """Tell a run without an answer."""
    return FailedRun(id=undone.item_id, error=str(undone.error), status=status, steps=undone.steps)
