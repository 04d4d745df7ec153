"""Measurements of classifiers on the build half: accept thresholds, success probabilities, and times."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from models import Trace
from models.arrays import Floats, Int64s
from models.cascade import CascadeOptions, Classifier
from parsimony.runs.steps import REJECT
from solvers.cascade.deadline_thresholds import find_threshold, measure_execution_times
from solvers.cascade.replay import ReplayRows
from solvers.item_splits import effective_rows
from solvers.setup_groups import SetupGroups
from solvers.shared_setup import NO_SETUP, SharedSetup, share_setup_of_rows


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredClassifiers:
    """Usable classifiers, the deterministic one last, and excluded classifiers with reasons.

    Attributes:
        columns: index of each usable classifier in the trace.
        thresholds: accept thresholds; NaN if every answer is accepted.
        bounds: for each classifier, the highest lower bound of its precision over all thresholds.
        left_out: excluded classifiers, with reasons.
    """

    columns: tuple[int, ...]
    classifiers: tuple[Classifier, ...]
    thresholds: tuple[float, ...]
    bounds: tuple[float | None, ...]
    left_out: tuple[dict[str, Any], ...]

    def index_of(self, name: str) -> int:
        """Return the index of a usable classifier, by name."""
        return next(i for i, k in enumerate(self.classifiers) if k.name == name)


def measure_classifiers(
    dataset: Trace, options: CascadeOptions, build: Int64s, report: Callable[[int, str], None]
) -> MeasuredClassifiers:
    """Measure precision and times of each classifier on the build half, and exclude unusable ones."""
    last = _choose_deterministic(dataset, options, build)
    columns, classifiers, thresholds, bounds = [], [], [], []
    left_out: list[dict[str, Any]] = []
    independence = effective_rows(dataset.item_codes[build]) / len(build)
    times = measure_times(dataset, build, np.arange(len(dataset.spec.classifiers)), options.worst_case_quantile)
    for j, spec in enumerate(dataset.spec.classifiers):
        report(j, f"fitting the accept threshold of {spec.name}")
        if j == last:
            continue
        if spec.confidence is None:
            reason = "rejects are decided on the trade-off curve" if spec.name == REJECT else "has no confidence"
            left_out.append({"name": spec.name, "reason": reason, "best_precision_bound": None})
            continue
        confidences = dataset.confidences[build, j]
        threshold = find_threshold(
            confidences,
            dataset.quality[build, j],
            options.target_precision,
            options.wilson_confidence,
            independence=independence,
        )
        if threshold.confidence is None:
            reason = f"its precision bound never reaches {options.target_precision:g}"
            left_out.append({"name": spec.name, "reason": reason, "best_precision_bound": threshold.bound})
            continue
        columns.append(j)
        share = min(float((confidences >= threshold.confidence).mean()), len(build) / (len(build) + 1))
        classifiers.append(_describe_classifier(dataset, times, j, share))
        thresholds.append(threshold.confidence)
        bounds.append(threshold.bound)
    return MeasuredClassifiers(
        (*columns, last),
        (*classifiers, _describe_classifier(dataset, times, last, 1.0)),
        (*thresholds, np.nan),
        (*bounds, None),
        tuple(left_out),
    )


def _choose_deterministic(dataset: Trace, options: CascadeOptions, build: Int64s) -> int:
    names = [spec.name for spec in dataset.spec.classifiers]
    if options.deterministic is not None:
        return names.index(options.deterministic)
    right = dataset.quality[build].sum(axis=0).tolist()
    costs = dataset.costs[build].mean(axis=0).tolist()
    answering = [j for j, name in enumerate(names) if name != REJECT]
    return min(answering, key=lambda j: (-right[j], costs[j], names[j]))


def _describe_classifier(dataset: Trace, times: tuple[Floats, Floats], j: int, share: float) -> Classifier:
    spec, (mean, worst) = dataset.spec.classifiers[j], (float(each[j]) for each in times)
    return Classifier(
        name=spec.name, execution_time=mean, success_probability=share, group=spec.group, worst_case_time=worst
    )


def share_setup(dataset: Trace, rows: Int64s, columns: Int64s, quantile: float) -> SharedSetup:
    """Return the set-up groups of some classifiers, with their costs in some rows and their worst-case times."""
    if not dataset.spec.setup:
        return NO_SETUP
    shared = share_setup_of_rows(dataset, columns).take_rows(rows)
    worst = np.array([measure_execution_times(own, quantile)[1] for own in shared.costs.T])
    return SharedSetup(shared.groups, shared.costs, worst)


def measure_times(dataset: Trace, rows: Int64s, columns: Int64s, quantile: float) -> tuple[Floats, Floats]:
    """Return the mean and the worst-case times of classifiers alone, (n,) each, with their set-up groups.

    Worst-case times of a classifier and of its groups are separate quantiles, so sums of them are upper bounds for
    every set of classifiers.
    """
    own = dataset.separate_costs
    times = np.array([measure_execution_times(own[rows, j], quantile) for j in columns.tolist()])
    if dataset.spec.setup:
        setup = np.array([measure_execution_times(each, quantile) for each in dataset.setup_costs[rows].T])
        times += SetupGroups.from_spec(dataset.spec).members[:, columns].T @ setup
    return times[:, 0], times[:, 1]


def select_replay_rows(dataset: Trace, measured: MeasuredClassifiers, rows: Int64s) -> ReplayRows:
    """Return rows of the trace with the columns of usable classifiers only."""
    return ReplayRows.from_trace(dataset, rows, measured.columns, measured.thresholds)
