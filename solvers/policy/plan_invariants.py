"""Invariants of a policy plan's arrays: validation of plans from untrusted bytes."""

from dataclasses import fields

import numpy as np

from models import InvalidRequest
from models.arrays import Bools, Int32s, Int64s
from models.base import LARGEST
from models.columns import MAX_COORDINATE_VALUE
from parsimony.units import seconds_per_unit
from solvers.base import check_array_ranges
from solvers.cell_encoding import CellEncoding
from solvers.policy.contents import PolicyContents
from solvers.policy.graph import MAX_NODES
from solvers.policy.node_features import MAX_CLASSES, TOP_PROBABILITIES
from solvers.setup_groups import is_consistent_setup

_DIMENSIONS = {
    "ranges": 2,
    "members": 2,
    "class_base": 3,
    "class_columns": 4,
    "class_thresholds": 4,
    "class_leaves": 5,
    "base": 3,
    "edge_columns": 4,
    "edge_thresholds": 4,
    "edge_leaves": 5,
    "point_reached": 2,
    "loss_matrix": 2,
    "embedding_axes": 2,
    "setup_members": 2,
}


_WEIGHTS = ("class_base", "base", "edge_leaves")
MAX_WEIGHT = 1e9
"""Maximum absolute weight; sums over an array stay finite in single precision."""


def check_invariants(plan: PolicyContents) -> None:
    """Raise InvalidRequest if a plan's arrays are inconsistent."""
    check_array_ranges(plan)
    groups = (
        _dimension_invariants,
        _encoding_invariants,
        _embedding_invariants,
        _sensor_invariants,
        _loss_invariants,
        _answer_invariants,
        _graph_invariants,
        _classifier_invariants,
        _forest_invariants,
        _curve_invariants,
        _cap_invariants,
        _deadline_invariants,
    )
    for group in groups:  # each group relies on the ones before it
        broken = [name for name, kept in group(plan).items() if not kept]
        if broken:
            raise InvalidRequest(f"not a valid policy plan; missing: {', '.join(broken)}")


def _dimension_invariants(plan: PolicyContents) -> dict[str, bool]:
    arrays = {each.name: getattr(plan, each.name) for each in fields(plan) if each.init}
    arrays = {name: array for name, array in arrays.items() if isinstance(array, np.ndarray)}
    return {
        "arrays of the right dimensions": all(a.ndim == _DIMENSIONS.get(name, 1) for name, a in arrays.items()),
        "finite numbers": all(a.dtype.kind != "f" or bool(np.all(np.isfinite(a))) for a in arrays.values()),
        "weights within bounds": all(
            bool(np.all(np.abs(arrays[name]) <= MAX_WEIGHT)) for name in _WEIGHTS if name in arrays
        ),
        "different sensors": len(set(plan.sensors)) == len(plan.sensors) > 0,
        "different columns": len(set(plan.columns)) == len(plan.columns),
        "different classes": len(set(plan.classes)) == len(plan.classes) > 0,
        "a confidence from 0.5 to 1": 0.5 <= plan.confidence < 1 and plan.rows > 0,
        "an independence from 0 to 1": 0 < plan.independence <= 1,
    }


def _encoding_invariants(plan: PolicyContents) -> dict[str, bool]:
    encoding = CellEncoding.from_plan(plan)
    if not encoding.is_consistent(len(plan.sensors)):
        return {"an encoding of each column": False}
    encodes = len(plan.cell_owners) > 0
    return {
        "a name for each column of a table": len(plan.columns)
        in (0, len(encoding.owners) if encodes else len(plan.owners)),
        "columns that encode cells": not encodes
        or np.array_equal(np.repeat(encoding.owners, encoding.widths), plan.owners),
        "no labels among encoded cells": not encodes or not plan.labelled.any(),
    }


def _embedding_invariants(plan: PolicyContents) -> dict[str, bool]:
    d, k = plan.embedding_axes.shape
    last, m = plan.owners[len(plan.owners) - k :], len(plan.sensors)
    return {
        "axes for each coordinate of an embedding": plan.embedding_centre.shape == (d,)
        and (d == 0) == (k == 0)
        and bool(np.all(np.abs(plan.embedding_axes) <= MAX_WEIGHT))
        and bool(np.all(np.abs(plan.embedding_centre) <= MAX_COORDINATE_VALUE)),
        "a column for each axis, after those of sensors": k < len(plan.owners) + plan.classless
        and bool(np.all(last == m))
        and int(np.sum(plan.owners == m)) == k,
    }


