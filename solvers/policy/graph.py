"""Acquisition DAG: nodes are sets of acquired sensors, edges are acquisitions (Section 2).

With few sensors, every set is a node. An edge acquires one sensor, or several that are fetched together. With many
sensors, the DAG is grown (``growth``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.arrays import Bools, Floats, Int32s, Int64s
from solvers.setup_groups import NO_GROUPS, SetupGroups

MAX_NODES = 1025
"""Maximum number of nodes: all subsets of ten sensors, and one more."""


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Nodes in topological order, and edges in compressed sparse rows.

    Attributes:
        members: (S, M), sensors of each node. The empty set is first, the set of all is last, and every node precedes
            its supersets.
        offsets: (S + 1,) int32, offsets of each node's edges.
        targets: (E,) int32, target node of each edge. Actions of node s, other than stopping, lead to
            ``targets[offsets[s] : offsets[s + 1]]``.
        groups: the sensors of each set-up group.
    """

    members: Bools
    offsets: Int32s
    targets: Int32s
    groups: SetupGroups = NO_GROUPS

    @classmethod
    def all_subsets(cls, sensors: int) -> "Graph":
        """Return the DAG of all sets of sensors.

        >>> Graph.all_subsets(2).members.astype(int).tolist()
        [[0, 0], [1, 0], [0, 1], [1, 1]]
        """
        return cls.from_steps(sensors, [frozenset({m}) for m in range(sensors)])

    @classmethod
    def from_steps(cls, sensors: int, steps: Sequence[frozenset[int]]) -> "Graph":
        """Return the DAG of all unions of steps; all steps together acquire every sensor.

        >>> Graph.from_steps(3, [frozenset({0, 2}), frozenset({1})]).members.astype(int).tolist()
        [[0, 0, 0], [0, 1, 0], [1, 0, 1], [1, 1, 1]]
        """
        nodes = {frozenset[int]()}
        for step in steps:
            nodes |= {node | step for node in nodes}
        ordered = sorted(nodes, key=lambda node: (len(node), sorted(node)))
        place = {node: at for at, node in enumerate(ordered)}
        actions = [sorted({place[node | step] for step in steps} - {place[node]}) for node in ordered]
        members = np.array([[m in node for m in range(sensors)] for node in ordered], dtype=np.bool_)
        offsets = np.cumsum([0, *map(len, actions)]).astype(np.int32)
        return cls(members, offsets, np.array([t for each in actions for t in each], dtype=np.int32))

    def __len__(self) -> int:
        return len(self.members)

    def mark_paid(self, nodes: Int32s | Int64s | slice | int) -> Bools:
        """Return the sensors of nodes, and the set-up groups that they touch, (..., M + G)."""
        return self.groups.append_groups(self.members[nodes])

    def list_actions(self, node: int) -> Int32s:
        """Return the target node of each action of a node; stopping is not included."""
        return self.targets[self.offsets[node] : self.offsets[node + 1]]

    def list_layers(self) -> list[list[int]]:
        """Return the nodes in layers, the last layer first.

        Actions of a layer lead only to layers that are earlier in the list.

        >>> Graph.all_subsets(2).list_layers()
        [[3], [1, 2], [0]]
        """
        depth = np.zeros(len(self), dtype=np.int64)
        for node in range(len(self) - 1, -1, -1):
            depth[node] = 1 + max((depth[target] for target in self.list_actions(node)), default=-1)
        return [np.flatnonzero(depth == level).tolist() for level in range(int(depth.max()) + 1)]

    def step_costs(self, node: int, costs: Floats) -> Floats:
        """Return the cost of each action of a node (Eq. 5), (..., A), from costs of sensors and groups, (..., M + G).

        >>> Graph.all_subsets(2).step_costs(0, np.array([[1.0, 5.0]])).tolist()
        [[1.0, 5.0]]
        """
        before, after = (self.mark_paid(at) for at in (node, self.list_actions(node)))
        return np.asarray(costs @ (after & ~before).T.astype(np.float64))

    def find_largest_known(self, known: Bools) -> int:
        """Return the largest node whose sensors are all known, (M,).

        It is unique because nodes are unions of steps.

        >>> Graph.from_steps(3, [frozenset({0, 1}), frozenset({2})]).find_largest_known(np.array([True, False, True]))
        1
        """
        return int(np.flatnonzero(~(self.members & ~known).any(axis=1))[-1])
