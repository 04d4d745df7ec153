"""Complete items through a cascade, and its operating points."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from models.cascade import CascadeCurveQuery, CascadeLimits, CascadeQuery, CascadeStep
from models.feedback import Expectations
from solvers.cascade.estimates import estimates
from solvers.cascade.plan import CascadePlan, no_less
from solvers.evaluation import CompleteItems, Evaluated, label_of
from solvers.kind import OperatingPoint


def evaluate(plan: CascadePlan, limits: CascadeLimits, items: CompleteItems) -> Evaluated:
    """Walk every item through the cascade that is decided for it.

    Costs are the items' own where they were sent, else the mean execution times. O(k) for k calls of an item.
    """
    asked = CascadeQuery(**{name: getattr(limits, name) for name in CascadeLimits.model_fields})
    labels, costs, paths, confidences = list[str | None](), list[float](), list[tuple[str, ...]](), list[float]()
    for at, (item, values) in enumerate(zip(items.ids, items.values, strict=True)):
        steps = plan.decide(asked.model_copy(update={"item": item})).steps
        called = _called(steps, values, items, at)
        last = called[-1].classifier
        labels.append(label_of(values.get(f"{last}.label")))
        confidence = values.get(f"{last}.confidence")
        confidences.append(np.nan if confidence is None else float(confidence))
        paths.append(tuple(step.classifier for step in called))
        costs.append(sum(_cost(step, values, items, at) for step in called))
    return Evaluated(
        labels=tuple(labels),
        costs=np.array(costs),
        paths=tuple(paths),
        confidences=np.array(confidences),
        classifiers=tuple(path[-1] for path in paths),
    )


def _called(
    steps: Sequence[CascadeStep], values: Mapping[str, Any], items: CompleteItems, at: int
) -> Sequence[CascadeStep]:
    """Return the steps up to the one whose answer is accepted."""
    for place, step in enumerate(steps[:-1]):
        if step.confidence_threshold is None:
            return steps[: place + 1]
        column = f"{step.classifier}.confidence"
        confidence = values.get(column)
        if column not in values:
            raise items.fault(at, "values", column, message="is missing; null says that it gave no answer")
        if confidence is not None and not isinstance(confidence, int | float):
            raise items.fault(at, "values", column, message=f"must be a number, got {confidence!r}")
        if confidence is not None and confidence >= step.confidence_threshold:
            return steps[: place + 1]
    return steps


def _cost(step: CascadeStep, values: Mapping[str, Any], items: CompleteItems, at: int) -> float:
    cost = values.get(f"{step.classifier}.cost")
    if cost is None:
        return step.execution_time
    if isinstance(cost, bool | str) or not cost >= 0:
        raise items.fault(at, "values", f"{step.classifier}.cost", message=f"must be a number from 0 on, got {cost!r}")
    return float(cost)


def curve(plan: CascadePlan, query: CascadeCurveQuery) -> Sequence[OperatingPoint]:
    """Return the points of the frontier that keep a deadline; without a frontier the cascade of each deadline."""
    if not len(plan.point_maxima):
        return [_of_deadline(plan, deadline) for deadline in plan.maximum_durations.tolist()]
    deadline = {} if query.deadline is None else {"deadline": query.deadline}
    points = []
    for cost, i in plan.askable_within(query.deadline):
        expectations = Expectations.of(
            accuracy=float(plan.point_accuracies[i]),
            cost=float(plan.point_costs[i]),
            cost_error=float(plan.point_cost_errors[i]),
        )
        points.append(OperatingPoint({"budget": no_less(cost), **deadline}, expectations, plan.point(i)))
    return points


def _of_deadline(plan: CascadePlan, deadline: float) -> OperatingPoint:
    asked = CascadeQuery(deadline=deadline)
    decision = plan.decide(asked)
    said = {"cascade": decision.cascade, "maximum_duration": decision.maximum_duration}
    return OperatingPoint({"deadline": deadline}, estimates(plan, asked, decision), said)
