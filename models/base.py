"""Base classes of data models."""

import math
import unicodedata
from typing import Annotated, Any, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ModelWrapValidatorHandler,
    StringConstraints,
    ValidationError,
    model_validator,
)

T = TypeVar("T")

ItemId = Annotated[str, Field(min_length=1, max_length=200)]
"""An item's id, as callers have it."""
LIMITS = ("budget", "max_item_cost", "deadline", "min_accuracy", "min_coverage", "tradeoff")
"""The limits of an item, by the names that they have everywhere; each kind of artifact has some of them."""
LARGEST = 1e100
"""The largest time or cost: sums and products of several hundred are still finite."""


class Value(BaseModel):
    """Base of data models: immutable and strict, with finite numbers only.

    Strict validation refuses ``true`` and ``"1"`` as numbers, NaN, infinities, and unknown fields.

    >>> Value.model_validate({"surprise": 1})
    Traceback (most recent call last):
        ...
    pydantic_core._pydantic_core.ValidationError: 1 validation error for Value
    ...
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


MAX_LISTED = 10_000
"""Faults of a body that are listed; to list 300,000 takes seconds."""


class RequestBody(Value):
    """Base of request bodies.

    At most ``MAX_LISTED`` errors are listed, so that validation does not block other requests.

    >>> RequestBody.model_validate(dict.fromkeys(map(str, range(20000))))
    Traceback (most recent call last):
        ...
    pydantic_core._pydantic_core.ValidationError: 1 validation error for RequestBody
      Value error, has 20000 errors, too many to list ...
    """

    @model_validator(mode="wrap")
    @classmethod
    def _has_few_faults(cls, given: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return read(given)
        except ValidationError as error:
            if error.error_count() <= MAX_LISTED:
                raise
            raise ValueError(f"has {error.error_count()} errors, too many to list") from None


def has_finite_numbers(value: Any) -> bool:
    """Return whether a JSON value has neither NaN nor infinities. O(size).

    >>> has_finite_numbers({"a": [1.0, "NaN"]}), has_finite_numbers([[1.0, float("nan")]])
    (True, False)
    """
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list) and not _has_finite_sum(each):
            waiting += each
        elif isinstance(each, float) and not math.isfinite(each):
            return False
    return True


def _has_finite_sum(numbers: list[Any]) -> bool:
    """Return whether all values are numbers with a finite sum; each is then finite.

    This is much faster than checking each number.
    """
    try:
        return math.isfinite(sum(numbers))
    except (TypeError, OverflowError):
        return False


def require_finite(value: T) -> T:
    """Return a JSON value; raises ValueError if it contains NaN or infinities."""
    if not has_finite_numbers(value):
        raise ValueError("must hold finite numbers only, got NaN or an infinity")
    return value


Json = Annotated[JsonValue, AfterValidator(require_finite)]
"""Any JSON value; its numbers are finite."""
Items = Annotated[tuple[T, ...], Field(strict=False)]
"""A list in JSON, a tuple here: only the container is taken leniently, its members stay strict."""
Vector = Annotated[Items[Annotated[float, Field(ge=-1e30, le=1e30)]], Field(min_length=1, max_length=100_000)]
"""An item's embedding."""

NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,62}$"
Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
"""The name of a dataset or artifact; safe in paths and keys."""


def _can_be_shown(text: str) -> str:
    if text.isprintable() and text.strip():  # as good as any is, and told at once
        return text
    if not text.strip() or any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text):
        raise ValueError("must have visible characters and no control characters")
    return text


Label = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_can_be_shown)]
"""What a caller calls a classifier, a feature, a column or a group."""
LEFT_OUT = (
    "classifiers, sensors or features that cannot be had now: the decision leaves them out, and those whose endpoint's "
    "circuit is open, too, wherever the limits can be kept without them"
)
ExcludedNames = Annotated[Items[Label], Field(max_length=500, description=LEFT_OUT, examples=[[]])]
"""What a decision leaves out."""
