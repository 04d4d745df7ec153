"""Graph reduce: the nodes' policies one after the other, from the last node to the first (Algorithm 1).

At a node whose actions lead only to nodes that are done, what an action costs a row is known: the step cost, and what
the rest of the row's way costs (the cost-to-go). Choosing an action is then cost-sensitive classification with a weight
vector for every row (Lemma 2.1), left to a learner. The node's own cost-to-go is the weight of what was chosen, for all
rows, whether the policies before it would send them there or not. All trade-offs are carried along side by side.
"""

from collections.abc import Callable, Sequence

import numpy as np

from models.arrays import Floats, Int16s, Singles
from solvers.policy.graph import Graph

LearnNodes = Callable[[Sequence[int], Sequence[Floats]], Sequence[Int16s]]
"""Learns the policies of nodes from their weights, (n, A + 1, L), stopping first, and says for every row and trade-off
which action, (n, L), the policy chooses: 0 stops, a leads along the node's a-th edge. The policy should not have
learned from the row that it chooses for."""


def reduce_graph(graph: Graph, losses: Floats, costs: Floats, tradeoffs: Floats, learn: LearnNodes) -> list[Int16s]:
    """Learn the policy of every node, and say what it chooses for every row under every trade-off, (n, L) each.

    losses: (S, n) of stopping; costs: (n, M) of the sensors; tradeoffs: (L,) what a unit of cost weighs. Memory is
    O(S n L), time that of S calls to the learner.

    >>> graph = Graph.all_subsets(1)
    >>> best = lambda nodes, weights: [w.argmin(axis=1).astype(np.int16) for w in weights]
    >>> chosen = reduce_graph(graph, np.array([[1.0, 0.0], [0.0, 0.0]]), np.ones((2, 1)), np.array([0.5, 2.0]), best)
    >>> chosen[0].tolist()
    [[1, 0], [0, 0]]
    """
    shape = (losses.shape[1], len(tradeoffs))
    chosen = [np.zeros(shape, dtype=np.int16) for _ in range(len(graph))]
    to_go = [np.empty((0, 0), dtype=np.float32) for _ in range(len(graph))]
    for layer in graph.layers():
        weights = [weigh_actions(graph, node, losses, costs, tradeoffs, to_go) for node in layer]
        open_nodes = [at for at, node in enumerate(layer) if len(graph.list_actions(node))]
        decided = learn([layer[at] for at in open_nodes], [weights[at] for at in open_nodes])
        for at, actions in zip(open_nodes, decided, strict=True):
            chosen[layer[at]] = actions
        for node, weight in zip(layer, weights, strict=True):
            taken = np.take_along_axis(weight, chosen[node][:, None, :].astype(np.int64), axis=1)
            to_go[node] = taken[:, 0].astype(np.float32)
    return chosen


def weigh_actions(
    graph: Graph, node: int, losses: Floats, costs: Floats, tradeoffs: Floats, to_go: Sequence[Singles]
) -> Floats:
    """Make the weight vectors of a node (Algorithm 1, step 2): what each action costs every row in the end, (n, A + 1,
    L), stopping first."""
    steps = graph.step_costs(node, costs)
    weights = np.empty((losses.shape[1], steps.shape[1] + 1, len(tradeoffs)))
    weights[:, 0] = losses[node][:, None]
    for at, target in enumerate(graph.list_actions(node).tolist(), start=1):
        weights[:, at] = to_go[target] + steps[:, at - 1, None] * tradeoffs
    return weights
