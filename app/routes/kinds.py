"""Routes that all kinds share: decision, evaluation, and trade-off curve."""

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter, signature
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute

from app.http.assignment_requests import binary_schema
from app.http.conditional_requests import make_decision_etag, matches_etag
from app.http.json_bodies import JsonRouter, negotiate_media_type, require_media_type
from app.http.problem_details import make_error_problem
from app.routes.dependencies import (
    AppContext,
    InContext,
    Version,
    error_responses,
    get_deciding_artifact,
    get_loaded_artifact,
    path_name,
    read_batch,
    run_in_solver,
)
from app.routes.kind_routes import KindRoutes
from app.routes.query_parameters import from_parameters, make_query_parameters, needs_body
from app.serving.catalog import LoadedArtifact
from app.serving.curve import make_curve_reply
from app.serving.decision_replies import FastDecisionRoute, decide_to_json, measure_decision
from app.serving.evaluation import evaluate_in_batches, summarize_evaluation
from app.serving.rollouts import get_item_id
from app.store.evaluation_tables import TRUTH, WRITERS, read_array, read_parquet
from app.store.table_types import JSON, NDJSON, NPY, PARQUET, PARQUET_TYPES
from models import Fault, InvalidRequest, Value
from models.curve import CurveReply
from models.errors import ParsimonyError
from models.evaluation import EvaluatedItem, EvaluationReply, HasCompleteItems
from models.savings import ExpectedOutcome
from solvers.base import ModelRunner, Plan
from solvers.evaluation import CompleteItems
from solvers.kind import AnyKind

TABLE_ONLY = "with a body of .npy or Parquet only: "
TruthColumn = Annotated[
    str,
    Query(max_length=200, description=f"{TABLE_ONLY}the column of right labels", examples=["truth"]),
]


def make_kind_routes(kind: AnyKind) -> KindRoutes:
    """Return the routes of a kind, including those of ``app/routes/<kind>.py``."""
    router = JsonRouter(prefix=f"/v1/{kind.plural}", tags=[kind.name])
    own = _own_routes(kind.name)
    fast_routes: list[FastDecisionRoute] = []
    if not any(look_up.suffix == "/decision" for look_up in own.fast_routes):
        fast_routes.append(FastDecisionRoute(kind.name, f"/v1/{kind.plural}/", "/decision", kind.query, "POST"))
        _add_decision(router, kind)
        if not needs_body(kind.query):
            fast_routes.append(FastDecisionRoute(kind.name, f"/v1/{kind.plural}/", "/decision", kind.query))
            _add_decision_by_get(router, kind)
    _add_evaluation(router, kind)
    _add_curve(router, kind)
    router.include_router(own.router, prefix="")
    further = (route.path.rpartition("/")[2] for route in own.router.routes if isinstance(route, APIRoute))
    return KindRoutes(
        router,
        (*fast_routes, *own.fast_routes),
        (kind.evaluation, *own.bodies),
        kind.plural,
        tuple(sorted({"curve", "decision", "evaluate", "runs", *further})),
    )


def _own_routes(name: str) -> KindRoutes:
    """Return ``routes`` of ``app/routes/<kind>.py``; empty without such a module."""
    module = f"app.routes.{name}"
    if find_spec(module) is None:
        return KindRoutes(APIRouter())
    routes: KindRoutes = import_module(module).routes
    return routes


def make_model_runner(context: AppContext) -> ModelRunner:
    """Return the runner of fitted models, which uses a separate process."""
    return ModelRunner(context.settings.allowed_modules(), context.sandbox)


def _add_decision(router: APIRouter, kind: AnyKind) -> None:
    async def decision(name: Any, request: Any, context: Any, version: Any) -> Response:
        """Decide the next step for an item, given limits and the item's known values.

        The server keeps no state between calls, so send all known values each time. The reply is 409 if no decision
        keeps the limits.
        """
        return await _decided(kind, name, request, context, version)

    _declare(kind, decision, [_fixed("request", kind.query), _fixed("version", Version, None)])
    router.post(
        "/{name}/decision",
        summary="Decide on an item",
        operation_id=f"decide_{kind.name}",
        response_model=kind.reply,
        responses=error_responses(404, 409, 413, 415, 503, 504),
    )(decision)


