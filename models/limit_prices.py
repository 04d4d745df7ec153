"""Shadow prices of limits."""

from pydantic import Field

from models.base import Value


class LimitPrice(Value):
    """Use and shadow price of a limit."""

    limit: str = Field(description="path of the limit in the request", examples=["classifiers.large.at_most"])
    at_least: float | None = Field(description="the bound, if it is a lower bound; else null")
    at_most: float | None = Field(description="the bound, if it is an upper bound; else null")
    used: float = Field(
        description="use of the limit by the assignment, in the limit's unit; for floors the sum of the corrected "
        "estimates"
    )
    price: float = Field(
        description="shadow price, at least 0: gain in correct answers per unit by which the limit is relaxed. With "
        "goal cost, it is the saved cost in the artifact's unit. 0 if the limit does not bind"
    )
