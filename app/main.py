"""Application factory: creates the application from the settings."""

import asyncio
import logging
import multiprocessing
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import TypedDict

from fastapi import Depends, FastAPI, Security
from fastapi.security import HTTPBearer
from pydantic import BaseModel
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from app.building.automation import AutomationRunner
from app.http import openapi, problem_details
from app.http.access_log import AccessLog
from app.http.address_file import local_address
from app.http.api_key_auth import ApiKeyAuth
from app.http.body_limits import BodyLimit
from app.http.fast_router import FastRouter, FastRoutes
from app.http.graceful_shutdown import GracefulShutdown
from app.http.request_tracing import RequestTracing
from app.http.telemetry import Telemetry
from app.importing.frozen_recordings import freeze_by_name
from app.observability.logs import configure_logging
from app.observability.metrics import Metrics
from app.observability.tracing import Tracing, open_tracing
from app.processes.garbage_collection import frozen_heap
from app.processes.parent_death import die_with_parent
from app.processes.priority import BUILDS_NICE, lower_priority
from app.processes.sandbox import Sandbox
from app.recording.writer import RecordingWriter
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
    version_diffs,
    version_evaluations,
)
from app.routes.dependencies import AppContext, error_responses, require_known_parameters
from app.routes.kind_routes import KindRoutes
from app.routes.kinds import make_kind_routes
from app.running.budget_guard import BUDGET_TIMEOUT_S, BudgetGuard
from app.running.budget_headers import BUDGET_HEADERS
from app.running.endpoint_caller import EndpointCaller
from app.running.item_queue import ItemQueue
from app.running.run_recorder import RunRecorder
from app.running.spend_recorder import SpendRecorder
from app.serving.catalog import Catalog
from app.serving.classifier_names import ClassifierNames
from app.serving.refresh import CatalogThread, HousekeepingJobs
from app.serving.rollouts import RolloutSplitter
from app.settings import Settings
from app.store.budget_accounts import BudgetAccounts
from app.store.conversations import Conversations
from app.store.dataset_upload import UPLOAD_TIMEOUT_S
from app.store.ledgers import Ledgers
from app.store.repositories import open_repositories
from app.store.uploads import READ_TIMEOUT_S
from solvers import KINDS

logger = logging.getLogger("parsimony")
DESCRIPTION = """Decides, for each item to be classified, how little computation will do.

1. **Store a dataset**: what your classifiers answered, how sure they were, what they cost.
2. **Build** an artifact from it; a worker does the thinking.
3. **Ask for decisions**: they come from memory, in microseconds.

Costs, durations, budgets and deadlines are in the unit that the dataset (or the request) declares.
Errors are `application/problem+json`; the `instance` finds the request in the log.
"""


MAX_CONCURRENT_SOLVERS = 2
SWITCH_INTERVAL_S = 0.001
"""How long a solving thread runs Python before the event loop gets its turn."""
_CROSSING_METHODS = ("GET", "POST", "PUT", "DELETE")
_CROSSING_HEADERS = ("Authorization", "Content-Type", "If-Match", "If-None-Match", "X-API-Key", "X-Request-ID")
_EXPOSED_HEADERS = ("ETag", "Location", "Retry-After", "X-Request-ID", *BUDGET_HEADERS)
"""What pages of the origins in PARSIMONY_CORS_ORIGINS may send and read."""
FIRST_LOAD_TIMEOUT_S = 60.0
"""How long a process may load artifacts before it takes requests all the same."""
STORE_CHECK_TIMEOUT_S = 3.0
"""Time limit of a check of the store, after which the store counts as unavailable."""
BEARER = HTTPBearer(auto_error=False, description="a key of PARSIMONY_API_KEYS, if it is set")
"""For the documentation's Authorize button; the layer ``ApiKeyAuth`` decides, before any route."""


