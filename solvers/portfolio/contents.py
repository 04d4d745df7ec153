"""Stored arrays of a portfolio plan, and validation of their invariants: a plan may come from untrusted bytes."""

from dataclasses import dataclass, field, fields

import numpy as np

from models import InvalidRequest
from models.arrays import Amounts, Floats, Int32s, Int64s, Probabilities, SingleProbabilities, Singles
from models.trace_spec import MAX_RESOURCES
from solvers.base import check_array_ranges
from solvers.portfolio.knapsack.problem import MAX_NUMBER
from solvers.portfolio.learned import contents as learned
from solvers.portfolio.learned.contents import LearnedEstimatorArrays, check_invariants

MAX_SAMPLES, MAX_NUMBERS = 1000, 500_000_000
"""Maximum number of samples, and of coordinates in all of them: 2 GB in memory."""
MAX_POWER = 15
"""Same as in ``models.cost``."""
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
class PortfolioContents(LearnedEstimatorArrays):
    """Arrays of a portfolio plan for m classifiers. Costs are in ``unit``."""

    classifiers: tuple[str, ...]
    """m names."""
    unit: str
    """The unit of costs and budgets."""
    feature_classifier: str | None
    """The classifier that computes the embeddings; None: another source."""
    embedding_cost: float
    """Mean cost of an embedding; 0 without a feature classifier."""
    highest_cost: float
    """Cost of the most expensive classifier, which fractional budgets refer to."""
    costs: Amounts
    """(m,), mean cost per query, with set-up groups; 0 for the feature classifier, whose groups the others exclude."""
    low: Floats
    """(d,), offset subtracted from embeddings."""
    span: Floats
    """(d,), divisor of embeddings after that."""
    items: Singles
    """(r, d), scaled embeddings of the labeled items."""
    success: SingleProbabilities
    """(r, m), probability that each classifier is correct on each item."""
    samples: Int32s
    """(K, s), samples, as indices of items."""
    sigmas: Amounts
    """(m,), standard deviations of the estimates' errors."""
    regularization: float
    """λ: estimates are reduced by λ times sigma."""
    price_budgets: Amounts
    """(b,), budgets per query without the embedding, rising."""
    prices: Amounts
    """(b,), shadow prices of the budgets, falling."""
    methods: tuple[str, ...]
    """q names."""
    held_out: int
    """Number of holdout rows of the curve."""
    curve_budgets: Amounts
    """(p,), budgets per query, rising."""
    curve_estimates: Floats
    """(q, p), estimated accuracy of each method; NaN where it has none."""
    curve_accuracies: Probabilities
    """(q, p), measured accuracy."""
    curve_costs: Amounts
    """(q, p), measured mean cost per query."""
    curve_usage: Int64s
    """(q, p, m), number of holdout rows that each classifier answered."""
    independence: float
    """Effective items per holdout row: below 1 where items repeat."""
    curve_cost_offsets: Floats
    """(q, p), mean of measured minus planned cost."""
    curve_cost_errors: Amounts
    """(q, p), standard errors of the cost offsets."""
    curve_estimate_errors: Probabilities
    """(q, p), standard errors of the optimism over all classifiers."""
    curve_too_high: Floats
    """(q, p, m), optimism: mean of estimate minus outcome where a classifier was chosen."""
    cost_powers: Int64s = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))
    """(t, k), powers of a size's k numbers in each of t terms; (0, 0): costs do not depend on size."""
    cost_coefficients: Amounts = field(default_factory=lambda: np.empty((0, 0)))
    """(m, t), coefficients of the cost polynomials; ``costs`` are their means."""
    cost_weights: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """(d, m), regression of costs on unscaled embeddings; (0, 0): mean costs apply."""
    cost_intercepts: Floats = field(default_factory=lambda: np.empty(0))
    """(m,), intercepts of the regression."""
    cost_knots: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """(k, m), predictions of the regression, rising in each column."""
    cost_levels: Amounts = field(default_factory=lambda: np.empty((0, 0)))
    """(k, m), expected costs at the knots, rising; interpolated between and constant outside."""
    price_shares: Probabilities = field(default_factory=lambda: np.empty(0))
    """(b,), at a tie of two classifiers, the share of queries that gets the more expensive one; (0,): none."""
    resources: tuple[str, ...] = ()
    """r names of other resources, each with its own unit."""
    resource_means: Amounts = field(default_factory=lambda: np.empty((0, 0)))
    """(r, m), mean use per query; (0, 0): no resources."""
    resource_powers: Int64s = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))
    """(t, k), powers of a size's k numbers in each of t terms; (0, 0): uses do not depend on size."""
    resource_coefficients: Amounts = field(default_factory=lambda: np.empty((0, 0)))
    """(r m, t), coefficients of the use polynomials, resource by resource."""

    def check(self) -> None:
        """Raise InvalidRequest if the arrays violate an invariant."""
        check_array_ranges(self)
        for group in (
            _dimensions,
            _numbers,
            _items,
            _learned,
            _prices,
            _curve,
        ):  # each group relies on the ones before it
            broken = [invariant for invariant, holds in group(self).items() if not holds]
            if broken:
                raise InvalidRequest(f"invalid portfolio plan; violated: {', '.join(broken)}")


