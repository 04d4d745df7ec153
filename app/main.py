"""Application factory: creates the application from the settings."""

import logging
import sys
from collections.abc import Sequence
from importlib.metadata import version

from fastapi import Depends, FastAPI, Security
from fastapi.security import HTTPBearer
from pydantic import BaseModel
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from app.http import openapi, problem_details
from app.http.access_log import AccessLog
from app.http.api_key_auth import ApiKeyAuth
from app.http.body_limits import BodyLimit
from app.http.fast_router import FastRouter, FastRoutes
from app.http.request_tracing import RequestTracing
from app.http.telemetry import Telemetry
from app.lifespan import make_lifespan
from app.observability.logs import configure_logging
from app.observability.metrics import Metrics
from app.observability.tracing import Tracing, open_tracing
from app.routes import (
    advice,
    artifacts,
    batches,
    budgets,
    builds,
    chat,
    completions,
    datasets,
    decision_comparison,
    docs,
    embeddings,
    endpoints,
    feedback,
    health,
    log_imports,
    messages,
    open_inference,
    pages,
    recordings,
    responses,
    rollouts,
    runs,
    spend,
    uploads,
    version_diffs,
    version_evaluations,
)
from app.routes.dependencies import error_responses, require_known_parameters
from app.routes.kind_routes import KindRoutes
from app.routes.kinds import make_kind_routes
from app.running.budget_headers import BUDGET_HEADERS
from app.settings import Settings
from solvers import KINDS

logger = logging.getLogger("parsimony")
DESCRIPTION = """Decides, for each item to be classified, how little computation will do.

1. **Store a dataset**: what your classifiers answered, how sure they were, what they cost.
2. **Build** an artifact from it; a worker optimizes in the background.
3. **Ask for decisions**: they come from memory, in microseconds.

Costs, durations, budgets and deadlines are in the unit that the dataset (or the request) declares.
Errors are `application/problem+json`; the `instance` finds the request in the log.
"""


_CROSSING_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_TUS_HEADERS = ("Tus-Resumable", "Upload-Length", "Upload-Metadata", "Upload-Offset")
_CROSSING_HEADERS = (
    *_TUS_HEADERS,
    "Authorization",
    "Content-Type",
    "If-Match",
    "If-None-Match",
    "X-API-Key",
    "X-Request-ID",
)
_EXPOSED_HEADERS = ("ETag", "Location", "Retry-After", "X-Request-ID", *BUDGET_HEADERS, *uploads.REPLY_HEADERS)
"""What pages of the origins in PARSIMONY_CORS_ORIGINS may send and read."""
BEARER = HTTPBearer(auto_error=False, description="a key of PARSIMONY_API_KEYS, if it is set")
"""For the documentation's Authorize button; the layer ``ApiKeyAuth`` decides, before any route."""


def create_app(settings: Settings | None = None) -> ASGIApp:
    """Return the ASGI application; its resources are opened at startup."""
    settings = settings or Settings()
    configure_logging(settings.log_level, settings.log_format)
    metrics = Metrics()
    tracing = open_tracing(version("parsimony-server"))
    kinds = [make_kind_routes(kind) for kind in KINDS.values()]
    api = create_api(settings, metrics, kinds, tracing)
    fast_routes = (look_up for one in kinds for look_up in one.fast_routes)
    chats = (
        front.make_fast_route(settings.max_chat_bytes) for front in (chat, messages, responses, embeddings, completions)
    )
    routes = FastRoutes(fast_routes, (*chats, *runs.plain))
    layers: ASGIApp = FastRouter(api, routes, metrics)
    layers = BodyLimit(layers, settings.max_body_bytes, routes=routes)
    layers = ApiKeyAuth(layers, settings.api_keys, settings.rate_limit, settings.team_rates())
    if settings.allowed_origins():
        layers = CORSMiddleware(
            layers, settings.allowed_origins(), _CROSSING_METHODS, _CROSSING_HEADERS, expose_headers=_EXPOSED_HEADERS
        )
    log = AccessLog(sys.stderr, settings.log_format) if logger.isEnabledFor(logging.INFO) else None
    layers = Telemetry(layers, metrics, log)
    return RequestTracing(layers, tracing) if tracing.is_on else layers


def create_api(
    settings: Settings, metrics: Metrics, kinds: Sequence[KindRoutes], tracing: Tracing | None = None
) -> FastAPI:
    """Return the FastAPI application: all routes, their documentation, and errors.

    Args:
        tracing: traces of runs and calls; None if tracing is off.
    """
    api = FastAPI(
        title="Parsimony",
        version=version("parsimony-server"),
        description=DESCRIPTION,
        lifespan=make_lifespan(settings, metrics, tracing or Tracing()),
        dependencies=[Depends(require_known_parameters)],
        openapi_url=None,  # app.http.openapi serves it
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
    )
    api.state.operations = {one.collection: one.operations for one in kinds}
    _include_routers(api, kinds)
    docs.add_docs_pages(api)
    missing = pages.add_pages(api)
    read_by_routes: list[tuple[type[BaseModel], ...]] = [feedback.bodies, batches.bodies, open_inference.bodies]
    read_by_routes += [recordings.bodies]
    read_by_routes += [one.bodies for one in kinds]
    openapi.serve_openapi(api, [body for each in read_by_routes for body in each])
    problem_details.add_error_handlers(api, missing)
    return api


def _include_routers(api: FastAPI, kinds: Sequence[KindRoutes]) -> None:
    """Add all routes; only the health checks need no API key."""
    api.include_router(health.router)
    resources = (
        datasets.router,
        datasets.drafts,
        uploads.router,
        log_imports.router,
        builds.router,
        advice.router,
        artifacts.router,
        artifacts.exports,
        rollouts.router,
        rollouts.lists,
        version_evaluations.router,
        version_diffs.router,
        endpoints.router,
        budgets.router,
        spend.router,
        recordings.router,
    )
    fronts = (
        runs.router,
        chat.router,
        messages.router,
        responses.router,
        embeddings.router,
        completions.router,
        open_inference.router,
        batches.router,
    )
    # Runs first: routes are tried one after the other, and these are asked most of those that no hot path takes.
    for router in (*fronts, *resources, *(one.router for one in kinds), decision_comparison.router, feedback.router):
        api.include_router(router, dependencies=[Security(BEARER)], responses=error_responses(401, 403, 429))
