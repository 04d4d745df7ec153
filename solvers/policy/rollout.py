"""Walking items through the DAG, all at once, node by node."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.arrays import Floats, Int64s
from solvers.policy.graph import Graph

ChooseActions = Callable[[int, Int64s], NDArray[np.integer]]
"""Says for some rows, which are at a node, the action that each takes: 0 stops."""


@dataclass(frozen=True, slots=True, eq=False)
class Walks:
    """Where items came. ends: (n,) the node at which each stopped; nodes: (n, J) the nodes on the way, the first of
    them the empty set, -1 beyond the end."""

    ends: Int64s
    nodes: Int64s

    def costs(self, graph: Graph, costs: Floats) -> Floats:
        """Add up what each item's sensors cost, costs (n, M) or (M,): (n,)."""
        return np.asarray((graph.members[self.ends] * costs).sum(axis=1))


def walk_items(graph: Graph, rows: int, choose: ChooseActions) -> Walks:
    """Send rows from the empty set along the actions chosen until they stop. Nodes stand in the order of the DAG, so
    that each is visited once, by all rows that ever come to it. O(S n) beside the choices.

    >>> choose = lambda node, rows: np.where(rows == 0, 0, min(node + 1, 1) * (node < 1))
    >>> walk_items(Graph.all_subsets(2), 2, choose).nodes.tolist()
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
    return Walks(at, np.stack(nodes, axis=1))
