"""Artifact kind ``policy``: the interface of acquisition DAGs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from models import DatasetFacts, FeatureTable, Trace, Value
from models.feedback import Expectations
from models.policy import PolicyEvaluateRequest, PolicyOptions, PolicyQuery, PolicyReply, PolicyTarget
from models.run import RunItem, RunLimits
from parsimony.runs.policy import run_policy
from solvers.base import IN_PROCESS, BuildContext, FitResult, ModelRunner, read_row_count
from solvers.evaluation import Columns, CompleteItems, EvaluationOutcomes, setup_columns
from solvers.kind import ArtifactKind, OperatingPoint, RunContext, StartedRun, make_query
from solvers.policy.estimates import estimate_outcomes
from solvers.policy.evaluate import evaluate, item_columns, list_operating_points
from solvers.policy.fit import check_dataset, fit
from solvers.policy.plan import PolicyPlan
from solvers.policy.run_decisions import describe_run, make_decisions
from solvers.policy.setting_replays import replay_settings
from solvers.running import run_with_local_decisions
from solvers.savings import SettingReplay
from solvers.setup_groups import SetupPricing


class PolicyKind(ArtifactKind[PolicyPlan, PolicyQuery]):
    """Acquire the next sensor or stop, depending on the acquired readings of an item."""

    name = "policy"
    plural = "policies"
    datasets = (FeatureTable, Trace)
    options = PolicyOptions
    query = PolicyQuery
    reply = PolicyReply
    limits = PolicyTarget
    evaluation = PolicyEvaluateRequest
    plan = PolicyPlan
    build_order = 3
    item_fields = frozenset({"embedding", "text", "max_item_cost", "tradeoff"})
    answers_chats = True
    mixes_points = True
    trials = ({}, {"embeddings": True})

    def check(self, facts: DatasetFacts, options: PolicyOptions) -> None:
        """Raise InvalidRequest for too few rows, too many sensors, or unsupported options."""
        check_dataset(facts, options)

    def fit(
        self, dataset: FeatureTable | Trace, options: PolicyOptions, rng: np.random.Generator, run: BuildContext
    ) -> FitResult[PolicyPlan]:
        """Fit a policy to a feature table or a trace."""
        return fit(dataset, options, rng, run)

    def replay_settings(self, plan: PolicyPlan, dataset: FeatureTable | Trace) -> Sequence[SettingReplay]:
        """Replay unseen rows at the points of the curve."""
        return replay_settings(plan, dataset)

    def list_called_names(self, plan: PolicyPlan) -> tuple[str, ...]:
        """Return the names of the sensors."""
        return plan.sensors

    def highest_cost(self, plan: PolicyPlan, query: PolicyTarget) -> float:
        """Return the cost of the most expensive classifier, or of all features."""
        alone = max(self.mean_costs(plan).values())
        return float(alone if plan.labelled.any() or plan.classless else plan.extended_costs.sum())

    def estimate_outcome(
        self, plan: PolicyPlan, summary: Mapping[str, Any], query: PolicyTarget, decision: Value
    ) -> Expectations:
        """Return the expected accuracy and cost at the limits, as means over items."""
        return estimate_outcomes(plan, query)

    def count_evidence_rows(self, summary: Mapping[str, Any]) -> int:
        """Return the number of validation rows."""
        return read_row_count(summary)

    def unsupported_limits(self, plan: PolicyPlan) -> frozenset[str]:
        """Return ``deadline`` if the sensors' times are unknown."""
        return frozenset() if len(plan.times) else frozenset({"deadline"})

    def embedding_dimensions(self, plan: PolicyPlan) -> int:
        """Return the dimensions of embeddings; 0 if the policy uses none."""
        return plan.dimensions

    def time_unit(self, plan: PolicyPlan) -> str:
        """Return the unit of the sensors' times."""
        return plan.time_unit

    def item_columns(self, plan: PolicyPlan) -> Columns:
        """Return the columns of each sensor and, for classifiers, the costs of set-up groups."""
        return {**item_columns(plan), **setup_columns(() if plan.columns else plan.setup_names)}

    def evaluate(
        self, plan: PolicyPlan, limits: PolicyTarget, items: CompleteItems, models: ModelRunner = IN_PROCESS
    ) -> EvaluationOutcomes:
        """Roll out items through the DAG."""
        return evaluate(plan, limits, items, item_columns(plan))

    def curve(self, plan: PolicyPlan, query: Any) -> Sequence[OperatingPoint]:
        """Return the operating points of the trade-off curve."""
        return list_operating_points(plan)

    def make_run_query(self, plan: PolicyPlan, item: RunItem, limits: RunLimits) -> PolicyQuery:
        """Return the query of an item before any acquisition.

        The query has the deadline if sensor times are known. In any case, the run enforces the deadline by the clock.
        """
        return make_query(
            PolicyQuery,
            budget=limits.budget,
            max_item_cost=limits.max_item_cost,
            deadline=limits.deadline if len(plan.times) else None,
            min_accuracy=limits.min_accuracy,
            tradeoff=limits.tradeoff,
            item=item.id,
            embedding=item.embedding,
        )

    def check_feasibility(self, plan: PolicyPlan, query: PolicyQuery) -> None:
        """Raise Infeasible for limits that no item can meet."""
        plan.select_mixture(query)

    def start_run(self, plan: PolicyPlan, query: PolicyQuery, context: RunContext) -> StartedRun:
        """Decide the first acquisition, and continue depending on its results."""
        decision = plan.decide(query)
        steps = run_policy(
            dict(decision),
            describe_run(plan, query),
            acquired=query.acquired,
            remaining_seconds=context.remaining_seconds,
            unavailable=context.unavailable,
        )
        setup = SetupPricing.start_run(plan.setup, plan.setup_names, plan.setup_costs, plan.sensors, query.acquired)
        runner = run_with_local_decisions(steps, make_decisions(plan, query), setup)
        return StartedRun(decision, runner, dict(zip(plan.sensors, plan.costs.tolist(), strict=True)))

    def mean_costs(self, plan: PolicyPlan) -> Mapping[str, float]:
        """Return the mean cost of each sensor alone, with the set-up groups that it needs."""
        alone = plan.setup.step_costs(plan.extended_costs, np.zeros(len(plan.sensors), dtype=np.bool_))
        return dict(zip(plan.sensors, alone.tolist(), strict=True))
