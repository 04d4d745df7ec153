"""Evaluation of a policy on complete items, and its operating points."""

from collections.abc import Sequence

import numpy as np

from models.policy import PolicyTarget
from models.policy_curves import RolloutItem
from parsimony.runs.steps import REJECT
from solvers.evaluation import (
    Columns,
    CompleteItems,
    EvaluationOutcomes,
    classifier_columns,
    copy_shared_fields,
    label_from_cell,
)
from solvers.kind import OperatingPoint
from solvers.policy.estimates import estimate_outcomes
from solvers.policy.plan import PolicyPlan


def item_columns(plan: PolicyPlan) -> Columns:
    """Return the columns of each sensor: a classifier's label and confidence, or a feature's values."""
    if plan.columns:
        return {name: plan.columns_of(name) for name in plan.sensors}
    if plan.classless:
        parts = ("confidence", "label", "cost", "correct", "loss")
        return {name: tuple(f"{name}.{part}" for part in parts) for name in plan.sensors}
    return classifier_columns(plan.sensors)


def evaluate(plan: PolicyPlan, limits: PolicyTarget, items: CompleteItems, columns: Columns) -> EvaluationOutcomes:
    """Roll out every item through the DAG.

    Costs are the items' declared costs, else the mean costs of the sensors; so are those of set-up groups.
    """
    target = PolicyTarget(**copy_shared_fields(limits, PolicyTarget))
    widths = plan.column_counts()
    complete = [_to_rollout_item(items, at, columns, widths) for at in range(len(items))]
    ran = plan.run(plan.cells_of_items(complete), items.ids, target)
    paths = tuple(plan.acquired_sensors(nodes) for nodes in ran.walks.nodes)
    prices = dict(zip(plan.sensors, plan.costs.tolist(), strict=True))
    touched = plan.setup.append_groups(plan.members[ran.walks.ends])[:, len(plan.sensors) :]
    groups = [items.read_setup_costs(at, plan.setup_names, plan.setup_costs) for at in range(len(items))]
    costs = (touched * np.array(groups)).sum(axis=1) + [
        sum(prices[name] if (own := items.read_cell_number(at, f"{name}.cost", 0.0)) is None else own for name in path)
        for at, path in enumerate(paths)
    ]
    rejected = ran.labels == ran.scores.shape[1]
    rows, codes = np.arange(len(items)), np.where(rejected, 0, ran.labels)
    confidences = np.where(rejected, np.nan, ran.scores[rows, codes])
    if plan.classless:
        chosen = tuple(REJECT if out else plan.sensors[code] for code, out in zip(codes, rejected, strict=True))
        sent = tuple(
            label_from_cell(values.get(f"{name}.label")) for name, values in zip(chosen, items.values, strict=True)
        )
        return EvaluationOutcomes(
            labels=sent,
            costs=costs,
            paths=paths,
            confidences=confidences,
            classifiers=chosen,
            accepted=~rejected if plan.can_reject else None,
        )
    return EvaluationOutcomes(
        labels=tuple(None if out else plan.classes[code] for code, out in zip(codes.tolist(), rejected, strict=True)),
        costs=costs,
        paths=paths,
        confidences=confidences,
        accepted=~rejected if plan.can_reject else None,
        classes=plan.classes,
        probabilities=ran.scores,
    )


def _to_rollout_item(items: CompleteItems, at: int, columns: Columns, widths: dict[str, int]) -> RolloutItem:
    values, sensors = items.values[at], {}
    for name, own in columns.items():
        needed = own[: widths[name]]
        lacking = next((column for column in needed if column not in values), None)
        if lacking is not None:
            raise items.make_fault(at, "values", lacking, message="is missing")
        labels = f"{name}.label" if f"{name}.correct" in own else ""
        cells = tuple(label_from_cell(values[column]) if column == labels else values[column] for column in needed)
        sensors[name] = cells[0] if len(cells) == 1 else cells if cells else None
    embedding = None if items.embeddings is None else tuple(items.embeddings[at].tolist())
    return RolloutItem.model_construct(item=items.ids[at], embedding=embedding, sensors=sensors)


def list_operating_points(plan: PolicyPlan) -> Sequence[OperatingPoint]:
    """Return accuracy and cost of each point of the curve."""
    return [
        OperatingPoint(
            {"budget": float(bound)},
            estimate_outcomes(plan, PolicyTarget(budget=float(bound))),
            point.model_dump(mode="json"),
        )
        for bound, point in zip(plan.point_bounds.tolist(), plan.curve(), strict=True)
    ]
