"""Answers to chats as server-sent events.

The chunks of the last call are sent as they arrive, or the answer is sent as a whole.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.background import BackgroundTask

from app.http.problem_details import protocol_error_body
from app.routes.runs import cancel_on_disconnect
from app.running.endpoint_caller import ChunkStream
from app.running.item_run import ItemRun
from app.running.item_start import RunDependencies
from app.running.protocols.chat_stream import to_deltas
from app.running.protocols.openai_replies import ChatFormat
from app.running.runs import CompletedItem, run_item
from app.serving.catalog import LoadedArtifact
from models.chat import ChatRequest
from models.errors import ParsimonyError
from solvers.base import Plan

Chunk = Mapping[str, Any]
Complete = Callable[[CompletedItem], dict[str, Any]]
"""Returns the completion of an answered run."""


@dataclass(slots=True)
class _Stream:
    """A run, the chunks of its last call, and the held-back ends of its choices.

    The ends are sent after the run has ended.
    """

    request: ChatRequest
    running: "asyncio.Future[CompletedItem]"
    chunks: "asyncio.Queue[Chunk]"
    complete: Complete
    ends: list[dict[str, Any]] = field(default_factory=list)

    async def read_chunks(self, first: Chunk) -> AsyncIterator[Chunk]:
        """Yield the chunks as they arrive, until the run has ended."""
        yield first
        while not (self.running.done() and self.chunks.empty()):
            following = asyncio.ensure_future(self.chunks.get())
            try:
                either: set[asyncio.Future[Any]] = {self.running, following}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if following.done():
                    yield following.result()
            finally:
                following.cancel()

    def take_choices(self, chunk: Chunk) -> list[dict[str, Any]]:
        """Return the choices of a chunk to forward; finished ones wait for the run's end."""
        choices = [one for one in chunk.get("choices") or () if isinstance(one, dict)]
        if not (self.request.model_extra or {}).get("logprobs"):
            choices = [{name: value for name, value in one.items() if name != "logprobs"} for one in choices]
        self.ends += [one for one in choices if one.get("finish_reason") is not None]
        return [one for one in choices if one.get("finish_reason") is None]


async def stream_run(
    request: ChatRequest,
    chat_format: ChatFormat,
    http: Request,
    loaded: LoadedArtifact[Plan],
    item_run: ItemRun,
    dependencies: RunDependencies,
    complete: Complete,
    *,
    has_limit: bool,
    make_headers: Callable[[LoadedArtifact[Plan], ItemRun], dict[str, str]],
) -> Response:
    """Answer by server-sent events; errors before the first chunk have an HTTP status.

    Args:
        has_limit: whether the run's time limit also ends a streamed answer.
    """
    chunks: asyncio.Queue[Chunk] = asyncio.Queue()
    sink = ChunkStream(chunks.put_nowait, item_run.ends_at if has_limit else inf)
    running = asyncio.ensure_future(run_item(loaded, item_run, dependencies, sink))
    first = asyncio.ensure_future(chunks.get())
    either: set[asyncio.Future[Any]] = {running, first}
    try:
        await cancel_on_disconnect(http, asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED))
        if not first.done():
            await running  # an error still sets the status
        headers = make_headers(loaded, item_run)
    except BaseException:
        running.cancel()
        raise
    finally:
        begun = first.result() if first.done() and not first.cancelled() else None
        first.cancel()
    events = _write_events(_Stream(request, running, chunks, complete), begun, chat_format, http)
    ending = BackgroundTask(running.cancel)  # also where the caller leaves before the first event
    return StreamingResponse(events, media_type="text/event-stream", headers=headers, background=ending)


async def _write_events(
    stream: _Stream, first: Chunk | None, chat_format: ChatFormat, http: Request
) -> AsyncIterator[bytes]:
    """Yield the chunks, then the ends of the choices with the run."""
    try:
        if first is not None:
            async for chunk in stream.read_chunks(first):
                choices = stream.take_choices(chunk)
                if choices:
                    yield chat_format.write_chunk({**chunk, "choices": choices})
        completion = stream.complete(await stream.running)
        begun, ended = to_deltas(completion)
        if first is None:
            yield chat_format.write_chunk({"choices": stream.take_choices(begun)})
        yield chat_format.write_end(completion, stream.ends or ended["choices"])
    except ParsimonyError as error:
        yield chat_format.write_error(protocol_error_body(error, http.url.path, http.state.request_id))
    finally:
        stream.running.cancel()
