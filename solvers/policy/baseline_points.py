"""Baselines on the trade-off curve: stop at once, or always use one classifier.

The second is used if an answer is required. The hull of the curve includes the baselines. So on the same rows, the
curve is never worse in cost and error than the baselines and their random mixtures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.arrays import Floats, Int64s
from solvers.policy.graph import Graph
from solvers.policy.losses import StoppingLosses
from solvers.policy.rollout import SimulatedPaths
from solvers.policy.traffic import PassedCounts

PROHIBITIVE_LOSS = 2.0
"""Loss above every real one; it excludes all sensors but the point's own."""


@dataclass(frozen=True, slots=True, eq=False)
class BaselinePoints:
    """Points of the curve that are not learned.

    Attributes:
        errors: (F, n).
        costs: (F, n).
        sensors: (F,), number of acquired sensors.
        answered: (F, n), 1 for rows that get an answer, 0 for rejected rows.
        passed: (F,), number of rows on each edge and node.
        ends: (F,), node at which all rows end.
    """

    errors: Floats
    costs: Floats
    sensors: Floats
    answered: Floats
    passed: Sequence[PassedCounts]
    ends: Int64s

    @property
    def has_to_acquire(self) -> bool:
        """Whether at least one sensor has to be acquired."""
        return bool(self.ends.all())

    @classmethod
    def from_graph(
        cls, graph: Graph, losses: StoppingLosses, costs: Floats, *, has_to_acquire: bool
    ) -> "BaselinePoints":
        """Return the point that stops at once.

        With ``has_to_acquire``, return a point for each possible first fetch, which stops after it.

        Args:
            losses: losses of stopping.
            costs: (n, M + G).

        >>> graph, ones = Graph.all_subsets(2), np.ones((4, 3))
        >>> losses = StoppingLosses(ones, ones, ones > 1)
        >>> BaselinePoints.from_graph(graph, losses, np.ones((3, 2)), has_to_acquire=True).ends.tolist()
        [1, 2]
        """
        ends = graph.list_actions(0).astype(np.int64) if has_to_acquire else np.zeros(1, dtype=np.int64)
        paths = [[0, end] if end else [0] for end in ends.tolist()]
        members, paid = (each.astype(np.float64) for each in (graph.members[ends], graph.mark_paid(ends)))
        walks = [SimulatedPaths(np.full(len(costs), path[-1]), np.tile(path, (len(costs), 1))) for path in paths]
        passed = [PassedCounts.from_walks(graph, each, losses.observed) for each in walks]
        answered = (~losses.rejected[ends]).astype(np.float64)
        return cls(losses.observed[ends], paid @ costs.T, members.sum(axis=1), answered, passed, ends)

    def __len__(self) -> int:
        return len(self.ends)

    def write_decisions(self, decisions: Mapping[str, Any], graph: Graph, points: Mapping[int, int]) -> None:
        """Overwrite the decisions at the fixed points of a plan: acquire the point's sensor, then stop.

        Args:
            decisions: arrays of the plan, changed in place.
            points: for each point of the plan, its index among the fixed points.
        """
        for point, place in points.items():
            decisions["edge_leaves"][..., point] = 0.0
            decisions["base"][..., point] = PROHIBITIVE_LOSS
            decisions["base"][np.flatnonzero(graph.list_actions(0) == self.ends[place]), :, point] = 0.0
