"""The interface of artifact kinds: cascades, indexes, portfolios, pipelines, and policies.

A kind fits a plan offline, and the plan decides at request time. Code outside of ``solvers/<kind>`` and
``models/<kind>`` uses only this interface: it names no kind and does not inspect plans.

=================  ==================================================================================
use case           methods it calls
=================  ==================================================================================
build              ``check``, ``fit``
look-up            ``decide``, ``estimate_outcome``, ``evidence_rows``
evaluation, curve  ``item_columns``, ``evaluate``; ``curve``, ``baselines``
run, chat, batch   ``make_run_query``, ``check_feasibility``, ``start_run``; ``assigner`` for whole batches
advice ``trials``, ``replay_settings``
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
from solvers.base import IN_PROCESS, BuildContext, FitResult, ModelRunner, Plan
from solvers.evaluation import Columns, CompleteItems, EvaluationOutcomes
from solvers.running import Runner
from solvers.savings import SettingReplay

P = TypeVar("P", bound=Plan)
P_contra = TypeVar("P_contra", bound=Plan, contravariant=True)
Q = TypeVar("Q", bound=Value)
V = TypeVar("V", bound=Value)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """Context of the run of an item.

    Attributes:
        remaining_seconds: time limit of the run.
        unit_seconds: seconds per unit of the plan's costs; None if costs are not times.
        unavailable: names that must not be called.
        models: runner of learned models.
        assigned: classifier assigned by a batch; replacements cost no more. None: the plan decides.
        irreplaceable: classifiers that must not be called instead of another one.
    """

    remaining_seconds: float
    unit_seconds: float | None = None
    unavailable: frozenset[str] = frozenset()
    models: ModelRunner = IN_PROCESS
    assigned: str | None = None
    irreplaceable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run whose first decision has been made.

    Attributes:
        decision: decision for the item.
        runner: yields the calls to make.
        planned_costs: expected cost of a call, by name.
        is_slow: whether a step takes too long to run in an event loop.
    """

    decision: Value
    runner: Runner
    planned_costs: Mapping[str, float]
    is_slow: bool = False


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """A point of the trade-off curve.

    Attributes:
        limits: limits of queries that select the point.
        expectations: expected outcome of items that are decided at this point.
        decision: the decision at this point; empty if it depends on the item.
    """

    limits: Mapping[str, Any]
    expectations: Expectations
    decision: Mapping[str, Any] = field(default_factory=dict)


class BatchAssigner(Protocol[P_contra]):
    """Assigns classifiers to all items of a batch within its budget."""

    def options(self, limits: RunLimits, single: Any) -> Any:
        """Return the batch's options, from the limits of its items and the query of a single item."""

    def check_feasibility(self, plan: P_contra, count: int, options: Any) -> None:
        """Raise Infeasible or InvalidRequest for limits that a batch of ``count`` items cannot keep."""

    def estimate(self, plan: P_contra, vectors: Floats) -> tuple[Floats, Floats | None]:
        """Return estimated accuracies, (n, m), and costs, (n, m), for embeddings (n, d)."""

    def assign(
        self,
        plan: P_contra,
        estimates: tuple[Floats, Floats | None],
        options: Any,
        time_limit_s: float,
        unavailable: Collection[str],
    ) -> Any:
        """Return an assignment, whose ``assignments`` have one classifier per item; raises Infeasible."""


