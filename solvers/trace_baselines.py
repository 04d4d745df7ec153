"""Baselines of a trace.

They are each classifier alone, the best pairs with one threshold, a logistic router on embeddings, and the choices of a
log.

Rules are tuned on training rows and replayed on all rows. On training rows, the router is cross-fitted.
"""

import warnings
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from models import Trace
from models.arrays import Bools, Floats, Int64s
from parsimony.runs.steps import REJECT
from solvers.item_splits import assign_group_folds
from solvers.principal_directions import principal_directions
from solvers.savings import AS_LOGGED, Replay, replay_each_classifier
from solvers.shared_setup import charge_after, share_setup_of_rows
from solvers.two_stage_rules import escalated_mask, select_stages, tune_two_stages

ROUTER_BUDGETS = np.linspace(0.1, 0.9, 9)
"""Budgets of the router, from the cheapest classifier's mean cost, 0, to the most expensive one's, 1."""
MAX_DIRECTIONS, MAX_ROWS = 64, 20_000
MIN_ROUTER_ROWS = 40
_STEPS = 40
MIN_SINGLE_CALLS = 0.5
"""Minimum share of rows with one call in the log of an application; a filled trace has more calls per row."""


def replay_trace_baselines(dataset: Trace, training: Int64s, embedder: int | None = None) -> dict[str, Replay]:
    """Replay the baselines on all rows of a trace, by name.

    Partial traces have no pairs, because pairs need rows in which both classifiers were called. For logs, the logged
    choices are a baseline instead.

    Args:
        training: rows that tune the rules.
        embedder: classifier that computes embeddings; the router pays for it in every row. None if embeddings are free.
    """
    rows = np.arange(dataset.rows)
    single, routers = replay_each_classifier(dataset, rows), _routers(dataset, training, embedder)
    return single | (_replay_log(dataset) if dataset.is_partial else _pairs(dataset, training)) | routers


def _replay_log(dataset: Trace) -> dict[str, Replay]:
    """Replay the calls of a log, if most rows have one call.

    The outcome and cost of a row are the means of its calls. If one random draw decided on all calls of a row, as in
    recordings that explore, this baseline does not exist. Such rows have calls that the application did not choose.
    """
    own = [place for place, one in enumerate(dataset.spec.classifiers) if one.name != REJECT]
    called = dataset.called[:, own]
    explores = dataset.spec.joint_propensity == "smallest"
    if explores or not dataset.observed.size or float((called.sum(axis=1) == 1).mean()) < MIN_SINGLE_CALLS:
        return {}
    observed = (dataset.observed, dataset.observed_costs)
    right, costs = (np.nanmean(np.where(called, each[:, own], np.nan), axis=1) for each in observed)
    return {AS_LOGGED: Replay(right, costs)}


def replay_baselines_on(training: Trace, holdout: Trace) -> dict[str, Replay]:
    """Tune the baselines on one trace, and replay them on another trace of the same classifiers."""
    items = np.concatenate((training.item_codes, training.item_codes.max() + 1 + holdout.item_codes))
    own = np.arange(training.rows, training.rows + holdout.rows)
    joined = ("labels", "quality", "costs", "confidences", "embeddings", "called", "observed", "observed_costs")
    columns: dict[str, Any] = {
        name: np.concatenate((getattr(training, name), getattr(holdout, name))) for name in (*joined, "setup_costs")
    }
    both = replace(holdout, items=items.astype(np.int64), **columns)
    return {name: one.take(own) for name, one in replay_trace_baselines(both, np.arange(training.rows)).items()}


def find_current_baseline(baselines: Collection[str], dataset: Trace, training: Int64s) -> str:
    """Return the name of the baseline that represents today's choices.

    It is the choices of a log, if they are among the baselines. Otherwise the most accurate classifier always answers;
    ties go to the cheapest. No items are rejected.
    """
    if AS_LOGGED in baselines:
        return AS_LOGGED
    quality, costs = dataset.quality[training].mean(axis=0), dataset.costs[training].mean(axis=0)
    names = [one.name for one in dataset.spec.classifiers]
    return f"always {next(names[j] for j in np.lexsort((costs, -quality)) if names[j] != REJECT)}"


