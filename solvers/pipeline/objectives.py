"""How good configurations are: conclusiveness, conclusive accuracy and cost (EMSCO, Section 2.2), by counting bits.

A row goes from stage to stage until one accepts its prediction; it pays for the features of every stage it reaches,
even if none accepts it in the end. Counts are whole numbers and sums of costs are exact (``prices``), so equal
configurations have equal objectives.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.errors import Fault, InvalidRequest
from solvers.pipeline.bank import ACCEPTED, ALARM, RIGHT, Bank, Thresholds
from solvers.pipeline.bits import Words, count, pack
from solvers.pipeline.chromosomes import Chromosomes, checked, stage_masks
from solvers.pipeline.prices import Prices

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

AT_ONCE = 2048
"""Configurations that are evaluated together: enough to make up for numpy's overhead."""


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """What configurations achieve on the evaluation rows. covered, right: (c,) int64 rows accepted, and accepted
    rightly; cost: (c,) float64 mean; alarms: (c,) negative rows accepted as positive, of so many ``negatives``, if a
    positive class was named."""

    rows: int
    covered: Ints
    right: Ints
    cost: Floats
    alarms: Ints | None = None
    negatives: int = 0

    @property
    def coverage(self) -> Floats:
        """Conclusiveness, g1 (Eq. 3)."""
        return np.asarray(self.covered / self.rows)

    @property
    def accuracy(self) -> Floats:
        """Conclusive accuracy, g2 (Eq. 4); 0 where no row is covered."""
        return np.asarray(self.right / np.maximum(self.covered, 1))

    @property
    def false_positive_rate(self) -> Floats:
        """The share of negative rows accepted as positive; 0 where there are none, or no class is positive."""
        alarms = np.zeros(len(self.cost)) if self.alarms is None else self.alarms
        return np.asarray(alarms / max(self.negatives, 1))

    def maximised(self) -> Floats:
        """Stack the objectives as numbers to maximise: (c, 3) coverage, accuracy and -cost; with alarms (c, 4)."""
        columns = [self.coverage, self.accuracy, -self.cost]
        return np.column_stack(columns if self.alarms is None else [*columns, 1 - self.false_positive_rate])

    def norms(self) -> Floats:
        """Give the l2 norm of the objectives within [0, 1], with inverse cost normalised among these (Section 3.3)."""
        parts = [self.coverage, self.accuracy, inverse_cost(self.cost)]
        if self.alarms is not None:
            parts.append(1 - self.false_positive_rate)
        return np.asarray(np.sqrt(sum(part * part for part in parts)))

    def take(self, places: Ints) -> "Scores":
        """Take some of the configurations."""
        alarms = None if self.alarms is None else self.alarms[places]
        return Scores(self.rows, self.covered[places], self.right[places], self.cost[places], alarms, self.negatives)

    def joined(self, other: "Scores") -> "Scores":
        """Append those of other configurations on the same rows."""
        both = None if self.alarms is None or other.alarms is None else np.concatenate((self.alarms, other.alarms))
        return Scores(
            self.rows,
            np.concatenate((self.covered, other.covered)),
            np.concatenate((self.right, other.right)),
            np.concatenate((self.cost, other.cost)),
            both,
            self.negatives,
        )


def inverse_cost(cost: Floats) -> Floats:
    """Divide the least of these costs by each, g3 (Eq. 5). What costs nothing has 1, all else then 0.

    >>> inverse_cost(np.array([2.0, 4.0])).tolist(), inverse_cost(np.array([0.0, 4.0])).tolist()
    ([1.0, 0.5], [1.0, 0.0])
    """
    least = cost.min(initial=np.inf)
    return np.asarray(np.where(cost == least, 1.0, least / np.where(cost == least, 1.0, cost)))


@dataclass(frozen=True, slots=True, eq=False)
class Evaluator:
    """Evaluates chromosomes of n features on the rows of a bank, at a threshold; prices: of the n features."""

    bank: Bank
    prices: Prices
    threshold: Thresholds

    def __call__(self, chromosomes: Chromosomes) -> Scores:
        """Score chromosomes, (c, n), training the feature sets that are not known; gaps between stages do no harm.

        O(c (n k + k rows / 64)) time beside the training. Raises InvalidRequest for chromosomes that are none.
        """
        genes = checked(chromosomes)
        if genes.shape[1] != len(self.prices.of):
            told = f"have {genes.shape[1]} features, prices are of {len(self.prices.of)}"
            raise InvalidRequest.at(Fault(("chromosomes",), told))
        parts = [self._part(genes[i : i + AT_ONCE]) for i in range(0, max(len(genes), 1), AT_ONCE)]
        scores = parts[0]
        for part in parts[1:]:
            scores = scores.joined(part)
        return scores

    def _part(self, genes: Chromosomes) -> Scores:
        stages = max(int(genes.max(initial=0)) + 1, 1)
        masks, places = np.unique(stage_masks(genes, stages), return_inverse=True)
        votes = self.bank.votes(masks, self.threshold)
        paid = stage_prices(genes, stages, self.prices)
        return score(votes, places.reshape(len(genes), stages), paid, self)


def stage_prices(genes: Chromosomes, stages: int, prices: Prices) -> Floats:
    """Add up what each stage acquires, features by rising index: (c, n) to (c, stages) in units.

    >>> stage_prices(np.array([[1, 0, 1, -1]], dtype=np.int8), 2, Prices(np.array([1.0, 2.0, 4.0, 8.0]), 1.0)).tolist()
    [[2.0, 5.0]]
    """
    c, n = genes.shape
    columns = genes.astype(np.intp) % (stages + 1) + np.arange(c)[:, None] * (stages + 1)  # -1 takes the last column
    weights = np.broadcast_to(prices.of, (c, n)).ravel()
    sums = np.bincount(columns.ravel(), weights=weights, minlength=c * (stages + 1))
    return sums.reshape(c, stages + 1)[:, :stages].astype(np.float64, copy=False)


def score(votes: Words, places: Ints, paid: Floats, by: Evaluator) -> Scores:
    """Send all rows through configurations: votes (m, 2 or 3, words), the place in them of each stage's feature set and
    its price, (c, stages). After its last stage a configuration stays at its last set, which accepts no more."""
    rows = by.bank.rows
    rest = np.broadcast_to(pack(np.ones(rows, dtype=bool)), (len(places), votes.shape[2])).copy()
    reached = np.full(len(places), rows, dtype=np.int64)
    sums, right, alarms = np.zeros(len(places)), np.zeros(len(places), dtype=np.int64), np.zeros(len(places), np.int64)
    for stage in range(places.shape[1]):
        here = votes[places[:, stage]]
        sums += paid[:, stage] * reached
        right += count(rest & here[:, RIGHT])
        if votes.shape[1] > ALARM:
            alarms += count(rest & here[:, ALARM])
        rest &= ~here[:, ACCEPTED]
        reached = count(rest)
    cost = by.prices.mean(sums, rows)
    return Scores(rows, rows - reached, right, cost, alarms if votes.shape[1] > ALARM else None, by.bank.negatives)
