"""Feature preselection by gain and by gain per cost, for tables with too many features.

Two matching pursuits choose features one by one, in turn. The first chooses the feature whose bins explain most of the
residual of the classes; the second chooses the feature whose bins explain most per cost. Each pursuit has a separate
residual, because a cheap feature that is redundant given an expensive one is still useful if the expensive one is not
affordable. Bins are quantiles, so effects of any shape are detected, but interactions of features are not. No models
are trained.

Features that fit the preselection rows by chance look informative on these rows. So these rows are not used to estimate
accuracies or savings.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models import FeatureTable
from models.arrays import Floats, Int64s, UInt8s
from solvers.index.cells import select_features
from solvers.index.lattice import MAX_FEATURES
from solvers.item_splits import split_rows
from solvers.setup_groups import NO_GROUPS, SetupGroups

MAX_ROWS = 10_000
"""Maximum number of rows that choose features."""
SELECTION_SHARE = 1 / 3
"""Maximum share of the rows that choose features."""
BINS = 8
MIN_PRICE_SHARE = 1e-3
"""Lower bound of prices, as a share of the most expensive one: free features compete by gain, too."""
DESCENT_PASSES = 2
"""Passes of coordinate descent (backfitting) over all chosen features after each choice."""


@dataclass(frozen=True, slots=True, eq=False)
class PreselectedTable:
    """A table with the chosen features.

    Attributes:
        all_rows: the table of all rows.
        other_rows: the table of the rows that were not used to choose features.
        left_out: names of the excluded features, in the table's order.
    """

    all_rows: FeatureTable
    other_rows: FeatureTable
    left_out: tuple[str, ...] = ()


def preselect_features(
    table: FeatureTable, costs: Floats, rng: np.random.Generator, groups: SetupGroups = NO_GROUPS
) -> PreselectedTable:
    """Choose ``MAX_FEATURES`` features on a third of the rows; smaller tables are returned unchanged.

    Args:
        costs: (F + G,), cost of each feature, and of each set-up group, at the median size.
        groups: set-up groups.
    Complexity: O(MAX_FEATURES · n · d · C) for d columns and C classes.
    """
    features = table.spec.features
    if len(features) <= MAX_FEATURES:
        return PreselectedTable(table, table)
    choosing, others = split_rows(table.item_codes, [min(MAX_ROWS, int(SELECTION_SHARE * table.rows))], rng)
    choosing = choosing[np.linspace(0, len(choosing) - 1, min(len(choosing), MAX_ROWS)).astype(np.int64)]
    owners = np.repeat(np.arange(len(features)), [len(feature.columns) for feature in features])
    labels = table.labels[choosing].astype(np.int64)
    taken = choose_features(table.values[choosing], labels, owners, costs, MAX_FEATURES, groups)
    whole = select_features(table, [features[place].name for place in np.sort(taken).tolist()])
    left_out = tuple(feature.name for place, feature in enumerate(features) if place not in set(taken.tolist()))
    return PreselectedTable(whole, whole.take(others), left_out)


def choose_features(
    values: Floats, labels: Int64s, owners: Int64s, costs: Floats, count: int, groups: SetupGroups = NO_GROUPS
) -> Int64s:
    """Return features, chosen alternately by explained variance and by explained variance per cost: (count,).

    Args:
        values: (n, d).
        labels: (n,), class codes.
        owners: (d,), the feature of each column.
        costs: (F + G,), of features and of set-up groups, at least 0.
        groups: set-up groups; each counts for the first chosen feature that needs it.

    >>> values = np.array([[0, 1], [0, 0], [1, 1], [1, 0]] * 8, dtype=float)
    >>> choose_features(values, values[:, 1].astype(np.int64), np.array([0, 1]), np.ones(2), 1).tolist()
    [1]
    """
    bins = np.stack([_assign_bins(column) for column in values.T])
    equal = np.ones(len(costs) - len(groups))
    pursuits = [
        _pursue_features(bins, labels, owners, equal),
        _pursue_features(bins, labels, owners, costs, groups),
    ]
    taken: list[int] = []
    while len(taken) < count:
        taken.append(next(feature for feature in pursuits[len(taken) % 2] if feature not in taken))
    return np.array(taken, dtype=np.int64)


def _pursue_features(
    bins: UInt8s, labels: Int64s, owners: Int64s, costs: Floats, groups: SetupGroups = NO_GROUPS
) -> Iterator[int]:
    """Yield features in the order of one pursuit: by gain per price.

    bins: (d, n). costs: (F + G,).
    """
    features = np.arange(len(costs) - len(groups))
    residual = np.eye(int(labels.max()) + 1)[labels]
    residual -= residual.mean(axis=0)
    fitted = np.zeros((len(bins), BINS, residual.shape[1]))
    taken: list[int] = []
    while len(taken) < len(features):
        prices = np.maximum(
            groups.step_costs(costs, np.isin(features, taken)), MIN_PRICE_SHARE * float(costs.max()) or 1.0
        )
        gains = np.bincount(owners, weights=[_measure_gain(each, residual) for each in bins], minlength=len(prices))
        gains[taken] = -np.inf
        taken.append(int(np.where(gains > 0, gains / prices, gains).argmax()))
        yield taken[-1]
        columns = np.flatnonzero(np.isin(owners, taken)).tolist()
        for column in columns * DESCENT_PASSES:
            residual += fitted[column][bins[column]]
            fitted[column] = _average_bins(bins[column], residual)
            residual -= fitted[column][bins[column]]


def _assign_bins(column: Floats) -> UInt8s:
    """Return the quantile bin of each value; equal values share a bin."""
    edges = np.unique(np.quantile(column, np.arange(1, BINS) / BINS, method="higher"))
    return np.searchsorted(edges, column, side="left").astype(np.uint8)


def _average_bins(bins: UInt8s, residual: Floats) -> Floats:
    """Return the mean residual of each bin, (BINS, C); 0 for empty bins."""
    counts = np.maximum(np.bincount(bins, minlength=BINS), 1)
    sums = np.stack([np.bincount(bins, weights=each, minlength=BINS) for each in residual.T], axis=1)
    return np.asarray(sums / counts[:, None])


def _measure_gain(bins: UInt8s, residual: Floats) -> float:
    """Return by how much the bins' means reduce squared residuals, (n, C).

    The reduction that is expected by chance is subtracted.
    """
    counts = np.bincount(bins, minlength=BINS)
    by_chance = (np.count_nonzero(counts) - 1) * float((residual**2).sum()) / len(residual)
    return float((_average_bins(bins, residual) ** 2 * counts[:, None]).sum()) - by_chance
