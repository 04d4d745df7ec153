"""What a cascade does with rows of a trace, where it accepts an answer from some chance of being right on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats, Int64s

NEVER_ACCEPT = np.inf
"""The threshold of a classifier that never answers."""


@dataclass(frozen=True, slots=True)
class ThresholdCascade:
    """Classifiers in calling order, as columns; each answer but the last's is accepted from its threshold on."""

    members: tuple[int, ...]
    thresholds: tuple[float, ...]
    """As many as members less one."""


@dataclass(frozen=True, slots=True, eq=False)
class CalibratedRows:
    """N rows and n classifiers. chances: how likely each is right, or its confidence; wrong: 1 less the quality of its
    answer; costs: (N, n) each. worst: (n,) what a deadline counts for each; unsure: (n,) whether it has chances, so
    that another may be asked after it; items: (N,) equal for rows of one item."""

    chances: Floats
    wrong: Floats
    costs: Floats
    worst: Floats
    has_confidence: Bools
    items: Int64s

    def take(self, rows: Int64s) -> "CalibratedRows":
        """Take some of the rows."""
        return CalibratedRows(
            self.chances[rows], self.wrong[rows], self.costs[rows], self.worst, self.has_confidence, self.items[rows]
        )

    def walk(self, cascade: ThresholdCascade) -> tuple[Floats, Floats, list[float]]:
        """Walk every row through a cascade: what each costs, (N,), how wrong its answer is, (N,), and the share of rows
        that reaches each member. O(N) a member."""
        n = len(self.wrong)
        cost, wrong, reaching = np.zeros(n), np.zeros(n), []
        waiting = np.arange(n)
        for k, threshold in zip(cascade.members, (*cascade.thresholds, -np.inf), strict=True):
            reaching.append(len(waiting) / n)
            cost[waiting] += self.costs[waiting, k]
            accepted = self.chances[waiting, k] >= threshold if threshold > -np.inf else np.ones(len(waiting), bool)
            wrong[waiting[accepted]] = self.wrong[waiting[accepted], k]
            waiting = waiting[~accepted]
        return cost, wrong, reaching

    def means(self, cascade: ThresholdCascade) -> tuple[float, float]:
        """Give the mean cost and the mean error of a cascade."""
        cost, wrong, _ = self.walk(cascade)
        return float(cost.mean()), float(wrong.mean())

    def maximum_duration(self, members: Sequence[int]) -> float:
        """Add up what a deadline counts."""
        return math.fsum(self.worst[list(members)].tolist())