def _dimensions(plan: PortfolioContents) -> dict[str, bool]:
    arrays = {each.name: getattr(plan, each.name) for each in fields(plan) if each.init}
    arrays = {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}
    m, names = len(plan.classifiers), plan.classifiers
    return {
        "arrays of the correct dimensions": all(
            array.ndim == _DIMENSIONS.get(name, 1) for name, array in arrays.items()
        ),
        "different classifiers": m > 0 and len(set(names)) == m,
        "costs and deviations for each classifier": plan.costs.shape == plan.sigmas.shape == (m,),
        "set-up groups with costs": plan.has_valid_setup(names),
        "different methods, batch and route among them": len(set(plan.methods)) == len(plan.methods)
        and {"batch", "route"} <= set(plan.methods),
    }


def _numbers(plan: PortfolioContents) -> dict[str, bool]:
    positive = (
        *(plan.costs, plan.sigmas, plan.prices, plan.price_budgets, plan.curve_costs, plan.curve_budgets),
        plan.setup_costs,
    )
    free = plan.feature_classifier is None or (
        plan.feature_classifier in plan.classifiers and plan.costs[plan.classifiers.index(plan.feature_classifier)] == 0
    )
    return {
        "numbers from 0 to 1e75": all(bool(np.all((each >= 0) & (each <= MAX_NUMBER))) for each in positive)
        and all(0 <= each <= MAX_NUMBER for each in (plan.embedding_cost, plan.highest_cost, plan.regularization)),
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
    within = bool(np.all((each >= 0) & (each <= MAX_NUMBER)))
    possible = bool(np.all((powers >= 0) & (powers <= MAX_POWER)))
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
        and all(np.all(np.abs(each) <= MAX_NUMBER) for each in amounts)
        and all(np.all(np.diff(each, axis=0) >= 0) for each in (plan.cost_knots, plan.cost_levels))
    )


def _are_resources(plan: PortfolioContents) -> bool:
    r, m, means = len(plan.resources), len(plan.classifiers), plan.resource_means
    return (
        r <= MAX_RESOURCES
        and len(set(plan.resources)) == r
        and means.shape == ((r, m) if r else (0, 0))
        and bool(np.all((means >= 0) & (means <= MAX_NUMBER)))
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
        and len(plan.samples) <= MAX_SAMPLES
        and plan.samples.shape[1] <= r
        and plan.samples.size * d <= MAX_NUMBERS
        and bool(np.all((plan.samples >= 0) & (plan.samples < r))),
    }


def _learned(plan: PortfolioContents) -> dict[str, bool]:
    return check_invariants(plan, plan.items.shape[1], len(plan.classifiers))


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
        and bool(np.all(np.abs(plan.curve_cost_offsets) <= MAX_NUMBER)),
        "estimates that are off by 2 at most": plan.curve_too_high.shape == plan.curve_usage.shape
        and bool(np.all(np.abs(plan.curve_too_high) <= 2)),
        "budgets that rise": len(plan.curve_budgets) > 0 and bool(np.all(np.diff(plan.curve_budgets) > 0)),
        "an independence from 0 to 1": 0 < plan.independence <= 1,
        "usage of all held-out items": plan.held_out > 0
        and bool(np.all(plan.curve_usage >= 0))
        and bool(np.all(plan.curve_usage.sum(axis=2) == plan.held_out)),
    }
