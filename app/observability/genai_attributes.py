"""Attributes of spans and metrics, by OpenTelemetry's GenAI conventions.

Texts are never recorded.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
from yarl import URL

from models.endpoint import ChatEndpoint, EmbeddingsEndpoint, Endpoint
from models.run import Run
from parsimony.runs.steps import CallResult

Attribute = bool | int | float | str | Sequence[str]
Attributes = dict[str, Attribute]
MAX_LETTERS = 2000
"""Characters of an attribute that is JSON; longer ones are cut, with a mark at the end."""
_PROVIDERS = {
    "openai-reasoning": "openai",
    "azure": "azure.ai.openai",
    "bedrock-openai": "aws.bedrock",
}
"""The conventions' names of presets that have another name there."""
_REQUEST_FIELDS = ("frequency_penalty", "max_tokens", "presence_penalty", "seed", "temperature", "top_k", "top_p")


def describe_call(name: str, endpoint: Endpoint, body: Any) -> tuple[str, Attributes]:
    """Return the name and the attributes of a call's span.

    >>> endpoint = ChatEndpoint(protocol="openai-chat", url="http://models:8000/v1", model="m")
    >>> describe_call("cheap", endpoint, {"max_tokens": 9})[0]
    'chat m'
    """
    url = URL(endpoint.url)
    found: Attributes = {"parsimony.endpoint": name, "server.address": url.host or ""}
    if url.port is not None:
        found["server.port"] = url.port
    if not isinstance(endpoint, ChatEndpoint | EmbeddingsEndpoint):
        return f"classify {name}", found
    operation = describe_operation(endpoint)
    found |= operation
    fields = body if isinstance(body, dict) else {}
    found |= {
        f"gen_ai.request.{each}": fields[each] for each in _REQUEST_FIELDS if isinstance(fields.get(each), int | float)
    }
    if "max_completion_tokens" in fields:
        found["gen_ai.request.max_tokens"] = fields["max_completion_tokens"]
    return f"{operation['gen_ai.operation.name']} {endpoint.model}", found


def describe_operation(endpoint: ChatEndpoint | EmbeddingsEndpoint) -> Attributes:
    """Return the attributes that spans and metrics of a language model or an embedder share."""
    is_chat = isinstance(endpoint, ChatEndpoint)
    preset = (endpoint.preset if isinstance(endpoint, ChatEndpoint) else None) or "openai"
    return {
        "gen_ai.operation.name": "chat" if is_chat else "embeddings",
        "gen_ai.provider.name": _PROVIDERS.get(preset, preset),
        "gen_ai.request.model": endpoint.model,
    }


def describe_result(result: CallResult) -> Attributes:
    """Return the attributes of a call's result: tokens, cost, and confidence, without text."""
    reply = result.reply or {}
    found: dict[str, Any] = {
        "gen_ai.response.id": reply.get("id"),
        "gen_ai.response.model": reply.get("model"),
        "gen_ai.usage.input_tokens": result.tokens[0] or None,
        "gen_ai.usage.output_tokens": result.tokens[1] or None,
        "parsimony.attempts": result.attempts,
        "parsimony.cost": result.cost,
        "parsimony.confidence": result.confidence,
        "error.type": error_type(result),
    }
    choices = [one for one in reply.get("choices") or () if isinstance(one, dict)]
    finishes = [str(one["finish_reason"]) for one in choices if one.get("finish_reason")]
    found["gen_ai.response.finish_reasons"] = finishes or None
    return {name: value for name, value in found.items() if isinstance(value, bool | int | float | str | list)}


def error_type(result: CallResult) -> str | None:
    """Return the error type of a failed call; None if the call succeeded.

    It is the status of the reply, or ``failed``.
    """
    if result.error is None:
        return None
    return "failed" if result.provider_error is None else str(result.provider_error.status)


def describe_decision(facts: Mapping[str, Any], reasons: Mapping[str, Any]) -> Attributes:
    """Return a decision and its reasons as attributes."""
    known = {"id" if name == "decision" else name: value for name, value in facts.items()}
    return dict(_flatten("parsimony.decision", {**known, **reasons}))


def describe_run(run: Run) -> Attributes:
    """Return the attributes of a run: cost, answering classifier, and degraded reason.

    Texts are not included.
    """
    called = [step.classifier for step in run.steps]
    found: Attributes = {"parsimony.called": called, "parsimony.cost": run.spent.cost, "parsimony.unit": run.spent.unit}
    answering = next((step.classifier for step in run.steps if step.accepted), None)
    optional = {"parsimony.answered_by": answering, "parsimony.confidence": run.confidence}
    optional["parsimony.degraded"] = run.degraded
    return found | {name: value for name, value in optional.items() if value is not None}


def _flatten(prefix: str, value: Any) -> Iterator[tuple[str, Attribute]]:
    """Yield the scalars of an object by path; lists of texts stay lists, others become JSON.

    >>> dict(_flatten("a", {"b": 1, "c": {"d": ["x"], "e": [{"f": 2}], "g": None}}))
    {'a.b': 1, 'a.c.d': ['x'], 'a.c.e': '[{"f":2}]'}
    """
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _flatten(f"{prefix}.{name}", each)
    elif isinstance(value, bool | int | float | str):
        yield prefix, value
    elif isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        yield prefix, list(value)
    elif value is not None:
        text = orjson.dumps(value, default=str).decode()
        yield prefix, text if len(text) <= MAX_LETTERS else f"{text[:MAX_LETTERS]}…"
