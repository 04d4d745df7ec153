"""Traffic on the DAG: number of items per edge and node, for each point of the curve.

Traffic is counted at fit time. Items are the validation rows, so counts add up to the curve's errors. A plan's arrays
must not reveal the rows, so counts are stored in the build's summary. Zero counts are omitted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import ValidationError

from models.arrays import Floats, Int64s
from models.errors import Conflict, CorruptArtifact
from models.policy import PolicyTarget
from models.policy_curves import (
    Traffic,
    TrafficCounts,
    TrafficEdge,
    TrafficNode,
    TrafficPoint,
)
from solvers.policy.graph import Graph
from solvers.policy.plan import PolicyPlan
from solvers.policy.rollout import SimulatedPaths

MAX_ROWS = 2**53
"""Largest integer that floats count exactly."""


@dataclass(frozen=True, slots=True, eq=False)
class PassedCounts:
    """Counts of rows under one trade-off.

    Attributes:
        edges: (E,), rows per edge.
        wrong: (S,), rows with wrong answers per node; graded answers count if their loss exceeds 0.5.
    """

    edges: Int64s
    wrong: Int64s

    @classmethod
    def from_walks(cls, graph: Graph, walks: SimulatedPaths, observed: Floats) -> "PassedCounts":
        """Count the rows of walks by edge and node.

        observed: (S, n), losses of answers.


        >>> walks = SimulatedPaths(np.array([1, 0]), np.array([[0, 1], [0, -1]]))
        >>> passed = PassedCounts.from_walks(Graph.all_subsets(1), walks, np.array([[0.0, 1.0], [0.0, 0.0]]))
        >>> passed.edges.tolist(), passed.wrong.tolist()
        ([1], [1, 0])
        """
        before, after = walks.nodes[:, :-1], walks.nodes[:, 1:]
        moved = after >= 0
        edges = np.searchsorted(_edge_keys(graph), before[moved] * len(graph) + after[moved])
        errors = observed[walks.ends, np.arange(len(walks.ends))] > 0.5
        return cls(
            np.bincount(edges, minlength=len(graph.targets)), np.bincount(walks.ends[errors], minlength=len(graph))
        )


def _edge_keys(graph: Graph) -> Int64s:
    sources = np.repeat(np.arange(len(graph)), np.diff(graph.offsets))
    return np.asarray(sources * len(graph) + graph.targets)


def pack_counts(graph: Graph, points: Sequence[PassedCounts]) -> TrafficCounts:
    """Return the nonzero counts at the points of the curve."""
    edges, wrong = (np.array(each) for each in ([p.edges for p in points], [p.wrong for p in points]))
    used, ends = np.flatnonzero(edges.any(axis=0)), np.flatnonzero(wrong.any(axis=0))
    sources, targets = np.divmod(_edge_keys(graph)[used], len(graph))
    return TrafficCounts(
        sources=tuple(sources.tolist()),
        targets=tuple(targets.tolist()),
        items=tuple(map(tuple, edges[:, used].tolist())),
        ends=tuple(ends.tolist()),
        wrong=tuple(map(tuple, wrong[:, ends].tolist())),
    )


def compute_traffic(plan: PolicyPlan, summary: Mapping[str, Any], target: PolicyTarget) -> Traffic:
    """Return the number of items per edge and node under a trade-off or a budget.

    Args:
        summary: summary of the build.
    Raises:
        Conflict: the build counted no traffic.
        CorruptArtifact: the counts do not fit the plan.
    """
    counts = _read_counts(plan, summary)
    mixture = plan.select_mixture(target)
    shares = np.zeros(len(plan.tradeoffs))
    shares[mixture.first] += 1 - mixture.share
    shares[mixture.second] += mixture.share
    flow, curve = TrafficFlow.from_counts(plan, counts).mix(shares), plan.curve()
    visited = np.flatnonzero(flow.items).tolist()
    place = {node: at for at, node in enumerate(visited)}
    steps = zip(counts.sources, counts.targets, flow.edges.tolist(), strict=True)
    return Traffic(
        points=tuple(TrafficPoint(**dict(curve[at]), share=shares[at]) for at in np.flatnonzero(shares).tolist()),
        cost=float(shares @ plan.point_costs),
        error=float(shares @ plan.point_errors),
        rows=plan.rows,
        nodes=tuple(_traffic_node(plan, flow, node) for node in visited),
        edges=tuple(
            _traffic_edge(plan, (source, target), items, (place[source], place[target]))
            for source, target, items in sorted(steps)
            if items > 0
        ),
    )


@dataclass(frozen=True, slots=True, eq=False)
class TrafficFlow:
    """Number of items on each counted edge, and of arriving, stopping, and wrong items at each node.

    Arrays have shape (..., U) for edges and (..., S) for nodes. They hold each point of the curve, or one mixture.
    """

    edges: Floats
    items: Floats
    stopped: Floats
    wrong: Floats

    @classmethod
    def from_counts(cls, plan: PolicyPlan, counts: TrafficCounts) -> "TrafficFlow":
        """Sum the counts of each point; all rows begin at the empty set."""
        points, nodes = len(plan.tradeoffs), len(plan.members)
        edges = np.array(counts.items, dtype=np.float64).reshape(points, len(counts.sources))
        items, leaving, wrong = (np.zeros((points, nodes)) for _ in range(3))
        items[:, 0] = plan.rows
        np.add.at(items.T, list(counts.targets), edges.T)
        np.add.at(leaving.T, list(counts.sources), edges.T)
        wrong[:, list(counts.ends)] = counts.wrong
        return cls(edges, items, items - leaving, wrong)

    def mix(self, shares: Floats) -> "TrafficFlow":
        """Return the weighted mean of the points by their shares."""
        return TrafficFlow(*(shares @ each for each in (self.edges, self.items, self.stopped, self.wrong)))


def _traffic_node(plan: PolicyPlan, flow: TrafficFlow, node: int) -> TrafficNode:
    members = np.flatnonzero(plan.members[node])
    items, stopped, wrong = (float(each[node]) for each in (flow.items, flow.stopped, flow.wrong))
    return TrafficNode(
        sensors=tuple(plan.sensors[m] for m in members.tolist()),
        cost=float(plan.extended_costs[plan.setup.append_groups(plan.members[node])].sum()),
        items=items,
        share=min(items / plan.rows, 1.0),
        stopped=stopped,
        correct=max(stopped - wrong, 0.0),
        wrong=wrong,
    )


def _traffic_edge(plan: PolicyPlan, nodes: tuple[int, int], items: float, places: tuple[int, int]) -> TrafficEdge:
    known, after = plan.members[list(nodes)]
    bought = np.flatnonzero(after & ~known)
    return TrafficEdge(
        source=places[0],
        target=places[1],
        sensors=tuple(plan.sensors[m] for m in bought.tolist()),
        cost=plan.setup.sum_step(plan.extended_costs, known, after),
        items=items,
        share=min(items / plan.rows, 1.0),
    )


def _read_counts(plan: PolicyPlan, summary: Mapping[str, Any]) -> TrafficCounts:
    if "traffic" not in summary:
        raise Conflict("this version has no traffic counts; build it again from the same dataset")
    try:
        counts = TrafficCounts.model_validate(summary["traffic"])
    except ValidationError as error:
        raise CorruptArtifact(f"traffic of the summary is not valid: {error.errors()[0]['msg']}") from error
    broken = _find_contradiction(plan, counts)
    if broken is not None:
        raise CorruptArtifact(f"traffic of the summary does not fit the policy: {broken}")
    return counts


def _find_contradiction(plan: PolicyPlan, counts: TrafficCounts) -> str | None:
    """Return an inconsistency of the counts, if any.

    Inconsistent are wrong shapes, unknown edges, and nodes that more items leave than reach.
    """
    points, nodes, edges = len(plan.tradeoffs), len(plan.members), len(counts.sources)
    shapes = [(counts.items, edges), (counts.wrong, len(counts.ends))]
    if len(counts.targets) != edges or any(
        len(table) != points or any(len(row) != columns for row in table) for table, columns in shapes
    ):
        return f"must have {points} rows of one number per edge and node"
    sources = np.repeat(np.arange(nodes), np.diff(plan.offsets))
    there = set(zip(sources.tolist(), plan.targets.tolist(), strict=True))
    steps = set(zip(counts.sources, counts.targets, strict=True))
    if not steps <= there or len(steps) < edges or not _are_distinct(counts.ends, nodes):
        return "contains unknown or repeated edges or nodes"
    if plan.rows > MAX_ROWS:
        return f"rows must be at most {MAX_ROWS}, got {plan.rows}"
    flow = TrafficFlow.from_counts(plan, counts)
    if np.any(flow.stopped < 0) or np.any(flow.wrong > flow.stopped):
        return "more items leave a node, or are wrong there, than arrive"
    return None


def _are_distinct(places: Sequence[int], limit: int) -> bool:
    return len(set(places)) == len(places) and max(places, default=0) < limit
