"""Skyline (Pareto front) at one size: the feature sets that are not dominated in cost and accuracy."""

import numpy as np

from models.arrays import Floats, Int64s


def find_skyline(costs: Floats, accuracies: Floats) -> Int64s:
    """Return the skyline of sets that are sorted by preference.

    Preference is falling accuracy, then fewer features, then names.

    Of equally accurate sets, the cheapest is kept. Of equally expensive sets, the most accurate is kept. Of equal sets,
    the first is kept.

    Args:
        costs, accuracies: (c,).
    Returns:
        Indices by falling cost and accuracy.
    Complexity: O(c).

    >>> find_skyline(np.array([9.0, 4.0, 5.0, 1.0, 1.0]), np.array([0.9, 0.8, 0.8, 0.8, 0.5])).tolist()
    [0, 3]
    """
    cheaper = np.ones(len(costs), dtype=bool)
    cheaper[1:] = costs[1:] < np.minimum.accumulate(costs)[:-1]
    undominated = np.flatnonzero(cheaper)
    ranked = accuracies[undominated]
    last = np.ones(len(undominated), dtype=bool)
    last[:-1] = ranked[1:] != ranked[:-1]
    return undominated[last]
