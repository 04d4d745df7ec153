"""Routes of cascades: solve without an artifact, deadlines, and KServe export."""

from typing import Annotated, Any

from fastapi import Query

from app.http.json_bodies import JsonRouter
from app.routes.dependencies import (
    InContext,
    PathName,
    Version,
    budget_field,
    error_responses,
    get_loaded_artifact,
    query_field,
    run_in_solver,
)
from app.routes.kind_routes import KindRoutes
from app.serving.inference_graph import inference_graph
from models.cascade import CascadeDecision, CascadeQuery, DeadlinesReply, SolveRequest
from models.limits import Budget
from solvers import cascade

router = JsonRouter()


@router.post(
    "/solve",
    summary="Order classifiers without an artifact",
    responses=error_responses(409, 413, 415, 504),
)
async def solve_cascade(request: SolveRequest, context: InContext) -> CascadeDecision:
    """Return the cascade with the least expected duration that meets the deadline.

    The classifiers are in the request; no artifact is needed.
    """
    return await run_in_solver(
        context,
        cascade.solve,
        request.classifiers,
        deadline=request.deadline,
        dependence=request.dependence,
        algorithm=request.algorithm,
    )


@router.get("/{name}/deadlines", summary="List the cascade for each deadline", responses=error_responses(404, 503))
async def list_deadlines(name: PathName, context: InContext, version: Version = None) -> DeadlinesReply:
    """Return the best cascade and its expected duration for each range of deadlines."""
    loaded = await get_loaded_artifact(context, cascade.kind, name, version)
    return DeadlinesReply(items=loaded.plan.list_deadline_ranges(), unit=loaded.record.unit, artifact=loaded.ref)


@router.get(
    "/{name}/inference-graph",
    summary="Export the cascade as a KServe InferenceGraph",
    responses=error_responses(404, 409, 503),
)
async def inference_graph_of(
    name: PathName,
    context: InContext,
    deadline: Annotated[float | None, query_field(CascadeQuery, "deadline")] = None,
    min_accuracy: Annotated[float | None, query_field(CascadeQuery, "min_accuracy")] = None,
    budget: Annotated[Budget | None, budget_field(CascadeQuery)] = None,
    confidence: Annotated[
        str,
        Query(
            pattern=r"^[A-Za-z0-9_.-]{1,100}$",
            description="the gjson path of the confidence in a step's reply",
            examples=["outputs.1.data.0"],
        ),
    ] = "confidence",
    version: Version = None,
) -> dict[str, Any]:
    """Return the cascade as a KServe InferenceGraph.

    Its steps have conditions on the previous confidence. Without limits, it is the cascade for deadlines that are long
    enough for any. Thresholds that depend on the label are rejected: build with label_thresholds: false. A service has
    its classifier's name, in lower-case letters, digits, and dashes.
    """
    loaded = await get_loaded_artifact(context, cascade.kind, name, version)
    query = CascadeQuery(deadline=deadline, min_accuracy=min_accuracy, budget=budget)
    return inference_graph(name, loaded.plan.decide(query), confidence)


routes = KindRoutes(router)
