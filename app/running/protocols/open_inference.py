"""The Open Inference Protocol (KServe v2): tensors in, label and probabilities out."""

from typing import Any

from app.running.protocols.message import (
    ParsedResponse,
    Request,
    best_of,
    read_confidence,
    read_number,
    read_text_label,
)
from app.running.templates import WrongShape
from models.endpoint import OpenInferenceEndpoint

MOST_LEVELS = 8
_END = object()


def build_request(endpoint: OpenInferenceEndpoint, item: Any) -> Request:
    """Send an item, a value or list of values, as a tensor of one row, and ask for the outputs that are read: unasked
    a server gives those that it pleases, MLServer labels alone."""
    data = item if isinstance(item, list) else [item]
    if any(isinstance(each, list | dict) or each is None for each in data):
        raise WrongShape("the item must be a value or a list of values")
    tensor = {"name": endpoint.input, "datatype": endpoint.datatype, "shape": [1, len(data)], "data": data}
    url = f"{endpoint.url.rstrip('/')}/v2/models/{endpoint.model}/infer"
    outputs = [{"name": name} for name in (endpoint.label_output, endpoint.probabilities_output) if name is not None]
    return Request("POST", url, {"inputs": [tensor], "outputs": outputs})


def read(endpoint: OpenInferenceEndpoint, reply: Any) -> ParsedResponse:
    """Find the tensors with the label and the probabilities."""
    outputs = reply.get("outputs") if isinstance(reply, dict) else None
    if not isinstance(outputs, list):
        raise WrongShape("there are no outputs")
    scores = answer = confidence = None
    if endpoint.probabilities_output is not None:
        shares = _data(outputs, endpoint.probabilities_output)
        if len(shares) != len(endpoint.labels):
            raise WrongShape(f"there are {len(shares)} probabilities for {len(endpoint.labels)} labels")
        scores = {
            name: read_number(share, "a probability") for name, share in zip(endpoint.labels, shares, strict=True)
        }
        answer, confidence = best_of(scores)
    if endpoint.label_output is not None:
        answer = _label(endpoint, _data(outputs, endpoint.label_output))
        confidence = None if scores is None else scores.get(answer)
    sure = None if confidence is None else read_confidence(confidence, endpoint.confidence_scale)
    return ParsedResponse(label=answer, confidence=sure, scores=scores)


def _data(outputs: list[Any], name: str) -> list[Any]:
    """Give a tensor's values, row by row."""
    for output in outputs:
        if isinstance(output, dict) and output.get("name") == name:
            data = output.get("data")
            if not isinstance(data, list):
                raise WrongShape(f"the output {name!r} has no data that is JSON")
            return flatten(data)
    raise WrongShape(f"output {name!r} not found")


def flatten(data: list[Any]) -> list[Any]:
    """Give the elements of a tensor row by row, nested or flat: O(elements). Raises WrongShape beyond eight levels.

    >>> flatten([[1, 2], [3, 4]])
    [1, 2, 3, 4]
    """
    elements: list[Any] = []
    levels = [iter(data)]
    while levels:
        each = next(levels[-1], _END)
        if each is _END:
            levels.pop()
        elif isinstance(each, list):
            if len(levels) >= MOST_LEVELS:
                raise WrongShape(f"the tensor is nested deeper than {MOST_LEVELS} levels")
            levels.append(iter(each))
        else:
            elements.append(each)
    return elements


def _label(endpoint: OpenInferenceEndpoint, data: list[Any]) -> str:
    if len(data) != 1:
        raise WrongShape(f"the label's tensor has {len(data)} elements, must have 1")
    value = data[0]
    is_place = isinstance(value, int) and not isinstance(value, bool) and endpoint.labels
    if is_place and str(value) not in endpoint.labels:
        if not 0 <= value < len(endpoint.labels):
            raise WrongShape(f"the label is {value}, there are {len(endpoint.labels)} labels")
        named: str = endpoint.labels[value]
        return named
    return read_text_label(value)
