"""Routes of portfolios: assign batches, route single queries, and show the curve."""

from functools import partial
from time import monotonic
from typing import Annotated, Any, cast

from fastapi import Request, Response
from starlette.datastructures import UploadFile

from app.http.assignment_requests import (
    FORM,
    QUERIES,
    REQUEST_BODY,
    TEXTS,
    Queries,
    binary_schema,
    read_json,
    read_parts,
)
from app.http.json_bodies import JsonRouter, negotiate_media_type, require_media_type
from app.routes.assignment_budget import ReservedAssignment, reserve_assignment_budget
from app.routes.dependencies import (
    AppContext,
    InContext,
    Version,
    budget_field,
    check_batch_size,
    error_responses,
    get_deciding_artifact,
    get_loaded_artifact,
    path_name,
    query_field,
    run_in_solver,
)
from app.routes.forms import check_same_site, read_form
from app.routes.kind_routes import KindRoutes
from app.routes.runs import cancel_on_disconnect, get_run_dependencies
from app.running.embedding import FailedEmbedding, embed_texts, require_embedder, require_vectors
from app.running.runs import make_call_pricing
from app.serving.catalog import LoadedArtifact
from app.serving.decision_replies import (
    FastDecisionRoute,
    ImmediateReply,
    count_refusals,
    decision_facts,
    encode_decision_reply,
    list_unavailable_names,
    measure_decision,
    with_default_limits,
)
from app.serving.pacing import PacedQuery, decide_paced
from app.store.disk_space import require_disk_space
from app.store.query_tables import WRITERS, read_query_table
from app.store.table_types import JSON, NPY, PARQUET_TYPES
from models.arrays import Floats
from models.errors import Infeasible, InvalidRequest
from models.limits import Budget
from models.portfolio import (
    AssignmentFigures,
    AssignmentOptions,
    AssignmentReply,
    Embedding,
    Objective,
    RouteDecision,
    RouteReply,
    RouteRequest,
)
from models.portfolio_constraints import ConstrainedReply, ConstrainedRequest
from models.portfolio_streams import LedgerState
from solvers import portfolio
from solvers.portfolio import PortfolioPlan
from solvers.portfolio.assigner import MIN_HIGHS_S, PortfolioAssigner
from solvers.portfolio.assignment_limits import compute_total_budget

router = JsonRouter()
PortfolioName = Annotated[str, path_name("digits")]
SHARE, TRYING = 0.8, 0.2
"""The programme may take this share of the server's limit, less what came before it, and at least ``MIN_HIGHS_S``.
TRYING: the share in which it is found out, before texts are embedded, whether their limits can be kept at all."""
WITH_NPY = f"with a body of {NPY}, Parquet or a form only: "
MAX_PARTS, MAX_PART_BYTES = 64, 2**22
"""Of a form: how many, and of how many bytes those that are no files."""


