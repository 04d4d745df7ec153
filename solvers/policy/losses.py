"""Losses of stopping at each node: observed errors and expected errors (Eq. 1, Eq. 10).

Eq. 10 allows any loss D(x, y, s) of stopping with the sensors of s. Here it is 0 or 1, or an entry of a loss matrix as
a share of the largest loss. The observed loss of a row is a noisy training target for a node. The expected loss is the
loss of the node's answer under the class probabilities of the out-of-fold classifier of all sensors. If that classifier
is calibrated, both losses have the same mean. Nodes with the same answer have the same expected loss. Nodes are fitted
to a mixture of both losses. Evaluation uses the observed loss alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats, Int32s
from models.losses import Losses


@dataclass(frozen=True, slots=True, eq=False)
class StoppingLosses:
    """Losses of stopping, as shares of the largest loss.

    Attributes:
        observed: (S, n), loss of each node's answer.
        learned: (S, n), losses to which nodes are fitted.
        rejected: (S, n), whether each node rejects the row.
    """

    observed: Floats
    learned: Floats
    rejected: Bools

    @classmethod
    def from_posteriors(
        cls, posteriors: Sequence[Floats], labels: Int32s, smoothing: float, losses: Losses
    ) -> "StoppingLosses":
        """Compute losses from posteriors, (n, C), of S classifiers; the last has all sensors.

        >>> sure, unsure = np.array([[0.9, 0.1]]), np.array([[0.4, 0.6]])
        >>> label, equal = np.array([0], np.int32), Losses.zero_one(2)
        >>> StoppingLosses.from_posteriors([unsure, sure], label, 0.5, equal).learned[:, 0].round(2).tolist()
        [0.95, 0.05]
        """
        answers = [losses.choose(each)[0] for each in posteriors]
        observed = np.array([losses.measure(labels, answer) for answer in answers])
        expected = np.array([losses.compute_expected_losses(posteriors[-1], answer) for answer in answers])
        rejected = np.array(answers) == posteriors[0].shape[1]
        return cls(observed, (1 - smoothing) * observed + smoothing * expected, rejected)
