"""How the run of an item begins, subject by subject: what is decided, and the runner that follows the decision."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.processes.sandbox import Sandbox
from app.running.asked import Asked, query_of, route_budget
from app.running.caller import Caller
from app.running.confidence_monitor import ConfidenceMonitor
from app.running.embedding import Embedding, Unembedded, embed, embedder_of
from app.running.item_queue import ItemQueue
from app.serving.answers import facts_of, with_default_limits
from app.serving.catalog import Live
from app.serving.pacing import Single, paced
from app.settings import Settings
from app.store.ledgers import Ledgers
from models import InvalidRequest
from models.cascade import CascadeQuery
from models.errors import Fault
from models.index import IndexQuery
from models.pipeline import PipelineQuery, Step
from models.policy import PolicyQuery
from models.portfolio import AssignmentOptions, Budget, RouteDecision, RouteQuery
from models.portfolio_streams import Pacing
from models.run import RunItem, RunLimits
from models.units import seconds_in
from solvers.cascade import CascadePlan
from solvers.cascade import run as cascade_run
from solvers.index import IndexPlan
from solvers.index import run as index_run
from solvers.pipeline import PipelinePlan
from solvers.pipeline import run as pipeline_run
from solvers.policy import PolicyPlan
from solvers.policy import run as policy_run
from solvers.portfolio import PortfolioPlan
from solvers.portfolio import run as portfolio_run
from solvers.running import Runner


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What the beginning of a run may need."""

    settings: Settings
    caller: Caller
    sandbox: Sandbox
    ledgers: Ledgers
    is_store_up: Callable[[], bool]
    queue: ItemQueue
    client: str = ""
    """Whose items these are: a key, or an address."""
    confidences: ConfidenceMonitor = field(default_factory=ConfidenceMonitor)


@dataclass(frozen=True, slots=True)
class Started:
    """A run that was decided. facts: what the reply says beside it. planned: what a call is expected to cost.
    off_loop: whether its steps take so long that others would wait."""

    runner: Runner
    facts: dict[str, Any]
    planned: Mapping[str, float]
    off_loop: bool = False


async def cascade(live: Live[CascadePlan], asked: Asked, tools: Tools) -> Started:
    """Decide a cascade within the deadline, the budget or of the accuracy."""
    asked.refuse_others("cascade")
    limits, unit_s = asked.limits, seconds_in(live.record.unit)
    query = query_of(
        CascadeQuery,
        deadline=limits.deadline,
        min_accuracy=limits.min_accuracy,
        max_cost=asked.amount(),
        item=asked.item.id,
    )
    query = with_default_limits(live, query)
    decision = live.plan.decide(query)
    runner = cascade_run.run(live.plan, query, decision, left=asked.left, unit_s=unit_s, without=asked.without)
    planned = dict(zip(live.plan.names, live.plan.execution_times.tolist(), strict=True))
    planned |= {step.classifier: step.execution_time for step in decision.steps}
    return Started(runner, facts_of(live, query, decision), planned)


async def policy(live: Live[PolicyPlan], asked: Asked, tools: Tools) -> Started:
    """Begin with nothing acquired, and with the item's embedding where the policy knows those."""
    refuse_unless_decidable(live, asked)
    embedding = await embedded(live, asked, tools) if live.plan.dimensions else asked.item.embedding
    query = with_default_limits(live, policy_query(live.plan, asked, embedding))
    facts = facts_of(live, query, live.plan.decide(query))
    planned = dict(zip(live.plan.sensors, live.plan.costs.tolist(), strict=True))
    runner = policy_run.run(live.plan, query, left=asked.left, without=asked.without)
    return Started(runner, facts, planned)


def policy_query(plan: PolicyPlan, asked: Asked, embedding: tuple[float, ...] | None = None) -> PolicyQuery:
    """Make the query of an item of which no more than its embedding is known. A deadline is kept as planned where a
    policy knows its sensors' times, and on the clock always."""
    limits = asked.limits
    query: PolicyQuery = query_of(
        PolicyQuery,
        budget=asked.amount(),
        hard_budget=limits.hard_budget,
        deadline=limits.deadline if len(plan.times) else None,
        min_accuracy=limits.min_accuracy,
        item=asked.item.id,
        embedding=embedding,
    )
    return query


