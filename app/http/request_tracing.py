"""Traces of all requests; ASGI middleware, installed only if tracing is on."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.telemetry import get_route_template
from app.observability.tracing import Tracing


class RequestTracing:
    """Outermost middleware, which traces requests."""

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self.app, self.tracing = app, tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status = 500  # unless a reply begins

        async def send_noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with self.tracing.trace_request(scope) as traced:
            try:
                await self.app(scope, receive, send_noting)
            finally:
                traced.record_reply(scope, get_route_template(scope), status)
