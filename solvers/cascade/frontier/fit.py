"""Fit of the frontier: search on all rows, measurement by cross-fitting."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from models import Trace
from models.arrays import Bools, Floats, Int64s
from models.cascade import CascadeOptions
from solvers.cascade.deadline_thresholds import measure_execution_times
from solvers.cascade.frontier.acceptance_levels import Report
from solvers.cascade.frontier.calibration import CalibratedConfidences, calibrate_confidences
from solvers.cascade.frontier.cross_fit import LearnedFrontier, PointOutcomes, cross_fit_points
from solvers.cascade.frontier.rows import NEVER_ACCEPT, CalibratedRows, ThresholdCascade
from solvers.cascade.frontier.search import SelectedCascades, compute_complexity_penalty, search_frontier
from solvers.item_splits import effective_rows
from solvers.statistics import standard_error_of_mean

MAX_ROWS = 10_000
"""Maximum number of rows for the search; more rows hardly improve it."""
MAX_CLASSIFIERS = 12
"""Maximum number of classifiers in the search over sets."""


Fold = tuple[Int64s, Int64s]
"""Rows that learn, and rows that are measured."""


def fit_frontier(
    dataset: Trace, options: CascadeOptions, folds: Sequence[Fold], report: Report
) -> tuple[dict[str, Any], dict[str, Any], PointOutcomes]:
    """Return the fields of ``FrontierContents``, the summary of the frontier, and the outcomes of its points.

    A search uses at most ``MAX_ROWS`` rows; measurements use all.
    """
    every = np.arange(dataset.rows)
    columns = _select_columns(dataset, every)
    times = [measure_execution_times(dataset.costs[:, j], options.worst_case_quantile) for j in columns.tolist()]
    worst = np.array([each[1] for each in times])
    has_confidence = np.array([dataset.spec.classifiers[j].confidence is not None for j in columns.tolist()])
    searched = _SearchedRows(dataset, columns, worst, has_confidence)
    plan, rows, kept, calibration = searched.learn_frontier(every, report)
    measured = []
    for at, (learning, own) in enumerate(folds, start=1):
        learned, *_ = searched.learn_frontier(learning, partial(_report_fold, report, at, len(folds)), known=kept)
        measured.append((learned, searched.read_rows(own), own))
    outcomes = cross_fit_points(plan, measured)
    names = [dataset.spec.classifiers[j].name for j in columns.tolist()]
    summary = {
        "points": len(plan.cascades),
        "thresholds": "separate" if kept.separate else "one acceptance level",
        "calibration": calibration,
        "not_considered": [one.name for one in dataset.spec.classifiers if one.name not in names],
    }
    fields = {"point_names": tuple(names), "point_times": np.array([each[0] for each in times])}
    return {**fields, "point_worst_times": worst, **_describe_points(plan, rows, outcomes)}, summary, outcomes


FOLD_DEPENDENCE = 100
"""Variance inflation of cross-fitted costs: 1 + FOLD_DEPENDENCE / rows, because folds share the rows that learn.

Of 120 points of 40 cascades of 200 rows, 89 % had costs within 95 % intervals without it.

