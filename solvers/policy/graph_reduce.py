"""Graph reduce: learn the policies of nodes by dynamic programming, from the last node to the first (Algorithm 1).

At a node whose successors are done, the cost of each action is known for every row: the step cost plus the successor's
cost-to-go. Choosing an action is then cost-sensitive classification with one weight vector per row (Lemma 2.1). A
learner does this classification. The node's cost-to-go is the weight of the chosen action. It is computed for all rows,
including rows that would not reach the node. All trade-offs are processed together.
"""

from collections.abc import Callable, Sequence

import numpy as np

from models.arrays import Floats, Int16s, Singles
from solvers.policy.graph import Graph

LearnNodes = Callable[[Sequence[int], Sequence[Floats]], Sequence[Int16s]]
"""Learns policies of nodes from weights, (n, A + 1, L), stopping first. Returns the chosen action of every row and
trade-off, (n, L): 0 stops, a takes the node's a-th edge. The policy should not have learned from the row it decides
for.
"""


def reduce_graph(graph: Graph, losses: Floats, costs: Floats, tradeoffs: Floats, learn: LearnNodes) -> list[Int16s]:
    """Learn the policy of every node.

    Return the chosen actions of every node for every row and trade-off, (n, L) each.

    Args:
        losses: (S, n), losses of stopping.
        costs: (n, M + G), costs of sensors and of set-up groups.
        tradeoffs: (L,), weights of a unit of cost.
    Complexity: O(S n L) memory; S calls of the learner.

    >>> graph = Graph.all_subsets(1)
    >>> best = lambda nodes, weights: [w.argmin(axis=1).astype(np.int16) for w in weights]
    >>> chosen = reduce_graph(graph, np.array([[1.0, 0.0], [0.0, 0.0]]), np.ones((2, 1)), np.array([0.5, 2.0]), best)
    >>> chosen[0].tolist()
    [[1, 0], [0, 0]]
    """
    shape = (losses.shape[1], len(tradeoffs))
    chosen = [np.zeros(shape, dtype=np.int16) for _ in range(len(graph))]
    to_go = [np.empty((0, 0), dtype=np.float32) for _ in range(len(graph))]
    for layer in graph.list_layers():
        weights = [compute_action_costs(graph, node, losses, costs, tradeoffs, to_go) for node in layer]
        open_nodes = [at for at, node in enumerate(layer) if len(graph.list_actions(node))]
        decided = learn([layer[at] for at in open_nodes], [weights[at] for at in open_nodes])
        for at, actions in zip(open_nodes, decided, strict=True):
            chosen[layer[at]] = actions
        for node, weight in zip(layer, weights, strict=True):
            taken = np.take_along_axis(weight, chosen[node][:, None, :].astype(np.int64), axis=1)
            to_go[node] = taken[:, 0].astype(np.float32)
    return chosen


def compute_action_costs(
    graph: Graph, node: int, losses: Floats, costs: Floats, tradeoffs: Floats, to_go: Sequence[Singles]
) -> Floats:
    """Return the total cost of each action of a node (Algorithm 1, step 2), (n, A + 1, L).

    Stopping is the first action.
    """
    steps = graph.step_costs(node, costs)
    weights = np.empty((losses.shape[1], steps.shape[1] + 1, len(tradeoffs)))
    weights[:, 0] = losses[node][:, None]
    for at, target in enumerate(graph.list_actions(node).tolist(), start=1):
        weights[:, at] = to_go[target] + steps[:, at - 1, None] * tradeoffs
    return weights