class AppState(TypedDict):
    """Objects that live as long as the application."""

    context: AppContext


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
    layers = ApiKeyAuth(layers, settings.api_keys, settings.rate_limit)
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
        lifespan=_lifespan(settings, metrics, tracing or Tracing()),
        dependencies=[Depends(require_known_parameters)],
        openapi_url=None,  # app.http.openapi serves it
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
    )
    api.state.operations = {one.collection: one.operations for one in kinds}
    api.include_router(health.router)
    resources = (
        datasets.router,
        datasets.drafts,
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
    docs.add_docs_pages(api)
    missing = pages.add_pages(api)
    read_by_routes: list[tuple[type[BaseModel], ...]] = [feedback.bodies, batches.bodies, open_inference.bodies]
    read_by_routes += [recordings.bodies]
    read_by_routes += [one.bodies for one in kinds]
    openapi.serve_openapi(api, [body for each in read_by_routes for body in each])
    problem_details.add_error_handlers(api, missing)
    return api


def _lifespan(
    settings: Settings, metrics: Metrics, tracing: Tracing
) -> Callable[[FastAPI], AbstractAsyncContextManager[AppState]]:
    @asynccontextmanager
    async def lifespan(api: FastAPI) -> AsyncIterator[AppState]:
        parent = multiprocessing.parent_process()
        if parent is not None and parent.pid is not None:
            die_with_parent(signal.SIGTERM, parent.pid)  # of several server processes none outlives the one that counts
        leaving = GracefulShutdown(settings.drain_s)
        with ExitStack() as stack:
            repos = stack.enter_context(open_repositories(settings, client_name="parsimony-server"))
            looking = stack.enter_context(repos.with_short_timeouts(STORE_CHECK_TIMEOUT_S))
            catalog = Catalog(looking.artifacts)
            traffic = RolloutSplitter(looking.rollouts, metrics)
            writer = RecordingWriter(settings.recordings_dir, metrics)
            upload_sandbox = Sandbox(UPLOAD_TIMEOUT_S, imports=("app.store.dataset_upload",), nice=BUILDS_NICE)
            freeze = partial(freeze_by_name, repos=repos, writer=writer, run_in=upload_sandbox)
            chores = HousekeepingJobs(looking, catalog, metrics, traffic, writer, AutomationRunner(repos, freeze))
            thread = CatalogThread(
                catalog, looking.store, chores=chores.run, revive=repos.restart_store, note=chores.update_gauges
            )
            with frozen_heap():
                thread.start()
                # so that the first requests are answered
                await asyncio.to_thread(thread.looked.wait, FIRST_LOAD_TIMEOUT_S)
            sys.setswitchinterval(SWITCH_INTERVAL_S)
            solving = ThreadPoolExecutor(
                MAX_CONCURRENT_SOLVERS, thread_name_prefix="solving", initializer=lower_priority
            )
            sandbox = Sandbox(settings.solve_timeout_s, imports=("skops.io",))
            table_sandbox = Sandbox(READ_TIMEOUT_S, imports=("app.store.uploads",))
            caller = EndpointCaller.from_settings(settings, metrics, tracing)
            counting = stack.enter_context(repos.with_short_timeouts(BUDGET_TIMEOUT_S))
            guard = BudgetGuard(BudgetAccounts(counting.store), metrics)
            spending = SpendRecorder(counting.spending)
            recorder = RunRecorder(writer, counting.recordings)
            try:
                context = AppContext(
                    settings=settings,
                    repos=repos,
                    catalog=catalog,
                    metrics=metrics,
                    solving=solving,
                    sandbox=sandbox,
                    upload_sandbox=upload_sandbox,
                    table_sandbox=table_sandbox,
                    ledgers=Ledgers(repos.store),
                    seen=chores,
                    caller=caller,
                    leaving=leaving,
                    queue=ItemQueue(settings.max_concurrent_items),
                    budgets=guard,
                    spending=spending,
                    rollouts=traffic,
                    recorder=recorder,
                    classifier_names=ClassifierNames(catalog),
                    conversations=Conversations(counting.store),
                )
                leaving.delay_sigterm()
                address = local_address(settings)
                logger.info("ready console=%s api=%s/docs", address, address)
                yield {"context": context}
            finally:
                await recorder.close()
                await asyncio.to_thread(writer.close)
                await caller.close()
                await guard.close()
                await spending.close()
                await traffic.close()
                solving.shutdown(wait=False, cancel_futures=True)
                for process in (sandbox, upload_sandbox, table_sandbox):
                    await asyncio.to_thread(process.close)
                await asyncio.to_thread(thread.stop)
                await asyncio.to_thread(tracing.close)

    return lifespan
