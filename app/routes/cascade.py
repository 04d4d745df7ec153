"""IDK classifier cascades: solve at once, decide from an artifact, show the whole step function."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from app.decisions import LookUp, decide
from app.routes.context import InContext, PathName, Version, errors, json_only, plan_of, solved
from models import CascadeDecision, CascadeQuery, CascadeReply, DeadlinesReply, SolveRequest
from solvers import cascade

router = APIRouter(prefix="/v1/cascades", tags=["cascade"])
look_ups = (LookUp("cascade", "/v1/cascades/", "/decision", CascadeQuery),)


LIMITS = frozenset[str]({"deadline"})


def what_if(limits: dict[str, float]) -> CascadeQuery | str:
    """Ask for the deadline, if one is given."""
    return CascadeQuery(deadline=limits.get("deadline"))


@router.post(
    "/solve",
    summary="Order classifiers at once",
    dependencies=[Depends(json_only)],
    responses=errors(409, 413, 415, 504),
)
async def solve(request: SolveRequest, context: InContext) -> CascadeDecision:
    """Find the cascade of least expected duration that always meets the deadline, with no artifact needed."""
    return await solved(
        context,
        cascade.solve,
        request.classifiers,
        deadline=request.deadline,
        dependence=request.dependence,
        algorithm=request.algorithm,
    )


@router.get(
    "/{name}/decision",
    summary="Which cascade for this deadline",
    response_model=CascadeReply,
    responses=errors(404, 409, 503),
)
async def decision(
    name: PathName,
    context: InContext,
    deadline: Annotated[
        float | None,
        Query(
            gt=0,
            allow_inf_nan=False,
            description="the maximum duration that must hold, in the artifact's unit",
            examples=[25.0],
        ),
    ] = None,
    version: Version = None,
) -> Response:
    """Give the cascade of least expected duration that always meets the deadline, ready to be run."""
    live = await plan_of(context, "cascade", name, version)
    return Response(decide(live, CascadeQuery(deadline=deadline), context.metrics), media_type="application/json")


@router.get("/{name}/deadlines", summary="The cascade for every deadline", responses=errors(404, 503))
async def deadlines(name: PathName, context: InContext, version: Version = None) -> DeadlinesReply:
    """Give the whole step function: for every range of deadlines the cascade and its expected duration."""
    live = await plan_of(context, "cascade", name, version)
    return DeadlinesReply(items=live.plan.ranges(), unit=live.record.unit, artifact=live.ref)
