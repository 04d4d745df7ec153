"""Features of a node's policy: confidence of the node's classifier, and readings of acquired sensors."""

import numpy as np

from models.arrays import Bools, Floats
from solvers.policy.sensors import Sensors

TOP_PROBABILITIES = 3
"""Number of highest probabilities among the features."""
MAX_CLASSES = 12
"""Maximum number of classes for which all probabilities are features."""


def compute_node_features(sensors: Sensors, members: Bools, posteriors: Floats, cells: Floats) -> Floats:
    """Return the features of a node's policy, (n, d).

    These are the highest probabilities and their margin, and all probabilities if there are few classes. For each
    acquired sensor, its numbers, its label's code, and that label's probability follow. The axes of an embedding are
    last.

    Args:
        members: (M,), acquired sensors.
        posteriors: (n, C).
        cells: (n, D).

    >>> sensors = Sensors(("a",), np.array([0, 0], np.int32), np.array([True, False]), ("cat", "dog"))
    >>> compute_node_features(sensors, np.array([True]), np.array([[0.25, 0.75]]), np.array([[1.0, 0.9]])).tolist()
    [[0.75, 0.25, 0.5, 0.25, 0.75, 1.0, 0.75, 0.9]]
    """
    n, classes = posteriors.shape
    falling = -np.sort(-posteriors, axis=1)[:, :TOP_PROBABILITIES]
    ahead = falling[:, :1] - falling[:, 1:2] if classes > 1 else falling[:, :1]
    blocks = [falling, ahead]
    if classes <= MAX_CLASSES:
        blocks.append(posteriors)
    rows = np.arange(n)
    for column in sensors.known_columns(members).tolist():
        blocks.append(cells[:, column : column + 1])
        if sensors.labelled[column]:
            codes = cells[:, column].astype(np.int64)
            agreement = np.where(
                (codes >= 0) & (codes < classes), posteriors[rows, np.clip(codes, 0, classes - 1)], 0.0
            )
            blocks.append(agreement[:, None])
    return np.concatenate(blocks, axis=1)
