"""OpenAI's embeddings API: a registered embedder is a model."""

import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson
from fastapi import Request, Response

from app.http.fast_router import FastPost
from app.http.foreign_errors import OpenAIError
from app.http.json_bodies import JsonRouter
from app.routes.chat import CHAT_BYTES
from app.routes.dependencies import Context, InContext, context_of, foreign_error_responses
from app.routes.runs import cancel_on_disconnect, run_dependencies_of
from app.running.caller import Caller
from app.running.embedding import call_embedder, vector_of_result
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
    responses=foreign_error_responses(OpenAIError, 400, 404, 413, 415, 429, 502),
)
async def create_embeddings(request: EmbeddingsRequest, http: Request, context: InContext) -> Response:
    """Embed texts by an embedder, in requests of the size that its endpoint supports; errors are in OpenAI's format.

    ``model`` is the name of an endpoint with the protocol openai-embeddings. Further fields, such as ``dimensions``,
    are passed on. If one text fails, the request fails, and the error names the text.
    """
    caller = run_dependencies_of(context).caller
    inputs, options, ends_at = request.list_inputs(), request.model_extra or {}, time.monotonic() + MAX_SECONDS
    _refuse_request(caller.get_endpoint(request.model), request, caller)
    results = await cancel_on_disconnect(http, call_embedder(caller, request.model, inputs, ends_at, options))
    vectors = [vector_of_result(one, f"input {place}", caller) for place, one in enumerate(results)]
    return Response(orjson.dumps(_reply(request, vectors, results)), media_type="application/json")


def _refuse_request(endpoint: Endpoint | None, request: EmbeddingsRequest, caller: Caller) -> None:
    """Raise UnknownEndpoint unless the model is an embedder, and InvalidRequest for dimensions that are not its own."""
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
    context: Context = await context_of(http)
    return await create_embeddings(request, http, context)


def make_fast_route(max_bytes: int) -> FastPost:
    """Return the fast route of embeddings, with a higher limit on the body for many texts."""
    return FastPost(_PATH, EmbeddingsRequest, _answer_plainly, most_bytes=max_bytes, limit_name=CHAT_BYTES)
