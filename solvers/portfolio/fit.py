"""Fit a portfolio to a trace with embeddings: samples, sigma, λ, shadow prices, and evaluation on holdout rows.

Rows are split at random: one half for the build, one quarter for validation, one quarter for holdout. Samples are drawn
from the build rows.

1. Samples are chosen by comparing them on validation rows (``samples``, ``tuning``).
2. sigma and λ are also estimated on validation rows. Then shadow prices over budgets are computed (``shadow_prices``).
3. The curve measures every method at every budget on holdout rows (``curve``).
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from models import DatasetFacts, Fault, InvalidRequest, Trace
from models.arrays import Floats, Int64s, Singles
from models.portfolio import PortfolioOptions, Samples
from solvers.base import BuildContext, FitResult, require_min_items
from solvers.chat_rules import check_tool_rule
from solvers.item_splits import assign_group_folds, effective_rows
from solvers.portfolio.baselines import predict_by_forests
from solvers.portfolio.contents import MAX_NUMBERS
from solvers.portfolio.cost_regression import CostRegression, ExpectedCosts
from solvers.portfolio.curve import MeasuredCurve, list_budgets, list_methods, measure_curve
from solvers.portfolio.learned.fit import fit_regression_portfolio, use_all_rows
from solvers.portfolio.neighbors.samples import check_sample_size
from solvers.portfolio.plan import PortfolioPlan
from solvers.portfolio.query_costs import list_cost_functions, make_cost_fields, make_resource_fields
from solvers.portfolio.routing_outcome import LabeledItems
from solvers.portfolio.savings import measure_portfolio_savings
from solvers.portfolio.shadow_prices import ShadowPrices
from solvers.portfolio.success_estimator import EmbeddingScaling, NeighborEstimator
from solvers.portfolio.summary import summarize
from solvers.portfolio.trace_split import TraceSplit, find_embedder, split_trace, take_planned_rows
from solvers.portfolio.tuning import TuningData, TuningResult, tune
from solvers.shared_setup import measure_setup

MIN_ROWS = 40
"""Minimum number of rows of a trace: twenty to sample from, ten to validate, ten to hold out."""
STEPS = 5
FOLDS = 5
"""Cross-validation folds of the cost regression."""


def fit(
    dataset: Trace, options: PortfolioOptions, rng: np.random.Generator, run: BuildContext
) -> FitResult[PortfolioPlan]:
    """Fit a portfolio to a trace with embeddings; learned estimators use ``learned.fit``.

    A classifier's planned cost is its mean cost on build rows. The summary has the unit, the rows of each part, and the
    classifiers with accuracy, cost, and sigma. It also has dominated classifiers, tried samples with distances and
    errors (OCCAM, Appendices A.2, A.3), all values of λ, and holdout results.

    Raises:
        InvalidRequest: no embeddings, fewer than 40 rows, too few items for the samples, or an unknown feature
            classifier.
    """
    check_options(DatasetFacts.from_dataset(dataset), options)
    dataset = dataset.with_reject()
    run.progress(0, STEPS, "splitting the trace")
    table = split_trace(dataset, options, rng)
    if not options.takes_samples:
        return fit_regression_portfolio(dataset, options, use_all_rows(table), rng, run)
    scaling = EmbeddingScaling.from_vectors(table.vectors[table.build])
    items = scaling.apply(table.vectors[table.build])
    known = table.take_rows(table.build, embeds=True)
    folds = assign_group_folds(known.items, FOLDS, rng)
    regression = ExpectedCosts.cross_fit(known.vectors, known.costs, known.means, folds, known.items).regression

    def expected(rows: Int64s) -> Floats | None:
        return None if regression is None else regression.predict(table.vectors[rows])

    validation = take_planned_rows(dataset, table, table.validation, expected(table.validation), embeds=True)
    examples = TuningData(items, table.success.astype(np.float32), scaling.apply(validation.vectors), validation)
    tuned = tune(examples, options, rng, lambda message: run.progress(1, STEPS, message))
    run.progress(2, STEPS, "pricing budgets")
    prices = ShadowPrices.from_values(tuned.estimates - tuned.penalties, validation.plan_costs)
    estimator = NeighborEstimator.from_items(scaling, items, examples.success, tuned.samples)
    run.progress(3, STEPS, "measuring on holdout rows")
    held_out, plain = (
        take_planned_rows(dataset, table, table.held_out, expected(table.held_out), embeds=embeds)
        for embeds in (True, False)
    )
    estimates = estimator.estimate(held_out.vectors)
    report = partial(run.progress, 3, STEPS)
    measured = _measure_curve(
        table, items, estimator, (held_out, plain), estimates, tuned, prices, rng, options.curve_points, report
    )
    run.progress(4, STEPS, "assembling the plan")
    plan = _make_plan(dataset, options, table, estimator, items, tuned, prices, measured, regression)
    savings = measure_portfolio_savings(
        dataset,
        prices,
        measured.budgets,
        (table.validation, validation, tuned.estimates - tuned.penalties),
        (table.held_out, held_out, estimates - tuned.penalties),
        table.build,
        find_embedder(dataset, options),
        rng,
    )
    run.progress(STEPS, STEPS, "done")
    summary = summarize(plan, tuned, table.dominated, (table.accuracies, table.means), _count_rows(table))
    return FitResult(plan, summary, savings)


def check_options(facts: DatasetFacts, options: PortfolioOptions) -> None:
    """Raise InvalidRequest for unsuitable traces or options.

    A trace must have enough rows and embeddings, and options must fit the trace.
    """
    if facts.embedding_dimensions == 0:
        fault = "must have embeddings: upload an .npy array with one row for each row of the table"
        raise InvalidRequest.from_faults(Fault(("dataset",), fault))
    require_min_items(facts, MIN_ROWS, "a portfolio")
    check_tool_rule(facts, options)
    names = facts.classifiers
    if options.feature_classifier is not None and options.feature_classifier not in names:
        fault = f"classifier {options.feature_classifier!r} not found; available: {', '.join(names)}"
        raise InvalidRequest.from_faults(Fault(("feature_classifier",), fault))
    if not options.takes_samples:
        return
    if facts.complete_rows is not None:
        fault = "must be auto for a dataset in which not every classifier was called for each row, got samples or occam"
        raise InvalidRequest.from_faults(Fault(("estimator",), fault))
    if isinstance(options.samples, Samples):
        check_sample_size(facts.rows // 2, options.samples.count, options.samples.size, options.sampling)
    _check_memory(options, facts.embedding_dimensions)


def _check_memory(options: PortfolioOptions, dimensions: int) -> None:
    """Raise InvalidRequest for samples that do not fit in memory."""
    given = options.samples
    most = options.max_items if isinstance(given, str) else given.count * given.size
    if most * dimensions > MAX_NUMBERS:
        fault = f"must be at most {MAX_NUMBERS} numbers, got {most} items of {dimensions} dimensions"
        raise InvalidRequest.from_faults(Fault(("max_items" if isinstance(given, str) else "samples",), fault))


def _count_rows(table: TraceSplit) -> dict[str, int]:
    return {"build": len(table.build), "validation": len(table.validation), "held_out": len(table.held_out)}


def _measure_curve(
    table: TraceSplit,
    items: Singles,
    estimator: NeighborEstimator,
    rows: tuple[LabeledItems, LabeledItems],
    estimates: Floats,
    tuned: TuningResult,
    prices: ShadowPrices,
    rng: np.random.Generator,
    points: int,
    report: Callable[[str], None],
) -> MeasuredCurve:
    """Measure the curve of the portfolio and its baselines on holdout rows.

    rows: as in ``list_methods``.
    """
    known, plain = rows
    values = estimates - tuned.penalties
    vectors, seed = estimator.scaling.apply(known.vectors), int(rng.integers(2**32))
    forests = predict_by_forests(items, table.success, vectors, seed, report)
    methods = list_methods(
        estimates,
        values,
        lambda budget: prices.choose_each(values, known.plan_costs, budget / len(values)),
        known,
        plain,
        table.accuracies,
        forests,
        rng,
    )
    return measure_curve(methods, list_budgets(known, plain, points), known, plain, report)


def _make_plan(
    dataset: Trace,
    options: PortfolioOptions,
    table: TraceSplit,
    estimator: NeighborEstimator,
    items: Singles,
    tuned: TuningResult,
    prices: ShadowPrices,
    measured: MeasuredCurve,
    regression: CostRegression | None,
) -> PortfolioPlan:
    powers, coefficients = list_cost_functions(dataset, table.names, table.means, options.feature_classifier)
    return PortfolioPlan(
        classifiers=table.names,
        unit=dataset.spec.unit,
        feature_classifier=options.feature_classifier,
        embedding_cost=table.mean_embedding_cost,
        highest_cost=float(table.means.max()),
        costs=table.take_rows(table.build, embeds=True).means,
        low=estimator.scaling.low,
        span=estimator.scaling.span,
        items=items,
        success=estimator.success,
        samples=tuned.samples,
        sigmas=tuned.sigmas,
        regularization=tuned.regularization,
        price_budgets=prices.budgets,
        prices=prices.prices,
        cost_powers=powers,
        cost_coefficients=coefficients,
        methods=measured.methods,
        held_out=len(table.held_out),
        independence=effective_rows(table.items[table.held_out]) / len(table.held_out),
        **measured.plan_fields,
        **make_cost_fields(regression),
        **make_resource_fields(dataset, table.names),
        **measure_setup(dataset),
    )
