"""How the run of an item begins: what is decided, and the runner that follows the decision."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from app.processes.sandbox import Sandbox
from app.running.caller import Caller
from app.running.confidence_monitor import ConfidenceMonitor
from app.running.embedding import FailedEmbedding, embed_texts, embedder_of, takes_embeddings
from app.running.item_queue import ItemQueue
from app.running.item_run import ItemRun
from app.serving.answers import decision_facts, with_default_limits
from app.serving.catalog import LoadedArtifact
from app.serving.pacing import assign_paced
from app.settings import Settings
from app.store.ledgers import Ledgers
from models import InvalidRequest, Value
from models.errors import Fault
from models.portfolio import RouteQuery
from models.run import RunItem
from models.units import seconds_in
from solvers.base import ModelRunner, Plan
from solvers.kind import RunContext
from solvers.portfolio import PortfolioPlan
from solvers.running import Runner


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDependencies:
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
class DecidedRun:
    """A run that was decided.

    Attributes:
        runner: yields the calls to make.
        facts: what the reply reports in addition to the run.
        planned: for each name that may be called, the expected cost of a call.
        is_slow: whether a step takes longer than the event loop may wait.
    """

    runner: Runner
    facts: dict[str, Any]
    planned_costs: Mapping[str, float]
    is_slow: bool = False


async def start_item(loaded: LoadedArtifact[Plan], asked: ItemRun, tools: RunDependencies) -> DecidedRun:
    """Decide for an item, with its embedding where the artifact takes one, and begin its run."""
    refuse_infeasible_item(loaded, asked)
    embedding = await embedding_of(loaded, asked, tools) if takes_embeddings(loaded) else asked.item.embedding
    query = run_query(loaded, asked, embedding)
    assigned, irreplaceable = None, frozenset[str]()
    if asked.limits.budget_pacing is not None:  # which only portfolios take
        assigned, irreplaceable = await assign_paced(
            cast(LoadedArtifact[PortfolioPlan], loaded),
            cast(RouteQuery, query),
            asked.limits.budget_pacing,
            asked.excluded,
            tools.ledgers,
            is_up=tools.is_store_up(),
        )
    return start_decided(loaded, asked, query, tools, assigned=assigned, irreplaceable=irreplaceable)


def start_decided(
    loaded: LoadedArtifact[Plan],
    asked: ItemRun,
    query: Value,
    tools: RunDependencies,
    *,
    assigned: str | None = None,
    irreplaceable: frozenset[str] = frozenset(),
) -> DecidedRun:
    """Begin the run of an item by its query, at the classifier that was assigned to it, if one was."""
    context = RunContext(
        remaining_seconds=asked.remaining_seconds,
        unit_seconds=seconds_in(loaded.record.unit),
        unavailable=asked.excluded,
        models=ModelRunner(tools.settings.allowed_modules(), tools.sandbox),
        assigned=assigned,
        irreplaceable=irreplaceable,
    )
    started = loaded.kind.start_run(loaded.plan, query, context)
    facts = decision_facts(loaded, query, started.decision)
    return DecidedRun(started.runner, facts, started.planned_costs, started.is_slow)


def run_query(loaded: LoadedArtifact[Plan], asked: ItemRun, embedding: tuple[float, ...] | None) -> Value:
    """Make the query of an item with its embedding, within its limits or those of the headline."""
    item = asked.item.model_copy(update={"embedding": embedding})
    return with_default_limits(loaded, loaded.kind.run_query(loaded.plan, item, asked.limits))


def refuse_infeasible_item(loaded: LoadedArtifact[Plan], asked: ItemRun) -> None:
    """Raise InvalidRequest, or Infeasible, for what can be refused of an item before its embedding is paid for."""
    asked.refuse_unsupported(loaded.kind)
    if asked.item.text is not None and not takes_embeddings(loaded):
        raise InvalidRequest.from_faults(
            Fault(("text",), f"means nothing here: {loaded.ref.spelt} was built without embeddings")
        )
    loaded.kind.refuse_infeasible(loaded.plan, run_query(loaded, asked, None))


def batch_options(loaded: LoadedArtifact[Plan], asked: ItemRun) -> Any:
    """Make the options of a batch: its items may cost on average what a single one may."""
    assert loaded.kind.assigner is not None
    return loaded.kind.assigner.options(asked.limits, run_query(loaded, asked, None))


def refuse_unless_assignable(loaded: LoadedArtifact[Plan], asked: ItemRun, count: int) -> None:
    """Raise what refuses ``count`` items that are assigned together: their accuracy is that of the batch."""
    asked.refuse_unsupported(loaded.kind)
    assert loaded.kind.assigner is not None
    loaded.kind.assigner.refuse_infeasible(loaded.plan, count, batch_options(loaded, asked))


async def embedding_of(loaded: LoadedArtifact[Plan], asked: ItemRun, tools: RunDependencies) -> tuple[float, ...]:
    """Return the embedding of an item, as it was sent or as the artifact's embedder makes it of the text.

    The call is noted. Raises InvalidRequest where there is neither, EndpointFailed where the embedder returns none.
    """
    if asked.item.embedding is not None:
        return asked.item.embedding
    (made,) = await embed_texts(loaded, [text_of(loaded, asked.item)], tools.caller, asked.ends_at)
    if isinstance(made, FailedEmbedding):
        asked.progress.results.append(made.result)
        raise made.error
    vector, calls = made
    asked.progress.results += calls
    return vector


def text_of(loaded: LoadedArtifact[Plan], item: RunItem) -> str:
    """Return the text that an item's embedding is made of; raises InvalidRequest if there is none, or no embedder."""
    text = item.text if item.text is not None else item.item
    if not isinstance(text, str):
        raise InvalidRequest.from_faults(
            Fault(("embedding",), "is required: the item is not a text that could be embedded")
        )
    embedder_of(loaded)
    return text
