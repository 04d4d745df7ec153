"""Pareto fronts of maximum and expected duration, in arrays.

A *label* is a pair (maximum duration, expected duration) of a partial cascade. A label dominates another if neither of
its durations is larger.
"""

import numpy as np

from models.arrays import Floats, Int64s


def find_undominated(maxima: Floats, expected: Floats) -> Int64s:
    """Return the indices of non-dominated labels by increasing maximum; one of several equal labels.

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
    """Return the indices of labels that no other label of the same state dominates.

    Expected durations are replaced by ranks, and the ranks of each state are shifted below those of the previous state.
    Then a single running minimum finds the non-dominated labels of all states.

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
    """Return, for each state, the index of the label of least expected duration; ties go to the least maximum.

    >>> find_least_by_state(np.array([[1], [1], [2]]), np.array([1.0, 2.0, 9.0]), np.array([4.0, 3.0, 9.0])).tolist()
    [1, 2]
    """
    order = np.lexsort((maxima, expected, *states.T))
    keep = np.ones(len(order), dtype=bool)
    keep[1:] = np.any(states[order[1:]] != states[order[:-1]], axis=1)
    return order[keep]


def subsample_front(expected: Floats, max_labels: int) -> tuple[Int64s, float]:
    """Thin a front to at most ``max_labels`` + 1 labels.

    Return the indices of the labels and the maximum loss of expected duration.

    The range of expected durations is divided into ``max_labels`` bands of equal width. Of each band, the label with
    the least maximum is kept. So for every removed label, a kept label has no larger maximum, and its expected duration
    is larger by at most the width of a band. This width is the loss.

    Args:
        expected: (n,), strictly falling as the maxima rise.

    >>> subsample_front(np.array([9.0, 8.0, 5.0, 4.0, 1.0]), 2)
    (array([0, 2, 4]), 4.0)
    """
    if len(expected) <= max_labels:
        return np.arange(len(expected)), 0.0
    width = float(expected[0] - expected[-1]) / max_labels
    band = np.floor((expected[0] - expected) / width)
    keep = np.ones(len(expected), dtype=bool)
    keep[1:] = band[1:] != band[:-1]
    return np.flatnonzero(keep), width
