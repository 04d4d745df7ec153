"""One classifier for each acquired set, as arrays: logits that a linear model and a forest add up to.

There are K members of each classifier, member k fitted on all rows but those of part k. What a set's classifier says of
a row of the table it learned from comes from the member that had not seen the row (Eq. 1 on cross-validated
predictions). Of a new item one member alone says how sure it is, for decisions; the answer is that of the mean of all
members' logits.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from models.arrays import Bools, Floats, Int8s, Int32s, Int64s, Singles
from solvers.policy.piecewise_basis import Basis
from solvers.policy.sensors import Sensors, with_embedding
from solvers.policy.short_leaves import MOST_SINGLES, shortened
from solvers.statistics import softmax
from solvers.trees.oblivious_trees import Forest

NO_UNITS = np.empty((0, 0, 0), dtype=np.float32)
_AT_ONCE = 1 << 21
"""Weights that are gathered at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """One member of one set's classifier. weights: (f, C) float32 of the basis functions of the set's sensors,
    intercept: (C,) float32, forest: of logits, over the columns that ``tree_inputs`` gives."""

    weights: Singles
    intercept: Singles
    forest: Forest


@dataclass(frozen=True, slots=True, eq=False)
class Classifiers:
    """All members of all S classifiers. weights: (S, K, F, C) float32; intercepts: (S, K, C) float32, which hold the
    forests' base too; columns: (S, K, T, D) int32, thresholds: (S, K, T, D) float64, leaves: (S, K, T, 2^D, C)
    float32, or int8, whole numbers of units, (S, K, T), which are (0, 0, 0) where leaves are no such. classless:
    whether what they add up to is how good answers are, not logits."""

    basis: Basis
    members: Bools
    weights: Singles
    intercepts: Singles
    columns: Int32s
    thresholds: Floats
    leaves: Singles | Int8s
    units: Singles
    classless: bool = False
    _means: Singles = field(init=False, repr=False)  # (S, F, C), of the members' weights

    def __post_init__(self) -> None:
        object.__setattr__(self, "_means", self.weights.mean(axis=1, dtype=np.float32))

    @classmethod
    def of(cls, basis: Basis, members: Bools, classifiers: list[list[Member]]) -> "Classifiers":
        """Put the members of each set, classifiers[s][k], into arrays, without the last trees where all say 0."""
        first, owners = classifiers[0][0], basis.owners
        shape = (len(classifiers), len(classifiers[0]))
        weights = np.zeros((*shape, len(owners), len(first.intercept)), dtype=np.float32)
        for s, of_set in enumerate(classifiers):
            weights[s][:, with_embedding(members[s])[owners]] = np.stack([member.weights for member in of_set])
        intercepts = np.array([[each.intercept + each.forest.base for each in of_set] for of_set in classifiers])
        columns = np.array([[each.forest.columns for each in of_set] for of_set in classifiers])
        thresholds = np.array([[each.forest.thresholds for each in of_set] for of_set in classifiers])
        leaves = np.array([[each.forest.leaves for each in of_set] for of_set in classifiers])
        used = int(np.flatnonzero(leaves.any(axis=(0, 1, 3, 4))).max(initial=-1)) + 1
        columns, thresholds, leaves = (each[:, :, :used].copy() for each in (columns, thresholds, leaves))
        return cls(basis, members, weights, intercepts, columns, thresholds, leaves, NO_UNITS)

    def shorter(self) -> "Classifiers":
        """Give the same with leaves of a byte each, where these are more than ``MOST_SINGLES``."""
        if self.leaves.size <= MOST_SINGLES:
            return self
        leaves, units = shortened(self.leaves.astype(np.float32, copy=False))
        return replace(self, leaves=leaves, units=units)

    def posteriors(self, node: int, member: int, cells: Floats, inputs: Floats) -> Floats:
        """Tell the probabilities of the classes, (n, C), as one member sees them. inputs: ``tree_inputs`` of the
        cells."""
        forest = Forest(
            self.intercepts[node, member],
            self.columns[node, member],
            self.thresholds[node, member],
            self.leaves[node, member],
            self.units[node, member] if self.units.size else None,
        )
        return self._read(self._linear(node, self.weights[node, member], cells) + forest.predict(inputs))

    def answers(self, node: int, cells: Floats, inputs: Floats) -> Floats:
        """Tell the probabilities of the classes, (n, C), by the mean of all members' logits."""
        members, trees, depth = self.columns.shape[1:]
        every = Forest(
            np.zeros_like(self.intercepts[node, 0]),
            self.columns[node].reshape(members * trees, depth),
            self.thresholds[node].reshape(members * trees, depth),
            self.leaves[node].reshape(members * trees, 1 << depth, self.leaves.shape[-1]),
            self.units[node].ravel() if self.units.size else None,
        )
        linear = self._linear(node, self._means[node], cells) + self.intercepts[node].mean(axis=0)
        return self._read(linear + every.predict(inputs) / members)

    def _read(self, sums: Floats) -> Floats:
        return shares_of(sums) if self.classless else softmax(sums)

    def _linear(self, node: int, weights: Singles, cells: Floats) -> Floats:
        columns = self.basis.sensors.known_columns(self.members[node])
        return weigh(weights, *self.basis.functions(cells, columns))


def shares_of(sums: Floats) -> Floats:
    """Take what models of how good answers are add up to for that: from 0 to 1."""
    return np.clip(sums, 0.0, 1.0)


def weigh(weights: Singles, places: Int64s, values: Floats) -> Floats:
    """Multiply sparse rows, values at places, (n, w), with weights (F, C): (n, C)."""
    rows = max(1, _AT_ONCE // max(places.shape[1] * weights.shape[1], 1))
    products = np.zeros((len(places), weights.shape[1]))
    for start in range(0, len(places), rows):
        part = slice(start, start + rows)
        products[part] = np.einsum("nw,nwc->nc", values[part], weights[places[part]])
    return products


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
