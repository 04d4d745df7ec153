"""The kind ``pipeline``: what the rest of Parsimony knows of EMSCO pipelines."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from models import DatasetFacts, FeatureTable
from models.feedback import Expectations
from models.pipeline import Configuration, PipelineOptions, PipelineQuery, Step
from models.run import RunItem, RunLimits
from solvers.alternatives import TradeOff
from solvers.base import Fitted, Run, rows_of
from solvers.kind import ArtifactKind, RunContext, StartedRun, make_query
from solvers.pipeline.fit import check, fit
from solvers.pipeline.plan import PipelinePlan
from solvers.pipeline.run import run as run_pipeline
from solvers.pipeline.trade_offs import TRIALS, trade_offs


class PipelineKind(ArtifactKind[PipelinePlan, PipelineQuery]):
    """Acquires features in stages, with early exits and a reject option."""

    name = "pipeline"
    plural = "pipelines"
    datasets = (FeatureTable,)
    options = PipelineOptions
    query = PipelineQuery
    plan = PipelinePlan
    build_order = 4
    trials = TRIALS

    def check(self, facts: DatasetFacts, options: PipelineOptions) -> None:
        """Refuse too many features, and options that they do not allow."""
        check(facts, options)

    def fit(
        self, dataset: FeatureTable, options: PipelineOptions, rng: np.random.Generator, run: Run
    ) -> Fitted[PipelinePlan]:
        """Build a pipeline from a table of features."""
        return fit(dataset, options, rng, run)

    def trade_offs(self, plan: PipelinePlan, dataset: FeatureTable) -> Sequence[TradeOff]:
        """Return what configurations of the front do with unseen rows."""
        return trade_offs(plan, dataset)

    def called_names(self, plan: PipelinePlan) -> tuple[str, ...]:
        """Return the features."""
        return plan.features

    def answering_names(self, plan: PipelinePlan) -> tuple[str, ...]:
        """Return no name: a model answers."""
        return ()

    def highest_cost(self, plan: PipelinePlan, query: PipelineQuery) -> float:
        """Return the cost of all features."""
        return float(plan.costs.sum())

    def estimates(
        self, plan: PipelinePlan, summary: Mapping[str, Any], query: PipelineQuery, decision: Configuration
    ) -> Expectations:
        """Return the accuracy of accepted answers, the coverage, and the cost of an item on the test rows.

        Where a configuration accepted no row nothing is known of its answers. Where it answers every item coverage is
        not estimated.
        """
        coverage = decision.coverage
        return Expectations.of(
            accuracy=decision.conclusive_accuracy if coverage else None,
            coverage=None if plan.at_the_end == "answer" else coverage or None,
            cost=decision.cost,
            cost_error=plan.cost_error(decision.solution),
        )

    def judged_on(self, summary: Mapping[str, Any]) -> int:
        """Return the number of test rows."""
        return rows_of(summary, "test")

    def run_query(self, plan: PipelinePlan, item: RunItem, limits: RunLimits) -> PipelineQuery:
        """Make the query of a configuration within a budget, or of an accuracy."""
        return make_query(PipelineQuery, budget=limits.budget, min_accuracy=limits.min_accuracy)

    def start_run(self, plan: PipelinePlan, query: PipelineQuery, context: RunContext) -> StartedRun:
        """Choose a configuration, and acquire its features stage by stage."""
        decision = plan.decide(query)

        def step(known: Mapping[str, Any]) -> Step:
            return plan.step(decision.solution, known, context.learner_modules, context.run_model)

        widths = {name: len(columns) for name, columns in zip(plan.features, plan.columns, strict=True)}
        runner = run_pipeline(step, widths, left=context.remaining_seconds, without=context.unavailable)
        planned = dict(zip(plan.features, plan.costs.tolist(), strict=True))
        return StartedRun(decision, runner, planned, is_slow=True)
