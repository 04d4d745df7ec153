"""Runs a batch in a worker process, and stores each answer when it is complete.

After a crash, the batch continues with the items that have no stored answer. Calls that were in progress are
repeated.
"""

import asyncio
import logging
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from app.observability.metrics import Metrics
from app.observability.tracing import open_tracing
from app.processes.sandbox import Sandbox
from app.recording.writer import RecordingWriter
from app.running.batch_work import BatchWork
from app.running.budget_guard import BudgetGuard
from app.running.endpoint_caller import EndpointCaller
from app.running.item_queue import ItemQueue
from app.running.item_start import RunDependencies
from app.running.run_recorder import RunRecorder
from app.running.spend_recorder import SpendRecorder
from app.serving.catalog import LoadedArtifact
from app.serving.rollouts import RolloutSplitter
from app.settings import Settings
from app.store.batches import MAX_BATCH_DURATION_S, parse_job_id
from app.store.budget_accounts import BudgetAccounts
from app.store.conversations import Conversations
from app.store.ledgers import Ledgers
from app.store.repositories import Repositories, open_repositories
from models.batch import Batch
from models.budget import Payer
from models.errors import Cancelled, ParsimonyError, StoreUnavailable
from solvers.base import Plan

logger = logging.getLogger("parsimony.worker")


def run_batch(job_id: str) -> None:
    """Run a queued batch to its end; continue where an earlier attempt stopped."""
    batch_id, attempt = parse_job_id(job_id) or ("", 0)
    with open_repositories(Settings(), client_name="parsimony-batch") as repos:
        batch = repos.batches.start_batch(batch_id, attempt)
        if batch is None:
            return
        logger.info("batch started batch=%s items=%d answered=%d", batch_id, batch.total, batch.done + batch.failed)
        try:
            asyncio.run(_run(repos, batch, attempt))
            repos.batches.end_batch(batch_id, "succeeded", None)
        except Cancelled as error:
            logger.info("%s", error)
        except StoreUnavailable:
            raise  # the result cannot be written; the watchdog will see no progress
        except BaseException as error:
            reason = _reason(error)
            repos.batches.end_batch(batch_id, "failed", reason or "an internal error; see the worker's log")
            if reason is None:
                raise


def _reason(error: BaseException) -> str | None:
    """Return the reason why a batch failed; None for an internal error, only logged."""
    if isinstance(error, TimeoutError):
        return f"took longer than {MAX_BATCH_DURATION_S // 3600} hours"
    if isinstance(error, MemoryError):
        return "ran out of memory"
    return str(error) if isinstance(error, ParsimonyError) else None


async def _run(repos: Repositories, batch: Batch, attempt: int) -> None:
    async with (
        _tools(repos, Payer(batch.key or "", batch.team or "")) as dependencies,
        asyncio.timeout(MAX_BATCH_DURATION_S),
    ):
        record = await asyncio.to_thread(
            repos.artifacts.get_record, batch.artifact.kind, batch.artifact.name, batch.artifact.version
        )
        loaded = LoadedArtifact[Plan].from_record(record, await asyncio.to_thread(repos.artifacts.load_plan, record))
        work = BatchWork(repos, batch, attempt, loaded, dependencies)
        await work.refresh_rollouts()
        reporting = asyncio.ensure_future(work.report_circuits_and_confidences())
        try:
            await work.run_all()
            await work.record_confidences()
        finally:
            reporting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)


@asynccontextmanager
async def _tools(repos: Repositories, payer: Payer) -> Any:
    """Return the dependencies of runs, with the currently registered endpoints and budgets."""
    metrics, tracing = Metrics(), open_tracing(version("parsimony-server"))
    caller = EndpointCaller.from_settings(repos.settings, metrics, tracing)
    budgets, spending = BudgetGuard(BudgetAccounts(repos.store), metrics), SpendRecorder(repos.spending)
    recorder = RunRecorder(RecordingWriter(repos.settings.recordings_dir, metrics), repos.recordings)
    traffic = RolloutSplitter(repos.rollouts, metrics)
    sandbox = Sandbox(repos.settings.solve_timeout_s, imports=("skops.io",))
    try:
        await recorder.read_recordings()
        budgets.update_budgets(await asyncio.to_thread(repos.budgets.get_all))
        caller.update_endpoints(await asyncio.to_thread(repos.endpoints.get_all))
        queue = ItemQueue(repos.settings.max_concurrent_items)
        yield RunDependencies(
            settings=repos.settings,
            caller=caller,
            sandbox=sandbox,
            ledgers=Ledgers(repos.store),
            is_store_up=lambda: True,
            queue=queue,
            budgets=budgets,
            spending=spending,
            rollouts=traffic,
            conversations=Conversations(repos.store),
            recorder=recorder,
            payer=payer,
        )
    finally:
        await traffic.close()
        await recorder.close()
        await asyncio.to_thread(recorder.writer.close)
        await caller.close()
        await budgets.close()
        await spending.close()
        await asyncio.to_thread(sandbox.close)
        await asyncio.to_thread(tracing.close)