def _add_decision_by_get(router: APIRouter, kind: AnyKind) -> None:
    async def decision(name: Any, context: Any, version: Any, request: Any, **given: Any) -> Response:
        """Decide what to do now with an item, by limits and by what is known of it. 409 if nothing keeps the limits.

        What a query string cannot hold, such as acquired values, is sent by POST. 304 if `If-None-Match` has the
        reply's `ETag`.
        """
        reply = await _decided(kind, name, from_parameters(kind.query, given), context, version)
        etag = make_decision_etag(bytes(reply.body))
        headers = {"ETag": etag.decode()}
        if matches_etag(etag, request.scope["headers"]):
            return Response(status_code=304, headers=headers)
        reply.headers.update(headers)
        return reply

    fixed = [_fixed("version", Version, None), _fixed("request", Request)]
    _declare(kind, decision, [*make_query_parameters(kind.query), *fixed])
    router.get(
        "/{name}/decision",
        summary="Decide on an item, by query parameters",
        operation_id=f"decide_{kind.name}_by_get",
        response_model=kind.reply,
        responses={
            304: {"description": "the decision is that of `If-None-Match`"},
            **error_responses(404, 409, 503, 504),
        },
    )(decision)


async def _decided(kind: AnyKind, name: str, query: Value, context: AppContext, version: int | None) -> Response:
    loaded = await get_deciding_artifact(context, kind, name, version, get_item_id(query))
    failing = context.caller.open_circuits()
    with measure_decision(loaded, context.metrics):
        if kind.is_fast_decision(loaded.plan, query):
            body = decide_to_json(loaded, query, failing)
        else:
            body = await run_in_solver(context, decide_to_json, loaded, query, failing, make_model_runner(context))
    context.rollouts.compare_versions(loaded, query, make_model_runner(context))
    return Response(body, media_type=JSON)


def _add_evaluation(router: APIRouter, kind: AnyKind) -> None:
    async def evaluate(
        name: Any, request: Request, context: Any, version: Any, truth_column: str, **given: Any
    ) -> Response:
        """Evaluate complete items: label, probabilities, cost, path, and acceptance of each item.

        Send items as JSON, or as a table (Parquet, or a .npy array of numbers) with the limits as query parameters. The
        reply is JSON with a summary. With `Accept: application/x-ndjson`, one line per item is streamed. With
        `application/vnd.apache.parquet` or `application/x-npy`, the reply is a table. If items have a truth, the reply
        has the accuracy with its interval. On rows that the artifact has not been trained on, compare it with the
        curve.
        """
        sent = require_media_type(request, JSON, NPY, *PARQUET_TYPES)
        body = await request.body()
        loaded = await get_loaded_artifact(context, kind, name, version)
        with measure_decision(loaded, context.metrics):
            limits, items = await run_in_solver(context, _read, context, loaded, sent, body, given, truth_column)
            pieces = evaluate_in_batches(loaded, limits, items, make_model_runner(context))
            first = await run_in_solver(context, next, pieces)
            accepted = negotiate_media_type(request, NDJSON, *WRITERS)
            if accepted == NDJSON:
                return StreamingResponse(_lines(request, first, pieces), media_type=NDJSON)
            found = first
            while piece := await run_in_solver(context, next, pieces, None):
                found += piece
        written = await run_in_solver(context, _written, loaded, found, items.ignored, accepted)
        return Response(written, media_type=accepted)

    limits = make_query_parameters(kind.limits, TABLE_ONLY)
    truth = Parameter("truth_column", Parameter.KEYWORD_ONLY, default=TRUTH, annotation=TruthColumn)
    _declare(kind, evaluate, [_fixed("request", Request), *limits, truth, _fixed("version", Version, None)])
    router.post(
        "/{name}/evaluate",
        summary="Evaluate complete items",
        operation_id=f"evaluate_{kind.name}",
        response_model=EvaluationReply,
        responses={
            200: {
                "content": {each: {"schema": binary_schema("where Accept asks for it")} for each in (NDJSON, *WRITERS)}
            },
            **error_responses(404, 409, 413, 415, 503, 504),
        },
        openapi_extra={"requestBody": _body_of(kind)},
    )(evaluate)