def _sensor_invariants(plan: PolicyContents) -> dict[str, bool]:
    m, columns, labelled = len(plan.sensors), len(plan.owners), plan.labelled
    starts, free = np.diff(plan.owners, prepend=-1), plan.owners == m
    return {
        "a cost for each sensor": plan.costs.shape == (m,),
        "sensors and a cost for each set-up group": is_consistent_setup(
            plan.setup_names, plan.setup_members, plan.setup_costs, plan.sensors
        ),
        "columns for each sensor": columns > 0
        and (
            bool(np.all((starts == 0) | (starts == 1)))
            and int(plan.owners[0]) == 0
            and int(plan.owners[~free][-1]) == m - 1
            if not plan.classless
            else bool(np.all(starts[~free] > 0)) and int(plan.owners[0]) >= 0 and int(plan.owners[-1]) <= m
        ),
        "labels first among their sensor's columns": labelled.shape == (columns,)
        and bool(np.all(starts[labelled] == 1))
        and not labelled[free].any(),
        "a range of each column": plan.ranges.shape == (columns, 2)
        and bool(np.all(plan.ranges[:, 0] <= plan.ranges[:, 1]))
        and bool(np.all(np.abs(plan.ranges) <= 1e30)),
    }


def _loss_invariants(plan: PolicyContents) -> dict[str, bool]:
    classes, matrix = plan.class_base.shape[2], plan.loss_matrix
    return {
        "a quality of rejects without classes": plan.reject_quality is None
        or (plan.classless and 0 <= plan.reject_quality <= 1),
        "a largest loss": 0 < plan.loss_scale <= LARGEST and bool(np.all(matrix <= plan.loss_scale)),
        "a loss of each answer for each class": matrix.shape == (0, 0)
        or (not plan.classless and matrix.shape in ((classes, classes), (classes, classes + 1))),
    }


def _answer_invariants(plan: PolicyContents) -> dict[str, bool]:
    if not plan.classless:
        return {}
    return {
        "sensors as classes": plan.classes == plan.sensors and plan.class_base.shape[2] == len(plan.sensors),
        "answers without labels and categories": not plan.labelled.any() and not len(plan.cell_owners),
        "something to acquire first": bool(np.all(plan.offsets[1:2] > 0)),
    }


def _graph_invariants(plan: PolicyContents) -> dict[str, bool]:
    nodes, m = plan.members.shape
    offsets, targets = plan.offsets, plan.targets
    shaped = (
        1 < nodes <= MAX_NODES
        and m == len(plan.sensors)
        and offsets.shape == (nodes + 1,)
        and int(offsets[0]) == 0
        and int(offsets[-1]) == len(targets) > 0
        and bool(np.all(np.diff(offsets) >= 0))
    )
    if not shaped:
        return {"nodes and edges": False}
    sources = np.repeat(np.arange(nodes), np.diff(offsets))
    onward = bool(np.all((targets > sources) & (targets < nodes)))
    return {
        "a first node of no sensor and a last of all": not plan.members[0].any() and bool(plan.members[-1].all()),
        "different nodes": len(np.unique(plan.members, axis=0)) == nodes,
        "edges to supersets, in topological order": onward
        and bool(np.all(plan.members[targets] >= plan.members[sources])),
    }


def _classifier_invariants(plan: PolicyContents) -> dict[str, bool]:
    nodes, labels = len(plan.members), len(plan.classes)
    members, outputs = plan.class_base.shape[1], plan.class_base.shape[2]
    seen = int(np.where(plan.labelled, labels, 1).sum())
    trees = plan.class_columns.shape[2:]
    leaves = (nodes, members, trees[0], 1 << min(trees[1], 20), outputs)
    return {
        "a base for each node, member and class": plan.class_base.shape == (nodes, members, outputs)
        and members > 0
        and 0 < outputs <= labels,
        "trees of classifiers": plan.class_columns.shape == plan.class_thresholds.shape == (nodes, members, *trees)
        and plan.class_leaves.shape == leaves
        and trees[1] > 0,
        "valid split columns": _are_below(plan.class_columns, seen),
    }


def _are_below(places: Int32s, limit: int | Int64s) -> bool:
    return bool(np.all((places >= 0) & (places < limit)))


