"""Grouped splits, cross-validation folds, and bootstrap samples: rows of the same item stay together.

A row that repeats an item of the training rows cannot serve as a holdout row. So every split assigns whole items.
Standard errors are from a jackknife over items (``standard_error_of_mean``). If no item repeats, these are the ordinary
splits and errors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from models.arrays import Floats, Int32s, Int64s


@dataclass(frozen=True, slots=True, eq=False)
class GroupedRows:
    """The g items of n rows.

    Attributes:
        first: (g,), first row of each item, rising.
        place: (n,), item of each row.
        sizes: (g,), rows per item.
    """

    first: Int64s
    place: Int64s
    sizes: Int64s

    @classmethod
    def from_codes(cls, items: Int64s) -> "GroupedRows":
        """Number items by their first row. O(n log n).

        items: (n,), equal for rows of one item.


        >>> GroupedRows.from_codes(np.array([7, 3, 7])).place.tolist()
        [0, 1, 0]
        """
        _, first, place, sizes = np.unique(items, return_index=True, return_inverse=True, return_counts=True)
        order = np.argsort(first)
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        return cls(first[order].astype(np.int64), rank[place], sizes[order].astype(np.int64))

    @property
    def counted(self) -> str:
        """The unit of counts in messages: items if any repeats, else rows."""
        return "items" if self.repeats else "rows"

    @property
    def repeats(self) -> bool:
        """Whether some item has several rows."""
        return len(self.first) < len(self.place)


def split_rows(items: Int64s, cuts: Sequence[int], rng: np.random.Generator) -> list[Int64s]:
    """Split rows at random into parts of whole items; return the rows of each part, rising.

    Args:
        items: (n,), codes.
        cuts: numbers of rows after which parts end. They are converted to shares of the items, so they are exact only
            if all items have equally many rows.
    Complexity: O(n log n).

    >>> [len(part) for part in split_rows(np.arange(10), [5, 7], np.random.default_rng(0))]
    [5, 2, 3]
    """
    grouped = GroupedRows.from_codes(items)
    g = len(grouped.first)
    ends = [round(cut * g / len(items)) for cut in cuts]
    part = np.empty(g, dtype=np.int64)
    part[rng.permutation(g)] = np.searchsorted(ends, np.arange(g), side="right")
    return [np.flatnonzero(part[grouped.place] == number) for number in range(len(cuts) + 1)]


def assign_group_folds(items: Int64s, folds: int, rng: np.random.Generator) -> Int64s:
    """Assign rows to random cross-validation folds of whole items, (n,)."""
    grouped = GroupedRows.from_codes(items)
    return np.asarray((rng.permutation(len(grouped.first)) % folds)[grouped.place], dtype=np.int64)


def stratify_labels_by_item(grouped: GroupedRows, labels: Int32s) -> Int32s:
    """Return the rarest label among each item's rows, (g,), for stratified splits."""
    commonness = np.argsort(np.argsort(-np.bincount(labels), kind="stable"))
    order = np.lexsort((-commonness[labels], grouped.place))
    starts = np.cumsum(grouped.sizes) - grouped.sizes
    return np.asarray(labels[order[starts]])


def effective_rows(items: Int64s) -> int:
    """Return Kish's effective sample size, n² / Σ nᵢ², rounded up.

    It is a lower bound, reached if outcomes of one item are always equal. items: (n,) codes.

    >>> effective_rows(np.arange(6)), effective_rows(np.array([0, 0, 1, 1, 2, 2]))
    (6, 3)
    """
    sizes = GroupedRows.from_codes(items).sizes.astype(np.float64)
    return ceil(float(sizes.sum() ** 2 / (sizes**2).sum()))


def bootstrap_counts(items: Int64s, samples: int, rng: np.random.Generator) -> Int64s:
    """Draw bootstrap samples of items; return the count of each row, (samples, n)."""
    grouped = GroupedRows.from_codes(items)
    g = len(grouped.first)
    drawn = rng.multinomial(g, np.full(g, 1 / g), size=samples)
    return np.asarray(drawn[:, grouped.place] if grouped.repeats else drawn)


def bootstrap_shares(items: Int64s, samples: int, rng: np.random.Generator) -> Floats:
    """Draw bootstrap samples of items; return the share of each row, (samples, n), summing to 1."""
    counts = bootstrap_counts(items, samples, rng)
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))
