"""One classifier for each acquired set, as arrays: logits that a linear model and a forest add up to.

There are K members of each classifier, member k fitted on all rows but those of part k. What a set's classifier says of
a row of the table it learned from comes from the member that had not seen the row (Eq. 1 on cross-validated
predictions); what it says of a new item is the mean of its members, or what one member alone says.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.policy.basis import Basis
from solvers.policy.forest import Forest
from solvers.policy.sensors import Sensors

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

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
    float32."""

    basis: Basis
    members: Bools
    weights: Singles
    intercepts: Singles
    columns: Ints
    thresholds: Floats
    leaves: Singles

    @classmethod
    def of(cls, basis: Basis, members: Bools, found: list[list[Member]]) -> "Classifiers":
        """Put the members of each set, found[s][k], into arrays."""
        first, owners = found[0][0], basis.owners()
        shape = (len(found), len(found[0]))
        weights = np.zeros((*shape, len(owners), len(first.intercept)), dtype=np.float32)
        for s, of_set in enumerate(found):
            weights[s][:, members[s][owners]] = np.stack([member.weights for member in of_set])
        intercepts, columns, thresholds, leaves = (
            np.stack([np.stack([take(member) for member in of_set]) for of_set in found])
            for take in (
                lambda m: m.intercept + m.forest.base,
                lambda m: m.forest.columns,
                lambda m: m.forest.thresholds,
                lambda m: m.forest.leaves,
            )
        )
        return cls(basis, members, weights, intercepts, columns, thresholds, leaves)

    def logits(self, node: int, member: int, cells: Floats, inputs: Floats) -> Singles:
        """Tell the logits of the classes, (n, C), that one member gives. inputs: ``tree_inputs`` of the cells."""
        places, values = self.basis.functions(cells, self.basis.sensors.columns_of(np.flatnonzero(self.members[node])))
        linear = weigh(self.weights[node, member], places, values)
        forest = Forest(
            self.intercepts[node, member],
            self.columns[node, member],
            self.thresholds[node, member],
            self.leaves[node, member],
        )
        return np.asarray(linear + forest.predict(inputs))

    def posteriors(self, node: int, member: int, cells: Floats, inputs: Floats) -> Floats:
        """Tell the probabilities of the classes, (n, C), as one member sees them."""
        return softmax(self.logits(node, member, cells, inputs))

    def answers(self, node: int, cells: Floats, inputs: Floats) -> Floats:
        """Tell the probabilities of the classes, (n, C), the mean of all members."""
        members = range(self.weights.shape[1])
        return np.asarray(sum(self.posteriors(node, k, cells, inputs) for k in members) / len(members))


def softmax(logits: NDArray[np.floating]) -> Floats:
    """Turn logits, (n, C), into probabilities.

    >>> softmax(np.zeros((1, 2))).tolist()
    [[0.5, 0.5]]
    """
    raised = logits.astype(np.float64)
    raised = np.exp(raised - raised.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def weigh(weights: Singles, places: NDArray[np.int64], values: Floats) -> Floats:
    """Multiply sparse rows, values at places, (n, w), with weights (F, C): (n, C)."""
    rows = max(1, _AT_ONCE // max(places.shape[1] * weights.shape[1], 1))
    found = np.zeros((len(places), weights.shape[1]))
    for start in range(0, len(places), rows):
        part = slice(start, start + rows)
        found[part] = np.einsum("nw,nwc->nc", values[part], weights[places[part]])
    return found


def tree_inputs(sensors: Sensors, cells: Floats) -> Floats:
    """Lay out cells, (n, D), for trees: numbers as they are, labels one-hot: (n, d).

    >>> sensors = Sensors(("a",), np.array([0, 0], np.int32), np.array([True, False]), ("cat", "dog"))
    >>> tree_inputs(sensors, np.array([[1.0, 0.9], [-1.0, 0.4]])).tolist()
    [[0.0, 1.0, 0.9], [0.0, 0.0, 0.4]]
    """
    codes = np.arange(len(sensors.classes))
    parts = [
        (column[:, None] == codes).astype(np.float64) if labelled else column[:, None]
        for column, labelled in zip(cells.T, sensors.labelled, strict=True)
    ]
    return np.concatenate(parts, axis=1)


def tree_owners(sensors: Sensors) -> Ints:
    """Tell the sensor of each column that trees see: (d,)."""
    return np.repeat(sensors.owners, np.where(sensors.labelled, len(sensors.classes), 1))
