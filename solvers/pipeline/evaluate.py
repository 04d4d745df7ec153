"""Evaluation of a pipeline on complete items, and its operating points."""

from collections.abc import Sequence

import numpy as np

from models.feedback import Expectations
from models.pipeline import Acquire, Classify, Configuration, PipelineLimits
from solvers.base import ModelRunner
from solvers.evaluation import Columns, CompleteItems, EvaluationOutcomes
from solvers.kind import OperatingPoint
from solvers.pipeline.plan import PipelinePlan


def evaluate(
    plan: PipelinePlan, limits: PipelineLimits, items: CompleteItems, columns: Columns, models: ModelRunner
) -> EvaluationOutcomes:
    """Evaluate every item with the configuration that meets the limits.

    Raises InvalidRequest for an item that lacks an acquired feature.
    """
    decision = plan.decide(limits)
    known = [items.group_cells(at, columns) for at in range(len(items))]
    steps, probabilities = plan.next_steps_with_probabilities(decision.solution, known, models.modules, models.run)
    for at, step in enumerate(steps):
        if isinstance(step, Acquire):
            raise items.make_fault(at, "values", step.features[0], message="is missing")
    paid = np.cumsum([stage.cost for stage in decision.stages])
    names = [stage.features for stage in decision.stages]
    paths = [tuple(name for own in names[: last + 1] for name in own) for last in range(len(names))]
    ends = [step.stage for step in steps]
    return EvaluationOutcomes(
        labels=tuple(step.label if isinstance(step, Classify) else None for step in steps),
        costs=np.asarray(paid[ends]),
        paths=tuple(paths[end] for end in ends),
        confidences=np.array([np.nan if isinstance(step, Acquire) else step.confidence for step in steps]),
        accepted=np.array([isinstance(step, Classify) for step in steps]),
        classes=plan.classes,
        probabilities=probabilities,
    )


def curve(plan: PipelinePlan) -> Sequence[OperatingPoint]:
    """Return the configurations of the front.

    The front was chosen on validation rows, so some of its configurations may be dominated on test rows.
    """
    return [
        OperatingPoint({"solution": one.solution}, make_expected_outcome(plan, one), dict(one))
        for one in sorted(plan.list_frontier(), key=lambda one: one.cost)
    ]


def make_expected_outcome(plan: PipelinePlan, decision: Configuration) -> Expectations:
    """Return accuracy, coverage, and cost per item on the test rows.

    Accuracy is None without accepted rows; with losses, it is the quality of all rows. Coverage is None if items are
    not rejected.
    """
    coverage = decision.coverage
    return Expectations.from_figures(
        accuracy=decision.conclusive_accuracy if coverage or plan.losses is not None else None,
        coverage=(coverage or None) if plan.rejects else None,
        cost=decision.cost,
        cost_error=plan.cost_error(decision.solution),
    )
