"""One classifier for each acquired set, as arrays: a forest of logits.

There are K members of each classifier, member k fitted on all rows but those of part k. What a set's classifier says of
a row of the table it learned from comes from the member that had not seen the row (Eq. 1 on cross-validated
predictions). Of a new item one member alone says how sure it is, for decisions; the answer is that of the mean of all
members' logits.
"""

from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int32s, Singles
from solvers.policy.sensors import Sensors
from solvers.statistics import softmax
from solvers.trees.oblivious_trees import Forest


@dataclass(frozen=True, slots=True, eq=False)
class NodeClassifiers:
    """All members of all S classifiers. base: (S, K, C) float32 of the forests, over the columns that ``tree_inputs``
    gives; columns: (S, K, T, D) int32, thresholds: (S, K, T, D) float64, leaves: (S, K, T, 2^D, C) float32.
    classless: whether what they add up to is how good answers are, not logits."""

    base: Singles
    columns: Int32s
    thresholds: Floats
    leaves: Singles
    classless: bool = False

    @classmethod
    def from_forests(cls, classifiers: list[list[Forest]]) -> "NodeClassifiers":
        """Put the members of each set, classifiers[s][k], into arrays, without the last trees where all say 0."""
        base = np.array([[each.base for each in of_set] for of_set in classifiers])
        columns = np.array([[each.columns for each in of_set] for of_set in classifiers])
        thresholds = np.array([[each.thresholds for each in of_set] for of_set in classifiers])
        leaves = np.array([[each.leaves for each in of_set] for of_set in classifiers])
        used = int(np.flatnonzero(leaves.any(axis=(0, 1, 3, 4))).max(initial=-1)) + 1
        columns, thresholds, leaves = (each[:, :, :used].copy() for each in (columns, thresholds, leaves))
        return cls(base, columns, thresholds, leaves)

    def posteriors(self, node: int, member: int, inputs: Floats) -> Floats:
        """Tell the probabilities of the classes, (n, C), as one member sees them. inputs: ``tree_inputs`` of cells."""
        forest = Forest(
            self.base[node, member],
            self.columns[node, member],
            self.thresholds[node, member],
            self.leaves[node, member],
        )
        return to_probabilities(forest.predict(inputs), classless=self.classless)

    def mean_posteriors(self, node: int, inputs: Floats) -> Floats:
        """Tell the probabilities of the classes, (n, C), by the mean of all members' logits."""
        members, trees, depth = self.columns.shape[1:]
        every = Forest(
            self.base[node].sum(axis=0),
            self.columns[node].reshape(members * trees, depth),
            self.thresholds[node].reshape(members * trees, depth),
            self.leaves[node].reshape(members * trees, 1 << depth, self.leaves.shape[-1]),
        )
        return to_probabilities(every.predict(inputs) / members, classless=self.classless)


def to_probabilities(sums: Singles, *, classless: bool) -> Floats:
    """Turn what trees add up to into probabilities of classes, or, without classes, into how good answers are."""
    exact = sums.astype(np.float64)
    return np.clip(exact, 0.0, 1.0) if classless else softmax(exact)


def tree_inputs(sensors: Sensors, cells: Floats) -> Floats:
    """Lay out cells, (n, D), for trees: numbers as they are, labels one-hot: (n, d).

    >>> sensors = Sensors(("a",), np.array([0, 0], np.int32), np.array([True, False]), ("cat", "dog"))
    >>> tree_inputs(sensors, np.array([[1.0, 0.9], [-1.0, 0.4]])).tolist()
    [[0.0, 1.0, 0.9], [0.0, 0.0, 0.4]]
    """
    if not sensors.labelled.any():
        return cells
    codes = np.arange(len(sensors.classes))
    blocks = [
        (column[:, None] == codes).astype(np.float64) if labelled else column[:, None]
        for column, labelled in zip(cells.T, sensors.labelled, strict=True)
    ]
    return np.concatenate(blocks, axis=1)


def tree_owners(sensors: Sensors) -> Int32s:
    """Tell the sensor of each column that trees see: (d,)."""
    return np.repeat(sensors.owners, np.where(sensors.labelled, len(sensors.classes), 1))