@router.post(
    "/{name}/assignments",
    summary="Assign a batch of queries to classifiers",
    response_model=ConstrainedReply | AssignmentReply,
    responses={
        200: {
            "content": {
                kind: {"schema": binary_schema("the assignments, where Accept asks for it")} for kind in WRITERS
            }
        },
        **error_responses(402, 404, 409, 413, 415, 429, 502, 503, 504),
    },
    openapi_extra={"requestBody": REQUEST_BODY},
)
async def assign_batch(
    name: PortfolioName,
    request: Request,
    context: InContext,
    budget: Annotated[Budget | None, budget_field(AssignmentOptions, WITH_NPY)] = None,
    budget_total: Annotated[float | None, query_field(AssignmentOptions, "budget_total", WITH_NPY)] = None,
    min_accuracy: Annotated[float | None, query_field(AssignmentOptions, "min_accuracy", WITH_NPY)] = None,
    objective: Annotated[Objective | None, query_field(AssignmentOptions, "objective", WITH_NPY)] = None,
    regularization: Annotated[float | None, query_field(AssignmentOptions, "regularization", WITH_NPY)] = None,
    gap: Annotated[float | None, query_field(AssignmentOptions, "gap", WITH_NPY)] = None,
    time_limit_s: Annotated[float | None, query_field(AssignmentOptions, "time_limit_s", WITH_NPY)] = None,
    version: Version = None,
) -> Response:
    """Assign each query to a classifier: the highest total estimate within the budget.

    JSON requests can have further limits: capacities and commitments of ``classifiers``, further budgets
    (``resources``), minimum accuracies, and all of these for ``groups`` of queries. With a minimum ``accuracy``, the
    goal can be the lowest cost instead. The reply then has each limit's use and shadow price. Conflicting limits are
    rejected. The error has a minimal conflicting set (``conflict``), and the change of each limit that would resolve
    the conflict. ``gap`` is a proven bound on the distance to the optimum.

    Queries are embeddings, or ``texts`` that the artifact's ``embedder`` embeds, many per request. The reply is 502 if
    a text has no embedding, and 504 if the time limit is reached first.

    The body has one of three forms: JSON; NumPy's format or Parquet, with options as query parameters; or a form with
    a file and further limits.

    With `Accept: text/csv` or `application/vnd.apache.parquet`, the reply is a table of the assignments. Parquet has
    the other fields in its metadata, `parsimony`.
    """
    parameters = {
        "budget": budget,
        "budget_total": budget_total,
        "min_accuracy": min_accuracy,
        "objective": objective,
        "regularization": regularization,
        "gap": gap,
        "time_limit_s": time_limit_s,
    }
    kind = require_media_type(request, JSON, NPY, *PARQUET_TYPES, FORM)
    if kind == FORM:
        check_same_site(request, context.settings)
    parts = await _parts_of(request) if kind == FORM else {QUERIES: await request.body()}
    loaded = await get_loaded_artifact(context, portfolio.kind, name, version)
    wanted = negotiate_media_type(request, *WRITERS)
    queries, options, read_s = await run_in_solver(context, _read, context, kind, parts, parameters)
    more: dict[str, Any] = {"open_circuits": list_unavailable_names(loaded, context.caller.open_circuits())}
    vectors: Any = queries
    costs = _total_costs(loaded.plan, options, len(queries))
    async with reserve_assignment_budget(context, loaded.ref, loaded.record.unit, options, **costs) as held:
        if isinstance(queries, tuple):
            require_embedder(loaded, TEXTS)
            await run_in_solver(context, _refuse_infeasible, context, loaded, len(queries), held.options)
            vectors, more["embedding"] = await _embedded(request, context, loaded, queries, "texts")
            held.cost = more["embedding"].cost
        assigning = (context, loaded, vectors, held, read_s, wanted, more)
        reply, assignment = await run_in_solver(context, _assign, *assigning)
        held.cost = assignment.cost
        context.spending.record_assignment(loaded, context.payer, assignment.usage, assignment.cost)
    return Response(reply, headers=held.headers, media_type=wanted)


def _total_costs(plan: PortfolioPlan, options: AssignmentOptions, count: int) -> dict[str, Any]:
    """Return the number of queries, and the maximum and minimum total cost to assign them."""
    highest = plan.highest_cost * count
    most = min(compute_total_budget(options, count, plan.highest_cost), highest)
    return {"count": count, "most": most, "least": min(plan.min_cost * count, most)}


async def _parts_of(request: Request) -> dict[str, bytes]:
    """Read the parts of a form."""
    with require_disk_space():
        form = await read_form(request, MAX_PARTS, MAX_PART_BYTES)
        try:
            return {
                name: await part.read() if isinstance(part, UploadFile) else part.encode()
                for name, part in form.items()
            }
        finally:
            await form.close()


