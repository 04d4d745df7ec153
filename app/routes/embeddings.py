"""OpenAI's embeddings API: a registered embedder is a model."""

import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson
from fastapi import Request, Response

from app.http.fast_router import FastPostRoute
from app.http.json_bodies import JsonRouter
from app.http.protocol_errors import OpenAIError
from app.routes.chat import CHAT_BYTES
from app.routes.dependencies import AppContext, InContext, describe_protocol_errors, get_request_context
from app.routes.runs import cancel_on_disconnect, get_run_dependencies
from app.running.embedding import call_embedder, read_result_vector
from app.running.endpoint_caller import EndpointCaller
from models import Fault, InvalidRequest
from models.chat import INDEX
from models.embeddings import EmbeddingsReply, EmbeddingsRequest
from models.endpoint import EmbeddingsEndpoint, Endpoint
from models.errors import UnknownEndpoint
from parsimony.runs.steps import CallResult

MAX_SECONDS = 600.0
"""Time limit of a request; each call has its endpoint's time limit."""
_PATH = "/v1/embeddings"
router = JsonRouter(prefix=_PATH, tags=["chat"])


@router.post(
    "",
    summary="Embed texts with a registered embedder",
    response_model=EmbeddingsReply,
    responses=describe_protocol_errors(OpenAIError, 400, 404, 413, 415, 429, 502),
)
async def create_embeddings(request: EmbeddingsRequest, http: Request, context: InContext) -> Response:
    """Embed texts by an embedder; errors are in OpenAI's format.

    ``model`` is the name of an endpoint with the protocol openai-embeddings. Texts are sent in requests of the size
    that it supports. Additional fields, such as ``dimensions``, are forwarded. If one text fails, the request fails,
    and the error has the text's position.
    """
    caller = get_run_dependencies(context).caller
    inputs, options, ends_at = request.list_inputs(), request.model_extra or {}, time.monotonic() + MAX_SECONDS
    _refuse_request(caller.get_endpoint(request.model), request, caller)
    results = await cancel_on_disconnect(http, call_embedder(caller, request.model, inputs, ends_at, options))
    vectors = [read_result_vector(one, f"input {place}", caller) for place, one in enumerate(results)]
    return Response(orjson.dumps(_reply(request, vectors, results)), media_type="application/json")


def _refuse_request(endpoint: Endpoint | None, request: EmbeddingsRequest, caller: EndpointCaller) -> None:
    """Raise UnknownEndpoint unless the model is an embedder.

    Raise InvalidRequest for dimensions that differ from the embedder's.
    """
    if not isinstance(endpoint, EmbeddingsEndpoint):
        known = ", ".join(caller.list_embedders()) or "none"
        raise UnknownEndpoint(f"embedder {request.model!r} not found; available: {known}")
    dimensions = (request.model_extra or {}).get("dimensions", endpoint.dimensions)
    if endpoint.dimensions is not None and dimensions != endpoint.dimensions:
        reason = f"must be {endpoint.dimensions}, as its endpoint sets, got {dimensions}"
        raise InvalidRequest.from_faults(Fault(("dimensions",), reason))


def _reply(
    request: EmbeddingsRequest, vectors: Sequence[np.ndarray[Any, Any]], results: Sequence[CallResult]
) -> Mapping[str, Any]:
    is_base64 = request.encoding_format == "base64"
    data = [
        {
            "object": "embedding",
            INDEX: place,
            "embedding": b64encode(vector.tobytes()).decode() if is_base64 else vector.tolist(),
        }
        for place, vector in enumerate(vectors)
    ]
    tokens = sum(one.tokens[0] for one in results)
    costs = [one.cost for one in results if one.cost is not None]
    about = {"cost": sum(costs) if costs else None, "seconds": sum(one.seconds for one in results)}
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": request.model, "usage": usage, "parsimony": about}


async def _answer_plainly(http: Request, request: EmbeddingsRequest, name: str) -> Response:
    context: AppContext = await get_request_context(http)
    return await create_embeddings(request, http, context)


def make_fast_route(max_bytes: int) -> FastPostRoute:
    """Return the fast route of embeddings; many texts require a higher limit on the body."""
    return FastPostRoute(_PATH, EmbeddingsRequest, _answer_plainly, body_limit_bytes=max_bytes, limit_name=CHAT_BYTES)
