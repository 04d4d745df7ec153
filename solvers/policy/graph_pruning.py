"""Pruning of a grown graph: keep the edges that items took, and one detour.

The detour is for items whose usual first sensor fails.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.arrays import Bools, Floats, Int64s
from solvers.policy.graph import Graph
from solvers.policy.regression import NodePolicy
from solvers.policy.traffic import PassedCounts


@dataclass(frozen=True, slots=True, eq=False)
class PrunedGraph:
    """Part of a DAG.

    Attributes:
        graph: the remaining DAG.
        nodes: indices of its nodes in the original graph, rising.
        edges: indices of its edges in the original graph, rising.
    """

    graph: Graph
    nodes: Int64s
    edges: Int64s

    @classmethod
    def from_used_edges(cls, graph: Graph, used: Bools) -> "PrunedGraph":
        """Keep the used edges, (E,), or the first edge if none is used.

        The first and the last node always remain.

        >>> part = PrunedGraph.from_used_edges(Graph.all_subsets(2), np.array([True, False, False, False]))
        >>> part.nodes.tolist(), part.graph.offsets.tolist(), part.graph.targets.tolist()
        ([0, 1, 3], [0, 1, 1, 1], [1])
        """
        edges = np.flatnonzero(used) if used.any() else np.zeros(1, dtype=np.int64)
        sources = np.repeat(np.arange(len(graph)), np.diff(graph.offsets))[edges]
        nodes = np.unique(np.concatenate([[0, len(graph) - 1], sources, graph.targets[edges]]))
        counts = np.bincount(np.searchsorted(nodes, sources), minlength=len(nodes))
        part = Graph(
            graph.members[nodes],
            np.cumsum([0, *counts]).astype(np.int32),
            np.searchsorted(nodes, graph.targets[edges]).astype(np.int32),
            graph.groups,
        )
        return cls(part, nodes, edges)

    def prune_policies(self, graph: Graph, policies: dict[int, NodePolicy]) -> dict[int, NodePolicy]:
        """Return the policies of the remaining nodes with their remaining actions."""
        kept = dict[int, NodePolicy]()
        for place, node in enumerate(self.nodes.tolist()):
            start, end = graph.offsets[node], graph.offsets[node + 1]
            actions = self.edges[(self.edges >= start) & (self.edges < end)] - start
            if len(actions):
                one = policies[node]
                kept[place] = replace(one, base=one.base[:, actions], leaves=one.leaves[..., actions, :])
        return kept

    def prune_counts(self, passed: Sequence[PassedCounts]) -> list[PassedCounts]:
        """Return the counts of the remaining edges and nodes."""
        return [PassedCounts(each.edges[self.edges], each.wrong[self.nodes]) for each in passed]


def find_detour_path(graph: Graph, counts: Floats, losses: Floats) -> Bools:
    """Return the edges, (E,), of a path for items whose usual first sensor fails.

    It leads to the node of least loss among the nodes without that sensor.

    Args:
        counts: (E,), items per edge.
        losses: (S,), losses of stopping.

    >>> find_detour_path(Graph.all_subsets(2), np.array([9, 0, 9, 0]), np.array([0.5, 0.1, 0.3, 0.1])).tolist()
    [False, True, False, False]
    """
    excluded = graph.members[graph.list_actions(0)[counts[: graph.offsets[1]].argmax()]]
    path, incoming = np.zeros(len(counts), dtype=np.bool_), {0: -1}
    sources = np.repeat(np.arange(len(graph)), np.diff(graph.offsets))
    for edge in np.lexsort((losses[sources], graph.targets)).tolist():  # keep the first edge, of least loss, per node
        target = int(graph.targets[edge])
        if int(sources[edge]) in incoming and not (graph.members[target] & excluded).any():
            incoming.setdefault(target, edge)
    node = min(incoming, key=lambda each: float(losses[each]))
    while node:
        path[incoming[node]] = True
        node = int(sources[incoming[node]])
    return path