def refuse_unless_decidable(live: Live[PolicyPlan], asked: Asked) -> None:
    """Raise InvalidRequest, or Infeasible, for what can be refused of an item before its embedding is paid for."""
    asked.refuse_others("policy")
    if asked.item.text is not None and not live.plan.dimensions:
        raise InvalidRequest.at(Fault(("text",), f"means nothing here: {live.ref.spelt} was built without embeddings"))
    live.plan.mixture(with_default_limits(live, policy_query(live.plan, asked)))


async def pipeline(live: Live[PipelinePlan], asked: Asked, tools: Tools) -> Started:
    """Choose a configuration within the budget, or of the accuracy."""
    asked.refuse_others("pipeline")
    plan = live.plan
    query = query_of(PipelineQuery, max_cost=asked.amount(), min_accuracy=asked.limits.min_accuracy)
    decision = plan.decide(query)
    modules, run_in = tools.settings.allowed_modules(), tools.sandbox

    def step(known: Mapping[str, Any]) -> Step:
        return plan.step(decision.solution, known, modules, run_in)

    widths = {name: len(columns) for name, columns in zip(plan.features, plan.columns, strict=True)}
    runner = pipeline_run.run(step, widths, left=asked.left, without=asked.without)
    planned = dict(zip(plan.features, plan.costs.tolist(), strict=True))
    return Started(runner, facts_of(live, query, decision), planned, off_loop=True)


async def index(live: Live[IndexPlan], asked: Asked, tools: Tools) -> Started:
    """Choose the features for the item's size and budget."""
    asked.refuse_others("index")
    plan = live.plan
    query = query_of(IndexQuery, size=asked.item.size, budget=asked.amount(), min_accuracy=asked.limits.min_accuracy)
    query = with_default_limits(live, query)
    chosen = plan.decide(query)

    def predict(features: Any, cells: Mapping[str, Any]) -> Any:
        return plan.predict(features, [cells], tools.settings.allowed_modules(), tools.sandbox)

    columns = dict(zip(plan.features, plan.columns, strict=True))
    runner = index_run.run(chosen.features, columns, predict, left=asked.left, without=asked.without)
    share = chosen.cost / max(len(chosen.features), 1)
    return Started(runner, facts_of(live, query, chosen), dict.fromkeys(chosen.features, share), off_loop=True)


async def portfolio(live: Live[PortfolioPlan], asked: Asked, tools: Tools) -> Started:
    """Route by the item's embedding, once all that can be refused without it has been."""
    refuse_unless_sensible(live, asked)
    embedding = await embedded(live, asked, tools)
    query, plan, pacing = (
        with_default_limits(live, route_query(asked, embedding)),
        live.plan,
        asked.limits.budget_pacing,
    )
    budget, estimates = plan.budget_of(query), plan.estimate_one(query.query)
    among, lot, costs = callable_ones(plan, asked.without), plan.lot_of(query), plan.own_costs(query)
    if pacing is None:
        first = plan.route(estimates, budget, lot=lot, costs=costs, among=among)
        other = portfolio_run.next_best(plan, estimates, budget, costs=costs)
    else:
        single = Single(query, estimates, budget, among)
        first, _ = await paced(live, single, pacing, tools.ledgers, is_up=tools.is_store_up())
        other = _as_counted(portfolio_run.next_best(plan, estimates, budget, most=first.cost, costs=costs), pacing)
    runner = portfolio_run.run(first, other, left=asked.left, without=asked.without)
    return Started(runner, facts_of(live, query, first), planned_costs(plan, costs))


