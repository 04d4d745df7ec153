"""Any HTTP service with JSON in and out."""

from typing import Any

from app.running.protocols.message import (
    ParsedResponse,
    Request,
    best_of,
    read_confidence,
    read_number,
    read_text_label,
)
from app.running.templates import WrongShape, fill_template, fill_url, part_of
from models.base import LARGEST
from models.endpoint import JsonEndpoint


def build_request(endpoint: JsonEndpoint, item: Any) -> Request:
    """Fill the endpoint's templates."""
    body = None if endpoint.method == "GET" else fill_template(endpoint.body, item)
    return Request(endpoint.method, fill_url(endpoint.url, item), body)


def read(endpoint: JsonEndpoint, reply: Any) -> ParsedResponse:
    """Follow the endpoint's pointers."""
    scores = None if endpoint.scores is None else _scores(part_of(reply, endpoint.scores))
    answer, confidence = (None, None) if scores is None else best_of(scores)
    if endpoint.label is not None:
        answer = read_text_label(part_of(reply, endpoint.label))
        confidence = None if scores is None else scores.get(answer)
    if endpoint.labels and answer is not None and answer not in endpoint.labels:
        raise WrongShape("the label is not one of the endpoint's labels")
    if endpoint.confidence is not None:
        confidence = read_number(part_of(reply, endpoint.confidence), "the confidence")
    return ParsedResponse(
        label=answer,
        confidence=None if confidence is None else read_confidence(confidence, endpoint.confidence_scale),
        scores=scores,
        values=None if endpoint.values is None else cells_of(part_of(reply, endpoint.values)),
        cost=None if endpoint.cost is None else _cost(part_of(reply, endpoint.cost)),
    )


def cells_of(value: Any) -> tuple[float | None, ...]:
    """Read the number or numbers of a feature, null where a cell is missing."""
    listed = value if isinstance(value, list) else [value]
    if not listed:
        raise WrongShape("there are no values")
    return tuple(None if each is None else read_number(each, "a value") for each in listed)


def values_of(value: Any) -> tuple[float, ...]:
    """Read a number or numbers."""
    cells = cells_of(value)
    if None in cells:
        raise WrongShape("a value must be a number, it is null")
    return tuple(each for each in cells if each is not None)


def _scores(value: Any) -> dict[str, float]:
    if not isinstance(value, dict):
        raise WrongShape("the scores must be an object of labels and numbers")
    return {read_text_label(name): read_number(each, "a score") for name, each in value.items()}


def _cost(value: Any) -> float:
    cost = read_number(value, "the cost")
    if not 0 <= cost <= LARGEST:
        raise WrongShape(f"the cost must be from 0 to {LARGEST:g}")
    return cost
