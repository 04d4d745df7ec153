"""Sensor subset selection for many sensors: a few groups such that for most items some group is enough (Algorithm 2).

The reward of t groups is the share of items that at least one of them answers rightly (Eq. 12); a greedy search adds
the sensor to the group that raises it most, until the groups' costs, added up, reach a limit. With sensors of unlike
costs it is done twice, by the rise and by the rise for a unit of cost, and the better outcome counts: the latter alone
can be arbitrarily bad, both together cannot (Leskovec and others, which the paper cites).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats

Group = frozenset[int]
Right = Callable[[Group], Bools]
"""Tells which of the items are answered rightly with the sensors of a group, (n,)."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """groups: the t groups, some of them perhaps empty; reward: the share of items that some group answers rightly."""

    groups: tuple[Group, ...]
    reward: float


def reward(right: Right, groups: Sequence[Group]) -> float:
    """Tell the share of items that at least one group answers rightly (Eq. 12).

    >>> told = {frozenset({0}): np.array([True, False]), frozenset({1}): np.array([False, True])}
    >>> reward(told.__getitem__, list(told))
    1.0
    """
    return float(np.any([right(group) for group in groups], axis=0).mean())


def choose_subsets(right: Right, costs: Floats, count: int, limit: float) -> Chosen:
    """Choose groups of sensors, costs (M,), whose costs add up to at most the limit. Asks for at most M groups more
    with every sensor that is added, and for none twice."""
    known: dict[Group, Bools] = {}

    def remembered(group: Group) -> Bools:
        if group not in known:
            known[group] = right(group)
        return known[group]

    ways = [False] if bool(np.all(costs == costs[0])) else [False, True]
    choices = [_grow(remembered, costs, count, limit, per_cost=way) for way in ways]
    return max(choices, key=lambda each: each.reward)


def _grow(right: Right, costs: Floats, count: int, limit: float, *, per_cost: bool) -> Chosen:
    groups, spent = [Group()] * count, 0.0
    while True:
        before, best = reward(right, groups), None
        for i in sorted({group: at for at, group in reversed(list(enumerate(groups)))}.values()):
            rest = [right(group) for at, group in enumerate(groups) if at != i]
            others = np.any(rest, axis=0) if rest else np.zeros_like(right(groups[i]))
            for j in range(len(costs)):
                if j in groups[i] or spent + costs[j] > limit * (1 + 1e-12):
                    continue
                gain = float((others | right(groups[i] | {j})).mean()) - before
                worth = gain / max(costs[j], 1e-12 * limit) if per_cost else gain
                if best is None or worth > best[0]:
                    best = (worth, i, j)
        if best is None or best[0] < 0:
            return Chosen(tuple(groups), before)
        groups[best[1]] |= {best[2]}
        spent += float(costs[best[2]])
