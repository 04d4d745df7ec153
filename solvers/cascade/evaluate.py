"""Evaluation of a cascade on complete items, and its operating points."""

from collections.abc import Sequence

import numpy as np

from models.cascade import CascadeCurveQuery, CascadeLimits, CascadeQuery, CascadeStep
from models.feedback import Expectations
from parsimony.runs.steps import REJECT
from solvers.base import round_up
from solvers.cascade.estimates import estimate_outcomes
from solvers.cascade.plan import CascadePlan
from solvers.evaluation import CompleteItems, EvaluationOutcomes, copy_shared_fields, label_from_cell
from solvers.kind import OperatingPoint


def evaluate(plan: CascadePlan, limits: CascadeLimits, items: CompleteItems) -> EvaluationOutcomes:
    """Replay every item through the cascade that is decided for it.

    A call costs what the item declares, else the classifier's mean execution time. Each set-up group that the calls
    need adds its declared cost, else its mean cost, once.

    Complexity: O(k) for k calls of an item.
    """
    query = CascadeQuery(**copy_shared_fields(limits, CascadeLimits))
    labels, costs, paths, answering = list[str | None](), list[float](), list[tuple[str, ...]](), list[str]()
    for at, item in enumerate(items.ids):
        steps = plan.decide(query.model_copy(update={"item": item})).steps
        called, answers = _walk_steps(steps, items, at)
        if answers != REJECT and not any(
            f"{answers}.{part}" in items.values[at] for part in ("label", "confidence", "correct", "loss")
        ):
            raise items.make_fault(at, "values", f"{answers}.label", message="is missing")
        labels.append(label_from_cell(items.values[at].get(f"{answers}.label")))
        answering.append(answers)
        paths.append(tuple(step.classifier for step in called))
        costs.append(_sum_costs(plan, called, items, at))
    confidences = [items.read_cell_number(at, f"{name}.confidence") for at, name in enumerate(answering)]
    return EvaluationOutcomes(
        labels=tuple(labels),
        costs=np.array(costs),
        paths=tuple(paths),
        confidences=np.array([np.nan if one is None else one for one in confidences]),
        accepted=np.array([name != REJECT for name in answering]) if REJECT in plan.point_names else None,
        classifiers=tuple(answering),
    )


def _walk_steps(steps: Sequence[CascadeStep], items: CompleteItems, at: int) -> tuple[Sequence[CascadeStep], str]:
    """Return the steps up to the accepted answer, and the answering classifier.

    A classifier without a label is skipped. If the last classifier has no label, the most confident earlier answer is
    used, as in a run.
    """
    values, last = items.values[at], steps[-1]
    earlier: list[tuple[float, str]] = []
    for place, step in enumerate(steps):
        name = step.classifier
        threshold = step.get_threshold(label_from_cell(values.get(f"{name}.label")))
        if f"{name}.label" in values and values[f"{name}.label"] is None:
            continue
        if threshold is None or step is last:
            return steps[: place + 1], name
        if f"{name}.confidence" not in values:
            raise items.make_fault(
                at, "values", f"{name}.confidence", message="is missing; send null for no confidence"
            )
        confidence = items.read_cell_number(at, f"{name}.confidence")
        if confidence is not None and confidence >= threshold:
            return steps[: place + 1], name
        earlier.append((-1.0 if confidence is None else confidence, name))
    return steps, max(earlier)[1] if earlier else last.classifier


def _sum_costs(plan: CascadePlan, called: Sequence[CascadeStep], items: CompleteItems, at: int) -> float:
    means = {step.classifier: step.execution_time for step in called}
    if plan.setup_names:
        means = plan.exclude_setup({name: plan.times_alone[name][0] for name in means})
    declared = {name: items.read_cell_number(at, f"{name}.cost", 0.0) for name in means}
    own = (mean if (cost := declared[name]) is None else cost for name, mean in means.items())
    return sum(own) + plan.sum_setup(means, costs=items.read_setup_costs(at, plan.setup_names, plan.setup_costs))


def list_operating_points(plan: CascadePlan, query: CascadeCurveQuery) -> Sequence[OperatingPoint]:
    """Return the points of the frontier within a deadline.

    For a plan without a frontier, return the cascade of each deadline.
    """
    if not len(plan.point_maxima):
        return [_deadline_point(plan, deadline) for deadline in plan.maximum_durations.tolist()]
    deadline = {} if query.deadline is None else {"deadline": query.deadline}
    points = []
    for cost, i in plan.list_points_within(query.deadline):
        expectations = Expectations.from_figures(
            accuracy=float(plan.point_accuracies[i]),
            coverage=float(plan.point_coverages[i]) if len(plan.point_coverages) else None,
            cost=float(plan.point_costs[i]),
            cost_error=float(plan.point_cost_errors[i]),
        )
        points.append(OperatingPoint({"budget": round_up(cost), **deadline}, expectations, plan.describe_point(i)))
    return points


def _deadline_point(plan: CascadePlan, deadline: float) -> OperatingPoint:
    query = CascadeQuery(deadline=deadline)
    decision = plan.decide(query)
    summary = {"cascade": decision.cascade, "maximum_duration": decision.maximum_duration}
    return OperatingPoint({"deadline": deadline}, estimate_outcomes(plan, query, decision), summary)
