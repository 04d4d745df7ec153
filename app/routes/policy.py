"""Policies: which sensor next, or stop, for an item as far as it is known; complete items run through; the curve."""

from typing import Annotated

from fastapi import Depends, Request, Response
from pydantic import ValidationError

from app.http.json_bodies import JsonRouter
from app.routes.dependencies import (
    Context,
    InContext,
    Version,
    body_of,
    budget_field,
    errors,
    json_only,
    path_name,
    plan_of,
    query_field,
    read_batch,
    solved,
)
from app.routes.subject import Limits, Subject
from app.serving.answers import LookUp, counted, decide, encode, facts_of, with_default_limits
from app.serving.catalog import Live
from models import InvalidRequest
from models.limits import Budget
from models.policy import PolicyQuery, PolicyReply, PolicyTarget
from models.policy_curves import PolicyCurveReply, RolloutReply, RolloutRequest, TrafficReply
from solvers import policy
from solvers.policy import PolicyPlan
from solvers.policy import traffic as traffic_of

router = JsonRouter(prefix="/v1/policies", tags=["policy"])
LIMITS = ("budget", "deadline", "min_accuracy")
"""What is asked of a policy beside other subjects."""
PolicyName = Annotated[str, path_name("digits")]


@router.post(
    "/{name}/decision",
    summary="Which sensor next, or which class, or whose answer",
    response_model=PolicyReply,
    responses=errors(404, 409, 413, 415, 503),
)
async def decision(name: PolicyName, request: PolicyQuery, context: InContext, version: Version = None) -> Response:
    """Say, from what is known of an item so far: acquire this sensor, take this class, or, where answers have no
    classes, take the answer of this classifier.

    Nothing is remembered between calls: send all that is known, each time. With a budget an item's id decides its share
    of luck, so that the same one always takes the same path and all together cost what the budget says.
    """
    live = await plan_of(context, policy.kind, name, version)
    return Response(
        decide(live, request, context.metrics, context.caller.open_circuits()), media_type="application/json"
    )


@router.post(
    "/{name}/rollouts",
    summary="Run complete items through the policy",
    response_model=RolloutReply,
    dependencies=[Depends(json_only)],
    responses=errors(404, 409, 413, 415, 503, 504),
    openapi_extra=body_of(RolloutRequest),
)
async def rollouts(name: PolicyName, request: Request, context: InContext, version: Version = None) -> Response:
    """Give label, or classifier that answers, cost and path of each item, as one step after the other would."""
    body = await request.body()
    live = await plan_of(context, policy.kind, name, version)
    return Response(await solved(context, _rollouts, context, live, body), media_type="application/json")


def _rollouts(context: Context, live: Live[PolicyPlan], body: bytes) -> bytes:
    """Read items, run them through, and write the reply; off the event loop, for all of it takes its time."""
    request = with_default_limits(live, read_batch(context, RolloutRequest, body))
    with counted(live, context.metrics):
        walked = live.plan.rollouts(request.items, request)
        return encode(walked, live, **facts_of(live, request, walked))


@router.get("/{name}/curve", summary="Cost against error", response_model=PolicyCurveReply, responses=errors(404, 503))
async def curve(name: PolicyName, context: InContext, version: Version = None) -> Response:
    """List what the trade-offs that were built cost, and how often they err, by rising cost."""
    live = await plan_of(context, policy.kind, name, version)
    reply = PolicyCurveReply(points=live.plan.curve(), unit=live.plan.unit, artifact=live.ref)
    return Response(encode(reply, live), media_type="application/json")


@router.get(
    "/{name}/traffic",
    summary="The DAG, and how many items take which way",
    response_model=TrafficReply,
    responses=errors(404, 409, 503, 504),
)
async def traffic(
    name: PolicyName,
    context: InContext,
    tradeoff: Annotated[float | None, query_field(PolicyTarget, "tradeoff")] = None,
    budget: Annotated[Budget | None, budget_field(PolicyTarget)] = None,
    min_accuracy: Annotated[float | None, query_field(PolicyTarget, "min_accuracy")] = None,
    version: Version = None,
) -> Response:
    """Tell for a trade-off, or a budget, how many items come to each set of sensors, stop there or go on; with neither,
    for the artifact's headline.

    Counted on the items that the policy was validated on. A budget between two points of the curve mixes them; the
    traffic is that of the mixture, in expectation. A version that was built before traffic was counted answers 409.
    """
    live = await plan_of(context, policy.kind, name, version)
    try:
        target = PolicyTarget(tradeoff=tradeoff, budget=budget, min_accuracy=min_accuracy)
    except ValidationError as error:
        raise InvalidRequest.of(error) from error
    target = with_default_limits(live, target)
    flow = await solved(context, traffic_of, live.plan, live.record.summary, target)
    reply = TrafficReply(**dict(flow), unit=live.plan.unit, artifact=live.ref)
    return Response(encode(reply, live), media_type="application/json")


def what_if(limits: Limits) -> PolicyQuery | str:
    """Ask for the first step of an item of which nothing is known."""
    return PolicyQuery.model_validate({name: limits[name] for name in LIMITS if name in limits})


def senseless(plan: PolicyPlan) -> frozenset[str]:
    """Name the limits that mean nothing to a plan: a deadline where no times are known."""
    return frozenset() if len(plan.times) else frozenset({"deadline"})


subject = Subject(
    router,
    limits=frozenset(LIMITS),
    what_if=what_if,
    senseless=senseless,
    look_ups=(LookUp(policy.kind, "/v1/policies/", "/decision", PolicyQuery, "POST"),),
    bodies=(RolloutRequest,),
)
