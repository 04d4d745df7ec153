"""Which features an index looks at, where a table has more than a lattice of all subsets can hold.

Features are taken one by one, as in matching pursuit, by two pursuits in turn: one takes the feature whose bins explain
most of what those it took before leave of the classes, the other the one whose bins explain most of it for its cost.
Each knows only what it took itself: a cheap feature tells nothing new beside a dear one that tells the same, and is the
best there is where the dear one cannot be paid. Bins are quantiles, so that a feature may tell by any shape; what
features tell only together is not seen. This takes no training, and rows of its own, which neither learn accuracies nor
report: a feature that only happens to fit the rows that choose it is found out by others.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from models import FeatureTable
from models.arrays import Floats, Int64s, UInt8s
from solvers.index.cells import only
from solvers.index.lattice import MAX_FEATURES
from solvers.item_splits import split_rows

MOST_ROWS = 10_000
SHARE = 1 / 3
"""Rows that choose features, at most, and of all."""
BINS = 8
CHEAPEST = 1e-3
"""Of the dearest price, what less counts as: free features come by what they tell, too."""
PASSES = 2
"""How often the bins of all features taken are fitted again after each."""


@dataclass(frozen=True, slots=True, eq=False)
class Narrowed:
    """A table of the features that are looked at: whole, all of its rows; others, those that chose no feature;
    left_out: the names of the other features, in the table's order."""

    whole: FeatureTable
    others: FeatureTable
    left_out: tuple[str, ...] = ()


def narrowed(table: FeatureTable, costs: Floats, rng: np.random.Generator) -> Narrowed:
    """Choose ``MAX_FEATURES`` features by a third of the rows; a table of no more is left as it is.

    costs: (F,) of each feature at the median size. O(MAX_FEATURES · n · d · C) for d columns and C classes.
    """
    features = table.spec.features
    if len(features) <= MAX_FEATURES:
        return Narrowed(table, table)
    choosing, others = split_rows(table.item_codes, [min(MOST_ROWS, int(SHARE * table.rows))], rng)
    choosing = choosing[np.linspace(0, len(choosing) - 1, min(len(choosing), MOST_ROWS)).astype(np.int64)]
    owners = np.repeat(np.arange(len(features)), [len(feature.columns) for feature in features])
    taken = most_telling(table.values[choosing], table.labels[choosing].astype(np.int64), owners, costs, MAX_FEATURES)
    whole = only(table, [features[place].name for place in np.sort(taken).tolist()])
    left_out = tuple(feature.name for place, feature in enumerate(features) if place not in set(taken.tolist()))
    return Narrowed(whole, whole.take(others), left_out)


def most_telling(values: Floats, labels: Int64s, owners: Int64s, costs: Floats, count: int) -> Int64s:
    """Take features one by one, by what their bins explain, and by that for their cost, in turn: (count,), each once.

    values: (n, d); labels: (n,) codes; owners: (d,) the feature of each column; costs: (F,) at least 0.

    >>> values = np.array([[0, 1], [0, 0], [1, 1], [1, 0]] * 8, dtype=float)
    >>> most_telling(values, values[:, 1].astype(np.int64), np.array([0, 1]), np.ones(2), 1).tolist()
    [1]
    """
    bins = np.stack([_bins(column) for column in values.T])
    prices = np.maximum(costs, CHEAPEST * float(costs.max()) or 1.0)
    pursuits = [_pursued(bins, labels, owners, each) for each in (np.ones(len(costs)), prices)]
    taken: list[int] = []
    while len(taken) < count:
        taken.append(next(feature for feature in pursuits[len(taken) % 2] if feature not in taken))
    return np.array(taken, dtype=np.int64)


def _pursued(bins: UInt8s, labels: Int64s, owners: Int64s, prices: Floats) -> Iterator[int]:
    """List features as one pursuit takes them, bins (d, n): by what they explain, for their prices, (F,)."""
    left = np.eye(int(labels.max()) + 1)[labels]
    left -= left.mean(axis=0)
    fitted = np.zeros((len(bins), BINS, left.shape[1]))
    taken: list[int] = []
    while len(taken) < len(prices):
        gains = np.bincount(owners, weights=[_explained(each, left) for each in bins], minlength=len(prices))
        gains[taken] = -np.inf
        taken.append(int(np.where(gains > 0, gains / prices, gains).argmax()))
        yield taken[-1]
        columns = np.flatnonzero(np.isin(owners, taken)).tolist()
        for column in columns * PASSES:
            left += fitted[column][bins[column]]
            fitted[column] = _means(bins[column], left)
            left -= fitted[column][bins[column]]


def _bins(column: Floats) -> UInt8s:
    """Put a column's values into bins of about as many rows each; equal values are in one."""
    edges = np.unique(np.quantile(column, np.arange(1, BINS) / BINS, method="higher"))
    return np.searchsorted(edges, column, side="left").astype(np.uint8)


def _means(bins: UInt8s, left: Floats) -> Floats:
    """Average what is left over each bin: (BINS, C), 0 for an empty one."""
    counts = np.maximum(np.bincount(bins, minlength=BINS), 1)
    sums = np.stack([np.bincount(bins, weights=each, minlength=BINS) for each in left.T], axis=1)
    return np.asarray(sums / counts[:, None])


def _explained(bins: UInt8s, left: Floats) -> float:
    """Say by how much the bins' means lower what is left, (n, C), less what they would if they told nothing."""
    counts = np.bincount(bins, minlength=BINS)
    by_chance = (np.count_nonzero(counts) - 1) * float((left**2).sum()) / len(left)
    return float((_means(bins, left) ** 2 * counts[:, None]).sum()) - by_chance
