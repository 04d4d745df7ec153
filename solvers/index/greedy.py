"""Greedy feature sequences (Algorithm 4): cheap to build, any-time at look-up, without a guarantee.

For each λ a sequence starts from the empty set and adds, one at a time, the feature of the largest

    gain = (increase in accuracy) - λ · (increase in cost at the median size).

With λ = 0 only accuracy counts, with λ → ∞ only cost. The paper uses the names Greedy-Acc and Greedy-Cost
inconsistently. Here ``greedy-acc`` is λ = 0, the largest increase in accuracy first; ``greedy-cost`` is λ → ∞, the
cheapest feature first.

``build_sequences`` builds the sequences; ``FeatureSequences`` chooses a sequence at look-up and adds features within
the budget.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from models.arrays import Floats, Int64s
from solvers.index.costs import SetCosts
from solvers.index.lattice import AccuracyFunction, BudgetExhausted
from solvers.index.skyline import find_skyline
from solvers.setup_groups import NO_GROUPS, SetupGroups


def build_sequences(
    accuracy: AccuracyFunction,
    costs: Floats,
    lambdas: Sequence[float],
    names: Sequence[str],
    groups: SetupGroups = NO_GROUPS,
) -> list[list[int]]:
    """Return the sequence of each λ; inf means λ → ∞.

    If the budget of trainings is exhausted, all sequences end at the same length.

    Args:
        accuracy: returns accuracies of sets; called once per step with the sets of all sequences.
        costs: (F + G,), of features and of set-up groups, at the median size.
        names: F names; ties are broken by cost, then by name.
        groups: set-up groups; a feature also costs the groups that it is the first to need.
    Complexity: at most F (F + 1) / 2 trainings for each λ.

    >>> value = {0: 0.5, 1: 0.8, 2: 0.7, 3: 0.9}
    >>> build_sequences(lambda sets: [value[s] for s in sets], np.array([4.0, 1.0]), [0.0, 1.0], ["a", "b"])
    [[0, 1], [1, 0]]
    """
    sequences: list[list[int]] = [[] for _ in lambdas]
    sets = [0] * len(sequences)
    known = dict(zip([0], accuracy([0]), strict=True))
    for _ in names:
        wanted: dict[int, None] = {}
        steps = [price_steps(costs, groups, mask) for mask in sets]
        for mask, weight, step_costs in zip(sets, lambdas, steps, strict=True):
            for f in _eligible(mask, weight, step_costs, names):
                wanted.setdefault(mask | 1 << f)
        fresh = [mask for mask in wanted if mask not in known]
        try:
            known.update(zip(fresh, accuracy(fresh), strict=True))
        except BudgetExhausted:
            return sequences
        for i, weight in enumerate(lambdas):
            best = _choose_next(known, sets[i], weight, steps[i], names)
            sequences[i].append(best)
            sets[i] |= 1 << best
    return sequences


def _choose_next(
    known: Mapping[int, float], mask: int, weight: float, step_costs: Sequence[float], names: Sequence[str]
) -> int:
    """Return the eligible feature of the largest gain; ties by cost, then by name."""
    return min(
        _eligible(mask, weight, step_costs, names),
        key=lambda f: (-_gain(known[mask | 1 << f] - known[mask], weight, step_costs[f]), step_costs[f], names[f]),
    )


def order_by_cost(costs: Floats, groups: SetupGroups, names: Sequence[str]) -> list[int]:
    """Return the sequence of λ → ∞: the cheapest next feature first, ties by name.

    >>> order_by_cost(np.array([2.0, 1.0, 1.0]), NO_GROUPS, ["a", "c", "b"])
    [2, 1, 0]
    """
    order, mask = list[int](), 0
    for _ in names:
        order += _eligible(mask, inf, price_steps(costs, groups, mask), names)
        mask |= 1 << order[-1]
    return order


def price_steps(costs: Floats, groups: SetupGroups, mask: int) -> list[float]:
    """Return the cost of each feature as the next one after a set, F.

    costs: (F + G,), of features and of groups.
    """
    known = (mask >> np.arange(len(costs) - len(groups)) & 1).astype(np.bool_)
    prices: list[float] = groups.step_costs(costs, known).tolist()
    return prices


def _eligible(mask: int, weight: float, costs: Sequence[float], names: Sequence[str]) -> list[int]:
    """Return the features that can be added next.

    These are all remaining features, or, with λ → ∞, the cheapest of them.
    """
    remaining = [f for f in range(len(costs)) if not mask >> f & 1]
    return remaining if weight < inf else [min(remaining, key=lambda f: (costs[f], names[f]))]


def _gain(rise: float, weight: float, cost: float) -> float:
    return rise - weight * cost if weight < inf else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class FeatureSequences:
    """Sequences of l features, one for each λ; each prefix is a feature set.

    Attributes:
        lambdas: q weights, 0 first and inf last.
        masks: l + 1 prefixes of each sequence.
        accuracies: accuracies of the prefixes.
        curves: cost polynomials of the prefixes, highest power first; by terms for several dimensions.
        skyline_costs: costs of the undominated prefixes at the median size, rising.
        skyline_sequences: the sequence of each of these prefixes.
    """

    lambdas: list[float]
    masks: list[list[int]]
    accuracies: list[list[float]]
    curves: list[list[tuple[float, ...]]]
    skyline_costs: list[float]
    skyline_sequences: list[int]

    @classmethod
    def from_orders(
        cls, costs: SetCosts, lambdas: Floats, orders: Int64s, accuracies: Floats, size: Sequence[float]
    ) -> "FeatureSequences":
        """Build the look-up.

        orders: (q, l), features in order. accuracies: (q, l + 1), accuracies of the prefixes.
        """
        bits = np.concatenate((np.zeros((len(orders), 1), dtype=np.int64), np.left_shift(1, orders)), axis=1)
        masks = np.cumsum(bits, axis=1)
        curves = costs.sum_features(masks.ravel())
        at_median = costs.evaluate(curves, size)
        flat = accuracies.ravel()
        rank = np.lexsort((np.arange(len(flat)), -flat))
        undominated = rank[find_skyline(at_median[rank], flat[rank])][::-1]
        width = masks.shape[1]
        return cls(
            lambdas.tolist(),
            masks.tolist(),
            accuracies.tolist(),
            [[tuple(curve[::-1]) for curve in rows] for rows in curves.reshape(*masks.shape, -1).tolist()],
            at_median[undominated].tolist(),
            (undominated // width).tolist(),
        )

    def choose_sequence(self, method: str, budget: float) -> int:
        """Return the index of the sequence to use.

        That of λ = 0 for ``greedy-acc``, of λ = ∞ for ``greedy-cost``, else the best within the budget at the median
        size.
        """
        if method == "greedy-acc":
            return self.lambdas.index(0.0)
        if method == "greedy-cost":
            return self.lambdas.index(inf)
        place = bisect_right(self.skyline_costs, budget) - 1
        return self.skyline_sequences[max(place, 0)]

    def count_affordable(self, sequence: int, size: float, budget: float) -> tuple[int, float]:
        """Return the number and the cost of the first features of a sequence that fit the budget at a size.

        Costs rise along a sequence, so the last prefix that fits is found by bisection.
        """
        curves = self.curves[sequence]
        low, high, cost = 0, len(curves), 0.0
        while high - low > 1:
            middle = (low + high) // 2
            value = 0.0
            for coefficient in curves[middle]:
                value = value * size + coefficient
            if value <= budget:
                low, cost = middle, value
            else:
                high = middle
        return low, cost


def continue_sequence(
    orders: Sequence[int], mask: int, costs: Floats, budget: float, groups: SetupGroups = NO_GROUPS
) -> tuple[int, float]:
    """Continue a sequence from computed features; return the reached set and its additional cost.

    The continuation stops at the first feature that does not fit the budget.

    Args:
        orders: the features in order.
        mask: computed features, which cost nothing more.
        costs: (F + G,), of features and of groups; 0 for groups that are paid for otherwise.
        groups: set-up groups; those of the computed features cost nothing more.

    >>> continue_sequence([2, 0, 1], 0b001, np.array([5.0, 9.0, 1.0]), 2.0)
    (5, 1.0)
    """
    reached, paid, prices = 0, 0.0, costs.tolist()
    for f in orders:
        prices = price_steps(costs, groups, mask | reached) if len(groups) else prices
        price = 0.0 if mask >> f & 1 else prices[f]
        if paid + price > budget and price > 0:
            break
        reached, paid = reached | 1 << f, paid + price
    return reached, paid
