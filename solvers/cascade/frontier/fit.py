"""Fit of the frontier: search on all rows, measurement by cross-fitting."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from models import Trace
from models.arrays import Bools, Floats, Int64s
from models.cascade import CascadeOptions
from solvers.cascade.classifier_measurements import measure_times, share_setup
from solvers.cascade.frontier.acceptance_levels import Report
from solvers.cascade.frontier.calibration import CalibratedConfidences, calibrate_confidences
from solvers.cascade.frontier.cross_fit import LearnedFrontier, PointOutcomes, cross_fit_points
from solvers.cascade.frontier.rows import CalibratedRows, ThresholdCascade
from solvers.cascade.frontier.search import SelectedCascades, compute_complexity_penalty, search_frontier
from solvers.item_splits import effective_rows
from solvers.shared_setup import SharedSetup
from solvers.statistics import standard_error_of_mean

MAX_ROWS = 10_000
"""Maximum number of rows for the search; more rows hardly improve it."""
MAX_LABELS = 200
"""Maximum number of labels for thresholds by label."""
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
    setup = share_setup(dataset, every, columns, options.worst_case_quantile)
    times, worst = measure_times(dataset, every, columns, options.worst_case_quantile)
    has_confidence = np.array([dataset.spec.classifiers[j].confidence is not None for j in columns.tolist()])
    label_count = len(dataset.classes) if options.label_thresholds and len(dataset.classes) <= MAX_LABELS else 0
    searched = _SearchedRows(dataset, columns, worst, has_confidence, label_count, setup)
    plan, rows, kept, calibration = searched.learn_frontier(every, report)
    measured = []
    for at, (learning, own) in enumerate(folds, start=1):
        learned, *_ = searched.learn_frontier(learning, partial(_report_fold, report, at, len(folds)), known=kept)
        measured.append((learned, searched.read_rows(own), own))
    outcomes = cross_fit_points(plan, measured)
    names, labels = [dataset.spec.classifiers[j].name for j in columns.tolist()], dataset.classes[:label_count]
    summary = {
        "points": len(plan.cascades),
        "thresholds": "separate" if kept.separate else "one acceptance level",
        "calibration": calibration,
        "not_considered": [one.name for one in dataset.spec.classifiers if one.name not in names],
    }
    fields = {"point_names": tuple(names), "point_times": times}
    inflation = 1 + sum(len(own) / len(learning) for learning, own in folds)
    fields |= {"point_worst_times": worst, **_describe_points(plan, rows, outcomes, inflation)}
    return fields | _describe_label_thresholds(plan, labels), summary, outcomes


def _report_fold(report: Report, fold: int, folds: int, message: str) -> None:
    report(f"fold {fold} of {folds}: {message}")


@dataclass(frozen=True, slots=True, eq=False)
class _SearchedRows:
    """A trace with the classifiers of the search.

    Includes their columns, worst-case times, whether they return confidences, the number of labels that may have
    thresholds of their own, and their set-up groups.
    """

    dataset: Trace
    columns: Int64s
    worst: Floats
    has_confidence: Bools
    label_count: int
    setup: SharedSetup

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
            dataset.predictions[where].astype(np.int64),
            self.setup.take_rows(rows),
        )

    def learn_frontier(
        self, rows: Int64s, report: Report, *, known: SelectedCascades | None = None
    ) -> tuple[LearnedFrontier, CalibratedRows, SelectedCascades, dict[str, str]]:
        """Search the frontier on some rows.

        Return the frontier, the rows, the selected cascades, and the calibration of each classifier.
        """
        raw = self.read_rows(rows)
        fitted = [
            _calibrate_column(self.dataset, rows, j, self.label_count) if has_confidence else None
            for j, has_confidence in zip(self.columns.tolist(), self.has_confidence.tolist(), strict=True)
        ]
        values = np.column_stack([np.full(len(rows), np.nan) if one is None else one.values for one in fitted])
        calibrated = replace(raw, confidences=values)
        some = np.linspace(0, len(rows) - 1, min(MAX_ROWS, len(rows))).astype(np.int64)
        kept = search_frontier(calibrated.take(some), report, known=known)
        cascades = tuple(_to_confidences(one, fitted) for one in kept.cascades)
        means = np.array([raw.mean_outcome(one) for one in cascades])
        independent = effective_rows(raw.items)
        penalties = np.array([compute_complexity_penalty(one, independent) for one in cascades])
        maxima = np.array([raw.maximum_duration(one.members) for one in cascades])
        names = [self.dataset.spec.classifiers[j].name for j in self.columns.tolist()]
        calibration = {
            name: f"{one.kind}, by label" if len(one.effects) else one.kind
            for name, one in zip(names, fitted, strict=True)
            if one is not None
        }
        return LearnedFrontier(cascades, means[:, 0], means[:, 1] + penalties, maxima), raw, kept, calibration


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


def _calibrate_column(dataset: Trace, build: Int64s, j: int, label_count: int) -> CalibratedConfidences:
    columns = dataset.confidences[build, j], dataset.quality[build, j], dataset.item_codes[build]
    return calibrate_confidences(*columns, dataset.predictions[build, j].astype(np.int64), label_count)


def _to_confidences(cascade: ThresholdCascade, calibrated: Sequence[CalibratedConfidences | None]) -> ThresholdCascade:
    """Convert thresholds on calibrated confidences to the least raw confidences that reach them.

    A threshold that no row reaches is just above the highest confidence.
    """
    found = []
    for k, level in zip(cascade.members, cascade.thresholds, strict=False):
        one = calibrated[k]
        assert one is not None, "classifiers without confidence are called last"
        found.append(np.minimum(one.find_thresholds(level), np.nextafter(one.confidences[-1], np.inf)))
    size = max((len(own) for own in found), default=1)
    by_label = [tuple(own[:-1].tolist()) if len(own) == size else (float(own[-1]),) * (size - 1) for own in found]
    common = tuple(float(own[-1]) for own in found)
    return ThresholdCascade(cascade.members, common, tuple(by_label) if size > 1 else ())


def _describe_points(
    plan: LearnedFrontier, rows: CalibratedRows, outcomes: PointOutcomes, inflation: float
) -> dict[str, Any]:
    """Return the arrays of the points: learned results on all rows, and cross-fitted figures.

    Args:
        inflation: factor of the variance of cross-fitted costs, because folds share the rows that learn. Source: Nadeau
            and Bengio, *Inference for the generalization error*, 2003.
    """
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
        "point_cost_errors": standard_error_of_mean(outcomes.costs, items) * inflation**0.5,
        "point_accuracies": np.clip(outcomes.right.mean(axis=1), 0.0, 1.0),
        "point_accuracy_errors": np.maximum(standard_error_of_mean(outcomes.right, items), no_failure),
    }


def _describe_label_thresholds(plan: LearnedFrontier, labels: tuple[str, ...]) -> dict[str, Any]:
    """Return the thresholds by label of all calls, and the labels that have any."""
    rows: list[Sequence[float]] = []
    for one in plan.cascades:
        rows += one.by_label or [(threshold,) * len(labels) for threshold in one.thresholds]
        rows.append((np.nan,) * len(labels))
    every = np.array(rows, dtype=np.float64).reshape(len(rows), len(labels))
    differs = np.array([t for one in plan.cascades for t in (*one.thresholds, np.nan)])[:, None] != every
    kept = (differs & ~np.isnan(every)).any(axis=0)
    return {
        "point_labels": tuple(name for name, is_kept in zip(labels, kept.tolist(), strict=True) if is_kept),
        "point_label_thresholds": every[:, kept].ravel(),
    }
