"""Servers of the demo's models: classifiers, language models, and an embedder."""

import json
import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from app.demo import simulated_models
from app.demo.images import DigitClassifier
from models.endpoint import ChatEndpoint, EmbeddingsEndpoint, Endpoint, JsonEndpoint
from models.prices import MILLION, Prices

if TYPE_CHECKING:
    from app.store.repositories import Repositories

PIXELS = 64
_CLASSIFIERS, _LLMS = "/classifiers/", "/llms/v1"


def serve_models(repos: "Repositories", classifiers: list[DigitClassifier], port: int) -> None:
    """Register the demo's endpoints and serve them until the process ends."""
    for name, endpoint in list_endpoints(classifiers, port).items():
        kept = repos.endpoints.get_all().get(name)
        if kept is None or _is_ours(kept.url):
            repos.endpoints.put(name, endpoint)
    config = uvicorn.Config(make_application(classifiers), host="127.0.0.1", port=port, log_level="warning", ws="none")
    uvicorn.Server(config).run()


def list_endpoints(classifiers: Sequence[DigitClassifier], port: int) -> dict[str, Endpoint]:
    """Return the endpoint of each classifier, language model, and the embedder."""
    local = f"http://127.0.0.1:{port}"
    digits: dict[str, Endpoint] = {
        one.name: JsonEndpoint(
            protocol="json",
            url=f"{local}{_CLASSIFIERS}{one.name}",
            body={"image": "{{item}}"},
            label="/label",
            confidence="/confidence",
        )
        for one in classifiers
    }
    llms: dict[str, Endpoint] = {
        model.name: ChatEndpoint(
            protocol="openai-chat",
            url=local + _LLMS,
            model=model.name,
            prices=Prices(
                input_per_million=model.input_price * MILLION, output_per_million=model.output_price * MILLION
            ),
        )
        for model in simulated_models.MODELS
    }
    embedder = EmbeddingsEndpoint(
        protocol="openai-embeddings",
        url=local + _LLMS,
        model=simulated_models.EMBEDDER,
        prices=Prices(input_per_million=simulated_models.EMBEDDER_PRICE * MILLION),
    )
    return digits | llms | {simulated_models.EMBEDDER: embedder}


def _is_ours(url: str) -> bool:
    return url.startswith("http://127.0.0.1:") and (_CLASSIFIERS in url or url.endswith(_LLMS))


def make_application(classifiers: Sequence[DigitClassifier]) -> Starlette:
    """Return the application that serves the models.

    Its paths are ``POST /classifiers/NAME``, and OpenAI's chat and embeddings under ``/llms/v1``.
    """
    by_name = {one.name: one for one in classifiers}

    async def classify(request: Request) -> JSONResponse:
        body = await request.json()
        classifier = by_name.get(request.path_params["name"])
        if classifier is None:
            return JSONResponse({"error": f"not found; available: {', '.join(by_name)}"}, 404)
        try:
            image = _parse_image(body.get("image") if isinstance(body, dict) else None)
        except (ValueError, TypeError) as error:
            return JSONResponse({"error": f"image must be {PIXELS} numbers from 0 to 1: {error}"}, 422)
        label, confidence = classifier.classify(image)  # in the event loop: one at a time, as they were timed
        return JSONResponse({"label": str(label), "confidence": confidence})

    return Starlette(
        routes=[
            Route(_CLASSIFIERS + "{name}", classify, methods=["POST"]),
            Route(_LLMS + "/chat/completions", _complete_chat, methods=["POST"]),
            Route(_LLMS + "/embeddings", _embed_texts, methods=["POST"]),
        ]
    )


async def _complete_chat(request: Request) -> JSONResponse:
    """Answer the last message; each token has the log-probability of the confidence."""
    body = await request.json()
    model = next((one for one in simulated_models.MODELS if one.name == body.get("model")), None)
    if model is None:
        names = ", ".join(one.name for one in simulated_models.MODELS)
        return _fail(404, f"model {body.get('model')!r} not found; available: {names}")
    reply = model.answer_prompt(str(body["messages"][-1].get("content")))
    choice: dict[str, Any] = {
        "index": 0,
        "message": {"role": "assistant", "content": reply.text},
        "finish_reason": "stop",
        "logprobs": {"content": [{"token": reply.text, "logprob": math.log(reply.confidence)}]},
    }
    usage = {"prompt_tokens": reply.input_tokens, "completion_tokens": reply.output_tokens}
    head = {"id": "chatcmpl-demo", "object": "chat.completion", "created": int(time.time()), "model": model.name}
    total = {"total_tokens": sum(usage.values())}
    return JSONResponse({**head, "choices": [choice], "usage": usage | total})


async def _embed_texts(request: Request) -> JSONResponse:
    body = await request.json()
    texts = [body["input"]] if isinstance(body.get("input"), str) else list(body.get("input", ()))
    data = [
        {"object": "embedding", "index": at, "embedding": simulated_models.embed_text(text).tolist()}
        for at, text in enumerate(texts)
    ]
    tokens = sum(simulated_models.count_tokens(text) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return JSONResponse({"object": "list", "data": data, "model": simulated_models.EMBEDDER, "usage": usage})


def _fail(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "type": "invalid_request_error"}}, status)


def _parse_image(sent: Any) -> Any:
    pixels = np.asarray(json.loads(sent) if isinstance(sent, str) else sent, dtype=float)
    if pixels.size != PIXELS or not np.all((pixels >= 0) & (pixels <= 1)):
        raise ValueError(f"got {pixels.size} numbers")
    return pixels.reshape(8, 8)
