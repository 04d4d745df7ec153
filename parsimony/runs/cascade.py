"""Run of a cascade: call classifiers in order, accept confident answers, and reserve time for the last classifier.

A classifier that fails, times out, or is unavailable counts as IDK.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

from parsimony.runs.steps import (
    OUT_OF_TIME,
    REJECT,
    Call,
    CallResult,
    CollectedResults,
    RunAnswer,
    Steps,
    accept_result,
    join_reasons,
    make_skipped_result,
)

Step = Mapping[str, Any]
"""A step of a cascade's decision: ``classifier``, its thresholds, and its times, in the artifact's unit."""
Continue = Callable[[Sequence[str], float], Sequence[Step] | None]
"""Returns the best further steps, given the classifiers called and the remaining seconds; None: none is in time."""


def run_cascade(
    steps: Sequence[Step],
    *,
    remaining_seconds: float,
    unit_s: float | None,
    unavailable: frozenset[str] = frozenset(),
    continue_from: Continue | None = None,
) -> Steps:
    """Run an item through a decided cascade.

    Args:
        steps: the decision's steps.
        remaining_seconds: time limit of the run.
        unit_s: seconds per unit of the steps' times; None if the unit is not a unit of time. All steps are then made.
        unavailable: classifiers that must not be called.
        continue_from: chooses the further steps after a call; None: the decided steps that are still in time.
    Raises:
        NoAnswer: no call answered.
    """
    so_far, ahead = CollectedResults(), list(steps)
    called: list[str] = []
    while ahead:
        step, *ahead = ahead
        name = step["classifier"]
        called.append(name)
        if name == REJECT:
            return RunAnswer(None, degraded=so_far.failures)
        if remaining_seconds <= 0:
            return so_far.most_confident(remaining_seconds, OUT_OF_TIME)
        if name in unavailable:
            result = make_skipped_result(name)
        else:
            within, is_last = (
                _call_timeout(remaining_seconds, step, ahead, unit_s),
                step["confidence_threshold"] is None,
            )
            results = yield Call((name,), within, is_last, step["execution_time"])
            (result,), remaining_seconds = results.results, results.remaining_seconds
        so_far.results.append(result)
        if _is_accepted(step, result):
            return _answer(result, so_far, steps, called)
        if ahead and unit_s is not None and remaining_seconds < inf:
            ahead = _steps_in_time(called, ahead, remaining_seconds, unit_s, continue_from)
    return so_far.most_confident(remaining_seconds)


def _call_timeout(remaining_seconds: float, step: Step, ahead: Sequence[Step], unit_s: float | None) -> float:
    """Return a timeout that leaves time for the last classifier, or, if impossible, the worst-case time."""
    if not ahead or unit_s is None:
        return remaining_seconds
    reserved: float = remaining_seconds - ahead[-1]["worst_case_time"] * unit_s
    return reserved if reserved > 0 else min(remaining_seconds, step["worst_case_time"] * unit_s)


def _is_accepted(step: Step, result: CallResult) -> bool:
    if result.label is None:
        return False
    threshold = step.get("label_thresholds", {}).get(result.label, step["confidence_threshold"])
    if threshold is None or result.verdict is not None:
        return threshold is None or result.verdict == "accept"
    return result.confidence is not None and bool(result.confidence >= threshold)


def _answer(result: CallResult, so_far: CollectedResults, steps: Sequence[Step], called: Sequence[str]) -> RunAnswer:
    decided = [step["classifier"] for step in steps]
    passed = decided[: decided.index(result.name)] if result.name in decided else decided
    left_out = [name for name in passed if name not in called]
    skipped = f"{', '.join(left_out)} skipped for lack of time" if left_out else None
    return accept_result(result, join_reasons(so_far.failures, skipped))


def _steps_in_time(
    called: Sequence[str], ahead: list[Step], remaining_seconds: float, unit_s: float, continue_from: Continue | None
) -> list[Step]:
    """Return the further steps for the remaining time: the last one, and before it those that are in time."""
    if continue_from is not None:
        return list(continue_from(called, remaining_seconds) or ahead[-1:])
    *others, last = ahead
    units, kept = remaining_seconds / unit_s - last["worst_case_time"], list[Step]()
    for step in others:
        if step["worst_case_time"] <= units:
            kept.append(step)
            units -= step["worst_case_time"]
    return [*kept, last]
