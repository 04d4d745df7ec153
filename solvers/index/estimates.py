"""What a feature set was expected to achieve: feedback is held against it."""

from collections.abc import Mapping
from typing import Any

from models.feedback import Expectations
from models.index import IndexDecision, IndexQuery
from solvers.base import rows_of
from solvers.index.plan import IndexPlan


def estimates(plan: IndexPlan, summary: Mapping[str, Any], query: IndexQuery, decision: IndexDecision) -> Expectations:
    """Expect how often the model that was chosen is right, by rows that did not choose it, and its cost."""
    accuracy, rows = plan.expected(query, decision)
    return Expectations.of(accuracy=accuracy, cost=decision.cost, rows=rows or None)


def judged_on(summary: Mapping[str, Any]) -> int:
    """Tell on how many items the accuracies were counted."""
    return rows_of(summary)
