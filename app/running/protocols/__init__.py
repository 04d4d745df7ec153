"""Protocols of endpoints: build requests, and parse replies."""

from typing import Any

from app.running.protocols import json_service, open_inference, openai_chat_client, openai_embeddings
from app.running.protocols.message import Chat, EndpointRequest, ParsedResponse
from models.endpoint import ChatEndpoint, EmbeddingsEndpoint, Endpoint, JsonEndpoint, OpenInferenceEndpoint
from models.errors import ProviderError

__all__ = ["EndpointRequest", "ParsedResponse", "build_request", "parse_cost", "read", "read_error"]


def build_request(endpoint: Endpoint, item: Any) -> EndpointRequest:
    """Return the request for an item.

    Raises TemplateMismatch if the item lacks a value that the endpoint's template needs.
    """
    if isinstance(item, Chat) and not isinstance(endpoint, ChatEndpoint):
        text = openai_chat_client.get_last_user_text(item)
        item = text if isinstance(endpoint, EmbeddingsEndpoint) else openai_chat_client.parse_item(text)
    match endpoint:
        case JsonEndpoint():
            return json_service.build_request(endpoint, item)
        case OpenInferenceEndpoint():
            return open_inference.build_request(endpoint, item)
        case ChatEndpoint():
            return openai_chat_client.build_request(endpoint, item)
        case EmbeddingsEndpoint():
            return openai_embeddings.build_request(endpoint, item)


def parse_cost(endpoint: Endpoint, reply: Any) -> ParsedResponse:
    """Parse the cost of a reply whose answer cannot be parsed."""
    return openai_chat_client.parse_usage(reply) if isinstance(endpoint, ChatEndpoint) else ParsedResponse()


def read_error(endpoint: Endpoint, status: int, body: bytes) -> ProviderError:
    """Parse an error reply; only language models and embedders have messages for clients."""
    if isinstance(endpoint, ChatEndpoint | EmbeddingsEndpoint):
        return openai_chat_client.read_error(status, body)
    return ProviderError(status)


def read(endpoint: Endpoint, reply: Any, answers: int = 1, chat: Chat | None = None) -> ParsedResponse:
    """Parse a JSON reply with the requested number of answers.

    Raises TemplateMismatch if it does not match the protocol or the endpoint's pointers.
    """
    match endpoint:
        case JsonEndpoint():
            return json_service.read(endpoint, reply)
        case OpenInferenceEndpoint():
            return open_inference.read(endpoint, reply)
        case ChatEndpoint():
            return openai_chat_client.read(endpoint, reply, chat)
        case EmbeddingsEndpoint():
            return openai_embeddings.read(reply, answers)
