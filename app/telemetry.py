"""Metrics, logs and request ids: one pure-ASGI layer around everything."""

import json
import logging
import os
import re
import sys
import time
from itertools import count
from pathlib import Path
from secrets import token_hex

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.access_log import UTC, AccessLog
from app.problems import internal_problem
from app.settings import misspelt

logger = logging.getLogger("parsimony.access")
_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_DECIDING = (1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 0.01, 0.05, 0.25, 1.0, 5.0)
_GAPS = (1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0)
_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Every metric that the service exports, in a registry of its own."""

    def __init__(self) -> None:
        disable_created_metrics()  # a second series for each, which nobody reads
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "parsimony_requests_total", "Requests answered", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "parsimony_request_seconds", "Time to answer", ["route"], registry=self.registry, buckets=_BUCKETS
        )
        self.decisions = Counter(
            "parsimony_decisions_total", "Decisions asked for", ["solver", "name", "outcome"], registry=self.registry
        )
        self.decision_seconds = Histogram(
            "parsimony_decision_seconds",
            "Time to decide, the request's way to and from it left out",
            ["solver", "name"],
            registry=self.registry,
            buckets=_DECIDING,
        )
        self.gap = Histogram(
            "parsimony_assignment_gap",
            "How far assignments are, at most, from the best there is, as a share",
            ["name"],
            registry=self.registry,
            buckets=_GAPS,
        )
        self.spent = Histogram(
            "parsimony_assignment_spent",
            "Share of the budget that assignments cost",
            ["name"],
            registry=self.registry,
            buckets=_SHARES,
        )
        self.artifacts_loaded = self._least("parsimony_artifacts_loaded", "Artifacts in memory")
        self.load_failures = Counter(
            "parsimony_artifact_load_failures_total", "Artifacts that could not be loaded", registry=self.registry
        )
        self.store_up = self._least("parsimony_store_up", "Whether the store can be reached")
        self.builds = self._gauge("parsimony_builds", "Builds by what became of them", "status")
        self.builds_ended = self._gauge("parsimony_builds_ended", "Builds that ended after they ran", "solver")
        self.building_seconds = self._gauge("parsimony_building_seconds", "Time that ended builds ran", "solver")
        self.feedback = Counter(
            "parsimony_feedback_total", "Outcomes of decisions told", ["solver", "name"], registry=self.registry
        )
        self.drift = self._gauge(
            "parsimony_drift", "Whether outcomes have parted from estimates", "solver", "name", "quantity"
        )
        self.refreshed_at = self._least(
            "parsimony_catalog_refreshed_at_seconds", "When the pointers were last read, by the machine's own clock"
        )
        self.refreshed_at.set(time.monotonic())  # a process that has just begun is not late
        self._refresh_age = self._gauge(
            "parsimony_catalog_refresh_age_seconds", "Time since the pointers were last read"
        )

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        """Make a gauge that every server process sets to the same: of several the latest value counts."""
        return Gauge(name, text, labels, registry=self.registry, multiprocess_mode="mostrecent")

    def _least(self, name: str, text: str) -> Gauge:
        """Make a gauge of a server process itself: of several that live the least counts, for it is what is wrong."""
        return Gauge(name, text, registry=self.registry, multiprocess_mode="livemin")

    def render(self) -> bytes:
        """Write all metrics in Prometheus' text format, those of every server process if there are several."""
        registry, folder = self.registry, os.environ.get("PROMETHEUS_MULTIPROC_DIR")
        if folder is not None:
            _forget_ended(Path(folder))
            registry = CollectorRegistry()
            MultiProcessCollector(registry)
        # Here, not by the thread that refreshes: that one may be what hangs.
        refreshed_at = registry.get_sample_value("parsimony_catalog_refreshed_at_seconds") or 0.0
        self._refresh_age.set(time.monotonic() - refreshed_at)
        return generate_latest(registry)


def _forget_ended(folder: Path) -> None:
    """Remove what processes that have ended said of themselves; what they counted stays."""
    for path in folder.glob("gauge_live*_*.db"):
        process = int(path.stem.rpartition("_")[2])
        if process != os.getpid() and not _is_sibling(process):
            mark_process_dead(process, str(folder))


def _is_sibling(process: int) -> bool:
    """Tell whether a process lives and has our parent: its number may be another's by now."""
    try:
        state, parent = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return False
    return state != "Z" and int(parent) == os.getppid()


Series = tuple[Counter, Histogram]
"""The counter of a method, route and status, and the times of the route."""


class Telemetry:
    """Gives each request an id, counts and times it, logs it, and turns a bug into a 500 without a trace."""

    def __init__(self, app: ASGIApp, metrics: Metrics, log: AccessLog | None = None) -> None:
        self.app, self.metrics, self.log = app, metrics, log
        self._series: dict[tuple[str, str, int], Series] = {}
        self._made = count()
        self._process = token_hex(8)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._live(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = _given_id(scope) or f"{self._process}{next(self._made):016x}"
        scope.setdefault("state", {})["request_id"] = request_id
        status = 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        except Exception:
            logger.exception("request %s failed", request_id)
            if not status:
                await internal_problem(request_id)(scope, receive, send_with_id)
        finally:
            self._account(scope, status, time.perf_counter() - started)

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the application's start and end on; at the end nothing is held back any longer."""
        try:
            await self.app(scope, receive, send)
        finally:
            if self.log is not None:
                self.log.flush()

    def _account(self, scope: Scope, status: int, seconds: float) -> None:
        key = scope["method"], route_of(scope), status
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = (self.metrics.requests.labels(*key), self.metrics.seconds.labels(key[1]))
        series[0].inc()
        series[1].observe(seconds)
        if self.log is not None:
            self.log.note(scope, status, seconds)


def route_of(scope: Scope) -> str:
    """Give the route's template, so that names in paths make no new series; unknown paths are one route."""
    label = scope["state"].get("route")
    if label is not None:
        return str(label)
    return str(getattr(scope.get("route"), "path", "unmatched"))


def _given_id(scope: Scope) -> str | None:
    """Take the caller's id, if it sent one of at most 128 visible ASCII characters."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _ID.fullmatch(value):
            return str(value.decode())
    return None


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": self.formatTime(record, UTC) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def configure_logging(level: str, style: str) -> None:
    """Send our log and the server's to standard error, in one format."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)-7s %(name)s %(message)s", UTC)
    formatter = JsonFormatter() if style == "json" else text
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("rq").setLevel("WARNING")


def warn_of_misspelt() -> None:
    """Log which variables of the environment are no settings, but nearly."""
    for name, meant in misspelt(os.environ).items():
        logging.getLogger("parsimony").warning("%s is no setting and is ignored; %s is one", name, meant)
