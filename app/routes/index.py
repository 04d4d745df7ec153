"""Routes of indexes: the skyline, and the best feature set by size and budget."""

from typing import Annotated

from fastapi import Query, Response

from app.http.json_bodies import JsonRouter
from app.routes.dependencies import (
    InContext,
    Version,
    error_responses,
    get_loaded_artifact,
    path_name,
    query_field,
    run_in_solver,
)
from app.routes.kind_routes import KindRoutes
from app.routes.query_parameters import from_parameters
from app.serving.decision_replies import encode_decision_reply
from models.index import CurvesQuery, CurvesReply, IndexCurveQuery, SkylineReply
from solvers import index
from solvers.index import sample_cost_curves

router = JsonRouter()
IndexName = Annotated[str, path_name(index.kind.example)]
Sizes = Annotated[
    list[Annotated[float, Query(gt=0, le=1e12, allow_inf_nan=False)]] | None,
    Query(
        max_length=8,
        description="the item's size, at least 1; repeat the parameter for several dimensions; omit it if costs "
        "do not depend on size",
        examples=[[64.0]],
    ),
]


@router.get(
    "/{name}/skyline", summary="List the Pareto-optimal feature sets at a size", responses=error_responses(404, 503)
)
async def show_skyline(
    name: IndexName, context: InContext, size: Sizes = None, version: Version = None
) -> SkylineReply:
    """List the non-dominated feature sets at a size, cheapest first."""
    loaded = await get_loaded_artifact(context, index.kind, name, version)
    asked = from_parameters(IndexCurveQuery, {"size": size}).size
    items = await run_in_solver(context, loaded.plan.list_skyline, asked)
    return SkylineReply(size=asked, items=items, unit=loaded.record.unit, artifact=loaded.ref)


@router.get(
    "/{name}/winners",
    summary="Show the best feature set for each size and budget",
    response_model=CurvesReply,
    responses=error_responses(404, 503, 504),
)
async def show_winners(
    name: IndexName,
    context: InContext,
    low: Annotated[float | None, query_field(CurvesQuery, "low")] = None,
    high: Annotated[float | None, query_field(CurvesQuery, "high")] = None,
    points: Annotated[int, query_field(CurvesQuery, "points")] = 40,
    budgets: Annotated[int, query_field(CurvesQuery, "budgets")] = 40,
    version: Version = None,
) -> Response:
    """Return the best feature set by size and budget, and the cost curves of sets.

    The best set is that of the method poly-dom. The reply also has the crossings of the curves. Sizes must be single
    numbers. If costs do not depend on size, each set has one cost, and each budget has one best set.
    """
    loaded = await get_loaded_artifact(context, index.kind, name, version)
    query = CurvesQuery(low=low, high=high, points=points, budgets=budgets)
    drawing = await run_in_solver(context, sample_cost_curves, loaded.plan, query)
    reply = CurvesReply(**dict(drawing), unit=loaded.record.unit, artifact=loaded.ref)
    return Response(encode_decision_reply(reply, loaded), media_type="application/json")


routes = KindRoutes(router)
