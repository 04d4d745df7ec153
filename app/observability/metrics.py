"""The Prometheus metrics of the service."""

import asyncio
import os
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from models.budget import Quantity
from models.feedback import DRIFT_QUANTITIES

DECISION_OUTCOMES = ("answered", "infeasible", "refused")
"""Outcomes of a requested decision."""
_DECIDING = (1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 0.01, 0.05, 0.25, 1.0, 5.0)
_GAPS = (1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0)
_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)
PAUSE_SHARE = 9
"""A pause between two renderings, in times of the last one."""
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Prometheus metrics of the service, in their own registry.

    Counters and drift gauges are labeled by artifact kind and name. Histograms are labeled by kind only: each has
    more than ten series, and a server may have thousands of artifacts.
    """

    def __init__(self) -> None:
        disable_created_metrics()  # a second, unused series per metric
        self.registry = CollectorRegistry()
        self._measure_requests()
        self._measure_catalog()
        self._measure_feedback()
        self._measure_calls()
        self._measure_budgets()
        self._measure_rollouts()
        self.forgotten = 0
        """Incremented when series are removed: cached series are invalid then."""
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="metrics")
        self._rendering: asyncio.Task[bytes] | None = None
        self._one_rendering = asyncio.Lock()
        self._idle_until = 0.0

    def _measure_requests(self) -> None:
        """Create the metrics of requests and decisions."""
        self.requests = Counter(
            "parsimony_requests_total", "HTTP requests", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "parsimony_request_seconds",
            "Latency of HTTP requests, in seconds",
            ["route"],
            registry=self.registry,
            buckets=_BUCKETS,
        )
        self.decisions = Counter(
            "parsimony_decisions_total",
            "Decisions by outcome: answered, infeasible, or refused",
            ["kind", "name", "outcome"],
            registry=self.registry,
        )
        self.decision_seconds = Histogram(
            "parsimony_decision_seconds",
            "Time to decide, in seconds, without HTTP",
            ["kind"],
            registry=self.registry,
            buckets=_DECIDING,
        )
        self.gap = Histogram(
            "parsimony_assignment_gap",
            "Proven gap of assignments to the optimum, as a share",
            registry=self.registry,
            buckets=_GAPS,
        )
        self.spent = Histogram(
            "parsimony_assignment_spent",
            "Cost of assignments, as a share of their budget",
            registry=self.registry,
            buckets=_SHARES,
        )

    def _measure_catalog(self) -> None:
        """Create the metrics of loaded artifacts, the store, and builds."""
        self.artifacts_loaded = self._least("parsimony_artifacts_loaded", "Loaded artifacts")
        self.load_failures = Counter(
            "parsimony_artifact_load_failures_total", "Artifacts that failed to load", registry=self.registry
        )
        self.store_up = self._least("parsimony_store_up", "1 if the store is reachable, else 0")
        self.builds = self._gauge("parsimony_builds", "Builds by status", "status")
        self.builds_ended = self._gauge("parsimony_builds_ended", "Builds that ran and ended", "kind")
        self.building_seconds = self._gauge(
            "parsimony_building_seconds", "Total run time of ended builds, in seconds", "kind"
        )
        self.refreshed_at = self._least(
            "parsimony_catalog_refreshed_at_seconds",
            "Time of the last catalog refresh, in seconds of the machine's monotonic clock",
        )
        self.refreshed_at.set(time.monotonic())  # a process that has just begun is not late
        self._refresh_age = self._gauge(
            "parsimony_catalog_refresh_age_seconds", "Time since the last catalog refresh, in seconds"
        )

    def _measure_feedback(self) -> None:
        """Create the metrics of outcomes and drift."""
        self.feedback = Counter(
            "parsimony_feedback_total", "Outcomes received as feedback", ["kind", "name"], registry=self.registry
        )
        self.drift = self._gauge("parsimony_drift", "1 if a drift alarm is raised, else 0", "kind", "name", "quantity")
        self._raised: set[tuple[str, str, str]] = set()
        """Which gauges of drift have ever been raised: the others have no series."""

    def _measure_calls(self) -> None:
        """Create the metrics of calls to endpoints."""
        self.calls = Counter(
            "parsimony_calls_total", "Calls to endpoints by outcome", ["endpoint", "outcome"], registry=self.registry
        )
        self.call_seconds = Histogram(
            "parsimony_call_seconds",
            "Latency of calls to endpoints with retries, in seconds",
            ["endpoint"],
            registry=self.registry,
            buckets=_BUCKETS,
        )
        self.batches = self._gauge("parsimony_batches", "Batches by status", "status")
        self.batch_items = self._gauge("parsimony_batch_items", "Items of batches by outcome", "outcome")
        self.batch_spent = self._gauge("parsimony_batch_spent", "Total cost of batch items by unit", "unit")
        self.batch_circuits = self._gauge(
            "parsimony_batch_circuits_open", "Running batches whose circuit breaker of the endpoint is open", "endpoint"
        )
        self.circuit = self._gauge(
            "parsimony_circuit_open", "1 if the endpoint's circuit breaker is open, else 0", "endpoint"
        )

    def _measure_budgets(self) -> None:
        """Create the metrics of budgets."""
        self.budget_spent = self._gauge(
            "parsimony_budget_spent", "What ended items have used of a budget in its period", "budget", "quantity"
        )
        self.budget_amount = self._gauge(
            "parsimony_budget_amount", "Upper bound of a budget in a period", "budget", "quantity"
        )
        self.budget_outcomes = Counter(
            "parsimony_budget_outcomes_total",
            "Items by what a spent or unavailable budget has done: cheapest, refused, alert, offline, or unavailable",
            ["budget", "outcome"],
            registry=self.registry,
        )

    def _measure_rollouts(self) -> None:
        """Create the metrics of rollouts and recordings."""
        self.rollouts = self._gauge("parsimony_rollouts", "Last rollouts of artifacts by status", "status")
        self.automations_failed = self._gauge("parsimony_automations_failed", "Automations whose last step failed")
        self.rollout_observations_lost = Counter(
            "parsimony_rollout_observations_lost_total",
            "Observations of rollouts that were not added to the store: too many waited, or the server ended",
            registry=self.registry,
        )
        self.recording_rows_lost = Counter(
            "parsimony_recording_rows_lost_total",
            "Rows of runs that were not recorded by reason: overload (too many waited), disk, or encoding",
            ["reason"],
            registry=self.registry,
        )

    def set_budget_gauges(self, name: str, quantity: str, amount: float, spent: float) -> None:
        """Set the gauges of one bound of a budget."""
        self.budget_amount.labels(name, quantity).set(amount)
        self.budget_spent.labels(name, quantity).set(spent)

    def remove_budget(self, name: str) -> None:
        """Remove the series of a deleted budget.

        With several server processes, its gauges are set to 0 instead.
        """
        for quantity in get_args(Quantity):
            if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
                self.set_budget_gauges(name, quantity, 0.0, 0.0)
                continue
            for gauge in (self.budget_amount, self.budget_spent):
                with suppress(KeyError):
                    gauge.remove(name, quantity)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        """Return a gauge that every process sets to the same value; the latest is reported."""
        return Gauge(name, text, labels, registry=self.registry, multiprocess_mode="mostrecent")

    def _least(self, name: str, text: str) -> Gauge:
        """Return a gauge with a value per process; the least is reported, as it shows problems."""
        return Gauge(name, text, registry=self.registry, multiprocess_mode="livemin")

    def set_drift_gauges(self, kind: str, name: str, drifted: Collection[str]) -> None:
        """Set the drift gauges of an artifact, by its drifted quantities."""
        for quantity in DRIFT_QUANTITIES:
            key = kind, name, quantity
            if quantity in drifted or key in self._raised:
                self.drift.labels(*key).set(quantity in drifted)
                self._raised.add(key)

    def remove_artifact(self, kind: str, name: str) -> None:
        """Remove the series of a deleted artifact.

        With several server processes, the drift gauges are reset instead, because the shared files cannot drop
        series.
        """
        if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            self.set_drift_gauges(kind, name, ())
            return
        self._raised.difference_update((kind, name, quantity) for quantity in DRIFT_QUANTITIES)
        self.forgotten += 1
        own: list[tuple[MetricWrapperBase, tuple[str, ...]]] = [
            (self.feedback, (kind, name)),
            *((self.decisions, (kind, name, outcome)) for outcome in DECISION_OUTCOMES),
            *((self.drift, (kind, name, quantity)) for quantity in DRIFT_QUANTITIES),
        ]
        for metric, labels in own:
            with suppress(KeyError):  # older versions of the client complain of what is not there
                metric.remove(*labels)

    async def render_async(self) -> bytes:
        """Render all metrics in a thread; concurrent requests share one rendering.

        Rendering uses at most a tenth of the time. So after a rendering, requests wait for nine times its duration.
        """
        if self._rendering is None:
            self._rendering = asyncio.create_task(self._render_next())
        return await asyncio.shield(self._rendering)

    async def _render_next(self) -> bytes:
        """Wait until the pause after the last rendering is over, and render."""
        async with self._one_rendering:
            await asyncio.sleep(self._idle_until - time.monotonic())
            self._rendering = None  # a later request includes what happens from now on
            started = time.monotonic()
            body = await asyncio.get_running_loop().run_in_executor(self._writing, self.render_text)
            self._idle_until = time.monotonic() + PAUSE_SHARE * (time.monotonic() - started)
        return body

    def render_text(self) -> bytes:
        """Return all metrics in Prometheus' text format, merged over server processes."""
        folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
        families: list[Metric]
        if folder is None:
            registry, families = self.registry, list(self.refreshed_at.collect())
        else:
            _forget_ended(Path(folder))
            registry = CollectorRegistry()
            MultiProcessCollector(registry)
            families = MultiProcessCollector.merge([str(path) for path in Path(folder).glob("gauge_livemin_*.db")])
        # Here, not by the thread that refreshes: that one may be what hangs.
        self._refresh_age.set(time.monotonic() - _refreshed_at(families))
        return generate_latest(registry)


def _refreshed_at(families: list[Metric]) -> float:
    """Return the time at which the server process furthest behind last read the pointers."""
    samples = [sample for family in families for sample in family.samples]
    return next((each.value for each in samples if each.name == "parsimony_catalog_refreshed_at_seconds"), 0.0)


def _forget_ended(folder: Path) -> None:
    """Remove the gauges of processes that have ended; their counters remain."""
    for path in folder.glob("gauge_live*_*.db"):
        process = int(path.stem.rpartition("_")[2])
        if process != os.getpid() and not _is_sibling(process):
            mark_process_dead(process, str(folder))


def _is_sibling(process: int) -> bool:
    """Return whether a process is alive and has our parent; process ids can be reused."""
    try:
        state, parent = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return False
    return state != "Z" and int(parent) == os.getppid()
