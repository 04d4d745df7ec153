"""How the run of an item begins: what is decided, and the runner that follows the decision."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from app.processes.sandbox import Sandbox
from app.running.asked import Asked
from app.running.caller import Caller
from app.running.confidence_monitor import ConfidenceMonitor
from app.running.embedding import Unembedded, embed, embedder_of, takes_embeddings
from app.running.item_queue import ItemQueue
from app.serving.answers import facts_of, with_default_limits
from app.serving.catalog import Live
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
    """A run that was decided.

    Attributes:
        runner: yields the calls to make.
        facts: what the reply reports in addition to the run.
        planned: for each name that may be called, the expected cost of a call.
        is_slow: whether a step takes longer than the event loop may wait.
    """

    runner: Runner
    facts: dict[str, Any]
    planned: Mapping[str, float]
    is_slow: bool = False


async def start(live: Live[Plan], asked: Asked, tools: Tools) -> Started:
    """Decide for an item, with its embedding where the artifact takes one, and begin its run."""
    refuse_hopeless(live, asked)
    embedding = await embedded(live, asked, tools) if takes_embeddings(live) else asked.item.embedding
    query = run_query(live, asked, embedding)
    assigned, irreplaceable = None, frozenset[str]()
    if asked.limits.budget_pacing is not None:  # which only portfolios take
        assigned, irreplaceable = await assign_paced(
            cast(Live[PortfolioPlan], live),
            cast(RouteQuery, query),
            asked.limits.budget_pacing,
            asked.without,
            tools.ledgers,
            is_up=tools.is_store_up(),
        )
    return start_decided(live, asked, query, tools, assigned=assigned, irreplaceable=irreplaceable)


def start_decided(
    live: Live[Plan],
    asked: Asked,
    query: Value,
    tools: Tools,
    *,
    assigned: str | None = None,
    irreplaceable: frozenset[str] = frozenset(),
) -> Started:
    """Begin the run of an item by its query, at the classifier that was assigned to it, if one was."""
    context = RunContext(
        remaining_seconds=asked.left,
        unit_seconds=seconds_in(live.record.unit),
        unavailable=asked.without,
        models=ModelRunner(tools.settings.allowed_modules(), tools.sandbox),
        assigned=assigned,
        irreplaceable=irreplaceable,
    )
    started = live.kind.start_run(live.plan, query, context)
    facts = facts_of(live, query, started.decision)
    return Started(started.runner, facts, started.planned_costs, started.is_slow)


def run_query(live: Live[Plan], asked: Asked, embedding: tuple[float, ...] | None) -> Value:
    """Make the query of an item with its embedding, within its limits or those of the headline."""
    item = asked.item.model_copy(update={"embedding": embedding})
    return with_default_limits(live, live.kind.run_query(live.plan, item, asked.limits))


def refuse_hopeless(live: Live[Plan], asked: Asked) -> None:
    """Raise InvalidRequest, or Infeasible, for what can be refused of an item before its embedding is paid for."""
    asked.refuse_unsupported(live.kind)
    if asked.item.text is not None and not takes_embeddings(live):
        raise InvalidRequest.at(Fault(("text",), f"means nothing here: {live.ref.spelt} was built without embeddings"))
    live.kind.refuse_infeasible(live.plan, run_query(live, asked, None))


def batch_options(live: Live[Plan], asked: Asked) -> Any:
    """Make the options of a batch: its items may cost on average what a single one may."""
    assert live.kind.assigner is not None
    return live.kind.assigner.options(asked.limits, run_query(live, asked, None))


def refuse_unless_assignable(live: Live[Plan], asked: Asked, count: int) -> None:
    """Raise what refuses ``count`` items that are assigned together: their accuracy is that of the batch."""
    asked.refuse_unsupported(live.kind)
    assert live.kind.assigner is not None
    live.kind.assigner.refuse_infeasible(live.plan, count, batch_options(live, asked))


async def embedded(live: Live[Plan], asked: Asked, tools: Tools) -> tuple[float, ...]:
    """Return the embedding of an item, as it was sent or as the artifact's embedder makes it of the text.

    The call is noted. Raises InvalidRequest where there is neither, EndpointFailed where the embedder returns none.
    """
    if asked.item.embedding is not None:
        return asked.item.embedding
    (made,) = await embed(live, [text_of(live, asked.item)], tools.caller, asked.ends_at)
    if isinstance(made, Unembedded):
        asked.progress.heard.append(made.heard)
        raise made.error
    vector, calls = made
    asked.progress.heard += calls
    return vector


def text_of(live: Live[Plan], item: RunItem) -> str:
    """Return the text that an item's embedding is made of; raises InvalidRequest if there is none, or no embedder."""
    text = item.text if item.text is not None else item.item
    if not isinstance(text, str):
        raise InvalidRequest.at(Fault(("embedding",), "is missing, and cannot be made: the item is no text"))
    embedder_of(live)
    return text
