"""Forests of oblivious trees with multiple outputs, as parallel arrays.

In an oblivious tree, all nodes of one level have the same split. So a tree of depth D has D splits and 2^D leaves. The
results of the splits are the bits of the leaf's index. All outputs share the splits.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int32s, Int64s, Singles

STAGE_TREES = 4
"""Step size in trees, when their number is chosen."""
MAX_SMALL_BATCH = 64
"""Below this number of rows all trees are evaluated at once; else one tree and split at a time, which is faster."""
_AT_ONCE = 1 << 22
"""Maximum numbers gathered from leaves at once: 16 MB."""


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Forest whose output is the base plus the sum of one leaf per tree.

    Attributes:
        base: (L,).
        columns, thresholds: (T, D), splits; a split tests whether the column is above the threshold.
        leaves: (T, 2^D, L); the first split is the highest bit of a leaf's index.
    """

    base: Singles
    columns: Int32s
    thresholds: Floats
    leaves: Singles

    def find_leaves(self, inputs: Floats) -> Int32s:
        """Return the leaf index of each row, (n, d), in each tree, among the leaves of all trees: (n, T)."""
        depth, trees = self.columns.shape[1], np.arange(len(self.columns), dtype=np.int32)
        if len(inputs) < MAX_SMALL_BATCH:
            above = inputs[:, self.columns] > self.thresholds
            return np.asarray(above @ (1 << np.arange(depth, dtype=np.int32)[::-1]) + (trees << depth))
        columns, places = np.ascontiguousarray(inputs.T), np.zeros((len(trees), len(inputs)), dtype=np.int32)
        for level in range(depth):  # one column at a time: a sixth of the time
            places *= 2
            places += columns[self.columns[:, level]] > self.thresholds[:, level, None]
        return np.asarray((places + (trees << depth)[:, None]).T)

    def predict(self, inputs: Floats, outputs: Int64s | slice = slice(None)) -> Singles:
        """Return all or some outputs for rows (n, d): (n, L).

        Complexity: O(n T (D + L)).


        >>> forest = Forest(np.zeros(1, np.float32), np.zeros((1, 1), np.int32), np.array([[0.5]]),
        ...                 np.array([[[1.0], [2.0]]], np.float32))
        >>> forest.predict(np.array([[0.0], [1.0]]))[:, 0].tolist()
        [1.0, 2.0]
        """
        flat = self.leaves.reshape(-1, self.leaves.shape[2])[:, outputs]
        base = self.base[outputs]
        rows = max(1, _AT_ONCE // max(len(self.columns) * flat.shape[1], 1))
        sums = [self._sum_leaves(flat, inputs[start : start + rows]) for start in range(0, len(inputs), rows)]
        return base + (np.concatenate(sums) if sums else np.zeros((0, flat.shape[1]), dtype=np.float32))

    def _sum_leaves(self, flat: Singles, inputs: Floats) -> Singles:
        places = self.find_leaves(inputs)
        if len(inputs) < MAX_SMALL_BATCH:
            return np.asarray(flat[places].sum(axis=1))
        sums = np.zeros((len(inputs), flat.shape[1]), dtype=np.float32)
        for of_tree in places.T:
            sums += np.take(flat, of_tree, axis=0)
        return sums

    def keep_first(self, trees: int) -> "Forest":
        """Return a copy in which the leaves of all trees after the first ``trees`` are 0."""
        leaves = self.leaves.copy()
        leaves[trees:] = 0
        return Forest(self.base, self.columns, self.thresholds, leaves)

    def staged_losses(self, inputs: Floats, loss: Callable[[Singles], float | list[float]]) -> Floats:
        """Return the losses of the outputs, (n, L), with 0, STAGE_TREES, 2 STAGE_TREES, … trees.

        The result has one row per number of trees.
        """
        flat, outputs = self.leaves.reshape(-1, self.leaves.shape[2]), np.tile(self.base, (len(inputs), 1))
        losses = [loss(outputs)]
        for at, places in enumerate(self.find_leaves(inputs).T, start=1):
            outputs += np.take(flat, places, axis=0)
            if at % STAGE_TREES == 0:
                losses.append(loss(outputs))
        return np.array(losses)
