"""Cost-sensitive prediction: which feature set and model for this size and budget, and predictions with it."""

from typing import Annotated

from fastapi import Depends, Query, Request, Response

from app.http.json_bodies import JsonRouter
from app.routes.dependencies import (
    Context,
    InContext,
    LeftOut,
    PathName,
    Version,
    body_of,
    budget_field,
    errors,
    json_only,
    plan_of,
    query_field,
    read_batch,
    solved,
)
from app.routes.subject import Limits, Subject
from app.serving.answers import LookUp, decide, encode, facts_of, with_default_limits
from app.serving.catalog import Live
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
from models.limits import Budget
from solvers import index
from solvers.index import IndexPlan, draw

router = JsonRouter(prefix="/v1/indexes", tags=["index"])
Sizes = Annotated[
    list[Annotated[float, Query(gt=0, le=1e12, allow_inf_nan=False)]] | None,
    Query(
        max_length=8,
        description="the item's size, at least 1; repeated where it has several dimensions; left out where costs do "
        "not depend on it",
        examples=[[64.0]],
    ),
]


@router.get(
    "/{name}/decision",
    summary="Which features for this size and budget",
    response_model=IndexReply,
    responses=errors(404, 409, 503),
)
async def decision(
    name: PathName,
    context: InContext,
    budget: Annotated[Budget | None, budget_field(IndexQuery)] = None,
    size: Sizes = None,
    min_accuracy: Annotated[float | None, query_field(IndexQuery, "min_accuracy")] = None,
    one_standard_error: Annotated[bool, query_field(IndexQuery, "one_standard_error")] = False,
    method: Annotated[Method, query_field(IndexQuery, "method")] = "poly-dom",
    spent: Annotated[float | None, query_field(IndexQuery, "spent")] = None,
    computed: Annotated[
        list[Label] | None,
        Query(
            max_length=64, description="a feature that was computed already; may be repeated", examples=[["glucose"]]
        ),
    ] = None,
    without: LeftOut = None,
    version: Version = None,
) -> Response:
    """Give the most accurate feature set within the budget; the empty one costs nothing and is always feasible.

    With ``min_accuracy`` give the cheapest that reaches it; 409 if none does within the budget.
    """
    live = await plan_of(context, index.kind, name, version)
    query = IndexQuery(
        size=one_or_many(size),
        budget=budget,
        min_accuracy=min_accuracy,
        one_standard_error=one_standard_error,
        method=method,
        spent=spent,
        computed=tuple(computed or ()),
        without=tuple(without or ()),
    )
    return Response(decide(live, query, context.metrics, context.caller.open_circuits()), media_type="application/json")


@router.get("/{name}/skyline", summary="The undominated feature sets at this size", responses=errors(404, 503))
async def skyline(name: PathName, context: InContext, size: Sizes = None, version: Version = None) -> SkylineReply:
    """List the feature sets that no other one both undercuts and reaches in accuracy, the cheapest first."""
    live = await plan_of(context, index.kind, name, version)
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
    live = await plan_of(context, index.kind, name, version)
    query = CurvesQuery(low=low, high=high, points=points, budgets=budgets)
    drawing = await solved(context, draw, live.plan, query)
    reply = CurvesReply(**dict(drawing), unit=live.record.unit, artifact=live.ref)
    return Response(encode(reply, live), media_type="application/json")


@router.post(
    "/{name}/predictions",
    summary="Classify items within a budget",
    response_model=PredictionReply,
    dependencies=[Depends(json_only)],
    responses=errors(404, 409, 413, 415, 503, 504),
    openapi_extra=body_of(PredictionRequest),
)
async def predictions(name: PathName, request: Request, context: InContext, version: Version = None) -> Response:
    """Choose the features for the items' size and budget, and classify the items with the model trained on them."""
    body = await request.body()
    live = await plan_of(context, index.kind, name, version)
    return Response(await solved(context, _predicted, context, live, body), media_type="application/json")


def _predicted(context: Context, live: Live[IndexPlan], body: bytes) -> bytes:
    """Read items, classify them, and write the reply; off the event loop, for all of it takes its time."""
    request = read_batch(context, PredictionRequest, body)
    query = IndexQuery.model_validate(request.model_dump(include=set(IndexQuery.model_fields)))
    query = with_default_limits(live, query)
    chosen = live.plan.decide(query)
    predictions = live.plan.predict(chosen, request.items, context.settings.allowed_modules(), context.sandbox)
    reply = PredictionReply(
        features=chosen.features,
        labels=predictions.labels,
        probabilities=predictions.probabilities,
        cost=chosen.cost,
        accuracy=chosen.accuracy,
        artifact=live.ref,
        **facts_of(live, query, chosen),
    )
    return encode(reply, live)


def one_or_many(size: list[float] | None) -> float | tuple[float, ...] | None:
    """Read a repeated parameter: one number is a number."""
    if size is None:
        return None
    if not size:
        raise InvalidRequest.at(Fault(("size",), "is missing its number"))
    return size[0] if len(size) == 1 else tuple(size)


def what_if(limits: Limits) -> IndexQuery:
    """Ask for the size and the budget."""
    return IndexQuery.model_validate(limits)


subject = Subject(
    router,
    limits=frozenset({"size", "budget", "min_accuracy"}),
    what_if=what_if,
    look_ups=(LookUp(index.kind, "/v1/indexes/", "/decision", IndexQuery),),
    bodies=(PredictionRequest,),
)
