"""Anthropic's Messages API: an artifact is a model. Requests and answers are translated to and from chats."""

from typing import Annotated

from fastapi import Query, Request, Response, Security
from fastapi.security import APIKeyHeader

from app.http.fast_router import FastPost
from app.http.foreign_errors import AnthropicError
from app.http.json_bodies import JsonRouter
from app.routes.chat import CHAT_BYTES, answer_chat, read_target
from app.routes.dependencies import InContext, context_of, foreign_error_responses, plan_of
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
    responses=foreign_error_responses(AnthropicError, 400, 404, 409, 413, 415, 429, 502, 503, 504),
)
async def create_message(request: MessagesRequest, http: Request, context: InContext, beta: Beta = False) -> Response:
    """Run the messages through an artifact; requests, answers, events, and errors have Anthropic's format.

    The request is translated to OpenAI's format, because all models are called in this format. ``cache_control`` and
    ``thinking`` blocks of earlier turns are not sent. Fields without a counterpart are passed on by their names.
    """
    return await answer_chat(to_chat_request(request), MessageFormat(request), http, context)


@router.post(
    "/count_tokens",
    summary="Estimate the tokens of a message, in Anthropic's form",
    responses=foreign_error_responses(AnthropicError, 400, 404, 413, 415, 503),
)
async def count_tokens(request: CountRequest, context: InContext, beta: Beta = False) -> TokenCount:
    """Estimate the tokens of a request by the length of its texts; no model is called."""
    target = read_target(request.model, ChatExtras())
    await plan_of(context, KINDS[target.kind], target.name, None)
    about = {"is_estimate": True, "method": ESTIMATE}
    return TokenCount(input_tokens=estimate_tokens(request), parsimony=about)


async def _answer_plainly(http: Request, request: MessagesRequest, name: str) -> Response:
    return await create_message(request, http, await context_of(http))


def make_fast_route(max_bytes: int) -> FastPost:
    """Return the fast route of messages, with a higher limit on the body for images."""
    return FastPost(_PATH, MessagesRequest, _answer_plainly, most_bytes=max_bytes, limit_name=CHAT_BYTES)
