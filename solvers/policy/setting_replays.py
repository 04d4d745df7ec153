"""Replays of a policy at the points of its curve: on validation rows, and on unseen rows."""

import numpy as np

from models import FeatureTable, Trace
from models.arrays import Floats
from models.base import LARGEST
from models.policy import PolicyTarget
from solvers.budget_mixture import lower_hull
from solvers.policy.curve import PointMeasurements
from solvers.policy.graph import Graph
from solvers.policy.plan import PolicyPlan
from solvers.policy.sensors import compute_item_sensor_costs
from solvers.savings import Replay, SettingReplay


def replay_validation_rows(plan: PolicyPlan, measured: PointMeasurements) -> dict[str, SettingReplay]:
    """Return the replay of each point that some trade-off selects, by name.

    The curve keeps only the points on its hull. If the point of a trade-off is not on the hull, the trade-off selects
    another point. So each setting is replayed at the point that its query selects.

    Args:
        measured: validation rows at the points of the plan.
    """
    settings = {}
    selecting = list_selecting_tradeoffs(plan.point_costs, plan.point_errors) * plan.loss_scale
    for tradeoff in np.minimum(selecting, LARGEST).tolist():
        point = plan.select_mixture(PolicyTarget(tradeoff=tradeoff)).first
        replay = Replay(1 - measured.errors[point], measured.costs[point])
        settings[f"a trade-off of {tradeoff:.3g}"] = SettingReplay({"tradeoff": tradeoff}, replay)
    return settings


def list_selecting_tradeoffs(costs: Floats, errors: Floats) -> Floats:
    """Return a trade-off for each point that some trade-off selects, falling.

    It is the middle of the range of trade-offs that select the point.

    Args:
        costs: (H,), mean costs of the points.
        errors: (H,), error rates.

    >>> list_selecting_tradeoffs(np.array([0.0, 1.0, 2.0, 4.0]), np.array([0.5, 0.45, 0.1, 0.0])).round(3).tolist()
    [0.3, 0.125, 0.025]
    """
    hull = lower_hull(costs, errors)
    with np.errstate(over="ignore"):  # costs may differ by less than 1e-300
        slopes = -np.diff(errors[hull]) / np.diff(costs[hull])
        bounds = np.minimum(np.concatenate([[2 * slopes.max(initial=0.0)], slopes, [0.0]]), LARGEST)
    return np.asarray((bounds[:-1] + bounds[1:]) / 2)


def replay_settings(plan: PolicyPlan, dataset: FeatureTable | Trace) -> list[SettingReplay]:
    """Roll out rows at every point of the curve."""
    cells, costs = plan.cells_of(dataset), compute_item_sensor_costs(dataset)
    items = [str(row) for row in range(dataset.rows)]
    graph = Graph(plan.members, plan.offsets, plan.targets, plan.setup)
    graded = dataset.with_reject().quality if isinstance(dataset, Trace) and plan.classless else None
    points = []
    for budget in plan.point_bounds.tolist():
        ran = plan.run(cells, items, PolicyTarget(budget=budget))
        if graded is not None:
            right = graded[np.arange(dataset.rows), ran.labels]
        else:
            right = 1.0 - plan.losses.measure(dataset.labels, ran.labels)
        points.append(SettingReplay({"budget": budget}, Replay(right, ran.walks.total_costs(graph, costs))))
    return points
