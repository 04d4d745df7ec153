"""The artifact kind ``pipeline``."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import numpy as np

from models import DatasetFacts, FeatureTable, InvalidRequest
from models.feedback import Expectations
from models.pipeline import (
    Configuration,
    PipelineDecision,
    PipelineEvaluateRequest,
    PipelineItemDecision,
    PipelineLimits,
    PipelineOptions,
    PipelineQuery,
    PipelineReply,
)
from models.run import RunItem, RunLimits
from parsimony.runs.pipeline import run_pipeline
from parsimony.runs.steps import DecisionRequest, Predict, Refusal, refusal_from_values
from solvers.base import IN_PROCESS, BuildContext, FitResult, ModelRunner, read_row_count
from solvers.evaluation import Columns, CompleteItems, EvaluationOutcomes
from solvers.kind import ArtifactKind, OperatingPoint, RunContext, StartedRun, make_query
from solvers.pipeline.evaluate import curve, evaluate, make_expected_outcome
from solvers.pipeline.fit import check, fit
from solvers.pipeline.plan import PipelinePlan
from solvers.pipeline.setting_replays import TRIALS, replay_settings
from solvers.running import run_with_local_decisions
from solvers.savings import SettingReplay
from solvers.setup_groups import SetupPricing


class PipelineKind(ArtifactKind[PipelinePlan, PipelineQuery]):
    """Feature acquisition in stages, with early exits and a reject option."""

    name = "pipeline"
    plural = "pipelines"
    example = "welds"
    datasets = (FeatureTable,)
    options = PipelineOptions
    query = PipelineQuery
    reply = PipelineReply
    limits = PipelineLimits
    evaluation = PipelineEvaluateRequest
    plan = PipelinePlan
    build_order = 4
    trials = TRIALS
    item_fields = frozenset({"min_coverage"})

    def check(self, facts: DatasetFacts, options: PipelineOptions) -> None:
        """Raise InvalidRequest for options that the dataset does not allow."""
        check(facts, options)

    def fit(
        self, dataset: FeatureTable, options: PipelineOptions, rng: np.random.Generator, run: BuildContext
    ) -> FitResult[PipelinePlan]:
        """Build a pipeline from a feature table."""
        return fit(dataset, options, rng, run)

    def replay_settings(self, plan: PipelinePlan, dataset: FeatureTable) -> Sequence[SettingReplay]:
        """Evaluate configurations of the front on unseen rows."""
        return replay_settings(plan, dataset)

    def list_called_names(self, plan: PipelinePlan) -> tuple[str, ...]:
        """Return the features."""
        return plan.features

    def list_answering_names(self, plan: PipelinePlan) -> tuple[str, ...]:
        """Return no names: the answer is from a model of the plan, not from a called classifier."""
        return ()

    def highest_cost(self, plan: PipelinePlan, query: PipelineLimits) -> float:
        """Return the cost of all features."""
        return float(plan.extended_costs.sum())

    def estimate_outcome(
        self, plan: PipelinePlan, summary: Mapping[str, Any], query: PipelineQuery, decision: Configuration
    ) -> Expectations:
        """Return accuracy, coverage, and cost on the test rows."""
        return make_expected_outcome(plan, decision)

    def count_evidence_rows(self, summary: Mapping[str, Any]) -> int:
        """Return the number of test rows."""
        return read_row_count(summary, "test")

    def is_fast_decision(self, plan: PipelinePlan, query: PipelineQuery) -> bool:
        """Return whether all models of the plan are linear; archived models must be loaded first."""
        return plan.answers_at_once or not query.acquired

    def decide(
        self,
        plan: PipelinePlan,
        query: PipelineQuery,
        unavailable: Collection[str] = (),
        models: ModelRunner = IN_PROCESS,
    ) -> tuple[PipelineQuery, PipelineItemDecision]:
        """Choose a configuration and the item's next step; acquired features stay available."""
        excluded = tuple(name for name in query.excluded if name not in query.acquired)
        if excluded != query.excluded:
            query = query.model_copy(update={"excluded": excluded})
        lost = [name for name in unavailable if name not in query.acquired]
        query, decided = super().decide(plan, query, lost)
        decision = cast(PipelineDecision, decided)
        if query.acquired:
            step = plan.next_step(decision.solution, query.acquired, models.modules, models.run)
        else:
            step = plan.first_step(decision.solution)
        return query, PipelineItemDecision.model_construct(**vars(decision), step=step)

    def item_columns(self, plan: PipelinePlan) -> Columns:
        """Return the columns of each feature."""
        return dict(zip(plan.features, plan.columns, strict=True))

    def evaluate(
        self, plan: PipelinePlan, limits: PipelineLimits, items: CompleteItems, models: ModelRunner = IN_PROCESS
    ) -> EvaluationOutcomes:
        """Evaluate items with the configuration that meets the limits."""
        return evaluate(plan, limits, items, self.item_columns(plan), models)

    def curve(self, plan: PipelinePlan, query: Any) -> Sequence[OperatingPoint]:
        """Return the configurations of the front."""
        return curve(plan)

    def make_run_query(self, plan: PipelinePlan, item: RunItem, limits: RunLimits) -> PipelineQuery:
        """Build the query for a run's limits."""
        return make_query(
            PipelineQuery,
            budget=limits.budget,
            min_accuracy=limits.min_accuracy,
            min_coverage=limits.min_coverage,
        )

    def start_run(self, plan: PipelinePlan, query: PipelineQuery, context: RunContext) -> StartedRun:
        """Choose a configuration and acquire its features stage by stage."""
        decision = plan.decide(query)

        def decide(step: DecisionRequest | Predict) -> Mapping[str, Any] | Refusal:
            assert isinstance(step, DecisionRequest)
            modules, run_in = context.models.modules, context.models.run
            try:
                return {"step": dict(plan.next_step(decision.solution, step.acquired, modules, run_in))}
            except InvalidRequest as error:
                return refusal_from_values(str(error), step.acquired, [fault.loc for fault in error.faults])

        steps = run_pipeline(
            {"step": dict(plan.first_step(decision.solution))},
            acquired={},
            remaining_seconds=context.remaining_seconds,
            unavailable=context.unavailable,
        )
        planned = dict(zip(plan.features, plan.costs.tolist(), strict=True))
        setup = SetupPricing.start_run(plan.setup, plan.setup_names, plan.setup_costs, plan.features, ())
        return StartedRun(decision, run_with_local_decisions(steps, decide, setup), planned, is_slow=True)
