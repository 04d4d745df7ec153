"""The skyline at one size: the feature sets that no other one both undercuts and reaches in accuracy."""

import numpy as np

from models.arrays import Floats, Int64s


def skyline(costs: Floats, accuracies: Floats) -> Int64s:
    """Find the skyline among sets given in order of preference: by falling accuracy, then fewer features, then names.

    costs, accuracies: (c,). Among equally accurate sets the cheapest stays, among equally cheap ones the most accurate,
    among equals the first. Returns indices by falling cost and accuracy; O(c) time.

    >>> skyline(np.array([9.0, 4.0, 5.0, 1.0, 1.0]), np.array([0.9, 0.8, 0.8, 0.8, 0.5])).tolist()
    [0, 3]
    """
    cheaper = np.ones(len(costs), dtype=bool)
    cheaper[1:] = costs[1:] < np.minimum.accumulate(costs)[:-1]
    undominated = np.flatnonzero(cheaper)
    ranked = accuracies[undominated]
    last = np.ones(len(undominated), dtype=bool)
    last[:-1] = ranked[1:] != ranked[:-1]
    return undominated[last]
