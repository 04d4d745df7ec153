"""From a trace to a plan whose estimator is learned: every row is learned from, and every row reports."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from models import Trace
from models.arrays import Floats, Int64s
from models.portfolio import PortfolioOptions
from models.savings import Savings
from solvers.base import Fitted, Run, part_of
from solvers.item_splits import effective_rows
from solvers.portfolio.baselines import Choose, by_values, single_best, uniform_values
from solvers.portfolio.cost_regression import ExpectedCosts
from solvers.portfolio.curve import Drawn, Method, curve_budgets, draw_curve
from solvers.portfolio.learned.contents import fields_of
from solvers.portfolio.learned.cross_fit import BASELINE, FOLDS, CrossFitted, cross_fit
from solvers.portfolio.learned.estimator import LearnedEstimator
from solvers.portfolio.plan import PortfolioPlan
from solvers.portfolio.query_costs import costs_of, functions_of, resources_of
from solvers.portfolio.routing_outcome import Known
from solvers.portfolio.shadow_prices import ShadowPrices, lots_of
from solvers.portfolio.summary import summarize_learned
from solvers.portfolio.table import Table, embedder_of, planned
from solvers.portfolio.tuning import sigmas_of
from solvers.savings import BaselineReplays, Replay, SettingReplay, measure_best_savings, split_in_halves
from solvers.trace_baselines import most_accurate, trace_baselines

STEPS = FOLDS + 4


def fit_learned(
    dataset: Trace, options: PortfolioOptions, table: Table, rng: np.random.Generator, run: Run
) -> Fitted[PortfolioPlan]:
    """Build a portfolio whose estimator is a mixture of regressions.

    Regressions are cross-fitted (``cross_fit``), so all rows report, none of which its estimator has seen or chosen
    anything by; what is kept has learned from all of them. The summary: as of ``fit``, with weights instead of samples.
    """
    known = table.known(table.build, embeds=True)

    def report(done: int, message: str) -> None:
        run.progress(done, STEPS, message)

    crossed = cross_fit(known, rng, report)
    costs = ExpectedCosts.cross_fit(known.vectors, known.costs, known.means, crossed.fold, known.items)
    known, plain = (planned(dataset, table, table.build, costs.of_rows, embeds=embeds) for embeds in (True, False))
    report(FOLDS + 1, "pricing budgets")
    lam = 0.0 if options.regularization == "auto" else options.regularization
    sigmas = sigmas_of(crossed.values, known.right)
    values = crossed.mixture.apply(crossed.estimates) - lam * sigmas
    prices = ShadowPrices.kept(values, known.plan_costs, known.costs, options.confidence)
    by_fold = _Folds(crossed, lam * sigmas, known, options.confidence)
    report(FOLDS + 2, "comparing on rows that chose nothing")
    part = part_of(run.progress, FOLDS + 2, FOLDS + 3, STEPS)
    drawn = _drawn(table, crossed, by_fold, (known, plain), rng, options.curve_points, part)
    report(FOLDS + 3, "learning from all rows")
    learned = LearnedEstimator.fit(known.vectors, known.right, crossed.mixture, rng)
    plan = _plan(
        dataset,
        options,
        table,
        known,
        drawn,
        prices,
        lam,
        sigmas,
        {**fields_of(learned), **costs_of(costs.regression)},
    )
    savings = _worth(dataset, embedder_of(dataset, options), by_fold, known, drawn.budgets, rng)
    report(STEPS, "done")
    return Fitted(plan, summarize_learned(plan, table.losers, (table.accuracies, table.means)), savings)


class _Folds:
    """How each fold's rows are routed: by prices that the others have taught."""

    def __init__(self, crossed: CrossFitted, penalties: Floats, known: Known, confidence: float) -> None:
        self.rows = [np.flatnonzero(crossed.fold == part) for part in range(FOLDS)]
        self.estimates, self.known, self.lots = crossed.values, known, lots_of(known.vectors)
        self.values, self.prices = self.estimates - penalties, []
        for part, mixture in enumerate(crossed.of_folds):
            others = np.flatnonzero(crossed.fold != part)
            values = mixture.apply({kind: each[others] for kind, each in crossed.estimates.items()}) - penalties
            self.prices.append(ShadowPrices.kept(values, self._of(others), known.costs[others], confidence))

    def _of(self, rows: Int64s) -> Floats:
        """Give what to plan with for some rows."""
        return self.known.means if self.known.planned is None else self.known.planned[rows]

    def route(self, total: float) -> Any:
        """Route each row on its own, given the budget of all."""
        choice = np.empty(len(self.values), dtype=np.int64)
        for rows, prices in zip(self.rows, self.prices, strict=True):
            budget = total / len(self.values)
            choice[rows] = prices.choose_each(self.values[rows], self._of(rows), budget, self.lots[rows])
        return choice

    def assign(self, values: Floats) -> Choose:
        """Assign each fold's rows as a batch of their own: what to call with the budget of all."""
        batches = [by_values(values[rows], self._of(rows)) for rows in self.rows]

        def choose(total: float) -> Any:
            choice = np.empty(len(values), dtype=np.int64)
            for rows, batch in zip(self.rows, batches, strict=True):
                choice[rows] = batch(total * len(rows) / len(values))
            return choice

        return choose


