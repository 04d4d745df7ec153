"""What stopping at each node costs every row: observed errors, and errors to be expected (Eq. 1, Eq. 10).

Eq. 10 takes any loss D(x, y, s) of stopping with the sensors of s. The observed one, 1 where the set's classifier is
wrong, is 0 or 1, and most of what a node would learn from it is chance. The expected one asks the classifier of all
sensors, fitted without the row, how likely the set's answer is wrong: it has the same mean as far as that classifier is
calibrated, and is 0 apart for two sets that answer alike. A share of each goes into the losses that nodes learn from;
what a policy is judged by is the observed loss alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int32s


@dataclass(frozen=True, slots=True, eq=False)
class StoppingLosses:
    """observed: (S, n), 1 where the answer of a node's classifier is wrong, else 0; learned: (S, n), what nodes learn
    from, from 0 to 1."""

    observed: Floats
    learned: Floats

    @classmethod
    def from_posteriors(cls, posteriors: Sequence[Floats], labels: Int32s, smoothing: float) -> "StoppingLosses":
        """Judge the answers of S classifiers, the last that of all sensors, by their posteriors, (n, C) each.

        >>> sure, unsure = np.array([[0.9, 0.1]]), np.array([[0.4, 0.6]])
        >>> StoppingLosses.from_posteriors([unsure, sure], np.array([0], np.int32), 0.5).learned[:, 0].round(2).tolist()
        [0.95, 0.05]
        """
        rows = np.arange(len(labels))
        answers = [each.argmax(axis=1) for each in posteriors]
        observed = np.array([answer != labels for answer in answers], dtype=np.float64)
        expected = np.array([1.0 - posteriors[-1][rows, answer] for answer in answers])
        return cls(observed, (1 - smoothing) * observed + smoothing * expected)
