"""Requests and parsed responses that all protocols share."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from app.running.request_templates import TemplateMismatch
from models.confidence_scale import ConfidenceScale, is_outside_scale, to_probability
from parsimony.runs.steps import Verdict

MAX_TEXT = 200
"""Characters of a label."""
OnChunk = Callable[[Mapping[str, Any]], None]
"""Receives the chunks of a streamed answer."""


@dataclass(frozen=True, slots=True)
class Chat:
    """An item that is a chat request.

    Attributes:
        messages: the messages.
        options: all other fields of the request that are sent to the model.
        escalates_refusals: whether another model is called after a refusal.
    """

    messages: list[dict[str, Any]]
    options: dict[str, Any] = field(default_factory=dict)
    escalates_refusals: bool = False

    @property
    def has_many_answers(self) -> bool:
        """Whether several answers are requested."""
        return bool(self.options.get("n", 1) != 1)


@dataclass(frozen=True, slots=True)
class EndpointRequest:
    """A request to an endpoint.

    Attributes:
        body: JSON value; None without a body.
        data: the encoded body.
        on_chunk: receives the chunks of a streamed answer.
        answers: number of requested answers.
        chat: the chat request that is the item of this request; None for other items.
        headers: additional headers.
    """

    method: str
    url: str
    body: Any | None
    on_chunk: OnChunk | None = None
    data: bytes | None = None
    answers: int = 1
    chat: Chat | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def with_encoded_body(self) -> "EndpointRequest":
        """Return a copy with the encoded body; raises TypeError if it is not JSON."""
        return self if self.body is None else replace(self, data=orjson.dumps(self.body))


@dataclass(frozen=True, slots=True)
class ParsedResponse:
    """The parsed content of a reply.

    Attributes:
        values: values of a feature, None for missing cells; several answers are concatenated.
        input_tokens: None if the reply does not report them.
        output_tokens: None if the reply does not report them.
        cached_tokens: input tokens that the provider read from its cache.
        verdict: verdict of the answer's type, such as a refusal.
        reply: the complete reply to a chat request.
    """

    label: str | None = None
    confidence: float | None = None
    scores: dict[str, float] | None = None
    values: tuple[float | None, ...] | None = None
    cost: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0
    text: str | None = None
    verdict: Verdict | None = None
    reply: Mapping[str, Any] | None = None


def read_number(value: Any, what: str) -> float:
    """Parse a finite number; raises TemplateMismatch."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TemplateMismatch(f"{what} must be a number, got {describe_type_name(value)}")
    return float(value)


def read_confidence(value: float, scale: ConfidenceScale) -> float:
    """Convert a confidence to a probability; raises TemplateMismatch if out of range."""
    if is_outside_scale(value, scale):
        raise TemplateMismatch(f"the confidence must be on the scale {scale}; set confidence_scale of the endpoint")
    return float(to_probability(value, scale))


def read_count(value: Any) -> int | None:
    """Parse a number of tokens; None if it is not a valid count."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def read_text_label(value: Any) -> str:
    """Convert a text or number to a label; raises TemplateMismatch for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TemplateMismatch(f"the label must be a text or a number, got {describe_type_name(value)}")
    text = str(value)
    if not text or len(text) > MAX_TEXT:
        raise TemplateMismatch(f"the label must have 1 to {MAX_TEXT} characters, got {len(text)}")
    return text


def describe_type_name(value: Any) -> str:
    """Return the type of a value; the value itself may contain secrets.

    >>> describe_type_name(None), describe_type_name("secret"), describe_type_name([1])
    ('nothing', 'a text', 'a list')
    """
    kinds = {"NoneType": "nothing", "bool": "true or false", "str": "a text", "list": "a list", "dict": "an object"}
    return kinds.get(type(value).__name__, "no finite number")


def find_best_label(scores: dict[str, float]) -> tuple[str, float]:
    """Return the label with the highest score; ties go to the first name.

    Raises TemplateMismatch without any score.
    """
    if not scores:
        raise TemplateMismatch("scores must not be empty")
    winner = min(scores, key=lambda name: (-scores[name], name))
    return winner, scores[winner]
