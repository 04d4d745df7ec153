"""Principal component analysis: directions of largest variance."""

import numpy as np

from models.arrays import Floats


def principal_directions(centred: Floats, maximum: int) -> Floats:
    """Return the unit directions of largest variance, (d, k), of centered rows, (n, d).

    k is at most ``maximum``, n, and d. The sign of each direction makes its largest coordinate positive. Complexity:
    O(n d min(n, d)).

    >>> principal_directions(np.array([[-1.0, 0.0], [1.0, 0.0]]), 1).tolist()
    [[1.0], [0.0]]
    """
    if len(centred) < centred.shape[1]:
        axes = np.linalg.svd(centred, full_matrices=False)[2].T[:, :maximum]
    else:
        axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :maximum]
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])]
    return np.asarray(axes * np.where(largest < 0, -1.0, 1.0))
