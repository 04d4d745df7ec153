"""Traces of requests, runs, and calls; these base classes record nothing.

They are used if tracing is off.
"""

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from typing import Any

from models import ArtifactRef
from models.endpoint import Endpoint
from models.errors import ParsimonyError
from models.run import Run
from parsimony.runs.steps import CallResult

logger = logging.getLogger("parsimony")
ENDPOINTS = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)
"""Environment variables that enable OpenTelemetry, if any of them is set."""
PROTOCOL, SUPPORTED_PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"


class TracedRequest:
    """A request; this base class records nothing."""

    def record_reply(self, scope: Mapping[str, Any], route: str, status: int) -> None:
        """Record the reply's status."""


class TracedRun:
    """A run of an item; this base class records nothing."""

    def record_decision(self, facts: Mapping[str, Any], explain: Callable[[], Mapping[str, Any]]) -> None:
        """Record the decision and the reasons that ``explain`` returns."""

    def record_run(self, run: Run) -> None:
        """Record the answer, its cost, and the reason if it is degraded."""

    def record_error(self, error: ParsimonyError) -> None:
        """Record the error of a failed run."""


class TracedCall:
    """A call of an endpoint; this base class records nothing."""

    headers: Mapping[str, str] = {}
    """Headers that pass the trace context on to the endpoint."""

    def record_result(self, result: CallResult) -> None:
        """Record the result, its tokens, and its cost."""


_REQUEST, _RUN, _CALL = nullcontext(TracedRequest()), nullcontext(TracedRun()), nullcontext(TracedCall())


class Tracing:
    """Tracing that is off: nothing is recorded."""

    is_on = False

    def trace_request(self, scope: Mapping[str, Any]) -> AbstractContextManager[TracedRequest]:
        """Return a context manager for the span of a request."""
        return _REQUEST

    def trace_run(self, artifact: ArtifactRef) -> AbstractContextManager[TracedRun]:
        """Return a context manager for the span of a run."""
        return _RUN

    def trace_call(self, name: str, endpoint: Endpoint, body: Any) -> AbstractContextManager[TracedCall]:
        """Return a context manager for the span of a call."""
        return _CALL

    def close(self) -> None:
        """Send the remaining spans and metrics, and stop."""


def open_tracing(version: str, environ: Mapping[str, str] = os.environ) -> Tracing:
    """Return the tracing that the ``OTEL_*`` variables configure; by default it is off.

    If tracing cannot start, the reason is logged, and the server runs without it.
    """
    named = next((name for name in ENDPOINTS if environ.get(name)), None)
    if named is None or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return Tracing()
    protocol = environ.get(PROTOCOL, SUPPORTED_PROTOCOL)
    if protocol != SUPPORTED_PROTOCOL:
        logger.warning("traces are off: %s must be %s, got %r", PROTOCOL, SUPPORTED_PROTOCOL, protocol)
        return Tracing()
    if find_spec("opentelemetry.sdk") is None or find_spec("opentelemetry.exporter.otlp.proto.http") is None:
        logger.warning("traces are off: %s is set, but a library is missing; install parsimony-server[otel]", named)
        return Tracing()
    from app.observability.opentelemetry import OpenTelemetry

    return OpenTelemetry.from_environment(version, environ)
