"""What a configuration was expected to achieve: feedback is held against it."""

from collections.abc import Mapping
from typing import Any

from models.feedback import Expectations
from models.pipeline import Configuration, PipelineQuery
from solvers.base import rows_of
from solvers.pipeline.plan import PipelinePlan


def estimates(
    plan: PipelinePlan, summary: Mapping[str, Any], query: PipelineQuery, decision: Configuration
) -> Expectations:
    """Expect the accuracy of accepted answers, and the cost of an item, of the configuration on the test rows.

    Where it accepted none of them nothing is known of its answers; where it answers at the end each item gets one,
    which needs no estimate.
    """
    coverage = decision.coverage
    return Expectations.of(
        accuracy=decision.conclusive_accuracy if coverage else None,
        coverage=None if plan.at_the_end == "answer" else coverage or None,
        cost=decision.cost,
        cost_error=plan.cost_error(decision.solution),
    )


def judged_on(summary: Mapping[str, Any]) -> int:
    """Tell on how many items the means were counted: costs on all, accuracies on the share that coverage is."""
    return rows_of(summary, "test")
