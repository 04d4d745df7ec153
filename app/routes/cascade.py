"""IDK classifier cascades: solve at once, decide from an artifact, show the whole step function."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from app.routes.dependencies import InContext, PathName, Version, errors, json_only, plan_of, query_field, solved
from app.routes.subject import Limits, Subject
from app.serving.answers import LookUp, decide
from models.cascade import CascadeDecision, CascadeQuery, CascadeReply, DeadlinesReply, SolveRequest
from solvers import cascade

router = APIRouter(prefix="/v1/cascades", tags=["cascade"])


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
    deadline: Annotated[float | None, query_field(CascadeQuery, "deadline")] = None,
    min_accuracy: Annotated[float | None, query_field(CascadeQuery, "min_accuracy")] = None,
    version: Version = None,
) -> Response:
    """Give the cascade of least expected duration that always meets the deadline, ready to be run; with
    ``min_accuracy`` among those that reach it, 409 if none does."""
    live = await plan_of(context, cascade.solver, name, version)
    query = CascadeQuery(deadline=deadline, min_accuracy=min_accuracy)
    return Response(decide(live, query, context.metrics), media_type="application/json")


@router.get("/{name}/deadlines", summary="The cascade for every deadline", responses=errors(404, 503))
async def deadlines(name: PathName, context: InContext, version: Version = None) -> DeadlinesReply:
    """Give the whole step function: for every range of deadlines the cascade and its expected duration."""
    live = await plan_of(context, cascade.solver, name, version)
    return DeadlinesReply(items=live.plan.ranges(), unit=live.record.unit, artifact=live.ref)


def what_if(limits: Limits) -> CascadeQuery | str:
    """Ask for deadline and accuracy, if they are given."""
    return CascadeQuery(deadline=limits.get("deadline"), min_accuracy=limits.get("min_accuracy"))


subject = Subject(
    router,
    limits=frozenset({"deadline", "min_accuracy"}),
    what_if=what_if,
    look_ups=(LookUp(cascade.solver, "/v1/cascades/", "/decision", CascadeQuery),),
)
