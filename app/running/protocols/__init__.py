"""Protocols of endpoints: for each, how to write requests and parse replies."""

from typing import Any

from app.running.protocols import json_service, open_inference, openai_chat, openai_embeddings
from app.running.protocols.message import ParsedResponse, Request
from models.endpoint import ChatEndpoint, EmbeddingsEndpoint, Endpoint, JsonEndpoint, OpenInferenceEndpoint

__all__ = ["ParsedResponse", "Request", "build_request", "parse_cost", "read"]


def build_request(endpoint: Endpoint, item: Any) -> Request:
    """Make the request for an item; raises WrongShape if the item lacks what the endpoint's template asks for."""
    if isinstance(item, openai_chat.Chat) and not isinstance(endpoint, ChatEndpoint):
        text = openai_chat.last_text(item)
        item = text if isinstance(endpoint, EmbeddingsEndpoint) else openai_chat.item_in(text)
    match endpoint:
        case JsonEndpoint():
            return json_service.build_request(endpoint, item)
        case OpenInferenceEndpoint():
            return open_inference.build_request(endpoint, item)
        case ChatEndpoint():
            return openai_chat.build_request(endpoint, item)
        case EmbeddingsEndpoint():
            return openai_embeddings.build_request(endpoint, item)


def parse_cost(endpoint: Endpoint, reply: Any) -> ParsedResponse:
    """Parse only the cost of a reply whose answer cannot be parsed."""
    return openai_chat.usage_of(reply) if isinstance(endpoint, ChatEndpoint) else ParsedResponse()


def read(endpoint: Endpoint, reply: Any, answers: int = 1) -> ParsedResponse:
    """Parse a reply's JSON with the requested number of answers; raises WrongShape if it is none that the protocol
    or the pointers promise."""
    match endpoint:
        case JsonEndpoint():
            return json_service.read(endpoint, reply)
        case OpenInferenceEndpoint():
            return open_inference.read(endpoint, reply)
        case ChatEndpoint():
            return openai_chat.read(endpoint, reply)
        case EmbeddingsEndpoint():
            return openai_embeddings.read(reply, answers)