def _drawn(
    table: Table,
    crossed: CrossFitted,
    by_fold: _Folds,
    rows: tuple[Known, Known],
    rng: np.random.Generator,
    points: int,
    progress: Callable[[int, int, str], None],
) -> Drawn:
    """Let the portfolio and its baselines route all rows."""
    known, plain = rows
    n, m = known.right.shape
    forests = crossed.estimates[BASELINE]
    best = single_best(table.accuracies, plain.means, n)
    methods = (
        Method("batch", by_fold.assign(by_fold.values), by_fold.estimates, True),
        Method("route", by_fold.route, by_fold.estimates, True),
        Method("single_best", best, np.tile(table.accuracies, (n, 1)), False),
        Method("random", by_values(uniform_values(rng, n, m), plain.means), None, False),
        Method("frugal_mct", by_fold.assign(forests), forests, True),
        Method("oracle", by_values(plain.right, plain.means), plain.right, False),
    )
    return draw_curve(methods, curve_budgets(known, plain, points), known, plain, lambda said: progress(0, 1, said))


def _worth(
    dataset: Trace, embedder: int | None, by_fold: _Folds, known: Known, budgets: Floats, rng: np.random.Generator
) -> Savings:
    """Choose a budget by one half of the rows, and hold single routing at it against each classifier on the other."""
    n, points = len(known), {}
    for budget in budgets.tolist():
        choice = by_fold.route((budget - known.embedding_mean) * n)
        rows = np.arange(n)
        paid = known.costs[rows, choice] + known.embedding_costs
        points[f"a budget of {budget:.4g} {dataset.spec.unit} an item"] = SettingReplay(
            {"budget": budget}, Replay(known.right[rows, choice], paid)
        )
    parts = split_in_halves(dataset.item_codes, rng)
    baselines = trace_baselines(dataset, parts[0], embedder)
    alternatives = BaselineReplays.from_replays(
        baselines, dataset.item_codes, most_accurate(dataset, parts[0]), dataset.spec.unit
    )
    return measure_best_savings(points, alternatives, parts, rng)


def _plan(
    dataset: Trace,
    options: PortfolioOptions,
    table: Table,
    known: Known,
    drawn: Drawn,
    prices: ShadowPrices,
    lam: float,
    sigmas: Floats,
    learned: dict[str, Any],
) -> PortfolioPlan:
    powers, coefficients = functions_of(dataset, table.names, known.means)
    return PortfolioPlan(
        classifiers=table.names,
        unit=dataset.spec.unit,
        feature_classifier=options.feature_classifier,
        embedding_cost=known.embedding_mean,
        dearest=float(table.means.max()),
        costs=known.means,
        **_no_samples(known),
        sigmas=sigmas,
        regularization=lam,
        price_budgets=prices.budgets,
        prices=prices.prices,
        price_shares=prices.shares,
        cost_powers=powers,
        cost_coefficients=coefficients,
        methods=drawn.methods,
        held_out=len(known),
        independence=effective_rows(known.items) / len(known),
        **drawn.fields,
        **resources_of(dataset, table.names),
        **learned,
    )


def _no_samples(known: Known) -> dict[str, Any]:
    """Give the fields of a plan that keep samples: one item, at the origin, for there are none."""
    d = known.vectors.shape[1]
    return {
        "low": np.zeros(d),
        "span": np.ones(d),
        "items": np.zeros((1, d), dtype=np.float32),
        "success": known.right.mean(axis=0, keepdims=True).astype(np.float32),
        "samples": np.zeros((1, 1), dtype=np.int32),
    }


def whole(table: Table) -> Table:
    """Take all rows of a table for building."""
    rows = np.arange(len(table.right))
    accuracies, means = table.right.mean(axis=0), table.costs.mean(axis=0)
    return replace(table, build=rows, accuracies=accuracies, means=means)
