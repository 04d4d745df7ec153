"""Run of an item through a policy: acquire sensors, in parallel where possible, then classify or select an answer."""

import math
from collections.abc import Collection
from dataclasses import replace

import numpy as np
from pydantic import ValidationError

from models.errors import Infeasible, InvalidRequest
from models.policy import (
    Acquired,
    AcquireDecision,
    Answer,
    AnswerDecision,
    PolicyDecision,
    PolicyQuery,
    RejectDecision,
    StopDecision,
)
from solvers.policy.plan import PolicyPlan
from solvers.running import Call, CallResult, ResultsSoFar, Runner, accept_result, no_answer_error
from solvers.running import RunAnswer as RunAnswer

MAX_STEPS = 1000
"""Maximum number of steps of a run; it guards against untrusted plans that never stop."""


def run(
    plan: PolicyPlan,
    query: PolicyQuery,
    first: PolicyDecision,
    *,
    remaining_seconds: float,
    excluded: frozenset[str] = frozenset(),
) -> Runner:
    """Run an item from its first decision.

    If a sensor is unavailable, the next best action is taken, or the known sensors decide. If none is known, the
    cheapest available sensor within the budget is acquired first. The possible cost of failed calls is subtracted from
    the item's budget.

    Args:
        remaining_seconds: time limit of the run.
        excluded: sensors that must not be called.
    Raises:
        EndpointFailed, RunTimeout: a sensor was needed and none was available.
    """
    so_far, acquired = ResultsSoFar(), dict(query.acquired)
    reasons: list[str] = []
    unavailable, spent_in_vain, costs = set(excluded), 0.0, dict(zip(plan.sensors, plan.costs.tolist(), strict=True))
    decided: PolicyDecision | None = first
    for _ in range(MAX_STEPS):
        known = _reduce_budget(query, spent_in_vain).model_copy(update={"acquired": acquired})
        try:
            decided = decided or plan.decide(known)
        except Infeasible:
            if not spent_in_vain:
                raise
            reasons.append("the remaining hard budget is too small for another sensor")
            break
        wanted = _sensors_to_acquire(decided, acquired)
        if unavailable.intersection(wanted):
            reasons += [f"{name}: its circuit is open" for name in wanted if name in excluded]
            wanted = _alternatives(plan, known, unavailable) or (
                () if acquired else _cheapest_fetch(plan, query, unavailable, spent_in_vain)
            )
        if not wanted or remaining_seconds <= 0:
            reasons += ["the deadline has passed"] if remaining_seconds <= 0 else []
            break
        outcome = yield Call(wanted, remaining_seconds, is_last=not acquired and plan.is_final_call(wanted))
        remaining_seconds, decided = outcome.remaining_seconds, None
        so_far.results += outcome.results
        for one in outcome.results:
            reading, error = _read_result(plan, one)
            acquired |= reading
            if not reading:
                unavailable.add(one.name)
                spent_in_vain += costs[one.name] if one.is_paid or one.error is None else 0.0
                reasons += [f"{one.name}: {error}"] if error else []
    stopped = None if unavailable or isinstance(decided, AcquireDecision) else decided
    return _answer(plan, query.model_copy(update={"acquired": acquired}), stopped, so_far, reasons, remaining_seconds)


def _answer(
    plan: PolicyPlan,
    query: PolicyQuery,
    stopped: StopDecision | None,
    so_far: ResultsSoFar,
    reasons: list[str],
    remaining_seconds: float,
) -> RunAnswer:
    """Return the decided answer, else that of the acquired sensors, with reasons for degradation."""
    degraded = "; ".join(dict.fromkeys(filter(None, (so_far.failures, *reasons)))) or None
    if degraded is not None and not query.acquired:
        if plan.classless and any(one.label is not None for one in so_far.results):
            return so_far.most_confident(remaining_seconds, "; ".join(dict.fromkeys(reasons)))
        raise no_answer_error(remaining_seconds, degraded)
    decided = stopped or plan.stop(query)
    if isinstance(decided, AnswerDecision):
        result = next(one for one in so_far.results if one.name == decided.answer and one.error is None)
        return replace(accept_result(result, degraded), confidence=decided.quality)
    if isinstance(decided, RejectDecision):
        return RunAnswer(None, None, None, decided.probabilities, degraded)
    probability = decided.probabilities[decided.label]
    return RunAnswer(decided.label, probability, None, decided.probabilities, degraded)


def _sensors_to_acquire(decision: PolicyDecision, acquired: Collection[str]) -> tuple[str, ...]:
    """Return the sensors to acquire next, together or one by one; () to stop."""
    if not isinstance(decision, AcquireDecision):
        return ()
    return tuple(name for name in (decision.sensor, *decision.then) if name not in acquired)


def _alternatives(plan: PolicyPlan, query: PolicyQuery, unavailable: set[str]) -> tuple[str, ...]:
    """Return the sensors to acquire without unavailable ones; () to stop."""
    left_out = tuple(name for name in plan.sensors if name in unavailable)
    try:
        return _sensors_to_acquire(plan.decide(query.model_copy(update={"excluded": left_out})), query.acquired)
    except Infeasible:
        return ()


def _reduce_budget(query: PolicyQuery, spent_in_vain: float) -> PolicyQuery:
    if query.max_item_cost is None:
        return query
    return query.model_copy(update={"max_item_cost": max(query.max_item_cost - spent_in_vain, 0.0)})


def _cheapest_fetch(
    plan: PolicyPlan, query: PolicyQuery, unavailable: set[str], spent_in_vain: float
) -> tuple[str, ...]:
    """Return the cheapest fetch that is available within the limits; () if there is none."""
    most = min(
        (limit - spent_in_vain for limit in (query.mean_budget, query.max_item_cost) if limit is not None),
        default=math.inf,
    )
    longest = math.inf if query.deadline is None else query.deadline
    times = plan.times if len(plan.times) else np.zeros(len(plan.sensors))
    fetches = plan.fetches if len(plan.fetches) else np.arange(len(plan.sensors))
    able = []
    for each in (fetches == fetch for fetch in np.unique(fetches)):
        names, cost = tuple(plan.sensors[m] for m in np.flatnonzero(each)), float(plan.costs[each].sum())
        if not unavailable.intersection(names) and times[each].max() <= longest and cost <= most:
            able.append((cost, names))
    return min(able)[1] if able else ()


def _read_result(plan: PolicyPlan, result: CallResult) -> tuple[dict[str, Acquired], str | None]:
    """Return the reading by sensor name; or {} and the error, None if the call itself failed."""
    if result.error is not None:
        return {}, None
    try:
        reading = _to_reading(plan, result)
        plan.check_readings({result.name: reading})
    except (InvalidRequest, ValidationError):
        return {}, "its reading is not valid for this policy"
    return {result.name: reading}, None


def _to_reading(plan: PolicyPlan, result: CallResult) -> Acquired:
    """Convert a call's result to a reading; raise ValidationError or InvalidRequest if it is empty."""
    if result.values is not None:
        return result.values[0] if len(result.values) == 1 else result.values
    if result.label is None:
        raise InvalidRequest("the result is empty")
    if plan.classless:
        return result.confidence if plan.has_columns(result.name) else None
    return Answer(label=result.label, confidence=result.confidence) if plan.is_labelled(result.name) else result.label