def _read(
    context: AppContext, kind: str, parts: dict[str, bytes], parameters: dict[str, Any]
) -> tuple[Queries, AssignmentOptions, float]:
    """Parse a batch; return it and the seconds taken; runs off the event loop."""
    started = monotonic()
    read_table = partial(read_query_table, max_bytes=context.settings.max_body_bytes, run_in=context.table_sandbox)
    queries, options = (
        read_json(parts[QUERIES], parameters) if kind == JSON else read_parts(parts, parameters, read_table)
    )
    check_batch_size(context, len(queries), "queries")
    return queries, options, monotonic() - started


def _refuse_infeasible(
    context: AppContext, loaded: LoadedArtifact[PortfolioPlan], count: int, options: AssignmentOptions
) -> None:
    """Raise the errors of a batch of texts before the texts are embedded."""
    with count_refusals(loaded, context.metrics):
        loaded.plan.check_feasibility(count, options, TRYING * context.settings.solve_timeout_s)


def _assign(
    context: AppContext,
    loaded: LoadedArtifact[PortfolioPlan],
    vectors: Any,
    held: ReservedAssignment,
    read_s: float,
    wanted: str,
    more: dict[str, Any],
) -> tuple[bytes, AssignmentFigures]:
    """Assign a batch of embeddings off the event loop; return reply and assignment.

    Args:
        more: additional fields of the reply.
    """
    started = monotonic()
    with measure_decision(loaded, context.metrics):
        estimates = PortfolioAssigner().estimate(loaded.plan, vectors)
        options = _raise_to_least(loaded.plan, held, len(vectors), estimates[1])
        left = max(SHARE * context.settings.solve_timeout_s - read_s - (monotonic() - started), MIN_HIGHS_S)
        assignment = PortfolioAssigner().assign(loaded.plan, estimates, options, left, more["open_circuits"])
        context.metrics.gap.observe(assignment.gap)
        if assignment.budget is not None:
            context.metrics.spent.observe(assignment.cost / assignment.budget if assignment.budget else 0.0)
        reply = encode_decision_reply(assignment, loaded, **decision_facts(loaded, options, assignment), **more)
        return WRITERS[wanted](reply) if wanted in WRITERS else reply, assignment


def _raise_to_least(
    plan: PortfolioPlan, held: ReservedAssignment, count: int, costs: Floats | None
) -> AssignmentOptions:
    """Return the options with a budget of at least the cost of the cheapest classifiers.

    This applies if the payer's budgets limit the assignment. Costs predicted from embeddings are known only at this
    point.
    """
    if not held.is_limited or held.options.budget_total is None:
        return held.options
    least = plan.find_least_cost(held.options, count, costs)
    return held.options.model_copy(update={"budget_total": max(held.options.budget_total, least)})


async def _embedded(
    http: Request, context: AppContext, loaded: LoadedArtifact[PortfolioPlan], texts: tuple[str, ...], where: str
) -> tuple[list[tuple[float, ...]], Embedding]:
    """Embed the texts of a request, and return the cost and time.

    Raises InvalidRequest if the artifact has no embedder. If a text gets no embedding, raises EndpointFailed or
    RunTimeout with the text's position.
    """
    name, started = require_embedder(loaded, where), monotonic()
    dependencies = get_run_dependencies(context)
    made = await cancel_on_disconnect(
        http, embed_texts(loaded, texts, dependencies.caller, started + context.settings.solve_timeout_s)
    )
    vectors = require_vectors(made)
    cost = sum(
        make_call_pricing(loaded).cost_of(call)
        for one in made
        if not isinstance(one, FailedEmbedding)
        for call in one[1]
    )
    return vectors, Embedding(endpoint=name, cost=cost, seconds=monotonic() - started)


