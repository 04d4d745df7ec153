"""Losses of stopping at each node: observed errors and expected errors (Eq. 1, Eq. 10).

Eq. 10 allows any loss D(x, y, s) of stopping with the sensors of s. The observed loss is 0 or 1, and mostly noise for a
node that learns from it. The expected loss is the probability of an error according to the out-of-fold classifier of
all sensors. It has the same mean if that classifier is calibrated, and does not differ between sets of equal answers.
Nodes learn from a mixture of both; evaluation uses the observed loss alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Floats, Int32s


@dataclass(frozen=True, slots=True, eq=False)
class StoppingLosses:
    """Losses of stopping.

    Attributes:
        observed: (S, n), 1 where the node's answer is wrong, else 0.
        learned: (S, n), what nodes learn from, in [0, 1].
    """

    observed: Floats
    learned: Floats

    @classmethod
    def from_posteriors(cls, posteriors: Sequence[Floats], labels: Int32s, smoothing: float) -> "StoppingLosses":
        """Compute losses from posteriors, (n, C), of S classifiers; the last has all sensors.

        >>> sure, unsure = np.array([[0.9, 0.1]]), np.array([[0.4, 0.6]])
        >>> StoppingLosses.from_posteriors([unsure, sure], np.array([0], np.int32), 0.5).learned[:, 0].round(2).tolist()
        [0.95, 0.05]
        """
        rows = np.arange(len(labels))
        answers = [each.argmax(axis=1) for each in posteriors]
        observed = np.array([answer != labels for answer in answers], dtype=np.float64)
        expected = np.array([1.0 - posteriors[-1][rows, answer] for answer in answers])
        return cls(observed, (1 - smoothing) * observed + smoothing * expected)
