"""Start of an item's run: the decision, and the runner that executes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import uuid4

from app.processes.sandbox import Sandbox
from app.running.budget_guard import BudgetGuard
from app.running.caller import Caller
from app.running.confidence_monitor import ConfidenceMonitor
from app.running.embedding import FailedEmbedding, embed_texts, embedder_of, takes_embeddings
from app.running.item_queue import ItemQueue
from app.running.item_run import ItemRun
from app.running.run_recorder import RunRecorder
from app.running.spend_recorder import SpendRecorder
from app.serving.answers import decision_facts, unavailable_names, with_default_limits
from app.serving.catalog import LoadedArtifact
from app.serving.pacing import assign_paced
from app.serving.rollouts import RolloutTraffic
from app.settings import Settings
from app.store.conversations import Conversations
from app.store.ledgers import Ledgers
from models import InvalidRequest, Value
from models.budget import NO_PAYER, Payer
from models.endpoint import EmbeddingsEndpoint
from models.errors import EndpointFailed, Fault
from models.feedback import Estimates, decision_id
from models.portfolio import RouteQuery
from models.run import RunItem
from parsimony.runs.steps import call_one
from parsimony.units import seconds_in
from solvers.base import ModelRunner, Plan
from solvers.kind import RunContext
from solvers.portfolio import PortfolioPlan
from solvers.running import Runner, run_here


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDependencies:
    """Services that runs depend on."""

    settings: Settings
    caller: Caller
    sandbox: Sandbox
    ledgers: Ledgers
    is_store_up: Callable[[], bool]
    queue: ItemQueue
    budgets: BudgetGuard
    spending: SpendRecorder
    conversations: Conversations
    rollouts: RolloutTraffic
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
        facts: further fields of the reply.
        planned: expected cost of a call, by name.
        is_slow: whether steps are too slow for the event loop.
        explain: returns the decision and its reasons, for traces.
    """

    runner: Runner
    facts: dict[str, Any]
    planned_costs: Mapping[str, float]
    is_slow: bool = False
    explain: Callable[[], Mapping[str, Any]] = dict


async def start_item(loaded: LoadedArtifact[Plan], item_run: ItemRun, tools: RunDependencies) -> DecidedRun:
    """Embed an item if the artifact needs it, decide, and return its run.

    If the embedder fails, its fallback answers.
    """
    if item_run.classifier is not None:
        return start_fixed(loaded, item_run, item_run.classifier, item_run.degraded)
    refuse_infeasible_item(loaded, item_run)
    try:
        embedding = await embedding_of(loaded, item_run, tools) if takes_embeddings(loaded) else item_run.item.embedding
    except EndpointFailed as error:
        fallback = _embedding_fallback(loaded, tools.caller)
        if fallback is None:
            raise
        return start_fixed(loaded, item_run, fallback, str(error))
    query = make_run_query(loaded, item_run, embedding)
    assigned, irreplaceable = None, frozenset[str]()
    if item_run.limits.budget_pacing is not None:  # which only portfolios take
        assigned, irreplaceable = await assign_paced(
            cast(LoadedArtifact[PortfolioPlan], loaded),
            cast(RouteQuery, query),
            item_run.limits.budget_pacing,
            item_run.excluded,
            tools.ledgers,
            is_up=tools.is_store_up(),
        )
    return start_decided(loaded, item_run, query, tools, assigned=assigned, irreplaceable=irreplaceable)


def _embedding_fallback(loaded: LoadedArtifact[Plan], caller: Caller) -> str | None:
    """Return the classifier of an artifact that answers if its embedder fails; None if there is none."""
    embedder = caller.get_endpoint(embedder_of(loaded))
    fallback = embedder.fallback if isinstance(embedder, EmbeddingsEndpoint) else None
    return fallback if fallback in loaded.kind.answering_names(loaded.plan) else None


def start_fixed(loaded: LoadedArtifact[Plan], item_run: ItemRun, name: str, degraded: str | None = None) -> DecidedRun:
    """Return a run that calls one classifier, without a decision.

    Args:
        degraded: the reason why no decision was made.
    """
    decision = decision_id(loaded.ref, loaded.record.sha256, Estimates(), is_drawn=loaded.is_drawn)
    facts = {"decision": decision, "expected": {}}
    runner = run_here(call_one(name, item_run.remaining_seconds, degraded))
    reasons = {"classifier": name, "degraded": degraded}
    return DecidedRun(runner, facts, loaded.kind.mean_costs(loaded.plan), explain=lambda: reasons)


