"""What a choice of classifier was expected to achieve: feedback is held against it."""

from typing import Any

from models.feedback import Expectations
from models.portfolio import Assignment, AssignmentFigures, RouteDecision
from solvers.portfolio.plan import PortfolioPlan


def estimates(plan: PortfolioPlan, query: Any, decision: RouteDecision | AssignmentFigures) -> Expectations:
    """Expect the estimate and the cost of the classifier that was chosen, or their means over a batch.

    Whichever looks best is estimated too high; what that came to on held-out items at the budget is taken off already.
    Where costs differ from item to item, a batch is expected to cost more or less than planned by what held-out items
    did at its budget; where their sizes tell what they cost, or they told it, that is what they cost.
    """
    if not isinstance(decision, AssignmentFigures):
        return Expectations.of(accuracy=decision.estimated_accuracy, cost=decision.cost)
    queries = len(decision.assignments)
    budget = decision.budget if isinstance(decision, Assignment) else decision.cost
    rows = plan.telling("batch", budget / queries, decision.estimated_accuracy)
    sized = getattr(query, "sizes", None) is not None and len(plan.cost_powers) > 0
    if sized or getattr(query, "costs", None) is not None:
        return Expectations.of(accuracy=decision.estimated_accuracy, cost=decision.cost / queries, rows=rows)
    error = plan.beyond_planned("batch", budget / queries)[1]
    cost = decision.cost / queries
    return Expectations.of(accuracy=decision.estimated_accuracy, cost=cost, cost_error=error, rows=rows)
