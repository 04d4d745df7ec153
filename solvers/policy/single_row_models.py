"""Advantages of actions for single items.

Results equal those of ``NodeClassifiers`` and ``NodeDecisions`` for rows.

Slicing arrays takes several times as long as the arithmetic of one item, so each node's forests are sliced once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import exp
from operator import add

import numpy as np

from models.arrays import Floats, Int32s, Int64s, Singles
from solvers.policy.node_classifiers import NodeClassifiers
from solvers.policy.node_features import MAX_CLASSES, TOP_PROBABILITIES
from solvers.policy.node_policies import NodeDecisions

FOREST_CACHE_SIZE = 1024
"""Prepared forests of a plan, each of a few kilobytes."""


@dataclass(frozen=True, slots=True, eq=False)
class SingleRowForest:
    """Forest of oblivious trees for single rows.

    Attributes:
        base: (L,).
        columns, thresholds: (T, D), splits.
        leaves: (T 2^D, L), of all trees.
        first_leaves: (T,), index of each tree's first leaf.
        bits: (D,), value of each split in the index of a leaf.
    """

    base: Singles | Floats
    columns: Int64s
    thresholds: Floats
    leaves: Singles
    first_leaves: Int64s
    bits: Int64s

    @classmethod
    def from_trees(
        cls, base: Singles | Floats, columns: Int32s, thresholds: Floats, leaves: Singles
    ) -> "SingleRowForest":
        """Prepare a forest from leaves (T, 2^D, L)."""
        trees, depth = columns.shape
        flat = np.ascontiguousarray(leaves.reshape(trees << depth, leaves.shape[2]))
        first, bits = np.arange(trees) << depth, 1 << np.arange(depth)[::-1]
        return cls(base, columns.astype(np.int64), thresholds, flat, first, bits)

    def predict(self, row: Floats) -> list[float]:
        """Return the outputs for a row, (d,): (L,). Complexity: O(T (D + L))."""
        places = (row[self.columns] > self.thresholds).dot(self.bits)
        places += self.first_leaves
        sums: list[float] = (self.base + self.leaves.take(places, axis=0).sum(axis=0)).tolist()
        return sums


@dataclass(frozen=True, eq=False)
class SingleRowModels:
    """Fast predictions for one item: the forests of a plan's nodes, sliced once and cached.

    Attributes:
        classifiers: forests of class probabilities.
        decisions: forests of advantages.
    """

    classifiers: NodeClassifiers
    decisions: NodeDecisions

    @cached_property
    def _forest_of(self) -> Callable[[int, int], SingleRowForest]:
        return lru_cache(FOREST_CACHE_SIZE)(self._prepare_classifier)

    @cached_property
    def _advantages_of(self) -> Callable[[int, int, int], tuple[SingleRowForest, list[float]]]:
        return lru_cache(FOREST_CACHE_SIZE)(self._prepare_advantages)

    def _prepare_classifier(self, node: int, member: int) -> SingleRowForest:
        every, at = self.classifiers, (node, member)
        return SingleRowForest.from_trees(every.base[at], every.columns[at], every.thresholds[at], every.leaves[at])

    def _prepare_advantages(self, node: int, member: int, point: int) -> tuple[SingleRowForest, list[float]]:
        """Return the forest of a node's actions, and their prices, (A,)."""
        every = self.decisions
        edges = slice(int(every.offsets[node]), int(every.offsets[node + 1]))
        leaves = np.moveaxis(every.leaves[edges, member, :, :, point], 0, 2)
        splits = every.columns[node, member], every.thresholds[node, member]
        prices = (every.prices[edges] * every.tradeoffs[point]).tolist()
        return SingleRowForest.from_trees(every.base[edges, member, point], *splits, leaves), prices

    def predict_posteriors(self, node: int, member: int, inputs: Floats) -> list[float]:
        """Return class probabilities of one member, (C,), for ``make_tree_inputs`` of an item, (d,)."""
        sums = self._forest_of(node, member).predict(inputs)
        if self.classifiers.classless:
            return [min(max(one, 0.0), 1.0) for one in sums]
        highest = max(sums)
        powers = [exp(one - highest) for one in sums]
        total = sum(powers)
        return [one / total for one in powers]

    def estimate_advantages(self, node: int, member: int, point: int, features: Floats) -> list[float]:
        """Estimate the extra loss of each action compared with stopping, price included, (A,).

        features: (d,).
        """
        forest, prices = self._advantages_of(node, member, point)
        return list(map(add, forest.predict(features), prices))


def compute_row_features(columns: Sequence[tuple[int, bool]], shares: list[float], cells: list[float]) -> Floats:
    """Return the features of a node's policy for one item, as ``compute_node_features`` does for rows.

    Args:
        columns: columns of the known sensors, with whether each is a label.
        shares: class probabilities.
        cells: (D,), the item's readings.

    >>> compute_row_features([(0, True), (1, False)], [0.25, 0.75], [1.0, 0.9]).tolist()
    [0.75, 0.25, 0.5, 0.25, 0.75, 1.0, 0.75, 0.9]
    """
    falling = sorted(shares, reverse=True)[:TOP_PROBABILITIES]
    values = [*falling, falling[0] - falling[1] if len(shares) > 1 else falling[0]]
    if len(shares) <= MAX_CLASSES:
        values += shares
    for column, is_label in columns:
        values.append(cells[column])
        if is_label:
            code = int(cells[column])
            values.append(shares[code] if 0 <= code < len(shares) else 0.0)
    return np.array(values)
