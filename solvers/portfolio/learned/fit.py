"""Fit a portfolio with a learned estimator, cross-fitted so that all rows are holdout rows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from models import Trace
from models.arrays import Floats, Int64s
from models.portfolio import PortfolioOptions
from models.savings import Savings
from solvers.base import BuildContext, FitResult, scale_progress
from solvers.item_splits import effective_rows
from solvers.portfolio.baselines import (
    BudgetRouter,
    draw_uniform_values,
    make_assignment_router,
    make_single_best_router,
)
from solvers.portfolio.cost_regression import ExpectedCosts
from solvers.portfolio.curve import CurveMethod, MeasuredCurve, list_budgets, measure_curve
from solvers.portfolio.learned.contents import make_fields
from solvers.portfolio.learned.cross_fit import BASELINE_KIND, FOLDS, CrossFit, cross_fit
from solvers.portfolio.learned.estimator import LearnedEstimator
from solvers.portfolio.learned.refit_error import RefitErrorCurve
from solvers.portfolio.plan import PortfolioPlan
from solvers.portfolio.query_costs import list_cost_functions, make_cost_fields, make_resource_fields
from solvers.portfolio.routing_outcome import LabeledItems
from solvers.portfolio.shadow_prices import ErrorFunction, ShadowPrices, draw_tie_breaks, ignore_error
from solvers.portfolio.summary import summarize_learned
from solvers.portfolio.trace_split import TraceSplit, find_embedder, take_planned_rows
from solvers.portfolio.tuning import compute_sigmas
from solvers.savings import BaselineReplays, Replay, SettingReplay, measure_best_savings, split_in_halves
from solvers.shared_setup import measure_setup
from solvers.statistics import mean_accuracy
from solvers.trace_baselines import find_current_baseline, replay_trace_baselines

STEPS = FOLDS + 4


def fit_regression_portfolio(
    dataset: Trace, options: PortfolioOptions, table: TraceSplit, rng: np.random.Generator, run: BuildContext
) -> FitResult[PortfolioPlan]:
    """Fit a portfolio whose estimator is a mixture of regressions.

    Regressions are cross-fitted (``cross_fit``), so no row is evaluated by an estimator or by shadow prices that were
    fitted to this row. The stored estimator is fitted to all rows. The summary has the same fields as that of ``fit``,
    but weights instead of samples.
    """
    known = table.take_rows(table.build, embeds=True)

    def report(done: int, message: str) -> None:
        run.progress(done, STEPS, message)

    crossed = cross_fit(known, rng, report)
    costs = ExpectedCosts.cross_fit(known.vectors, known.cost_targets, known.means, crossed.fold, known.items)
    known, plain = (
        take_planned_rows(dataset, table, table.build, costs.row_costs, embeds=embeds) for embeds in (True, False)
    )
    report(FOLDS + 1, "pricing budgets")
    lam = 0.0 if options.regularization == "auto" else options.regularization
    sigmas = compute_sigmas(crossed.out_of_fold_estimates, known.right)
    values = crossed.mixture.apply(crossed.estimates) - lam * sigmas
    by_fold = _Folds.from_cross_fit(crossed, lam * sigmas, known, options.confidence)
    prices = ShadowPrices.with_confidence(
        values, known.plan_costs, known.costs, options.confidence, by_fold.refit_error.interpolate_errors
    )
    report(FOLDS + 2, "measuring on holdout rows")
    part = scale_progress(run.progress, FOLDS + 2, FOLDS + 3, STEPS)
    measured = _measure_curve(table, crossed, by_fold, (known, plain), rng, options.curve_points, part)
    report(FOLDS + 3, "fitting to all rows")
    learned = LearnedEstimator.fit(known.vectors, known.targets, crossed.mixture, rng)
    plan = _make_plan(
        dataset,
        options,
        table,
        known,
        measured,
        prices,
        lam,
        sigmas,
        {**make_fields(learned), **make_cost_fields(costs.regression)},
    )
    savings = _measure_savings(dataset, find_embedder(dataset, options), by_fold, known, measured.budgets, rng)
    report(STEPS, "done")
    return FitResult(plan, summarize_learned(plan, table.dominated, (table.accuracies, table.means)), savings)


@dataclass(frozen=True, slots=True, eq=False)
class _Folds:
    """Routes each fold's rows by shadow prices of the other folds.

    Attributes:
        rows: rows of each fold.
        estimates, values: (n, m), out-of-fold estimates, without and with penalties subtracted.
        known: outcomes and costs of the rows.
        tie_breaks: (n,).
        prices: shadow prices for each fold, fitted to the other folds.
        refit_error: error of mean costs that depends on the rows to which estimators are fitted.
    """

    rows: tuple[Int64s, ...]
    estimates: Floats
    values: Floats
    known: LabeledItems
    tie_breaks: Floats
    prices: tuple[ShadowPrices, ...]
    refit_error: RefitErrorCurve

    @classmethod
    def from_cross_fit(cls, crossed: CrossFit, penalties: Floats, labeled: LabeledItems, confidence: float) -> "_Folds":
        """Compute the shadow prices for each fold on the rows of the other folds."""
        tie_breaks, estimates = draw_tie_breaks(labeled.vectors), crossed.out_of_fold_estimates
        compared, own_values = crossed.compared_rows, list[Floats]()
        others = [np.flatnonzero(crossed.fold != part) for part in range(FOLDS)]
        for rows, mixture in zip(others, crossed.fold_mixtures, strict=True):
            own_values.append(mixture.apply({kind: each[rows] for kind, each in crossed.estimates.items()}) - penalties)

        def price_budgets(confidence: float, refit_error: ErrorFunction) -> tuple[ShadowPrices, ...]:
            return tuple(
                ShadowPrices.with_confidence(
                    values, _take_costs(labeled, rows), labeled.costs[rows], confidence, refit_error
                )
                for values, rows in zip(own_values, others, strict=True)
            )

        routed = zip(crossed.fold_mixtures, crossed.compared_estimates, strict=True)
        refit_error = RefitErrorCurve.from_folds(
            [mixture.apply(each) - penalties for mixture, each in routed],
            price_budgets(0.5, ignore_error),
            _take_costs(labeled, compared),
            tie_breaks[compared],
        )
        own_rows = tuple(np.flatnonzero(crossed.fold == part) for part in range(FOLDS))
        prices = price_budgets(confidence, refit_error.interpolate_errors)
        return cls(own_rows, estimates, estimates - penalties, labeled, tie_breaks, prices, refit_error)

    def route(self, total: float) -> Any:
        """Route each row separately, given the total budget."""
        choice = np.empty(len(self.values), dtype=np.int64)
        for rows, prices in zip(self.rows, self.prices, strict=True):
            budget = total / len(self.values)
            choice[rows] = prices.choose_each(
                self.values[rows], _take_costs(self.known, rows), budget, self.tie_breaks[rows]
            )
        return choice

    def assign(self, values: Floats) -> BudgetRouter:
        """Return a router that assigns each fold's rows as a batch within the total budget."""
        batches = [make_assignment_router(values[rows], _take_costs(self.known, rows)) for rows in self.rows]

        def choose(total: float) -> Any:
            choice = np.empty(len(values), dtype=np.int64)
            for rows, batch in zip(self.rows, batches, strict=True):
                choice[rows] = batch(total * len(rows) / len(values))
            return choice

        return choose


