"""What something costs: a number, or a function of the item's size."""

from typing import Annotated

from pydantic import Field, model_validator

from models.base import Items, Value

Amount = Annotated[float, Field(ge=0)]


class Polynomial(Value):
    """The coefficients of 1, s, s², … in the item size s; none is negative, so that cost never falls with size.

    >>> Polynomial(polynomial=(0.2, 0.01)).polynomial
    (0.2, 0.01)
    """

    polynomial: Annotated[Items[Amount], Field(min_length=1, max_length=16)] = Field(
        description="coefficients of 1, s, s², … in the item size s; each at least 0, in the dataset's unit"
    )


class Timings(Value):
    """Measured costs at several item sizes, to which a polynomial is fitted when an index is built."""

    timings: Annotated[Items[Annotated[Items[Amount], Field(min_length=2, max_length=2)]], Field(min_length=1)] = Field(
        description="pairs of item size and measured cost, the cost in the dataset's unit"
    )
    degree: int = Field(default=2, ge=0, le=15, description="degree of the fitted polynomial")
    quantile: float = Field(
        default=0.95, gt=0, le=1, description="the quantile of the costs at a size to provision for"
    )

    @model_validator(mode="after")
    def _has_enough_sizes(self) -> "Timings":
        sizes = len({size for size, _ in self.timings})
        if sizes <= self.degree:
            raise ValueError(
                f"degree {self.degree} needs timings at {self.degree + 1} sizes or more, there are {sizes}"
            )
        return self


Cost = Amount | Polynomial | Timings