def _as_counted(other: portfolio_run.Next, pacing: Pacing) -> portfolio_run.Next:
    """Choose again only what is within what the ledger counted: none with a rate limit, nor any where it has
    resources."""

    def choose(tried: frozenset[str], lost: float) -> RouteDecision | None:
        return None if pacing.resources else other(tried | frozenset(pacing.classifiers), lost)

    return choose


def route_query(asked: Asked, embedding: tuple[float, ...]) -> RouteQuery:
    """Make the query that routes an item."""
    item, limits = asked.item, asked.limits
    query: RouteQuery = query_of(
        RouteQuery,
        query=embedding,
        size=item.size,
        item=item.id,
        budget=route_budget(limits),
        min_accuracy=limits.min_accuracy,
    )
    return query


def callable_ones(plan: PortfolioPlan, without: frozenset[str]) -> Any:
    """Tell which classifiers can be had; None where all can, or none."""
    among = np.array([name not in without for name in plan.classifiers])
    return among if among.any() and not among.all() else None


def planned_costs(plan: PortfolioPlan, costs: Any = None) -> dict[str, float]:
    """Give what each classifier of a portfolio is expected to cost, beside the embedding."""
    own = plan.costs if costs is None else costs
    return dict(zip(plan.classifiers, own.tolist(), strict=True))


def refuse_unless_sensible(live: Live[PortfolioPlan], asked: Asked) -> None:
    """Raise InvalidRequest, or Infeasible, for what can be refused of an item before anything is paid for it."""
    asked.refuse_others("portfolio")
    live.plan.budget_of(with_default_limits(live, route_query(asked, (0.0,))))


def refuse_unless_assignable(live: Live[PortfolioPlan], asked: Asked, count: int) -> None:
    """Raise the same of so many items that are assigned together: an accuracy is that of batches, not of single
    queries."""
    asked.refuse_others("portfolio")
    live.plan.refuse_infeasible(count, batch_options(live, asked.limits))


def batch_options(live: Live[PortfolioPlan], limits: RunLimits) -> AssignmentOptions:
    """Make a batch's options of what an item may cost on average: as a single item without limits may, where there are
    none."""
    single = query_of(RouteQuery, query=(0.0,), budget=route_budget(limits), min_accuracy=limits.min_accuracy)
    asked = with_default_limits(live, single).budget
    budget = asked and query_of(Budget, per_query=asked.per_query, fraction=asked.fraction)
    options: AssignmentOptions = query_of(AssignmentOptions, budget=budget, min_accuracy=limits.min_accuracy)
    return options


async def embedded(live: Embedding, asked: Asked, tools: Tools) -> tuple[float, ...]:
    """Give the embedding of an item, as it was sent or as the artifact's embedder makes it of the text; what was called
    for it is noted. Raises InvalidRequest where there is neither, EndpointFailed where the embedder gives none."""
    if asked.item.embedding is not None:
        return asked.item.embedding
    (made,) = await embed(live, [text_of(live, asked.item)], tools.caller, asked.ends_at)
    if isinstance(made, Unembedded):
        asked.progress.heard.append(made.heard)
        raise made.error
    vector, calls = made
    asked.progress.heard += calls
    return vector


def text_of(live: Embedding, item: RunItem) -> str:
    """Give the text that an item's embedding is made of; raises InvalidRequest if there is none, or no embedder."""
    text = item.text if item.text is not None else item.item
    if not isinstance(text, str):
        raise InvalidRequest.at(Fault(("embedding",), "is missing, and cannot be made: the item is no text"))
    embedder_of(live)
    return text


Start = Callable[[Live[Any], Asked, Tools], Awaitable[Started]]
STARTS: dict[str, Start] = {
    "cascade": cascade,
    "portfolio": portfolio,
    "policy": policy,
    "pipeline": pipeline,
    "index": index,
}
"""How each subject's runs begin; one without a line here decides only."""
REFUSALS: dict[str, Callable[[Live[Any], Asked], None]] = {
    "portfolio": refuse_unless_sensible,
    "policy": refuse_unless_decidable,
}
"""What refuses an item of a subject that knows embeddings before one is paid for."""
