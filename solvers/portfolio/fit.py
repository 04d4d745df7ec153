"""From a trace with embeddings to a plan: samples, sigma and λ, shadow prices, and the proof on items never seen.

The rows are cut at random: one half is drawn from (the build half), one quarter validates, one quarter is held out.

1. Samples are tried on the validation part, and chosen (``samples``, ``tuning``).
2. sigma and λ are estimated there too, and then the shadow prices over budgets (``shadow_prices``).
3. On the held-out part every method routes at every budget of the curve (``curve``).
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from models import DatasetFacts, Fault, InvalidRequest, Trace
from models.arrays import Floats, Int64s, Singles
from models.portfolio import PortfolioOptions, Samples
from solvers.base import Fitted, Run, refuse_few_items
from solvers.item_splits import effective_rows, fold_rows
from solvers.portfolio.baselines import forest_values
from solvers.portfolio.contents import MOST_NUMBERS
from solvers.portfolio.cost_regression import CostRegression, ExpectedCosts
from solvers.portfolio.curve import Drawn, curve_budgets, draw_curve, methods_of
from solvers.portfolio.learned.fit import fit_learned, whole
from solvers.portfolio.neighbours.samples import refuse_impossible
from solvers.portfolio.plan import PortfolioPlan
from solvers.portfolio.query_costs import costs_of, functions_of, resources_of
from solvers.portfolio.routing_outcome import Known
from solvers.portfolio.savings import portfolio_savings
from solvers.portfolio.shadow_prices import ShadowPrices
from solvers.portfolio.success_estimator import Estimator, Scaling
from solvers.portfolio.summary import summarize
from solvers.portfolio.table import Table, cut, embedder_of, planned
from solvers.portfolio.tuning import Examples, Tuned, tune

MIN_ROWS = 40
"""Rows that a trace needs: twenty to draw from, ten to validate on, ten to check on."""
STEPS = 5
FOLDS = 5
"""Cross-validation folds for the regression of costs on embeddings."""


def fit(dataset: Trace, options: PortfolioOptions, rng: np.random.Generator, run: Run) -> Fitted[PortfolioPlan]:
    """Build a portfolio from a trace with embeddings; unless the estimator is OCCAM's, by ``learned.fit``.

    A classifier's cost is its mean on the build half; the curve shows what was measured on the held-out part. Raises
    InvalidRequest for a trace without embeddings or with fewer than 40 rows, samples that there are too few items for,
    and an unknown feature classifier.

    The summary: unit, rows of each part, classifiers with accuracy, cost and sigma, those that are beaten, the samples
    that were tried with distances and errors (OCCAM, Appendices A.2, A.3), λ and what else was tried, held-out results.
    """
    check(DatasetFacts.of(dataset), options)
    run.progress(0, STEPS, "cutting the trace")
    table = cut(dataset, options, rng)
    if not options.takes_samples:
        return fit_learned(dataset, options, whole(table), rng, run)
    scaling = Scaling.of(table.vectors[table.build])
    items = scaling.apply(table.vectors[table.build])
    known = table.known(table.build, embeds=True)
    folds = fold_rows(known.items, FOLDS, rng)
    regression = ExpectedCosts.cross_fit(known.vectors, known.costs, known.means, folds, known.items).regression

    def expected(rows: Int64s) -> Floats | None:
        return None if regression is None else regression.predict(table.vectors[rows])

    validation = planned(dataset, table, table.validation, expected(table.validation), embeds=True)
    examples = Examples(items, table.success.astype(np.float32), scaling.apply(validation.vectors), validation)
    tuned = tune(examples, options, rng, lambda message: run.progress(1, STEPS, message))
    run.progress(2, STEPS, "pricing budgets")
    prices = ShadowPrices.of(tuned.estimates - tuned.penalties, validation.plan_costs)
    estimator = Estimator.of(scaling, items, examples.success, tuned.samples)
    run.progress(3, STEPS, "comparing on held-out items")
    held_out, plain = (
        planned(dataset, table, table.held_out, expected(table.held_out), embeds=embeds) for embeds in (True, False)
    )
    estimates = estimator.estimate(held_out.vectors)
    report = partial(run.progress, 3, STEPS)
    drawn = _drawn(
        table, items, estimator, (held_out, plain), estimates, tuned, prices, rng, options.curve_points, report
    )
    run.progress(4, STEPS, "putting the plan together")
    plan = _plan(dataset, options, table, estimator, items, tuned, prices, drawn, regression)
    worth_here = portfolio_savings(
        dataset,
        prices,
        drawn.budgets,
        (table.validation, validation, tuned.estimates - tuned.penalties),
        (table.held_out, held_out, estimates - tuned.penalties),
        table.build,
        embedder_of(dataset, options),
        rng,
    )
    run.progress(STEPS, STEPS, "done")
    summary = summarize(plan, tuned, table.losers, (table.accuracies, table.means), _sizes(table))
    return Fitted(plan, summary, worth_here)


def check(facts: DatasetFacts, options: PortfolioOptions) -> None:
    """Refuse a trace without embeddings or with too few rows, an unknown feature classifier, impossible samples."""
    if facts.embedding_dimensions == 0:
        asked = "has no embeddings: upload it with an .npy array of one row for each row of the table"
        raise InvalidRequest.at(Fault(("dataset",), asked))
    refuse_few_items(facts, MIN_ROWS, "a portfolio")
    names = facts.classifiers
    if options.feature_classifier is not None and options.feature_classifier not in names:
        asked = f"is {options.feature_classifier!r}, the trace has the classifiers {', '.join(names)}"
        raise InvalidRequest.at(Fault(("feature_classifier",), asked))
    if not options.takes_samples:
        return
    if isinstance(options.samples, Samples):
        refuse_impossible(facts.rows // 2, options.samples.count, options.samples.size, options.sampling)
    _refuse_huge(options, facts.embedding_dimensions)


def _refuse_huge(options: PortfolioOptions, dimensions: int) -> None:
    """Refuse samples that would not fit into memory."""
    given = options.samples
    most = options.max_items if isinstance(given, str) else given.count * given.size
    if most * dimensions > MOST_NUMBERS:
        asked = f"{most} items of {dimensions} dimensions are {most * dimensions} numbers, at most {MOST_NUMBERS} fit"
        raise InvalidRequest.at(Fault(("max_items" if isinstance(given, str) else "samples",), asked))


def _sizes(table: Table) -> dict[str, int]:
    return {"build": len(table.build), "validation": len(table.validation), "held_out": len(table.held_out)}


def _drawn(
    table: Table,
    items: Singles,
    estimator: Estimator,
    rows: tuple[Known, Known],
    estimates: Floats,
    tuned: Tuned,
    prices: ShadowPrices,
    rng: np.random.Generator,
    points: int,
    report: Callable[[str], None],
) -> Drawn:
    """Let the portfolio and its baselines route the held-out items. rows: the truth of them, as of ``methods_of``."""
    known, plain = rows
    values = estimates - tuned.penalties
    vectors, seed = estimator.scaling.apply(known.vectors), int(rng.integers(2**32))
    forests = forest_values(items, table.success, vectors, seed, report)
    methods = methods_of(
        estimates,
        values,
        lambda budget: prices.choose_each(values, known.plan_costs, budget / len(values)),
        known,
        plain,
        table.accuracies,
        forests,
        rng,
    )
    return draw_curve(methods, curve_budgets(known, plain, points), known, plain, report)


def _plan(
    dataset: Trace,
    options: PortfolioOptions,
    table: Table,
    estimator: Estimator,
    items: Singles,
    tuned: Tuned,
    prices: ShadowPrices,
    drawn: Drawn,
    regression: CostRegression | None,
) -> PortfolioPlan:
    powers, coefficients = functions_of(dataset, table.names, table.means)
    return PortfolioPlan(
        classifiers=table.names,
        unit=dataset.spec.unit,
        feature_classifier=options.feature_classifier,
        embedding_cost=table.embedding_mean,
        dearest=float(table.means.max()),
        costs=table.known(table.build, embeds=True).means,
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
        methods=drawn.methods,
        held_out=len(table.held_out),
        independence=effective_rows(table.items[table.held_out]) / len(table.held_out),
        **drawn.fields,
        **costs_of(regression),
        **resources_of(dataset, table.names),
    )
