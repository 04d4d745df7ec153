"""Two language models and an embedder behind OpenAI's API, in a thread of the tests, with switches for their faults.

Prompts that contain ``easy`` are answered with confidence by both models, others only by ``strong``.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from app.store import codec
from models import TraceSpec, dataset_from_columns
from tests.support.replays import built
from tests.support.wire import serving

COSTS = {"cheap": 0.001, "strong": 0.03}
WORDS = ("answer", " of", " several", " words")
ROWS = 400


class LlmServer:
    """The handlers, the switches of each model, and the requests that each model received."""

    url: str
    """Where it is served."""

    def __init__(self) -> None:
        self.switches: dict[str, dict[str, Any]] = {}
        self.bodies: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.headers: dict[str, list[dict[str, str]]] = defaultdict(list)

    def switch(self, **switches: dict[str, Any]) -> None:
        """Set the switches of each model, and forget all requests.

        Switches: status (with body, headers), delay_s, piece_delay_s, break_after (pieces), message, finish_reason,
        contents (of replies in turn),
        cached_tokens, strict (refuses what reasoning models refuse), fails_after (requests of
        the embedder), number (that it returns).
        """
        self.switches = switches
        self.bodies.clear()
        self.headers.clear()

    def calls(self) -> dict[str, int]:
        return {name: len(bodies) for name, bodies in self.bodies.items()}

    def endpoint(self, name: str, **changes: Any) -> dict[str, Any]:
        shape = {"protocol": "openai-chat", "url": self.url, "model": name}
        return {**shape, "retries": {"backoff_s": 0.0}, **changes}

    def embedder(self, **changes: Any) -> dict[str, Any]:
        return {"protocol": "openai-embeddings", "url": self.url, "model": "embedder", **changes}

    async def embed(self, request: Request) -> Response:
        body = await request.json()
        self.bodies["embedder"].append(body)
        switches = self.switches.get("embedder", {})
        if "status" in switches:
            return _refuse(switches)
        if len(self.bodies["embedder"]) > switches.get("fails_after", inf):
            return _refuse({"status": 401})
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        vectors = [[switches["number"]] if "number" in switches else embed(text) for text in texts]
        data = [{"object": "embedding", "index": at, "embedding": one} for at, one in enumerate(vectors)]
        usage = {"prompt_tokens": 5, "total_tokens": 5}
        return JSONResponse({"object": "list", "data": data, "model": "embedder", "usage": usage})

    async def chat(self, request: Request) -> Response:
        body = await request.json()
        self.bodies[body["model"]].append(body)
        self.headers[body["model"]].append(dict(request.headers))
        switches = self.switches.get(body["model"], {})
        if "status" in switches:
            return _refuse(switches)
        refused = next((name for name in ("max_tokens", "logprobs", "temperature") if name in body), None)
        if switches.get("strict") and refused:
            error = {"message": f"Unsupported parameter: '{refused}'", "code": "unsupported_parameter"}
            return JSONResponse({"error": {**error, "param": refused}}, 400)
        if contents := switches.get("contents"):
            switches = {
                **switches,
                "message": {"content": contents[(len(self.bodies[body["model"]]) - 1) % len(contents)]},
            }
        await asyncio.sleep(switches.get("delay_s", 0))
        reply = complete(body, switches)
        if body.get("stream"):
            return StreamingResponse(_stream(body, reply, switches), media_type="text/event-stream")
        return JSONResponse(reply)


def embed(text: str) -> list[float]:
    return [1.0, 0.0] if "easy" in text else [0.0, 1.0]


def _refuse(switches: dict[str, Any]) -> Response:
    error = {"error": {"message": "refused by a switch", "type": "test", "param": None, "code": "switched"}}
    return JSONResponse(switches.get("body", error), switches["status"], headers=switches.get("headers"))


def complete(body: dict[str, Any], switches: dict[str, Any]) -> dict[str, Any]:
    """Answer a chat: with words, or with a call of its first tool."""
    prompt = json.dumps([one for one in body["messages"] if one["role"] == "user"][-1:])
    sure = body["model"] == "strong" or "easy" in prompt
    logprob = -0.02 if sure else -2.5
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or 1000
    words = list(WORDS[:limit])
    message: dict[str, Any] = {"role": "assistant", "content": "".join(words), "refusal": None}
    finish = "length" if limit < len(WORDS) else "stop"
    if body.get("tools") and body.get("tool_choice") != "none":
        function = {"name": body["tools"][0]["function"]["name"], "arguments": '{"x": 1}'}
        calls = [{"id": "call_1", "type": "function", "function": function}]
        message, finish = {"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls"
    message |= switches.get("message", {})
    choice = {"message": message, "finish_reason": switches.get("finish_reason", finish)}
    if body.get("logprobs"):
        tokens: list[Any] = [{"token": word, "logprob": logprob, "bytes": None, "top_logprobs": []} for word in words]
        choice["logprobs"] = {"content": tokens, "refusal": None}
    details = {"cached_tokens": switches.get("cached_tokens", 0)}
    usage = {"prompt_tokens": 1000, "completion_tokens": len(words), "total_tokens": 1000 + len(words)}
    head = {"id": "chatcmpl-x", "object": "chat.completion", "created": 1, "model": body["model"]}
    choices = [{"index": at, **choice} for at in range(body.get("n", 1))]
    more = {"system_fingerprint": "fp_1", "usage": {**usage, "prompt_tokens_details": details}}
    return {**head, "choices": choices, **more}


async def _stream(body: dict[str, Any], reply: dict[str, Any], switches: dict[str, Any]) -> AsyncIterator[str]:
    head = {**reply, "object": "chat.completion.chunk", "usage": None}
    for choice in reply["choices"]:
        tokens = iter((choice.get("logprobs") or {"content": []})["content"])
        for at, delta in enumerate(_deltas(choice["message"])):
            if at == switches.get("break_after"):
                return
            piece: dict[str, Any] = {"index": choice["index"], "delta": delta, "finish_reason": None}
            if delta.get("content") or delta.get("tool_calls"):
                piece["logprobs"] = {"content": [token for token in [next(tokens, None)] if token], "refusal": None}
            yield f"data: {json.dumps({**head, 'choices': [piece]})}\n\n"
            await asyncio.sleep(switches.get("piece_delay_s", 0))
        end = {"index": choice["index"], "delta": {}, "finish_reason": choice["finish_reason"]}
        yield f"data: {json.dumps({**head, 'choices': [end]})}\n\n"
    if (body.get("stream_options") or {}).get("include_usage"):
        yield f"data: {json.dumps({**head, 'choices': [], 'usage': reply['usage']})}\n\n"
    yield "data: [DONE]\n\n"


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Cut a message into deltas: the role, each text word by word, and each tool call in pieces."""
    yield {"role": "assistant", "content": None}
    for name, value in message.items():
        if name != "role" and isinstance(value, str):
            words = value.split(" ")
            yield from ({name: word if at == 0 else f" {word}"} for at, word in enumerate(words))
    for at, call in enumerate(message.get("tool_calls") or []):
        arguments = call["function"]["arguments"]
        yield {"tool_calls": [{**call, "index": at, "function": {**call["function"], "arguments": ""}}]}
        for letter in arguments:
            yield {"tool_calls": [{"index": at, "function": {"arguments": letter}}]}