def start_decided(
    loaded: LoadedArtifact[Plan],
    item_run: ItemRun,
    query: Value,
    tools: RunDependencies,
    *,
    assigned: str | None = None,
    irreplaceable: frozenset[str] = frozenset(),
) -> DecidedRun:
    """Return the run of a query; an assigned query starts with its assigned classifier."""
    context = RunContext(
        remaining_seconds=item_run.remaining_seconds,
        unit_seconds=seconds_in(loaded.record.unit),
        unavailable=item_run.excluded | item_run.latched,
        models=ModelRunner(tools.settings.allowed_modules(), tools.sandbox),
        assigned=assigned,
        irreplaceable=irreplaceable,
    )
    started = loaded.kind.start_run(loaded.plan, query, context)
    facts = decision_facts(loaded, query, started.decision)
    tools.rollouts.compare_versions(loaded, query, context.models)
    unavailable = unavailable_names(loaded, item_run.excluded)

    def explain() -> Mapping[str, Any]:
        reasons = loaded.kind.explain(loaded.plan, query, started.decision, unavailable)
        return {**started.decision.model_dump(mode="json"), **reasons, "assigned": assigned}

    return DecidedRun(started.runner, facts, started.planned_costs, started.is_slow, explain)


def make_run_query(loaded: LoadedArtifact[Plan], item_run: ItemRun, embedding: tuple[float, ...] | None) -> Value:
    """Return the query of an item, within its limits or the default ones."""
    item = item_run.item.model_copy(update={"embedding": embedding})
    if item.id is None and loaded.kind.mixes_points:
        item = item.model_copy(update={"id": uuid4().hex})
    query = loaded.kind.make_run_query(loaded.plan, item, item_run.limits)
    if item_run.call_costs is not None:
        query = loaded.kind.with_call_costs(loaded.plan, query, item_run.call_costs)
    return with_default_limits(loaded, query)


def refuse_infeasible_item(loaded: LoadedArtifact[Plan], item_run: ItemRun) -> None:
    """Raise InvalidRequest or Infeasible before an item's embedding is paid for."""
    item_run.refuse_unsupported(loaded.kind)
    if item_run.item.text is not None and not takes_embeddings(loaded):
        raise InvalidRequest.from_faults(
            Fault(("text",), f"is not supported: {loaded.ref.spelt} was built without embeddings")
        )
    loaded.kind.refuse_infeasible(loaded.plan, make_run_query(loaded, item_run, None))


def batch_options(loaded: LoadedArtifact[Plan], item_run: ItemRun) -> Any:
    """Return the options of a batch whose mean budget per item is the budget of a single item."""
    assert loaded.kind.assigner is not None
    return loaded.kind.assigner.options(item_run.limits, make_run_query(loaded, item_run, None))


def refuse_unless_assignable(loaded: LoadedArtifact[Plan], item_run: ItemRun, count: int) -> None:
    """Raise an error if ``count`` items cannot be assigned as one batch.

    ``min_accuracy`` then applies to the batch as a whole.
    """
    item_run.refuse_unsupported(loaded.kind)
    assert loaded.kind.assigner is not None
    loaded.kind.assigner.refuse_infeasible(loaded.plan, count, batch_options(loaded, item_run))


async def embedding_of(loaded: LoadedArtifact[Plan], item_run: ItemRun, tools: RunDependencies) -> tuple[float, ...]:
    """Return the embedding of an item: as sent, or computed from its text.

    The call is recorded in the run.

    Raises:
        InvalidRequest: the item has no embedding and no text, or the artifact no embedder.
        EndpointFailed: the embedder failed.
    """
    if item_run.item.embedding is not None:
        return item_run.item.embedding
    (made,) = await embed_texts(loaded, [text_of(loaded, item_run.item)], tools.caller, item_run.ends_at)
    if isinstance(made, FailedEmbedding):
        item_run.progress.results.append(made.result)
        raise made.error
    vector, calls = made
    item_run.progress.results += calls
    item_run.progress.embedding = vector
    return vector


def text_of(loaded: LoadedArtifact[Plan], item: RunItem) -> str:
    """Return the text to embed; raises InvalidRequest if the item has no text, or the artifact no embedder."""
    text = item.text if item.text is not None else item.item
    if not isinstance(text, str):
        raise InvalidRequest.from_faults(Fault(("embedding",), "is required, because the item is not a text"))
    embedder_of(loaded)
    return text
