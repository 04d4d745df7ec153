"""Greedy sequences of features (Algorithm 4): cheap to build, any-time at look-up, without a guarantee.

For each λ a sequence starts from the empty set and adds, one at a time, the feature of the largest

    gain = (increase in accuracy) - λ · (increase in cost at the median size).

λ = 0 looks at accuracy only, λ → ∞ at cost only. The paper gives the names Greedy-Acc and Greedy-Cost to these both
ways round; here ``greedy-acc`` is λ = 0, the largest rise in accuracy first, and ``greedy-cost`` the least cost first.
"""

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from solvers.index.lattice import Accuracy, Exhausted

Floats = NDArray[np.float64]


def greedy_sequences(
    accuracy: Accuracy, costs: Floats, lambdas: Sequence[float], names: Sequence[str]
) -> list[list[int]]:
    """Find the sequence of each λ; inf stands for λ → ∞.

    accuracy is called once for each step, with the sets that any sequence needs; costs: (F,) at the median size. Among
    equal gains the cheaper feature comes first, then the name. At most F (F + 1) / 2 trainings for each λ; where their
    budget is used up, all sequences end at the same length.

    >>> value = {0: 0.5, 1: 0.8, 2: 0.7, 3: 0.9}
    >>> greedy_sequences(lambda sets: [value[s] for s in sets], np.array([4.0, 1.0]), [0.0, 1.0], ["a", "b"])
    [[0, 1], [1, 0]]
    """
    prices = costs.tolist()
    sequences: list[list[int]] = [[] for _ in lambdas]
    sets = [0] * len(sequences)
    known = dict(zip([0], accuracy([0]), strict=True))
    for _ in prices:
        wanted: dict[int, None] = {}
        for mask, weight in zip(sets, lambdas, strict=True):
            for f in _eligible(mask, weight, prices, names):
                wanted.setdefault(mask | 1 << f)
        fresh = [mask for mask in wanted if mask not in known]
        try:
            known.update(zip(fresh, accuracy(fresh), strict=True))
        except Exhausted:
            return sequences
        for i, weight in enumerate(lambdas):
            mask = sets[i]
            best = min(
                _eligible(mask, weight, prices, names),
                key=lambda f: (-_gain(known[mask | 1 << f] - known[mask], weight, prices[f]), prices[f], names[f]),
            )
            sequences[i].append(best)
            sets[i] = mask | 1 << best
    return sequences


def _eligible(mask: int, weight: float, costs: Sequence[float], names: Sequence[str]) -> list[int]:
    """List the features that can come next: all that are left, with λ → ∞ the cheapest only."""
    left = [f for f in range(len(costs)) if not mask >> f & 1]
    return left if weight < inf else [min(left, key=lambda f: (costs[f], names[f]))]


def _gain(rise: float, weight: float, cost: float) -> float:
    return rise - weight * cost if weight < inf else 0.0
