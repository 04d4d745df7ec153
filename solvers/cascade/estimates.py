"""What a cascade was expected to achieve: feedback is held against it."""

from collections.abc import Mapping
from typing import Any

from models.cascade import CascadeQuery, CascadeRunDecision
from models.feedback import Expectations
from solvers.cascade.plan import CascadePlan


def estimates(
    plan: CascadePlan, summary: Mapping[str, Any], query: CascadeQuery, decision: CascadeRunDecision
) -> Expectations:
    """Expect the accuracy and the duration on the held-out half; where that was not kept, the one solved for. Of the
    frontier, the accuracy and the cost; where two cascades share the items, of all items. Of a cascade of which
    classifiers are skipped nothing is known."""
    if decision.skipped:
        return Expectations.of()
    chosen = plan.chosen(query)
    if chosen is not None:
        right = chosen.mean(plan.point_accuracies)
        mean, error = chosen.mean(plan.point_costs), chosen.mean(plan.point_cost_errors)
        if query.mean_budget is None and query.min_accuracy is None:  # a deadline alone is of time
            return Expectations.of(accuracy=right, time=mean, time_error=error)
        return Expectations.of(accuracy=right, cost=mean, cost_error=error)
    measured = plan.measured(decision.cascade)
    accuracy = measured.accuracy if measured else _replayed(summary, list(decision.cascade))
    if measured is None or measured.duration is None:
        return Expectations.of(accuracy=accuracy, time=decision.expected_duration)
    return Expectations.of(accuracy=accuracy, time=measured.duration, time_error=measured.duration_error)


def _replayed(summary: Mapping[str, Any], cascade: list[str]) -> float | None:
    """Find a cascade's accuracy on the held-out half in the summary of an older version's build, which may come from
    anybody's bytes."""
    replays = summary.get("replays")
    for each in replays if isinstance(replays, list) else []:
        if isinstance(each, dict) and each.get("cascade") == cascade:
            held_out = each.get("held_out")
            accuracy = held_out.get("accuracy") if isinstance(held_out, dict) else None
            return accuracy if type(accuracy) is float and 0 <= accuracy <= 1 else None
    return None