class ArtifactKind(Protocol[P, Q]):
    """One kind of artifact. Attributes without a default and methods with an empty body must be defined."""

    name: str
    plural: str
    """Collection in URL paths: ``/v1/{plural}/{name}/decision``."""
    example: str = "digits"
    """Artifact of the demo, for examples of the API."""
    datasets: tuple[type[Dataset], ...]
    """Supported types of datasets."""
    options: type[Value]
    """Parameters of a build."""
    query: type[Q]
    reply: Any
    """Reply of the decision route, without the fields of ``DecisionFacts``."""
    limits: type[Value]
    """Limits of a query, without facts about the item."""
    evaluation: type[HasCompleteItems]
    """Request body of an evaluation: limits and complete items."""
    curve_query: type[Value] = Value
    """Parameters of the trade-off curve."""
    plan: type[P]
    item_fields: frozenset[str] = frozenset()
    """Supported optional fields of run items and run limits."""
    takes_partial_traces: bool = False
    """Whether a build learns from rows in which not every classifier was called."""
    needs_embeddings: bool = False
    """Whether datasets must have embeddings."""
    answers_chats: bool = False
    """Whether one classifier answers a run, so that the answer may be a text."""
    skips_unavailable: bool = False
    """Whether runs skip unavailable names, so that default limits need not be raised."""
    mixes_points: bool = False
    """Whether a budget may divide items between two operating points by their ids; runs without an id then draw one."""
    assigner: BatchAssigner[P] | None = None
    """Assigns whole batches; None: each item is decided separately."""
    build_order: int = 100
    """Order of builds in advice, fast ones first."""
    trials: tuple[Mapping[str, Any], ...] = ({},)
    """Parameters of the builds that advice compares."""

    def check(self, facts: DatasetFacts, options: Any) -> None:
        """Raise InvalidRequest for a dataset or options that cannot be built."""
        return None

    def fit(self, dataset: Any, options: Any, rng: np.random.Generator, run: BuildContext) -> FitResult[P]:
        """Fit a plan; equal dataset, options, and seed give an identical plan, bit for bit."""
        ...

    def replay_settings(self, plan: P, dataset: Any) -> Sequence[SettingReplay]:
        """Return outcomes of a plan on unseen rows, over its range of settings."""
        ...

    def list_called_names(self, plan: P) -> tuple[str, ...]:
        """Return the names of classifiers, sensors, or features that runs may call."""
        ...

    def list_answering_names(self, plan: P) -> tuple[str, ...]:
        """Return the classifiers that may answer a run; none if a learned model answers."""
        return self.list_called_names(plan)

    def is_fast_decision(self, plan: P, query: Q) -> bool:
        """Return whether a decision takes well under a millisecond, so that an event loop may make it."""
        return True

    def decide(
        self, plan: P, query: Q, unavailable: Collection[str] = (), models: ModelRunner = IN_PROCESS
    ) -> tuple[Q, Value]:
        """Decide without unavailable classifiers; return the query used and the decision.

        If the limits cannot be kept without the unavailable classifiers, decide with all classifiers. Raises Infeasible
        or InvalidRequest.
        """
        if unavailable:
            names = dict.fromkeys((*getattr(query, "excluded", ()), *unavailable))
            fewer = query.model_copy(update={"excluded": tuple(names)})
            try:
                return fewer, plan.decide(fewer)
            except (Infeasible, InvalidRequest):  # faults of the query itself are raised below
                pass
        return query, plan.decide(query)

    def raise_limits_to_feasible(self, plan: P, limits: dict[str, Any], unavailable: Collection[str]) -> dict[str, Any]:
        """Return the default limits, raised if needed so that available classifiers can keep them."""
        return limits

    def highest_cost(self, plan: P, query: Any) -> float:
        """Return the item cost of the most expensive classifier, or of all features.

        Budgets in percent are relative to it.
        """
        ...

    def resolve_percent_budget(self, plan: P, query: V) -> V:
        """Return a query with its percent budget resolved to a number."""
        budget = getattr(query, "budget", None)
        if not isinstance(budget, str):
            return query
        return query.model_copy(update={"budget": resolve_budget(budget, self.highest_cost(plan, query))})

    def item_columns(self, plan: P) -> Columns:
        """Return the columns of complete items, by feature or classifier."""
        ...

    def evaluate(
        self, plan: P, limits: Any, items: CompleteItems, models: ModelRunner = IN_PROCESS
    ) -> EvaluationOutcomes:
        """Evaluate complete items, with the decisions of runs.

        Raises Infeasible for limits that cannot be kept, InvalidRequest for incomplete items.
        """
        ...

    def curve(self, plan: P, query: Any) -> Sequence[OperatingPoint]:
        """Return the operating points, by rising cost. Raises Infeasible or InvalidRequest."""
        ...

    def baselines(self, plan: P) -> Mapping[str, Sequence[tuple[float, float]]]:
        """Return (accuracy, cost) points of the baselines measured with the curve."""
        return {}

    def estimate_outcome(self, plan: P, summary: Mapping[str, Any], query: Any, decision: Any) -> Expectations:
        """Return the expected outcome of items with this decision."""
        ...

    def count_evidence_rows(self, summary: Mapping[str, Any]) -> int:
        """Return the number of independent rows behind the expectations; 0 if unknown."""
        ...

    def is_mean(self, decision: Any) -> bool:
        """Return whether a decision's expectations are means over items, not estimates for the item."""
        return True

    def unsupported_limits(self, plan: P) -> frozenset[str]:
        """Return query limits that a plan does not support, such as a deadline without known times."""
        return frozenset()

    def embedding_dimensions(self, plan: P) -> int:
        """Return the length of embeddings; 0 if items have none."""
        return 0

    def embedding_cost(self, plan: P) -> float:
        """Return the cost of embedding an item, in the artifact's unit."""
        return 0.0

    def time_unit(self, plan: P) -> str:
        """Return the unit of deadlines if it differs from that of costs, else an empty string."""
        return ""

    def make_run_query(self, plan: P, item: RunItem, limits: RunLimits) -> Q:
        """Return the query of a run's item; raises InvalidRequest.

        The item's embedding may be missing.
        """
        ...

    def with_call_costs(self, plan: P, query: Q, costs: Mapping[str, float]) -> Q:
        """Return a run's query with the expected cost of each classifier's call.

        The query is unchanged if the kind does not use call costs.
        """
        return query

    def check_feasibility(self, plan: P, query: Q) -> None:
        """Raise Infeasible or InvalidRequest before the item's embedding is paid for."""
        return None

    def mean_costs(self, plan: P) -> Mapping[str, float]:
        """Return the mean cost of a call of each classifier, in the artifact's unit; empty if they are unknown."""
        return {}

    def start_run(self, plan: P, query: Q, context: RunContext) -> StartedRun:
        """Decide for an item and start its run; raises Infeasible or InvalidRequest."""
        ...

    def explain(self, plan: P, query: Q, decision: Any, unavailable: Collection[str]) -> dict[str, Any]:
        """Return the alternatives of a decision, and the reasons why they were not chosen."""
        return {}


AnyKind = ArtifactKind[Plan, Value]
"""A kind whose plans and queries are opaque."""


def make_query(query_type: type[V], **fields: Any) -> V:
    """Return a query of the fields that are not None; raises InvalidRequest for invalid ones."""
    try:
        return query_type.model_validate({name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        raise InvalidRequest.from_validation(error) from error
