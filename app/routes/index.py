"""What only indexes have: the skyline at a size, and which feature set wins at each size and budget."""

from typing import Annotated

from fastapi import Query, Response

from app.http.json_bodies import JsonRouter
from app.routes.dependencies import InContext, Version, error_responses, path_name, plan_of, query_field, run_in_solver
from app.routes.kind_routes import KindRoutes
from app.routes.query_parameters import from_parameters
from app.serving.answers import encode
from models.index import CurvesQuery, CurvesReply, IndexCurveQuery, SkylineReply
from solvers import index
from solvers.index import draw_curves

router = JsonRouter()
IndexName = Annotated[str, path_name(index.kind.example)]
Sizes = Annotated[
    list[Annotated[float, Query(gt=0, le=1e12, allow_inf_nan=False)]] | None,
    Query(
        max_length=8,
        description="the item's size, at least 1; repeated where it has several dimensions; left out where costs do "
        "not depend on it",
        examples=[[64.0]],
    ),
]


@router.get("/{name}/skyline", summary="The undominated feature sets at this size", responses=error_responses(404, 503))
async def show_skyline(
    name: IndexName, context: InContext, size: Sizes = None, version: Version = None
) -> SkylineReply:
    """List the feature sets that no other one both undercuts and reaches in accuracy, the cheapest first."""
    loaded = await plan_of(context, index.kind, name, version)
    asked = from_parameters(IndexCurveQuery, {"size": size}).size
    items = await run_in_solver(context, loaded.plan.list_skyline, asked)
    return SkylineReply(size=asked, items=items, unit=loaded.record.unit, artifact=loaded.ref)


@router.get(
    "/{name}/winners",
    summary="The index over sizes and budgets",
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
    """Draw the index: what its feature sets cost over the size, where their curves cross, and which one wins for each
    size and budget, as the method poly-dom decides.

    For sizes of one number. Where costs do not depend on the size, there is one cost for each set and one winner for
    each budget.
    """
    loaded = await plan_of(context, index.kind, name, version)
    query = CurvesQuery(low=low, high=high, points=points, budgets=budgets)
    drawing = await run_in_solver(context, draw_curves, loaded.plan, query)
    reply = CurvesReply(**dict(drawing), unit=loaded.record.unit, artifact=loaded.ref)
    return Response(encode(reply, loaded), media_type="application/json")


routes = KindRoutes(router)
