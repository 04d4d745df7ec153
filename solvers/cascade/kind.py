"""Artifact kind ``cascade``: the interface of IDK cascades."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from models import DatasetFacts, Trace
from models.cascade import (
    CascadeCurveQuery,
    CascadeEvaluateRequest,
    CascadeLimits,
    CascadeOptions,
    CascadeQuery,
    CascadeReply,
    CascadeRunDecision,
)
from models.feedback import Expectations
from models.run import RunItem, RunLimits
from parsimony.runs.cascade import run_cascade
from parsimony.runs.steps import REJECT
from solvers.base import IN_PROCESS, BuildContext, FitResult, ModelRunner, read_row_count
from solvers.cascade.estimates import estimate_outcomes
from solvers.cascade.evaluate import evaluate, list_operating_points
from solvers.cascade.fit import check_dataset, fit
from solvers.cascade.plan import CascadePlan
from solvers.cascade.setting_replays import replay_settings
from solvers.evaluation import Columns, CompleteItems, EvaluationOutcomes, classifier_columns, setup_columns
from solvers.kind import ArtifactKind, OperatingPoint, RunContext, StartedRun, make_query
from solvers.running import run_with_local_decisions
from solvers.savings import SettingReplay


class CascadeKind(ArtifactKind[CascadePlan, CascadeQuery]):
    """Calls classifiers in order until one is confident enough."""

    name = "cascade"
    plural = "cascades"
    datasets = (Trace,)
    options = CascadeOptions
    query = CascadeQuery
    reply = CascadeReply
    limits = CascadeLimits
    evaluation = CascadeEvaluateRequest
    curve_query = CascadeCurveQuery
    plan = CascadePlan
    build_order = 0
    answers_chats = True
    mixes_points = True
    skips_unavailable = True

    def check(self, facts: DatasetFacts, options: CascadeOptions) -> None:
        """Raise InvalidRequest for too few rows or an unknown deterministic classifier."""
        check_dataset(facts, options)

    def fit(
        self, dataset: Trace, options: CascadeOptions, rng: np.random.Generator, run: BuildContext
    ) -> FitResult[CascadePlan]:
        """Fit the best cascade for every deadline to a trace."""
        return fit(dataset, options, rng, run)

    def replay_settings(self, plan: CascadePlan, dataset: Trace) -> Sequence[SettingReplay]:
        """Replay unseen rows at the points of the frontier."""
        return replay_settings(plan, dataset)

    def list_called_names(self, plan: CascadePlan) -> tuple[str, ...]:
        """Return the names of the classifiers of all cascades."""
        return tuple(name for name in dict.fromkeys((*plan.names, *plan.point_names)) if name != REJECT)

    def decide(
        self,
        plan: CascadePlan,
        query: CascadeQuery,
        unavailable: Collection[str] = (),
        models: ModelRunner = IN_PROCESS,
    ) -> tuple[CascadeQuery, CascadeRunDecision]:
        """Decide a cascade without unavailable classifiers, as in a run."""
        decision = plan.decide(query)
        return query, plan.skip_classifiers(decision, tuple(unavailable)) if unavailable else decision

    def raise_limits_to_feasible(
        self, plan: CascadePlan, limits: dict[str, Any], unavailable: Collection[str]
    ) -> dict[str, Any]:
        """Return the limits with the budget raised, if needed, to the cheapest available cascade."""
        return {"budget": max(limits.get("budget", 0.0), plan.min_budget_excluding(unavailable))}

    def highest_cost(self, plan: CascadePlan, query: CascadeLimits) -> float:
        """Return the mean cost of the most expensive classifier."""
        return float(max([*plan.execution_times.tolist(), *plan.point_times.tolist()]))

    def estimate_outcome(
        self, plan: CascadePlan, summary: Mapping[str, Any], query: CascadeQuery, decision: CascadeRunDecision
    ) -> Expectations:
        """Return accuracy, cost, and duration on rows that the cascade was not fitted to."""
        return estimate_outcomes(plan, query, decision, read_row_count(summary, "held_out"))

    def count_evidence_rows(self, summary: Mapping[str, Any]) -> int:
        """Return the number of rows that measured the frontier."""
        return read_row_count(summary, "frontier")

    def item_columns(self, plan: CascadePlan) -> Columns:
        """Return label, confidence, cost, and correctness of each classifier."""
        return {**classifier_columns(self.list_called_names(plan)), **setup_columns(plan.setup_names)}

    def evaluate(
        self, plan: CascadePlan, limits: CascadeLimits, items: CompleteItems, models: ModelRunner = IN_PROCESS
    ) -> EvaluationOutcomes:
        """Replay each item through the cascade that is decided for it."""
        return evaluate(plan, limits, items)

    def curve(self, plan: CascadePlan, query: CascadeCurveQuery) -> Sequence[OperatingPoint]:
        """Return the points of the frontier within a deadline."""
        return list_operating_points(plan, query)

    def make_run_query(self, plan: CascadePlan, item: RunItem, limits: RunLimits) -> CascadeQuery:
        """Return an item's query: deadline and budget, or minimum accuracy."""
        return make_query(
            CascadeQuery,
            deadline=limits.deadline,
            min_accuracy=limits.min_accuracy,
            budget=limits.budget,
            item=item.id,
        )

    def start_run(self, plan: CascadePlan, query: CascadeQuery, context: RunContext) -> StartedRun:
        """Decide a cascade, and call its classifiers in order."""
        decision, unit_s = plan.decide(query), context.unit_seconds

        def continue_from(called: Sequence[str], remaining_seconds: float) -> list[Mapping[str, Any]]:
            return [dict(step) for step in plan.continue_from(called, remaining_seconds / (unit_s or 1.0)) or ()]

        def keep_in_time(called: Sequence[str], remaining_seconds: float) -> list[Mapping[str, Any]]:
            further = plan.keep_steps_in_time(decision.steps, called, remaining_seconds / (unit_s or 1.0))
            return [dict(step) for step in further]

        is_of_point = query.min_accuracy is not None or plan.select_points(query) is not None
        keep = keep_in_time if plan.setup_names else None  # a point's thresholds go with its cascade
        steps = run_cascade(
            [dict(step) for step in decision.steps],
            remaining_seconds=context.remaining_seconds,
            unit_s=unit_s,
            unavailable=context.unavailable,
            continue_from=keep if is_of_point else continue_from,
        )
        alone = dict(zip(plan.names, plan.execution_times.tolist(), strict=True))
        if is_of_point:
            alone |= dict(zip(plan.point_names, plan.point_times.tolist(), strict=True))
        setup = plan if is_of_point else plan.step_setup
        runner = run_with_local_decisions(steps, setup=setup.start_pricing(tuple(alone)))
        return StartedRun(decision, runner, setup.exclude_setup(alone))

    def mean_costs(self, plan: CascadePlan) -> Mapping[str, float]:
        """Return the mean cost of each classifier."""
        return {name: mean for name, (mean, _) in plan.times_alone.items() if name != REJECT}
