"""What the linear classifiers see of a sensor: its label, and piecewise-linear functions of its numbers.

A column of numbers is spread over hats between quantiles of it: at most two of them are above 0, and they add up to 1.
A label is one-hot; a number of a sensor with a label, its confidence, is spread over hats of its own for every label,
so that a classifier's confidence may mean one thing when it says cat and another when it says dog.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.policy.sensors import Sensors

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KNOTS = 5
"""Quantiles between which a column of numbers is taken for linear."""


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """sensors: what the columns are. knots: (D, KNOTS) float64, not falling, a labelled column's all 0."""

    sensors: Sensors
    knots: Floats

    @classmethod
    def of(cls, sensors: Sensors, cells: Floats) -> "Basis":
        """Place the knots at the quantiles of the cells, (n, D), each once; the last is repeated if there are fewer."""
        knots = np.zeros((cells.shape[1], KNOTS))
        for column in np.flatnonzero(~sensors.labelled):
            found = np.unique(np.quantile(cells[:, column], np.linspace(0, 1, KNOTS), method="nearest"))
            knots[column] = found[np.minimum(np.arange(KNOTS), len(found) - 1)]
        return cls(sensors, knots)

    def offsets(self) -> Ints:
        """Tell where the functions of each column begin: (D + 1,)."""
        labels = len(self.sensors.classes)
        widths = [labels if labelled else KNOTS * (labels + 1 if self._label_of(j) >= 0 else 1)
                  for j, labelled in enumerate(self.sensors.labelled)]  # fmt: skip
        return np.cumsum([0, *widths])

    def _label_of(self, column: int) -> int:
        """Find the column of the label that a column of numbers goes with, -1 if there is none."""
        first = int(np.searchsorted(self.sensors.owners, self.sensors.owners[column]))
        return first if self.sensors.labelled[first] else -1

    def owners(self) -> NDArray[np.int32]:
        """Tell the sensor of each function: (F,)."""
        return np.repeat(self.sensors.owners, np.diff(self.offsets()))

    def functions(self, cells: Floats, columns: Ints) -> tuple[Ints, Floats]:
        """Find the functions that are not 0, and their values, of some columns of cells, (n, D): two (n, w)."""
        offsets, places, values = self.offsets(), [], []
        for j in columns.tolist():
            if self.sensors.labelled[j]:
                code = cells[:, j].astype(np.int64)
                places.append([offsets[j] + np.maximum(code, 0)])
                values.append([(code >= 0).astype(np.float64)])
                continue
            low, share = _between(self.knots[j], cells[:, j])
            sides, weights = [offsets[j] + low, offsets[j] + low + 1], [1 - share, share]
            label = self._label_of(j)
            if label >= 0:
                code = cells[:, label].astype(np.int64)
                own = offsets[j] + KNOTS * (1 + np.maximum(code, 0)) + low
                sides += [own, own + 1]
                weights += [weight * (code >= 0) for weight in weights]
            places.append(sides)
            values.append(weights)
        if not places:
            return np.zeros((len(cells), 0), dtype=np.int64), np.zeros((len(cells), 0))
        return _beside(places), _beside(values)


def _between(knots: Floats, numbers: Floats) -> tuple[Ints, Floats]:
    """Find between which two knots numbers lie, and how far from the lower to the upper: from 0 to 1.

    >>> _between(np.array([0.0, 1.0, 3.0]), np.array([-5.0, 0.25, 2.0, 9.0]))
    (array([0, 0, 1, 1]), array([0.  , 0.25, 0.5 , 1.  ]))
    """
    last = int(np.searchsorted(knots, knots[-1]))  # the first of the equal ones at the end
    low = np.clip(np.searchsorted(knots, numbers, side="right") - 1, 0, max(last - 1, 0))
    span = knots[np.minimum(low + 1, len(knots) - 1)] - knots[low]
    share = np.divide(numbers - knots[low], span, out=np.zeros_like(numbers), where=span > 0)
    return low, np.clip(share, 0.0, 1.0)


def _beside(parts: list[list[Any]]) -> NDArray[Any]:
    return np.stack([column for part in parts for column in part], axis=1)
