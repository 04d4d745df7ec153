"""Portfolios: assign a batch of queries to classifiers, route a single one, show accuracy against budget."""

from time import monotonic
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from app.http.json_bodies import NPY, read_json, read_npy
from app.routes.dependencies import (
    Context,
    InContext,
    Version,
    each_name_once,
    errors,
    json_only,
    media_type,
    path_name,
    plan_of,
    query_field,
    refuse_many,
    solved,
)
from app.routes.subject import Limits, Subject
from app.serving.answers import LookUp, counted, encode, facts_of
from app.serving.catalog import Live
from app.serving.pacing import paced
from models.portfolio import (
    AssignmentOptions,
    AssignmentReply,
    Budget,
    CurveReply,
    LedgerState,
    Objective,
    RouteDecision,
    RouteReply,
    RouteRequest,
)
from models.portfolio_constraints import ConstrainedReply, ConstrainedRequest
from solvers.portfolio import PortfolioPlan, solver

router = APIRouter(prefix="/v1/portfolios", tags=["portfolio"])
PortfolioName = Annotated[str, path_name("digits-moved")]
SHARE, LEAST_S = 0.8, 0.1
"""The programme may take this share of the server's limit, less what came before it, and at least so many seconds."""
WITH_NPY = f"with a body of {NPY} only: "


@router.post(
    "/{name}/assignments",
    summary="Which classifier for each query of a batch",
    response_model=ConstrainedReply | AssignmentReply,
    responses=errors(404, 409, 413, 415, 503, 504),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": {"$ref": "#/components/schemas/ConstrainedRequest"}},
                NPY: {
                    "schema": {
                        "type": "string",
                        "format": "binary",
                        "description": "a .npy array, float32, one row for each query; the rest as query parameters",
                    },
                    "example": "(the bytes that numpy.save writes)",
                },
            },
        }
    },
)
async def assignments(
    name: PortfolioName,
    request: Request,
    context: InContext,
    total: Annotated[float | None, query_field(Budget, "total", WITH_NPY)] = None,
    per_query: Annotated[float | None, query_field(Budget, "per_query", WITH_NPY)] = None,
    fraction: Annotated[float | None, query_field(Budget, "fraction", WITH_NPY)] = None,
    min_accuracy: Annotated[float | None, query_field(AssignmentOptions, "min_accuracy", WITH_NPY)] = None,
    objective: Annotated[Objective | None, query_field(AssignmentOptions, "objective", WITH_NPY)] = None,
    regularization: Annotated[float | None, query_field(AssignmentOptions, "regularization", WITH_NPY)] = None,
    gap: Annotated[float | None, query_field(AssignmentOptions, "gap", WITH_NPY)] = None,
    time_limit_s: Annotated[float | None, query_field(AssignmentOptions, "time_limit_s", WITH_NPY)] = None,
    version: Version = None,
) -> Response:
    """Assign every query to one classifier so that the estimates add up to the most within the budget.

    Or within several limits at once, which go into the JSON: capacities and commitments of ``classifiers``, further
    budgets (``resources``), floors, and all of these for ``groups`` of queries; or so that the cost is least above a
    floor of ``accuracy``. The reply then has each limit's use and shadow price. Limits that cannot be kept together
    are refused with a smallest set of them (``conflict``), and by how much each would have to give.

    The gap says how far the answer is, at most, from the best there is. Queries come as JSON, or as the body itself in
    NumPy's format with everything else as query parameters.
    """
    budget = {"total": total, "per_query": per_query, "fraction": fraction}
    beside = {
        "budget": {key: value for key, value in budget.items() if value is not None} or None,
        "min_accuracy": min_accuracy,
        "objective": objective,
        "regularization": regularization,
        "gap": gap,
        "time_limit_s": time_limit_s,
    }
    kind = media_type(request, "application/json", NPY)
    body = await request.body()
    live = await plan_of(context, solver, name, version)
    reply = await solved(context, _assign, context, live, kind, body, beside)
    return Response(reply, media_type="application/json")


