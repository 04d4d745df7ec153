"""Gains of further sensors at a node of a grown graph: Newton steps on cross-fitted posteriors.

The *own* gain of a sensor is the reduction of the log-loss by its bins. The gain *ahead* also includes the best
successor in each bin. The gain by *steering* is the gain ahead minus the gain with the same successor in all bins.
Steering finds sensors that are uninformative alone but show which other sensor is informative. Example: the class is
the exclusive or of two sensors. The own gain of each is 0, and its gain ahead is positive.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from models.arrays import Bools, Floats, Int32s, Int64s, UInt8s

FINE_BINS, COARSE_BINS = 12, 6
"""Number of bins for single sensors, and for pairs."""
RIDGE = 2.0
"""Ridge penalty: added to the curvature of a cell, it shrinks steps of small cells."""
MAX_BINNING_ROWS = 20_000
"""Maximum number of rows that quantiles are computed from."""
MAX_PAIR_UPDATES = 150_000_000
"""Maximum number of sums per node for pairs; rows are sampled to meet it."""
MIN_SCORED_ROWS, MAX_SCORED_ROWS = 1_000, 12_000
"""Minimum and maximum number of rows of a node for pairs."""
MIN_COST_SHARE = 1e-3
"""Minimum price of a sensor, as a share of the mean cost, so that rates of free sensors are finite."""


@dataclass(frozen=True)
class BinnedColumns:
    """Columns in bins.

    Attributes:
        fine: (D, n), bins for single sensors.
        coarse: (D, n), bins for pairs of sensors and for splits of rows.
        owners: (D,), sensor of each column, M for axes of an embedding.
        costs: (M,), costs of sensors.
        shared: (M, M), what two sensors together save, because they share set-up groups; (0, 0): nothing.
    """

    fine: UInt8s
    coarse: UInt8s
    owners: Int32s
    costs: Floats
    shared: Floats = field(default_factory=lambda: np.empty((0, 0)))

    @classmethod
    def from_inputs(cls, inputs: Floats, owners: Int32s, costs: Floats) -> "BinnedColumns":
        """Bin the inputs of trees, (n, D)."""
        return cls(bin_columns(inputs, FINE_BINS), bin_columns(inputs, COARSE_BINS), owners, costs)

    def columns_of(self, open_sensors: Bools) -> Int64s:
        """Return the columns of some sensors, (M,)."""
        return np.flatnonzero(np.append(open_sensors, False)[self.owners])

    @cached_property
    def prices(self) -> Floats:
        """Costs of sensors, (M,), raised so that all are positive."""
        return np.maximum(self.costs, max(MIN_COST_SHARE * float(self.costs.mean()), 1e-200))


def bin_columns(columns: Floats, most: int) -> UInt8s:
    """Bin each column of (n, D) at quantiles, or at its distinct values if these are few: (D, n).

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
    """Derivatives of the log-loss.

    Attributes:
        g: (n, L), negative slopes; one output for two classes.
        h: (n, L), curvatures.
        halves: (n,), the half of each row.
    """

    g: Floats
    h: Floats
    halves: UInt8s

    @classmethod
    def from_posteriors(cls, posteriors: Floats, labels: Int32s, halves: UInt8s) -> "LossGradients":
        """Differentiate the log-loss at posteriors, (n, C).

        >>> halves = np.zeros(1, np.uint8)
        >>> LossGradients.from_posteriors(np.array([[0.25, 0.75]]), np.array([1], np.int32), halves).g.tolist()
        [[0.25]]
        """
        first = 1 if posteriors.shape[1] == 2 else 0
        truth = np.equal(labels[:, None], np.arange(first, posteriors.shape[1]))
        chances = posteriors[:, first:]
        return cls(truth - chances, chances * (1 - chances), halves)

    def take(self, rows: Int64s) -> "LossGradients":
        """Return the gradients of some rows."""
        return LossGradients(self.g[rows], self.h[rows], self.halves[rows])


