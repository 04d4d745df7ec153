"""What a portfolio plan keeps, and what its arrays promise each other: a plan may come from anybody's bytes."""

from dataclasses import dataclass, field, fields

import numpy as np

from models import InvalidRequest
from models.arrays import Amounts, Floats, Int32s, Int64s, Probabilities, SingleProbabilities, Singles
from models.trace import MOST_RESOURCES
from solvers.base import refuse_out_of_range
from solvers.portfolio.knapsack.programme import LARGEST
from solvers.portfolio.learned import contents as learned
from solvers.portfolio.learned.contents import LearnedContents, promises

MOST_SAMPLES, MOST_NUMBERS = 1000, 500_000_000
"""Samples, and coordinates in all of them, that a plan may have: 2 GB in memory."""
MOST_POWER = 15
"""As in ``models.cost``."""
_DIMENSIONS = {
    "items": 2,
    "success": 2,
    "samples": 2,
    "curve_estimates": 2,
    "curve_accuracies": 2,
    "curve_costs": 2,
    "curve_usage": 3,
    "curve_cost_errors": 2,
    "curve_cost_offsets": 2,
    "cost_weights": 2,
    "cost_knots": 2,
    "cost_levels": 2,
    "curve_estimate_errors": 2,
    "curve_too_high": 3,
    "cost_powers": 2,
    "cost_coefficients": 2,
    "resource_means": 2,
    "resource_powers": 2,
    "resource_coefficients": 2,
    **learned.DIMENSIONS,
}


@dataclass(frozen=True, slots=True, eq=False)
class PortfolioContents(LearnedContents):
    """Labelled samples, or regressions, that tell how likely each of m classifiers is right. Costs are in ``unit``."""

    classifiers: tuple[str, ...]
    """m names."""
    unit: str
    """The unit of costs and budgets."""
    feature_classifier: str | None
    """The classifier that embeddings come from, if they do."""
    embedding_cost: float
    """What it costs; 0 without it."""
    dearest: float
    """What the dearest classifier costs, which a budget's fraction is of."""
    costs: Amounts
    """(m,) of a query; 0 for the feature classifier."""
    low: Floats
    """(d,) what is taken off embeddings."""
    span: Floats
    """(d,) what they are divided by then."""
    items: Singles
    """(r, d) the labelled items' embeddings, scaled."""
    success: SingleProbabilities
    """(r, m) how likely each classifier is right about each, from 0 to 1."""
    samples: Int32s
    """(K, s) the samples, as places among the items."""
    sigmas: Amounts
    """(m,) the standard deviations of estimates' errors."""
    regularization: float
    """λ: so many of them are taken off an estimate."""
    price_budgets: Amounts
    """(b,) budgets of a query, without its embedding, rising."""
    prices: Amounts
    """(b,) their shadow prices, falling."""
    methods: tuple[str, ...]
    """q names."""
    held_out: int
    """How many items the curve was measured on."""
    curve_budgets: Amounts
    """(p,) budgets of a query, rising."""
    curve_estimates: Floats
    """(q, p) the accuracy that each method expected; NaN where it expects none."""
    curve_accuracies: Probabilities
    """(q, p) the accuracy that it had."""
    curve_costs: Amounts
    """(q, p) what a query cost."""
    curve_usage: Int64s
    """(q, p, m) how many of the held-out items each classifier answered."""
    independence: float
    """Effective items per held-out row: below 1 where items repeat among them."""
    curve_cost_offsets: Floats
    """(q, p) what a query cost beyond what was planned, on average."""
    curve_cost_errors: Amounts
    """(q, p) the standard errors of what a query cost beyond what was planned."""
    curve_estimate_errors: Probabilities
    """(q, p) the standard errors of what estimates were too high by, for all classifiers together."""
    curve_too_high: Floats
    """(q, p, m) how far the estimates of a classifier were too high when it was chosen."""
    cost_powers: Int64s = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))
    """(t, k) powers of the k numbers of a query's size in each of t terms; (0, 0): no cost depends on it."""
    cost_coefficients: Amounts = field(default_factory=lambda: np.empty((0, 0)))
    """(m, t) what a query costs is the sum of these times the terms; ``costs`` are its means."""
    cost_weights: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """(d, m) of an embedding as it comes, by which a query's cost is expected; (0, 0): it costs the means."""
    cost_intercepts: Floats = field(default_factory=lambda: np.empty(0))
    """(m,) what is added."""
    cost_knots: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """(k, m) sums of these, rising in each column."""
    cost_levels: Amounts = field(default_factory=lambda: np.empty((0, 0)))
    """(k, m) the costs expected there, rising; between them they are interpolated, outside they stay."""
    price_shares: Probabilities = field(default_factory=lambda: np.empty(0))
    """(b,) of queries for which two classifiers are equal at the price, the share that gets the dearer; (0,): none."""
    resources: tuple[str, ...] = ()
    """r names of what else classifiers use, each in a unit of its own."""
    resource_means: Amounts = field(default_factory=lambda: np.empty((0, 0)))
    """(r, m) what a query uses of each on average; (0, 0): there is none."""
    resource_powers: Int64s = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))
    """(t, k) powers of the k numbers of a query's size in each of t terms; (0, 0): no use depends on it."""
    resource_coefficients: Amounts = field(default_factory=lambda: np.empty((0, 0)))
    """(r m, t) what a query uses, resource by resource, is the sum of these times the terms."""

    def check(self) -> None:
        """Raise InvalidRequest if the arrays do not fit each other."""
        refuse_out_of_range(self)
        for group in (
            _dimensions,
            _numbers,
            _items,
            _learned,
            _prices,
            _curve,
        ):  # a later group relies on those before it
            broken = [promise for promise, kept in group(self).items() if not kept]
            if broken:
                raise InvalidRequest(f"this is no portfolio plan: it lacks {', '.join(broken)}")


