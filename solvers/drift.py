"""Drift detection: compare outcomes with expected means and with earlier outcomes.

Each quantity of a version (accuracy, coverage, cost, time) and the accuracy of each of its classifiers is a stream of
outcomes with a separate change detector (``solvers/change_detection.py``). OCCAM (Section 6) names drift as an open
problem: its guarantee holds only while queries have the distribution of the samples.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from models.arrays import Floats
from solvers.change_detection import (
    WINDOW,
    ChangePointTest,
    Likelihood,
    OutcomeBlocks,
    allow_short_runs,
    append_outcomes,
    log_likelihood_ratio,
    scan_blocks,
)
from solvers.statistics import normal_interval, wilson_interval

FALSE_ALARM_RATE = 1e-5
"""Upper bound of false alarms per outcome without drift, of all detectors of a version together (by simulation)."""
LIMITS = {
    "accuracy": {"below": 8.0, "above": 10.0},
    "coverage": {"below": 10.0, "above": 10.0},
    "cost": {"above": 10.0},
    "time": {"above": 10.0},
    "classifiers": {"below": 10.0, "above": 10.0},
}
"""Log-likelihood ratios, in nats, that raise an alarm. A cost or time below its estimate is reported, not tested."""
LIKELIHOODS: Mapping[str, Likelihood] = {"cost": "gamma", "time": "gamma"}
"""Every other quantity is a share."""
EVALUATION_STEP = 100
"""The detectors are evaluated after at most this number of outcomes."""
SHARE_BIAS, RATIO_BIAS = 0.003, 0.01
"""Standard deviation of the bias of a promised share, and of a promised cost or time as a multiple of itself."""
MAX_RATIO = 20.0
"""A single outcome counts for at most this multiple of its estimate: one wrong clock raises no alarm."""
DETECTED_ACCURACY_DROPS = (0.02, 0.05, 0.1)
"""Falls of accuracy for which a report gives the number of outcomes until the alarm."""
DETECTION_PROBABILITY = 0.9
_Z_DETECTED = NormalDist().inv_cdf(DETECTION_PROBABILITY)


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """One metric of n outcomes in order; all arrays have shape (n,).

    Attributes:
        number: number of the outcome in its version, from 1.
        at: arrival time in seconds.
        estimated: expected value; NaN if there is none.
        realized: observed value.
        evidence_rows: number of rows that the expected value was measured on; 0 if unknown.
    """

    number: Floats
    at: Floats
    estimated: Floats
    realized: Floats
    evidence_rows: Floats


@dataclass(frozen=True, slots=True)
class DetectedChange:
    """A drift alarm: a mean that changed.

    Attributes:
        rises: whether the mean rose.
        first: number of the first outcome after the estimated change point.
        at: time of this outcome, in seconds.
        detected: number of the outcome that raised the alarm.
        before: mean of the reference; cost and time as multiples of the estimates.
        after: mean since the change, in the same units.
    """

    rises: bool
    first: int
    at: float
    detected: int
    before: float
    after: float


def count_answered(items: int, coverage: float | None) -> int:
    """Return the number of answered items behind an accuracy.

    >>> count_answered(400, 0.1), count_answered(400, None), count_answered(0, 0.1)
    (40, 400, 0)
    """
    return items if coverage is None or not items else max(round(items * coverage), 1)


def count_prior_rows(share: Floats, evidence_rows: Floats) -> Floats:
    """Return the number of outcomes that an expected share counts as: fewer than its rows, because the share may be
    biased.

    >>> count_prior_rows(np.array([0.9, 0.9, 0.9]), np.array([100.0, 2000.0, 0.0])).round().tolist()
    [99.0, 1667.0, 10000.0]
    """
    return _weigh_rows(np.maximum(share * (1 - share), 0.01), evidence_rows, SHARE_BIAS)


def _weigh_rows(variance: Floats, evidence_rows: Floats, bias: float) -> Floats:
    sampling = np.divide(variance, evidence_rows, out=np.zeros(len(evidence_rows)), where=evidence_rows > 0)
    return np.asarray(variance / (sampling + bias**2))


def start_from_dataset(accuracy: float, rows: int) -> OutcomeBlocks:
    """Return the initial stream of a classifier with an accuracy measured on a dataset."""
    size = count_prior_rows(np.array([accuracy]), np.array([float(rows)]))
    nothing = np.zeros(1)
    return OutcomeBlocks(size, nothing, nothing, size * accuracy, size * accuracy, nothing, nothing)


def detect_changes(
    quantity: str, blocks: OutcomeBlocks, outcomes: Outcomes, streams: int = 1
) -> tuple[OutcomeBlocks, tuple[DetectedChange, ...]]:
    """Append outcomes to a stream and return it with the changes found; the detector restarts after each change.

    After a change, the outcomes since the change are the only reference; the expected mean is no longer used.

    Args:
        streams: number of streams of this quantity, among which its rate of false alarms is divided.
    """
    changes, added = [], _to_blocks(quantity, outcomes)
    for start in range(0, len(added.size), EVALUATION_STEP):
        step = slice_blocks(added, slice(start, start + EVALUATION_STEP))
        if len(blocks.size) and not blocks.rows[0]:
            step = replace(step, rows=np.zeros(len(step.size)))
        blocks = append_outcomes(blocks, step)
        change, cut = _find_change(quantity, blocks, streams)
        if change is not None:
            changes.append(replace(change, detected=int(step.first[-1])))
            since = slice_blocks(blocks, slice(cut, None))
            blocks = replace(since, rows=np.zeros(len(since.size)))
    return blocks, tuple(changes)


def _to_blocks(quantity: str, outcomes: Outcomes) -> OutcomeBlocks:
    is_ratio = LIKELIHOODS.get(quantity) == "gamma"
    kept = outcomes.estimated > 0 if is_ratio else ~np.isnan(outcomes.estimated)
    estimated, realized, evidence_rows = outcomes.estimated[kept], outcomes.realized[kept], outcomes.evidence_rows[kept]
    if is_ratio:
        realized = np.minimum(realized, MAX_RATIO * estimated) / estimated
        rows, estimated = _weigh_rows(np.full(len(realized), 0.25), evidence_rows, RATIO_BIAS), np.ones(len(realized))
    elif quantity == "classifiers":
        rows = np.zeros(len(realized))
    else:
        rows = count_prior_rows(estimated, evidence_rows)
    ones = np.ones(len(realized))
    return OutcomeBlocks(ones, outcomes.number[kept], outcomes.at[kept], realized, realized**2, estimated, rows)


def slice_blocks(blocks: OutcomeBlocks, selected: slice) -> OutcomeBlocks:
    """Return some of the blocks."""
    return OutcomeBlocks(*(getattr(blocks, name)[selected] for name in OutcomeBlocks.__slots__))


def _find_change(quantity: str, blocks: OutcomeBlocks, streams: int) -> tuple[DetectedChange | None, int]:
    likelihood = LIKELIHOODS.get(quantity, "bernoulli")
    for direction, limit in LIMITS[quantity].items():
        scan: ChangePointTest = scan_blocks(blocks, likelihood, rising=direction == "above")
        if scan.ratio >= limit + math.log(streams):
            cut = int(scan.cut)
            first, at = int(blocks.first[cut]), float(blocks.at[cut])
            return DetectedChange(direction == "above", first, at, 0, float(scan.before), float(scan.after)), cut
    return None, 0


def count_reference(blocks: OutcomeBlocks) -> float:
    """Return the number of outcomes that the reference counts as: observed outcomes plus the rows of the expected
    mean."""
    size = float(blocks.size.sum())
    return size + float(blocks.rows.sum()) / size if size else 0.0


def reference_mean(blocks: OutcomeBlocks) -> float:
    """Return the reference mean of the expected and the observed outcomes."""
    size, realized, promised = (float(each.sum()) for each in (blocks.size, blocks.realized, blocks.promised))
    return promised / size + (realized - promised) / count_reference(blocks)


def estimate_detection_delay(fall: float, expected: float, reference: float) -> int | None:
    """Return the number of outcomes until a fall of accuracy is detected with 90 % probability; None beyond the window.

    Args:
        fall: difference by which the true accuracy is below ``expected``.
        reference: the number of outcomes that the reference counts as (``count_reference``).

    >>> estimate_detection_delay(0.1, 0.9, 2000.0), estimate_detection_delay(0.02, 0.9, 100.0)
    (399, None)
    """
    if not reference:
        return None
    accuracy = expected - fall

    def is_detected(count: int) -> bool:
        spread = expected * (1 - expected) / reference + accuracy * (1 - accuracy) / count
        share = min(accuracy + _Z_DETECTED * math.sqrt(spread), expected)
        arrays = (np.array([value]) for value in (expected, reference, share, float(count)))
        ratio = log_likelihood_ratio("bernoulli", *arrays) - allow_short_runs(
            np.array([reference]), np.array([float(count)])
        )
        return bool(ratio[0] >= LIMITS["accuracy"]["below"])

    return bisect_left(range(1, WINDOW), True, key=is_detected) + 1 if is_detected(WINDOW) else None


def sum_moments(quantity: str, estimated: Floats, realized: Floats) -> dict[str, float]:
    """Return sums of estimates, observations, and their squares; outcomes without an estimate are summed separately."""
    known = ~np.isnan(estimated)
    sums = _moments(f"{quantity}.with", realized[known]) | _moments(f"{quantity}.alone", realized[~known])
    return sums | ({f"{quantity}.estimated": math.fsum(estimated[known].tolist())} if known.any() else {})


def _moments(name: str, values: Floats) -> dict[str, float]:
    if not len(values):
        return {}
    squares = math.fsum((values * values).tolist())
    return {f"{name}.n": len(values), f"{name}.sum": math.fsum(values.tolist()), f"{name}.squares": squares}


@dataclass(frozen=True, slots=True)
class ComparedMetric:
    """Estimated and actual mean of a metric, with bounds; None if there are too few outcomes."""

    outcomes: int
    estimated: float | None
    actual: float | None
    low: float | None
    high: float | None


def compare_moments(quantity: str, sums: Mapping[str, float]) -> ComparedMetric:
    """Compare estimated and observed means, over outcomes with estimates if there are any.

    Bounds are 95 % confidence intervals: Wilson's for shares, else normal.
    """
    estimated = sums.get(f"{quantity}.estimated")
    kind = "alone" if estimated is None else "with"
    n, total, squares = (sums.get(f"{quantity}.{kind}.{name}", 0.0) for name in ("n", "sum", "squares"))
    if not n:
        return ComparedMetric(0, None, None, None, None)
    mean = total / n
    low, high = _normal(mean, n, squares) if quantity in LIKELIHOODS else wilson_interval(mean, float(n))
    return ComparedMetric(int(n), None if estimated is None else estimated / n, mean, low, high)


def _normal(mean: float, n: float, squares: float) -> tuple[float | None, float | None]:
    if n < 2:
        return None, None
    return normal_interval(mean, math.sqrt(max(squares / n - mean * mean, 0.0) / (n - 1)))
