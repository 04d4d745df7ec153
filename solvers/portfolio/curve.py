"""Accuracy against budget on held-out items, for the portfolio and what it is compared with (OCCAM, Section 5.2).

==============  ============================================================================
method          how it chooses
==============  ============================================================================
``batch``       the programme over the whole batch, by the estimates less λ times sigma
``route``       each item on its own, by the shadow price of the budget
``single_best``, ``random``, ``frugal_mct``, ``oracle``  see ``baselines``
==============  ============================================================================

``batch``, ``route`` and ``frugal_mct`` need the embeddings, so these are taken off their budget.
"""

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import Any

import numpy as np

from models.arrays import Floats, Int64s
from solvers.portfolio.baselines import BudgetRouter, draw_uniform_values, route_by_values, route_to_single_best
from solvers.portfolio.routing_outcome import KnownItems, RoutingOutcome
from solvers.statistics import standard_error_of_mean

PRIOR_ITEMS = 30.0
"""As many items as this are as good a reason to think that a classifier's estimates are off like those of all."""


@dataclass(frozen=True, slots=True, eq=False)
class CurveMethod:
    """How a method chooses. values: (n, m) its estimates, None if it has none; embeds: whether it needs embeddings."""

    name: str
    choose: BudgetRouter
    values: Floats | None
    uses_embeddings: bool


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredCurve:
    """The curve: methods, budgets (p,) of a query, and estimates, accuracies, costs, what these are beyond those
    planned with, and the standard errors of that, (q, p), usage (q, p, m); too_high: (q, p, m) by how much the
    estimates of classifiers are when these are chosen; estimate_errors: (q, p) the standard errors of that for all."""

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
        """Name them as a plan does."""
        return {
            f"curve_{each.name}": getattr(self, each.name) for each in dataclass_fields(self) if each.name != "methods"
        }


def list_methods(
    estimates: Floats,
    values: Floats,
    route: BudgetRouter,
    known: KnownItems,
    plain: KnownItems,
    accuracies: Floats,
    forests: Floats,
    rng: np.random.Generator,
) -> tuple[CurveMethod, ...]:
    """Put the methods together.

    estimates: (n, m) of the held-out items; values: (n, m) the same less λ times sigma; route: the choice of each item
    on its own; known, plain: the items with the feature classifier's answers free, and with all costs as they are;
    accuracies: (m,) on the build half; forests: (n, m) what the forests predict.
    """
    n, m = estimates.shape
    chance = draw_uniform_values(rng, n, m)
    return (
        CurveMethod("batch", route_by_values(values, known.plan_costs), estimates, True),
        CurveMethod("route", route, estimates, True),
        CurveMethod(
            "single_best", route_to_single_best(accuracies, plain.means, n), np.tile(accuracies, (n, 1)), False
        ),
        CurveMethod("random", route_by_values(chance, plain.means), None, False),
        CurveMethod("frugal_mct", route_by_values(forests, known.plan_costs), forests, True),
        CurveMethod("oracle", route_by_values(plain.right, plain.means), plain.right, False),
    )


def list_budgets(known: KnownItems, plain: KnownItems, points: int) -> Floats:
    """List budgets of a query: from the least that the portfolio can cost to the dearest classifier's cost.

    The lower they are the closer they lie: there accuracy rises fastest, and so does what estimates are too high by, of
    which a line from one budget to the next has to tell.
    """
    low = known.embedding_mean + float(known.means.min())
    high = max(float(plain.means.max()), low)
    return np.unique(low + (high - low) * np.linspace(0, 1, points) ** 2)


def measure_optimism(choice: Int64s, off: Floats, classifiers: int) -> Floats:
    """Say how far the estimates of each classifier are too high when it is chosen: (m,) from (n,) choices, and by how
    much the estimate of each was above the truth.

    Those of few items are pulled to the mean of all; weighed by how often each was chosen, they are that mean.

    >>> measure_optimism(np.array([0, 0, 1]), np.array([0.5, 0.5, -0.4]), 3).round(2).tolist()
    [0.21, 0.17, 0.19]
    """
    counts = np.bincount(choice, minlength=classifiers)
    pulled = (np.bincount(choice, off, minlength=classifiers) + PRIOR_ITEMS * off.mean()) / (counts + PRIOR_ITEMS)
    return np.asarray(pulled + off.mean() - (pulled @ counts) / len(choice))


def measure_curve(
    methods: tuple[CurveMethod, ...],
    budgets: Floats,
    known: KnownItems,
    plain: KnownItems,
    report: Callable[[str], None] = lambda message: None,
) -> MeasuredCurve:
    """Let every method route the held-out items at every budget; ``report`` hears which one does."""
    n, m = known.right.shape
    shape = len(methods), len(budgets)
    estimates, accuracies = np.full(shape, np.nan), np.empty(shape)
    costs, offsets, errors, estimate_errors = np.empty(shape), np.empty(shape), np.empty(shape), np.zeros(shape)
    usage, off = np.empty((*shape, m), dtype=np.int64), np.zeros((*shape, m))
    for row, method in enumerate(methods):
        report(f"routing held-out items by {method.name}")
        truth, embedding = (known, known.embedding_mean) if method.uses_embeddings else (plain, 0.0)
        for at, budget in enumerate(budgets.tolist()):
            choice = method.choose((budget - embedding) * n)
            outcome = RoutingOutcome.from_choice(choice, truth, embeds=method.uses_embeddings)
            accuracies[row, at], usage[row, at] = outcome.accuracy, outcome.usage
            costs[row, at], offsets[row, at], errors[row, at] = outcome.cost, outcome.cost_offset, outcome.cost_error
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