@router.post(
    "/{name}/decision",
    summary="Choose a classifier for a query",
    response_model=RouteReply,
    responses=error_responses(404, 409, 413, 415, 502, 503, 504),
)
async def decide_route(
    name: PortfolioName, request: RouteRequest, http: Request, context: InContext, version: Version = None
) -> Response:
    """Return the classifier with the highest estimate minus shadow price times cost.

    The build has fitted the shadow price of the budget. With ``budget_pacing``, it depends on the cost of the stream so
    far, so that the stream keeps its total. The stream never exceeds further resources, a tenant's total, or rate
    limits of classifiers, with any number of servers.

    The artifact's ``embedder`` embeds a ``text``; no other endpoint is called. The reply is 502 if the embedder returns
    no embedding, and 504 if the time limit is reached first.
    """
    loaded = await get_deciding_artifact(context, portfolio.kind, name, version, request.item)
    failing = list_unavailable_names(loaded, context.caller.open_circuits())
    request = with_default_limits(loaded, request, failing)
    more: dict[str, Any] = {}
    if request.text is not None:
        with count_refusals(loaded, context.metrics):
            loaded.kind.check_feasibility(loaded.plan, request)
        (vector,), more["embedding"] = await _embedded(http, context, loaded, (request.text,), "text")
        request = request.model_copy(update={"query": vector})
    request = _without(loaded.plan, request, failing)
    with measure_decision(loaded, context.metrics):
        decision, state = await _routed(loaded, request, context)
    if request.budget_pacing is None:
        context.rollouts.compare_versions(loaded, request)
    facts = decision_facts(loaded, request, decision)
    message = encode_decision_reply(decision, loaded, budget_pacing=state, **facts, open_circuits=failing, **more)
    return Response(message, media_type="application/json")


def _without(plan: PortfolioPlan, request: RouteRequest, failing: tuple[str, ...]) -> RouteRequest:
    """Return the query without unavailable classifiers, if others are within the budget."""
    if not failing:
        return request
    fewer = request.model_copy(update={"excluded": (*request.excluded, *failing)})
    try:
        plan.allowed_mask(fewer)
    except (Infeasible, InvalidRequest):  # a fault of the query itself is reported for it alone
        return request
    return fewer


def _route_at_once(loaded: LoadedArtifact[PortfolioPlan], request: RouteRequest) -> bytes | None:
    """Route a query without ledger, embedder, and slow neighbor search; else return None."""
    if request.budget_pacing is not None or request.text is not None or not loaded.plan.is_fast:
        return None
    request = with_default_limits(loaded, request)
    decision = loaded.plan.decide(request)
    return encode_decision_reply(
        decision, loaded, budget_pacing=None, **decision_facts(loaded, request, decision), open_circuits=()
    )


MAX_ROUTE_BYTES = 4 * 2**20
"""The most of a query to route: its embedding may have 100,000 coordinates."""


async def _routed(
    loaded: LoadedArtifact[PortfolioPlan], request: RouteRequest, context: AppContext
) -> tuple[RouteDecision, LedgerState | None]:
    plan = loaded.plan
    budget, among = plan.resolve_query_budget(request), plan.allowed_mask(request)
    if plan.is_fast:
        estimates = plan.estimate_one(request.query)
    else:
        estimates = await run_in_solver(context, plan.estimate_one, request.query)
    if request.budget_pacing is None:
        lot, costs = plan.draw_tie_break(request), plan.query_costs(request)
        return plan.route(estimates, budget, tie_break=lot, costs=costs, allowed=among), None
    single = PacedQuery(request, estimates, budget, among)
    return await decide_paced(loaded, single, request.budget_pacing, context.ledgers, is_up=context.catalog.store_up)


routes = KindRoutes(
    router,
    fast_routes=(
        FastDecisionRoute(
            portfolio.kind.name,
            "/v1/portfolios/",
            "/decision",
            RouteRequest,
            "POST",
            cast(ImmediateReply, _route_at_once),
            MAX_ROUTE_BYTES,
        ),
    ),
    bodies=(ConstrainedRequest,),
)
