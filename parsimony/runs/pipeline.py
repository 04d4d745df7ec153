"""Run of an item of a pipeline: acquire features stage by stage until a prediction is accepted."""

from collections.abc import Mapping
from typing import Any

from parsimony.runs.steps import (
    OUT_OF_TIME,
    Call,
    CollectedResults,
    DecisionRequest,
    Refusal,
    RunAnswer,
    Steps,
    join_reasons,
    make_skipped_result,
)


def run_pipeline(
    first: Mapping[str, Any],
    *,
    acquired: Mapping[str, Any],
    remaining_seconds: float,
    unavailable: frozenset[str] = frozenset(),
) -> Steps:
    """Run an item from its first decision, which has a ``step``; the label is None without an accepted prediction.

    A feature that fails, or has invalid values, is missing; if its dataset has no missing values, the item is rejected.

    Args:
        acquired: known features.
        remaining_seconds: time limit of the run.
        unavailable: features that must not be called.
    """
    so_far, known, decision = CollectedResults(), dict(acquired), first
    while not isinstance(decision, Refusal):
        step = decision["step"]
        if step["action"] != "acquire":
            return RunAnswer(step.get("label"), step["confidence"], degraded=so_far.failures)
        if remaining_seconds <= 0:
            return RunAnswer(None, degraded=join_reasons(so_far.failures, OUT_OF_TIME))
        wanted = tuple(name for name in step["features"] if name not in unavailable)
        results = [make_skipped_result(name) for name in step["features"] if name in unavailable]
        if wanted:
            called = yield Call(wanted, remaining_seconds, planned_cost=step["cost"])
            results, remaining_seconds = [*results, *called.results], called.remaining_seconds
        so_far.results += results
        known |= {one.name: one.cells or None for one in results}
        decision = yield DecisionRequest(dict(known))
        if isinstance(decision, Refusal) and (
            invalid := [name for name in decision.invalid if known[name] is not None]
        ):
            so_far.mark_invalid(invalid, decision.reason)
            known |= dict.fromkeys(invalid)
            decision = yield DecisionRequest(dict(known))
    return RunAnswer(None, degraded=join_reasons(so_far.failures, decision.reason))
