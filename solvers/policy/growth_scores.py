"""What further sensors are worth at a node of a grown graph: Newton steps on the node's cross-fitted posteriors.

The *own* gain of a sensor is what its bins lower the logarithmic loss by; the gain *ahead* adds, in each bin, the
sensor that then lowers it most. How much less one and the same sensor in all bins would add is what a sensor gains by
*steering*: a context that tells nothing by itself, but which sensor tells, is found so, even where what it leads to
pays only several sensors later.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from models.arrays import Bools, Floats, Int32s, Int64s, UInt8s

FINE_BINS, COARSE_BINS = 12, 6
"""Bins in which sensors are compared alone, and in pairs."""
RIDGE = 2.0
"""Added to the curvature of a cell, which pulls the steps of small cells towards 0."""
MAX_BINNING_ROWS = 20_000
"""Rows that bins are cut by."""
MAX_PAIR_UPDATES = 150_000_000
"""Sums that pairs are compared by at one node: rows are drawn so that there are not more of them."""
MIN_SCORED_ROWS, MAX_SCORED_ROWS = 1_000, 12_000
"""Rows of a node that sensors are compared on, in pairs, and the most of all."""
MIN_COST_SHARE = 1e-3
"""Of the mean cost: what sensors are taken to cost at least, so that a free one is not worth infinitely much."""


@dataclass(frozen=True)
class BinnedColumns:
    """Columns in bins. inputs: (n, D), as trees see them; owners: (D,) the sensor of each, M for those of an embedding;
    costs: (M,) of sensors."""

    inputs: Floats
    owners: Int32s
    costs: Floats

    @cached_property
    def fine(self) -> UInt8s:
        """(D, n) the bins in which sensors are compared alone."""
        return bin_columns(self.inputs, FINE_BINS)

    @cached_property
    def coarse(self) -> UInt8s:
        """(D, n) the bins in which pairs are compared, and rows are parted."""
        return bin_columns(self.inputs, COARSE_BINS)

    def columns_of(self, open_sensors: Bools) -> Int64s:
        """List the columns of some sensors, (M,)."""
        return np.flatnonzero(np.append(open_sensors, False)[self.owners])

    @cached_property
    def prices(self) -> Floats:
        """(M,) costs, none of them 0."""
        return np.maximum(self.costs, max(MIN_COST_SHARE * float(self.costs.mean()), 1e-200))


def bin_columns(columns: Floats, most: int) -> UInt8s:
    """Cut each of (n, D) columns at quantiles, or between its numbers if there are few different ones: (D, n).

    >>> bin_columns(np.array([[0.0], [5.0], [0.0], [7.0]]), 4).tolist()
    [[0, 1, 0, 2]]
    """
    bins = np.empty(columns.shape[::-1], dtype=np.uint8)
    for at, column in enumerate(np.ascontiguousarray(columns.T)):
        column_seen = column[:: 1 + len(column) // MAX_BINNING_ROWS]
        distinct = np.unique(column_seen)
        ends = distinct[:-1]
        if len(distinct) > most:
            ends = np.unique(np.quantile(column_seen, np.linspace(0, 1, most + 1)[1:-1], method="nearest"))
            ends = ends[ends < distinct[-1]]
        bins[at] = np.searchsorted(ends, column)
    return bins


@dataclass(frozen=True, slots=True, eq=False)
class LossGradients:
    """The logarithmic loss of some rows. g, h: (n, L) its slopes, downhill, and curvatures, one output for two classes;
    halves: (n,) which half of the rows each is in."""

    g: Floats
    h: Floats
    halves: UInt8s

    @classmethod
    def from_posteriors(cls, posteriors: Floats, labels: Int32s, halves: UInt8s) -> "LossGradients":
        """Differentiate at posteriors, (n, C).

        >>> halves = np.zeros(1, np.uint8)
        >>> LossGradients.from_posteriors(np.array([[0.25, 0.75]]), np.array([1], np.int32), halves).g.tolist()
        [[0.25]]
        """
        first = 1 if posteriors.shape[1] == 2 else 0
        truth = np.equal(labels[:, None], np.arange(first, posteriors.shape[1]))
        chances = posteriors[:, first:]
        return cls(truth - chances, chances * (1 - chances), halves)

    def take(self, rows: Int64s) -> "LossGradients":
        """Take some rows."""
        return LossGradients(self.g[rows], self.h[rows], self.halves[rows])


@dataclass(frozen=True, slots=True, eq=False)
class SensorGains:
    """What sensors are worth to some rows. gains: (M,) the log-loss that each lowers; prices: (M,) what it costs, with
    what follows; a sensor that is no choice gains -inf."""

    gains: Floats
    prices: Floats

    @property
    def rates(self) -> Floats:
        """(M,) gains for a unit of cost."""
        return np.asarray(self.gains / self.prices)

    @property
    def best(self) -> int:
        """The sensor that gains most for its price."""
        return int(self.rates.argmax())


def score_alone(scales: BinnedColumns, open_sensors: Bools, slopes: LossGradients, rows: Int64s) -> SensorGains:
    """Tell what sensors gain by themselves for some rows: O(D r L)."""
    return score_parts(scales, open_sensors, slopes, rows, np.zeros(len(rows), dtype=np.uint8))[0][0]


def score_parts(
    scales: BinnedColumns, open_sensors: Bools, slopes: LossGradients, rows: Int64s, parts: UInt8s
) -> list[tuple[SensorGains, SensorGains]]:
    """Tell what sensors gain by themselves for the rows up to, and beyond, each of their parts, (r,) from 0; up to the
    last are all."""
    from solvers.policy.growth_kernel import part_gains  # here, so that only a fit loads numba

    columns = scales.columns_of(open_sensors)
    count = int(parts.max(initial=0)) + 1
    gains, some = np.zeros((count, 2, len(columns))), slopes.take(rows)
    bins = np.ascontiguousarray(scales.fine[np.ix_(columns, rows)])
    part_gains(bins, parts, count, some.halves, some.g, some.h, RIDGE, gains)
    prices = scales.prices[scales.owners[columns]]
    return [
        (_best_by_sensor(scales, columns, a, prices), _best_by_sensor(scales, columns, b, prices)) for a, b in gains
    ]


def score_with_next(
    scales: BinnedColumns, open_sensors: Bools, slopes: LossGradients, rows: Int64s, rng: np.random.Generator
) -> tuple[SensorGains, SensorGains]:
    """Tell what sensors gain with the best that can follow each, and what they gain by steering, on rows drawn of those
    given: O(D² r L)."""
    from solvers.policy.growth_kernel import pair_gains

    columns = scales.columns_of(open_sensors)
    outputs = slopes.g.shape[1]
    most = int(np.clip(2 * MAX_PAIR_UPDATES / max(len(columns) ** 2 * outputs, 1), MIN_SCORED_ROWS, MAX_SCORED_ROWS))
    drawn = rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))
    some = slopes.take(drawn)
    gains, fixed, prices = np.zeros((3, len(columns)))
    owners = scales.owners[columns].astype(np.int64)
    bins = np.ascontiguousarray(scales.coarse[np.ix_(columns, drawn)])
    pair_gains(bins, owners, scales.prices[owners], some.halves, some.g, some.h, RIDGE, gains, fixed, prices)
    prices = np.maximum(prices, scales.prices[owners])
    of_rows = len(rows) / max(len(drawn), 1)
    ahead = _best_by_sensor(scales, columns, of_rows * gains, prices)
    return ahead, _best_by_sensor(scales, columns, of_rows * (gains - fixed), prices)


def _best_by_sensor(scales: BinnedColumns, columns: Int64s, gains: Floats, prices: Floats) -> SensorGains:
    """Take for each sensor the column that gains most for its price."""
    totals = SensorGains(np.full(len(scales.costs), -np.inf), np.ones(len(scales.costs)))
    order = np.argsort(gains / prices, kind="stable")  # the best of a sensor's columns is written last
    owners = scales.owners[columns[order]]
    totals.gains[owners], totals.prices[owners] = gains[order], prices[order]
    return totals
