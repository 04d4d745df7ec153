"""Decisions of a policy during a run, and the part of the plan a run needs."""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any

import numpy as np
from pydantic import ValidationError

from models.errors import Infeasible, InvalidRequest
from models.policy import Acquired, Answer, PolicyQuery
from parsimony.runs.policy import PolicyFacts, SensorFacts, SetupFacts
from parsimony.runs.steps import CallResult, DecisionRequest, Predict, Refusal
from solvers.policy.plan import PolicyPlan
from solvers.running import Decide


def make_decisions(plan: PolicyPlan, query: PolicyQuery) -> Decide:
    """Return a function that decides the next action for the readings so far."""

    def decide(step: DecisionRequest | Predict) -> Mapping[str, Any] | Refusal:
        assert isinstance(step, DecisionRequest)
        known: dict[str, Any] = {"acquired": step.acquired}
        try:
            if step.must_stop:
                return dict(plan.stop(query.model_copy(update=known)))
            known["excluded"] = tuple(name for name in plan.sensors if name in step.excluded or name in query.excluded)
            if query.max_item_cost is not None:
                known["max_item_cost"] = max(query.max_item_cost - step.lost, 0.0)
            return dict(plan.decide(query.model_copy(update=known)))
        except (Infeasible, InvalidRequest) as error:
            return Refusal(str(error))

    return decide


def describe_run(plan: PolicyPlan, query: PolicyQuery) -> PolicyFacts:
    """Return the part of the policy and of the item's limits that a run needs."""
    times = plan.times.tolist() if len(plan.times) else [0.0] * len(plan.sensors)
    fetches = plan.fetches.tolist() if len(plan.fetches) else list(range(len(plan.sensors)))
    facts = zip(plan.costs.tolist(), times, fetches, strict=True)
    return PolicyFacts(
        sensors={name: SensorFacts(*each) for name, each in zip(plan.sensors, facts, strict=True)},
        read=lambda result: _read_result(plan, result),
        max_cost=min((limit for limit in (query.mean_budget, query.max_item_cost) if limit is not None), default=inf),
        max_time=inf if query.deadline is None else query.deadline,
        is_final=plan.is_final_call,
        classless=plan.classless,
        setup=tuple(_list_setup(plan)),
    )


def _list_setup(plan: PolicyPlan) -> Iterator[SetupFacts]:
    times = plan.setup_times.tolist() if len(plan.setup_times) else [0.0] * len(plan.setup_names)
    for members, cost, time in zip(plan.setup.members, plan.setup_costs.tolist(), times, strict=True):
        yield SetupFacts(frozenset(np.array(plan.sensors)[members].tolist()), cost, time)


def _read_result(plan: PolicyPlan, result: CallResult) -> Acquired | Refusal:
    """Return the reading of a call, or a Refusal if the policy cannot use it."""
    try:
        reading = _to_reading(plan, result)
        plan.check_readings({result.name: reading})
    except (InvalidRequest, ValidationError):
        return Refusal("its reading is not valid for this policy")
    return reading


def _to_reading(plan: PolicyPlan, result: CallResult) -> Acquired:
    """Convert a call's result to a reading; raise ValidationError or InvalidRequest if it is empty."""
    if result.values is not None:
        return result.values[0] if len(result.values) == 1 else result.values
    if result.label is None:
        raise InvalidRequest("the result is empty")
    if plan.classless:
        return result.confidence if plan.has_columns(result.name) else None
    return Answer(label=result.label, confidence=result.confidence) if plan.is_labelled(result.name) else result.label
