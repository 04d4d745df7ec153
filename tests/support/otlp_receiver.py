"""A receiver of OpenTelemetry's traces and metrics by OTLP over HTTP, in a thread of the tests."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.support.wire import serving


@dataclass(frozen=True)
class ReceivedSpan:
    """A span: its name, ids in hexadecimal digits, kind by number, whether it is an error, and its attributes."""

    name: str
    trace: str
    span: str
    parent: str
    kind: int
    is_error: bool
    attributes: Mapping[str, Any]


@dataclass
class OtlpReceiver:
    """What was received."""

    url: str = ""
    spans: list[ReceivedSpan] = field(default_factory=list)
    points: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Attributes and sum of each point of the last export, by metric."""
    resources: list[dict[str, Any]] = field(default_factory=list)

    async def take_traces(self, request: Request) -> Response:
        sent = ExportTraceServiceRequest.FromString(await request.body())
        for resource in sent.resource_spans:
            self.resources.append(_attributes(resource.resource.attributes))
            self.spans += [_span(span) for scope in resource.scope_spans for span in scope.spans]
        return Response(media_type="application/x-protobuf")

    async def take_metrics(self, request: Request) -> Response:
        sent = ExportMetricsServiceRequest.FromString(await request.body())
        for resource in sent.resource_metrics:
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                points = metric.histogram.data_points
                self.points[metric.name] = [{**_attributes(one.attributes), "sum": one.sum} for one in points]
        return Response(media_type="application/x-protobuf")


def _span(span: Any) -> ReceivedSpan:
    ids = (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex())
    return ReceivedSpan(span.name, *ids, span.kind, span.status.code == 2, _attributes(span.attributes))


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(one) for one in value.array_value.values] if kind == "array_value" else getattr(value, kind)


@contextmanager
def running_receiver() -> Iterator[OtlpReceiver]:
    receiver = OtlpReceiver()
    routes = [
        Route("/v1/traces", receiver.take_traces, methods=["POST"]),
        Route("/v1/metrics", receiver.take_metrics, methods=["POST"]),
    ]
    with serving(Starlette(routes=routes)) as port:
        receiver.url = f"http://127.0.0.1:{port}"
        yield receiver
