"""What every protocol makes of an item and of a reply."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import orjson

from app.running.templates import WrongShape
from models.confidence_scale import ConfidenceScale, is_beyond, to_probability

MOST_TEXT = 200
"""Characters of a label."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request: body is JSON's value, None for none; data: the same, written. on_text: takes the pieces of the answer
    while they come. answers: how many it asks for."""

    method: str
    url: str
    body: Any | None
    on_text: Callable[[str], None] | None = None
    data: bytes | None = None
    answers: int = 1

    def with_encoded_body(self) -> "Request":
        """Give it with its body as bytes; raises TypeError for what JSON cannot hold."""
        return self if self.body is None else replace(self, data=orjson.dumps(self.body))


@dataclass(frozen=True, slots=True)
class ParsedResponse:
    """The content of a reply; tokens are None where it has none. values: None where a cell of a feature is
    missing; of several answers one behind the other."""

    label: str | None = None
    confidence: float | None = None
    scores: dict[str, float] | None = None
    values: tuple[float | None, ...] | None = None
    cost: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    text: str | None = None


def read_number(value: Any, what: str) -> float:
    """Read a finite number; raises WrongShape."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise WrongShape(f"{what} is {type_name(value)}, must be a number")
    return float(value)


def read_confidence(value: float, scale: ConfidenceScale) -> float:
    """Convert a confidence to a probability; raises WrongShape if it is beyond its scale."""
    if is_beyond(value, scale):
        raise WrongShape(f"the confidence is beyond its scale, {scale}: set the endpoint's confidence_scale")
    return float(to_probability(value, scale))


def read_count(value: Any) -> int | None:
    """Read a count of tokens; None for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def read_text_label(value: Any) -> str:
    """Read a label: a text, or what can be written as one in a word; raises WrongShape."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise WrongShape(f"the label is {type_name(value)}, must be a text or a number")
    text = str(value)
    if not text or len(text) > MOST_TEXT:
        raise WrongShape(f"the label has {len(text)} characters, must have 1 to {MOST_TEXT}")
    return text


def type_name(value: Any) -> str:
    """Return the type of a value, not the value: a reply may contain secrets.

    >>> type_name(None), type_name("secret"), type_name([1])
    ('nothing', 'a text', 'a list')
    """
    kinds = {"NoneType": "nothing", "bool": "true or false", "str": "a text", "list": "a list", "dict": "an object"}
    return kinds.get(type(value).__name__, "no finite number")


def best_of(scores: dict[str, float]) -> tuple[str, float]:
    """Give the label of the highest score; among equals the first by name. Raises WrongShape if there is none."""
    if not scores:
        raise WrongShape("there are no scores")
    winner = min(scores, key=lambda name: (-scores[name], name))
    return winner, scores[winner]
