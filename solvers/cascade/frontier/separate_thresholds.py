"""Coordinate descent over one accept threshold per classifier.

A row that is answered at step j has the error of that answer. Any other row that reaches step j has the cost and error
of the later steps. With all other thresholds fixed, both are known for every row, so one pass over the rows by falling
confidence finds the best threshold of step j. No update increases ``error + price · cost`` on the rows, so the descent
terminates.
"""

from dataclasses import dataclass, replace

import numpy as np

from models.arrays import Bools, Floats, Int64s
from solvers.cascade.frontier.rows import NEVER_ACCEPT, CalibratedRows, ThresholdCascade

MAX_SWEEPS = 6
TIE_TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class RankedRows:
    """Rows with, for each classifier, their order by falling confidence and the ends of ties, (N, n) both."""

    rows: CalibratedRows
    order: Int64s
    ends: Bools

    @classmethod
    def from_rows(cls, rows: CalibratedRows) -> "RankedRows":
        """Sort the rows of each classifier by falling confidence; O(n N log N)."""
        order = np.argsort(-rows.confidences, axis=0, kind="stable")
        ranked = np.take_along_axis(rows.confidences, order, axis=0)
        ends = np.ones(ranked.shape, dtype=bool)
        ends[:-1] = ranked[1:] != ranked[:-1]
        return cls(rows, order, ends)

    def evaluate_objective(self, cascade: ThresholdCascade, price: float) -> float:
        """Return error + price · cost on the rows."""
        cost, error = self.rows.mean_outcome(cascade)
        return error + price * cost

    def improve(self, cascade: ThresholdCascade, price: float) -> ThresholdCascade:
        """Improve thresholds from last to first, and remove classifiers that never answer, until nothing changes.

        Complexity: O(N) per threshold and sweep.
        """
        for _ in range(MAX_SWEEPS):
            better = self._sweep(cascade, price)
            if better == cascade:
                break
            cascade = better
        return cascade

    def _sweep(self, cascade: ThresholdCascade, price: float) -> ThresholdCascade:
        members, thresholds = cascade.members, list(cascade.thresholds)
        waiting = self._find_waiting(members, thresholds)
        later = self.rows.wrong[:, members[-1]] + price * self.rows.price_call(members, len(thresholds))
        for j in reversed(range(len(thresholds))):
            k = members[j]
            gain = np.where(waiting[j], later - self.rows.wrong[:, k], 0.0)
            costs = self.rows.price_call(members, j)
            asking = price * float(costs[waiting[j]].sum())
            thresholds[j] = self._best_threshold(k, gain, asking, thresholds[j])
            if thresholds[j] == NEVER_ACCEPT:
                continue
            accepted = self.rows.confidences[:, k] >= thresholds[j]
            later = price * costs + np.where(accepted, self.rows.wrong[:, k], later)
        kept = [j for j, threshold in enumerate(thresholds) if threshold < NEVER_ACCEPT]
        return ThresholdCascade((*(members[j] for j in kept), members[-1]), tuple(thresholds[j] for j in kept))

    def _find_waiting(self, members: tuple[int, ...], thresholds: list[float]) -> list[Bools]:
        waiting, here = [], np.ones(len(self.rows.wrong), dtype=bool)
        for k, threshold in zip(members[:-1], thresholds, strict=True):
            waiting.append(here)
            here = here & (self.rows.confidences[:, k] < threshold)
        return waiting

    def _best_threshold(self, k: int, gain: Floats, asking: float, present: float) -> float:
        """Return the best accept threshold of a classifier.

        Return the present threshold if none is better, and ``NEVER_ACCEPT`` if the classifier should be removed.

        Args:
            gain: (N,), gain of accepting each row.
            asking: cost of calling the classifier.
        """
        order, ends = self.order[:, k], self.ends[:, k]
        sums = np.cumsum(gain[order])[ends] - asking
        best = int(sums.argmax())
        now = float(gain[self.rows.confidences[:, k] >= present].sum()) - asking
        if max(float(sums[best]), 0.0) <= now + TIE_TOLERANCE * len(gain):
            return present
        return float(self.rows.confidences[order[np.flatnonzero(ends)[best]], k]) if sums[best] > 0 else NEVER_ACCEPT


def list_neighbors(cascade: ThresholdCascade, rows: CalibratedRows) -> list[ThresholdCascade]:
    """Return cascades with one classifier added (in order of cost), one removed, or another last classifier."""
    members, thresholds = cascade.members, cascade.thresholds
    means = rows.costs.mean(axis=0)
    level = (
        float(np.median(thresholds or rows.confidences[:, rows.has_confidence]))
        if np.any(rows.has_confidence)
        else NEVER_ACCEPT
    )
    near = [
        replace(cascade, members=members[:j] + members[j + 1 :], thresholds=thresholds[:j] + thresholds[j + 1 :])
        for j in range(len(thresholds))
    ]
    for k in np.flatnonzero(np.isin(np.arange(len(means)), members, invert=True)).tolist():
        near.append(replace(cascade, members=(*members[:-1], k)))
        if rows.has_confidence[k]:
            at = sum(bool(means[one] < means[k]) for one in members[:-1])
            near.append(
                ThresholdCascade((*members[:at], k, *members[at:]), (*thresholds[:at], level, *thresholds[at:]))
            )
    return near