def _take_costs(labeled: LabeledItems, rows: Int64s) -> Floats:
    """Return the planned costs of some rows, (m,) or (r, m)."""
    return labeled.means if labeled.planned is None else labeled.planned[rows]


def _measure_curve(
    table: TraceSplit,
    crossed: CrossFit,
    by_fold: _Folds,
    rows: tuple[LabeledItems, LabeledItems],
    rng: np.random.Generator,
    points: int,
    progress: Callable[[int, int, str], None],
) -> MeasuredCurve:
    """Measure the curve of the portfolio and its baselines on all rows."""
    known, plain = rows
    n, m = known.right.shape
    forests = crossed.estimates[BASELINE_KIND]
    best = make_single_best_router(table.accuracies, plain.means, n)
    methods = [
        CurveMethod("batch", by_fold.assign(by_fold.values), by_fold.estimates, True),
        CurveMethod("route", by_fold.route, by_fold.estimates, True),
        CurveMethod("single_best", best, np.tile(table.accuracies, (n, 1)), False),
        CurveMethod("random", make_assignment_router(draw_uniform_values(rng, n, m), plain.means), None, False),
        CurveMethod("frugal_mct", by_fold.assign(forests), forests, True),
    ]
    if known.observed is None:  # an oracle needs all outcomes of each row
        methods.append(CurveMethod("oracle", make_assignment_router(plain.right, plain.means), plain.right, False))
    budgets = list_budgets(known, plain, points)
    measured = measure_curve(tuple(methods), budgets, known, plain, lambda message: progress(0, 1, message))
    errors = measured.cost_errors.copy()
    errors[1] = np.hypot(errors[1], by_fold.refit_error.interpolate_errors(budgets - known.mean_embedding_cost))
    return replace(measured, cost_errors=errors)


