"""Complete items through a pipeline, and its operating points."""

from collections.abc import Sequence

import numpy as np

from models.feedback import Expectations
from models.pipeline import Acquire, Classify, Configuration, PipelineLimits
from solvers.base import ModelRunner
from solvers.evaluation import Columns, CompleteItems, Evaluated
from solvers.kind import OperatingPoint
from solvers.pipeline.plan import PipelinePlan


def evaluate(
    plan: PipelinePlan, limits: PipelineLimits, items: CompleteItems, columns: Columns, models: ModelRunner
) -> Evaluated:
    """Send every item through the stages of the configuration that is decided.

    Raises InvalidRequest for an item that lacks a feature which a stage acquires.
    """
    decision = plan.decide(limits)
    known = [items.by_name(at, columns) for at in range(len(items))]
    steps = plan.next_steps(decision.solution, known, models.modules, models.run)
    for at, step in enumerate(steps):
        if isinstance(step, Acquire):
            raise items.make_fault(at, "values", step.features[0], message="is missing")
    paid = np.cumsum([stage.cost for stage in decision.stages])
    names = [stage.features for stage in decision.stages]
    paths = [tuple(name for own in names[: last + 1] for name in own) for last in range(len(names))]
    ends = [step.stage for step in steps]
    return Evaluated(
        labels=tuple(step.label if isinstance(step, Classify) else None for step in steps),
        costs=np.asarray(paid[ends]),
        paths=tuple(paths[end] for end in ends),
        confidences=np.array([np.nan if isinstance(step, Acquire) else step.confidence for step in steps]),
        accepted=np.array([isinstance(step, Classify) for step in steps]),
    )


def curve(plan: PipelinePlan) -> Sequence[OperatingPoint]:
    """Return the configurations of the front. They were chosen on other rows, and so may be dominated on these."""
    return [
        OperatingPoint({"solution": one.solution}, make_expectations(plan, one), dict(one))
        for one in sorted(plan.list_frontier(), key=lambda one: one.cost)
    ]


def make_expectations(plan: PipelinePlan, decision: Configuration) -> Expectations:
    """Return the accuracy of accepted answers, the coverage, and the cost of an item on the test rows.

    Where a configuration accepted no row nothing is known of its answers. Where it answers every item coverage is not
    estimated.
    """
    coverage = decision.coverage
    return Expectations.from_figures(
        accuracy=decision.conclusive_accuracy if coverage else None,
        coverage=None if plan.after_last_stage == "answer" else coverage or None,
        cost=decision.cost,
        cost_error=plan.cost_error(decision.solution),
    )
