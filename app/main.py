"""The one place where the parts are joined: settings in, application out."""

import asyncio
import gc
import logging
import multiprocessing
import signal
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import TypedDict, get_args

from fastapi import Depends, FastAPI, Security
from fastapi.security import HTTPBearer
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from app import openapi, problems
from app.access import Access
from app.access_log import AccessLog
from app.apart import Apart
from app.bodies import BodyLimit
from app.catalog import Catalog, CatalogThread
from app.decisions import HotPath, LookUps
from app.embedded import die_with_parent
from app.jobs import Watch
from app.ledgers import Ledgers
from app.parts import Parts, open_parts
from app.priority import give_way, look_ups_first
from app.routes import artifacts, builds, console, datasets, decisions, docs, feedback, health
from app.routes.context import Context, errors, known_query_only
from app.settings import Settings
from app.tables import READING_S
from app.telemetry import Metrics, Telemetry, configure_logging
from models import BuildStatus
from models.errors import StoreRefused
from models.feedback import QUANTITIES
from solvers import SOLVERS

logger = logging.getLogger("parsimony")
DESCRIPTION = """Decides, for each item to be classified, how little computation will do.

1. **Store a dataset**: what your classifiers answered, how sure they were, what they cost.
2. **Build** an artifact from it; a worker does the thinking.
3. **Ask for decisions**: they come from memory, in microseconds.

Costs, durations, budgets and deadlines are in the unit that the dataset (or the request) declares.
Errors are `application/problem+json`; the `instance` finds the request in the log.
"""


SOLVERS_AT_ONCE = 2
_CROSSING_METHODS = ("GET", "POST", "PUT", "DELETE")
_CROSSING_HEADERS = ("Authorization", "Content-Type", "X-Request-ID")
_EXPOSED_HEADERS = ("Location", "Retry-After", "X-Request-ID")
"""What pages of the origins in PARSIMONY_CORS_ORIGINS may send and read."""
FIRST_LOOK_S = 60.0
"""How long a process may load artifacts before it takes requests all the same."""
LOOK_S = 3.0
"""How long a look at the store may wait for a reply before the store is held to be away."""
BEARER = HTTPBearer(auto_error=False, description="a key of PARSIMONY_API_KEYS, if any is set")
"""For the documentation's Authorize button; the layer ``Access`` decides, before any route."""


class State(TypedDict):
    """What the application keeps while it runs."""

    context: Context


def create_app(settings: Settings | None = None) -> ASGIApp:
    """Make the application; its parts are opened when it starts and closed when it stops."""
    settings = settings or Settings()
    configure_logging(settings.log_level, settings.log_format)
    metrics = Metrics()
    subjects = [import_module(f"app.routes.{name}") for name in SOLVERS]
    api = create_api(settings, metrics, subjects)
    look_ups = LookUps(tuple(look_up for subject in subjects for look_up in getattr(subject, "look_ups", ())))
    layers: ASGIApp = HotPath(api, look_ups, metrics)
    layers = BodyLimit(layers, settings.max_body_bytes, look_ups=look_ups)
    layers = Access(layers, settings.api_keys, settings.rate_limit)
    if settings.origins():
        layers = CORSMiddleware(
            layers, settings.origins(), _CROSSING_METHODS, _CROSSING_HEADERS, expose_headers=_EXPOSED_HEADERS
        )
    log = AccessLog(sys.stderr, settings.log_format) if logger.isEnabledFor(logging.INFO) else None
    return Telemetry(layers, metrics, log)


def create_api(settings: Settings, metrics: Metrics, subjects: list[ModuleType]) -> FastAPI:
    """Make the part that FastAPI serves: every route, its documentation and its error replies."""
    api = FastAPI(
        title="Parsimony",
        version=version("parsimony"),
        description=DESCRIPTION,
        lifespan=_lifespan(settings, metrics),
        dependencies=[Depends(known_query_only)],
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
    )
    api.include_router(health.router)
    asks = {name: (subject.LIMITS, subject.what_if) for name, subject in zip(SOLVERS, subjects, strict=True)}
    routers = [module.router for module in (datasets, builds, artifacts, *subjects)]
    for router in (*routers, decisions.router_for(asks), feedback.router):
        api.include_router(router, dependencies=[Security(BEARER)], responses=errors(401, 403, 429))
    docs.install(api)
    console.install(api)
    openapi.install(api, [body for module in (feedback, *subjects) for body in getattr(module, "bodies", ())])
    problems.install(api)
    return api


