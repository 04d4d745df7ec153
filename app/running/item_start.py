"""Start of an item's run: the decision, and the runner that executes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, cast
from uuid import uuid4

from app.processes.sandbox import Sandbox
from app.running.budget_guard import BudgetGuard
from app.running.confidence_monitor import ConfidenceMonitor
from app.running.embedding import FailedEmbedding, embed_texts, needs_embedding, require_embedder
from app.running.endpoint_caller import EndpointCaller
from app.running.item_queue import ItemQueue
from app.running.item_run import ItemRun
from app.running.run_recorder import RunRecorder
from app.running.spend_recorder import SpendRecorder
from app.serving.catalog import LoadedArtifact
from app.serving.decision_replies import decision_facts, list_unavailable_names, with_default_limits
from app.serving.pacing import assign_paced
from app.serving.rollouts import RolloutSplitter
from app.settings import Settings
from app.store.conversations import Conversations
from app.store.ledgers import Ledgers
from models import InvalidRequest, Value
from models.budget import NO_PAYER, Payer
from models.endpoint import EmbeddingsEndpoint
from models.errors import EndpointFailed, Fault
from models.feedback import Estimates, encode_decision_id
from models.limits import resolve_budget
from models.portfolio import RouteQuery
from models.run import RunItem
from parsimony.runs.steps import run_single_classifier
from parsimony.units import seconds_per_unit
from solvers.base import ModelRunner, Plan
from solvers.kind import RunContext
from solvers.portfolio import PortfolioPlan
from solvers.running import Runner, run_with_local_decisions


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDependencies:
    """Services that runs depend on."""

    settings: Settings
    caller: EndpointCaller
    sandbox: Sandbox
    ledgers: Ledgers
    is_store_up: Callable[[], bool]
    queue: ItemQueue
    budgets: BudgetGuard
    spending: SpendRecorder
    conversations: Conversations
    rollouts: RolloutSplitter
    recorder: RunRecorder
    payer: Payer = NO_PAYER
    """Who pays for the items."""
    client: str = ""
    """Whose items these are: a key, or an address."""
    confidences: ConfidenceMonitor = field(default_factory=ConfidenceMonitor)


@dataclass(frozen=True, slots=True)
class DecidedRun:
    """A run after its decision.

    Attributes:
        runner: yields the calls to make.
        facts: additional fields of the reply.
        planned: expected cost of a call, by name.
        is_slow: whether steps are too slow for the event loop.
        explain: returns the decision and its reasons, for traces.
    """

    runner: Runner
    facts: dict[str, Any]
    planned_costs: Mapping[str, float]
    is_slow: bool = False
    explain: Callable[[], Mapping[str, Any]] = dict


async def start_item(loaded: LoadedArtifact[Plan], item_run: ItemRun, dependencies: RunDependencies) -> DecidedRun:
    """Embed an item if needed, decide, and return its run.

    If the embedder fails, the artifact's fallback classifier answers.
    """
    if item_run.classifier is not None:
        return start_with_classifier(loaded, item_run, item_run.classifier, item_run.degraded)
    try:
        query = await make_embedded_query(loaded, item_run, dependencies)
    except EndpointFailed as error:
        fallback = _embedding_fallback(loaded, dependencies.caller)
        if fallback is None:
            raise
        return start_with_classifier(loaded, item_run, fallback, str(error))
    assigned, irreplaceable = None, frozenset[str]()
    if item_run.limits.budget_pacing is not None:  # which only portfolios take
        assigned, irreplaceable = await assign_paced(
            cast(LoadedArtifact[PortfolioPlan], loaded),
            cast(RouteQuery, query),
            item_run.limits.budget_pacing,
            item_run.excluded,
            dependencies.ledgers,
            is_up=dependencies.is_store_up(),
        )
    return start_decided(loaded, item_run, query, dependencies, assigned=assigned, irreplaceable=irreplaceable)


def _embedding_fallback(loaded: LoadedArtifact[Plan], caller: EndpointCaller) -> str | None:
    """Return the classifier that answers if the artifact's embedder fails; None if none does."""
    embedder = caller.get_endpoint(require_embedder(loaded))
    fallback = embedder.fallback if isinstance(embedder, EmbeddingsEndpoint) else None
    return fallback if fallback in loaded.kind.list_answering_names(loaded.plan) else None


def start_with_classifier(
    loaded: LoadedArtifact[Plan], item_run: ItemRun, name: str, degraded: str | None = None
) -> DecidedRun:
    """Return a run that calls one classifier, without a decision.

    Args:
        degraded: the reason why no decision was made.
    """
    decision = encode_decision_id(loaded.ref, loaded.record.sha256, Estimates(), is_randomized=loaded.is_randomized)
    facts = {"decision": decision, "expected": {}}
    runner = run_with_local_decisions(run_single_classifier(name, item_run.remaining_seconds, degraded))
    reasons = {"classifier": name, "degraded": degraded}
    return DecidedRun(runner, facts, loaded.kind.mean_costs(loaded.plan), explain=lambda: reasons)


