"""What a feature set was expected to achieve: feedback is held against it."""

from collections.abc import Mapping
from typing import Any

from models.feedback import Expectations
from models.index import IndexDecision, IndexQuery
from solvers.base import rows_of
from solvers.index.plan import IndexPlan


def estimates(plan: IndexPlan, summary: Mapping[str, Any], query: IndexQuery, decision: IndexDecision) -> Expectations:
    """Expect the accuracy of the model that was chosen, and its cost."""
    return Expectations.of(accuracy=decision.accuracy, cost=decision.cost)


def judged_on(summary: Mapping[str, Any]) -> int:
    """Tell on how many items the accuracies were counted."""
    return rows_of(summary)
