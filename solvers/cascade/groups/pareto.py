"""Pareto fronts of maximum and expected duration, in arrays.

A *label* is such a pair for a part of a cascade. One label dominates another if neither of its durations is larger.
"""

import numpy as np

from models.arrays import Floats, Int64s


def find_undominated(maxima: Floats, expected: Floats) -> Int64s:
    """Return the places of non-dominated labels, (n,), by increasing maximum; one of equal labels.

    Complexity: O(n log n) time, O(n) memory.

    >>> find_undominated(np.array([3.0, 1.0, 2.0]), np.array([5.0, 7.0, 7.0])).tolist()
    [1, 0]
    """
    order = np.lexsort((expected, maxima))
    ranked = expected[order]
    keep = np.ones(len(order), dtype=bool)
    keep[1:] = ranked[1:] < np.minimum.accumulate(ranked)[:-1]
    return order[keep]


def find_undominated_by_state(states: Int64s, maxima: Floats, expected: Floats) -> Int64s:
    """Return the places of labels that no other label of the same state dominates.

    Expected durations are replaced by ranks, lowered by more than all ranks from state to state, so one running minimum
    serves all states.

    Args:
        states: (n, w), one state per row.
        maxima: (n,).
        expected: (n,).
    Complexity: O(n log n) time, O(n) memory.

    >>> states, maxima = np.array([[1], [1], [2]]), np.array([1.0, 2.0, 9.0])
    >>> find_undominated_by_state(states, maxima, np.array([4.0, 4.0, 9.0])).tolist()
    [0, 2]
    """
    order = np.lexsort((expected, maxima, *states.T))
    _, rank = np.unique(expected[order], return_inverse=True)
    new_state = np.any(states[order[1:]] != states[order[:-1]], axis=1)
    state = np.concatenate(([0], np.cumsum(new_state)))
    height = rank.astype(np.int64) - state * (len(order) + 1)
    keep = np.ones(len(order), dtype=bool)
    keep[1:] = height[1:] < np.minimum.accumulate(height)[:-1]
    return order[keep]


def find_least_by_state(states: Int64s, maxima: Floats, expected: Floats) -> Int64s:
    """Return, for each state, the place of the label of least expected duration, then of least maximum.

    >>> find_least_by_state(np.array([[1], [1], [2]]), np.array([1.0, 2.0, 9.0]), np.array([4.0, 3.0, 9.0])).tolist()
    [1, 2]
    """
    order = np.lexsort((maxima, expected, *states.T))
    keep = np.ones(len(order), dtype=bool)
    keep[1:] = np.any(states[order[1:]] != states[order[:-1]], axis=1)
    return order[keep]


def thin_front(expected: Floats, max_labels: int) -> tuple[Int64s, float]:
    """Keep at most ``max_labels`` + 1 labels of a front, and return their places and the maximum loss.

    The range of expected durations is cut into ``max_labels`` bands; each keeps its label of least maximum. For every
    dropped label one stays with no larger maximum, and an expected duration larger by at most the width of a band: the
    loss.

    Args:
        expected: (n,), strictly falling as the maxima rise.

    >>> thin_front(np.array([9.0, 8.0, 5.0, 4.0, 1.0]), 2)
    (array([0, 2, 4]), 4.0)
    """
    if len(expected) <= max_labels:
        return np.arange(len(expected)), 0.0
    width = float(expected[0] - expected[-1]) / max_labels
    band = np.floor((expected[0] - expected) / width)
    keep = np.ones(len(expected), dtype=bool)
    keep[1:] = band[1:] != band[:-1]
    return np.flatnonzero(keep), width