def _assign(context: Context, live: Live[PortfolioPlan], kind: str, body: bytes, beside: dict[str, Any]) -> bytes:
    """Read a batch, assign it, and write the reply; off the event loop, for all of it takes its time."""
    started = monotonic()
    queries, options = read_npy(body, beside) if kind == NPY else read_json(body, beside)
    refuse_many(context, len(queries), "queries")
    with counted(live, context.metrics):
        estimates = live.plan.estimate(queries)
        left = max(SHARE * context.settings.solve_timeout_s - (monotonic() - started), LEAST_S)
        assignment = live.plan.assign(estimates, options, left)
        context.metrics.gap.observe(assignment.gap)
        if assignment.budget is not None:
            context.metrics.spent.observe(assignment.cost / assignment.budget if assignment.budget else 0.0)
        return encode(assignment, live, **facts_of(live, options, assignment))


@router.post(
    "/{name}/route",
    summary="Which classifier for this query",
    response_model=RouteReply,
    dependencies=[Depends(json_only), Depends(each_name_once)],
    responses=errors(404, 409, 413, 415, 503),
)
async def route(name: PortfolioName, request: RouteRequest, context: InContext, version: Version = None) -> Response:
    """Give the classifier whose estimate, less the price of its cost, is the highest.

    The price is that of the budget, learned by the build. With ``budget_pacing`` it follows what a stream of queries
    has spent so far, so that the whole stream stays within its total.
    """
    live = await plan_of(context, solver, name, version)
    with counted(live, context.metrics):
        decision, state = await _routed(live, request, context)
    said = encode(decision, live, budget_pacing=state, **facts_of(live, request, decision))
    return Response(said, media_type="application/json")


def _route_at_once(live: Live[PortfolioPlan], request: RouteRequest) -> bytes | None:
    """Answer where neither a ledger nor a slow search for neighbours is asked for."""
    if request.budget_pacing is not None or not live.plan.answers_at_once:
        return None
    decision = live.plan.decide(request)
    return encode(decision, live, budget_pacing=None, **facts_of(live, request, decision))


MOST_ROUTE_BYTES = 4 * 2**20
"""The most of a query to route: its embedding may have 100,000 coordinates."""


async def _routed(
    live: Live[PortfolioPlan], request: RouteRequest, context: Context
) -> tuple[RouteDecision, LedgerState | None]:
    plan = live.plan
    budget = plan.budget_of(request)
    if plan.answers_at_once:
        estimates = plan.estimate_one(request.query)
    else:
        estimates = await solved(context, plan.estimate_one, request.query)
    if request.budget_pacing is None:
        costs = None if request.size is None else plan.costs_of([request.size], "size")[0]
        return plan.route(estimates, budget, lot=plan.lot_of(request), costs=costs), None
    query = (estimates, budget, plan.lot_of(request))
    return await paced(live, query, request.budget_pacing, context.ledgers, is_up=context.catalog.store_up)


@router.get(
    "/{name}/curve", summary="Accuracy against budget", response_model=CurveReply, responses=errors(404, 503, 504)
)
async def curve(name: PortfolioName, context: InContext, version: Version = None) -> Response:
    """Show what the portfolio and its baselines reach on held-out items over budgets, and the shadow prices."""
    live = await plan_of(context, solver, name, version)
    return Response(await solved(context, _curve, live), media_type="application/json")


def _curve(live: Live[PortfolioPlan]) -> bytes:
    plan = live.plan
    reply = CurveReply(
        curves=plan.curves(),
        prices=plan.shadow_prices(),
        items=plan.held_out,
        unit=plan.unit,
        artifact=live.ref,
    )
    return encode(reply, live)


def what_if(limits: Limits) -> str:
    """Say that there is nothing to ask without an embedding."""
    return "a portfolio routes by an item's embedding: POST it to /v1/portfolios/{name}/route"


subject = Subject(
    router,
    limits=frozenset(),
    what_if=what_if,
    look_ups=(LookUp(solver, "/v1/portfolios/", "/route", RouteRequest, "POST", _route_at_once, MOST_ROUTE_BYTES),),
    bodies=(ConstrainedRequest,),
)
