"""OpenAI's embeddings API: a text in, a vector out; or several, in their order."""

from dataclasses import dataclass
from typing import Any

from app.running.protocols.json_service import values_of
from app.running.protocols.message import ParsedResponse, Request, read_count
from app.running.templates import WrongShape, as_text, part_of
from models.endpoint import EmbeddingsEndpoint


@dataclass(frozen=True, slots=True)
class Texts:
    """An item that is several texts, to be embedded by one request."""

    texts: tuple[str, ...]


def build_request(endpoint: EmbeddingsEndpoint, item: Any) -> Request:
    """Ask for the embedding of a text, or for those of several."""
    many = isinstance(item, Texts)
    texts = list(item.texts) if many else as_text(item)
    body: dict[str, Any] = {"model": endpoint.model, "input": texts, "encoding_format": "float"}
    if endpoint.dimensions is not None:
        body["dimensions"] = endpoint.dimensions
    return Request("POST", f"{endpoint.url.rstrip('/')}/embeddings", body, answers=len(texts) if many else 1)


def read(reply: Any, answers: int) -> ParsedResponse:
    """Read the vectors, one behind the other in the order of the texts, and the usage. Raises WrongShape unless there
    is one for each, all of one length."""
    usage = reply.get("usage") if isinstance(reply, dict) else None
    tokens = read_count(usage.get("prompt_tokens")) if isinstance(usage, dict) else None
    if answers == 1:
        return ParsedResponse(values=values_of(part_of(reply, "/data/0/embedding")), input_tokens=tokens)
    vectors = _in_order(part_of(reply, "/data"), answers)
    if len({len(vector) for vector in vectors}) > 1:
        raise WrongShape("the embeddings have different lengths")
    return ParsedResponse(values=tuple(number for vector in vectors for number in vector), input_tokens=tokens)


def _in_order(data: Any, answers: int) -> list[tuple[float, ...]]:
    """Return the vectors by the indices in the reply, or in their order without indices."""
    if not isinstance(data, list) or len(data) != answers:
        came = len(data) if isinstance(data, list) else 0
        raise WrongShape(f"there are {came} embeddings for {answers} texts")
    by_place: dict[Any, tuple[float, ...]] = {}
    for place, each in enumerate(data):
        index = each.get("index", place) if isinstance(each, dict) else place
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < answers or index in by_place:
            raise WrongShape("the places of the embeddings are not those of the texts")
        by_place[index] = values_of(part_of(each, "/embedding"))
    return [by_place[place] for place in range(answers)]