def _body_of(kind: AnyKind) -> dict[str, Any]:
    """Return the OpenAPI description of the supported formats of items."""
    return {
        "required": True,
        "content": {
            JSON: {"schema": {"$ref": f"#/components/schemas/{kind.evaluation.__name__}"}},
            NPY: {
                "schema": binary_schema(
                    "a row per item: embeddings, or all columns of numbers, in the artifact's order"
                ),
                "example": "(the bytes that numpy.save writes)",
            },
            PARQUET: {
                "schema": binary_schema(
                    "a row per item: columns of features, or `knn.label`, `knn.confidence`, `knn.cost`, `knn.correct`, "
                    "and `knn.loss` of a classifier knn; `id`, `embedding`, `size`, and the truth"
                ),
                "example": "(the bytes of a Parquet file)",
            },
        },
    }


def _read(
    context: AppContext, loaded: LoadedArtifact[Plan], sent: str, body: bytes, given: dict[str, Any], truth: str
) -> tuple[Value, CompleteItems]:
    """Read limits and items; runs off the event loop."""
    kind, columns = loaded.kind, loaded.kind.item_columns(loaded.plan)
    most = context.settings.max_batch
    if sent == JSON:
        given = {**given, "truth_column": None if truth == TRUTH else truth}
        misplaced = next((name for name, value in given.items() if value is not None), None)
        if misplaced is not None:
            raise InvalidRequest.from_faults(
                Fault((misplaced,), f"must be in the JSON body; query parameters are supported for {PARQUET} only")
            )
        request: HasCompleteItems = read_batch(context, kind.evaluation, body)
        return request, CompleteItems.from_items(request.items, columns)
    limits = from_parameters(kind.limits, given)
    if sent == NPY:
        return limits, read_array(body, columns, kind.embedding_dimensions(loaded.plan), most=most)
    largest = context.settings.max_body_bytes
    run_in = context.table_sandbox
    return limits, read_parquet(body, columns, truth, max_bytes=largest, most=most, run_in=run_in)


def _written(
    loaded: LoadedArtifact[Plan], items: list[EvaluatedItem], ignored: tuple[str, ...], accepted: str
) -> bytes:
    if accepted in WRITERS:
        return WRITERS[accepted](items)
    reply = {
        "items": items,
        "summary": summarize_evaluation(items, ignored),
        "unit": loaded.record.unit,
        "artifact": loaded.ref,
    }
    return orjson.dumps(reply, default=vars)


def _lines(request: Request, first: list[EvaluatedItem], pieces: Iterator[list[EvaluatedItem]]) -> Iterator[bytes]:
    """Yield one line per item.

    An error of a later item ends the stream with a line ``{"problem": …}``.
    """
    yield _as_lines(first)
    try:
        for piece in pieces:
            yield _as_lines(piece)
    except ParsimonyError as error:
        problem = make_error_problem(error, request.scope["state"]["request_id"])
        yield orjson.dumps({"problem": orjson.Fragment(bytes(problem.body))}, option=orjson.OPT_APPEND_NEWLINE)


def _as_lines(items: list[EvaluatedItem]) -> bytes:
    return b"".join(orjson.dumps(item, default=vars, option=orjson.OPT_APPEND_NEWLINE) for item in items)


def _add_curve(router: APIRouter, kind: AnyKind) -> None:
    async def curve(name: Any, context: Any, version: Any, **given: Any) -> Response:
        """Show accuracy against cost: the operating points with intervals, the baselines, and the default point."""
        loaded = await get_loaded_artifact(context, kind, name, version)
        reply = await run_in_solver(context, make_curve_reply, loaded, from_parameters(kind.curve_query, given))
        return Response(orjson.dumps(vars(reply), default=_without_none), media_type=JSON)

    _declare(kind, curve, [*make_query_parameters(kind.curve_query), _fixed("version", Version, None)])
    router.get(
        "/{name}/curve",
        summary="Show accuracy against cost",
        operation_id=f"curve_of_{kind.name}",
        response_model=CurveReply,
        responses=error_responses(404, 409, 503, 504),
    )(curve)


def _without_none(value: Value) -> dict[str, Any]:
    """Return the fields of a value; unknown expectations are omitted."""
    fields = vars(value)
    return (
        {name: one for name, one in fields.items() if one is not None} if isinstance(value, ExpectedOutcome) else fields
    )


def _fixed(name: str, annotation: Any, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _declare(kind: AnyKind, route: Callable[..., Any], parameters: list[Parameter]) -> None:
    """Set a route's parameters for FastAPI: the kind's, ``name``, and ``context``."""
    name = _fixed("name", Annotated[str, path_name(kind.example)])
    every = [name, _fixed("context", InContext), *parameters]
    route.__signature__ = signature(route).replace(parameters=every)  # type: ignore[attr-defined]
