"""Replay of a policy on unseen rows, at each point of its curve."""

import numpy as np

from models import FeatureTable, Trace
from models.policy import PolicyTarget
from solvers.policy.graph import Graph
from solvers.policy.plan import PolicyPlan
from solvers.policy.sensors import item_sensor_costs
from solvers.savings import Replay, SettingReplay


def replay_settings(plan: PolicyPlan, dataset: FeatureTable | Trace) -> list[SettingReplay]:
    """Roll out rows at every point of the curve."""
    cells, costs = plan.cells_of(dataset), item_sensor_costs(dataset)
    items, graph = [str(row) for row in range(dataset.rows)], Graph(plan.members, plan.offsets, plan.targets)
    points = []
    for budget in plan.point_bounds.tolist():
        ran = plan.run(cells, items, PolicyTarget(budget=budget))
        if isinstance(dataset, Trace) and plan.classless:
            right = dataset.quality[np.arange(dataset.rows), ran.labels]
        else:
            right = np.equal(ran.labels, dataset.labels).astype(np.float64)
        points.append(SettingReplay({"budget": budget}, Replay(right, ran.walks.total_costs(graph, costs))))
    return points