def _dimensions(plan: PortfolioContents) -> dict[str, bool]:
    arrays = {each.name: getattr(plan, each.name) for each in fields(plan) if each.init}
    arrays = {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}
    m, names = len(plan.classifiers), plan.classifiers
    return {
        "arrays of the right dimensions": all(array.ndim == _DIMENSIONS.get(name, 1) for name, array in arrays.items()),
        "different classifiers": m > 0 and len(set(names)) == m,
        "costs and deviations for each classifier": plan.costs.shape == plan.sigmas.shape == (m,),
        "different methods, batch and route among them": len(set(plan.methods)) == len(plan.methods)
        and {"batch", "route"} <= set(plan.methods),
    }


def _numbers(plan: PortfolioContents) -> dict[str, bool]:
    positive = (plan.costs, plan.sigmas, plan.prices, plan.price_budgets, plan.curve_costs, plan.curve_budgets)
    free = plan.feature_classifier is None or (
        plan.feature_classifier in plan.classifiers and plan.costs[plan.classifiers.index(plan.feature_classifier)] == 0
    )
    return {
        "numbers from 0 to 1e75": all(bool(np.all((each >= 0) & (each <= LARGEST))) for each in positive)
        and all(0 <= each <= LARGEST for each in (plan.embedding_cost, plan.dearest, plan.regularization)),
        "estimates from -1 to 1": not bool(np.any(np.abs(plan.curve_estimates) > 1)),
        "a feature classifier whose answers are free": free,
        "a cost regression of each classifier or none": _is_cost_regression(plan),
        "costs that are functions of the size": _are_functions(
            plan.cost_powers, plan.cost_coefficients, len(plan.classifiers)
        ),
        "uses of each resource": _are_resources(plan),
    }


def _are_functions(powers: Int64s, each: Floats, costs: int) -> bool:
    (terms, dimensions) = powers.shape
    if not terms:
        return each.size == 0
    within = bool(np.all((each >= 0) & (each <= LARGEST)))
    possible = bool(np.all((powers >= 0) & (powers <= MOST_POWER)))
    return dimensions > 0 and each.shape == (costs, terms) and within and possible


