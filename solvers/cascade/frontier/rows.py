"""Replay of a threshold cascade on rows of a trace, by calibrated or raw confidence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats, Int64s
from solvers.shared_setup import NO_SETUP, SharedSetup

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
    by_label: tuple[tuple[float, ...], ...] = ()
    """Thresholds by predicted label, L per member but the last; (): they do not depend on the label."""

    def list_thresholds(self) -> list[Floats]:
        """Return the thresholds of each member but the last, (L + 1,) or (1,): by label, and for other labels."""
        by_label = self.by_label or ((),) * len(self.thresholds)
        return [np.array([*own, common]) for own, common in zip(by_label, self.thresholds, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class CalibratedRows:
    """Outcomes of n classifiers on N rows, with confidences that are calibrated or raw.

    Attributes:
        confidences: (N, n).
        wrong: (N, n), 1 minus answer quality.
        costs: (N, n), of each classifier alone, with its set-up groups.
        worst: (n,), worst-case times of each classifier alone.
        has_confidence: (n,), whether a classifier returns confidences; one without confidences must be called last.
        items: (N,), equal for rows of one item.
        labels: (N, n), codes of predicted labels; -1 for none.
        setup: set-up groups of the classifiers.
    """

    confidences: Floats
    wrong: Floats
    costs: Floats
    worst: Floats
    has_confidence: Bools
    items: Int64s
    labels: Int64s
    setup: SharedSetup = NO_SETUP

    def take(self, rows: Int64s) -> "CalibratedRows":
        """Return some of the rows."""
        return CalibratedRows(
            self.confidences[rows],
            self.wrong[rows],
            self.costs[rows],
            self.worst,
            self.has_confidence,
            self.items[rows],
            self.labels[rows],
            self.setup.take_rows(rows),
        )

    def price_call(self, members: Sequence[int], at: int) -> Floats:
        """Return the cost of a call of a cascade, (N,): calls before it have set up their groups."""
        alone = self.costs[:, members[at]]
        return (
            alone
            if not len(self.setup)
            else np.asarray(alone - self.setup.compute_saved_costs(members[at], members[:at]))
        )

    def replay_rows(self, cascade: ThresholdCascade) -> tuple[Floats, Floats, list[float]]:
        """Replay every row.

        Return the cost, (N,), and error, (N,), of each row, and the share of rows that reach each member.

        Complexity: O(N) per member.
        """
        n = len(self.wrong)
        cost, wrong, reaching = np.zeros(n), np.zeros(n), []
        waiting = np.arange(n)
        for at, (k, thresholds) in enumerate(zip(cascade.members, (*cascade.list_thresholds(), None), strict=True)):
            reaching.append(len(waiting) / n)
            cost[waiting] += self.price_call(cascade.members, at)[waiting]
            accepted = np.ones(len(waiting), dtype=bool)
            if thresholds is not None:
                own = thresholds[self.labels[waiting, k]] if cascade.by_label else thresholds[0]
                accepted = self.confidences[waiting, k] >= own
            wrong[waiting[accepted]] = self.wrong[waiting[accepted], k]
            waiting = waiting[~accepted]
        return cost, wrong, reaching

    def mean_outcome(self, cascade: ThresholdCascade) -> tuple[float, float]:
        """Return the mean cost and the mean error of a cascade."""
        cost, wrong, _ = self.replay_rows(cascade)
        return float(cost.mean()), float(wrong.mean())

    def maximum_duration(self, members: Sequence[int]) -> float:
        """Return the sum of worst-case times; each set-up group counts once."""
        alone = math.fsum(self.worst[list(members)].tolist())
        return alone - float(self.setup.sum_saved_worst(np.isin(np.arange(len(self.worst)), list(members))))
