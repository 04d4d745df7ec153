"""Cost-sensitive prediction: which feature set and model for this size and budget, and predictions with it."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from app.catalog import Live
from app.decisions import LookUp, decide, encode, told
from app.routes.context import (
    Context,
    InContext,
    PathName,
    Version,
    body_of,
    errors,
    json_only,
    plan_of,
    read_batch,
    solved,
)
from models import Fault, InvalidRequest
from models.base import Label
from models.index import (
    CurvesQuery,
    CurvesReply,
    IndexQuery,
    IndexReply,
    Method,
    PredictionReply,
    PredictionRequest,
    SkylineReply,
)
from solvers.index import draw

router = APIRouter(prefix="/v1/indexes", tags=["index"])
bodies = (PredictionRequest,)
look_ups = (LookUp("index", "/v1/indexes/", "/decision", IndexQuery),)
Sizes = Annotated[
    list[Annotated[float, Query(gt=0, le=1e12, allow_inf_nan=False)]] | None,
    Query(
        max_length=8,
        description="the item's size, at least 1; repeated where it has several dimensions; left out where costs do "
        "not depend on it",
        examples=[[64.0]],
    ),
]


def _size(description: str, example: float) -> Any:
    return Query(ge=1, le=1e12, allow_inf_nan=False, description=description, examples=[example])


LIMITS = frozenset[str]({"size", "budget"})


def what_if(limits: dict[str, float]) -> IndexQuery | str:
    """Ask for the size and the budget."""
    if "budget" not in limits:
        return "give a budget"
    return IndexQuery(budget=limits["budget"], size=limits.get("size"))


@router.get(
    "/{name}/decision",
    summary="Which features for this size and budget",
    response_model=IndexReply,
    responses=errors(404, 503),
)
async def decision(
    name: PathName,
    context: InContext,
    budget: Annotated[
        float,
        Query(
            ge=0,
            allow_inf_nan=False,
            description="the most that computing features may cost, in the artifact's unit",
            examples=[3.5],
        ),
    ],
    size: Sizes = None,
    method: Annotated[Method, Query(description="how to choose", examples=["poly-dom"])] = "poly-dom",
    spent: Annotated[
        float | None,
        Query(
            ge=0,
            allow_inf_nan=False,
            description="what was spent already, in the artifact's unit, if it differs from what was predicted",
            examples=[1.2],
        ),
    ] = None,
    computed: Annotated[
        list[Label] | None,
        Query(
            max_length=64, description="a feature that was computed already; may be repeated", examples=[["glucose"]]
        ),
    ] = None,
    version: Version = None,
) -> Response:
    """Give the most accurate feature set within the budget; the empty one costs nothing and is always feasible."""
    live = await plan_of(context, "index", name, version)
    query = IndexQuery(
        size=one_or_many(size), budget=budget, method=method, spent=spent, computed=tuple(computed or ())
    )
    return Response(decide(live, query, context.metrics), media_type="application/json")


@router.get("/{name}/skyline", summary="The undominated feature sets at this size", responses=errors(404, 503))
async def skyline(name: PathName, context: InContext, size: Sizes = None, version: Version = None) -> SkylineReply:
    """List the feature sets that no other one both undercuts and reaches in accuracy, the cheapest first."""
    live = await plan_of(context, "index", name, version)
    asked = one_or_many(size)
    items = await solved(context, live.plan.skyline, asked)
    return SkylineReply(size=asked, items=items, unit=live.record.unit, artifact=live.ref)


@router.get(
    "/{name}/curves",
    summary="The index over sizes and budgets",
    response_model=CurvesReply,
    responses=errors(404, 503, 504),
)
async def curves(
    name: PathName,
    context: InContext,
    low: Annotated[float | None, _size("the least size; else an eighth of the median size built with", 16.0)] = None,
    high: Annotated[
        float | None, _size("the largest size; else eight times the median size built with", 1024.0)
    ] = None,
    points: Annotated[int, Query(ge=2, le=200, description="the number of sizes", examples=[40])] = 40,
    budgets: Annotated[int, Query(ge=2, le=200, description="the number of budgets", examples=[40])] = 40,
    version: Version = None,
) -> Response:
    """Draw the index: what its feature sets cost over the size, where their curves cross, and which one wins for each
    size and budget, as the method poly-dom decides.

    For sizes of one number. Where costs do not depend on the size, there is one cost for each set and one winner for
    each budget.
    """
    live = await plan_of(context, "index", name, version)
    query = CurvesQuery(low=low, high=high, points=points, budgets=budgets)
    found = await solved(context, draw, live.plan, query)
    reply = CurvesReply(**dict(found), unit=live.record.unit, artifact=live.ref)
    return Response(encode(reply, live), media_type="application/json")


@router.post(
    "/{name}/predictions",
    summary="Classify items within a budget",
    response_model=PredictionReply,
    dependencies=[Depends(json_only)],
    responses=errors(404, 413, 415, 503, 504),
    openapi_extra=body_of(PredictionRequest),
)
async def predictions(name: PathName, request: Request, context: InContext, version: Version = None) -> Response:
    """Choose the features for the items' size and budget, and classify the items with the model trained on them."""
    body = await request.body()
    live = await plan_of(context, "index", name, version)
    return Response(await solved(context, _predicted, context, live, body), media_type="application/json")


def _predicted(context: Context, live: Live, body: bytes) -> bytes:
    """Read items, classify them, and write the reply; off the event loop, for all of it takes its time."""
    request = read_batch(context, PredictionRequest, body)
    query = IndexQuery.model_validate(request.model_dump(include=set(IndexQuery.model_fields)))
    chosen = live.plan.decide(query)
    found = live.plan.predict(chosen, request.items, context.settings.allowed_modules(), context.apart)
    reply = PredictionReply(
        features=chosen.features,
        labels=found.labels,
        probabilities=found.probabilities,
        cost=chosen.cost,
        accuracy=chosen.accuracy,
        artifact=live.ref,
        decision=told(live, query, chosen),
    )
    return encode(reply, live)


def one_or_many(size: list[float] | None) -> float | tuple[float, ...] | None:
    """Read a repeated parameter: one number is a number."""
    if size is None:
        return None
    if not size:
        raise InvalidRequest.at(Fault(("size",), "is missing its number"))
    return size[0] if len(size) == 1 else tuple(size)
