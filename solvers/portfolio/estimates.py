"""What a choice of classifier was expected to achieve: feedback is held against it."""

from collections.abc import Mapping
from typing import Any

from models.feedback import Estimates
from models.portfolio import Assignment, RouteDecision
from solvers.base import rows_of
from solvers.portfolio.plan import PortfolioPlan


def estimates(
    plan: PortfolioPlan, summary: Mapping[str, Any], query: Any, decision: RouteDecision | Assignment
) -> Estimates:
    """Expect the estimate and the cost of the classifier that was chosen, or their means over a batch.

    Whichever looks best is estimated too high; what that came to on held-out items at the budget is taken off already.
    """
    queries = len(decision.assignments) if isinstance(decision, Assignment) else 1
    return Estimates.of(accuracy=decision.estimated_accuracy, cost=decision.cost / queries)


def is_of_many(decision: RouteDecision | Assignment) -> bool:
    """Tell a batch from a single query, whose estimate is its own."""
    return isinstance(decision, Assignment)


def judged_on(summary: Mapping[str, Any]) -> int:
    """Tell on how many items the accuracies were counted."""
    return rows_of(summary, "held_out")


def classifiers(plan: PortfolioPlan) -> tuple[str, ...]:
    """Name the classifiers whose answers can be taken in the end."""
    return plan.classifiers
