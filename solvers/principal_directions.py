"""Principal directions: those along which rows differ most."""

import numpy as np

from models.arrays import Floats


def principal_directions(off: Floats, most: int) -> Floats:
    """Find the directions of rows less their mean, off (n, d), the most telling first: (d, k) of unit length, k at most
    ``most``, n and d. The sign of each, which is chance, makes its largest coordinate positive. O(n d min(n, d)).

    >>> principal_directions(np.array([[-1.0, 0.0], [1.0, 0.0]]), 1).tolist()
    [[1.0], [0.0]]
    """
    if len(off) < off.shape[1]:
        axes = np.linalg.svd(off, full_matrices=False)[2].T[:, :most]
    else:
        axes = np.linalg.eigh(off.T @ off)[1][:, ::-1][:, :most]
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])]
    return np.asarray(axes * np.where(largest < 0, -1.0, 1.0))
