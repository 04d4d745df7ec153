"""Sends OpenTelemetry traces and metrics by OTLP over HTTP; imported only if tracing is on."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import Histogram
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from app.observability.genai_attributes import (
    Attributes,
    describe_call,
    describe_decision,
    describe_operation,
    describe_result,
    describe_run,
    error_type,
)
from app.observability.tracing import TracedCall, TracedRequest, TracedRun, Tracing
from models import ArtifactRef
from models.endpoint import ChatEndpoint, EmbeddingsEndpoint, Endpoint
from models.errors import ParsimonyError
from models.run import Run
from parsimony.runs.steps import CallResult

SERVER_FAULT = 500
_CONTEXT_HEADERS = (b"traceparent", b"tracestate")
_PROPAGATOR = TraceContextTextMapPropagator()
_CALL_SECONDS = tuple(0.01 * 2**step for step in range(14))
_TOKENS = tuple(4.0**step for step in range(14))
_REQUEST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""Bounds of the histograms' buckets, as the semantic conventions advise."""


class OpenTelemetry(Tracing):
    """Sender of traces and metrics.

    The OpenTelemetry library reads further ``OTEL_*`` variables itself.
    """

    is_on = True

    def __init__(self, traces: TracerProvider, metrics: MeterProvider) -> None:
        self._traces, self._metrics = traces, metrics
        self._tracer, meter = traces.get_tracer("parsimony"), metrics.get_meter("parsimony")
        self._request_seconds = meter.create_histogram(
            "http.server.request.duration", "s", explicit_bucket_boundaries_advisory=_REQUEST_SECONDS
        )
        self._call_seconds = meter.create_histogram(
            "gen_ai.client.operation.duration", "s", explicit_bucket_boundaries_advisory=_CALL_SECONDS
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", "{token}", explicit_bucket_boundaries_advisory=_TOKENS
        )

    @classmethod
    def from_environment(cls, version: str, environ: Mapping[str, str]) -> "OpenTelemetry":
        """Return the sender configured by environment variables."""
        about = {"service.name": "parsimony", "service.version": version, "service.instance.id": str(uuid4())}
        resource = Resource.create(about).merge(OTELResourceDetector().detect())
        traces = TracerProvider(resource=resource)
        processors: list[SpanProcessor] = []
        readers: list[MetricReader] = []
        if environ.get("OTEL_TRACES_EXPORTER") != "none":
            processors.append(BatchSpanProcessor(OTLPSpanExporter()))
        if environ.get("OTEL_METRICS_EXPORTER") != "none":
            readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
        for processor in processors:
            traces.add_span_processor(processor)
        return cls(traces, MeterProvider(readers, resource))

    @contextmanager
    def trace_request(self, scope: Mapping[str, Any]) -> Iterator[TracedRequest]:
        """Trace a request; if its headers have a trace, as part of it."""
        sent = {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in _CONTEXT_HEADERS}
        about = {"http.request.method": scope["method"], "url.path": scope["path"], "url.scheme": scope["scheme"]}
        with self._tracer.start_as_current_span(
            scope["method"], _PROPAGATOR.extract(sent), SpanKind.SERVER, about, record_exception=False
        ) as span:
            yield _Request(span, self._request_seconds)

    @contextmanager
    def trace_run(self, artifact: ArtifactRef) -> Iterator[TracedRun]:
        """Trace the run of an item by an artifact."""
        about: Attributes = {
            "parsimony.artifact.kind": artifact.kind,
            "parsimony.artifact.name": artifact.name,
            "parsimony.artifact.version": artifact.version,
        }
        name = f"run {artifact.kind}/{artifact.name}"
        with self._tracer.start_as_current_span(name, attributes=about, record_exception=False) as span:
            yield _Run(span)

    @contextmanager
    def trace_call(self, name: str, endpoint: Endpoint, body: Any) -> Iterator[TracedCall]:
        """Trace a call of an endpoint, including retries."""
        title, about = describe_call(name, endpoint, body)
        with self._tracer.start_as_current_span(
            title, kind=SpanKind.CLIENT, attributes=about, record_exception=False
        ) as span:
            yield _Call(span, endpoint, self._call_seconds, self._tokens)

    def close(self) -> None:
        """Send the remaining spans and metrics, and stop."""
        self._traces.shutdown()
        self._metrics.shutdown()


class _Request(TracedRequest):
    """The span of a request."""

    def __init__(self, span: Span, seconds: Histogram) -> None:
        self._span, self._seconds, self._started = span, seconds, time.perf_counter()

    def record_reply(self, scope: Mapping[str, Any], route: str, status: int) -> None:
        about: Attributes = {"http.route": route, "http.response.status_code": status}
        if status >= SERVER_FAULT:
            about["error.type"] = str(status)
            self._span.set_status(StatusCode.ERROR)
        self._span.update_name(f"{scope['method']} {route}")
        self._span.set_attributes({**about, "parsimony.request_id": scope["state"]["request_id"]})
        about |= {"http.request.method": scope["method"], "url.scheme": scope["scheme"]}
        self._seconds.record(time.perf_counter() - self._started, about)


class _Run(TracedRun):
    """The span of a run."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def record_decision(self, facts: Mapping[str, Any], explain: Callable[[], Mapping[str, Any]]) -> None:
        if self._span.is_recording():
            self._span.set_attributes(describe_decision(facts, explain()))

    def record_run(self, run: Run) -> None:
        self._span.set_attributes(describe_run(run))

    def record_error(self, error: ParsimonyError) -> None:
        self._span.set_attribute("error.type", type(error).__name__)
        self._span.set_status(StatusCode.ERROR)


class _Call(TracedCall):
    """The span of a call, and its metrics."""

    def __init__(self, span: Span, endpoint: Endpoint, seconds: Histogram, tokens: Histogram) -> None:
        self._span, self._endpoint, self._seconds, self._tokens = span, endpoint, seconds, tokens
        headers: dict[str, str] = {}
        _PROPAGATOR.inject(headers)
        self.headers = headers

    def record_result(self, result: CallResult) -> None:
        self._span.set_attributes(describe_result(result))
        if result.error is not None:
            self._span.set_status(Status(StatusCode.ERROR, result.error))
        if not isinstance(self._endpoint, ChatEndpoint | EmbeddingsEndpoint) or not result.attempts:
            return
        about = describe_operation(self._endpoint)
        failed = error_type(result)
        self._seconds.record(result.seconds, about | ({"error.type": failed} if failed else {}))
        for kind, count in zip(("input", "output"), result.tokens, strict=True):
            if count:
                self._tokens.record(count, about | {"gen_ai.token.type": kind})
