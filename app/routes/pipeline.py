"""Pipelines: the front of configurations, the one that fits a caller's limits, and an item's next step."""

from typing import Annotated, Any

from fastapi import Depends, Request, Response

from app.http.json_bodies import JsonRouter
from app.routes.dependencies import (
    Context,
    InContext,
    LeftOut,
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
from app.serving.answers import LookUp, counted, decide, encode, expected_of, facts_of
from app.serving.catalog import Live
from models.limits import Budget
from models.pipeline import (
    Configuration,
    FrontierItem,
    FrontierReply,
    PipelineQuery,
    PipelineReply,
    StepReply,
    StepsBatchReply,
    StepsBatchRequest,
    StepsRequest,
)
from solvers import pipeline
from solvers.pipeline import PipelinePlan

router = JsonRouter(prefix="/v1/pipelines", tags=["pipeline"])
PipelineName = Annotated[str, path_name("tumours")]


@router.get(
    "/{name}/frontier",
    summary="Every non-dominated configuration",
    response_model=FrontierReply,
    responses=errors(404, 503, 504),
)
async def frontier(name: PipelineName, context: InContext, version: Version = None) -> Response:
    """List the configurations that no other one beats in accuracy, coverage and cost, the cheapest first.

    They were chosen on one part of the rows; the figures are what they achieve on another, and so may be dominated.
    """
    live = await plan_of(context, pipeline.kind, name, version)
    return Response(await solved(context, _frontier, live), media_type="application/json")


def _frontier(live: Live[PipelinePlan]) -> bytes:
    plan = live.plan
    reply = FrontierReply(
        items=tuple(_item(live, one) for one in plan.frontier()),
        confidence_threshold=plan.confidence_threshold,
        exact=plan.exact,
        rows=plan.held_out,
        unit=plan.unit,
        artifact=live.ref,
    )
    return encode(reply, live)


def _item(live: Live[PipelinePlan], one: Configuration) -> FrontierItem:
    facts: dict[str, Any] = {**vars(one), "expected": expected_of(live, None, one)}
    return FrontierItem.model_construct(**facts)


@router.get(
    "/{name}/decision",
    summary="The configuration that fits these limits",
    response_model=PipelineReply,
    responses=errors(404, 409, 503),
)
async def decision(
    name: PipelineName,
    context: InContext,
    budget: Annotated[Budget | None, budget_field(PipelineQuery)] = None,
    min_accuracy: Annotated[float | None, query_field(PipelineQuery, "min_accuracy")] = None,
    min_coverage: Annotated[float | None, query_field(PipelineQuery, "min_coverage")] = None,
    without: LeftOut = None,
    version: Version = None,
) -> Response:
    """Give the most accurate configuration within the cost, or the cheapest that meets the minima.

    Without limits it is the one with the most right answers. The reply says how ties were broken.
    """
    live = await plan_of(context, pipeline.kind, name, version)
    query = PipelineQuery(
        budget=budget,
        min_accuracy=min_accuracy,
        min_coverage=min_coverage,
        without=tuple(without or ()),
    )
    return Response(decide(live, query, context.metrics, context.caller.open_circuits()), media_type="application/json")


@router.post(
    "/{name}/steps",
    summary="What to do next with an item",
    response_model=StepReply,
    responses=errors(404, 413, 415, 503, 504),
)
async def steps(name: PipelineName, request: StepsRequest, context: InContext, version: Version = None) -> Response:
    """Say, from what is known of an item so far: acquire these features, take this class, or reject the item.

    A pipeline that was built with `at_the_end=answer` rejects nothing.

    Nothing is remembered between calls: send all that is known, each time.
    """
    live = await plan_of(context, pipeline.kind, name, version)
    with counted(live, context.metrics):
        reply = _step_at_once(live, request)
        if reply is None:
            reply = await solved(context, _step, live, request, context.settings.allowed_modules(), context.sandbox)
    return Response(reply, media_type="application/json")


def _step_at_once(live: Live[PipelinePlan], request: StepsRequest) -> bytes | None:
    """Answer where models are numbers."""
    return _step(live, request) if live.plan.answers_at_once else None


def _step(live: Live[PipelinePlan], request: StepsRequest, *sandboxed: Any) -> bytes:
    solution = live.plan.solution(request.solution)
    step = live.plan.step(solution, request.features, *sandboxed)
    return encode(step, live, solution=solution, **_facts_of(live, solution))


def _facts_of(live: Live[PipelinePlan], solution: int) -> dict[str, Any]:
    return facts_of(live, None, live.plan.configuration(solution))


@router.post(
    "/{name}/steps/batch",
    summary="What to do next with each of many items",
    response_model=StepsBatchReply,
    dependencies=[Depends(json_only)],
    responses=errors(404, 413, 415, 503, 504),
    openapi_extra=body_of(StepsBatchRequest),
)
async def steps_batch(name: PipelineName, request: Request, context: InContext, version: Version = None) -> Response:
    """Say for each item what to do next with it, as ``steps`` does for one."""
    body = await request.body()
    live = await plan_of(context, pipeline.kind, name, version)
    with counted(live, context.metrics):
        return Response(await solved(context, _batch, context, live, body), media_type="application/json")


def _batch(context: Context, live: Live[PipelinePlan], body: bytes) -> bytes:
    """Read items, tell their steps, and write the reply; off the event loop, for all of it takes its time."""
    request = read_batch(context, StepsBatchRequest, body)
    solution = live.plan.solution(request.solution)
    steps = live.plan.steps(solution, request.items, context.settings.allowed_modules(), context.sandbox)
    reply = StepsBatchReply(steps=steps, solution=solution, artifact=live.ref, **_facts_of(live, solution))
    return encode(reply, live)


def what_if(limits: Limits) -> PipelineQuery | str:
    """Ask for what the budget allows."""
    return PipelineQuery(budget=limits.get("budget"), min_accuracy=limits.get("min_accuracy"))


subject = Subject(
    router,
    limits=frozenset({"budget", "min_accuracy"}),
    what_if=what_if,
    look_ups=(
        LookUp(pipeline.kind, "/v1/pipelines/", "/decision", PipelineQuery),
        LookUp(pipeline.kind, "/v1/pipelines/", "/steps", StepsRequest, "POST", _step_at_once),
    ),
    bodies=(StepsBatchRequest,),
)