def _feature_counts(plan: PolicyContents) -> Int64s:
    """Return the number of features of each node, in the layout of ``compute_node_features``."""
    outputs = plan.class_base.shape[2]
    fixed = min(outputs, TOP_PROBABILITIES) + 1 + (outputs if outputs <= MAX_CLASSES else 0)
    m = len(plan.sensors)
    widths = np.bincount(plan.owners, weights=1.0 + plan.labelled, minlength=m + 1).astype(np.int64)
    return np.asarray(fixed + widths[m] + plan.members @ widths[:m])


def _forest_invariants(plan: PolicyContents) -> dict[str, bool]:
    nodes, edges, points = len(plan.members), len(plan.targets), plan.points
    members, trees = plan.class_base.shape[1], plan.edge_columns.shape[2:]
    if len(plan.edge_columns) != nodes:
        return {"trees of nodes": False}
    return {
        "advantages of each edge": plan.base.shape == (edges, members, points) and points > 0,
        "trees of nodes": plan.edge_columns.shape == plan.edge_thresholds.shape == (nodes, members, *trees)
        and plan.edge_leaves.shape == (edges, members, trees[0], 1 << min(trees[1], 20), points)
        and trees[1] > 0,
        "valid split features": _are_below(plan.edge_columns, _feature_counts(plan)[:, None, None, None]),
    }


def _curve_invariants(plan: PolicyContents) -> dict[str, bool]:
    columns = (plan.point_costs, plan.point_bounds, plan.point_errors, plan.point_sensors, plan.point_cost_errors)
    if any(each.shape != plan.tradeoffs.shape for each in columns):
        return {"a curve over the trade-offs": False}
    return {
        "valid trade-offs": bool(np.all((plan.tradeoffs == -1) | (plan.tradeoffs >= 0)))
        and bool(np.all(plan.tradeoffs <= LARGEST)),
        "a curve of rising cost and falling error": bool(np.all(np.diff(plan.point_bounds) > 0))
        and bool(np.all(np.diff(plan.point_errors) < 0))
        and bool(np.all(plan.point_costs <= plan.point_bounds)),
        "a coverage for each trade-off, or none": plan.point_coverages.shape in ((0,), plan.tradeoffs.shape),
        "a curve from cost 0": plan.has_to_acquire or float(plan.point_bounds[0]) == 0.0,
        "cross-validated errors": plan.point_reached.shape == (len(plan.tradeoffs), 2)
        and 0 < plan.choosing < plan.rows,
    }


def _cap_invariants(plan: PolicyContents) -> dict[str, bool]:
    columns = (plan.cap_tradeoffs, plan.cap_costs, plan.cap_errors)
    if any(each.shape != plan.caps.shape for each in columns):
        return {"costs and errors under each hard budget": False}
    return {
        "hard budgets of all points or none": plan.point_caps.shape in ((0,), plan.tradeoffs.shape)
        and bool(np.all(((plan.point_caps >= 0) & (plan.point_caps <= LARGEST)) | (plan.point_caps == -1))),
        "rising hard budgets": bool(np.all(np.diff(plan.caps) > 0)),
        "costs within hard budgets": bool(np.all(plan.cap_costs <= plan.caps)),
    }


def _hold_whole_fetches(members: Bools, fetches: Int32s) -> bool:
    brings = fetches == np.unique(fetches)[:, None]
    held = members.astype(np.float32) @ brings.T.astype(np.float32)
    return bool(np.all((held == 0) | (held == brings.sum(axis=1))))


def _deadline_invariants(plan: PolicyContents) -> dict[str, bool]:
    tradeoffs, errors, m = plan.deadline_tradeoffs, plan.deadline_errors, len(plan.sensors)
    if not tradeoffs.shape == errors.shape == plan.deadlines.shape:
        return {"trade-offs and errors under each deadline": False}
    return {
        "a time for each sensor, in a unit, or none": plan.times.shape in ((0,), (m,))
        and (len(plan.times) > 0) == (seconds_per_unit(plan.time_unit) is not None),
        "a time for each set-up group, if sensors have times": plan.setup_times.shape
        == (len(plan.setup_names) if len(plan.times) else 0,),
        "a fetch for each sensor": plan.fetches.shape in ((0,), (m,)) and _are_below(plan.fetches, m),
        "nodes of whole fetches": plan.fetches.shape != (m,) or _hold_whole_fetches(plan.members, plan.fetches),
        "rising deadlines, with times of sensors": len(plan.deadlines) == 0
        or (len(plan.times) > 0 and bool(np.all(np.diff(plan.deadlines) > 0))),
    }
