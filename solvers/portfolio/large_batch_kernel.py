"""One pass over a batch at a shadow price."""

import numpy as np
from numpy.typing import NDArray

from models.arrays import Floats, Singles
from solvers.jit import compile_kernel


@compile_kernel()
def add_compensated(total: float, lost: float, term: float) -> tuple[float, float]:
    """Add a term to a sum with Kahan's summation.

    Return the sum and the accumulated rounding error.
    """
    corrected = term - lost
    following = total + corrected
    return following, (following - total) - corrected


@compile_kernel(cache=True, nogil=True)
def choose_at_price(
    estimates: Singles, added: Floats, costs: Floats, price: float, choice: NDArray[np.uint8]
) -> tuple[float, float, float]:
    """Choose for each query the classifier with the highest value minus priced cost.

    Ties go to the cheapest.

    Args:
        estimates: (n, m); values are estimates plus ``added``.
        added: (m,).
        costs: (n, m), or (1, m) if all queries cost the same.
        choice: (n,), receives the classifier of each query.

    Returns:
        The sums of the chosen values, of their costs, and of the value minus priced cost.

    Complexity: O(n m).
    """
    value = cost = dual = 0.0
    lost_value = lost_cost = lost_dual = 0.0
    for i in range(estimates.shape[0]):
        row = i if costs.shape[0] > 1 else 0
        best, best_gain = 0, estimates[i, 0] + added[0] - price * costs[row, 0]
        for j in range(1, estimates.shape[1]):
            gain = estimates[i, j] + added[j] - price * costs[row, j]
            if gain > best_gain or (gain == best_gain and costs[row, j] < costs[row, best]):
                best, best_gain = j, gain
        choice[i] = best
        value, lost_value = add_compensated(value, lost_value, estimates[i, best] + added[best])
        cost, lost_cost = add_compensated(cost, lost_cost, costs[row, best])
        dual, lost_dual = add_compensated(dual, lost_dual, best_gain)
    return value, cost, dual
