"""Assembly of a policy plan: the points on the lower hull, and the decisions at these points."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models.arrays import Floats
from models.losses import get_loss_matrix
from models.policy_curves import TrafficCounts
from solvers.item_splits import effective_rows
from solvers.policy.curve import PointMeasurements, choose_selection_rows, cross_validate_errors
from solvers.policy.embedding_axes import EmbeddingAxes
from solvers.policy.graph import Graph
from solvers.policy.graph_pruning import PrunedGraph, find_detour_path
from solvers.policy.learning import LearnedPolicies, PolicyTask
from solvers.policy.node_classifiers import NodeClassifiers
from solvers.policy.node_policies import pack_policies
from solvers.policy.plan import PolicyPlan
from solvers.policy.sensor_prices import SensorPrices
from solvers.policy.traffic import pack_counts
from solvers.statistics import standard_error_of_mean
from solvers.trees.oblivious_trees import Forest


def assemble_plan(
    unit: str,
    prices: SensorPrices,
    task: PolicyTask,
    members: list[list[Forest]],
    learned: LearnedPolicies,
    is_grown: bool,
) -> tuple[PolicyPlan, TrafficCounts, PointMeasurements]:
    """Return the plan, its traffic, and the measurements of its points.

    The plan has the points on the hull of the trade-off curve, including fixed points. It also has all hard budgets and
    deadlines. A grown graph is pruned to the edges that items took.
    """
    training, capped, fixed, able = task.training, task.hard_budget_slice, len(task.fixed), task.hard_budget_slice.stop
    measured = measure_points(task, learned)
    bounds, hull = measured.select_hull(slice(None), task.options.confidence, fixed)
    points = [*(min(at, able - 1) for at in hull), *range(capped.start, len(task.caps))]
    part = _prune_graph(task, learned, points, is_grown=is_grown)
    graph, policies = part.graph, learned.policies
    if is_grown:
        policies = part.prune_policies(task.graph, policies)
    decisions = pack_policies(graph.offsets, policies, points)
    if task.fixed.has_to_acquire:
        fixed_at = {point: at - able for point, at in enumerate(hull) if at >= able}
        task.fixed.write_decisions(decisions, graph, fixed_at)
    classifiers = NodeClassifiers.from_forests([members[node] for node in part.nodes.tolist()])
    sensors = training.sensors
    plan = PolicyPlan(
        unit=unit,
        sensors=sensors.names,
        columns=sensors.columns,
        classes=sensors.classes,
        costs=task.means[: len(sensors.names)],
        owners=sensors.owners,
        labelled=sensors.labelled,
        ranges=np.column_stack((training.cells.min(axis=0), training.cells.max(axis=0))),
        **_node_fields(graph, classifiers),
        **_point_fields(task, learned, measured, bounds, hull),
        choosing=int(choose_selection_rows(training.folds).sum()),
        confidence=task.options.confidence,
        rows=len(training.labels),
        independence=1.0 if training.items is None else effective_rows(training.items) / len(training.labels),
        graph="grown" if is_grown else "subsets",
        times=prices.times[: len(sensors.names)],
        time_unit=prices.unit,
        fetches=prices.fetches,
        **_limit_fields(task, learned),
        **({} if sensors.encoding is None else sensors.encoding.stored_fields()),
        **_embedding_fields(sensors.embedding),
        **_setup_fields(prices, task.means, len(sensors.names)),
        loss_matrix=get_loss_matrix(training.losses),
        loss_scale=training.loss_scale or 1.0,
        reject_quality=training.reject_quality,
        answering="combined" if training.quality is None else "taken",
        **decisions,
    )
    return plan, _count_traffic(task, part, learned, hull), measured.take(hull)


def _prune_graph(task: PolicyTask, learned: LearnedPolicies, points: Sequence[int], *, is_grown: bool) -> PrunedGraph:
    """Prune a grown graph to used edges and a spare path; keep other graphs."""
    if not is_grown:
        return PrunedGraph.from_used_edges(task.graph, np.ones(len(task.graph.targets), dtype=np.bool_))
    counts = np.sum([learned.passed[at].edges for at in points], axis=0)
    return PrunedGraph.from_used_edges(
        task.graph, (counts > 0) | find_detour_path(task.graph, counts, task.losses.learned.mean(axis=1))
    )


def _node_fields(graph: Graph, classifiers: NodeClassifiers) -> dict[str, Any]:
    return {
        "members": graph.members,
        "offsets": graph.offsets,
        "targets": graph.targets,
        "class_base": classifiers.base,
        "class_columns": classifiers.columns,
        "class_thresholds": classifiers.thresholds,
        "class_leaves": classifiers.leaves.astype(np.float16),
    }


def _point_fields(
    task: PolicyTask, learned: LearnedPolicies, measured: PointMeasurements, bounds: Floats, hull: list[int]
) -> dict[str, Any]:
    """Return the fields of the points on the hull."""
    training, able, fixed = task.training, task.hard_budget_slice.stop, len(task.fixed)
    limits = np.append(task.caps[:able], np.full(fixed, np.inf))
    return {
        "tradeoffs": np.append(task.tradeoffs[:able], np.full(fixed, -1.0))[hull],
        "point_costs": measured.costs.mean(axis=1)[hull],
        "point_bounds": bounds[hull],
        "point_errors": measured.errors.mean(axis=1)[hull],
        "point_sensors": np.append(learned.acquired[:able].mean(axis=1), task.fixed.sensors)[hull],
        "point_coverages": _measure_coverages(task, learned)[hull] if task.losses.rejected.any() else np.empty(0),
        "point_cost_errors": standard_error_of_mean(measured.costs, training.items)[hull],
        "point_reached": cross_validate_errors(
            measured, training.folds, bounds[hull], task.options.confidence, len(task.fixed)
        ),
        "point_caps": np.where(np.isinf(limits), -1.0, limits)[hull]
        if len(task.caps[task.hard_budget_slice])
        else np.empty(0),
    }


def _measure_coverages(task: PolicyTask, learned: LearnedPolicies) -> Floats:
    """Return the share of rows that get an answer at each trade-off and hard budget, then at fixed points."""
    able = slice(0, task.hard_budget_slice.stop)
    return np.concatenate((learned.answered[able].mean(axis=1), task.fixed.answered.mean(axis=1)))


def _limit_fields(task: PolicyTask, learned: LearnedPolicies) -> dict[str, Any]:
    capped, timed = task.hard_budget_slice, task.deadline_slice
    return {
        "caps": task.caps[capped],
        "cap_tradeoffs": task.tradeoffs[capped],
        "cap_costs": np.minimum(learned.costs[capped].mean(axis=1), task.caps[capped]),
        "cap_errors": learned.errors[capped].mean(axis=1),
        "deadlines": task.deadlines[timed],
        "deadline_tradeoffs": task.tradeoffs[timed],
        "deadline_errors": learned.errors[timed].mean(axis=1),
    }


def _setup_fields(prices: SensorPrices, means: Floats, sensors: int) -> dict[str, Any]:
    if not len(prices.groups):
        return {}
    return {
        "setup_names": prices.group_names,
        "setup_members": prices.groups.members,
        "setup_costs": means[sensors:],
        "setup_times": prices.times[sensors:],
    }


def _embedding_fields(embedding: EmbeddingAxes | None) -> dict[str, Any]:
    return {} if embedding is None else {"embedding_centre": embedding.centre, "embedding_axes": embedding.axes}


def measure_points(task: PolicyTask, learned: LearnedPolicies) -> PointMeasurements:
    """Return errors and costs of rows at each trade-off and hard budget, then at fixed points."""
    able = slice(0, task.hard_budget_slice.stop)
    return PointMeasurements(
        np.vstack((learned.errors[able], task.fixed.errors)),
        np.vstack((learned.costs[able], task.fixed.costs)),
        task.training.items,
    )


def _count_traffic(
    task: PolicyTask, part: PrunedGraph, learned: LearnedPolicies, points: Sequence[int]
) -> TrafficCounts:
    passed = [*learned.passed[: task.hard_budget_slice.stop], *task.fixed.passed]
    taken = [passed[at] for at in points]
    return pack_counts(part.graph, part.prune_counts(taken))
