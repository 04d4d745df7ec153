"""Artifact kind ``index``: the interface of Poly-Dom indexes to the rest of Parsimony."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from models import FeatureTable
from models.feedback import Expectations
from models.index import (
    IndexCurveQuery,
    IndexDecision,
    IndexEvaluateLimits,
    IndexEvaluateRequest,
    IndexOptions,
    IndexQuery,
    IndexReply,
)
from models.run import RunItem, RunLimits
from parsimony.runs.index import run_index
from solvers.base import IN_PROCESS, BuildContext, FitResult, ModelRunner, read_row_count
from solvers.evaluation import Columns, CompleteItems, EvaluationOutcomes
from solvers.index.evaluate import evaluate, list_operating_points
from solvers.index.fit import fit
from solvers.index.plan import IndexPlan
from solvers.index.run_decisions import make_decisions
from solvers.index.setting_replays import replay_settings
from solvers.kind import ArtifactKind, OperatingPoint, RunContext, StartedRun, make_query
from solvers.running import run_with_local_decisions
from solvers.savings import SettingReplay


class IndexKind(ArtifactKind[IndexPlan, IndexQuery]):
    """Choose the feature set and its model for an item's size and budget."""

    name = "index"
    plural = "indexes"
    example = "documents"
    datasets = (FeatureTable,)
    options = IndexOptions
    query = IndexQuery
    reply = IndexReply
    limits = IndexEvaluateLimits
    evaluation = IndexEvaluateRequest
    curve_query = IndexCurveQuery
    plan = IndexPlan
    build_order = 2
    item_fields = frozenset({"size"})

    def fit(
        self, dataset: FeatureTable, options: IndexOptions, rng: np.random.Generator, run: BuildContext
    ) -> FitResult[IndexPlan]:
        """Fit an index of feature sets to a feature table."""
        return fit(dataset, options, rng, run)

    def replay_settings(self, plan: IndexPlan, dataset: FeatureTable) -> Sequence[SettingReplay]:
        """Return the outcomes of the skyline's feature sets on holdout rows."""
        return replay_settings(plan, dataset)

    def list_called_names(self, plan: IndexPlan) -> tuple[str, ...]:
        """Return the names of the features."""
        return plan.features

    def list_answering_names(self, plan: IndexPlan) -> tuple[str, ...]:
        """Return no names: the answer is from a model of the plan, not from a called classifier."""
        return ()

    def highest_cost(self, plan: IndexPlan, query: IndexQuery) -> float:
        """Return the cost of the most expensive feature set for the item's size."""
        return plan.highest_cost(query.size)

    def estimate_outcome(
        self, plan: IndexPlan, summary: Mapping[str, Any], query: IndexQuery, decision: IndexDecision
    ) -> Expectations:
        """Return the chosen model's expected accuracy, measured on holdout rows, and its cost."""
        accuracy, rows = plan.estimate_accuracy(query, decision)
        return Expectations.from_figures(accuracy=accuracy, cost=decision.cost, rows=rows or None)

    def count_evidence_rows(self, summary: Mapping[str, Any]) -> int:
        """Return the number of rows that the estimates are based on."""
        return read_row_count(summary)

    def resolve_percent_budget(self, plan: IndexPlan, query: Any) -> Any:
        """Return the query with a numeric budget; other queries are returned unchanged."""
        return super().resolve_percent_budget(plan, query) if isinstance(query, IndexQuery) else query

    def item_columns(self, plan: IndexPlan) -> Columns:
        """Return the columns of each feature."""
        return dict(zip(plan.features, plan.columns, strict=True))

    def evaluate(
        self, plan: IndexPlan, limits: IndexEvaluateLimits, items: CompleteItems, models: ModelRunner = IN_PROCESS
    ) -> EvaluationOutcomes:
        """Classify complete items, each with the model chosen for its size."""
        return evaluate(plan, limits, items, models, lambda query: self.resolve_percent_budget(plan, query))

    def curve(self, plan: IndexPlan, query: IndexCurveQuery) -> Sequence[OperatingPoint]:
        """Return the operating points of the skyline at a size."""
        return list_operating_points(plan, query)

    def make_run_query(self, plan: IndexPlan, item: RunItem, limits: RunLimits) -> IndexQuery:
        """Return the query for an item's size, budget, and minimum accuracy."""
        return make_query(IndexQuery, size=item.size, budget=limits.budget, min_accuracy=limits.min_accuracy)

    def start_run(self, plan: IndexPlan, query: IndexQuery, context: RunContext) -> StartedRun:
        """Choose the features, then acquire all of them in parallel and classify."""
        chosen = plan.decide(query)
        steps = run_index(dict(chosen), remaining_seconds=context.remaining_seconds, unavailable=context.unavailable)
        runner = run_with_local_decisions(steps, make_decisions(plan, query, context.models))
        share = chosen.cost / max(len(chosen.features), 1)
        return StartedRun(chosen, runner, dict.fromkeys(chosen.features, share), is_slow=True)
