"""Cross-validation of the trade-off curve: upper bounds of costs, and unbiased errors of selected points.

Winner's curse: points of the curve are selected on the rows on which they are measured, so their measured errors are
too low. Therefore the curve is selected again without each fold in turn, and evaluated on that fold at the same
budgets.

Source: Stone, *Cross-validatory choice and assessment of statistical predictions*, 1974.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from models.arrays import Bools, Floats, Int64s
from solvers.budget_mixture import Mixture, lower_hull
from solvers.statistics import standard_error_of_mean


@dataclass(frozen=True, slots=True, eq=False)
class PointMeasurements:
    """Errors and costs of rows under each trade-off.

    Attributes:
        errors: (L, n).
        costs: (L, n).
        items: (n,) equal for rows of one item; None if no item repeats.
    """

    errors: Floats
    costs: Floats
    items: Int64s | None = None

    def take(self, points: Sequence[int]) -> "PointMeasurements":
        """Return the measurements of some of the points."""
        return PointMeasurements(self.errors[points], self.costs[points], self.items)

    def select_hull(self, rows: Bools | slice, confidence: float, fixed: int) -> tuple[Floats, list[int]]:
        """Return upper bounds of the mean costs over some rows, (L,), and the points on the lower hull of the errors.

        Args:
            fixed: number of fixed points, which are last.
        """
        items = None if self.items is None else self.items[rows]
        bounds, errors = bound_costs(self.costs[:, rows], confidence, items), self.errors[:, rows].mean(axis=1)
        distinct = select_distinct_points(bounds, errors, fixed)
        return bounds, distinct[lower_hull(bounds[distinct], errors[distinct])].tolist()


def select_distinct_points(bounds: Floats, errors: Floats, fixed: int) -> Int64s:
    """Return one of the points with equal cost and error: a fixed point, which are last, else the middle trade-off.

    At the first and last of equal trade-offs, items are close to another decision. On new items, some would take it.

    >>> bounds, errors = np.array([3.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0]), np.array([0.1, 0.2, 0.2, 0.2, 0.5, 0.5, 0.5])
    >>> select_distinct_points(bounds, errors, 2).tolist()
    [5, 2, 0]
    """
    _, group = np.unique(np.stack((bounds, errors)), axis=1, return_inverse=True)
    equal = [np.flatnonzero(group.ravel() == each) for each in range(int(group.max()) + 1)]
    first_fixed = [np.searchsorted(own, len(bounds) - fixed) for own in equal]
    return np.array(
        [own[at] if at < len(own) else own[len(own) // 2] for own, at in zip(equal, first_fixed, strict=True)]
    )


def bound_costs(costs: Floats, confidence: float, items: Int64s | None = None) -> Floats:
    """Return the upper confidence bound of the mean cost under each trade-off, (L,).

    Args:
        costs: (L, n).
        confidence: level of the bound, by the normal approximation.
        items: (n,) equal for rows of one item; None if no item repeats.

    >>> bound_costs(np.array([[1.0, 1.0], [0.0, 2.0]]), 0.5).tolist()
    [1.0, 1.0]
    """
    return np.asarray(costs.mean(axis=1) + NormalDist().inv_cdf(confidence) * standard_error_of_mean(costs, items))


def choose_selection_rows(folds: Int64s) -> Bools:
    """Return the rows that select points for a requested accuracy, (n,): the first half of the folds."""
    return folds < (int(folds.max()) + 1) // 2


def cross_validate_errors(
    measured: PointMeasurements, folds: Int64s, budgets: Floats, confidence: float, fixed: int
) -> Floats:
    """Return cross-validated error rates at budgets, (B, 2).

    The columns are the errors of ``choose_selection_rows`` and of the other rows.

    Args:
        folds: (n,), fold of each row.
        budgets: (B,).
        confidence: level of the upper bounds of costs.
        fixed: number of fixed points, which are last.
    Complexity: O(K (L n + L log L) + B n).
    """
    errors = np.empty((len(budgets), len(folds)))
    for part in np.unique(folds).tolist():
        rest, own = folds != part, folds == part
        bounds, hull = measured.select_hull(rest, confidence, fixed)
        for at, budget in enumerate(budgets.tolist()):
            # the first point may cost more on these rows
            mixture = Mixture.from_budget(bounds[hull], max(budget, float(bounds[hull[0]])))
            first, second = (measured.errors[hull[place], own] for place in (mixture.first, mixture.second))
            errors[at, own] = first + mixture.share * (second - first)
    choosing = choose_selection_rows(folds)
    return np.column_stack((errors[:, choosing].mean(axis=1), errors[:, ~choosing].mean(axis=1)))