Source: Bengio, Grandvalet, *No unbiased estimator of the variance of k-fold cross-validation*, 2004.
"""


def _report_fold(report: Report, fold: int, folds: int, message: str) -> None:
    report(f"fold {fold} of {folds}: {message}")


@dataclass(frozen=True, slots=True, eq=False)
class _SearchedRows:
    """A trace with the classifiers of the search.

    Includes their columns, worst-case times, and whether they return confidences.
    """

    dataset: Trace
    columns: Int64s
    worst: Floats
    has_confidence: Bools

    def read_rows(self, rows: Int64s) -> CalibratedRows:
        """Return some rows with raw confidences."""
        where = np.ix_(rows, self.columns)
        dataset = self.dataset
        return CalibratedRows(
            dataset.confidences[where],
            1 - dataset.quality[where],
            dataset.costs[where],
            self.worst,
            self.has_confidence,
            dataset.item_codes[rows],
        )

    def learn_frontier(
        self, rows: Int64s, report: Report, *, known: SelectedCascades | None = None
    ) -> tuple[LearnedFrontier, CalibratedRows, SelectedCascades, dict[str, str]]:
        """Search the frontier on some rows.

        Return the frontier, the rows, the selected cascades, and the calibration of each classifier.
        """
        raw = self.read_rows(rows)
        fitted = [_calibrate_column(self.dataset, rows, j) for j in self.columns.tolist()]
        values = np.column_stack([np.full(len(rows), np.nan) if one is None else one.values for one in fitted])
        calibrated = replace(raw, confidences=values)
        some = np.linspace(0, len(rows) - 1, min(MAX_ROWS, len(rows))).astype(np.int64)
        kept = search_frontier(calibrated.take(some), report, known=known)
        cascades = tuple(_to_confidences(one, calibrated, raw.confidences) for one in kept.cascades)
        means = np.array([raw.mean_outcome(one) for one in cascades])
        independent = effective_rows(raw.items)
        penalties = np.array([compute_complexity_penalty(one, independent) for one in cascades])
        maxima = np.array([raw.maximum_duration(one.members) for one in cascades])
        names = [self.dataset.spec.classifiers[j].name for j in self.columns.tolist()]
        calibration = {name: one.kind for name, one in zip(names, fitted, strict=True) if one is not None}
        return LearnedFrontier(cascades, means[:, 0], means[:, 1] + penalties, maxima), raw, kept, dict(calibration)


def _select_columns(dataset: Trace, build: Int64s) -> Int64s:
    """Return the classifiers to search, in the order of the trace.

    If there are too many, Pareto-optimal classifiers are selected evenly from the cheapest to the most accurate. The
    most accurate other classifiers fill the remaining places.
    """
    errors, costs = 1 - dataset.quality[build].mean(axis=0), dataset.costs[build].mean(axis=0)
    names = [classifier.name for classifier in dataset.spec.classifiers]
    ranked = sorted(range(len(names)), key=lambda j: (costs[j], errors[j], names[j]))
    unbeaten = [j for i, j in enumerate(ranked) if all(errors[j] < errors[k] for k in ranked[:i])]
    places = np.unique(np.linspace(0, len(unbeaten) - 1, min(len(unbeaten), MAX_CLASSIFIERS)).round().astype(int))
    others = sorted(set(ranked) - set(unbeaten), key=lambda j: (errors[j], costs[j], names[j]))
    return np.sort(np.array([*(unbeaten[i] for i in places.tolist()), *others][:MAX_CLASSIFIERS]))


def _calibrate_column(dataset: Trace, build: Int64s, j: int) -> CalibratedConfidences | None:
    if dataset.spec.classifiers[j].confidence is None:
        return None
    return calibrate_confidences(dataset.confidences[build, j], dataset.quality[build, j], dataset.item_codes[build])


def _to_confidences(cascade: ThresholdCascade, rows: CalibratedRows, confidences: Floats) -> ThresholdCascade:
    """Convert thresholds on calibrated confidences to the least raw confidences that reach them."""
    thresholds = [
        float(confidences[rows.confidences[:, k] >= level, k].min(initial=NEVER_ACCEPT))
        for k, level in zip(cascade.members, cascade.thresholds, strict=False)
    ]
    return ThresholdCascade(cascade.members, tuple(thresholds))


def _describe_points(plan: LearnedFrontier, rows: CalibratedRows, outcomes: PointOutcomes) -> dict[str, Any]:
    """Return the arrays of the points: learned results on all rows, and cross-fitted figures."""
    items, cascades = rows.items[outcomes.rows], plan.cascades
    no_failure = 1 / (effective_rows(items) + 2)  # rule of succession: all rows correct is no proof
    return {
        "point_offsets": np.cumsum([0, *(len(one.members) for one in cascades)], dtype=np.int64),
        "point_members": np.array([k for one in cascades for k in one.members], dtype=np.int32),
        "point_thresholds": np.array([t for one in cascades for t in (*one.thresholds, np.nan)]),
        "point_reaching": np.array([share for one in cascades for share in rows.replay_rows(one)[2]]),
        "point_maxima": plan.maxima,
        "point_expected": plan.costs,
        "point_learned_accuracies": np.maximum(1 - plan.errors, 0.0),
        "point_costs": outcomes.costs.mean(axis=1),
        "point_cost_errors": standard_error_of_mean(outcomes.costs, items) * (1 + FOLD_DEPENDENCE / len(items)) ** 0.5,
        "point_accuracies": np.clip(outcomes.right.mean(axis=1), 0.0, 1.0),
        "point_accuracy_errors": np.maximum(standard_error_of_mean(outcomes.right, items), no_failure),
    }
