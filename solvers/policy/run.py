"""Run an item through a policy: acquire what it asks for, what belongs together at the same time, then classify; or,
where answers have no classes, take the one that should be best."""

import math
from collections.abc import Collection
from dataclasses import replace

import numpy as np
from pydantic import ValidationError

from models.errors import Infeasible, InvalidRequest
from models.policy import Acquired, AcquireDecision, Answer, AnswerDecision, ClassifyDecision, PolicyQuery
from solvers.policy.plan import PolicyPlan
from solvers.running import Answer as RunAnswer
from solvers.running import Call, CallResult, ResultsSoFar, Runner, accept_result, no_answer_error

Decision = AcquireDecision | ClassifyDecision | AnswerDecision
MAX_STEPS = 1000
"""No policy has as many sensors; a plan that is somebody's bytes may ask for ever."""


def run(
    plan: PolicyPlan,
    query: PolicyQuery,
    first: Decision,
    *,
    remaining_seconds: float,
    excluded: frozenset[str] = frozenset(),
) -> Runner:
    """Run an item of which nothing is acquired, from what was decided first.

    Where a sensor cannot be had, the best of what else may follow is
    acquired, or what is known decides; where nothing is, the cheapest one that can be had within the budget is acquired
    first. What a failed call may have cost is taken off the budget of the item.

    left: seconds that it may take. without: sensors that must not be called. Raises EndpointFailed, or RunTimeout, if
    a sensor was wanted and none could be had.
    """
    so_far, acquired = ResultsSoFar(), dict(query.acquired)
    reasons: list[str] = []
    lost, in_vain, costs = set(excluded), 0.0, dict(zip(plan.sensors, plan.costs.tolist(), strict=True))
    decided: Decision | None = first
    for _ in range(MAX_STEPS):
        known = _reduce_budget(query, in_vain).model_copy(update={"acquired": acquired})
        try:
            decided = decided or plan.decide(known)
        except Infeasible:
            if not in_vain:
                raise
            reasons.append("nothing else is within what is left of the hard budget")
            break
        wanted = _sensors_to_acquire(decided, acquired)
        if lost.intersection(wanted):
            reasons += [f"{name}: its circuit is open" for name in wanted if name in excluded]
            wanted = _alternatives(plan, known, lost) or (
                () if acquired else _cheapest_fetch(plan, query, lost, in_vain)
            )
        if not wanted or remaining_seconds <= 0:
            reasons += ["the time was over"] if remaining_seconds <= 0 else []
            break
        back = yield Call(wanted, remaining_seconds, is_last=not acquired and plan.is_final_call(wanted))
        remaining_seconds, decided = back.remaining_seconds, None
        so_far.results += back.results
        for one in back.results:
            said, why = _read_result(plan, one)
            acquired |= said
            if not said:
                lost.add(one.name)
                in_vain += costs[one.name] if one.is_paid or one.error is None else 0.0
                reasons += [f"{one.name}: {why}"] if why else []
    stopped = None if lost or isinstance(decided, AcquireDecision) else decided
    return _answer(plan, query.model_copy(update={"acquired": acquired}), stopped, so_far, reasons, remaining_seconds)


def _answer(
    plan: PolicyPlan,
    query: PolicyQuery,
    stopped: ClassifyDecision | AnswerDecision | None,
    so_far: ResultsSoFar,
    reasons: list[str],
    remaining_seconds: float,
) -> RunAnswer:
    """Answer as was decided, else by what was acquired, and report what it lacked, for these reasons too.

    Raises EndpointFailed, or RunTimeout, if a sensor was wanted and none could be had.
    """
    why_less = "; ".join(dict.fromkeys(filter(None, (so_far.failures, *reasons)))) or None
    if why_less is not None and not query.acquired:
        if plan.classless and any(one.label is not None for one in so_far.results):
            return so_far.most_confident(remaining_seconds, "; ".join(dict.fromkeys(reasons)))
        raise no_answer_error(remaining_seconds, why_less)
    decided = stopped or plan.stop(query)
    if isinstance(decided, AnswerDecision):
        heard = next(one for one in so_far.results if one.name == decided.answer and one.error is None)
        return replace(accept_result(heard, why_less), confidence=decided.quality)
    probability = decided.probabilities[decided.label]
    return RunAnswer(decided.label, probability, None, decided.probabilities, why_less)


def _sensors_to_acquire(decision: Decision, acquired: Collection[str]) -> tuple[str, ...]:
    """Return the sensors to acquire next, together or one by one; none to stop."""
    if not isinstance(decision, AcquireDecision):
        return ()
    return tuple(name for name in (decision.sensor, *decision.then) if name not in acquired)


def _alternatives(plan: PolicyPlan, query: PolicyQuery, lost: set[str]) -> tuple[str, ...]:
    """Give what to acquire where sensors are lost; none to stop."""
    left_out = tuple(name for name in plan.sensors if name in lost)
    try:
        return _sensors_to_acquire(plan.decide(query.model_copy(update={"excluded": left_out})), query.acquired)
    except Infeasible:
        return ()


def _reduce_budget(query: PolicyQuery, in_vain: float) -> PolicyQuery:
    """Take what was paid in vain off the budget that no item exceeds."""
    if query.max_item_cost is None:
        return query
    return query.model_copy(update={"max_item_cost": max(query.max_item_cost - in_vain, 0.0)})


def _cheapest_fetch(plan: PolicyPlan, query: PolicyQuery, lost: set[str], in_vain: float) -> tuple[str, ...]:
    """Give the cheapest sensors that are fetched together and can still be had within the budget, less what was paid in
    vain, and the deadline; none if none can."""
    most = min(
        (limit - in_vain for limit in (query.mean_budget, query.max_item_cost) if limit is not None), default=math.inf
    )
    longest = math.inf if query.deadline is None else query.deadline
    times = plan.times if len(plan.times) else np.zeros(len(plan.sensors))
    fetches = plan.fetches if len(plan.fetches) else np.arange(len(plan.sensors))
    able = []
    for each in (fetches == fetch for fetch in np.unique(fetches)):
        names, cost = tuple(plan.sensors[m] for m in np.flatnonzero(each)), float(plan.costs[each].sum())
        if not lost.intersection(names) and times[each].max() <= longest and cost <= most:
            able.append((cost, names))
    return min(able)[1] if able else ()


def _read_result(plan: PolicyPlan, heard: CallResult) -> tuple[dict[str, Acquired], str | None]:
    """Give what a sensor told as the policy takes it, by its name; or nothing, and why the policy cannot take it, None
    where the call has failed already."""
    if heard.error is not None:
        return {}, None
    try:
        said = _to_reading(plan, heard)
        plan.check_readings({heard.name: said})
    except (InvalidRequest, ValidationError):
        return {}, "it told what this policy cannot take"
    return {heard.name: said}, None


def _to_reading(plan: PolicyPlan, heard: CallResult) -> Acquired:
    """Put it in the policy's words; raises ValidationError, or InvalidRequest if it said nothing."""
    if heard.values is not None:
        return heard.values[0] if len(heard.values) == 1 else heard.values
    if heard.label is None:
        raise InvalidRequest("it said nothing")
    if plan.classless:
        return heard.confidence if plan.has_columns(heard.name) else None
    return Answer(label=heard.label, confidence=heard.confidence) if plan.is_labelled(heard.name) else heard.label
