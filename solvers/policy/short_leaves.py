"""Leaves of many trees as whole numbers of a byte each, in units of their tree: a quarter of the room.

What is rounded away is less than a 254th of the most that a tree adds, and trees err in either direction: it adds up to
less than a hundredth of a logit.
"""

import numpy as np

from models.arrays import Int8s, Singles

MOST_SINGLES = 2_000_000
"""Numbers that leaves are kept as they are of: 8 MB."""
STEPS = 127
"""The most whole numbers that a leaf is from 0."""


def shortened(leaves: Singles) -> tuple[Int8s, Singles]:
    """Round leaves, (S, K, T, 2^d, C), to whole numbers of a unit for each tree: these, and the units, (S, K, T).

    >>> steps, units = shortened(np.array([[[[[0.5], [-1.0]]]]], dtype=np.float32))
    >>> steps.ravel().tolist(), (units * STEPS).tolist()
    ([64, -127], [[[1.0]]])
    """
    units = (np.abs(leaves).max(axis=(-2, -1)) / STEPS).astype(np.float32)
    scales = np.where(units > 0, units, np.float32(1))[..., None, None]
    return np.clip(np.rint(leaves / scales), -STEPS, STEPS).astype(np.int8), units
