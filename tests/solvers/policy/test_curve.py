"""The curve's errors, as rows tell that did not choose it: against loops, and against what is true."""

import numpy as np
import pytest

from solvers.budget_mixture import Mixture, lower_hull
from solvers.policy.curve import PointMeasurements, bound_costs, choose_selection_rows, cross_validate_errors


def test_each_part_of_the_rows_judges_the_curve_that_the_others_choose() -> None:
    rng = np.random.default_rng(3)
    folds, budgets = rng.permutation(60) % 4, np.array([0.0, 0.5, 1.5, 4.0])
    best = _measured(rng, 60)
    wrong = np.empty((len(budgets), 60))
    for row in range(60):
        rest = np.flatnonzero(folds != folds[row])
        bounds = bound_costs(best.costs[:, rest], 0.9)
        hull = lower_hull(bounds, best.errors[:, rest].mean(axis=1))
        for at, budget in enumerate(budgets):
            mixture = Mixture.from_budget(bounds[hull], budget)
            first, second = best.errors[hull[mixture.first], row], best.errors[hull[mixture.second], row]
            wrong[at, row] = (1 - mixture.share) * first + mixture.share * second
    choosing = np.isin(folds, (0, 1))
    assert choose_selection_rows(folds).tolist() == choosing.tolist()
    both = np.column_stack([wrong[:, half].mean(axis=1) for half in (choosing, ~choosing)])
    assert cross_validate_errors(best, folds, budgets, 0.9, 0) == pytest.approx(both)


def test_the_best_of_points_that_are_alike_is_not_said_to_be_better_than_they_are() -> None:
    rng, said, raw = np.random.default_rng(4), [], []
    for _ in range(200):
        costs = np.vstack((np.tile(np.linspace(1, 1.1, 20)[:, None], 100), np.zeros(100)))
        errors = np.vstack((rng.random((20, 100)) < 0.3, np.ones(100)))
        measured = PointMeasurements(errors.astype(np.float64), costs)
        raw.append(errors.mean(axis=1).min())
        said.append(cross_validate_errors(measured, np.arange(100) % 5, np.array([2.0]), 0.5, 0)[0] @ (0.4, 0.6))
    assert np.mean(raw) < 0.24
    assert abs(np.mean(said) - 0.3) < 0.01


def _measured(rng: np.random.Generator, rows: int) -> PointMeasurements:
    errors = np.vstack((rng.random((5, rows)) < 0.4, rng.random(rows) < 0.7)).astype(np.float64)
    costs = np.vstack((rng.random((5, rows)) * np.arange(1, 6)[:, None], np.zeros(rows)))
    return PointMeasurements(errors, costs)
