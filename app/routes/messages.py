"""Anthropic's Messages API: an artifact is a model.

Requests and answers are translated to and from chats.
"""

from typing import Annotated

from fastapi import Query, Request, Response, Security
from fastapi.security import APIKeyHeader

from app.http.fast_router import FastPostRoute
from app.http.json_bodies import JsonRouter
from app.http.protocol_errors import AnthropicError
from app.routes.chat import CHAT_BYTES, answer_chat, parse_model_name
from app.routes.dependencies import InContext, describe_protocol_errors, get_loaded_artifact, get_request_context
from app.running.protocols.anthropic_replies import MessageFormat
from app.running.protocols.anthropic_requests import ESTIMATE, estimate_tokens, to_chat_request
from models.chat import ChatExtras
from models.messages import CountRequest, Message, MessagesRequest, TokenCount
from solvers import KINDS

API_KEY = APIKeyHeader(name="x-api-key", auto_error=False, description="a key of PARSIMONY_API_KEYS, if it is set")
router = JsonRouter(prefix="/v1/messages", tags=["chat"], dependencies=[Security(API_KEY)])
Beta = Annotated[bool, Query(description="ignored; clients of Anthropic's beta features send it")]
_PATH = "/v1/messages"


@router.post(
    "",
    summary="Answer a message with an artifact, in Anthropic's form",
    response_model=Message,
    responses=describe_protocol_errors(AnthropicError, 400, 404, 409, 413, 415, 429, 502, 503, 504),
)
async def create_message(request: MessagesRequest, http: Request, context: InContext, beta: Beta = False) -> Response:
    """Run the messages through an artifact, in Anthropic's format.

    Answers, events, and errors have this format, too. The request is translated to OpenAI's format, in which all models
    are called. ``cache_control`` and ``thinking`` blocks of earlier turns are not sent. Fields without a counterpart
    are forwarded unchanged.
    """
    return await answer_chat(to_chat_request(request), MessageFormat(request), http, context)


@router.post(
    "/count_tokens",
    summary="Estimate the tokens of a message, in Anthropic's form",
    responses=describe_protocol_errors(AnthropicError, 400, 404, 413, 415, 503),
)
async def count_tokens(request: CountRequest, context: InContext, beta: Beta = False) -> TokenCount:
    """Estimate the tokens of a request by the length of its texts; no model is called."""
    target = parse_model_name(request.model, ChatExtras())
    await get_loaded_artifact(context, KINDS[target.kind], target.name, None)
    about = {"is_estimate": True, "method": ESTIMATE}
    return TokenCount(input_tokens=estimate_tokens(request), parsimony=about)


async def _answer_plainly(http: Request, request: MessagesRequest, name: str) -> Response:
    return await create_message(request, http, await get_request_context(http))


def make_fast_route(max_bytes: int) -> FastPostRoute:
    """Return the fast route of messages, with a higher limit on the body for images."""
    return FastPostRoute(_PATH, MessagesRequest, _answer_plainly, body_limit_bytes=max_bytes, limit_name=CHAT_BYTES)
