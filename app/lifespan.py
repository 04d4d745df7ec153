"""Resources of the application: opened at startup, closed in reverse order at shutdown."""

import asyncio
import logging
import multiprocessing
import signal
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import TypedDict

from fastapi import FastAPI

from app.building.automation import AutomationRunner
from app.http.address_file import local_address
from app.http.graceful_shutdown import GracefulShutdown
from app.importing.frozen_recordings import freeze_by_name
from app.observability.metrics import Metrics
from app.observability.tracing import Tracing
from app.processes.garbage_collection import frozen_heap
from app.processes.parent_death import die_with_parent
from app.processes.priority import UPLOADS_NICE, lower_priority
from app.processes.sandbox import Sandbox
from app.recording.writer import RecordingWriter
from app.routes.dependencies import AppContext
from app.running.budget_guard import BUDGET_TIMEOUT_S, BudgetGuard
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
from app.store.repositories import Repositories, open_repositories
from app.store.resumable_uploads import ResumableUploads
from app.store.uploads import READ_TIMEOUT_S
from models.errors import InvalidRequest

logger = logging.getLogger("parsimony")
MAX_CONCURRENT_SOLVERS = 2
SWITCH_INTERVAL_S = 0.001
"""How long a solving thread runs Python before the event loop gets its turn."""
FIRST_LOAD_TIMEOUT_S = 60.0
"""How long a process may load artifacts before it takes requests all the same."""
STORE_CHECK_TIMEOUT_S = 3.0
"""Time limit of a check of the store, after which the store counts as unavailable."""


class AppState(TypedDict):
    """Objects that live as long as the application."""

    context: AppContext


def make_lifespan(
    settings: Settings, metrics: Metrics, tracing: Tracing
) -> Callable[[FastAPI], AbstractAsyncContextManager[AppState]]:
    """Return the application's lifespan, which yields the context of all requests."""

    @asynccontextmanager
    async def lifespan(api: FastAPI) -> AsyncIterator[AppState]:
        _die_with_supervisor()
        await asyncio.to_thread(_delete_expired_uploads, settings)
        async with AsyncExitStack() as stack:
            context = await _open_context(stack, settings, metrics, tracing)
            sys.setswitchinterval(SWITCH_INTERVAL_S)
            context.leaving.delay_sigterm()
            address = local_address(settings)
            logger.info("ready console=%s api=%s/docs", address, address)
            yield {"context": context}

    return lifespan


def _die_with_supervisor() -> None:
    """End this process with the one that started it: of several server processes, none outlives it."""
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid is not None:
        die_with_parent(signal.SIGTERM, parent.pid)


def _delete_expired_uploads(settings: Settings) -> None:
    """Delete expired uploads; those of a folder that is missing or unreadable are left to the routes."""
    with suppress(InvalidRequest, OSError):
        ResumableUploads(settings.find_upload_dir(), settings.max_upload_bytes).delete_expired()


async def _open_context(stack: AsyncExitStack, settings: Settings, metrics: Metrics, tracing: Tracing) -> AppContext:
    """Open all resources; the stack closes them, the last one first."""
    stack.push_async_callback(asyncio.to_thread, tracing.close)
    repos = stack.enter_context(open_repositories(settings, client_name="parsimony-server"))
    polled = stack.enter_context(repos.with_short_timeouts(STORE_CHECK_TIMEOUT_S))
    counting = stack.enter_context(repos.with_short_timeouts(BUDGET_TIMEOUT_S))
    catalog = Catalog(polled.artifacts)
    upload_sandbox = _open_sandbox(
        stack, Sandbox(UPLOAD_TIMEOUT_S, imports=("app.store.dataset_upload",), nice=UPLOADS_NICE)
    )
    writer = RecordingWriter(settings.recordings_dir, metrics)
    stack.push_async_callback(asyncio.to_thread, writer.close)
    rollouts = RolloutSplitter(polled.rollouts, metrics)
    freeze = partial(freeze_by_name, repos=repos, writer=writer, run_in=upload_sandbox)
    jobs = HousekeepingJobs(polled, catalog, metrics, rollouts, writer, AutomationRunner(repos, freeze))
    await _start_catalog_thread(stack, catalog, polled, jobs, repos)
    stack.push_async_callback(rollouts.close)
    context = AppContext(
        settings=settings,
        repos=repos,
        catalog=catalog,
        metrics=metrics,
        solving=_open_solving_threads(stack),
        sandbox=_open_sandbox(stack, Sandbox(settings.solve_timeout_s, imports=("skops.io",))),
        upload_sandbox=upload_sandbox,
        table_sandbox=_open_sandbox(stack, Sandbox(READ_TIMEOUT_S, imports=("app.store.uploads",))),
        ledgers=Ledgers(repos.store),
        seen=jobs,
        caller=EndpointCaller.from_settings(settings, metrics, tracing),
        leaving=GracefulShutdown(settings.drain_s),
        queue=ItemQueue(settings.max_concurrent_items),
        budgets=BudgetGuard(BudgetAccounts(counting.store), metrics),
        spending=SpendRecorder(counting.spending),
        rollouts=rollouts,
        recorder=RunRecorder(writer, counting.recordings),
        classifier_names=ClassifierNames(catalog),
        conversations=Conversations(counting.store),
    )
    # Closed in reverse: recorders first, then calls, then what counts the budgets and costs of these calls.
    for close in (context.spending.close, context.budgets.close, context.caller.close, context.recorder.close):
        stack.push_async_callback(close)
    return context


async def _start_catalog_thread(
    stack: AsyncExitStack, catalog: Catalog, polled: Repositories, jobs: HousekeepingJobs, repos: Repositories
) -> None:
    """Start to refresh the catalog, and wait for the first load, so that the first requests are answered."""
    thread = CatalogThread(catalog, polled.store, chores=jobs.run, revive=repos.restart_store, note=jobs.update_gauges)
    with frozen_heap():
        thread.start()
        stack.push_async_callback(asyncio.to_thread, thread.stop)
        await asyncio.to_thread(thread.looked.wait, FIRST_LOAD_TIMEOUT_S)


def _open_sandbox(stack: AsyncExitStack, sandbox: Sandbox) -> Sandbox:
    stack.push_async_callback(asyncio.to_thread, sandbox.close)
    return sandbox


def _open_solving_threads(stack: AsyncExitStack) -> ThreadPoolExecutor:
    threads = ThreadPoolExecutor(MAX_CONCURRENT_SOLVERS, thread_name_prefix="solving", initializer=lower_priority)
    stack.callback(threads.shutdown, wait=False, cancel_futures=True)
    return threads
