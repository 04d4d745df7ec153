"""Expected accuracy, cost, and time of a cascade, with which feedback is compared."""

from models.cascade import CascadeQuery, CascadeRunDecision
from models.feedback import Expectations
from solvers.cascade.plan import CascadePlan


def estimate_outcomes(
    plan: CascadePlan, query: CascadeQuery, decision: CascadeRunDecision, held_out: int = 0
) -> Expectations:
    """Return the expected accuracy, coverage, and cost or time.

    For a mixture of two cascades, the estimates are means over all items. Without holdout results, the only estimate is
    the duration that the solver computed. If classifiers are skipped, there are no estimates.

    Args:
        held_out: number of holdout rows that measured the cascades for deadlines; 0 if unknown.
    """
    if decision.skipped:
        return Expectations.from_figures()
    chosen = plan.select_points(query)
    if chosen is not None:
        right = chosen.mix(plan.point_accuracies)
        coverage = chosen.mix(plan.point_coverages) if len(plan.point_coverages) else None
        mean, error = chosen.mix(plan.point_costs), chosen.mix(plan.point_cost_errors)
        if query.mean_budget is None and query.min_accuracy is None:  # with a deadline alone costs are times
            return Expectations.from_figures(accuracy=right, coverage=coverage, time=mean, time_error=error)
        return Expectations.from_figures(accuracy=right, coverage=coverage, cost=mean, cost_error=error)
    measured = plan.holdout_result(decision.cascade)
    if measured is None:
        return Expectations.from_figures(time=decision.expected_duration)
    return Expectations.from_figures(
        accuracy=measured.accuracy, time=measured.duration, time_error=measured.duration_error, rows=held_out or None
    )
