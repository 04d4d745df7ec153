"""Formats of call logs: the JSON pointers (RFC 6901) to the fields of a call in each format.

Sources: LiteLLM's StandardLoggingPayload; OpenAI's chat completions and batch files; Langfuse's observation exports;
OpenTelemetry's semantic conventions for generative AI.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

from app.running.request_templates import TemplateMismatch, resolve_pointer
from models.log_import import FormatName

NO_POINTERS: Mapping[str, tuple[str, ...]] = MappingProxyType({})
OUTCOMES = ("correct", "correctness", "quality", "accuracy", "score")
"""Names of scores that are outcomes; others, such as toxicity, need a pointer."""
SAMPLE = 50
"""Records by which a format is recognized."""


@dataclass(frozen=True, slots=True)
class CallPointers:
    """The pointers to each field of a call; the first one that finds a value is used.

    Attributes:
        classifier: the called model.
        text: the prompt: a text, or the messages of a chat.
        request: ids that feedback may refer to: of the request, and of its trace.
        outcome: whether the answer was correct, or its quality from 0 to 1.
        cost: the cost of the call.
        confidence: the confidence of the answer, from 0 to 1.
        propensity: the probability with which the model was called for this prompt.
        input_tokens, output_tokens: numbers of tokens.
    """

    classifier: tuple[str, ...]
    text: tuple[str, ...]
    request: tuple[str, ...] = ()
    outcome: tuple[str, ...] = ()
    cost: tuple[str, ...] = ()
    confidence: tuple[str, ...] = ()
    propensity: tuple[str, ...] = ()
    input_tokens: tuple[str, ...] = ()
    output_tokens: tuple[str, ...] = ()


_OTEL = "/attributes/gen_ai."
FORMATS: Mapping[FormatName, CallPointers] = {
    "litellm": CallPointers(
        classifier=("/model_group", "/model"),
        text=("/messages", "/request/messages", "/input"),
        request=("/id", "/response/id"),
        outcome=("/metadata/user_feedback/correct", "/metadata/user_feedback/quality", "/metadata/user_feedback/score"),
        cost=("/response_cost", "/spend"),
        input_tokens=("/prompt_tokens", "/response/usage/prompt_tokens"),
        output_tokens=("/completion_tokens", "/response/usage/completion_tokens"),
    ),
    "openai": CallPointers(
        classifier=("/request/model", "/body/model", "/response/model", "/response/body/model"),
        text=("/request/messages", "/body/messages", "/request/input", "/request/prompt"),
        request=("/response/id", "/response/body/id", "/custom_id", "/id"),
        outcome=("/correct", "/quality", "/feedback/correct", "/feedback/quality"),
        cost=("/cost", "/cost_usd"),
        input_tokens=("/response/usage/prompt_tokens", "/response/usage/input_tokens"),
        output_tokens=("/response/usage/completion_tokens", "/response/usage/output_tokens"),
    ),
    "langfuse": CallPointers(
        classifier=("/model", "/providedModelName"),
        text=("/input/messages", "/input"),
        request=("/id", "/traceId"),
        outcome=(*(f"/scores/{name}" for name in OUTCOMES), "/metadata/correct"),
        cost=("/calculatedTotalCost", "/totalCost", "/costDetails/total"),
        input_tokens=("/usage/input", "/usageDetails/input", "/promptTokens"),
        output_tokens=("/usage/output", "/usageDetails/output", "/completionTokens"),
    ),
    "otel": CallPointers(
        classifier=(f"{_OTEL}response.model", f"{_OTEL}request.model"),
        text=(f"{_OTEL}input.messages", f"{_OTEL}prompt", f"{_OTEL}prompt.0.content"),
        request=("/spanId", "/span_id", f"{_OTEL}response.id", "/traceId", "/trace_id"),
        outcome=(f"{_OTEL}evaluation.score.value", "/attributes/correct"),
        cost=(f"{_OTEL}usage.cost", f"{_OTEL}cost"),
        input_tokens=(f"{_OTEL}usage.input_tokens", f"{_OTEL}usage.prompt_tokens"),
        output_tokens=(f"{_OTEL}usage.output_tokens", f"{_OTEL}usage.completion_tokens"),
    ),
    "table": CallPointers(
        classifier=("/model", "/classifier", "/endpoint"),
        text=("/prompt", "/text", "/question", "/query", "/input"),
        request=("/id", "/request_id", "/request"),
        outcome=("/correct", "/quality", "/score", "/grade"),
        cost=("/cost_usd", "/cost", "/usd", "/price"),
        confidence=("/confidence", "/probability"),
        propensity=("/propensity",),
        input_tokens=("/input_tokens", "/prompt_tokens", "/tokens_in"),
        output_tokens=("/output_tokens", "/completion_tokens", "/tokens_out"),
    ),
}
"""The known formats; ``table`` has one flat row per call."""


def find_value(record: Any, pointers: Sequence[str]) -> Any:
    """Return the first value that is not null or empty; None if no pointer finds one.

    >>> find_value({"a": {"b": 1}}, ("/c", "/a/b")), find_value({"a": None}, ("/a",))
    (1, None)
    """
    for pointer in pointers:
        try:
            value = resolve_pointer(record, pointer)
        except TemplateMismatch:
            continue
        if value is not None and value != "":
            return value
    return None


def recognize_format(records: Sequence[Any], own: Mapping[str, tuple[str, ...]] = NO_POINTERS) -> FormatName | None:
    """Return the format that finds the most fields in the first records.

    Return None if no format finds most models and prompts.

    Args:
        own: pointers that replace those of the format.

    >>> recognize_format([{"model": "a", "prompt": "b", "cost": 1}])
    'table'
    """
    best, most = None, 0
    for name, known in FORMATS.items():
        pointers = replace(known, **own)
        found = [sum(find_value(each, pointers.classifier) is not None for each in records[:SAMPLE])]
        found.append(sum(find_value(each, pointers.text) is not None for each in records[:SAMPLE]))
        if not records or min(found) < len(records[:SAMPLE]) / 2:
            continue
        others = [getattr(pointers, each.name) for each in fields(pointers)[2:]]
        count = 1 + sum(find_value(each, other) is not None for each in records[:SAMPLE] for other in others)
        if count > most:
            best, most = name, count
    return best
