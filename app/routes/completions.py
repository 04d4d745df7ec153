"""OpenAI's legacy completions API: an artifact is a model.

A prompt is a chat of one message.
"""

from fastapi import Request, Response

from app.http.fast_router import FastPostRoute
from app.http.json_bodies import JsonRouter
from app.http.protocol_errors import OpenAIError
from app.routes.chat import CHAT_BYTES, answer_chat
from app.routes.dependencies import InContext, describe_protocol_errors, get_request_context
from app.running.protocols.text_completions import PromptFormat, to_chat_request
from models.completions import CompletionReply, CompletionRequest

_PATH = "/v1/completions"
router = JsonRouter(prefix=_PATH, tags=["chat"])


@router.post(
    "",
    summary="Answer a prompt with an artifact, in OpenAI's older form",
    response_model=CompletionReply,
    responses=describe_protocol_errors(OpenAIError, 400, 404, 409, 413, 415, 429, 502, 503, 504),
)
async def create_text_completion(request: CompletionRequest, http: Request, context: InContext) -> Response:
    """Run a prompt through an artifact, as a chat of one message; errors are in OpenAI's format.

    ``prompt`` is one text. Requests with ``echo``, ``best_of``, ``n``, ``suffix``, or ``logprobs`` are rejected.
    """
    return await answer_chat(to_chat_request(request), PromptFormat(request), http, context)


async def _answer_plainly(http: Request, request: CompletionRequest, name: str) -> Response:
    return await create_text_completion(request, http, await get_request_context(http))


def make_fast_route(max_bytes: int) -> FastPostRoute:
    """Return the fast route of completions."""
    return FastPostRoute(_PATH, CompletionRequest, _answer_plainly, body_limit_bytes=max_bytes, limit_name=CHAT_BYTES)
