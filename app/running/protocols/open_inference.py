"""The Open Inference Protocol (KServe v2) as a client."""

from typing import Any

from app.running.protocols.message import (
    EndpointRequest,
    ParsedResponse,
    find_best_label,
    read_confidence,
    read_number,
    read_text_label,
)
from app.running.request_templates import TemplateMismatch
from models.endpoint import OpenInferenceEndpoint

MAX_NESTING = 8
_END = object()


def build_request(endpoint: OpenInferenceEndpoint, item: Any) -> EndpointRequest:
    """Return a request with the item as a tensor of one row.

    The outputs are requested by name, because default outputs differ between servers (MLServer returns only labels).
    """
    data = item if isinstance(item, list) else [item]
    if any(isinstance(each, list | dict) or each is None for each in data):
        raise TemplateMismatch("the item must be a value or a list of values")
    tensor = {"name": endpoint.input, "datatype": endpoint.datatype, "shape": [1, len(data)], "data": data}
    url = f"{endpoint.url.rstrip('/')}/v2/models/{endpoint.model}/infer"
    outputs = [{"name": name} for name in (endpoint.label_output, endpoint.probabilities_output) if name is not None]
    return EndpointRequest("POST", url, {"inputs": [tensor], "outputs": outputs})


def read(endpoint: OpenInferenceEndpoint, reply: Any) -> ParsedResponse:
    """Parse the tensors with the label and the probabilities."""
    outputs = reply.get("outputs") if isinstance(reply, dict) else None
    if not isinstance(outputs, list):
        raise TemplateMismatch("outputs must not be empty")
    scores = answer = confidence = None
    if endpoint.probabilities_output is not None:
        shares = _data(outputs, endpoint.probabilities_output)
        if len(shares) != len(endpoint.labels):
            raise TemplateMismatch(f"the output must have {len(endpoint.labels)} probabilities, got {len(shares)}")
        scores = {
            name: read_number(share, "a probability") for name, share in zip(endpoint.labels, shares, strict=True)
        }
        answer, confidence = find_best_label(scores)
    if endpoint.label_output is not None:
        answer = _label(endpoint, _data(outputs, endpoint.label_output))
        confidence = None if scores is None else scores.get(answer)
    sure = None if confidence is None else read_confidence(confidence, endpoint.confidence_scale)
    return ParsedResponse(label=answer, confidence=sure, scores=scores)


def _data(outputs: list[Any], name: str) -> list[Any]:
    """Return the values of a tensor, row by row."""
    for output in outputs:
        if isinstance(output, dict) and output.get("name") == name:
            data = output.get("data")
            if not isinstance(data, list):
                raise TemplateMismatch(f"the output {name!r} must have JSON data")
            return flatten(data)
    raise TemplateMismatch(f"output {name!r} not found")


def flatten(data: list[Any]) -> list[Any]:
    """Return the elements of a nested or flat tensor in row-major order: O(elements).

    Raises TemplateMismatch beyond eight levels of nesting.

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
            if len(levels) >= MAX_NESTING:
                raise TemplateMismatch(f"the tensor must be nested at most {MAX_NESTING} levels deep")
            levels.append(iter(each))
        else:
            elements.append(each)
    return elements


def _label(endpoint: OpenInferenceEndpoint, data: list[Any]) -> str:
    if len(data) != 1:
        raise TemplateMismatch(f"the label tensor must have 1 element, got {len(data)}")
    value = data[0]
    is_place = isinstance(value, int) and not isinstance(value, bool) and endpoint.labels
    if is_place and str(value) not in endpoint.labels:
        if not 0 <= value < len(endpoint.labels):
            raise TemplateMismatch(f"the label must be below {len(endpoint.labels)}, the number of labels, got {value}")
        named: str = endpoint.labels[value]
        return named
    return read_text_label(value)