def _is_cost_regression(plan: PortfolioContents) -> bool:
    m, weights = len(plan.classifiers), plan.cost_weights
    amounts = weights, plan.cost_intercepts, plan.cost_knots, plan.cost_levels
    if not weights.size:
        return plan.cost_intercepts.size == 0 and plan.cost_knots.size == 0 and plan.cost_levels.size == 0
    return (
        weights.shape == (len(plan.low), m)
        and plan.cost_intercepts.shape == (m,)
        and plan.cost_knots.shape == plan.cost_levels.shape == (len(plan.cost_knots), m)
        and len(plan.cost_knots) > 0
        and all(np.all(np.abs(each) <= LARGEST) for each in amounts)
        and all(np.all(np.diff(each, axis=0) >= 0) for each in (plan.cost_knots, plan.cost_levels))
    )


def _are_resources(plan: PortfolioContents) -> bool:
    r, m, means = len(plan.resources), len(plan.classifiers), plan.resource_means
    return (
        r <= MOST_RESOURCES
        and len(set(plan.resources)) == r
        and means.shape == ((r, m) if r else (0, 0))
        and bool(np.all((means >= 0) & (means <= LARGEST)))
        and _are_functions(plan.resource_powers, plan.resource_coefficients, r * m)
    )


def _items(plan: PortfolioContents) -> dict[str, bool]:
    r, d = plan.items.shape
    return {
        "items with their embeddings": r > 0 and d > 0 and bool(np.all(np.isfinite(plan.items))),
        "success for each item and classifier": plan.success.shape == (r, len(plan.classifiers)),
        "a scaling of each coordinate": plan.low.shape == plan.span.shape == (d,)
        and bool(np.all(np.isfinite(plan.low) & np.isfinite(plan.span) & (plan.span > 0))),
        "samples of its items": min(plan.samples.shape) > 0
        and len(plan.samples) <= MOST_SAMPLES
        and plan.samples.shape[1] <= r
        and plan.samples.size * d <= MOST_NUMBERS
        and bool(np.all((plan.samples >= 0) & (plan.samples < r))),
    }


def _learned(plan: PortfolioContents) -> dict[str, bool]:
    return promises(plan, plan.items.shape[1], len(plan.classifiers))


def _prices(plan: PortfolioContents) -> dict[str, bool]:
    return {
        "prices that fall as budgets rise": plan.prices.shape == plan.price_budgets.shape
        and len(plan.prices) > 0
        and bool(np.all(np.diff(plan.price_budgets) > 0))
        and bool(np.all(np.diff(plan.prices) <= 0)),
        "shares for each price or none": plan.price_shares.shape in ((0,), plan.prices.shape),
    }


def _curve(plan: PortfolioContents) -> dict[str, bool]:
    shape = (len(plan.methods), len(plan.curve_budgets))
    curves = (plan.curve_estimates, plan.curve_accuracies, plan.curve_costs)
    return {
        "a curve for each method": all(table.shape == shape for table in curves)
        and plan.curve_usage.shape == (*shape, len(plan.classifiers)),
        "errors of all estimates and costs": plan.curve_estimate_errors.shape == shape
        and plan.curve_cost_offsets.shape == plan.curve_cost_errors.shape == shape
        and bool(np.all(np.abs(plan.curve_cost_offsets) <= LARGEST)),
        "estimates that are off by 2 at most": plan.curve_too_high.shape == plan.curve_usage.shape
        and bool(np.all(np.abs(plan.curve_too_high) <= 2)),
        "budgets that rise": len(plan.curve_budgets) > 0 and bool(np.all(np.diff(plan.curve_budgets) > 0)),
        "an independence from 0 to 1": 0 < plan.independence <= 1,
        "usage of all held-out items": plan.held_out > 0
        and bool(np.all(plan.curve_usage >= 0))
        and bool(np.all(plan.curve_usage.sum(axis=2) == plan.held_out)),
    }
