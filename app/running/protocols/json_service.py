"""Protocol of any HTTP service that exchanges JSON."""

from typing import Any

from app.running.protocols.message import (
    EndpointRequest,
    ParsedResponse,
    find_best_label,
    read_confidence,
    read_number,
    read_text_label,
)
from app.running.request_templates import TemplateMismatch, fill_template, fill_url, resolve_pointer
from models.base import LARGEST
from models.endpoint import JsonEndpoint


def build_request(endpoint: JsonEndpoint, item: Any) -> EndpointRequest:
    """Return the request from the endpoint's templates."""
    body = None if endpoint.method == "GET" else fill_template(endpoint.body, item)
    return EndpointRequest(endpoint.method, fill_url(endpoint.url, item), body)


def read(endpoint: JsonEndpoint, reply: Any) -> ParsedResponse:
    """Parse a reply by the endpoint's JSON pointers."""
    scores = None if endpoint.scores is None else _scores(resolve_pointer(reply, endpoint.scores))
    answer, confidence = (None, None) if scores is None else find_best_label(scores)
    if endpoint.label is not None:
        answer = read_text_label(resolve_pointer(reply, endpoint.label))
        confidence = None if scores is None else scores.get(answer)
    if endpoint.labels and answer is not None and answer not in endpoint.labels:
        raise TemplateMismatch("the label must be one of the endpoint's labels")
    if endpoint.confidence is not None:
        confidence = read_number(resolve_pointer(reply, endpoint.confidence), "the confidence")
    return ParsedResponse(
        label=answer,
        confidence=None if confidence is None else read_confidence(confidence, endpoint.confidence_scale),
        scores=scores,
        values=None if endpoint.values is None else parse_cells(resolve_pointer(reply, endpoint.values)),
        cost=None if endpoint.cost is None else _cost(resolve_pointer(reply, endpoint.cost)),
    )


def parse_cells(value: Any) -> tuple[float | None, ...]:
    """Parse the values of a feature; None for missing cells."""
    listed = value if isinstance(value, list) else [value]
    if not listed:
        raise TemplateMismatch("values must not be empty")
    return tuple(None if each is None else read_number(each, "a value") for each in listed)


def parse_values(value: Any) -> tuple[float, ...]:
    """Parse a number or a list of numbers."""
    cells = parse_cells(value)
    if None in cells:
        raise TemplateMismatch("a value must be a number, got null")
    return tuple(each for each in cells if each is not None)


def _scores(value: Any) -> dict[str, float]:
    if not isinstance(value, dict):
        raise TemplateMismatch("the scores must be an object of labels and numbers")
    return {read_text_label(name): read_number(each, "a score") for name, each in value.items()}


def _cost(value: Any) -> float:
    cost = read_number(value, "the cost")
    if not 0 <= cost <= LARGEST:
        raise TemplateMismatch(f"the cost must be from 0 to {LARGEST:g}")
    return cost
