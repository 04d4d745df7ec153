"""Classifiers of acquired sets as arrays: forests of logits (gradient-boosted trees).

Each classifier has K members; member k is fitted to all rows but fold k. Predictions for training rows are out-of-fold
(Eq. 1 on cross-validated predictions). For a new item, decisions use the confidence of one member. The answer uses the
mean logits of all members.
"""

from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int32s, Singles
from solvers.policy.sensors import Sensors
from solvers.statistics import softmax
from solvers.trees.oblivious_trees import Forest


@dataclass(frozen=True, slots=True, eq=False)
class NodeClassifiers:
    """All members of all S classifiers.

    Attributes:
        base: (S, K, C) float32.
        columns: (S, K, T, D) int32, columns of ``make_tree_inputs``.
        thresholds: (S, K, T, D) float64.
        leaves: (S, K, T, 2^D, C) float32.
        classless: whether outputs are answer quality instead of logits.
    """

    base: Singles
    columns: Int32s
    thresholds: Floats
    leaves: Singles
    classless: bool = False

    @classmethod
    def from_forests(cls, classifiers: list[list[Forest]]) -> "NodeClassifiers":
        """Stack the members of each set, classifiers[s][k], into arrays.

        Trailing trees that are 0 everywhere are removed.
        """
        base = np.array([[each.base for each in of_set] for of_set in classifiers])
        columns = np.array([[each.columns for each in of_set] for of_set in classifiers])
        thresholds = np.array([[each.thresholds for each in of_set] for of_set in classifiers])
        leaves = np.array([[each.leaves for each in of_set] for of_set in classifiers])
        used = int(np.flatnonzero(leaves.any(axis=(0, 1, 3, 4))).max(initial=-1)) + 1
        columns, thresholds, leaves = (each[:, :, :used].copy() for each in (columns, thresholds, leaves))
        return cls(base, columns, thresholds, leaves)

    def predict_posteriors(self, node: int, member: int, inputs: Floats) -> Floats:
        """Return class probabilities of one member, (n, C), for ``make_tree_inputs``."""
        forest = Forest(
            self.base[node, member],
            self.columns[node, member],
            self.thresholds[node, member],
            self.leaves[node, member],
        )
        return to_probabilities(forest.predict(inputs), classless=self.classless)

    def mean_posteriors(self, node: int, inputs: Floats) -> Floats:
        """Return class probabilities of the mean logits of all members, (n, C)."""
        members, trees, depth = self.columns.shape[1:]
        every = Forest(
            self.base[node].sum(axis=0),
            self.columns[node].reshape(members * trees, depth),
            self.thresholds[node].reshape(members * trees, depth),
            self.leaves[node].reshape(members * trees, 1 << depth, self.leaves.shape[-1]),
        )
        return to_probabilities(every.predict(inputs) / members, classless=self.classless)


def to_probabilities(sums: Singles, *, classless: bool) -> Floats:
    """Return class probabilities from logits; without classes, answer quality clipped to [0, 1]."""
    exact = sums.astype(np.float64)
    return np.clip(exact, 0.0, 1.0) if classless else softmax(exact)


def make_tree_inputs(sensors: Sensors, cells: Floats) -> Floats:
    """Return inputs of trees, (n, d), from readings, (n, D): numbers unchanged, labels one-hot.

    >>> sensors = Sensors(("a",), np.array([0, 0], np.int32), np.array([True, False]), ("cat", "dog"))
    >>> make_tree_inputs(sensors, np.array([[1.0, 0.9], [-1.0, 0.4]])).tolist()
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


def list_tree_owners(sensors: Sensors) -> Int32s:
    """Return the sensor of each input column of the trees, (d,)."""
    return np.repeat(sensors.owners, np.where(sensors.labelled, len(sensors.classes), 1))
