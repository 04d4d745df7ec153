"""Replay of a threshold cascade on rows of a trace, by calibrated confidence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats, Int64s

NEVER_ACCEPT = np.inf
"""Threshold of a classifier that never answers."""


@dataclass(frozen=True, slots=True)
class ThresholdCascade:
    """Classifiers in calling order, as column indices, with accept thresholds.

    The answer of the last classifier is always accepted.
    """

    members: tuple[int, ...]
    thresholds: tuple[float, ...]
    """One threshold per member but the last."""


@dataclass(frozen=True, slots=True, eq=False)
class CalibratedRows:
    """Outcomes of n classifiers on N rows, with confidences that are calibrated or raw.

    Attributes:
        confidences: (N, n).
        wrong: (N, n), 1 minus answer quality.
        costs: (N, n).
        worst: (n,), worst-case times.
        has_confidence: (n,), whether a classifier returns confidences; one without confidences must be called last.
        items: (N,), equal for rows of one item.
    """

    confidences: Floats
    wrong: Floats
    costs: Floats
    worst: Floats
    has_confidence: Bools
    items: Int64s

    def take(self, rows: Int64s) -> "CalibratedRows":
        """Return some of the rows."""
        return CalibratedRows(
            self.confidences[rows],
            self.wrong[rows],
            self.costs[rows],
            self.worst,
            self.has_confidence,
            self.items[rows],
        )

    def replay_rows(self, cascade: ThresholdCascade) -> tuple[Floats, Floats, list[float]]:
        """Replay every row.

        Return the cost, (N,), and error, (N,), of each row, and the share of rows that reach each member.

        Complexity: O(N) per member.
        """
        n = len(self.wrong)
        cost, wrong, reaching = np.zeros(n), np.zeros(n), []
        waiting = np.arange(n)
        for k, threshold in zip(cascade.members, (*cascade.thresholds, -np.inf), strict=True):
            reaching.append(len(waiting) / n)
            cost[waiting] += self.costs[waiting, k]
            accepted = self.confidences[waiting, k] >= threshold if threshold > -np.inf else np.ones(len(waiting), bool)
            wrong[waiting[accepted]] = self.wrong[waiting[accepted], k]
            waiting = waiting[~accepted]
        return cost, wrong, reaching

    def mean_outcome(self, cascade: ThresholdCascade) -> tuple[float, float]:
        """Return the mean cost and the mean error of a cascade."""
        cost, wrong, _ = self.replay_rows(cascade)
        return float(cost.mean()), float(wrong.mean())

    def maximum_duration(self, members: Sequence[int]) -> float:
        """Return the sum of worst-case times."""
        return math.fsum(self.worst[list(members)].tolist())
