"""Endpoint routes: register, list, probe, and delete endpoints."""

import asyncio
from typing import Annotated, Any

from fastapi import Body, Depends, Path, Request, Response
from pydantic import Field, TypeAdapter, ValidationError

from app.http.json_bodies import JsonRouter
from app.routes.dependencies import AppContext, InContext, error_responses, require_store
from app.routes.paging import DEFAULT_LIMIT, Cursor, Limit, PageFields
from app.routes.runs import cancel_on_disconnect, get_run_dependencies
from app.routes.team_names import require_own_names
from app.running.executor import to_probe_reply
from app.running.price_check import list_cost_warnings, list_price_warnings
from models import Fault, InvalidRequest
from models.endpoint import Endpoint, EndpointName, ProbeReply, ProbeRequest, ShownEndpoint
from models.errors import UnknownEndpoint
from models.word_embedding import WORDS
from solvers.confidence_profile import is_outside

router = JsonRouter(prefix="/v1/endpoints", tags=["endpoint"])
PathEndpoint = Annotated[str, Path(description="the classifier's name in traces and artifacts", examples=["mlp"])]
_NAME: TypeAdapter[str] = TypeAdapter(EndpointName)
_REPLACED: dict[int | str, dict[str, Any]] = {
    200: {"model": ShownEndpoint, "description": "an existing endpoint was replaced"}
}
_EXAMPLES: dict[str, Any] = {
    "json": {
        "value": {
            "protocol": "json",
            "url": "https://models.example/mlp",
            "body": {"pixels": "{{item}}"},
            "label": "/label",
            "confidence": "/confidence",
        }
    },
    "openai-chat": {
        "value": {
            "protocol": "openai-chat",
            "preset": "openai",
            "url": "https://api.openai.com/v1",
            "model": "gpt-4o-mini",
            "secret": "PARSIMONY_SECRET_OPENAI",
            "prices": {"input_per_million": 0.15, "output_per_million": 0.6},
            "answer": {"kind": "choice", "labels": ["spam", "no spam"]},
        }
    },
    "open-inference": {
        "value": {
            "protocol": "open-inference",
            "url": "https://models.example",
            "model": "digits",
            "probabilities_output": "probabilities",
            "labels": ["no", "yes"],
        }
    },
    "openai-embeddings": {
        "value": {
            "protocol": "openai-embeddings",
            "url": "https://api.openai.com/v1",
            "model": "text-embedding-3-small",
            "secret": "PARSIMONY_SECRET_OPENAI",
        }
    },
}


class EndpointList(PageFields):
    """A page of endpoints."""

    items: list[ShownEndpoint] = Field(description="the endpoints by name")


@router.put(
    "/{name}",
    summary="Register an endpoint",
    status_code=201,
    dependencies=[Depends(require_store)],
    responses=error_responses(413, 415, 503) | _REPLACED,
)
async def put_endpoint(
    name: PathEndpoint,
    endpoint: Annotated[Endpoint, Body(openapi_examples=_EXAMPLES)],
    context: InContext,
    response: Response,
) -> ShownEndpoint:
    """Register an endpoint under the classifier's name.

    Keys stay in the environment: ``secret`` is the name of the variable. PARSIMONY_ENDPOINT_HOSTS lists the allowed
    hosts; loopback and private addresses are allowed only if they are listed.
    """
    if name == WORDS:
        raise InvalidRequest.from_faults(Fault(("name",), f"must not be {WORDS!r}, the name of the built-in embedder"))
    _refuse_wrong_name(name)
    require_own_names(context, name)
    context.caller.require_callable_endpoint(endpoint)
    is_new = await asyncio.to_thread(context.repos.endpoints.put, name, endpoint)
    response.status_code = 201 if is_new else 200
    context.caller.reset_circuit(name)
    context.confidences.forget_endpoint(name)
    await asyncio.to_thread(context.repos.confidence_reports.forget_endpoint, name)
    await _look_again(context)
    warnings = list_price_warnings(name, endpoint.prices, context.catalog.plans.values())
    return _shown(context, name, endpoint).model_copy(update={"warnings": warnings})


@router.get("", summary="List the endpoints", responses=error_responses(503), dependencies=[Depends(require_store)])
async def list_endpoints(context: InContext, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None) -> EndpointList:
    """List the endpoints by name, with the state of their circuit breakers."""
    page = await asyncio.to_thread(lambda: context.repos.endpoints.list_page(limit=limit, cursor=cursor))
    items = [_shown(context, name, endpoint) for name, endpoint in page.items]
    return EndpointList(items=items, next=page.next, total=page.total)


@router.get(
    "/{name}", summary="Show an endpoint", responses=error_responses(404, 503), dependencies=[Depends(require_store)]
)
async def show_endpoint(name: PathEndpoint, context: InContext) -> ShownEndpoint:
    """Return a registered endpoint."""
    return _shown(context, name, await asyncio.to_thread(context.repos.endpoints.get, name))


@router.delete(
    "/{name}",
    summary="Delete an endpoint",
    status_code=204,
    responses=error_responses(404, 503),
    dependencies=[Depends(require_store)],
)
async def delete_endpoint(name: PathEndpoint, context: InContext) -> None:
    """Delete an endpoint; runs continue without it."""
    require_own_names(context, name)
    await asyncio.to_thread(context.repos.endpoints.delete, name)
    await _look_again(context)


@router.post(
    "/{name}/probe",
    summary="Call an endpoint once with an item",
    responses=error_responses(404, 413, 415, 503),
)
async def probe_endpoint(name: PathEndpoint, request: ProbeRequest, http: Request, context: InContext) -> ProbeReply:
    """Call an endpoint once, as a run does, and return its reply or error."""
    dependencies = get_run_dependencies(context)
    endpoint = dependencies.caller.get_endpoint(name)
    if endpoint is None:
        raise UnknownEndpoint(f"endpoint {name!r} not found")
    reply = to_probe_reply(
        await cancel_on_disconnect(http, dependencies.caller.call_endpoint(name, request.item, endpoint.timeout_s))
    )
    costs = (
        ()
        if endpoint.prices is None
        else list_cost_warnings(name, reply.cost, "this call", context.catalog.plans.values())
    )
    warnings = (*_compare_with_builds(context, name, reply.confidence), *costs)
    return reply.model_copy(update={"warnings": warnings})


def _compare_with_builds(context: AppContext, name: str, confidence: float | None) -> tuple[str, ...]:
    """Return warnings for active artifacts that were built without this confidence."""
    if confidence is None:
        return ()
    profiles = [(one, one.record.summary.get("confidences", {}).get(name)) for one in context.catalog.plans.values()]
    return tuple(
        f"{one.ref.kind} {one.ref.name!r} was built from confidences from {profile['quantiles'][0]:.3g} to "
        f"{profile['quantiles'][-1]:.3g}, got {confidence:.3g}: check confidence_scale"
        for one, profile in profiles
        if profile is not None and is_outside(profile, confidence)
    )


def _refuse_wrong_name(name: str) -> None:
    try:
        _NAME.validate_python(name)
    except ValidationError as error:
        raise InvalidRequest.from_validation(error, "name") from error


async def _look_again(context: AppContext) -> None:
    await asyncio.to_thread(context.seen.refresh_endpoints)


def _shown(context: AppContext, name: str, endpoint: Endpoint) -> ShownEndpoint:
    return ShownEndpoint(
        name=name,
        endpoint=endpoint,
        circuit=context.caller.circuit_state(name),
        secret_known=context.caller.secret_known(endpoint),
    )
