"""Run of a cascade: call classifiers in order, accept confident answers, and reserve time for the last classifier.

A classifier that fails, times out, or is unavailable counts as IDK.
"""

from math import inf

from models.cascade import CascadeQuery, CascadeRunDecision, CascadeStep
from models.losses import REJECT
from solvers.cascade.plan import CascadePlan
from solvers.running import Call, CallResult, ResultsSoFar, RunAnswer, Runner, accept_result

OUT_OF_TIME = "the deadline has passed"


def run(
    plan: CascadePlan,
    query: CascadeQuery,
    decision: CascadeRunDecision,
    *,
    remaining_seconds: float,
    unit_s: float | None,
    excluded: frozenset[str] = frozenset(),
) -> Runner:
    """Run an item through a decided cascade.

    Args:
        remaining_seconds: time limit of the run.
        unit_s: seconds per unit of the plan's times; None if the unit is not a unit of time. The order then stays as
            decided.
        excluded: classifiers that must not be called.
    Raises:
        EndpointFailed, RunTimeout: no call answered.
    """
    so_far, ahead = ResultsSoFar(), list(decision.steps)
    called: list[CascadeStep] = []
    while ahead:
        if remaining_seconds <= 0:
            return so_far.most_confident(remaining_seconds, OUT_OF_TIME)
        step, *ahead = ahead
        called.append(step)
        if step.classifier == REJECT:
            return RunAnswer(None, degraded=so_far.failures)
        result = CallResult(step.classifier, attempts=0, error="its circuit is open")
        if step.classifier not in excluded:
            within, is_last = _call_timeout(remaining_seconds, step, ahead, unit_s), step.confidence_threshold is None
            results = yield Call((step.classifier,), within, is_last)
            (result,), remaining_seconds = results.results, results.remaining_seconds
        so_far.results.append(result)
        if _is_accepted(step, result):
            return _answer(result, so_far, decision, called)
        ahead = _next_steps(plan, query, called, ahead, remaining_seconds, unit_s)
    return so_far.most_confident(remaining_seconds)


def _call_timeout(remaining_seconds: float, step: CascadeStep, ahead: list[CascadeStep], unit_s: float | None) -> float:
    """Return a timeout that leaves time for the last classifier, or, if impossible, the worst-case time."""
    if not ahead or unit_s is None:
        return remaining_seconds
    reserved = remaining_seconds - ahead[-1].worst_case_time * unit_s
    return reserved if reserved > 0 else min(remaining_seconds, step.worst_case_time * unit_s)


def _is_accepted(step: CascadeStep, result: CallResult) -> bool:
    if result.label is None:
        return False
    threshold = step.confidence_threshold
    if threshold is None or result.verdict is not None:
        return threshold is None or result.verdict == "accept"
    return result.confidence is not None and result.confidence >= threshold


def _answer(
    result: CallResult, so_far: ResultsSoFar, decision: CascadeRunDecision, called: list[CascadeStep]
) -> RunAnswer:
    decided = [step.classifier for step in decision.steps]
    skipped = decided[: decided.index(result.name)] if result.name in decided else decided
    left_out = [name for name in skipped if name not in [step.classifier for step in called]]
    reasons = [f"{', '.join(left_out)} skipped for lack of time"] if left_out else []
    failures = so_far.failures
    return accept_result(result, "; ".join([*([failures] if failures else []), *reasons]) or None)


def _next_steps(
    plan: CascadePlan,
    query: CascadeQuery,
    called: list[CascadeStep],
    ahead: list[CascadeStep],
    remaining_seconds: float,
    unit_s: float | None,
) -> list[CascadeStep]:
    """Return the best continuation for the remaining time, or only the last step.

    Without a deadline the steps stay as decided.
    """
    if not ahead or unit_s is None or remaining_seconds == inf:
        return ahead
    units = remaining_seconds / unit_s
    fits = sum(step.worst_case_time for step in ahead) <= units
    if (
        query.min_accuracy is not None or plan.select_points(query) is not None
    ):  # a point's thresholds go with its cascade
        return ahead if fits else ahead[-1:]
    continuation = plan.continue_from([step.classifier for step in called], units)
    return ahead[-1:] if continuation is None else list(continuation)
