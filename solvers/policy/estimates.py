"""What a trade-off was expected to achieve: feedback is held against it."""

from collections.abc import Mapping
from typing import Any

from models import Value
from models.feedback import Expectations
from models.policy import PolicyTarget
from solvers.base import rows_of
from solvers.policy.plan import PolicyPlan


def estimates(plan: PolicyPlan, summary: Mapping[str, Any], query: PolicyTarget, decision: Value) -> Expectations:
    """Expect what the points of the curve reach that decide for the trade-off or budget, whatever the item."""
    accuracy, cost, cost_error = plan.reached(query)
    rows = None if query.min_accuracy is None else plan.rows - plan.choosing
    return Expectations.of(accuracy=accuracy, cost=cost, cost_error=cost_error, rows=rows)


def judged_on(summary: Mapping[str, Any]) -> int:
    """Tell on how many items the accuracies were counted."""
    return rows_of(summary)


def classifiers(plan: PolicyPlan) -> tuple[str, ...]:
    """Name the sensors whose answers can be taken in the end."""
    return plan.sensors
