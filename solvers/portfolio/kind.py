"""Artifact kind ``portfolio``: the interface of OCCAM portfolios to the rest of Parsimony."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from models import DatasetFacts, Trace
from models.arrays import Bools
from models.feedback import Expectations
from models.portfolio import (
    AssignmentFigures,
    PortfolioOptions,
    RouteDecision,
    RouteEvaluateRequest,
    RouteLimits,
    RouteQuery,
    RouteReply,
)
from models.run import RunItem, RunLimits
from parsimony.runs.portfolio import run_portfolio
from parsimony.runs.steps import REJECT
from solvers.base import IN_PROCESS, BuildContext, FitResult, ModelRunner, read_row_count
from solvers.evaluation import Columns, CompleteItems, EvaluationOutcomes, classifier_columns, setup_columns
from solvers.kind import ArtifactKind, OperatingPoint, RunContext, StartedRun, make_query
from solvers.portfolio.assigner import PortfolioAssigner
from solvers.portfolio.candidates import list_candidates
from solvers.portfolio.estimates import estimate_outcome
from solvers.portfolio.evaluate import evaluate, list_baseline_curves, list_operating_points
from solvers.portfolio.fallback import make_fallback_router
from solvers.portfolio.fit import check_options, fit
from solvers.portfolio.plan import PortfolioPlan
from solvers.portfolio.setting_replays import replay_settings
from solvers.running import run_with_local_decisions
from solvers.savings import SettingReplay

NO_EMBEDDING = (0.0,)
"""Placeholder for the embedding of an item without one."""


class PortfolioKind(ArtifactKind[PortfolioPlan, RouteQuery]):
    """Route each query, or each query of a batch, to one classifier within a budget."""

    name = "portfolio"
    plural = "portfolios"
    datasets = (Trace,)
    options = PortfolioOptions
    query = RouteQuery
    reply = RouteReply
    limits = RouteLimits
    evaluation = RouteEvaluateRequest
    plan = PortfolioPlan
    build_order = 1
    item_fields = frozenset({"embedding", "text", "size", "budget_pacing"})
    takes_partial_traces = True
    needs_embeddings = True
    answers_chats = True
    assigner = PortfolioAssigner()

    def check(self, facts: DatasetFacts, options: PortfolioOptions) -> None:
        """Raise InvalidRequest for unsuitable traces or invalid options.

        A trace must have embeddings and enough rows.
        """
        check_options(facts, options)

    def fit(
        self, dataset: Trace, options: PortfolioOptions, rng: np.random.Generator, run: BuildContext
    ) -> FitResult[PortfolioPlan]:
        """Fit a portfolio to a trace with embeddings."""
        return fit(dataset, options, rng, run)

    def replay_settings(self, plan: PortfolioPlan, dataset: Trace) -> Sequence[SettingReplay]:
        """Return the outcomes of routing holdout rows at several budgets."""
        return replay_settings(plan, dataset)

    def list_called_names(self, plan: PortfolioPlan) -> tuple[str, ...]:
        """Return the names of the classifiers."""
        return tuple(name for name in plan.classifiers if name != REJECT)

    def raise_limits_to_feasible(
        self, plan: PortfolioPlan, limits: dict[str, Any], unavailable: Collection[str]
    ) -> dict[str, Any]:
        """Return the limits with the budget raised, if needed, to the cheapest available classifier."""
        return {**limits, "budget": max(limits["budget"], plan.min_cost_excluding(unavailable))}

    def highest_cost(self, plan: PortfolioPlan, query: RouteLimits) -> float:
        """Return the cost of the most expensive classifier, including the embedding."""
        return plan.highest_cost

    def estimate_outcome(
        self,
        plan: PortfolioPlan,
        summary: Mapping[str, Any],
        query: Any,
        decision: RouteDecision | AssignmentFigures,
    ) -> Expectations:
        """Return the expected accuracy and cost of the chosen classifier, or their means over a batch."""
        return estimate_outcome(plan, query, decision)

    def count_evidence_rows(self, summary: Mapping[str, Any]) -> int:
        """Return the number of holdout rows."""
        return read_row_count(summary, "held_out")

    def is_mean(self, decision: RouteDecision | AssignmentFigures) -> bool:
        """Return whether the decision is for a batch, so that its estimates are means."""
        return isinstance(decision, AssignmentFigures)

    def embedding_dimensions(self, plan: PortfolioPlan) -> int:
        """Return the length of embeddings."""
        return plan.dimensions

    def embedding_cost(self, plan: PortfolioPlan) -> float:
        """Return the cost of embedding an item."""
        return plan.embedding_cost

    def is_fast_decision(self, plan: PortfolioPlan, query: RouteQuery) -> bool:
        """Return whether a decision takes well under a millisecond."""
        return plan.is_fast

    def item_columns(self, plan: PortfolioPlan) -> Columns:
        """Return the columns of label, confidence, cost, and correctness of each classifier."""
        return {**classifier_columns(self.list_called_names(plan)), **setup_columns(plan.setup_names)}

    def evaluate(
        self, plan: PortfolioPlan, limits: RouteLimits, items: CompleteItems, models: ModelRunner = IN_PROCESS
    ) -> EvaluationOutcomes:
        """Evaluate the routing of items by their embeddings."""
        return evaluate(plan, limits, items)

    def curve(self, plan: PortfolioPlan, query: Any) -> Sequence[OperatingPoint]:
        """Return the operating points of routing single queries, over budgets."""
        return list_operating_points(plan)

    def baselines(self, plan: PortfolioPlan) -> Mapping[str, Sequence[tuple[float, float]]]:
        """Return (accuracy, cost) of other methods over budgets."""
        return list_baseline_curves(plan)

    def make_run_query(self, plan: PortfolioPlan, item: RunItem, limits: RunLimits) -> RouteQuery:
        """Return the query that routes an item."""
        return make_query(
            RouteQuery,
            query=NO_EMBEDDING if item.embedding is None else item.embedding,
            size=item.size,
            item=item.id,
            budget=limits.budget,
            min_accuracy=limits.min_accuracy,
        )

    def with_call_costs(self, plan: PortfolioPlan, query: RouteQuery, costs: Mapping[str, float]) -> RouteQuery:
        """Return the query with call costs; a classifier without one has its mean cost."""
        if query.size is not None:
            return query
        means = plan.exclude_setup(dict(zip(plan.classifiers, plan.costs.tolist(), strict=True)), plan.embedders)
        own = {name: costs.get(name, mean) + plan.sum_setup([name], plan.embedders) for name, mean in means.items()}
        return query.model_copy(update={"costs": tuple(own.values())})

    def check_feasibility(self, plan: PortfolioPlan, query: RouteQuery) -> None:
        """Raise Infeasible if no classifier fits the budget.

        Raises InvalidRequest for invalid costs and names.
        """
        plan.resolve_query_budget(query)
        if query.costs is not None or query.size is not None:
            plan.query_costs(query)
        plan.allowed_mask(query)

    def start_run(self, plan: PortfolioPlan, query: RouteQuery, context: RunContext) -> StartedRun:
        """Route an item, or use its assigned classifier.

        If the call fails, the best other classifier is used.
        """
        estimated, budget, costs = (
            plan.estimate_one(query.query),
            plan.resolve_query_budget(query),
            plan.query_costs(query),
        )
        own, max_cost = plan.costs if costs is None else costs, np.inf
        if context.assigned is None:
            first = plan.route(
                estimated,
                budget,
                tie_break=plan.draw_tie_break(query),
                costs=costs,
                allowed=_available(plan, context.unavailable),
            )
        else:
            allowed = np.array([name == context.assigned for name in plan.classifiers])
            first = plan.route(estimated, budget, costs=own, allowed=allowed)
            max_cost = first.cost
        other = make_fallback_router(
            plan, estimated, budget, max_cost=max_cost, costs=own, forbidden=context.irreplaceable
        )
        steps = run_portfolio(dict(first), remaining_seconds=context.remaining_seconds, unavailable=context.unavailable)
        planned = dict(zip(plan.classifiers, own.tolist(), strict=True))
        if costs is not None:  # of the query, with unknown shares of set-up work
            return StartedRun(first, run_with_local_decisions(steps, other), planned)
        runner = run_with_local_decisions(steps, other, plan.start_pricing(plan.classifiers, plan.embedders))
        return StartedRun(first, runner, plan.exclude_setup(planned, plan.embedders))

    def mean_costs(self, plan: PortfolioPlan) -> Mapping[str, float]:
        """Return the mean cost of each classifier."""
        costs = zip(plan.classifiers, plan.costs.tolist(), strict=True)
        return {name: cost for name, cost in costs if name != REJECT}

    def explain(
        self, plan: PortfolioPlan, query: RouteQuery, decision: RouteDecision, unavailable: Collection[str]
    ) -> dict[str, Any]:
        """Return the classifiers with estimates and costs, and the reasons why they were not chosen."""
        return {"candidates": list_candidates(plan, query, decision, unavailable)}


def _available(plan: PortfolioPlan, unavailable: Collection[str]) -> Bools | None:
    """Return the mask of available classifiers, (m,); None if all or none are."""
    allowed = np.array([name not in unavailable for name in plan.classifiers])
    return allowed if allowed.any() and not allowed.all() else None
