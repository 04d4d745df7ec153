"""OpenAI's Responses API without stored state: an artifact is a model.

Requests are translated to chats.
"""

from fastapi import Request, Response

from app.http.fast_router import FastPostRoute
from app.http.json_bodies import JsonRouter
from app.http.protocol_errors import OpenAIError
from app.routes.chat import CHAT_BYTES, answer_chat
from app.routes.dependencies import InContext, describe_protocol_errors, get_request_context
from app.running.protocols.responses_replies import ResponseFormat
from app.running.protocols.responses_requests import to_chat_request
from models.responses import ResponsesReply, ResponsesRequest

_PATH = "/v1/responses"
router = JsonRouter(prefix=_PATH, tags=["chat"])


@router.post(
    "",
    summary="Answer a request for a response with an artifact",
    response_model=ResponsesReply,
    responses=describe_protocol_errors(OpenAIError, 400, 404, 409, 413, 415, 429, 502, 503, 504),
)
async def create_response(request: ResponsesRequest, http: Request, context: InContext) -> Response:
    """Run the input through an artifact, in the format of OpenAI's Responses API.

    Answers, events, and errors have this format. Nothing is stored. So ``store``, ``previous_response_id``,
    ``conversation``, ``background``, and ``prompt`` are rejected, as are tools that OpenAI executes. ``reasoning``
    items of earlier turns are not sent.
    """
    return await answer_chat(to_chat_request(request), ResponseFormat(request), http, context)


async def _answer_plainly(http: Request, request: ResponsesRequest, name: str) -> Response:
    return await create_response(request, http, await get_request_context(http))


def make_fast_route(max_bytes: int) -> FastPostRoute:
    """Return the fast route of responses, with a higher limit on the body for images."""
    return FastPostRoute(_PATH, ResponsesRequest, _answer_plainly, body_limit_bytes=max_bytes, limit_name=CHAT_BYTES)
