"""What the linear classifiers see of a sensor: its label, and piecewise-linear functions of its numbers.

A column of numbers is spread over hats between quantiles of it: at most two of them are above 0, and they add up to 1.
A label is one-hot; a number of a sensor with a label, its confidence, is spread over hats of its own for every label,
so that a classifier's confidence may mean one thing when it says cat and another when it says dog.
"""

from dataclasses import dataclass, field

import numpy as np

from models.arrays import Floats, Int32s, Int64s
from solvers.policy.sensors import Sensors

KNOTS = 5
"""Quantiles between which a column of numbers is taken for linear."""


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """sensors: what the columns are. knots: (D, KNOTS) float64, not falling, a labelled column's all 0.

    Derived: offsets: (D + 1,) where the functions of each column begin; owners: (F,) the sensor of each function.
    """

    sensors: Sensors
    knots: Floats
    offsets: Int64s = field(init=False, repr=False)
    owners: Int32s = field(init=False, repr=False)
    _labels: Int64s = field(init=False, repr=False)  # for each column that of the label that goes with it, -1 if none

    def __post_init__(self) -> None:
        owners, labelled = self.sensors.owners, self.sensors.labelled
        first = np.searchsorted(owners, owners)
        labels = np.where(~labelled & labelled[first], first, -1)
        classes = len(self.sensors.classes)
        widths = np.where(labelled, classes, np.where(labels >= 0, KNOTS * (classes + 1), KNOTS))
        object.__setattr__(self, "offsets", np.cumsum([0, *widths]))
        object.__setattr__(self, "owners", np.repeat(owners, widths))
        object.__setattr__(self, "_labels", labels)

    @classmethod
    def of(cls, sensors: Sensors, cells: Floats) -> "Basis":
        """Place the knots at the quantiles of the cells, (n, D), each once; the last is repeated if there are fewer."""
        knots = np.zeros((cells.shape[1], KNOTS))
        for column in np.flatnonzero(~sensors.labelled):
            quantiles = np.unique(np.quantile(cells[:, column], np.linspace(0, 1, KNOTS), method="nearest"))
            knots[column] = quantiles[np.minimum(np.arange(KNOTS), len(quantiles) - 1)]
        return cls(sensors, knots)

    def functions(self, cells: Floats, columns: Int64s) -> tuple[Int64s, Floats]:
        """Find the functions that are not 0, and their values, of some columns of cells, (n, D): two (n, w).

        >>> sensors = Sensors(("a",), np.array([0, 0], np.int32), np.array([True, False]), ("cat", "dog"))
        >>> basis = Basis(sensors, np.array([[0, 0, 0, 0, 0], [0.0, 0.25, 0.5, 0.75, 1.0]]))
        >>> basis.functions(np.array([[1.0, 0.5]]), np.array([0, 1]))[0].tolist()
        [[1, 4, 5, 14, 15]]
        """
        coded = columns[self.sensors.labelled[columns]]
        numeric = columns[~self.sensors.labelled[columns]]
        low, share = _between(self.knots[numeric], cells[:, numeric])
        sides = np.stack([low, low + 1], axis=2).reshape(len(cells), -1)
        weights = np.stack([1 - share, share], axis=2).reshape(len(cells), -1)
        codes, has = cells[:, coded].astype(np.int64), np.repeat(self._labels[numeric] >= 0, 2)
        own = cells[:, np.repeat(self._labels[numeric], 2)[has]].astype(np.int64)
        starts = np.repeat(self.offsets[numeric], 2)
        places = [
            self.offsets[coded] + np.maximum(codes, 0),
            starts + sides,
            starts[has] + KNOTS * (1 + np.maximum(own, 0)) + sides[:, has],
        ]
        values = [(codes >= 0).astype(np.float64), weights, weights[:, has] * (own >= 0)]
        return np.concatenate(places, axis=1), np.concatenate(values, axis=1)


def _between(knots: Floats, numbers: Floats) -> tuple[Int64s, Floats]:
    """Find between which two of their knots, (D, k), numbers, (n, D), lie, and how far from the lower to the upper.

    >>> low, share = _between(np.array([[0.0, 1.0, 3.0]]), np.array([[-5.0], [0.25], [2.0], [9.0]]))
    >>> low[:, 0].tolist(), share[:, 0].tolist()
    ([0, 0, 1, 1], [0.0, 0.25, 0.5, 1.0])
    """
    last = (knots < knots[:, -1:]).sum(axis=1)  # the first of the equal ones at the end
    low = np.clip((numbers[:, :, None] >= knots).sum(axis=2) - 1, 0, np.maximum(last - 1, 0))
    at = np.arange(len(knots))
    below = knots[at, low]
    span = knots[at, np.minimum(low + 1, knots.shape[1] - 1)] - below
    share = np.divide(numbers - below, span, out=np.zeros_like(numbers), where=span > 0)
    return low, np.clip(share, 0.0, 1.0)
