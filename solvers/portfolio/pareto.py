"""Which classifiers another one beats in both cost and accuracy (OCCAM, Appendix A.6)."""

from collections.abc import Sequence

import moocore
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def beaten(names: Sequence[str], accuracies: Floats, costs: Floats) -> dict[str, str]:
    """Name the classifiers that another one costs no more than and is as accurate as, one of both better; and by whom.

    Of several the most accurate of the cheapest is named.

    >>> beaten(["a", "b", "c"], np.array([0.8, 0.7, 0.9]), np.array([1.0, 2.0, 3.0]))
    {'b': 'a'}
    """
    points = np.column_stack((costs, accuracies))
    efficient = moocore.is_nondominated(points, maximise=[False, True], keep_weakly=True)
    found: dict[str, str] = {}
    for loser in np.flatnonzero(~efficient).tolist():
        better = (costs <= costs[loser]) & (accuracies >= accuracies[loser]) & efficient
        winner = min(np.flatnonzero(better).tolist(), key=lambda i: (costs[i], -accuracies[i]))
        found[names[loser]] = names[winner]
    return found
