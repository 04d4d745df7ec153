"""Portfolio plan: estimate accuracies, route single queries by a shadow price, and assign batches within limits."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from models import Fault, InvalidRequest
from models.arrays import Bools, Floats, Int64s
from models.errors import Infeasible, SolverTimeout
from models.limit_prices import LimitPrice
from models.limits import resolve_budget
from models.portfolio import (
    Assignment,
    AssignmentOptions,
    AssignmentRequest,
    BatchBudget,
    RouteDecision,
    RouteQuery,
)
from models.portfolio_constraints import ConstrainedAssignment, LimitedOptions
from solvers.base import check_excluded_names, prepare_plan
from solvers.budget_mixture import tie_break_from_id
from solvers.portfolio.assignment_limits import (
    AssignmentBatch,
    ConstrainedSolution,
    assign_within_limits,
    check_classifier_names,
    compute_total_budget,
    exclude_classifiers,
    make_matrix,
    remove_floors,
)
from solvers.portfolio.baselines import BudgetRouter
from solvers.portfolio.cost_regression import CostRegression
from solvers.portfolio.holdout_curve import HoldoutCurve
from solvers.portfolio.knapsack import assign, assign_max_min
from solvers.portfolio.learned.contents import load_estimator
from solvers.portfolio.learned.estimator import LearnedEstimator
from solvers.portfolio.query_costs import QuerySize, evaluate_costs
from solvers.portfolio.shadow_prices import ROUNDING, ShadowPrices, draw_tie_breaks
from solvers.portfolio.success_estimator import EmbeddingScaling, NeighborEstimator

DEFAULT_GAP = 1e-6
"""Default relative optimality gap of a batch assignment."""


MAX_FAST_NUMBERS = 200_000
"""Maximum number of stored embedding coordinates that are searched in well under a millisecond."""


@dataclass(frozen=True, eq=False)
class PortfolioPlan(HoldoutCurve):
    """Estimator of each classifier's accuracy on a query, and shadow prices of cost."""

    def __post_init__(self) -> None:
        self.check()
        prepare_plan(self)
        self._estimator.neighbors.warm_up(self._estimator.success)  # the first query is as fast as later ones

    @cached_property
    def _estimator(self) -> NeighborEstimator:
        return NeighborEstimator.from_items(
            EmbeddingScaling(self.low, self.span), self.items, self.success, self.samples
        )

    @cached_property
    def _learned(self) -> LearnedEstimator | None:
        return load_estimator(self)

    @cached_property
    def _prices(self) -> ShadowPrices:
        return ShadowPrices(self.price_budgets, self.prices, self.price_shares)

    @property
    def embedders(self) -> tuple[str, ...]:
        """The classifier that computes the embeddings, if any; it is called first."""
        return () if self.feature_classifier is None else (self.feature_classifier,)

    @property
    def dimensions(self) -> int:
        """The length of embeddings."""
        return len(self.low)

    def estimate(self, queries: ArrayLike) -> Floats:
        """Return the probability that each classifier is correct, (n, m), for queries (n, d)."""
        return self._estimate(queries, "queries")

    def _estimate(self, queries: ArrayLike, where: str) -> Floats:
        if self._learned is None:
            return self._estimator.estimate(queries, where)
        return self._learned.estimate(EmbeddingScaling.without_scaling(self.dimensions).apply(queries, where))

    def penalize_estimates(self, estimates: Floats, regularization: float | None = None) -> Floats:
        """Return estimates, (n, m), minus λ times sigma.

        λ is that of the build unless another value is given.
        """
        lam = self.regularization if regularization is None else regularization
        return estimates - lam * self.sigmas

    def make_router(self, estimates: Floats, queries: ArrayLike) -> BudgetRouter:
        """Return a function that routes each of n queries separately within a total budget.

        Args:
            estimates: (n, m).
            queries: (n, d).
        """
        values, tie_breaks, expected = (
            self.penalize_estimates(estimates),
            draw_tie_breaks(queries),
            self.predict_costs(queries),
        )
        costs = self.costs if expected is None else expected
        return lambda budget: self._prices.choose_each(values, costs, budget / len(values), tie_breaks)

    def decide(self, query: RouteQuery) -> RouteDecision:
        """Route a single query to the classifier with the highest estimate minus cost times shadow price.

        Raises:
            Infeasible: the cheapest classifier that is not excluded exceeds the budget.
        """
        budget, costs = self.resolve_query_budget(query), self.query_costs(query)
        estimates, tie_break, allowed = (
            self.estimate_one(query.query),
            self.draw_tie_break(query),
            self.allowed_mask(query),
        )
        return self.route(estimates, budget, tie_break=tie_break, costs=costs, allowed=allowed)

    def allowed_mask(self, query: RouteQuery) -> Bools | None:
        """Return the mask of classifiers that are not excluded, (m,); None for all.

        Raises:
            InvalidRequest: an excluded classifier is unknown.
            Infeasible: all classifiers are excluded, or all allowed ones exceed the budget.
        """
        if not query.excluded:
            return None
        check_excluded_names(query.excluded, self.classifiers)
        able = ~np.isin(self.classifiers, query.excluded)
        if not able.any():
            raise Infeasible("all classifiers are excluded")
        least, given = self.embedding_cost + float(self.costs[able].min()), self._max_mean_cost(query)
        if given < least * (1 - ROUNDING):
            raise Infeasible(
                f"budget must be at least {least:g} {self.unit} per query without excluded classifiers, got {given:g}"
            )
        return able

    def min_cost_excluding(self, left_out: Collection[str]) -> float:
        """Return the least cost of a query without excluded classifiers, including its embedding.

        It is 0 if all classifiers are excluded.
        """
        costs = self.costs[~np.isin(self.classifiers, list(left_out))]
        return self.embedding_cost + float(costs.min()) if len(costs) else 0.0

    def query_costs(self, query: RouteQuery) -> Floats | None:
        """Return a query's cost with each classifier, (m,); None for the mean costs.

        The cost of the embedding is not included. Costs are the declared ones, else those of the query's size, else
        those predicted from its embedding.

        Raises:
            InvalidRequest: costs or size have the wrong length.
        """
        if query.costs is not None:
            return np.asarray(self._zero_feature_classifier(make_matrix([query.costs], self.classifiers, "costs"))[0])
        if query.size is not None:
            return np.asarray(self.compute_costs([query.size], "size")[0])
        expected = self.predict_costs(np.array([query.query]))
        return None if expected is None else np.asarray(expected[0])

    def predict_costs(self, queries: ArrayLike) -> Floats | None:
        """Return predicted costs, (n, m), of queries (n, d), without embeddings.

        Return None if embeddings do not predict costs better than the means do.
        """
        if not self.cost_weights.size:
            return None
        if np.shape(queries)[-1] != self.dimensions:
            fault = f"must have {self.dimensions} numbers, got {np.shape(queries)[-1]}"
            raise InvalidRequest.from_faults(Fault(("query",), fault))
        regression = CostRegression(self.cost_weights, self.cost_intercepts, self.cost_knots, self.cost_levels)
        return self._zero_feature_classifier(regression.predict(np.asarray(queries, dtype=np.float64)))

    def query_uses(self, query: RouteQuery) -> dict[str, Floats]:
        """Return the use of each resource by a query with each classifier, (m,)."""
        uses = self._batch_uses(None if query.size is None else [query.size])
        return {name: np.atleast_2d(each)[0] for name, each in uses.items()}

    def compute_costs(self, sizes: Sequence[QuerySize], where: str = "sizes") -> Floats:
        """Return the costs of n queries of given sizes with each classifier: (n, m).

        The cost of the embedding is not included. Raises InvalidRequest.
        """
        return self._zero_feature_classifier(evaluate_costs(self.cost_powers, self.cost_coefficients, sizes, where))

    def _zero_feature_classifier(self, costs: Floats) -> Floats:
        """Set the costs of the feature classifier's answers, (n, m), to 0."""
        if self.feature_classifier is not None:
            costs[:, self.classifiers.index(self.feature_classifier)] = 0.0
        return costs

    def shadow_price_at(self, budget: float) -> float:
        """Return the shadow price at a budget per query, in accuracy per unit of cost."""
        return self._prices.price_at(budget - self.embedding_cost)

    def estimate_one(self, query: Sequence[float]) -> Floats:
        """Return the probability that each classifier is correct, (m,), for one query of d numbers."""
        estimates: Floats = self._estimate(np.array([query]), "query")[0]
        return estimates

    def draw_tie_break(self, query: RouteQuery) -> float:
        """Return a deterministic tie-break in [0, 1) from the query's id or embedding."""
        if not len(self.price_shares):
            return 1.0
        return float(draw_tie_breaks([query.query])[0]) if query.item is None else tie_break_from_id(query.item)

    @property
    def is_fast(self) -> bool:
        """Whether a single query takes well under a millisecond."""
        return self._learned is not None or self.items.size <= MAX_FAST_NUMBERS

    def route(
        self,
        estimates: Floats,
        budget: float,
        *,
        current_budget: float | None = None,
        max_cost: float = np.inf,
        tie_break: float = 1.0,
        costs: Floats | None = None,
        allowed: Bools | None = None,
        resource_costs: Floats | None = None,
    ) -> RouteDecision:
        """Route a query to the classifier with the highest estimate minus cost times shadow price.

        Args:
            estimates: (m,).
            budget: mean budget per query; estimates are corrected for the optimism at this budget.
            current_budget: budget from budget pacing; its shadow price applies. None for ``budget``.
            max_cost: maximum cost of the query.
            tie_break: in [0, 1). Of classifiers with equal value, the most expensive is chosen if this number is below
                the share at the budget (``ShadowPrices.shares``), else the cheapest.
            costs: (m,), costs of the query; None for the means.
            allowed: (m,), available classifiers; None for all.
            resource_costs: (m,), use of other resources times their shadow prices, in units of accuracy.
        """
        own = self.costs if costs is None else costs
        net = (budget if current_budget is None else current_budget) - self.embedding_cost
        values = self.penalize_estimates(estimates) - (0.0 if resource_costs is None else resource_costs)
        if allowed is not None:
            net, values = max(net, float(own[allowed].min())), np.where(allowed, values, -np.inf)
        choice = self._prices.choose(values, own, net, max_cost - self.embedding_cost, tie_break)
        return RouteDecision(
            classifier=self.classifiers[choice],
            estimated_accuracy=_subtract_optimism(
                float(estimates[choice]), float(self.interpolate_optimism("route", budget)[choice])
            ),
            raw_estimate=float(estimates[choice]),
            cost=self.embedding_cost + float(own[choice]),
            price=self._prices.price_at(net),
            budget=budget,
        )

    def resolve_query_budget(self, query: RouteQuery) -> float:
        """Return the mean budget of a query.

        Raises:
            InvalidRequest: neither budget nor min_accuracy is given.
            Infeasible: the budget is less than the cheapest classifier's cost, or less than ``min_accuracy`` needs.
        """
        if query.budget is None and query.min_accuracy is None:
            fault = "is required, or min_accuracy: this artifact has no default"
            raise InvalidRequest.from_faults(Fault(("budget",), fault))
        given = self._max_mean_cost(query)
        if query.min_accuracy is not None:
            return self._find_min_budget("route", query.min_accuracy, given)
        if given < self.min_cost * (1 - ROUNDING):
            raise Infeasible(f"budget must be at least {self.min_cost:g} {self.unit} per query, got {given:g}")
        return given

    def _max_mean_cost(self, query: RouteQuery) -> float:
        """Return the budget of a query; infinite if there is only a minimum accuracy."""
        return np.inf if query.budget is None else resolve_budget(query.budget, self.highest_cost)

    def assign(
        self,
        estimates: Floats,
        options: AssignmentOptions,
        time_limit_s: float | None = None,
        allowed: Bools | None = None,
        expected_costs: Floats | None = None,
    ) -> Assignment | ConstrainedAssignment:
        """Assign a batch within its limits so that the sum of estimates is maximal.

        Costs are the declared ones, else those of the sizes, else the predicted ones, else the means. When time runs
        out, the best assignment so far is returned with its proved gap.

        Args:
            estimates: (n, m).
            options: budget, or several limits.
            time_limit_s: seconds, in addition to the options' own limit.
            allowed: (m,), available classifiers; None for all.
            expected_costs: (n, m), predicted costs; None for the means.
        Raises:
            Infeasible: the budget is less than the cost of the cheapest assignment; the message has this cost.
        """
        limits = [limit for limit in (options.time_limit_s, time_limit_s) if limit is not None]
        values, limit = self._batch_values(estimates, options), min(limits, default=None)
        given = self._batch_costs(options)
        is_expected = given is None and expected_costs is not None
        costs = self._costs_or_means(expected_costs if given is None else given)
        if isinstance(options, LimitedOptions):
            check_classifier_names(self.classifiers, options)
            if options.is_constrained:
                excluded = [] if allowed is None else np.compress(~allowed, self.classifiers).tolist()
                request = exclude_classifiers(options, excluded) if excluded else options
                within = assign_within_limits(self._make_batch(values, costs, options), request, limit)
                return self._make_constrained_assignment(within, estimates, options)
        n, able = len(estimates), np.arange(len(self.classifiers)) if allowed is None else np.flatnonzero(allowed)
        least, total = self._cost_bounds(n, costs[..., able], options)
        solve = assign if options.objective == "mean" else assign_max_min
        is_shifted = is_expected and bool(np.isfinite(total))
        # Selection makes costs exceed predictions by about a percent.
        overrun = n * self.estimate_cost_overrun("batch", total / n)[0] if is_shifted else 0.0
        room = max(total - overrun, least * (1 + ROUNDING)) - n * self.embedding_cost
        gap = DEFAULT_GAP if options.gap is None else options.gap
        solution = solve(values[:, able], costs[..., able], room, gap=gap, time_limit_s=limit)
        choice = able[solution.choice]
        budget = total / n if given is None else self._budget_of_choice(choice)
        figures = self._make_figures(choice, estimates, solution.cost + overrun, budget, solution.gap)
        price = LimitPrice(limit="budget", at_least=None, at_most=total, used=figures["cost"], price=solution.price)
        return Assignment(**figures, budget=total, prices=(price,) if options.objective == "mean" else ())

    def _batch_values(self, estimates: Floats, options: AssignmentOptions) -> Floats:
        """Return the objective of a batch: estimates minus λ times sigma.

        For max-min, it is the plain estimates (OCCAM, Section 6).
        """
        return estimates if options.objective == "min" else self.penalize_estimates(estimates, options.regularization)

    def check_feasibility(self, n: int, options: AssignmentOptions, time_limit_s: float | None = None) -> None:
        """Raise the errors of ``assign`` for n queries before any call is paid for.

        The errors hold for any estimates. Accuracy floors within several limits, and conflicts that are not found
        within the time limit, are not checked. Predicted costs are replaced by the smallest prediction of each
        classifier.
        """
        given = self._batch_costs(options)
        costs = self._min_costs() if given is None else given
        if not isinstance(options, LimitedOptions) or not options.is_constrained:
            self._cost_bounds(n, costs, options)
            return
        check_classifier_names(self.classifiers, options)
        drawn = np.random.default_rng(0).random((n, len(self.classifiers)))  # equal values would take longer
        batch = self._make_batch(drawn, costs, options)
        with suppress(SolverTimeout):
            assign_within_limits(batch, remove_floors(options), time_limit_s)

    def find_least_cost(self, options: AssignmentOptions, n: int, expected_costs: Floats | None) -> float:
        """Return the total cost of n queries, each with its cheapest classifier, including embeddings."""
        given = self._batch_costs(options)
        return self._sum_least_costs(n, self._costs_or_means(expected_costs if given is None else given))

    def _sum_least_costs(self, n: int, costs: Floats) -> float:
        return n * self.embedding_cost + float(np.broadcast_to(costs, (n, costs.shape[-1])).min(axis=1).sum())

    def _cost_bounds(self, n: int, costs: Floats, options: AssignmentOptions) -> tuple[float, float]:
        """Return the least possible and the maximum allowed cost of n queries; raises Infeasible."""
        least = self._sum_least_costs(n, costs)
        total = self.check_total_budget(options, n, least) if options.has_budget else np.inf
        if options.min_accuracy is not None:
            total = n * self._find_min_budget("batch", options.min_accuracy, total / n)
        return least, total

    def _make_batch(self, values: Floats, costs: Floats, options: LimitedOptions) -> AssignmentBatch:
        return AssignmentBatch(
            classifiers=self.classifiers,
            values=values,
            costs=np.broadcast_to(costs, values.shape),
            embedding_cost=self.embedding_cost,
            max_cost=self.highest_cost,
            resources=self._batch_uses(options.sizes),
            means=self.costs + self.embedding_cost,
            optimism=self._make_optimism(options.regularization),
            estimate_mean_cost=self._guess_mean_cost,
        )

    def _min_costs(self) -> Floats:
        """Return the smallest predicted cost per classifier, without embedding: (m,)."""
        return self._zero_feature_classifier(self.cost_levels[:1].copy())[0] if self.cost_weights.size else self.costs

    def _costs_or_means(self, costs: Floats | None) -> Floats:
        return self.costs if costs is None else costs

    def _batch_costs(self, options: AssignmentOptions) -> Floats | None:
        """Return declared costs, or costs by size, (n, m), without embeddings.

        Return None if there are neither.
        """
        if isinstance(options, LimitedOptions) and options.costs is not None:
            return self._zero_feature_classifier(make_matrix(options.costs, self.classifiers, "costs"))
        sizes = options.sizes if isinstance(options, AssignmentRequest | LimitedOptions) else None
        if sizes is None or (len(self.resource_powers) and not len(self.cost_powers)):
            return None
        return self.compute_costs(sizes)

    def _batch_uses(self, sizes: Sequence[QuerySize] | None) -> dict[str, Floats]:
        """Return the use of each of the trace's resources: (n, m), or (m,) for the means."""
        if sizes is None or not len(self.resource_powers):
            return dict(zip(self.resources, self.resource_means, strict=True))
        uses = evaluate_costs(self.resource_powers, self.resource_coefficients, sizes, "sizes")
        return dict(zip(self.resources, np.hsplit(uses, len(self.resources)), strict=True))

    def _make_constrained_assignment(
        self, within: ConstrainedSolution, estimates: Floats, request: LimitedOptions
    ) -> ConstrainedAssignment:
        n = len(estimates)
        budget_like = self._budget_of_choice(within.choice)
        figures = self._make_figures(within.choice, estimates, within.cost, budget_like, within.gap)
        total = compute_total_budget(request, n, self.highest_cost) if request.has_budget else None
        return ConstrainedAssignment(**figures, budget=total, prices=within.prices)

    def check_total_budget(self, options: BatchBudget, n: int, least: float) -> float:
        """Return the total budget of n queries.

        Raises Infeasible if it is less than the least possible cost.
        """
        total = compute_total_budget(options, n, self.highest_cost)
        if total < least * (1 - ROUNDING):
            message = f"budget must be at least {least:g} {self.unit} for {n} queries, got {total:g}"
            raise Infeasible(message)
        return max(total, least)

    def _budget_of_choice(self, choice: Int64s) -> float:
        return self._find_budget_of_cost(float(self.costs[choice].mean()) + self.embedding_cost)

    def _make_figures(
        self, choice: Int64s, estimates: Floats, cost: float, budget: float, gap: float
    ) -> dict[str, Any]:
        """Return the figures of an assignment.

        Args:
            cost: total cost without embeddings.
            budget: mean budget at which the optimism of estimates is evaluated.
        """
        n = len(estimates)
        chosen = estimates[np.arange(n), choice]
        counts = np.bincount(choice, minlength=len(self.classifiers))
        return {
            "assignments": tuple(self.classifiers[i] for i in choice.tolist()),
            "estimated_accuracy": self.correct_accuracy(float(chosen.mean()), counts, budget),
            "raw_estimate": float(chosen.mean()),
            "min_estimate": float(chosen.min()),
            "cost": cost + n * self.embedding_cost,
            "gap": gap,
            "usage": dict(zip(self.classifiers, counts.tolist(), strict=True)),
        }

    def correct_accuracy(self, raw: float, counts: Int64s, budget: float) -> float:
        """Return the estimated accuracy of a batch minus the optimism of its estimates.

        Args:
            raw: mean of the chosen estimates.
            counts: (m,), number of queries of each classifier.
            budget: mean budget at which the optimism is evaluated.
        """
        optimism = float(self.interpolate_optimism("batch", budget) @ counts) / int(counts.sum())
        return _subtract_optimism(raw, optimism)


def _subtract_optimism(estimate: float, optimism: float) -> float:
    """Return an estimate minus its optimism, clipped to [0, 1]."""
    return min(max(estimate - optimism, 0.0), 1.0)