@contextmanager
def running_llms() -> Iterator[LlmServer]:
    llms = LlmServer()
    routes = [
        Route("/v1/chat/completions", llms.chat, methods=["POST"]),
        Route("/v1/embeddings", llms.embed, methods=["POST"]),
    ]
    with serving(Starlette(routes=routes)) as port:
        llms.url = f"http://127.0.0.1:{port}/v1"
        yield llms


def chat_artifacts(name: str = "chat", **more: Any) -> Iterator[bytes]:
    """Give a cascade and a portfolio of one name that were built from the answers of both models, with more params.

    The cascade is given again, named tools: ``strong`` answers its turns with tools.
    """
    rng = np.random.default_rng(0)
    is_easy = rng.random(ROWS) < 0.5
    sure = {"cheap": np.where(is_easy, 0.98, 0.08), "strong": np.full(ROWS, 0.98)}
    right = {"cheap": is_easy, "strong": rng.random(ROWS) < 0.99}
    columns: dict[str, Any] = {f"{name} sure": values for name, values in sure.items()}
    columns |= {f"{name} right": values.astype(float) for name, values in right.items()}
    vectors = np.array([embed("easy" if easy else "hard") for easy in is_easy], dtype=np.float32)
    vectors += rng.normal(scale=0.01, size=vectors.shape).astype(np.float32)
    classifiers = [
        {"name": name, "cost": cost, "correct": f"{name} right", "confidence": f"{name} sure"}
        for name, cost in COSTS.items()
    ]
    spec = TraceSpec.model_validate({"kind": "trace", "unit": "USD", "classifiers": classifiers})
    dataset = dataset_from_columns(spec, columns, vectors)
    builds: dict[str, dict[str, Any]] = {"cascade": {}, "portfolio": {"embedder": "embedder", "curve_points": 5}}
    for kind, params in builds.items():
        params |= more
        loaded = built(kind, dataset, **params)
        about = {"kind": kind, "name": name, "dataset": "chat", "dataset_sha256": "0" * 64, "seed": 0}
        manifest = {**about, "params": params, "unit": "USD", "summary": loaded.record.summary}
        yield codec.encode(loaded.plan, manifest)
        if kind == "cascade":
            yield codec.encode(loaded.plan, {**manifest, "name": "tools", "params": {**params, "tools": "strongest"}})
