"""What a cascade was expected to achieve: feedback is held against it."""

from models.cascade import CascadeQuery, CascadeRunDecision
from models.feedback import Expectations
from solvers.cascade.plan import CascadePlan


def estimates(plan: CascadePlan, query: CascadeQuery, decision: CascadeRunDecision) -> Expectations:
    """Expect the accuracy and the duration on the held-out half; where that was not kept, the one solved for. Of the
    frontier, the accuracy and the cost; where two cascades share the items, of all items. Of a cascade of which
    classifiers are skipped nothing is known."""
    if decision.skipped:
        return Expectations.of()
    chosen = plan.select_points(query)
    if chosen is not None:
        right = chosen.mix(plan.point_accuracies)
        mean, error = chosen.mix(plan.point_costs), chosen.mix(plan.point_cost_errors)
        if query.mean_budget is None and query.min_accuracy is None:  # a deadline alone is of time
            return Expectations.of(accuracy=right, time=mean, time_error=error)
        return Expectations.of(accuracy=right, cost=mean, cost_error=error)
    measured = plan.holdout_result(decision.cascade)
    if measured is None:
        return Expectations.of(time=decision.expected_duration)
    return Expectations.of(accuracy=measured.accuracy, time=measured.duration, time_error=measured.duration_error)
