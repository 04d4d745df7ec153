"""The artifact kind: all that the rest of Parsimony knows of cascades, indexes, portfolios, pipelines, and policies.

A kind fits a plan offline, and the plan decides at request time. Code outside of ``solvers/<kind>`` and
``models/<kind>`` works through this interface: it names no kind and asks no plan what it can do.

=================  ==================================================================================
journey            what it calls
=================  ==================================================================================
build              ``check``, ``fit``
look-up            ``decide``, ``estimate_outcome``, ``judged_on``
evaluation, curve  ``item_columns``, ``evaluate``; ``curve``, ``baselines``
run, chat, batch   ``run_query``, ``refuse_infeasible``, ``start_run``; ``assigner`` for whole batches
advice             ``trials``, ``trade_offs``
=================  ==================================================================================
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
from pydantic import ValidationError

from models import Dataset, DatasetFacts, InvalidRequest, Value
from models.arrays import Floats
from models.errors import Infeasible
from models.evaluation import HasCompleteItems
from models.feedback import Expectations
from models.limits import resolve_budget
from models.run import RunItem, RunLimits
from solvers.base import IN_PROCESS, BuildContext, Fitted, ModelRunner, Plan
from solvers.evaluation import Columns, CompleteItems, Evaluated
from solvers.running import Runner
from solvers.savings import SettingReplay

P = TypeVar("P", bound=Plan)
P_contra = TypeVar("P_contra", bound=Plan, contravariant=True)
Q = TypeVar("Q", bound=Value)
V = TypeVar("V", bound=Value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What the run of an item may use.

    Attributes:
        remaining_seconds: how long it may take in all.
        unit_seconds: seconds of a unit of the plan's costs; None where these are no times.
        unavailable: names that must not be called.
        models: how learned models are run.
        assigned: the classifier that was assigned to the item already; others cost no more. None: decide.
        irreplaceable: classifiers that must not take the place of another one.
    """

    remaining_seconds: float
    unit_seconds: float | None = None
    unavailable: frozenset[str] = frozenset()
    models: ModelRunner = IN_PROCESS
    assigned: str | None = None
    irreplaceable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run that was decided.

    Attributes:
        decision: what was decided for the item.
        runner: yields the calls to make.
        planned_costs: for each name that may be called, the expected cost of a call.
        is_slow: whether a step takes longer than an event loop may wait.
    """

    decision: Value
    runner: Runner
    planned_costs: Mapping[str, float]
    is_slow: bool = False


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """A point of the trade-off curve.

    Attributes:
        limits: by which decisions are made there.
        expectations: what is expected of items that are decided so.
        decision: what is decided there; empty where that depends on the item.
    """

    limits: Mapping[str, Any]
    expectations: Expectations
    decision: Mapping[str, Any] = field(default_factory=dict)


class BatchAssigner(Protocol[P_contra]):
    """Assigns all items of a batch at once, so that the batch keeps its budget."""

    def options(self, limits: RunLimits, single: Any) -> Any:
        """Make the batch's options of the limits of its items, and of the query of a single one."""

    def refuse_infeasible(self, plan: P_contra, count: int, options: Any) -> None:
        """Raise Infeasible or InvalidRequest for limits that no batch of ``count`` items can keep."""

    def estimate(self, plan: P_contra, vectors: Floats) -> tuple[Floats, Floats | None]:
        """Estimate the accuracy of each classifier for embeddings (n, d): (n, m), and expected costs, (n, m)."""

    def assign(
        self,
        plan: P_contra,
        estimates: tuple[Floats, Floats | None],
        options: Any,
        time_limit_s: float,
        unavailable: Collection[str],
    ) -> Any:
        """Return the assignment (``assignments``: a classifier for each item); raises Infeasible."""


