"""The applications that a run is held against: a model that answers at once, and a bare proxy in front of it."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

_CHOICE = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "cat"}}
_TOKENS = {"content": [{"token": "cat", "logprob": -0.01, "bytes": [99, 97, 116], "top_logprobs": []}]}
CHAT = orjson.dumps(
    {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "fast",
        "choices": [{**_CHOICE, "logprobs": _TOKENS}],
        "usage": {"prompt_tokens": 8, "completion_tokens": 1, "total_tokens": 9},
    }
)


def model() -> ASGIApp:
    """Make a model behind OpenAI's chat API that answers the same at once."""

    async def chat(request: Request) -> Response:
        await request.body()
        return Response(CHAT, media_type="application/json")

    return Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])


def proxy() -> ASGIApp:
    """Make a proxy that passes a chat on to the model, and the reply back, with the HTTP library that runs use."""
    target = os.environ["BENCH_MODEL"]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, aiohttp.ClientSession]]:
        async with aiohttp.ClientSession() as session:
            yield {"session": session}

    async def chat(request: Request) -> Response:
        headers = {"content-type": "application/json"}
        async with request.state.session.post(target, data=await request.body(), headers=headers) as reply:
            return Response(await reply.read(), reply.status, media_type="application/json")

    return Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])], lifespan=lifespan)
