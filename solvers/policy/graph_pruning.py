"""What of a grown graph is kept: the edges that items took on validation, the nodes at their ends, and a way
without the sensor that most begin with, which they take where it fails."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.arrays import Bools, Floats, Int64s
from solvers.policy.graph import Graph
from solvers.policy.regression import NodePolicy
from solvers.policy.traffic import PassedCounts


@dataclass(frozen=True, slots=True, eq=False)
class PrunedGraph:
    """A part of a DAG. graph: of it; nodes, edges: the places, rising, of what is kept, in the DAG it is part of."""

    graph: Graph
    nodes: Int64s
    edges: Int64s

    @classmethod
    def from_used_edges(cls, graph: Graph, used: Bools) -> "PrunedGraph":
        """Keep the edges that are used, (E,), or, if none is, the first; the empty set and that of all stay, too.

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
        )
        return cls(part, nodes, edges)

    def prune_policies(self, graph: Graph, policies: dict[int, NodePolicy]) -> dict[int, NodePolicy]:
        """Keep of nodes' policies the actions that are left."""
        kept = dict[int, NodePolicy]()
        for place, node in enumerate(self.nodes.tolist()):
            start, end = graph.offsets[node], graph.offsets[node + 1]
            actions = self.edges[(self.edges >= start) & (self.edges < end)] - start
            if len(actions):
                one = policies[node]
                kept[place] = replace(one, base=one.base[:, actions], leaves=one.leaves[..., actions, :])
        return kept

    def prune_counts(self, passed: Sequence[PassedCounts]) -> list[PassedCounts]:
        """Keep of what was counted what is left."""
        return [PassedCounts(each.edges[self.edges], each.wrong[self.nodes]) for each in passed]


def find_spare_path(graph: Graph, counts: Floats, losses: Floats) -> Bools:
    """Find the edges, (E,), of the way to the node that loses least, losses (S,) of stopping, of those without the
    sensors that most items acquired first, counts (E,) of items on edges.

    >>> find_spare_path(Graph.all_subsets(2), np.array([9, 0, 9, 0]), np.array([0.5, 0.1, 0.3, 0.1])).tolist()
    [False, True, False, False]
    """
    lost = graph.members[graph.list_actions(0)[counts[: graph.offsets[1]].argmax()]]
    way, led = np.zeros(len(counts), dtype=np.bool_), {0: -1}
    sources = np.repeat(np.arange(len(graph)), np.diff(graph.offsets))
    for edge in np.lexsort((losses[sources], graph.targets)).tolist():  # of a node the edge counts that loses least
        target = int(graph.targets[edge])
        if int(sources[edge]) in led and not (graph.members[target] & lost).any():
            led.setdefault(target, edge)
    node = min(led, key=lambda each: float(losses[each]))
    while node:
        way[led[node]] = True
        node = int(sources[led[node]])
    return way
