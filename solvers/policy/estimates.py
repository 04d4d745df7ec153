"""What a trade-off was expected to achieve: feedback is held against it."""

from collections.abc import Mapping
from typing import Any

from models import Value
from models.feedback import Expectations
from models.policy import PolicyTarget
from solvers.base import rows_of
from solvers.policy.plan import PolicyPlan

TOGETHER = 200
"""A member is judged on rows that it has not learned from, but what it learned from had: posteriors, costs-to-go come
from members that knew them. So errors of the parts go together, and their mean varies more than that of as many rows
apart; by how much cannot be told from the rows themselves (Bengio, Grandvalet, *No unbiased estimator of the variance
of k-fold cross-validation*, 2004). On drawn traces the variance was 1.7 times that of rows apart at 300 rows, and 1.2
times at 1,200: 1 + 200 / rows. ``parsimony bench reliability`` tells it for seeds that were not looked at for this."""


def estimates(plan: PolicyPlan, summary: Mapping[str, Any], query: PolicyTarget, decision: Value) -> Expectations:
    """Expect what the points of the curve reach that decide for the trade-off or budget, whatever the item."""
    accuracy, cost, cost_error = plan.reached(query)
    counted = plan.rows if query.min_accuracy is None else plan.rows - plan.choosing
    return Expectations.of(accuracy=accuracy, cost=cost, cost_error=cost_error, rows=_as_sure(counted, plan.rows))


def _as_sure(counted: int, rows: int) -> int:
    """Give as many rows, of a table that nothing had learned from, as would be as sure.

    >>> _as_sure(400, 400), _as_sure(40_000, 40_000)
    (266, 39800)
    """
    return max(1, int(counted / (1 + TOGETHER / rows)))


def judged_on(summary: Mapping[str, Any]) -> int:
    """Tell on how many items the accuracies were counted."""
    return rows_of(summary)


def classifiers(plan: PolicyPlan) -> tuple[str, ...]:
    """Name the sensors whose answers can be taken in the end."""
    return plan.sensors