def _lifespan(settings: Settings, metrics: Metrics) -> Callable[[FastAPI], AbstractAsyncContextManager[State]]:
    @asynccontextmanager
    async def lifespan(api: FastAPI) -> AsyncIterator[State]:
        parent = multiprocessing.parent_process()
        if parent is not None and parent.pid is not None:
            die_with_parent(signal.SIGTERM, parent.pid)  # of several server processes none outlives the one that counts
        if not settings.api_keys:
            logger.warning("no PARSIMONY_API_KEYS: everybody who reaches %s may do everything", settings.host)
        with ExitStack() as stack:
            parts = stack.enter_context(open_parts(settings, client_name="parsimony-server"))
            looking = stack.enter_context(parts.impatient(LOOK_S))
            catalog = Catalog(looking.artifacts)
            chores = Chores(looking, catalog, metrics)
            thread = CatalogThread(catalog, looking.store, chores=chores.run, revive=parts.revive, note=chores.note)
            thread.start()
            await asyncio.to_thread(thread.looked.wait, FIRST_LOOK_S)  # so that what is asked first is answered
            look_ups_first()
            solving = ThreadPoolExecutor(SOLVERS_AT_ONCE, thread_name_prefix="solving", initializer=give_way)
            apart = Apart(settings.solve_timeout_s, imports=("skops.io",))
            reading = Apart(READING_S, imports=("app.tables",))
            try:
                context = Context(
                    settings,
                    parts,
                    catalog,
                    metrics,
                    solving,
                    apart,
                    reading,
                    Ledgers(parts.store),
                    chores,
                )
                gc.collect()
                gc.freeze()  # what is loaded stays: no look-up waits while all of it is gone through again
                yield {"context": context}
            finally:
                solving.shutdown(wait=False, cancel_futures=True)
                for process in (apart, reading):
                    await asyncio.to_thread(process.close)
                await asyncio.to_thread(thread.stop)

    return lifespan


class Chores:
    """What the catalog's thread does besides: end builds whose worker died, keep the gauges right."""

    def __init__(self, parts: Parts, catalog: Catalog, metrics: Metrics) -> None:
        self._parts, self._catalog, self._metrics = parts, catalog, metrics
        self._watch = Watch(parts.builds)
        self._failures = 0
        self.workers = 0
        self.refusal: str | None = None

    def note(self) -> None:
        """Bring the gauges up to date, whether or not the store was reached."""
        catalog, metrics = self._catalog, self._metrics
        metrics.store_up.set(catalog.store_up)
        metrics.artifacts_loaded.set(len(catalog.plans))
        metrics.refreshed_at.set(catalog.refreshed_at)
        metrics.load_failures.inc(catalog.load_failures - self._failures)
        self._failures = catalog.load_failures

    def run(self) -> None:
        """Do what needs the store; one that takes no writes is no reason to stop looking at it."""
        self.refusal = self._parts.store.refusal()
        try:
            self._look()
        except StoreRefused as error:
            self.refusal = str(error)

    def _look(self) -> None:
        self._watch.look()
        self.workers = self._parts.builds.workers()
        counts = self._parts.builds.counts()
        for status in get_args(BuildStatus):
            self._metrics.builds.labels(status).set(counts.get(status, 0))
        for solver, (ended, seconds) in self._parts.builds.durations().items():
            self._metrics.builds_ended.labels(solver).set(ended)
            self._metrics.building_seconds.labels(solver).set(seconds)
        self._note_drift()

    def _note_drift(self) -> None:
        """Say of the versions in service whether outcomes have parted from what was estimated."""
        drifts = self._parts.feedback.drifts()
        for live in self._catalog.plans.values():
            ref = live.ref
            parted = drifts.get(ref.spelt, ())
            for quantity in QUANTITIES:
                self._metrics.drift.labels(ref.solver, ref.name, quantity).set(quantity in parted)