class ArtifactKind(Protocol[P, Q]):
    """One kind of artifact. Attributes and methods without a body must be defined, the others may be."""

    name: str
    plural: str
    """Its collection in paths: ``/v1/{plural}/{name}/decision``."""
    example: str = "digits"
    """The demo's artifact, for the examples of the API."""
    datasets: tuple[type[Dataset], ...]
    """What it learns from."""
    options: type[Value]
    """The parameters of a build."""
    query: type[Q]
    reply: Any
    """What the decision route replies: its fields, and those of ``DecisionFacts``."""
    limits: type[Value]
    """The limits of a query, without what is known of an item."""
    evaluation: type[HasCompleteItems]
    """The limits within which complete items are evaluated, and the items."""
    curve_query: type[Value] = Value
    """What the trade-off curve depends on."""
    plan: type[P]
    item_fields: frozenset[str] = frozenset()
    """Optional fields of run items and run limits that have a meaning for it."""
    answers_chats: bool = False
    """Whether the answer of a run is that of one classifier, so that it may be a text."""
    skips_unavailable: bool = False
    """Whether a run skips what is unavailable, so that default limits need not be raised for it."""
    assigner: BatchAssigner[P] | None = None
    """Assigns whole batches; None: each item is decided by itself."""
    build_order: int = 100
    """When advice builds it: kinds of low order, which build quickly, come first."""
    trials: tuple[Mapping[str, Any], ...] = ({},)
    """Parameters of builds that span what it can do together, for advice."""

    def check(self, facts: DatasetFacts, options: Any) -> None:
        """Raise InvalidRequest for a dataset or options that can be refused before a build."""
        return None

    def fit(self, dataset: Any, options: Any, rng: np.random.Generator, run: BuildContext) -> Fitted[P]:
        """Fit a plan. Same dataset, options, and seed: same plan, to the last bit."""
        ...

    def replay_settings(self, plan: P, dataset: Any) -> Sequence[SettingReplay]:
        """Return what a plan does with unseen rows, at settings that span what it can do."""
        ...

    def called_names(self, plan: P) -> tuple[str, ...]:
        """Return the names of classifiers, sensors, or features that runs may call."""
        ...

    def answering_names(self, plan: P) -> tuple[str, ...]:
        """Return the classifiers whose answer may be that of a run; none where a learned model answers."""
        return self.called_names(plan)

    def decides_at_once(self, plan: P, query: Q) -> bool:
        """Return whether a decision takes well under a millisecond, so that an event loop may wait for it."""
        return True

    def decide(
        self, plan: P, query: Q, unavailable: Collection[str] = (), models: ModelRunner = IN_PROCESS
    ) -> tuple[Q, Value]:
        """Decide, and return the query that was decided, without what is unavailable.

        Where nothing else keeps the limits, the decision is that for all names. Raises Infeasible or InvalidRequest.
        """
        if unavailable:
            names = dict.fromkeys((*getattr(query, "excluded", ()), *unavailable))
            fewer = query.model_copy(update={"excluded": tuple(names)})
            try:
                return fewer, plan.decide(fewer)
            except (Infeasible, InvalidRequest):  # what is wrong with the query itself is reported of it alone
                pass
        return query, plan.decide(query)

    def keepable_limits(self, plan: P, limits: dict[str, Any], unavailable: Collection[str]) -> dict[str, Any]:
        """Return default limits, raised so far that they can be kept without what is unavailable."""
        return limits

    def highest_cost(self, plan: P, query: Any) -> float:
        """Return what the most expensive classifier costs an item, or all features: budgets in percent are of it."""
        ...

    def with_number(self, plan: P, query: V) -> V:
        """Return a query whose budget, if it is in percent, is the number that it comes to."""
        budget = getattr(query, "budget", None)
        if not isinstance(budget, str):
            return query
        return query.model_copy(update={"budget": resolve_budget(budget, self.highest_cost(plan, query))})

    def item_columns(self, plan: P) -> Columns:
        """Return the columns of complete items, by feature or classifier."""
        ...

    def evaluate(self, plan: P, limits: Any, items: CompleteItems, models: ModelRunner = IN_PROCESS) -> Evaluated:
        """Send complete items through the artifact, as runs would.

        Raises Infeasible for limits that cannot be kept, InvalidRequest for items that lack what is needed.
        """
        ...

    def curve(self, plan: P, query: Any) -> Sequence[OperatingPoint]:
        """Return the operating points, by rising cost. Raises Infeasible or InvalidRequest."""
        ...

    def baselines(self, plan: P) -> Mapping[str, Sequence[tuple[float, float]]]:
        """Return (accuracy, cost) over budgets of the baselines that were measured with the curve."""
        return {}

    def estimate_outcome(self, plan: P, summary: Mapping[str, Any], query: Any, decision: Any) -> Expectations:
        """Return what is expected of items that are decided so."""
        ...

    def judged_on(self, summary: Mapping[str, Any]) -> int:
        """Return on how many independent rows expectations were counted; 0: unknown."""
        ...

    def is_mean(self, decision: Any) -> bool:
        """Return whether expectations of a decision are means over items, not of the one item that was asked for."""
        return True

    def meaningless_limits(self, plan: P) -> frozenset[str]:
        """Return the limits of queries that mean nothing to a plan, such as a deadline where times are not known."""
        return frozenset()

    def embedding_dimensions(self, plan: P) -> int:
        """Return the length of items' embeddings; 0 where items have none."""
        return 0

    def embedding_cost(self, plan: P) -> float:
        """Return what embedding an item costs, in the artifact's unit."""
        return 0.0

    def time_unit(self, plan: P) -> str:
        """Return the unit of deadlines where it is not that of costs, else an empty string."""
        return ""

    def run_query(self, plan: P, item: RunItem, limits: RunLimits) -> Q:
        """Make the query of an item that is run, which may have no embedding yet. Raises InvalidRequest."""
        ...

    def refuse_infeasible(self, plan: P, query: Q) -> None:
        """Raise Infeasible or InvalidRequest for what can be refused before an item's embedding is paid for."""
        return None

    def start_run(self, plan: P, query: Q, context: RunContext) -> StartedRun:
        """Decide for an item of which nothing is acquired, and begin its run. Raises Infeasible or InvalidRequest."""
        ...

    def explain(self, plan: P, query: Q, decision: Any, unavailable: Collection[str]) -> dict[str, Any]:
        """Return what else is known of a decision, for people: alternatives, and why they were not chosen."""
        return {}


AnyKind = ArtifactKind[Plan, Value]
"""A kind whose plans and queries are opaque."""


def make_query(kind: type[V], **fields: Any) -> V:
    """Make a query of the fields that are not None; raises InvalidRequest with what is wrong."""
    try:
        return kind.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        raise InvalidRequest.from_validation(error) from error