def start_decided(
    loaded: LoadedArtifact[Plan],
    item_run: ItemRun,
    query: Value,
    dependencies: RunDependencies,
    *,
    assigned: str | None = None,
    irreplaceable: frozenset[str] = frozenset(),
) -> DecidedRun:
    """Return the run of a query; an assigned query starts with its assigned classifier."""
    context = RunContext(
        remaining_seconds=item_run.remaining_seconds,
        unit_seconds=seconds_per_unit(loaded.record.unit),
        unavailable=item_run.excluded | item_run.latched,
        models=ModelRunner(dependencies.settings.allowed_modules(), dependencies.sandbox),
        assigned=assigned,
        irreplaceable=irreplaceable,
    )
    started = loaded.kind.start_run(loaded.plan, query, context)
    facts = decision_facts(loaded, query, started.decision)
    dependencies.rollouts.compare_versions(loaded, query, context.models)
    unavailable = list_unavailable_names(loaded, item_run.excluded)

    def explain() -> Mapping[str, Any]:
        reasons = loaded.kind.explain(loaded.plan, query, started.decision, unavailable)
        return {**started.decision.model_dump(mode="json"), **reasons, "assigned": assigned}

    return DecidedRun(started.runner, facts, started.planned_costs, started.is_slow, explain)


def make_run_query(loaded: LoadedArtifact[Plan], item_run: ItemRun, embedding: tuple[float, ...] | None) -> Value:
    """Return the query of an item, with its limits or the default ones."""
    item = item_run.item.model_copy(update={"embedding": embedding})
    if item.id is None and loaded.kind.mixes_points:
        item = item.model_copy(update={"id": uuid4().hex})
    query = loaded.kind.make_run_query(loaded.plan, item, item_run.limits)
    if item_run.call_costs is not None:
        query = loaded.kind.with_call_costs(loaded.plan, query, item_run.call_costs)
    return _limit_budget(loaded, with_default_limits(loaded, query), item_run.item_budget)


def _limit_budget(loaded: LoadedArtifact[Plan], query: Value, item_budget: float) -> Value:
    """Return the query of a portfolio, limited to the budget that paced budgets leave.

    A query with a required accuracy is unchanged.
    """
    if loaded.kind.assigner is None or not isfinite(item_budget):
        return query
    limits = cast(RouteQuery, query)
    if limits.budget is None or limits.min_accuracy is not None:
        return query
    budget = min(item_budget, resolve_budget(limits.budget, loaded.kind.highest_cost(loaded.plan, query)))
    return query.model_copy(
        update=loaded.kind.raise_limits_to_feasible(loaded.plan, {"budget": budget}, limits.excluded)
    )


def make_feasible_query(loaded: LoadedArtifact[Plan], item_run: ItemRun) -> Value:
    """Validate an item before its embedding is paid for, and return its query.

    If the artifact embeds texts, the query has no embedding yet. Raises InvalidRequest or Infeasible for limits that no
    embedding can keep.
    """
    item_run.check_supported_fields(loaded.kind)
    if item_run.item.text is not None and not needs_embedding(loaded):
        raise InvalidRequest.from_faults(
            Fault(("text",), f"is not supported: {loaded.ref.full_name} was built without embeddings")
        )
    query = make_run_query(loaded, item_run, None if needs_embedding(loaded) else item_run.item.embedding)
    loaded.kind.check_feasibility(loaded.plan, query)
    return query


async def make_embedded_query(loaded: LoadedArtifact[Plan], item_run: ItemRun, dependencies: RunDependencies) -> Value:
    """Return the query of an item, with its embedding if the artifact uses embeddings.

    Raises the errors of ``make_feasible_query`` before those of ``get_item_embedding``.
    """
    query = make_feasible_query(loaded, item_run)
    if needs_embedding(loaded):
        return make_run_query(loaded, item_run, await get_item_embedding(loaded, item_run, dependencies))
    return query


def batch_options(loaded: LoadedArtifact[Plan], item_run: ItemRun) -> Any:
    """Return a batch's options, with the budget of a single item as mean budget per item."""
    assert loaded.kind.assigner is not None
    return loaded.kind.assigner.options(item_run.limits, make_run_query(loaded, item_run, None))


def require_assignable_batch(loaded: LoadedArtifact[Plan], item_run: ItemRun, count: int) -> None:
    """Raise an error if ``count`` items cannot be assigned as one batch.

    ``min_accuracy`` then applies to the batch as a whole.
    """
    item_run.check_supported_fields(loaded.kind)
    assert loaded.kind.assigner is not None
    loaded.kind.assigner.check_feasibility(loaded.plan, count, batch_options(loaded, item_run))


async def get_item_embedding(
    loaded: LoadedArtifact[Plan], item_run: ItemRun, dependencies: RunDependencies
) -> tuple[float, ...]:
    """Return the embedding of an item: as sent, or computed from its text.

    The call is recorded in the run.

    Raises:
        InvalidRequest: the item has neither embedding nor text, or the artifact has no embedder.
        EndpointFailed: the embedder failed.
    """
    if item_run.item.embedding is not None:
        return item_run.item.embedding
    (made,) = await embed_texts(loaded, [get_item_text(loaded, item_run.item)], dependencies.caller, item_run.ends_at)
    if isinstance(made, FailedEmbedding):
        item_run.progress.results += made.results
        raise made.error
    vector, calls = made
    item_run.progress.results += calls
    item_run.progress.embedding = vector
    return vector


def get_item_text(loaded: LoadedArtifact[Plan], item: RunItem) -> str:
    """Return the text to embed.

    Raises InvalidRequest if the item has no text, or the artifact has no embedder.
    """
    text = item.text if item.text is not None else item.item
    if not isinstance(text, str):
        raise InvalidRequest.from_faults(Fault(("embedding",), "is required, because the item is not a text"))
    require_embedder(loaded)
    return text