def _pairs(dataset: Trace, training: Int64s) -> dict[str, Replay]:
    quality, costs, confidences = dataset.quality, dataset.costs, dataset.confidences
    names = [classifier.name for classifier in dataset.spec.classifiers]
    setup = share_setup_of_rows(dataset, np.arange(len(names)))

    def cost_of_second(first: int, second: int) -> Floats:
        return np.asarray(costs[:, second] - setup.compute_saved_costs(second, [first]))

    own = costs[training]
    tradeoff = 1 / dataset.loss_scale if dataset.loss_scale else None
    rules = tune_two_stages(
        confidences[training],
        quality[training],
        own,
        lambda i, j: own[:, i] + cost_of_second(i, j)[training],
        tradeoff,
    )
    replays = {}
    for rule in rules:
        onward = escalated_mask(rule, confidences)
        right = np.where(onward, quality[:, rule.second], quality[:, rule.first])
        paid = costs[:, rule.first] + onward * cost_of_second(rule.first, rule.second)
        name = f"{names[rule.first]}, then {names[rule.second]} below {rule.threshold:.3g}"
        replays[name] = Replay(right, paid)
    return replays


def _routers(dataset: Trace, training: Int64s, embedder: int | None) -> dict[str, Replay]:
    """Route each row to the classifier with the largest predicted accuracy minus priced mean cost."""
    if not dataset.embeddings.shape[1] or len(training) < MIN_ROUTER_ROWS:
        return {}
    places = select_stages(dataset.costs[training].mean(axis=0), dataset.quality[training].mean(axis=0))
    means, values = dataset.costs[training][:, places].mean(axis=0), _predicted(dataset, training, places)
    replays, rows, paid = {}, np.arange(dataset.rows), charge_after(dataset, embedder).copy()
    if embedder is not None:
        paid += paid[:, [embedder]]
        paid[:, embedder] /= 2
    for share in ROUTER_BUDGETS.tolist():
        budget = float(means.min() + share * (means.max() - means.min()))
        choice = places[_route(values, means, _price_at(values[training], means, budget))]
        name = f"a logistic router at {budget:.3g} {dataset.spec.unit}"
        replays[name] = Replay(dataset.quality[rows, choice], paid[rows, choice])
    return replays


def _predicted(dataset: Trace, training: Int64s, places: Int64s) -> Floats:
    """Predict the accuracy of classifiers, (n, k), by cross-fitting on training rows."""
    fold = np.full(dataset.rows, -1)
    fold[training] = assign_group_folds(dataset.item_codes[training], 2, np.random.default_rng(0))
    predicted = np.empty((dataset.rows, len(places)))
    for part in (-1, 0, 1):
        tested = fold == part
        if tested.any():
            predicted[tested] = _logistic(dataset, (fold >= 0) & ~tested, tested, places)
    return predicted


def _logistic(dataset: Trace, training: Bools, tested: Bools, places: Int64s) -> Floats:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    rows = np.flatnonzero(training)
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), MAX_ROWS)).astype(np.int64)]
    quality = dataset.observed if dataset.observed.size else dataset.quality
    vectors = dataset.embeddings.astype(np.float64)
    centre = vectors[rows].mean(axis=0)
    axes = np.eye(len(centre))
    if len(centre) > MAX_DIRECTIONS:
        axes = principal_directions(vectors[rows] - centre, MAX_DIRECTIONS)
    others = (vectors[tested] - centre) @ axes
    spread = float(((vectors[rows] - centre) @ axes).std()) or 1.0
    columns = []
    for place in places.tolist():
        own = rows[~np.isnan(quality[rows, place])]
        is_right = quality[own, place] >= 0.5
        if is_right.all() or not is_right.any():
            columns.append(np.full(len(others), float(is_right.mean())))
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(max_iter=200).fit((vectors[own] - centre) @ axes / spread, is_right)
        columns.append(model.predict_proba(others / spread)[:, 1])
    return np.column_stack(columns)


def _route(values: Floats, means: Floats, price: float) -> Int64s:
    return np.asarray((values - price * means).argmax(axis=1))


def _price_at(values: Floats, means: Floats, budget: float) -> float:
    """Find, by bisection, the price of cost at which the mean cost equals the budget."""
    low, high = 0.0, 10 / max(float(np.ptp(means)), 1e-300)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if float(means[_route(values, means, middle)].mean()) > budget:
            low = middle
        else:
            high = middle
    return high
