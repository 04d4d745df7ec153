"""Streams of single queries that share what they may use: a total, further resources, rate limits, a tenant's share."""

from typing import Annotated

from pydantic import Field

from models.base import LARGEST, Label, Name, Value
from models.cost import Amount

MOST_STREAM_LIMITS = 32
Cost = Annotated[float, Field(ge=0, le=LARGEST)]
StreamLength = Annotated[int, Field(ge=1, le=10**12)]


class StreamResource(Value):
    """How much of a resource a whole stream may use."""

    total: Amount = Field(description="for all queries together, in the resource's unit; never exceeded")
    uses: Annotated[dict[Label, Amount], Field(max_length=200)] | None = Field(
        default=None,
        description="what a query uses of it, for each classifier; null: from the trace, for the resource of this name",
    )


class RateLimit(Value):
    """How often a classifier may be called."""

    at_most: int = Field(ge=0, le=100_000, description="the most calls in any window of this length; never exceeded")
    window_s: float = Field(gt=0, le=31 * 24 * 3600, description="the length of the window, in seconds")


class Tenant(Value):
    """Whose query it is, and what the tenant's queries of the stream may cost together."""

    name: Label = Field(description="the tenant's name in this ledger")
    total: Cost = Field(description="what the tenant's queries may cost, in the artifact's unit; never exceeded")
    queries: StreamLength = Field(description="how many queries of the stream will be the tenant's")


class Pacing(Value):
    """A stream of single queries that share a budget, and whatever else is scarce, counted in the store."""

    ledger: Name = Field(
        description="the name under which the stream's spending is counted, for this portfolio in all its versions; "
        "the first query sets the total and the number of queries; it is forgotten 90 days after its last query, and a "
        "further stream needs a further name"
    )
    total: Cost = Field(
        description="what the whole stream may cost, in the artifact's unit; never exceeded: while the store "
        "cannot be reached, queries are refused (503)"
    )
    queries: StreamLength = Field(
        description="how many queries the stream will have; more are answered while something is left"
    )
    resources: dict[Label, StreamResource] = Field(
        default={}, max_length=MOST_STREAM_LIMITS, description="further totals of the stream, by the resource's name"
    )
    classifiers: dict[Label, RateLimit] = Field(
        default={}, max_length=MOST_STREAM_LIMITS, description="rate limits, by the classifier's name"
    )
    tenant: Tenant | None = Field(default=None, description="whose query it is; null: nobody's in particular")


class LedgerState(Value):
    """How far a stream has come."""

    ledger: Name = Field(description="the ledger's name")
    spent: float = Field(description="what the stream has spent, this query included")
    queries: int = Field(description="how many queries it has had, this one included")
    tenant_spent: float | None = Field(default=None, description="what the tenant has spent; null if there is none")
    resources: dict[str, float] = Field(default={}, description="what the stream has used of each resource")
    remaining_calls: dict[str, int] = Field(
        default={}, description="for classifiers with a rate limit, how often each could be called right now"
    )
