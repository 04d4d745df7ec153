"""The kind ``index``: what the rest of Parsimony knows of Poly-Dom indexes."""

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
from solvers.base import IN_PROCESS, Fitted, ModelRunner, Run, rows_of
from solvers.evaluation import Columns, CompleteItems, Evaluated
from solvers.index.evaluate import curve, evaluate
from solvers.index.fit import fit
from solvers.index.plan import IndexPlan
from solvers.index.predictions import Predictions
from solvers.index.run import run as run_index
from solvers.index.settings import replay_settings
from solvers.kind import ArtifactKind, OperatingPoint, RunContext, StartedRun, make_query
from solvers.savings import SettingReplay


class IndexKind(ArtifactKind[IndexPlan, IndexQuery]):
    """Chooses the feature set, and the model trained on it, for an item's size and budget."""

    name = "index"
    plural = "indexes"
    example = "digits-sizes"
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
        self, dataset: FeatureTable, options: IndexOptions, rng: np.random.Generator, run: Run
    ) -> Fitted[IndexPlan]:
        """Build the index of feature sets from a table."""
        return fit(dataset, options, rng, run)

    def replay_settings(self, plan: IndexPlan, dataset: FeatureTable) -> Sequence[SettingReplay]:
        """Return what feature sets of the skyline do with unseen rows."""
        return replay_settings(plan, dataset)

    def called_names(self, plan: IndexPlan) -> tuple[str, ...]:
        """Return the features."""
        return plan.features

    def answering_names(self, plan: IndexPlan) -> tuple[str, ...]:
        """Return no name: a model answers."""
        return ()

    def highest_cost(self, plan: IndexPlan, query: IndexQuery) -> float:
        """Return the cost of the most expensive feature set for the item's size."""
        return plan.highest_cost(query.size)

    def estimates(
        self, plan: IndexPlan, summary: Mapping[str, Any], query: IndexQuery, decision: IndexDecision
    ) -> Expectations:
        """Return how often the chosen model is correct, by rows that did not choose it, and its cost."""
        accuracy, rows = plan.expected(query, decision)
        return Expectations.of(accuracy=accuracy, cost=decision.cost, rows=rows or None)

    def judged_on(self, summary: Mapping[str, Any]) -> int:
        """Return the number of rows."""
        return rows_of(summary)

    def with_number(self, plan: IndexPlan, query: Any) -> Any:
        """Return a query whose budget is a number; one without a size is left as it is."""
        return super().with_number(plan, query) if isinstance(query, IndexQuery) else query

    def item_columns(self, plan: IndexPlan) -> Columns:
        """Return the columns of each feature."""
        return dict(zip(plan.features, plan.columns, strict=True))

    def evaluate(
        self, plan: IndexPlan, limits: IndexEvaluateLimits, items: CompleteItems, models: ModelRunner = IN_PROCESS
    ) -> Evaluated:
        """Classify items, each with the model that is chosen for its size."""
        return evaluate(plan, limits, items, models, lambda query: self.with_number(plan, query))

    def curve(self, plan: IndexPlan, query: IndexCurveQuery) -> Sequence[OperatingPoint]:
        """Return the skyline at a size."""
        return curve(plan, query)

    def run_query(self, plan: IndexPlan, item: RunItem, limits: RunLimits) -> IndexQuery:
        """Make the query of an item of a size within a budget, or of an accuracy."""
        return make_query(IndexQuery, size=item.size, budget=limits.budget, min_accuracy=limits.min_accuracy)

    def start_run(self, plan: IndexPlan, query: IndexQuery, context: RunContext) -> StartedRun:
        """Choose the features, acquire all of them at once, and classify."""
        chosen = plan.decide(query)

        def predict(features: Sequence[str], cells: Mapping[str, Any]) -> Predictions:
            return plan.predict(features, [cells], context.models.modules, context.models.run)

        columns = dict(zip(plan.features, plan.columns, strict=True))
        runner = run_index(
            chosen.features, columns, predict, left=context.remaining_seconds, excluded=context.unavailable
        )
        share = chosen.cost / max(len(chosen.features), 1)
        return StartedRun(chosen, runner, dict.fromkeys(chosen.features, share), is_slow=True)
