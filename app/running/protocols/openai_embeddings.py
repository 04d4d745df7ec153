"""OpenAI's embeddings API as a client: one or several texts per request."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.running.protocols.json_service import parse_values
from app.running.protocols.message import EndpointRequest, ParsedResponse, read_count
from app.running.request_templates import TemplateMismatch, as_text, resolve_pointer
from models.endpoint import EmbeddingsEndpoint

TextInput = str | tuple[int, ...]
"""A text, or its tokens."""


@dataclass(frozen=True, slots=True)
class TextBatch:
    """Texts, or their tokens, to embed in one request.

    Attributes:
        options: additional fields of the request.
    """

    texts: tuple[TextInput, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


def build_request(endpoint: EmbeddingsEndpoint, item: Any) -> EndpointRequest:
    """Return a request for the embedding of one or several texts."""
    batch = item if isinstance(item, TextBatch) else TextBatch((as_text(item),))
    is_one_text = len(batch.texts) == 1 and isinstance(batch.texts[0], str)
    inputs = batch.texts[0] if is_one_text else list(batch.texts)
    body: dict[str, Any] = {**batch.options, "model": endpoint.model, "input": inputs, "encoding_format": "float"}
    if endpoint.dimensions is not None:
        body["dimensions"] = endpoint.dimensions
    return EndpointRequest("POST", _embeddings_url(endpoint.url), body, answers=len(batch.texts))


def _embeddings_url(url: str) -> str:
    path, mark, query = url.partition("?")
    return f"{path.rstrip('/')}/embeddings{mark}{query}"


def read(reply: Any, answers: int) -> ParsedResponse:
    """Parse the vectors, concatenated in the order of the texts, and the usage.

    Raises TemplateMismatch unless there is one vector per text, all of equal length.
    """
    usage = reply.get("usage") if isinstance(reply, dict) else None
    tokens = read_count(usage.get("prompt_tokens")) if isinstance(usage, dict) else None
    if answers == 1:
        return ParsedResponse(values=parse_values(resolve_pointer(reply, "/data/0/embedding")), input_tokens=tokens)
    vectors = _in_order(resolve_pointer(reply, "/data"), answers)
    if len({len(vector) for vector in vectors}) > 1:
        raise TemplateMismatch("the embeddings must have equal lengths")
    return ParsedResponse(values=tuple(number for vector in vectors for number in vector), input_tokens=tokens)


def _in_order(data: Any, answers: int) -> list[tuple[float, ...]]:
    """Return the vectors sorted by the indices in the reply, if it has any."""
    if not isinstance(data, list) or len(data) != answers:
        came = len(data) if isinstance(data, list) else 0
        raise TemplateMismatch(f"the reply must have {answers} embeddings, one per text, got {came}")
    by_place: dict[Any, tuple[float, ...]] = {}
    for place, each in enumerate(data):
        index = each.get("index", place) if isinstance(each, dict) else place
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < answers or index in by_place:
            raise TemplateMismatch("embedding indices do not match the inputs")
        by_place[index] = parse_values(resolve_pointer(each, "/embedding"))
    return [by_place[place] for place in range(answers)]
