"""Policies: which sensor next, or stop, for an item as far as it is known; complete items run through; the curve."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import ValidationError

from app.catalog import Live
from app.decisions import LookUp, counted, decide, encode, told
from app.routes.context import (
    Context,
    InContext,
    Version,
    body_of,
    each_name_once,
    errors,
    json_only,
    plan_of,
    read_batch,
    solved,
)
from models import InvalidRequest
from models.base import LARGEST, NAME_PATTERN
from models.policy import PolicyCurveReply, PolicyQuery, PolicyReply, PolicyTarget, RolloutReply, RolloutRequest
from models.traffic import TrafficReply
from solvers.policy import traffic as traffic_of

router = APIRouter(prefix="/v1/policies", tags=["policy"])
bodies = (RolloutRequest,)
look_ups = (LookUp("policy", "/v1/policies/", "/steps", PolicyQuery, "POST"),)
PolicyName = Annotated[str, Path(pattern=NAME_PATTERN, description="the name", examples=["digits"])]


def _limit(description: str, example: float) -> Any:
    return Query(ge=0, le=LARGEST, allow_inf_nan=False, description=description, examples=[example])


LIMITS = frozenset[str]({"budget"})


def what_if(limits: dict[str, float]) -> PolicyQuery | str:
    """Ask for the first step of an item of which nothing is known."""
    return PolicyQuery(budget=limits.get("budget"))


@router.post(
    "/{name}/steps",
    summary="Which sensor next, or which class",
    response_model=PolicyReply,
    dependencies=[Depends(json_only), Depends(each_name_once)],
    responses=errors(404, 409, 413, 415, 503),
)
async def steps(name: PolicyName, request: PolicyQuery, context: InContext, version: Version = None) -> Response:
    """Say, from what is known of an item so far: acquire this sensor, or take this class.

    Nothing is remembered between calls: send all that is known, each time. With a budget an item's id decides its share
    of luck, so that the same one always takes the same path and all together cost what the budget says.
    """
    live = await plan_of(context, "policy", name, version)
    return Response(decide(live, request, context.metrics), media_type="application/json")


@router.post(
    "/{name}/rollouts",
    summary="Run complete items through the policy",
    response_model=RolloutReply,
    dependencies=[Depends(json_only)],
    responses=errors(404, 409, 413, 415, 503, 504),
    openapi_extra=body_of(RolloutRequest),
)
async def rollouts(name: PolicyName, request: Request, context: InContext, version: Version = None) -> Response:
    """Give label, cost and path of each item, as asking for one step after the other would."""
    body = await request.body()
    live = await plan_of(context, "policy", name, version)
    return Response(await solved(context, _rollouts, context, live, body), media_type="application/json")


def _rollouts(context: Context, live: Live, body: bytes) -> bytes:
    """Read items, run them through, and write the reply; off the event loop, for all of it takes its time."""
    request = read_batch(context, RolloutRequest, body)
    with counted(live, context.metrics):
        found = live.plan.rollouts(request.items, request)
        return encode(found, live, decision=told(live, request, found))


@router.get("/{name}/curve", summary="Cost against error", response_model=PolicyCurveReply, responses=errors(404, 503))
async def curve(name: PolicyName, context: InContext, version: Version = None) -> Response:
    """List what the trade-offs that were built cost, and how often they err, by rising cost."""
    live = await plan_of(context, "policy", name, version)
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
    tradeoff: Annotated[
        float | None, _limit("what a unit of cost weighs against errors, in errors per unit of cost", 0.02)
    ] = None,
    budget: Annotated[float | None, _limit("what an item may cost in expectation, in the artifact's unit", 6.0)] = None,
    version: Version = None,
) -> Response:
    """Tell for a trade-off, or a budget, how many items come to each set of sensors, stop there or go on; with neither,
    for the fewest errors.

    Counted on the items that the policy was validated on. A budget between two points of the curve mixes them; the
    traffic is that of the mixture, in expectation. A version that was built before traffic was counted answers 409.
    """
    live = await plan_of(context, "policy", name, version)
    try:
        target = PolicyTarget(tradeoff=tradeoff, budget=budget)
    except ValidationError as error:
        raise InvalidRequest.of(error) from error
    found = await solved(context, traffic_of, live.plan, live.record.summary, target)
    reply = TrafficReply(**dict(found), unit=live.plan.unit, artifact=live.ref)
    return Response(encode(reply, live), media_type="application/json")
