"""Expected accuracy and cost of a decision, with which feedback is compared."""

from typing import Any

from models.feedback import Expectations
from models.portfolio import Assignment, AssignmentFigures, RouteDecision
from solvers.portfolio.plan import PortfolioPlan


def estimate_outcome(plan: PortfolioPlan, query: Any, decision: RouteDecision | AssignmentFigures) -> Expectations:
    """Return the expected accuracy and cost of the chosen classifier, or their means over a batch.

    The accuracy is corrected for the optimism of choosing the best estimate. This optimism is measured on holdout rows
    at the budget. Without sizes or declared costs, the cost of a batch has the standard error of holdout rows at its
    budget.
    """
    if not isinstance(decision, AssignmentFigures):
        return Expectations.from_figures(accuracy=decision.estimated_accuracy, cost=decision.cost)
    queries = len(decision.assignments)
    budget = decision.budget if isinstance(decision, Assignment) else decision.cost
    rows = plan.count_effective_rows("batch", budget / queries, decision.estimated_accuracy)
    sized = getattr(query, "sizes", None) is not None and len(plan.cost_powers) > 0
    if sized or getattr(query, "costs", None) is not None:
        return Expectations.from_figures(accuracy=decision.estimated_accuracy, cost=decision.cost / queries, rows=rows)
    error = plan.estimate_cost_overrun("batch", budget / queries)[1]
    cost = decision.cost / queries
    return Expectations.from_figures(accuracy=decision.estimated_accuracy, cost=cost, cost_error=error, rows=rows)
