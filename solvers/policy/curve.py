"""The points of the trade-off curve: bounds on their costs, and what choosing them makes of their errors.

A point is on the curve because it looks better than others on the rows that measured all of them, and so it looks
better than it is. Therefore the curve is chosen again without each part of the rows in turn, and judged at the same
budgets on that part, which chose nothing (Stone, *Cross-validatory choice and assessment of statistical predictions*,
1974).
"""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from models.arrays import Bools, Floats, Int64s
from solvers.budget_mixture import Mixture, lower_hull
from solvers.statistics import standard_error_of_mean


@dataclass(frozen=True, slots=True, eq=False)
class PointMeasurements:
    """What rows met under each trade-off, stopping at once the last. errors, costs: (L, n); items:
    (n,) equal for rows of one item; None: no item repeats."""

    errors: Floats
    costs: Floats
    items: Int64s | None = None

    def bounds_and_errors(self, rows: Bools | slice, confidence: float) -> tuple[Floats, Floats]:
        """Tell the bounds on costs and the errors that some rows choose points by: (L,) each."""
        items = None if self.items is None else self.items[rows]
        return bound_costs(self.costs[:, rows], confidence, items), self.errors[:, rows].mean(axis=1)


def bound_costs(costs: Floats, confidence: float, items: Int64s | None = None) -> Floats:
    """Bound the expected cost under each trade-off from what n rows cost, (L, n): their mean and, by the normal
    approximation, as many standard errors as the confidence asks for.

    >>> bound_costs(np.array([[1.0, 1.0], [0.0, 2.0]]), 0.5).tolist()
    [1.0, 1.0]
    """
    return np.asarray(costs.mean(axis=1) + NormalDist().inv_cdf(confidence) * standard_error_of_mean(costs, items))


def selection_rows(folds: Int64s) -> Bools:
    """Tell which rows, (n,), of the first half of the parts, choose the point for who asks for an accuracy; the others
    report."""
    return folds < (int(folds.max()) + 1) // 2


def cross_validate_errors(measured: PointMeasurements, folds: Int64s, budgets: Floats, confidence: float) -> Floats:
    """Say how often rows are answered wrongly at budgets, (B,), under curves that the other parts of the rows choose:
    (B, 2) of ``choosing_rows`` and of the others.

    folds: (n,) the part of each row. O(k (L n + L log L) + B n).
    """
    errors = np.empty((len(budgets), len(folds)))
    for part in np.unique(folds).tolist():
        rest, own = folds != part, folds == part
        bounds, chosen_by = measured.bounds_and_errors(rest, confidence)
        hull = lower_hull(bounds, chosen_by)
        for at, budget in enumerate(budgets.tolist()):
            mixture = Mixture.of(bounds[hull], max(budget, float(bounds[hull[0]])))  # these rows' first may cost more
            first, second = (measured.errors[hull[place], own] for place in (mixture.first, mixture.second))
            errors[at, own] = first + mixture.share * (second - first)
    choosing = selection_rows(folds)
    return np.column_stack((errors[:, choosing].mean(axis=1), errors[:, ~choosing].mean(axis=1)))
