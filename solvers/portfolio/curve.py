"""Accuracy over budget on holdout rows, for the portfolio and baselines (OCCAM, Section 5.2).

==============  ============================================================================
method          how it chooses
==============  ============================================================================
``batch``       assignment of the whole batch, by the estimates minus λ times sigma
``route``       each item on its own, by the shadow price of the budget
``single_best``, ``random``, ``frugal_mct``, ``oracle``  see ``baselines``
==============  ============================================================================

``batch``, ``route``, and ``frugal_mct`` need the embeddings, whose cost is subtracted from their budget.
"""

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import Any

import numpy as np

from models.arrays import Floats, Int64s
from solvers.portfolio.baselines import (
    BudgetRouter,
    draw_uniform_values,
    make_assignment_router,
    make_single_best_router,
)
from solvers.portfolio.routing_outcome import LabeledItems, RoutingOutcome
from solvers.statistics import standard_error_of_mean

PRIOR_ITEMS = 30.0
"""Prior weight, in items, of the mean optimism of all classifiers against a classifier's own."""


@dataclass(frozen=True, slots=True, eq=False)
class CurveMethod:
    """A routing method.

    Attributes:
        name: its name.
        choose: the router.
        values: (n, m), its estimates; None if it has none.
        uses_embeddings: whether it pays for embeddings.
    """

    name: str
    choose: BudgetRouter
    values: Floats | None
    uses_embeddings: bool


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredCurve:
    """Outcomes of q methods at p budgets.

    Attributes:
        methods: q names.
        budgets: (p,), per query.
        estimates, accuracies, costs: (q, p).
        cost_offsets: (q, p), measured minus planned cost.
        cost_errors: (q, p), standard errors of the costs. For ``batch``, planned costs are known, so they are standard
            errors of the offsets.
        usage: (q, p, m), items of each classifier.
        too_high: (q, p, m), optimism of the estimates of chosen classifiers.
        estimate_errors: (q, p), standard errors of the optimism over all classifiers.
    """

    methods: tuple[str, ...]
    budgets: Floats
    estimates: Floats
    accuracies: Floats
    costs: Floats
    cost_offsets: Floats
    cost_errors: Floats
    usage: Int64s
    too_high: Floats
    estimate_errors: Floats

    @property
    def plan_fields(self) -> dict[str, Any]:
        """The curve as fields of a plan."""
        return {
            f"curve_{each.name}": getattr(self, each.name) for each in dataclass_fields(self) if each.name != "methods"
        }


def list_methods(
    estimates: Floats,
    values: Floats,
    route: BudgetRouter,
    labeled: LabeledItems,
    plain: LabeledItems,
    accuracies: Floats,
    forests: Floats,
    rng: np.random.Generator,
) -> tuple[CurveMethod, ...]:
    """Return the methods of the curve.

    Args:
        estimates: (n, m), of holdout rows.
        values: (n, m), estimates minus λ times sigma.
        route: the router of single items.
        labeled: outcomes and costs for methods that pay for embeddings; the feature classifier's answers are then free.
        plain: outcomes and costs without embeddings; the feature classifier's answers have their cost.
        accuracies: (m,), on build rows.
        forests: (n, m), predictions of the forests.
    """
    n, m = estimates.shape
    chance = draw_uniform_values(rng, n, m)
    return (
        CurveMethod("batch", make_assignment_router(values, labeled.plan_costs), estimates, True),
        CurveMethod("route", route, estimates, True),
        CurveMethod(
            "single_best", make_single_best_router(accuracies, plain.means, n), np.tile(accuracies, (n, 1)), False
        ),
        CurveMethod("random", make_assignment_router(chance, plain.means), None, False),
        CurveMethod("frugal_mct", make_assignment_router(forests, labeled.plan_costs), forests, True),
        CurveMethod("oracle", make_assignment_router(plain.right, plain.means), plain.right, False),
    )


def list_budgets(labeled: LabeledItems, plain: LabeledItems, points: int) -> Floats:
    """Return budgets per query, from the portfolio's least cost to the most expensive classifier's cost.

    Accuracy and optimism are interpolated and change fastest at low budgets. So there are more low budgets.
    """
    low = labeled.mean_embedding_cost + float(labeled.means.min())
    high = max(float(plain.means.max()), low)
    return np.unique(low + (high - low) * np.linspace(0, 1, points) ** 2)


def measure_optimism(choice: Int64s, off: Floats, classifiers: int) -> Floats:
    """Return the optimism of each classifier's estimates over the items that it is chosen for: (m,).

    The values of classifiers with few items are shrunk to the mean. The usage-weighted mean is preserved.

    Args:
        choice: (n,).
        off: (n,), estimate minus outcome of each item.

    >>> measure_optimism(np.array([0, 0, 1]), np.array([0.5, 0.5, -0.4]), 3).round(2).tolist()
    [0.21, 0.17, 0.19]
    """
    counts = np.bincount(choice, minlength=classifiers)
    pulled = (np.bincount(choice, off, minlength=classifiers) + PRIOR_ITEMS * off.mean()) / (counts + PRIOR_ITEMS)
    return np.asarray(pulled + off.mean() - (pulled @ counts) / len(choice))


def measure_curve(
    methods: tuple[CurveMethod, ...],
    budgets: Floats,
    labeled: LabeledItems,
    plain: LabeledItems,
    report: Callable[[str], None] = lambda message: None,
) -> MeasuredCurve:
    """Route the holdout rows with every method at every budget.

    ``report`` receives the progress.
    """
    n, m = labeled.right.shape
    shape = len(methods), len(budgets)
    estimates, accuracies = np.full(shape, np.nan), np.empty(shape)
    costs, offsets, errors, estimate_errors = np.empty(shape), np.empty(shape), np.empty(shape), np.zeros(shape)
    usage, off = np.empty((*shape, m), dtype=np.int64), np.zeros((*shape, m))
    for row, method in enumerate(methods):
        report(f"routing holdout rows by {method.name}")
        truth, embedding = (labeled, labeled.mean_embedding_cost) if method.uses_embeddings else (plain, 0.0)
        for at, budget in enumerate(budgets.tolist()):
            choice = method.choose((budget - embedding) * n)
            outcome = RoutingOutcome.from_choice(choice, truth, embeds=method.uses_embeddings)
            accuracies[row, at], usage[row, at] = outcome.accuracy, outcome.usage
            costs[row, at], offsets[row, at] = outcome.cost, outcome.cost_offset
            errors[row, at] = outcome.offset_error if method.name == "batch" else outcome.cost_error
            if method.values is not None:
                estimated = method.values[np.arange(n), choice]
                estimates[row, at] = estimated.mean()
                above = estimated - truth.right[np.arange(n), choice]
                off[row, at], estimate_errors[row, at] = (
                    measure_optimism(choice, above, m),
                    standard_error_of_mean(above, truth.items),
                )
    names = tuple(method.name for method in methods)
    return MeasuredCurve(names, budgets, estimates, accuracies, costs, offsets, errors, usage, off, estimate_errors)
