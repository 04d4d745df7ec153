"""Actions of single items, as requests need them: what ``PolicyPlan`` computes for rows, without arrays of one row.

Arrays of one row take most of their time to be sliced. So the forests of a node are prepared once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp
from operator import add

import numpy as np

from models.arrays import Floats, Int32s, Int64s, Singles
from solvers.policy.node_classifiers import NodeClassifiers
from solvers.policy.node_features import MAX_CLASSES, TOP_PROBABILITIES
from solvers.policy.node_policies import NodeDecisions
from solvers.policy.sensors import Sensors, mark_embedding

KEPT_FORESTS = 1024
"""Prepared forests of a plan, each of a few kilobytes."""


@dataclass(frozen=True, slots=True, eq=False)
class RowForest:
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
    def from_trees(cls, base: Singles | Floats, columns: Int32s, thresholds: Floats, leaves: Singles) -> "RowForest":
        """Prepare a forest; leaves: (T, 2^D, L)."""
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
class OneItem:
    """Prepared forests of a plan's nodes.

    Attributes:
        classifiers: forests of class probabilities.
        decisions: forests of advantages.
    """

    sensors: Sensors
    classifiers: NodeClassifiers
    decisions: NodeDecisions
    forest_of: Callable[[int, int], RowForest]
    advantages_of: Callable[[int, int, int], tuple[RowForest, list[float]]]

    @classmethod
    def from_nodes(cls, sensors: Sensors, classifiers: NodeClassifiers, decisions: NodeDecisions) -> "OneItem":
        """Prepare forests at their first use."""

        def forest_of(node: int, member: int) -> RowForest:
            at = node, member
            parts = classifiers.base[at], classifiers.columns[at], classifiers.thresholds[at], classifiers.leaves[at]
            return RowForest.from_trees(*parts)

        def advantages_of(node: int, member: int, point: int) -> tuple[RowForest, list[float]]:
            edges = slice(int(decisions.offsets[node]), int(decisions.offsets[node + 1]))
            leaves = np.moveaxis(decisions.leaves[edges, member, :, :, point], 0, 2)
            splits = decisions.columns[node, member], decisions.thresholds[node, member]
            prices = (decisions.prices[edges] * decisions.tradeoffs[point]).tolist()
            return RowForest.from_trees(decisions.base[edges, member, point], *splits, leaves), prices

        prepared = lru_cache(KEPT_FORESTS)(forest_of), lru_cache(KEPT_FORESTS)(advantages_of)
        return cls(sensors, classifiers, decisions, *prepared)

    def predict_posteriors(self, node: int, member: int, inputs: Floats) -> list[float]:
        """Return class probabilities of one member, (C,), for ``tree_inputs`` of an item, (d,)."""
        sums = self.forest_of(node, member).predict(inputs)
        if self.classifiers.classless:
            return [min(max(one, 0.0), 1.0) for one in sums]
        highest = max(sums)
        powers = [exp(one - highest) for one in sums]
        total = sum(powers)
        return [one / total for one in powers]

    def estimate_advantages(self, node: int, member: int, point: int, features: Floats) -> list[float]:
        """Estimate the extra loss of each action over stopping, price included, (A,); features: (d,)."""
        forest, prices = self.advantages_of(node, member, point)
        return list(map(add, forest.predict(features), prices))


def list_feature_columns(sensors: Sensors, members: Sequence[bool]) -> list[tuple[int, bool]]:
    """Return the columns of known sensors, and whether each is a label."""
    columns = np.flatnonzero(mark_embedding(np.asarray(members))[sensors.owners]).tolist()
    return [(column, bool(sensors.labelled[column])) for column in columns]


def row_features(columns: Sequence[tuple[int, bool]], shares: list[float], cells: list[float]) -> Floats:
    """Return the features of a node's policy for one item, as ``node_features`` does for rows.

    Args:
        columns: from ``list_feature_columns``.
        shares: probabilities of the classes.
        cells: (D,), the item's readings.

    >>> row_features([(0, True), (1, False)], [0.25, 0.75], [1.0, 0.9]).tolist()
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
