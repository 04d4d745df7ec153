"""What a configuration was expected to achieve: feedback is held against it."""

from collections.abc import Mapping
from typing import Any

from models.feedback import Estimates
from models.pipeline import Configuration, PipelineQuery
from solvers.base import rows_of
from solvers.pipeline.plan import PipelinePlan


def estimates(
    plan: PipelinePlan, summary: Mapping[str, Any], query: PipelineQuery, decision: Configuration
) -> Estimates:
    """Expect the accuracy of accepted answers, and the cost of an item, of the configuration on the test rows."""
    return Estimates(accuracy=decision.conclusive_accuracy, cost=decision.cost)


def judged_on(summary: Mapping[str, Any]) -> int:
    """Tell on how many items the accuracies were counted."""
    return rows_of(summary, "test")