def _measure_savings(
    dataset: Trace,
    embedder: int | None,
    by_fold: _Folds,
    labeled: LabeledItems,
    budgets: Floats,
    rng: np.random.Generator,
) -> Savings:
    """Choose a budget on one half of the rows, and measure savings on the other half."""
    n, points = len(labeled), {}
    errors = by_fold.refit_error.interpolate_errors(budgets - labeled.mean_embedding_cost)
    for budget, error in zip(budgets.tolist(), errors.tolist(), strict=True):
        choice = by_fold.route((budget - labeled.mean_embedding_cost) * n)
        rows = np.arange(n)
        paid = labeled.costs[rows, choice] + labeled.embedding_costs
        points[f"a budget of {budget:.4g} {dataset.spec.unit} per item"] = SettingReplay(
            {"budget": budget},
            Replay(labeled.right[rows, choice], paid),
            error,
        )
    parts = split_in_halves(dataset.item_codes, rng)
    baselines = replay_trace_baselines(dataset, parts[0], embedder)
    alternatives = BaselineReplays.from_replays(
        baselines,
        dataset.item_codes,
        find_current_baseline(baselines, dataset, parts[0]),
        dataset.spec.unit,
        dataset.loss_scale,
    )
    return measure_best_savings(points, alternatives, parts, rng)


def _make_plan(
    dataset: Trace,
    options: PortfolioOptions,
    table: TraceSplit,
    labeled: LabeledItems,
    measured: MeasuredCurve,
    prices: ShadowPrices,
    lam: float,
    sigmas: Floats,
    learned: dict[str, Any],
) -> PortfolioPlan:
    powers, coefficients = list_cost_functions(dataset, table.names, labeled.means, options.feature_classifier)
    return PortfolioPlan(
        classifiers=table.names,
        unit=dataset.spec.unit,
        feature_classifier=options.feature_classifier,
        embedding_cost=labeled.mean_embedding_cost,
        highest_cost=float(table.means.max()),
        costs=labeled.means,
        **_make_empty_samples(labeled),
        sigmas=sigmas,
        regularization=lam,
        price_budgets=prices.budgets,
        prices=prices.prices,
        price_shares=prices.shares,
        cost_powers=powers,
        cost_coefficients=coefficients,
        methods=measured.methods,
        held_out=len(labeled),
        independence=effective_rows(labeled.items) / len(labeled) * _share_of_information(labeled),
        **measured.plan_fields,
        **make_resource_fields(dataset, table.names),
        **measure_setup(dataset),
        **learned,
    )


def _share_of_information(labeled: LabeledItems) -> float:
    """Return how many complete rows are as informative about accuracies as one partial row.

    A complete row has all outcomes; a partial row is of a partial trace. The classifier with the fewest effective calls
    determines the number.
    """
    if labeled.observed is None:
        return 1.0
    accuracies = mean_accuracy(labeled.right)
    shares = accuracies * (1 - accuracies) / np.maximum(labeled.right.var(axis=0), 1e-12)
    return float(np.clip(shares.min(), 1 / len(labeled), 1.0))


def _make_empty_samples(labeled: LabeledItems) -> dict[str, Any]:
    """Return the sample fields of a plan without samples: one item, at the origin."""
    d = labeled.vectors.shape[1]
    return {
        "low": np.zeros(d),
        "span": np.ones(d),
        "items": np.zeros((1, d), dtype=np.float32),
        "success": labeled.right.mean(axis=0, keepdims=True).astype(np.float32),
        "samples": np.zeros((1, 1), dtype=np.int32),
    }


def use_all_rows(table: TraceSplit) -> TraceSplit:
    """Return the split with all rows as build rows."""
    rows = np.arange(len(table.right))
    accuracies, means = mean_accuracy(table.right), table.costs.mean(axis=0)
    return replace(table, build=rows, accuracies=accuracies, means=means)
