"""Fit of the frontier: search on the build half, measurement on both halves."""

from dataclasses import replace
from typing import Any

import numpy as np

from models import Trace
from models.arrays import Floats, Int64s
from models.cascade import CascadeOptions
from solvers.cascade.frontier.acceptance_levels import Report
from solvers.cascade.frontier.calibration import CalibratedConfidences, calibrate_confidences
from solvers.cascade.frontier.rows import CalibratedRows, ThresholdCascade
from solvers.cascade.frontier.search import complexity_penalty, search_frontier
from solvers.cascade.thresholds import mean_and_worst_time
from solvers.item_splits import effective_rows
from solvers.statistics import standard_error_of_mean

MAX_ROWS = 10_000
"""Maximum number of rows for the search; more rows hardly improve it."""
MAX_CLASSIFIERS = 12
"""Maximum number of classifiers in the search over sets."""


def fit_frontier(
    dataset: Trace, options: CascadeOptions, build: Int64s, held_out: Int64s, report: Report
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of ``FrontierContents``, and the summary of the frontier.

    The search uses at most ``MAX_ROWS`` rows; measurements use all.
    """
    columns = _select_columns(dataset, build)
    times = [mean_and_worst_time(dataset.costs[build, j], options.worst_case_quantile) for j in columns.tolist()]
    worst = np.array([each[1] for each in times])
    calibrated = [_calibrate_column(dataset, build, j) for j in columns.tolist()]
    values = np.column_stack([np.full(len(build), np.nan) if one is None else one.values for one in calibrated])
    has_confidence = np.array([one is not None for one in calibrated])
    rows = replace(_half_rows(dataset, build, columns, worst, has_confidence), confidences=values)
    some = np.linspace(0, len(build) - 1, min(MAX_ROWS, len(build))).astype(np.int64)
    kept = search_frontier(rows.take(some), report)
    cascades = [_to_confidences(one, rows, dataset.confidences[np.ix_(build, columns)]) for one in kept.cascades]
    names = [dataset.spec.classifiers[j].name for j in columns.tolist()]
    summary = {
        "points": len(cascades),
        "thresholds": "separate" if kept.separate else "one acceptance level",
        "calibration": {name: one.kind for name, one in zip(names, calibrated, strict=True) if one is not None},
        "not_considered": [one.name for one in dataset.spec.classifiers if one.name not in names],
    }
    fields = {"point_names": tuple(names), "point_times": np.array([each[0] for each in times])}
    by_half = [_half_rows(dataset, half, columns, worst, has_confidence) for half in (build, held_out)]
    return {**fields, "point_worst_times": worst, **_measure_points(cascades, *by_half)}, summary


def _select_columns(dataset: Trace, build: Int64s) -> Int64s:
    """Return the classifiers to search, in the order of the trace.

    With too many these are Pareto-optimal ones, evenly from the cheapest to the most accurate, then the most accurate
    others.
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


def _half_rows(dataset: Trace, half: Int64s, columns: Int64s, worst: Floats, has_confidence: Any) -> CalibratedRows:
    where = np.ix_(half, columns)
    return CalibratedRows(
        dataset.confidences[where],
        1 - dataset.quality[where],
        dataset.costs[where],
        worst,
        has_confidence,
        dataset.item_codes[half],
    )


def _to_confidences(cascade: ThresholdCascade, rows: CalibratedRows, confidences: Floats) -> ThresholdCascade:
    """Convert thresholds on calibrated confidences to the least raw confidences that reach them."""
    thresholds = [
        float(confidences[rows.confidences[:, k] >= level, k].min())
        for k, level in zip(cascade.members, cascade.thresholds, strict=False)
    ]
    return ThresholdCascade(cascade.members, tuple(thresholds))


def _measure_points(
    cascades: list[ThresholdCascade], build: CalibratedRows, held_out: CalibratedRows
) -> dict[str, Any]:
    items = held_out.items
    learned, fresh = [build.replay_rows(one) for one in cascades], [held_out.replay_rows(one) for one in cascades]
    right = [1 - wrong for _, wrong, _ in fresh]
    no_failure = 1 / (effective_rows(items) + 2)  # rule of succession: all rows correct is no proof
    return {
        "point_offsets": np.cumsum([0, *(len(one.members) for one in cascades)], dtype=np.int64),
        "point_members": np.array([k for one in cascades for k in one.members], dtype=np.int32),
        "point_thresholds": np.array([t for one in cascades for t in (*one.thresholds, np.nan)]),
        "point_reaching": np.array([share for _, _, reaching in learned for share in reaching]),
        "point_maxima": np.array([build.maximum_duration(one.members) for one in cascades]),
        "point_expected": np.array([float(cost.mean()) for cost, _, _ in learned]),
        "point_learned_accuracies": np.array(
            [
                max(1 - float(wrong.mean()) - complexity_penalty(one, effective_rows(build.items)), 0.0)
                for one, (_, wrong, _) in zip(cascades, learned, strict=True)
            ]
        ),
        "point_costs": np.array([float(cost.mean()) for cost, _, _ in fresh]),
        "point_cost_errors": np.array([float(standard_error_of_mean(cost, items)) for cost, _, _ in fresh]),
        "point_accuracies": np.array([float(each.mean()) for each in right]),
        "point_accuracy_errors": np.array(
            [max(float(standard_error_of_mean(each, items)), no_failure) for each in right]
        ),
    }
