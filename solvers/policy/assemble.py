"""From what was learned to the plan that is kept: the points on the hull, and what answers under them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models.policy_curves import TrafficCounts
from solvers.budget_mixture import lower_hull
from solvers.item_splits import effective_rows
from solvers.policy.curve import Measured, choosing_rows, reached
from solvers.policy.embedding_axes import EmbeddingAxes
from solvers.policy.graph import Graph
from solvers.policy.learning import LearnedPolicies, Prices, Task
from solvers.policy.node_classifiers import Classifiers
from solvers.policy.node_policies import from_regression
from solvers.policy.plan import PolicyPlan
from solvers.policy.traffic import counts_of
from solvers.policy.travelled import Travelled, spare_way
from solvers.statistics import standard_error_of_mean
from solvers.trees.oblivious_trees import Forest


def assemble(
    unit: str, prices: Prices, task: Task, members: list[list[Forest]], learned: LearnedPolicies, is_grown: bool
) -> tuple[PolicyPlan, TrafficCounts]:
    """Keep the points of the curve that lie on its hull, fixed ones among them, the hard budgets and deadlines, and
    nothing of the other points; of a grown graph what items took. Tell the traffic, too."""
    training, capped, fixed, able = task.training, task.hard, len(task.fixed), task.hard.stop
    measured = measure(task, learned)
    errors, costs = measured.errors.mean(axis=1), measured.costs.mean(axis=1)
    bounds, chosen_by = measured.judged(slice(None), task.options.confidence)
    acquired = np.append(learned.acquired[:able].mean(axis=1), task.fixed.sensors)
    first = np.roll(np.arange(len(bounds)), fixed)  # a fixed point, rather than a trade-off that reaches the same
    hull: list[int] = first[lower_hull(bounds[first], chosen_by[first])].tolist()
    tradeoffs = np.append(task.tradeoffs[:able], np.full(fixed, -1.0))
    limits = np.append(task.caps[:able], np.full(fixed, np.inf))
    points = [*(min(at, able - 1) for at in hull), *range(capped.start, len(task.caps))]
    part = _travelled(task, learned, points, is_grown=is_grown)
    graph, policies = part.graph, learned.policies
    if is_grown:
        policies = part.of_policies(task.graph, policies)
    decisions = from_regression(graph.offsets, policies, points)
    if task.fixed.must_begin:
        fixed_at = {point: at - able for point, at in enumerate(hull) if at >= able}
        task.fixed.write(decisions, graph, fixed_at)
    classifiers = Classifiers.of([members[node] for node in part.nodes.tolist()])
    sensors = training.sensors
    plan = PolicyPlan(
        unit=unit,
        sensors=sensors.names,
        columns=sensors.columns,
        classes=sensors.classes,
        costs=task.means,
        owners=sensors.owners,
        labelled=sensors.labelled,
        ranges=np.column_stack((training.cells.min(axis=0), training.cells.max(axis=0))),
        **_nodes(graph, classifiers),
        tradeoffs=tradeoffs[hull],
        point_costs=costs[hull],
        point_bounds=bounds[hull],
        point_errors=errors[hull],
        point_sensors=acquired[hull],
        point_cost_errors=standard_error_of_mean(measured.costs, training.items)[hull],
        point_reached=reached(measured, training.folds, bounds[hull], task.options.confidence),
        choosing=int(choosing_rows(training.folds).sum()),
        confidence=task.options.confidence,
        rows=len(training.labels),
        independence=1.0 if training.items is None else effective_rows(training.items) / len(training.labels),
        graph="grown" if is_grown else "subsets",
        point_caps=np.where(np.isinf(limits), -1.0, limits)[hull] if len(task.caps[capped]) else np.empty(0),
        times=prices.times,
        time_unit=prices.unit,
        fetches=prices.fetches,
        **_limits(task, learned),
        **({} if sensors.encoding is None else sensors.encoding.kept()),
        **_embedding(sensors.embedding),
        answering="combined" if training.quality is None else "taken",
        **decisions,
    )
    return plan, _traffic(task, part, learned, hull)


def _travelled(task: Task, learned: LearnedPolicies, points: Sequence[int], *, is_grown: bool) -> Travelled:
    """Keep of a grown graph what items took under some points, and the spare way; of another all."""
    if not is_grown:
        return Travelled.of(task.graph, np.ones(len(task.graph.targets), dtype=np.bool_))
    counts = np.sum([learned.passed[at].edges for at in points], axis=0)
    return Travelled.of(task.graph, (counts > 0) | spare_way(task.graph, counts, task.losses.learned.mean(axis=1)))


def _nodes(graph: Graph, classifiers: Classifiers) -> dict[str, Any]:
    """Give the fields of a plan that tell of the nodes that are kept, and of their classifiers."""
    return {
        "members": graph.members,
        "offsets": graph.offsets,
        "targets": graph.targets,
        "class_base": classifiers.base,
        "class_columns": classifiers.columns,
        "class_thresholds": classifiers.thresholds,
        "class_leaves": classifiers.leaves.astype(np.float16),
    }


def _limits(task: Task, learned: LearnedPolicies) -> dict[str, Any]:
    """Give the fields of a plan that tell of hard budgets and deadlines that were learned for."""
    capped, timed = task.hard, task.timed
    return {
        "caps": task.caps[capped],
        "cap_tradeoffs": task.tradeoffs[capped],
        "cap_costs": np.minimum(learned.costs[capped].mean(axis=1), task.caps[capped]),
        "cap_errors": learned.errors[capped].mean(axis=1),
        "deadlines": task.deadlines[timed],
        "deadline_tradeoffs": task.tradeoffs[timed],
        "deadline_errors": learned.errors[timed].mean(axis=1),
    }


def _embedding(embedding: EmbeddingAxes | None) -> dict[str, Any]:
    """Give the fields of a plan that keep how an embedding becomes numbers."""
    return {} if embedding is None else {"embedding_centre": embedding.centre, "embedding_axes": embedding.axes}


def measure(task: Task, learned: LearnedPolicies) -> Measured:
    """Give what rows met under what was learned and can be a point of the curve, and the fixed points behind it."""
    able = slice(0, task.hard.stop)
    return Measured(
        np.vstack((learned.errors[able], task.fixed.errors)),
        np.vstack((learned.costs[able], task.fixed.costs)),
        task.training.items,
    )


def _traffic(task: Task, part: Travelled, learned: LearnedPolicies, points: Sequence[int]) -> TrafficCounts:
    """Pick the ways that rows took under the points of the curve; those beyond all trade-offs are fixed."""
    passed = [*learned.passed[: task.hard.stop], *task.fixed.passed]
    taken = [passed[at] for at in points]
    return counts_of(part.graph, part.of_passed(taken))
