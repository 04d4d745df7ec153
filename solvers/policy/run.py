"""Run an item through a policy: acquire what it asks for, what belongs together at the same time, then classify."""

import math

import numpy as np
from pydantic import ValidationError

from models.errors import InvalidRequest
from models.policy import Acquired, AcquireDecision, Answer, PolicyQuery
from solvers.policy.plan import PolicyPlan
from solvers.running import Answer as RunAnswer
from solvers.running import Call, Heard, Runner, SoFar, no_answer

MOST_STEPS = 1000
"""No policy has as many sensors; a plan that is somebody's bytes may ask for ever."""


def run(plan: PolicyPlan, query: PolicyQuery, *, left: float, without: frozenset[str] = frozenset()) -> Runner:
    """Run an item of which nothing is known. Where a sensor cannot be had, what is known
    decides, and where nothing is, the cheapest one that can be had within the budget is acquired first. What a failed
    call may have cost is taken off the budget of the item.

    left: seconds that it may take. without: sensors that must not be called. Raises EndpointFailed, or RunTimeout, if
    a sensor was wanted and none could be had.
    """
    so_far, acquired = SoFar(), dict(query.acquired)
    reasons: list[str] = []
    lost, in_vain, costs = set(without), 0.0, dict(zip(plan.sensors, plan.costs.tolist(), strict=True))
    for _ in range(MOST_STEPS):
        decision = plan.decide(_less(query, in_vain).model_copy(update={"acquired": acquired}))
        if not isinstance(decision, AcquireDecision):
            break
        wanted = tuple(name for name in (decision.sensor, *decision.then) if name not in acquired)
        reasons += [f"{name}: its circuit is open" for name in wanted if name in without]
        if lost.intersection(wanted):
            wanted = () if acquired else _cheapest(plan, query, lost, in_vain)
        if not wanted or left <= 0:
            reasons += ["the time was over"] if left <= 0 else []
            break
        back = yield Call(wanted, left)
        left = back.left
        so_far.heard += back.heard
        for one in back.heard:
            said, why = _told(plan, one)
            if said is not None:
                acquired[one.name] = said
            else:
                lost.add(one.name)
                in_vain += costs[one.name] if one.is_paid or one.error is None else 0.0
                reasons += [f"{one.name}: {why}"] if why else []
    why_less = "; ".join(dict.fromkeys(filter(None, (so_far.failures, *reasons)))) or None
    if why_less is not None and not acquired:
        raise no_answer(left, why_less)
    decided = plan.classify(query.model_copy(update={"acquired": acquired}))
    probability = decided.probabilities[decided.label]
    return RunAnswer(decided.label, probability, None, decided.probabilities, why_less)


def _less(query: PolicyQuery, in_vain: float) -> PolicyQuery:
    """Take what was paid in vain off the budget that no item exceeds."""
    if query.hard_budget is None:
        return query
    return query.model_copy(update={"hard_budget": max(query.hard_budget - in_vain, 0.0)})


def _cheapest(plan: PolicyPlan, query: PolicyQuery, lost: set[str], in_vain: float) -> tuple[str, ...]:
    """Give the cheapest sensor that can still be had within the budget, less what was paid in vain, and the deadline;
    none if none can."""
    limits = [limit - in_vain for limit in (query.budget, query.hard_budget) if limit is not None]
    longest = math.inf if query.deadline is None else query.deadline
    times = plan.times if len(plan.times) else np.zeros(len(plan.sensors))
    able = [
        (cost, name)
        for cost, time, name in zip(plan.costs.tolist(), times.tolist(), plan.sensors, strict=True)
        if name not in lost and time <= longest and all(cost <= limit for limit in limits)
    ]
    return (min(able)[1],) if able else ()


def _told(plan: PolicyPlan, heard: Heard) -> tuple[Acquired | None, str | None]:
    """Give what a sensor told as the policy takes it; or why it cannot, None where the call has failed already."""
    if heard.error is not None:
        return None, None
    try:
        said = _said(plan, heard)
        plan.check_told({heard.name: said})
    except (InvalidRequest, ValidationError):
        return None, "it told what this policy cannot take"
    return said, None


def _said(plan: PolicyPlan, heard: Heard) -> Acquired:
    """Put it in the policy's words; raises ValidationError, or InvalidRequest if it said nothing."""
    if heard.values is not None:
        return heard.values[0] if len(heard.values) == 1 else heard.values
    if heard.label is None:
        raise InvalidRequest("it said nothing")
    return Answer(label=heard.label, confidence=heard.confidence) if plan.is_labelled(heard.name) else heard.label
