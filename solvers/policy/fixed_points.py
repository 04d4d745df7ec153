"""Points of the curve that nothing is learned for: stopping at once, or, where something has to answer, one classifier.

They stand beside the trade-offs when the curve is drawn, so that it is never above (in cost and error) what they reach
on the same rows, nor above any mixture of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.arrays import Floats, Int64s
from solvers.policy.graph import Graph
from solvers.policy.rollout import Walks
from solvers.policy.traffic import PassedCounts
from solvers.savings import Replay

PROHIBITIVE_LOSS = 2.0
"""Beyond every loss: what sensors that are not the point's own are made to lose."""


@dataclass(frozen=True, slots=True, eq=False)
class FixedPoints:
    """errors, costs: (F, n) what each row met; sensors: (F,) how many it acquired; passed: (F,) the ways that rows
    took; ends: (F,) the node that all rows end at."""

    errors: Floats
    costs: Floats
    sensors: Floats
    passed: Sequence[PassedCounts]
    ends: Int64s

    @property
    def has_to_acquire(self) -> bool:
        """Whether something must be acquired first."""
        return bool(self.ends.all())

    @classmethod
    def from_graph(cls, graph: Graph, observed: Floats, costs: Floats, *, has_to_acquire: bool) -> "FixedPoints":
        """Stop at once, or, if something must be acquired, take one sensor and stop, for each that can be the first.

        observed: (S, n) losses of stopping; costs: (n, M).

        >>> graph = Graph.all_subsets(2)
        >>> FixedPoints.from_graph(graph, np.ones((4, 3)), np.ones((3, 2)), has_to_acquire=True).ends.tolist()
        [1, 2]
        """
        ends = graph.list_actions(0).astype(np.int64) if has_to_acquire else np.zeros(1, dtype=np.int64)
        ways = [[0, end] if end else [0] for end in ends.tolist()]
        members = graph.members[ends].astype(np.float64)
        walks = [Walks(np.full(len(costs), way[-1]), np.tile(way, (len(costs), 1))) for way in ways]
        passed = [PassedCounts.from_walks(graph, each, observed) for each in walks]
        return cls(observed[ends], members @ costs.T, members.sum(axis=1), passed, ends)

    def __len__(self) -> int:
        return len(self.ends)

    def replays(self, sensors: Sequence[str], graph: Graph) -> dict[str, Replay]:
        """Tell by name what each sensor did with the rows that always answers; none where stopping at once is all."""
        if not self.has_to_acquire:
            return {}
        fetched = [np.flatnonzero(graph.members[end]).tolist() for end in self.ends.tolist()]
        names = [f"always {' + '.join(sensors[m] for m in each)}" for each in fetched]
        each = zip(names, self.errors, self.costs, strict=True)
        return {name: Replay(1 - errors, costs) for name, errors, costs in each}

    def write_decisions(self, decisions: Mapping[str, Any], graph: Graph, points: Mapping[int, int]) -> None:
        """Write into the arrays of decisions by regression what points of the plan do that are fixed ones, the place
        of each among these: the own sensor is acquired, and none behind it."""
        for point, place in points.items():
            decisions["edge_leaves"][..., point] = 0.0
            decisions["base"][..., point] = PROHIBITIVE_LOSS
            decisions["base"][np.flatnonzero(graph.list_actions(0) == self.ends[place]), :, point] = 0.0
