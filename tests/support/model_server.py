"""A server of the trained classifiers, a process of its own, that speaks every protocol and has faults by switch.

``python -m tests.support.model_server PORT``: ``/json/NAME``, ``/v2/models/NAME/infer``, ``/v1/chat/completions``,
``/v1/embeddings``, ``/features/NAME``; ``PUT /faults`` with {name: fault} switches faults on, ``GET /calls`` counts.
"""

import asyncio
import json
import math
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from app.processes.parent_death import die_with_parent
from tests.support.trained import embedding, trained

HANG_S = 30.0


class Models:
    """The handlers, what is switched on, and what was counted."""

    def __init__(self) -> None:
        self.faults: dict[str, str] = {}
        self.calls: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.left: Counter[str] = Counter()
        self.texts = 0
        self.keys: set[str] = set()

    async def switch(self, request: Request) -> Response:
        """Set the faults, and begin to count anew; whoever leaves a call that began before is counted no more."""
        self.faults, self.texts = await request.json(), 0
        self.calls, self.answered, self.left = Counter(), Counter(), Counter()
        return Response(status_code=204)

    async def counted(self, request: Request) -> Response:
        """Tell the counts: calls that came, answers that were given, callers that left before."""
        counted = {"calls": self.calls, "answered": self.answered, "left": self.left, "texts": self.texts}
        return JSONResponse({**counted, "keys": sorted(self.keys)})

    async def json(self, request: Request) -> Response:
        name = request.path_params["name"]
        body = (
            {"pixels": json.loads(request.query_params["pixels"])} if request.method == "GET" else await request.json()
        )
        self.keys.add(request.headers.get("x-key", ""))
        shares = trained().answer(name, body["pixels"])
        best = max(shares, key=lambda label: shares[label])
        return await self._given(request, name, {"answer": {"label": best, "sure": shares[best]}, "all": shares})

    async def infer(self, request: Request) -> Response:
        name, body = request.path_params["name"], await request.json()
        shares = trained().answer(name, body["inputs"][0]["data"])
        tensor = {"name": "probabilities", "datatype": "FP64", "shape": [1, 10], "data": list(shares.values())}
        return await self._given(request, name, {"model_name": name, "outputs": [tensor]})

    async def chat(self, request: Request) -> Response:
        """Answer a chat whose last message is an image, as a language model that knows nothing else would."""
        body = await request.json()
        name = body["model"]
        shares = trained().answer(name, json.loads(body["messages"][-1]["content"]))
        best = max(shares, key=lambda label: shares[label])
        message = {"role": "assistant", "content": best}
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": "stop"}
        if body.get("logprobs"):
            choice["logprobs"] = {"content": [{"token": best, "logprob": math.log(max(shares[best], 1e-9))}]}
        usage = {"prompt_tokens": 64, "completion_tokens": 1, "total_tokens": 65}
        head = {"id": "c", "object": "chat.completion", "created": 1, "model": name}
        reply = {**head, "choices": [choice], "usage": usage}
        if body.get("stream") and self.faults.get(name) in (None, "break"):
            text = f"the digit is {best}" if body.get("user") == "spell" else best
            return StreamingResponse(self._pieces(name, text, reply), media_type="text/event-stream")
        return await self._given(request, name, reply)

    async def embed(self, request: Request) -> Response:
        """Embed images written as JSON, one or a list of them, told in another order than they came; what is no image
        is refused, and with it the request."""
        body = await request.json()
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        self.texts += len(texts)
        try:
            vectors = embedding(np.array([json.loads(text) for text in texts])).tolist()
        except ValueError:
            self.calls["embedder"] += 1
            return JSONResponse({"error": {"message": "what an image"}}, status_code=400)
        if self.faults.get("embedder") == "other-length":
            vectors = [vector[:3] for vector in vectors]
        if self.faults.get("embedder") == "beyond":
            vectors = [[1e300] * len(vector) for vector in vectors]
        data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
        usage = {"prompt_tokens": 64 * len(texts)}
        reply = {"object": "list", "data": data[::-1], "model": "e", "usage": usage}
        return await self._given(request, "embedder", reply)

    async def feature(self, request: Request) -> Response:
        name, body = request.path_params["name"], await request.json()
        return await self._given(request, name, {"values": body["item"][name]})

    async def _pieces(self, name: str, text: str, reply: dict[str, Any]) -> AsyncIterator[str]:
        self.calls[name] += 1
        for piece in (*text, None):
            delta = {} if piece is None else {"content": piece}
            choice = {"index": 0, "delta": delta, "finish_reason": None if piece else "stop"}
            chunk = reply | {"object": "chat.completion.chunk", "choices": [choice]}
            yield f"data: {json.dumps(chunk)}\n\n"
            await asyncio.sleep(0.01)
            if self.faults.get(name) == "break":
                yield "data: {}}\n\n"
        yield "data: [DONE]\n\n"

    async def _given(self, request: Request, name: str, reply: dict[str, Any]) -> Response:
        self.calls[name] += 1
        left = self.left
        match self.faults.get(name):
            case "slow":
                await asyncio.sleep(0.3)
            case "hang":
                for _ in range(int(HANG_S / 0.05)):
                    if await request.is_disconnected():
                        left[name] += 1
                        break
                    await asyncio.sleep(0.05)
                return Response(status_code=500)
            case "reset":
                return StreamingResponse(self._broken(), headers={"content-length": "1000"})
            case "busy":
                return Response(status_code=429, headers={"retry-after": "0"})
            case "busy-once":
                if self.calls[name] == 1:
                    return Response(status_code=429, headers={"retry-after": "0"})
            case "busy-a-second":
                if self.calls[name] == 1:
                    return Response(status_code=429, headers={"retry-after": "1"})
            case "error":
                return Response("a secret trace", status_code=500)
            case "garbage":
                return Response("<html>")
            case "endless":
                return StreamingResponse(self._endless(), media_type="application/json")
            case "no-such-digit":
                return JSONResponse({"choices": [{"message": {"content": "none"}}], "usage": {"prompt_tokens": 64}})
            case "bad-item":
                return Response(status_code=422)
            case "echo":
                return JSONResponse({"answer": {"label": request.headers.get("x-key"), "sure": 1.0}})
            case "wrong-shape":
                return JSONResponse({"something": "else"})
            case "redirect":
                return Response(status_code=307, headers={"location": "http://169.254.169.254/"})
        self.answered[name] += 1
        return JSONResponse(reply)

    async def _broken(self) -> AsyncIterator[bytes]:
        yield b"{"
        raise ConnectionError("switched on")

    async def _endless(self) -> AsyncIterator[bytes]:
        while True:
            yield b" " * 2**12
            await asyncio.sleep(0.001)


def application() -> Starlette:
    models = Models()
    trained()
    routes = [
        Route("/faults", models.switch, methods=["PUT"]),
        Route("/calls", models.counted),
        Route("/json/{name}", models.json, methods=["GET", "POST"]),
        Route("/v2/models/{name}/infer", models.infer, methods=["POST"]),
        Route("/v1/chat/completions", models.chat, methods=["POST"]),
        Route("/v1/embeddings", models.embed, methods=["POST"]),
        Route("/features/{name}", models.feature, methods=["POST"]),
    ]
    return Starlette(routes=routes)


if __name__ == "__main__":
    die_with_parent(signal.SIGTERM, os.getppid())  # a run of tests that is killed leaves none behind
    uvicorn.run(application(), host="127.0.0.1", port=int(sys.argv[1]), log_level="critical")