@dataclass(frozen=True, slots=True, eq=False)
class SensorGains:
    """Gains of sensors for some rows.

    Attributes:
        gains: (M,), reduction of the log-loss by each sensor; -inf for unavailable sensors.
        prices: (M,), cost of each sensor, including successors.
    """

    gains: Floats
    prices: Floats

    @property
    def rates(self) -> Floats:
        """Gains per unit of cost, (M,)."""
        return np.asarray(self.gains / self.prices)

    @property
    def best(self) -> int:
        """The sensor of highest gain per cost."""
        return int(self.rates.argmax())


def score_single_sensors(
    binned: BinnedColumns, open_sensors: Bools, gradients: LossGradients, rows: Int64s
) -> SensorGains:
    """Return the own gains of sensors for some rows.

    Complexity: O(D r L).
    """
    return score_row_splits(binned, open_sensors, gradients, rows, np.zeros(len(rows), dtype=np.uint8))[0][0]


def score_row_splits(
    binned: BinnedColumns, open_sensors: Bools, gradients: LossGradients, rows: Int64s, parts: UInt8s
) -> list[tuple[SensorGains, SensorGains]]:
    """Return, for each part, the sensors' own gains in the rows up to it, and in the rest.

    parts: (r,), the part of each row.
    """
    from solvers.policy.growth_kernel import compute_split_gains  # imported here because numba loads slowly

    columns = binned.columns_of(open_sensors)
    count = int(parts.max(initial=0)) + 1
    gains, some = np.zeros((count, 2, len(columns))), gradients.take(rows)
    bins = np.ascontiguousarray(binned.fine[np.ix_(columns, rows)])
    compute_split_gains(bins, parts, count, some.halves, some.g, some.h, RIDGE, gains)
    prices = binned.prices[binned.owners[columns]]
    return [
        (_best_by_sensor(binned, columns, a, prices), _best_by_sensor(binned, columns, b, prices)) for a, b in gains
    ]


def score_sensor_pairs(
    binned: BinnedColumns, open_sensors: Bools, gradients: LossGradients, rows: Int64s, rng: np.random.Generator
) -> tuple[SensorGains, SensorGains]:
    """Return the gains of sensors *ahead* and by *steering*, estimated on a sample of the rows.

    Complexity: O(D^2 r L).
    """
    from solvers.policy.growth_kernel import compute_pair_gains

    columns = binned.columns_of(open_sensors)
    outputs = gradients.g.shape[1]
    most = int(np.clip(2 * MAX_PAIR_UPDATES / max(len(columns) ** 2 * outputs, 1), MIN_SCORED_ROWS, MAX_SCORED_ROWS))
    sampled = rows if len(rows) <= most else np.sort(rng.choice(rows, most, replace=False))
    some = gradients.take(sampled)
    gains, fixed, prices = np.zeros((3, len(columns)))
    owners = binned.owners[columns].astype(np.int64)
    bins = np.ascontiguousarray(binned.coarse[np.ix_(columns, sampled)])
    costs, shared = binned.prices[owners], binned.shared
    compute_pair_gains(bins, owners, costs, shared, some.halves, some.g, some.h, RIDGE, gains, fixed, prices)
    prices = np.maximum(prices, binned.prices[owners])
    of_rows = len(rows) / max(len(sampled), 1)
    ahead = _best_by_sensor(binned, columns, of_rows * gains, prices)
    return ahead, _best_by_sensor(binned, columns, of_rows * (gains - fixed), prices)


def _best_by_sensor(binned: BinnedColumns, columns: Int64s, gains: Floats, prices: Floats) -> SensorGains:
    totals = SensorGains(np.full(len(binned.costs), -np.inf), np.ones(len(binned.costs)))
    order = np.argsort(gains / prices, kind="stable")  # the best of a sensor's columns is written last
    owners = binned.owners[columns[order]]
    totals.gains[owners], totals.prices[owners] = gains[order], prices[order]
    return totals
