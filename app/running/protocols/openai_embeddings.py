"""OpenAI's embeddings API: a text in, a vector out."""

from typing import Any

from app.running.protocols.json_service import values_of
from app.running.protocols.message import Request, Said, count
from app.running.templates import as_text, part_of
from models.endpoint import EmbeddingsEndpoint


def request(endpoint: EmbeddingsEndpoint, item: Any) -> Request:
    """Ask for the embedding of a text."""
    body: dict[str, Any] = {"model": endpoint.model, "input": as_text(item), "encoding_format": "float"}
    if endpoint.dimensions is not None:
        body["dimensions"] = endpoint.dimensions
    return Request("POST", f"{endpoint.url.rstrip('/')}/embeddings", body)


def read(endpoint: EmbeddingsEndpoint, reply: Any) -> Said:
    """Read the vector and the usage."""
    usage = reply.get("usage") if isinstance(reply, dict) else None
    tokens = count(usage.get("prompt_tokens")) if isinstance(usage, dict) else None
    return Said(values=values_of(part_of(reply, "/data/0/embedding")), input_tokens=tokens)
