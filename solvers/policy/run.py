"""Run an item through a policy: acquire what it asks for, what belongs together at the same time, then classify."""

from pydantic import ValidationError

from models.errors import InvalidRequest
from models.policy import Acquired, AcquireDecision, Answer, PolicyQuery
from solvers.policy.plan import PolicyPlan
from solvers.running import Answer as RunAnswer
from solvers.running import Call, Heard, Runner, SoFar

MOST_STEPS = 1000
"""No policy has as many sensors; a plan that is somebody's bytes may ask for ever."""


def run(plan: PolicyPlan, query: PolicyQuery, *, left: float, without: frozenset[str] = frozenset()) -> Runner:
    """Run an item of which nothing is known. Where a sensor cannot be had, what is known decides.

    left: seconds that it may take. without: sensors that must not be called.
    """
    so_far, acquired = SoFar(), dict(query.acquired)
    reasons: list[str] = []
    for _ in range(MOST_STEPS):
        known = query.model_copy(update={"acquired": acquired})
        decision = plan.decide(known)
        if not isinstance(decision, AcquireDecision):
            break
        wanted = tuple(name for name in (decision.sensor, *decision.then) if name not in acquired)
        lacking = [name for name in wanted if name in without]
        if lacking or left <= 0:
            reasons += [f"{name}: its circuit is open" for name in lacking] or ["the time was over"]
            break
        back = yield Call(wanted, left)
        left = back.left
        so_far.heard += back.heard
        told: dict[str, Acquired] = {}
        for one in back.heard:
            said, why = _told(plan, one)
            if said is not None:
                told[one.name] = said
            elif why is not None:
                reasons.append(f"{one.name}: {why}")
        acquired |= told
        if len(told) < len(wanted):
            break
    return _classified(plan, query.model_copy(update={"acquired": acquired}), so_far, reasons)


def _classified(plan: PolicyPlan, known: PolicyQuery, so_far: SoFar, reasons: list[str]) -> RunAnswer:
    decision = plan.classify(known)
    failures = so_far.failures
    degraded = "; ".join([*([failures] if failures else []), *reasons]) or None
    probability = decision.probabilities[decision.label]
    return RunAnswer(decision.label, probability, None, decision.probabilities, degraded)


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
