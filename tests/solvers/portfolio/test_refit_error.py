"""Errors of mean costs by the choice of rows that estimators are fitted to, and budgets that keep to them."""

import numpy as np
import pytest

from models import Trace, TraceSpec
from models.portfolio import PortfolioOptions
from solvers.base import BuildContext, make_generator
from solvers.partial_traces import prepare_rows
from solvers.portfolio.kind import PortfolioKind
from solvers.portfolio.learned.refit_error import RefitErrorCurve
from solvers.portfolio.shadow_prices import ShadowPrices

COSTS = np.array([1.0, 3.0])
FIXED = ShadowPrices(np.array([1.0, 3.0]), np.array([0.1, 0.1]))


def split_evenly(expensive: int) -> np.ndarray:
    """Return the values of ten rows; the first ones gain most from the expensive classifier."""
    return np.column_stack((np.full(10, 0.5), np.where(np.arange(10) < expensive, 0.9, 0.6)))


def test_the_error_is_the_corrected_deviation_of_the_mean_costs_of_folds() -> None:
    values = [split_evenly(count) for count in (2, 3, 4)]  # mean costs 1.4, 1.6, 1.8
    error = RefitErrorCurve.from_folds(values, [FIXED] * 3, COSTS, np.ones(10))
    assert error.interpolate_errors(np.array([2.0, 9.0])) == pytest.approx(0.2 * np.sqrt(1 / 3 + 1 / 2))


def test_equal_folds_have_no_error() -> None:
    error = RefitErrorCurve.from_folds([split_evenly(5)] * 4, [FIXED] * 4, np.tile(COSTS, (10, 1)), np.ones(10))
    assert not error.errors.any()


def test_a_refit_error_and_measured_overruns_lower_what_a_budget_spends() -> None:
    rng = np.random.default_rng(0)
    values = np.column_stack((np.full(4000, 0.5), 0.5 + 0.4 * rng.random(4000)))
    paid = np.tile(COSTS, (4000, 1))

    def spend(measured: np.ndarray, error: float, confidence: float = 0.9) -> float:
        prices = ShadowPrices.with_confidence(values, COSTS, measured, confidence, lambda b: np.full(len(b), error))
        return float(measured[np.arange(4000), prices.choose_each(values, COSTS, 2.0)].mean())

    assert spend(paid, 0.0, 0.5) == pytest.approx(2.0, abs=0.01)
    assert spend(paid, 0.1) == pytest.approx(2.0 - 1.2816 * np.hypot(0.1, 1 / 4000**0.5), abs=0.01)
    assert spend(paid * [1.0, 1.2], 0.0, 0.5) == pytest.approx(2.0, abs=0.01)


def draw_world(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return embeddings, outcomes, and costs of three classifiers; two of them hardly differ."""
    hard = rng.random(rows)
    vectors = np.column_stack((hard, rng.normal(size=(rows, 7)))).astype(np.float32)
    chances = np.column_stack((0.95 - 0.8 * hard, 0.96 - 0.3 * hard, 0.97 - 0.25 * hard))
    right = (rng.random((rows, 3)) < chances).astype(float)
    return vectors, right, np.array([1.0, 5.0, 20.0]) * rng.gamma(4, 0.25, (rows, 1)) * (0.5 + hard[:, None])


@pytest.mark.slow
def test_costs_of_partial_logs_are_within_their_intervals_and_budgets() -> None:
    """Five logs in which long items went to the strong model more often, five budgets each."""
    inside, within = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        vectors, right, costs = draw_world(rng, 900)
        asked = (rng.random(900)[:, None] > np.cumsum(_log_shares(vectors[:, 0]), axis=1)).sum(axis=1)
        called = (np.arange(3) == asked[:, None]) | (rng.random(900) < 0.15)[:, None]
        columns = {f"q{j}": np.where(called[:, j], right[:, j], np.nan) for j in range(3)}
        columns |= {f"c{j}": np.where(called[:, j], costs[:, j], np.nan) for j in range(3)}
        own = [{"name": f"m{j}", "correct": f"q{j}", "cost": {"column": f"c{j}"}} for j in range(3)]
        spec = TraceSpec.model_validate({"kind": "trace", "unit": "USD", "classifiers": own})
        trace = prepare_rows(Trace.from_columns(spec, columns, vectors), seed, takes_partial=True)
        assert isinstance(trace, Trace)
        plan = PortfolioKind().fit(trace, PortfolioOptions(), make_generator(seed), BuildContext()).plan
        fresh, _, fresh_costs = draw_world(rng, 8000)
        route = plan.make_router(plan.estimate(fresh), fresh)
        for at in (4, 7, 10, 13, 16):
            budget, row = float(plan.curve_budgets[at]), plan.methods.index("route")
            choice = route(budget * len(fresh))
            truth = float(fresh_costs[np.arange(len(choice)), choice].mean())
            inside.append(abs(truth - plan.curve_costs[row, at]) < 1.96 * plan.curve_cost_errors[row, at])
            within.append(truth <= budget)
    assert np.mean(inside) >= 0.9
    assert np.mean(within) >= 0.8


def _log_shares(hard: np.ndarray) -> np.ndarray:
    """Return the shares of the first two of three classifiers: (n, 2)."""
    return np.column_stack((0.7 - 0.4 * hard, np.full(len(hard), 0.2)))
