"""Sequential change detection: a generalized likelihood-ratio (GLR) test over all recent change points.

At each candidate change point, the outcomes since then are compared with a reference. The reference consists of the
expected outcome, weighted by the rows that it was measured on, and of all outcomes before the candidate. Like CUSUM,
the test uses only outcomes after the candidate, so good outcomes before a change do not delay the alarm. The candidate
with the largest log-likelihood ratio is the estimated change point.

Shares (accuracy, coverage) have a Bernoulli likelihood; ratios of costs or times to their estimates have a gamma
likelihood whose dispersion is estimated. Memory is bounded: outcomes are kept as sums of adjacent blocks whose lengths
grow with their age.

Source: Siegmund and Venkatraman, "Using the generalized likelihood ratio statistic for sequential detection of a
change-point" (Annals of Statistics, 1995); blocks as in Bifet and Gavalda, "Learning from time-changing data with
adaptive windowing" (SDM 2007).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from models.arrays import Floats, Int64s

Likelihood = Literal["bernoulli", "gamma"]
WINDOW = 10_000
"""Change points older than this number of outcomes are not considered."""
MIN_BLOCK = 16
"""Outcomes of the smallest block; change points lie between blocks."""
RESOLUTION = 8
"""A block has at most 1/8 of the outcomes that came after it."""
SHORT_RUN = 200
"""Runs that are effectively shorter need a larger likelihood ratio, for there are more of them."""
PRIOR_DISPERSION_ROWS = 10.0
"""Weight, in outcomes, of a dispersion of 1 while few costs are known."""
MIN_DISPERSION = 0.01
"""Costs that hardly vary are treated as if they varied by a tenth of their mean."""


@dataclass(frozen=True, slots=True, eq=False)
class OutcomeBlocks:
    """Adjacent blocks of outcomes, the oldest first; further axes of arrays are streams.

    Attributes:
        size: (k,), outcomes per block.
        first: (k,), number of each block's first outcome.
        at: (k,), time of each block's first outcome, in seconds.
        realized: (k, ...), sum of the observed outcomes of a block.
        squares: (k, ...), sum of their squares.
        promised: (k, ...), sum of the expected outcomes.
        rows: (k, ...), sum of the rows that an expected outcome counts as.
    """

    size: Floats
    first: Floats
    at: Floats
    realized: Floats
    squares: Floats
    promised: Floats
    rows: Floats


@dataclass(frozen=True, slots=True, eq=False)
class ChangePointTest:
    """The test at the best change point of each stream: arrays of shape (...).

    Attributes:
        ratio: log-likelihood ratio minus the allowance for short runs, in nats.
        cut: index of the first block after the change.
        before: mean of the reference.
        after: mean of the outcomes since the change.
    """

    ratio: Floats
    cut: Int64s
    before: Floats
    after: Floats


def make_empty_blocks(streams: tuple[int, ...] = ()) -> OutcomeBlocks:
    """Return blocks without outcomes; streams: shape of the stream axes, () for one stream."""
    none, sums = np.zeros(0), np.zeros((0, *streams))
    return OutcomeBlocks(none, none, none, sums, sums, sums, sums)


def append_outcomes(blocks: OutcomeBlocks, added: OutcomeBlocks) -> OutcomeBlocks:
    """Append outcomes, given as blocks of one outcome or more, and merge old blocks.

    Complexity: O(number of blocks), which grows with the logarithm of the outcomes.
    """
    size = np.concatenate([blocks.size, added.size])
    start = _block_starts(size)
    sums = {
        name: np.add.reduceat(np.concatenate([getattr(blocks, name), getattr(added, name)]), start, axis=0)
        for name in ("realized", "squares", "promised", "rows")
    }
    first, at = (np.concatenate([getattr(blocks, name), getattr(added, name)])[start] for name in ("first", "at"))
    return OutcomeBlocks(np.add.reduceat(size, start), first, at, **sums)


def _block_starts(size: Floats) -> Int64s:
    """Return which blocks begin a merged one: greedily from the newest to the oldest."""
    starts, after, merged = [], 0.0, 0.0
    for place in range(len(size) - 1, -1, -1):
        limit = np.inf if after >= WINDOW else max(MIN_BLOCK, after / RESOLUTION)
        if merged and merged + size[place] > limit:
            starts.append(place + 1)
            after, merged = after + merged, 0.0
        merged += size[place]
    return np.array([0, *reversed(starts)], dtype=np.int64)


def scan_blocks(blocks: OutcomeBlocks, likelihood: Likelihood, *, rising: bool) -> ChangePointTest:
    """Return the most likely change point of each stream, for means that rise or fall.

    Complexity: O(number of blocks) for each stream.
    """
    after = [_sum_after(getattr(blocks, name)) for name in ("realized", "squares", "promised")]
    axes = (slice(None),) + (None,) * (blocks.realized.ndim - 1)
    count = np.cumsum(blocks.size[::-1])[::-1][axes]
    rows = blocks.rows.sum(axis=0) / count[0]
    before = [each[0] - each for each in after]
    reference = count[0] - count + rows
    if likelihood == "bernoulli":
        offset = _divide(before[0] - before[2], reference)
        expected = np.clip(after[2] / count + offset, 0.0, 1.0)
        mean, dispersion = after[0] / count, np.ones(1)
    else:
        expected, mean = _divide(before[0] + rows, reference), after[0] / count
        dispersion = _dispersion(before, after, count[0] - count, count)
    ratio = log_likelihood_ratio(likelihood, expected, reference, mean, count) / dispersion
    ratio = np.where((reference > 0) & ((mean > expected) == rising), ratio, 0.0) - allow_short_runs(reference, count)
    cut = np.argmax(ratio, axis=0)
    ratio, expected, mean = (np.take_along_axis(a, cut[None], axis=0)[0] for a in (ratio, expected, mean))
    return ChangePointTest(ratio, cut, expected, mean)


def allow_short_runs(reference: Floats, count: Floats) -> Floats:
    """Return the allowance for short runs: the nats by which the log-likelihood ratio must be larger if few outcomes
    are compared."""
    effective = np.maximum(_divide(reference * count, reference + count), 1e-9)
    return np.asarray(1.5 * np.maximum(np.log(SHORT_RUN / effective), 0.0))


def _sum_after(values: Floats) -> Floats:
    return np.asarray(np.cumsum(values[::-1], axis=0)[::-1])


def _divide(numerator: Floats, denominator: Floats) -> Floats:
    quotient: Floats = np.zeros(np.broadcast_shapes(np.shape(numerator), np.shape(denominator)))
    np.divide(numerator, denominator, out=quotient, where=denominator > 0)
    return quotient


def _dispersion(before: list[Floats], after: list[Floats], earlier: Floats, later: Floats) -> Floats:
    """Return the squared coefficient of variation within the two parts, shrunk towards 1."""
    left, right = _divide(before[0], earlier), after[0] / later
    within = before[1] - earlier * left**2 + after[1] - later * right**2
    mean = np.maximum((before[0] + after[0]) / (earlier + later), 1e-12)
    shrunk = (PRIOR_DISPERSION_ROWS + within / mean**2) / (PRIOR_DISPERSION_ROWS + earlier + later)
    return np.asarray(np.maximum(shrunk, MIN_DISPERSION))


def log_likelihood_ratio(
    likelihood: Likelihood, expected: Floats, reference: Floats, mean: Floats, count: Floats
) -> Floats:
    """Return the log-likelihood ratio of two different means against one common mean, in nats."""
    pooled = (reference * expected + count * mean) / (reference + count)
    divergence = _divergence_of_shares if likelihood == "bernoulli" else _divergence_of_means
    return np.asarray(reference * divergence(expected, pooled) + count * divergence(mean, pooled))


def _divergence_of_shares(share: Floats, other: Floats) -> Floats:
    """Return the Kullback-Leibler divergence of Bernoulli distributions, in nats."""
    return _relative_entropy(share, other) + _relative_entropy(1 - share, 1 - other)


def _divergence_of_means(mean: Floats, other: Floats) -> Floats:
    """Return the Kullback-Leibler divergence of exponential distributions, in nats."""
    quotient = np.maximum(mean, 1e-12) / np.maximum(other, 1e-12)
    return np.asarray(quotient - 1 - np.log(quotient))


def _relative_entropy(share: Floats, other: Floats) -> Floats:
    return np.asarray(share * np.log(np.maximum(share, 1e-300) / np.maximum(other, 1e-300)))
