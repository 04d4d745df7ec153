"""Budgets that no item exceeds: which are learned for, and what they bar.

What a set of sensors costs at average prices is known at its node, and with it what is left of a hard budget. So
decisions for a hard budget are learned as those for a trade-off are, backwards over the DAG, where actions that lead to
a set beyond the budget are barred; a small trade-off decides among what is as good.
"""

import numpy as np

from models.arrays import Bools, Floats
from solvers.policy.graph import Graph

SMALL, MOST = 7, 14
"""The cheapest hard budgets are learned for one by one, and at most so many of all."""
ROUNDING = 1e-12
"""Costs that were added up in another order may differ by so much of themselves."""


def caps_of(graph: Graph, means: Floats) -> Floats:
    """List hard budgets to learn for, rising: what the cheapest sets cost, then sets ever farther apart. means: (M,).

    >>> caps_of(Graph.of(2), np.array([1.0, 3.0])).tolist()
    [1.0, 3.0, 4.0]
    """
    costs = np.unique(graph.members.astype(np.float64) @ means)
    costs = costs[costs > 0]
    costs = costs[np.diff(costs, prepend=0.0) > ROUNDING * costs]
    if len(costs) <= MOST:
        return costs
    far = np.geomspace(costs[SMALL - 1], costs[-1], MOST - SMALL + 1)
    places = np.unique(np.abs(costs[:, None] - far).argmin(axis=0))
    return np.union1d(costs[:SMALL], costs[places])


def barred_actions(graph: Graph, node: int, means: Floats, caps: Floats) -> Bools:
    """Tell which actions of a node lead beyond which hard budgets, (L,): (A, L).

    >>> barred_actions(Graph.of(2), 0, np.array([1.0, 3.0]), np.array([np.inf, 2.0])).tolist()
    [[False, False], [False, True]]
    """
    costs = graph.members[graph.actions_of(node)].astype(np.float64) @ means
    return np.asarray(costs[:, None] > caps * (1 + ROUNDING))
