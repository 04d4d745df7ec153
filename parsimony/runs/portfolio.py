"""Run of an item of a portfolio: call its classifier and, if the call fails, the best other classifier."""

from collections.abc import Mapping
from typing import Any

from parsimony.runs.steps import (
    OUT_OF_TIME,
    REJECT,
    Call,
    CollectedResults,
    DecisionRequest,
    Refusal,
    RunAnswer,
    Steps,
    accept_result,
    make_skipped_result,
)


def run_portfolio(
    first: Mapping[str, Any], *, remaining_seconds: float, unavailable: frozenset[str] = frozenset()
) -> Steps:
    """Run an item with its decision, which has a ``classifier`` and its ``cost``.

    Args:
        remaining_seconds: time limit of the run.
        unavailable: classifiers that must not be called.
    Raises:
        NoAnswer: no classifier answered.
    """
    so_far, decision = CollectedResults(), first
    tried, lost = set[str](), 0.0
    while remaining_seconds > 0:
        name = decision["classifier"]
        tried.add(name)
        if name == REJECT:
            return RunAnswer(None, degraded=so_far.failures)
        if name in unavailable:
            result = make_skipped_result(name)
        else:
            outcome = yield Call((name,), remaining_seconds, is_last=True, planned_cost=decision["cost"])
            (result,), remaining_seconds = outcome.results, outcome.remaining_seconds
        so_far.results.append(result)
        if result.label is not None:
            return accept_result(result, so_far.failures)
        lost += decision["cost"] if result.is_paid else 0.0
        decision = yield DecisionRequest(excluded=frozenset(tried), lost=lost)
        if isinstance(decision, Refusal):
            return so_far.most_confident(remaining_seconds, decision.reason)
    return so_far.most_confident(remaining_seconds, OUT_OF_TIME)
