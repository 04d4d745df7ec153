"""The kind ``portfolio``: what the rest of Parsimony knows of OCCAM portfolios."""

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
from solvers.base import IN_PROCESS, Fitted, ModelRunner, Run, rows_of
from solvers.evaluation import Columns, CompleteItems, Evaluated, classifier_columns
from solvers.kind import ArtifactKind, OperatingPoint, RunContext, StartedRun, make_query
from solvers.portfolio.assigner import PortfolioAssigner
from solvers.portfolio.candidates import list_candidates
from solvers.portfolio.estimates import estimates
from solvers.portfolio.evaluate import baselines, curve, evaluate
from solvers.portfolio.fit import check, fit
from solvers.portfolio.plan import PortfolioPlan
from solvers.portfolio.run import next_best
from solvers.portfolio.run import run as run_portfolio
from solvers.portfolio.settings import replay_settings
from solvers.savings import SettingReplay

NO_EMBEDDING = (0.0,)
"""The embedding in the query of an item that has none yet."""


class PortfolioKind(ArtifactKind[PortfolioPlan, RouteQuery]):
    """Routes each query, or each of a batch, to one classifier within a budget."""

    name = "portfolio"
    plural = "portfolios"
    example = "digits-moved"
    datasets = (Trace,)
    options = PortfolioOptions
    query = RouteQuery
    reply = RouteReply
    limits = RouteLimits
    evaluation = RouteEvaluateRequest
    plan = PortfolioPlan
    build_order = 1
    item_fields = frozenset({"embedding", "text", "size", "budget_pacing"})
    answers_chats = True
    assigner = PortfolioAssigner()

    def check(self, facts: DatasetFacts, options: PortfolioOptions) -> None:
        """Refuse a trace without embeddings or with too few rows, and options that it does not allow."""
        check(facts, options)

    def fit(
        self, dataset: Trace, options: PortfolioOptions, rng: np.random.Generator, run: Run
    ) -> Fitted[PortfolioPlan]:
        """Build a portfolio from a trace with embeddings."""
        return fit(dataset, options, rng, run)

    def replay_settings(self, plan: PortfolioPlan, dataset: Trace) -> Sequence[SettingReplay]:
        """Return what routing at several budgets does with unseen rows."""
        return replay_settings(plan, dataset)

    def called_names(self, plan: PortfolioPlan) -> tuple[str, ...]:
        """Return the classifiers."""
        return plan.classifiers

    def keepable_limits(
        self, plan: PortfolioPlan, limits: dict[str, Any], unavailable: Collection[str]
    ) -> dict[str, Any]:
        """Raise the budget to the cost of the cheapest classifier that is available."""
        return {**limits, "budget": max(limits["budget"], plan.cheapest_without(unavailable))}

    def highest_cost(self, plan: PortfolioPlan, query: RouteLimits) -> float:
        """Return the cost of the most expensive classifier, with the embedding."""
        return plan.dearest

    def estimates(
        self,
        plan: PortfolioPlan,
        summary: Mapping[str, Any],
        query: Any,
        decision: RouteDecision | AssignmentFigures,
    ) -> Expectations:
        """Return the estimate and the cost of the chosen classifier, or their means over a batch."""
        return estimates(plan, query, decision)

    def judged_on(self, summary: Mapping[str, Any]) -> int:
        """Return the number of holdout rows."""
        return rows_of(summary, "held_out")

    def is_mean(self, decision: RouteDecision | AssignmentFigures) -> bool:
        """Return whether a batch was decided; the estimate of a single query is its own."""
        return isinstance(decision, AssignmentFigures)

    def embedding_dimensions(self, plan: PortfolioPlan) -> int:
        """Return the length of embeddings."""
        return plan.dimensions

    def embedding_cost(self, plan: PortfolioPlan) -> float:
        """Return what embedding an item costs."""
        return plan.embedding_cost

    def decides_at_once(self, plan: PortfolioPlan, query: RouteQuery) -> bool:
        """Return whether estimates take well under a millisecond."""
        return plan.answers_at_once

    def item_columns(self, plan: PortfolioPlan) -> Columns:
        """Return label, confidence, cost, and correctness of each classifier."""
        return classifier_columns(plan.classifiers)

    def evaluate(
        self, plan: PortfolioPlan, limits: RouteLimits, items: CompleteItems, models: ModelRunner = IN_PROCESS
    ) -> Evaluated:
        """Route items by their embeddings."""
        return evaluate(plan, limits, items)

    def curve(self, plan: PortfolioPlan, query: Any) -> Sequence[OperatingPoint]:
        """Return what routing single queries reached over budgets."""
        return curve(plan)

    def baselines(self, plan: PortfolioPlan) -> Mapping[str, Sequence[tuple[float, float]]]:
        """Return what other methods reached over budgets."""
        return baselines(plan)

    def run_query(self, plan: PortfolioPlan, item: RunItem, limits: RunLimits) -> RouteQuery:
        """Make the query that routes an item."""
        return make_query(
            RouteQuery,
            query=NO_EMBEDDING if item.embedding is None else item.embedding,
            size=item.size,
            item=item.id,
            budget=limits.budget,
            min_accuracy=limits.min_accuracy,
        )

    def refuse_infeasible(self, plan: PortfolioPlan, query: RouteQuery) -> None:
        """Raise Infeasible for a budget that no classifier keeps, InvalidRequest for costs and names."""
        plan.budget_of(query)
        if query.costs is not None or query.size is not None:
            plan.own_costs(query)
        plan.among(query)

    def start_run(self, plan: PortfolioPlan, query: RouteQuery, context: RunContext) -> StartedRun:
        """Route an item, or take what was assigned to it, and call the best other classifier where that fails."""
        estimated, budget, costs = plan.estimate_one(query.query), plan.budget_of(query), plan.own_costs(query)
        own, most = plan.costs if costs is None else costs, np.inf
        if context.assigned is None:
            first = plan.route(
                estimated, budget, lot=plan.lot_of(query), costs=costs, among=_available(plan, context.unavailable)
            )
        else:
            among = np.array([name == context.assigned for name in plan.classifiers])
            first = plan.route(estimated, budget, costs=own, among=among)
            most = first.cost
        other = next_best(plan, estimated, budget, most=most, costs=own, barred=context.irreplaceable)
        runner = run_portfolio(first, other, left=context.remaining_seconds, excluded=context.unavailable)
        return StartedRun(first, runner, dict(zip(plan.classifiers, own.tolist(), strict=True)))

    def explain(
        self, plan: PortfolioPlan, query: RouteQuery, decision: RouteDecision, unavailable: Collection[str]
    ) -> dict[str, Any]:
        """Return the classifiers with their estimates, costs, and why they were not chosen."""
        return {"candidates": list_candidates(plan, query, decision, unavailable)}


def _available(plan: PortfolioPlan, unavailable: Collection[str]) -> Bools | None:
    """Return which classifiers are available, (m,); None where all are, or none."""
    among = np.array([name not in unavailable for name in plan.classifiers])
    return among if among.any() and not among.all() else None
