"""Sequential tests of differences between two arms; valid at all times, however often they are read.

Outcomes of the two arms arrive in any order. Each arm fills blocks, whose sizes depend on its share. One block of each
arm forms a pair of means. For example, if one outcome in ten is the candidate's, each is compared with nine of the
active version. Only a few blocks may wait for the other arm, so the blocks of a pair are from about the same time. So
changes that affect both arms cancel out.

A test bets on the pairs. Under the hypothesis, its wealth is a nonnegative supermartingale. So the probability that the
wealth ever reaches 1/a is at most a (Ville's inequality). Wealth is averaged over bets of several sizes, so no size
must be tuned.

Sources: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (JRSS B, 2024), for the bets
and the confidence sequence; Ramdas et al., "Game-theoretic statistics and safe anytime-valid inference" (2023).
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from models.arrays import Floats

BETS = 16
MAX_BLOCKS = 10
"""Blocks of an arm that wait for later outcomes of the other one. More would compare different times."""
MAX_BET_SHARE = 0.9
"""Share of the wealth that the largest bet can lose at once."""
BET_RATIO = 2.0 ** (-2 / 3)
"""Of the size of each bet to that of the next larger one; the smallest is a thousandth of the largest."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """The hypothesis that the mean of ``active * a + candidate * c + margin`` is at most 0.

    Attributes:
        active, candidate: factors of the outcomes a and c of the two arms, which are in [0, 1].
    """

    active: float
    candidate: float
    margin: float = 0.0

    def score_pairs(self, active: Floats, candidate: Floats) -> Floats:
        """Return the values whose mean is at most 0 under the hypothesis, in the shape of the arguments."""
        return self.active * active + self.candidate * candidate + self.margin

    @property
    def bets(self) -> Floats:
        """Sizes of the bets, (BETS,), such that no wealth becomes negative."""
        lowest = min(self.active, 0.0) + min(self.candidate, 0.0) + self.margin
        return np.asarray(MAX_BET_SHARE / max(-lowest, 1e-9) * BET_RATIO ** np.arange(BETS))


def make_noninferiority_null(max_loss: float) -> Hypothesis:
    """Return the null hypothesis that the candidate's mean is lower by ``max_loss`` or more.

    Its rejection proves that the candidate is not worse.
    """
    return Hypothesis(active=-1.0, candidate=1.0, margin=max_loss)


def make_inferiority_null(max_loss: float) -> Hypothesis:
    """Return the null hypothesis that the candidate's mean is lower by at most ``max_loss``.

    Its rejection proves that the candidate is worse.
    """
    return Hypothesis(active=1.0, candidate=-1.0, margin=-max_loss)


def make_savings_null(min_saving: float) -> Hypothesis:
    """Return the null hypothesis that the candidate saves at most this share of the cost.

    Its rejection proves that it saves more.
    """
    return Hypothesis(active=1.0 - min_saving, candidate=-1.0)


def make_extra_cost_null(max_extra: float) -> Hypothesis:
    """Return the null hypothesis that the candidate's cost is higher by at most this share.

    Its rejection proves that it costs more.
    """
    return Hypothesis(active=-(1.0 + max_extra), candidate=1.0)


def place_bets(log_wealth: Floats, scores: Floats, bets: Floats) -> Floats:
    """Return the logarithm of the wealth of each bet, (..., BETS), after scores of shape (...)."""
    return np.asarray(log_wealth + np.log1p(np.multiply.outer(scores, bets)))


def log_evidence(log_wealth: Floats) -> Floats:
    """Return the logarithm of the mean wealth of the bets, the e-value of the test; shape (...)."""
    largest = log_wealth.max(axis=-1)
    return np.asarray(largest + np.log(np.exp(log_wealth - largest[..., None]).mean(axis=-1)))


@dataclass(slots=True)
class SequentialTest:
    """State of the test of one hypothesis.

    Attributes:
        log_wealth: logarithms of the wealth of each bet.
        peak: largest logarithm of the e-value so far.
    """

    log_wealth: tuple[float, ...] = (0.0,) * BETS
    peak: float = 0.0

    def observe_pair(self, hypothesis: Hypothesis, active: float, candidate: float) -> None:
        """Bet on a pair of means in [0, 1]. O(BETS)."""
        score = hypothesis.score_pairs(np.array(active), np.array(candidate))
        wealth = place_bets(np.array(self.log_wealth), score, hypothesis.bets)
        self.log_wealth = tuple(wealth.tolist())
        self.peak = max(self.peak, float(log_evidence(wealth)))

    @property
    def evidence(self) -> float:
        """The current e-value."""
        return math.exp(min(float(log_evidence(np.array(self.log_wealth))), 700.0))

    def is_rejected(self, error_rate: float) -> bool:
        """Return whether the hypothesis was ever rejected.

        The probability of rejecting a true hypothesis is at most ``error_rate``.
        """
        return self.peak >= -math.log(error_rate)


@dataclass(slots=True)
class ConfidenceSequence:
    """Confidence interval of the mean of values in [0, 1], valid at all times simultaneously.

    It is an empirical Bernstein bound.
    """

    count: int = 0
    total: float = 0.0
    squares: float = 0.25
    """Sum of squared deviations from the mean before each value, and 1/4."""
    weights: float = 0.0
    weighted: float = 0.0
    spread: float = 0.0

    def observe_value(self, value: float, error_rate: float) -> None:
        """Add a value."""
        mean = (0.5 + self.total) / (self.count + 1)
        variance = self.squares / (self.count + 1)
        after = self.count + 1
        weight = min(math.sqrt(2 * math.log(2 / error_rate) / (variance * after * math.log(1 + after))), 0.5)
        self.weights += weight
        self.weighted += weight * value
        self.spread += (value - mean) ** 2 * (-math.log1p(-weight) - weight)
        self.count, self.total = after, self.total + value
        self.squares += (value - (0.5 + self.total) / (after + 1)) ** 2

    def find_interval(self, error_rate: float) -> tuple[float, float]:
        """Return the interval, within [0, 1].

        For independent values, the probability that it misses the mean is ``error_rate``.
        """
        if not self.count:
            return 0.0, 1.0
        center = self.weighted / self.weights
        radius = (math.log(2 / error_rate) + self.spread) / self.weights
        return max(center - radius, 0.0), min(center + radius, 1.0)


@dataclass(slots=True)
class VersionOutcomes:
    """Outcomes of a version: their sums, and blocks that are not yet part of a pair.

    Attributes:
        full_blocks: number of full blocks so far.
        block_count, block_total: number and sum of the outcomes in the block that is being filled.
        blocks: means of full blocks that wait for the other arm, oldest first.
    """

    count: int = 0
    total: float = 0.0
    full_blocks: int = 0
    block_count: int = 0
    block_total: float = 0.0
    blocks: list[float] = field(default_factory=list)

    def add(self, value: float, block_size: float) -> None:
        """Add an outcome.

        block_size: mean size of blocks, at least 1.
        """
        self.count, self.total = self.count + 1, self.total + value
        self.block_count, self.block_total = self.block_count + 1, self.block_total + value
        size = round((self.full_blocks + 1) * block_size) - round(self.full_blocks * block_size)
        if self.block_count >= size:
            self.blocks.append(self.block_total / self.block_count)
            self.full_blocks += 1
            self.block_count, self.block_total = 0, 0.0


def pair_outcomes(
    active: VersionOutcomes, candidate: VersionOutcomes, outcomes: Iterable[tuple[bool, float]], share: float
) -> Iterator[tuple[float, float]]:
    """Add outcomes in [0, 1], and yield each new pair of block means: active version, candidate.

    Blocks without a pair wait for later outcomes; only the newest ``MAX_BLOCKS`` are kept.

    Args:
        outcomes: (whether it is the candidate's, value) of each outcome, in order of arrival.
        share: share of the candidate's outcomes; it determines the sizes of the blocks.
    """
    sizes = max((1 - share) / share, 1.0), max(share / (1 - share), 1.0)
    for is_candidate, value in outcomes:
        (candidate if is_candidate else active).add(value, sizes[is_candidate])
        if active.blocks and candidate.blocks:
            yield active.blocks.pop(0), candidate.blocks.pop(0)
    for arm in (active, candidate):
        del arm.blocks[:-MAX_BLOCKS]
