"""Summary of a policy build: sensors, nodes, and the curve, as JSON."""

from typing import Any

import numpy as np

from models.arrays import Floats
from solvers.policy.plan import PolicyPlan
from solvers.policy.sensor_times import group_by_fetch
from solvers.setup_groups import describe_setup


def summarize(plan: PolicyPlan, loss: float, observed: Floats) -> dict[str, Any]:
    """Return the summary of a build.

    Args:
        loss: mean of errors plus weighted costs on validation rows.
        observed: (S, n), losses of stopping.
    """
    errors = observed.mean(axis=1).tolist()
    sizes = plan.members.sum(axis=1)
    alone = {int(np.flatnonzero(plan.members[node])[0]): errors[node] for node in np.flatnonzero(sizes == 1).tolist()}
    times = dict(enumerate(plan.times.tolist()))
    return {
        "unit": plan.unit,
        "time_unit": plan.time_unit or None,
        "parallel": [[plan.sensors[m] for m in sorted(each)] for each in group_by_fetch(plan.fetches) if len(each) > 1],
        "rows": plan.rows,
        **({} if plan.independence == 1 else {"effective_rows": round(plan.independence * plan.rows)}),
        "classes": 0 if plan.classless else plan.class_base.shape[2],
        "answering": plan.answering,
        "nodes": len(plan.members),
        "edges": len(plan.targets),
        "graph": plan.graph,
        "members": plan.class_base.shape[1],
        "sensors": [
            {
                "name": name,
                "cost": cost,
                "error_alone": alone.get(place),
                "time": times.get(place),
                "is_classifier": plan.classless or plan.is_labelled(name),
            }
            for place, (name, cost) in enumerate(zip(plan.sensors, plan.costs.tolist(), strict=True))
        ],
        "embedding": {"dimensions": plan.dimensions, "axes": plan.embedding_axes.shape[1]},
        "validation_loss": loss,
        "confidence": plan.confidence,
        "curve": [point.model_dump() for point in plan.curve()],
        "no_sensor": {"error": errors[0], "cost": 0.0},
        "all_sensors": {"error": errors[-1], "cost": float(plan.extended_costs.sum())},
        **describe_setup(plan.setup, plan.setup_names, plan.setup_costs, plan.sensors, plan.setup_times),
    }
