"""Rollout: move all items through the DAG at once, node by node."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.arrays import Floats, Int64s
from solvers.policy.graph import Graph

ChooseActions = Callable[[int, Int64s], NDArray[np.integer]]
"""Returns the action of each of some rows at a node: 0 stops."""


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedPaths:
    """Paths of items.

    Attributes:
        ends: (n,), node at which each item stopped.
        nodes: (n, J), nodes on the path, the empty set first, -1 after the end.
    """

    ends: Int64s
    nodes: Int64s

    def total_costs(self, graph: Graph, costs: Floats) -> Floats:
        """Return the total cost of each item's sensors and set-up groups, (n,), from costs (n, M + G) or (M + G,)."""
        return np.asarray((graph.mark_paid(self.ends) * costs).sum(axis=1))


def simulate_policy(graph: Graph, rows: int, choose: ChooseActions) -> SimulatedPaths:
    """Simulate the policy: move rows from the empty set along chosen actions until they stop.

    Nodes are in topological order. So each node is visited once, by all rows that reach it.

    Complexity: O(S n), without the choices.

    >>> choose = lambda node, rows: np.where(rows == 0, 0, min(node + 1, 1) * (node < 1))
    >>> simulate_policy(Graph.all_subsets(2), 2, choose).nodes.tolist()
    [[0, -1], [0, 1]]
    """
    at, nodes = np.zeros(rows, dtype=np.int64), [np.zeros(rows, dtype=np.int64)]
    count = np.ones(rows, dtype=np.int64)
    for node in range(len(graph)):
        at_node = np.flatnonzero(at == node)
        actions = graph.list_actions(node)
        if not len(at_node) or not len(actions):
            continue
        taken = np.asarray(choose(node, at_node), dtype=np.int64)
        going, moving = at_node[taken > 0], taken[taken > 0]
        at[going] = actions[moving - 1]
        if len(going) and int(count[going].max()) == len(nodes):
            nodes.append(np.full(rows, -1, dtype=np.int64))
        for row_count in np.unique(count[going]).tolist():
            some = going[count[going] == row_count]
            nodes[row_count][some] = at[some]
        count[going] += 1
    return SimulatedPaths(at, np.stack(nodes, axis=1))
