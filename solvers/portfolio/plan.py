"""How a portfolio answers: it estimates, routes a query by a price, and assigns a batch within a budget."""

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
from solvers.base import prepare_plan, refuse_unknown
from solvers.budget_mixture import lot_of
from solvers.portfolio.baselines import Choose
from solvers.portfolio.cost_regression import CostRegression
from solvers.portfolio.held_out_curve import HeldOutCurve
from solvers.portfolio.knapsack import assign, assign_min
from solvers.portfolio.learned.contents import estimator_of
from solvers.portfolio.learned.estimator import LearnedEstimator
from solvers.portfolio.limits import (
    Batch,
    Within,
    assign_limited,
    barring,
    matrix_of,
    refuse_strangers,
    total_of,
    without_floors,
)
from solvers.portfolio.query_costs import Size, costs_at
from solvers.portfolio.shadow_prices import ROUNDING, ShadowPrices, lots_of
from solvers.portfolio.success_estimator import Estimator, Scaling

GAP = 1e-6
"""How far from the best a batch within one budget may be where nothing else is asked."""


SEARCHED_AT_ONCE = 200_000
"""Numbers of training embeddings that are searched for a query's neighbours in well under a millisecond."""


@dataclass(frozen=True, eq=False)
class PortfolioPlan(HeldOutCurve):
    """An estimator that tells how likely each classifier is right, and prices that say what that is worth."""

    def __post_init__(self) -> None:
        self.check()
        prepare_plan(self)
        self._estimator.neighbours.warm()  # a server answers its first query as fast as its last

    @cached_property
    def _estimator(self) -> Estimator:
        return Estimator.of(Scaling(self.low, self.span), self.items, self.success, self.samples)

    @cached_property
    def _learned(self) -> LearnedEstimator | None:
        return estimator_of(self)

    @cached_property
    def _prices(self) -> ShadowPrices:
        return ShadowPrices(self.price_budgets, self.prices, self.price_shares)

    @property
    def dimensions(self) -> int:
        """How many numbers an embedding has."""
        return len(self.low)

    def estimate(self, queries: ArrayLike) -> Floats:
        """Estimate for each of n queries, (n, d), how likely each classifier is right: (n, m), from 0 to 1."""
        return self._estimated(queries, "queries")

    def _estimated(self, queries: ArrayLike, where: str) -> Floats:
        if self._learned is None:
            return self._estimator.estimate(queries, where)
        return self._learned.estimate(Scaling.none(self.dimensions).apply(queries, where))

    def values(self, estimates: Floats, regularization: float | None = None) -> Floats:
        """Take λ times sigma off estimates, (n, m); λ as built, unless another is given."""
        lam = self.regularization if regularization is None else regularization
        return estimates - lam * self.sigmas

    def route_each(self, estimates: Floats, queries: ArrayLike) -> Choose:
        """Route each of n queries, (n, d), on its own, by its estimates, (n, m): call it with the budget of all."""
        values, lots, expected = self.values(estimates), lots_of(queries), self.expected_costs(queries)
        costs = self.costs if expected is None else expected
        return lambda budget: self._prices.choose_each(values, costs, budget / len(values), lots)

    def decide(self, query: RouteQuery) -> RouteDecision:
        """Route a single query: the classifier whose estimate, less the price of its cost, is the highest.

        Raises Infeasible, with the numbers, if not even the cheapest classifier that is not left out is within the
        budget.
        """
        budget, costs = self.budget_of(query), self.own_costs(query)
        estimates, lot, among = self.estimate_one(query.query), self.lot_of(query), self.among(query)
        return self.route(estimates, budget, lot=lot, costs=costs, among=among)

    def among(self, query: RouteQuery) -> Bools | None:
        """Tell which classifiers are not left out, (m,); None: all. Raises InvalidRequest for names that are none of
        them, Infeasible if nothing is left, or nothing within the budget."""
        if not query.excluded:
            return None
        refuse_unknown(query.excluded, self.classifiers)
        able = ~np.isin(self.classifiers, query.excluded)
        if not able.any():
            raise Infeasible("no classifier is left: all are left out")
        least, given = self.embedding_cost + float(self.costs[able].min()), self._given(query)
        if given < least * (1 - ROUNDING):
            raise Infeasible(
                f"the cheapest that is not left out costs {least:g} {self.unit} a query, the budget is {given:g}"
            )
        return able

    def cheapest_without(self, left_out: Collection[str]) -> float:
        """Return what a query costs, with its embedding, at the cheapest classifier that is not left out; 0: all
        are."""
        costs = self.costs[~np.isin(self.classifiers, list(left_out))]
        return self.embedding_cost + float(costs.min()) if len(costs) else 0.0

    def own_costs(self, query: RouteQuery) -> Floats | None:
        """Return the cost of a single query with each classifier, without its embedding, (m,): as given, by its size,
        or as expected of its embedding; None: the means. Raises InvalidRequest."""
        if query.costs is not None:
            return np.asarray(self._own_free(matrix_of([query.costs], self.classifiers, "costs"))[0])
        if query.size is not None:
            return np.asarray(self.costs_of([query.size], "size")[0])
        expected = self.expected_costs(np.array([query.query]))
        return None if expected is None else np.asarray(expected[0])

    def expected_costs(self, queries: ArrayLike) -> Floats | None:
        """Return the expected cost of each of n queries, (n, d), with each classifier, without its embedding: (n, m);
        None where embeddings do not predict costs better than the means."""
        if not self.cost_weights.size:
            return None
        if np.shape(queries)[-1] != self.dimensions:
            fault = f"has {np.shape(queries)[-1]} numbers, must have {self.dimensions}"
            raise InvalidRequest.at(Fault(("query",), fault))
        regression = CostRegression(self.cost_weights, self.cost_intercepts, self.cost_knots, self.cost_levels)
        return self._own_free(regression.predict(np.asarray(queries, dtype=np.float64)))

    def own_uses(self, query: RouteQuery) -> dict[str, Floats]:
        """Say what a single query uses of each resource that the trace told of with each classifier, (m,)."""
        uses = self._batch_uses(None if query.size is None else [query.size])
        return {name: np.atleast_2d(each)[0] for name, each in uses.items()}

    def costs_of(self, sizes: Sequence[Size], where: str = "sizes") -> Floats:
        """Reckon what each of n queries costs each classifier, beside its embedding: (n, m). Raises InvalidRequest."""
        return self._own_free(costs_at(self.cost_powers, self.cost_coefficients, sizes, where))

    def _own_free(self, costs: Floats) -> Floats:
        """Let the feature classifier's own answers be free, (n, m)."""
        if self.feature_classifier is not None:
            costs[:, self.classifiers.index(self.feature_classifier)] = 0.0
        return costs

    def price_at(self, budget: float) -> float:
        """Return the shadow price of cost at a budget of a query: the accuracy that a unit of cost must bring."""
        return self._prices.at(budget - self.embedding_cost)

    def estimate_one(self, query: Sequence[float]) -> Floats:
        """Estimate for a single query, d numbers, how likely each classifier is right: (m,)."""
        estimates: Floats = self._estimated(np.array([query]), "query")[0]
        return estimates

    def lot_of(self, query: RouteQuery) -> float:
        """Draw for a single query, by its id or its numbers: which of two classifiers that are equal at a price it
        gets."""
        if not len(self.price_shares):
            return 1.0
        return float(lots_of([query.query])[0]) if query.item is None else lot_of(query.item)

    @property
    def answers_at_once(self) -> bool:
        """Whether a single query takes well under a millisecond."""
        return self._learned is not None or self.items.size <= SEARCHED_AT_ONCE

    def route(
        self,
        estimates: Floats,
        budget: float,
        *,
        budget_now: float | None = None,
        most: float = np.inf,
        lot: float = 1.0,
        costs: Floats | None = None,
        among: Bools | None = None,
        priced: Floats | None = None,
    ) -> RouteDecision:
        """Route a query by its estimates, (m,): by the price at ``budget_now``, else at ``budget``; none dearer than
        ``most``. Among equals the cheapest, unless the query's lot says otherwise. costs: (m,) its own; else means.
        among: (m,) those that can be had; the others are as if they were always wrong. priced: (m,) what
        else they use, in right answers."""
        own = self.costs if costs is None else costs
        net = (budget if budget_now is None else budget_now) - self.embedding_cost
        values = self.values(estimates) - (0.0 if priced is None else priced)
        if among is not None:
            net, values = max(net, float(own[among].min())), np.where(among, values, -np.inf)
        choice = self._prices.choose(values, own, net, most - self.embedding_cost, lot)
        return RouteDecision(
            classifier=self.classifiers[choice],
            estimated_accuracy=_corrected(float(estimates[choice]), float(self.optimism("route", budget)[choice])),
            raw_estimate=float(estimates[choice]),
            cost=self.embedding_cost + float(own[choice]),
            price=self._prices.at(net),
            budget=budget,
        )

    def budget_of(self, query: RouteQuery) -> float:
        """Give what a query may cost on average; raises Infeasible if that is less than the cheapest costs, or than the
        accuracy asked for needs."""
        if query.budget is None and query.min_accuracy is None:
            fault = "must be given, or min_accuracy: this artifact was built without a default"
            raise InvalidRequest.at(Fault(("budget",), fault))
        given = self._given(query)
        if query.min_accuracy is not None:
            return self._least_budget("route", query.min_accuracy, given)
        if given < self.cheapest * (1 - ROUNDING):
            raise Infeasible(
                f"the cheapest way to answer a query costs {self.cheapest:g} {self.unit}, the budget is {given:g}"
            )
        return given

    def _given(self, query: RouteQuery) -> float:
        """Say what a query may cost on average; infinite where an accuracy alone is asked for."""
        return np.inf if query.budget is None else resolve_budget(query.budget, self.dearest)

    def assign(
        self,
        estimates: Floats,
        options: AssignmentOptions,
        time_limit_s: float | None = None,
        among: Bools | None = None,
        expected_costs: Floats | None = None,
    ) -> Assignment | ConstrainedAssignment:
        """Assign a batch by its estimates, (n, m), so that these add up to the most within the budget, or as
        ``limits`` does within several. What queries cost is as given, or what their sizes say, else as expected of
        their embeddings, (n, m), else the means.

        Raises Infeasible, with the cost of the cheapest assignment, if the budget is below it. After time_limit_s, or
        the options' own limit, the best assignment so far is the answer, with what is proved of it. among: (m,) those
        that may answer; None: all.
        """
        limits = [limit for limit in (options.time_limit_s, time_limit_s) if limit is not None]
        values, limit = self._batch_values(estimates, options), min(limits, default=None)
        given = self._batch_costs(options)
        is_expected = given is None and expected_costs is not None
        costs = expected_costs if given is None and expected_costs is not None else self._or_means(given)
        if isinstance(options, LimitedOptions):
            refuse_strangers(self.classifiers, options)
            if options.is_constrained:
                asked = options if among is None else barring(options, np.compress(~among, self.classifiers).tolist())
                within = assign_limited(self._batch(values, costs, options), asked, limit)
                return self._within(within, estimates, options)
        n, able = len(estimates), np.arange(len(self.classifiers)) if among is None else np.flatnonzero(among)
        least, total = self._least_and_most(n, costs[..., able], options)
        solve = assign if options.objective == "mean" else assign_min
        is_shifted = is_expected and bool(np.isfinite(total))
        beyond = n * self.beyond_planned("batch", total / n)[0] if is_shifted else 0.0  # by selection: a percent
        room = max(total - beyond, least * (1 + ROUNDING)) - n * self.embedding_cost
        gap = GAP if options.gap is None else options.gap
        solution = solve(values[:, able], costs[..., able], room, gap=gap, time_limit_s=limit)
        choice = able[solution.choice]
        budget = total / n if given is None else self._budget_of_choice(choice)
        figures = self._figures(choice, estimates, solution.cost + beyond, budget, solution.gap)
        price = LimitPrice(limit="budget", at_least=None, at_most=total, used=figures["cost"], price=solution.price)
        return Assignment(**figures, budget=total, prices=(price,) if options.objective == "mean" else ())

    def _batch_values(self, estimates: Floats, options: AssignmentOptions) -> Floats:
        """Give what a batch is assigned by: estimates less λ times sigma, or, where the least one counts, estimates as
        they are (OCCAM, Section 6)."""
        return estimates if options.objective == "min" else self.values(estimates, options.regularization)

    def refuse_infeasible(self, n: int, options: AssignmentOptions, time_limit_s: float | None = None) -> None:
        """Raise what ``assign`` would of n queries, whatever their estimates: before anything is paid for these. Floors
        of accuracy within several limits are left out, and what is not found out in time. Costs that
        embeddings predict count as the least observed."""
        given = self._batch_costs(options)
        costs = self._least_costs() if given is None else given
        if not isinstance(options, LimitedOptions) or not options.is_constrained:
            self._least_and_most(n, costs, options)
            return
        refuse_strangers(self.classifiers, options)
        drawn = np.random.default_rng(0).random((n, len(self.classifiers)))  # programmes of equal values take longer
        batch = self._batch(drawn, costs, options)
        with suppress(SolverTimeout):
            assign_limited(batch, without_floors(options), time_limit_s)

    def _least_and_most(self, n: int, costs: Floats, options: AssignmentOptions) -> tuple[float, float]:
        """Say what n queries cost at least, and may cost at most; raises Infeasible."""
        each = np.broadcast_to(costs, (n, costs.shape[-1]))
        least = n * self.embedding_cost + float(each.min(axis=1).sum())
        total = self._total(options, n, least) if options.has_budget else np.inf
        if options.min_accuracy is not None:
            total = n * self._least_budget("batch", options.min_accuracy, total / n)
        return least, total

    def _batch(self, values: Floats, costs: Floats, options: LimitedOptions) -> Batch:
        """Say what is known of a batch, given values, (n, m), and what queries cost, (m,) or (n, m)."""
        return Batch(
            classifiers=self.classifiers,
            values=values,
            costs=np.broadcast_to(costs, values.shape),
            embedding=self.embedding_cost,
            dearest=self.dearest,
            resources=self._batch_uses(options.sizes),
            means=self.costs + self.embedding_cost,
            too_high=self._too_high(options.regularization),
            likely=self._likely,
        )

    def _least_costs(self) -> Floats:
        """Return the least that a query can be expected to cost each classifier, without its embedding: (m,)."""
        return self._own_free(self.cost_levels[:1].copy())[0] if self.cost_weights.size else self.costs

    def _or_means(self, costs: Floats | None) -> Floats:
        return self.costs if costs is None else costs

    def _batch_costs(self, options: AssignmentOptions) -> Floats | None:
        """Return the costs of queries, without their embeddings, as given or by their sizes: (n, m); None: neither."""
        if isinstance(options, LimitedOptions) and options.costs is not None:
            return self._own_free(matrix_of(options.costs, self.classifiers, "costs"))
        sizes = options.sizes if isinstance(options, AssignmentRequest | LimitedOptions) else None
        if sizes is None or (len(self.resource_powers) and not len(self.cost_powers)):
            return None
        return self.costs_of(sizes)

    def _batch_uses(self, sizes: Sequence[Size] | None) -> dict[str, Floats]:
        """Say what queries use of each resource that the trace told of: (n, m), or (m,) where all use the means."""
        if sizes is None or not len(self.resource_powers):
            return dict(zip(self.resources, self.resource_means, strict=True))
        uses = costs_at(self.resource_powers, self.resource_coefficients, sizes, "sizes")
        return dict(zip(self.resources, np.hsplit(uses, len(self.resources)), strict=True))

    def _within(self, within: Within, estimates: Floats, request: LimitedOptions) -> ConstrainedAssignment:
        n = len(estimates)
        budget_like = self._budget_of_choice(within.choice)
        figures = self._figures(within.choice, estimates, within.cost, budget_like, within.gap)
        total = total_of(request, n, self.dearest) if request.has_budget else None
        return ConstrainedAssignment(**figures, budget=total, prices=within.prices)

    def _total(self, options: BatchBudget, n: int, least: float) -> float:
        total = total_of(options, n, self.dearest)
        if total < least * (1 - ROUNDING):
            asked = f"the cheapest assignment of {n} queries costs {least:g} {self.unit}, the budget is {total:g}"
            raise Infeasible(asked)
        return max(total, least)

    def _budget_of_choice(self, choice: Int64s) -> float:
        return self._budget_of_mix(float(self.costs[choice].mean()) + self.embedding_cost)

    def _figures(self, choice: Int64s, estimates: Floats, cost: float, budget: float, gap: float) -> dict[str, Any]:
        """Tell what an assignment comes to; cost: without embeddings; budget: of a query, that estimates were too high
        at."""
        n = len(estimates)
        chosen = estimates[np.arange(n), choice]
        counts = np.bincount(choice, minlength=len(self.classifiers))
        return {
            "assignments": tuple(self.classifiers[i] for i in choice.tolist()),
            "estimated_accuracy": _corrected(float(chosen.mean()), float(self.optimism("batch", budget) @ counts) / n),
            "raw_estimate": float(chosen.mean()),
            "min_estimate": float(chosen.min()),
            "cost": cost + n * self.embedding_cost,
            "gap": gap,
            "usage": dict(zip(self.classifiers, counts.tolist(), strict=True)),
        }


def _corrected(estimate: float, optimism: float) -> float:
    """Take off an estimate, from 0 to 1, what choosing by it makes it too high."""
    return min(max(estimate - optimism, 0.0), 1.0)
