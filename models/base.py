"""What every value of the vocabulary shares."""

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

T = TypeVar("T")

LARGEST = 1e100
"""The largest time or cost: sums and products of several hundred are still finite."""


class Value(BaseModel):
    """A frozen value whose numbers are finite and whose types are taken literally.

    ``true`` and ``"1"`` are no numbers, NaN and infinities are refused, and so are unknown fields.

    >>> Value.model_validate({"surprise": 1})
    Traceback (most recent call last):
        ...
    pydantic_core._pydantic_core.ValidationError: 1 validation error for Value
    ...
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


Items = Annotated[tuple[T, ...], Field(strict=False)]
"""A list in JSON, a tuple here: only the container is taken leniently, its members stay strict."""

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
"""What datasets and artifacts are called: it can stand in a path and in a key as it is."""

Label = Annotated[str, StringConstraints(min_length=1, max_length=200)]
"""What a caller calls a classifier, a feature, a column or a group."""
