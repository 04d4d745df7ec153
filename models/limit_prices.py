"""What one more unit of a limit would bring."""

from pydantic import Field

from models.base import Value


class LimitPrice(Value):
    """One limit: how much of it is used, and what one more unit of it would bring."""

    limit: str = Field(description="its path in the request", examples=["classifiers.large.at_most"])
    at_least: float | None = Field(description="the bound, if at least so much must be used; else null")
    at_most: float | None = Field(description="the bound, if at most so much may be used; else null")
    used: float = Field(
        description="what the assignment uses, in the limit's unit; of floors what counts of the estimates, added up"
    )
    price: float = Field(
        description="the shadow price, at least 0: what one unit more room brings, in right answers, or in the "
        "artifact's unit where the goal is cost; 0 where the limit does not bind"
    )
