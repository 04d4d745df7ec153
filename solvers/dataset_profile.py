"""Profile of a dataset: accuracy, calibration, and agreement of classifiers; costs of features."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models import Dataset, FeatureTable, Trace
from models.arrays import Bools, Floats
from models.cost import CostFunction, Timings, cost_function
from models.dataset_profile import (
    Agreement,
    CalibrationBin,
    ClassifierProfile,
    ClassRows,
    FeatureProfile,
    FeaturesProfile,
    MeasuredCost,
    SetupProfile,
    TraceProfile,
)
from solvers.partial_traces import measure_classifiers
from solvers.statistics import compute_stable_mean

BINS = 10
RIGHT = 0.5
"""Quality from which an answer counts as correct in the agreement of classifiers."""
SIZES = 40
UNKNOWN_SIZES = (1.0, 1000.0)
"""Range of sizes where neither rows nor timings have any."""
MAX_ROWS_PER_CHUNK = 1 << 16
"""Rows compared at once; counts of as many are exact in single precision."""


def profile_dataset(dataset: Dataset) -> TraceProfile | FeaturesProfile:
    """Profile a dataset; O(n m²) for n rows and m classifiers of a trace.

    Raises InvalidRequest for timings at sizes that are too large to compute.
    """
    return _profile_trace(dataset) if isinstance(dataset, Trace) else _profile_features(dataset)


def _profile_trace(trace: Trace) -> TraceProfile:
    true_classes, profiles = int(trace.labels.max()) + 1, []
    called = trace.called if trace.is_partial else np.ones(trace.quality.shape, dtype=np.bool_)
    means = measure_classifiers(trace)
    for j, spec in enumerate(trace.spec.classifiers):
        own = called[:, j]
        sure = trace.confidences[own, j] if spec.confidence is not None else None
        profiles.append(
            ClassifierProfile(
                name=spec.name,
                group=spec.group,
                accuracy=means.accuracies[j],
                calls=int(own.sum()),
                effective_calls=means.effective_calls[j],
                mean_cost=means.costs[j],
                mean_confidence=None if sure is None else compute_stable_mean(sure),
                no_class=float((trace.predictions[own, j] >= true_classes).mean()),
                calibration=() if sure is None else calibration_bins(sure, trace.quality[own, j]),
            )
        )
    return TraceProfile(
        rows=trace.rows,
        unit=trace.spec.unit,
        classes=_classes(trace),
        classifiers=tuple(profiles),
        agreement=pairwise_agreement([each.name for each in profiles], trace.quality >= RIGHT, called),
    )


def calibration_bins(confidences: Floats, quality: Floats) -> tuple[CalibrationBin, ...]:
    """Return at most 10 calibration bins of about equal size; equal confidences share a bin.

    Args:
        confidences: (n,), finite.
        quality: (n,), in [0, 1].

    >>> bins = calibration_bins(np.array([0.9, 0.4, 0.9]), np.array([0, 1, 1]))
    >>> [(each.low, each.accuracy, each.rows) for each in bins]
    [(0.4, 1.0, 1), (0.9, 0.5, 2)]
    """
    order = np.argsort(confidences, kind="stable")
    rising, right = confidences[order], quality[order]
    n = len(order)
    highest = rising[[(share * n + BINS - 1) // BINS - 1 for share in range(1, BINS + 1)]]
    ends = np.unique(np.searchsorted(rising, highest, side="right")).tolist()
    return tuple(
        CalibrationBin(
            low=float(rising[start]),
            high=float(rising[end - 1]),
            confidence=compute_stable_mean(rising[start:end]),
            accuracy=float(right[start:end].mean()),
            rows=end - start,
        )
        for start, end in zip([0, *ends], ends, strict=False)
    )


def pairwise_agreement(names: Sequence[str], correct: Bools, called: Bools) -> Agreement:
    """Count how often each classifier is correct when another one is wrong, among rows in which both were called.

    Args:
        correct: (n, m), false if a classifier was not called.
        called: (n, m).

    >>> correct = np.array([[True, False], [False, False], [True, True]])
    >>> pairwise_agreement(["a", "b"], correct, np.ones((3, 2), dtype=bool)).right
    ((0, 1), (0, 0))
    """
    right = np.zeros((len(names), len(names)), dtype=np.int64)
    for start in range(0, len(correct), MAX_ROWS_PER_CHUNK):
        part = correct[start : start + MAX_ROWS_PER_CHUNK].astype(np.float32)
        right += (part.T @ (called[start : start + MAX_ROWS_PER_CHUNK] - part)).astype(np.int64)
    wrong = tuple((called & ~correct).sum(axis=0).tolist())
    counts = tuple(tuple(row) for row in right.tolist())
    shares = tuple(tuple(count / of if of else None for count, of in zip(row, wrong, strict=True)) for row in counts)
    return Agreement(classifiers=tuple(names), wrong=wrong, right=counts, share=shares)


def _profile_features(table: FeatureTable) -> FeaturesProfile:
    functions = {each.name: cost_function(each.cost)[0] for each in table.spec.cost_specs}
    depending = [function.dimensions for function in functions.values() if function.depends_on_size]
    sizes = _sizes(table) if depending else np.empty(0)
    return FeaturesProfile(
        rows=table.rows,
        unit=table.spec.unit,
        classes=_classes(table),
        dimensions=max(depending, default=0),
        sizes=sizes.tolist(),
        features=tuple(
            FeatureProfile(
                **_describe_cost(feature.name, functions[feature.name], sizes),
                columns=feature.columns,
                timings=_timings(feature.cost),
            )
            for feature in table.spec.features
        ),
        setup=tuple(
            SetupProfile(**_describe_cost(group.name, functions[group.name], sizes), features=group.features)
            for group in table.spec.setup
        ),
    )


def _describe_cost(name: str, function: CostFunction, sizes: Floats) -> dict[str, Any]:
    """Return the fields of ``CostProfile``."""
    constant = None if function.depends_on_size else _constant(function)
    return {"name": name, "cost": constant, "costs": _costs(function, sizes)}


def _sizes(table: FeatureTable) -> Floats:
    """Return log-spaced sizes over the range of the rows and the timings."""
    timed = [row[:-1] for each in table.spec.cost_specs for row in getattr(each.cost, "timings", ())]
    known = [*table.sizes.ravel().tolist(), *(size for sizes in timed for size in sizes)]
    least, most = (min(known), max(known)) if known else UNKNOWN_SIZES
    if least == most:
        return np.array([least])
    return np.clip(np.geomspace(least, most, SIZES), least, most)


def _constant(function: CostFunction) -> float:
    return float(function(np.ones(function.dimensions)))


def _costs(function: CostFunction, sizes: Floats) -> tuple[float | None, ...]:
    """Evaluate a cost at sizes equal in all dimensions; None where it is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        at_sizes = function(np.repeat(sizes[:, None], function.dimensions, axis=1))
    return tuple(cost if np.isfinite(cost) else None for cost in at_sizes.tolist())


def _timings(cost: Any) -> tuple[MeasuredCost, ...]:
    if not isinstance(cost, Timings):
        return ()
    return tuple(MeasuredCost(size=row[0], cost=row[-1]) for row in cost.timings if len(set(row[:-1])) == 1)


def _classes(dataset: Dataset) -> tuple[ClassRows, ...]:
    if not dataset.classes:
        return ()
    counts = np.bincount(dataset.labels, minlength=len(dataset.classes)).tolist()
    return tuple(ClassRows(name=name, rows=count) for name, count in zip(dataset.classes, counts, strict=True))
