"""Budget pacing of streams: shared totals, resources, rate limits, and tenants."""

from typing import Annotated

from pydantic import Field

from models.base import LARGEST, Label, Name, Value
from models.cost import Amount

MAX_STREAM_LIMITS = 32
Cost = Annotated[float, Field(ge=0, le=LARGEST)]
StreamLength = Annotated[int, Field(ge=1, le=10**12)]


class StreamResource(Value):
    """Total amount of a resource that is available to a stream."""

    total: Amount = Field(description="total for all queries, in the resource's unit; never exceeded")
    uses: Annotated[dict[Label, Amount], Field(max_length=200)] | None = Field(
        default=None,
        description="use of the resource by a query with each classifier; null: the uses in the trace of the "
        "resource with this name",
    )


class RateLimit(Value):
    """Rate limit of a classifier."""

    at_most: int = Field(
        ge=0, le=100_000, description="maximum number of calls in any window of ``window_s`` seconds; never exceeded"
    )
    window_s: float = Field(gt=0, le=31 * 24 * 3600, description="length of the window, in seconds")


class Tenant(Value):
    """The tenant of a query, and the tenant's total budget in the stream."""

    name: Label = Field(description="the tenant's name in this ledger")
    total: Cost = Field(description="total budget of the tenant's queries, in the artifact's unit; never exceeded")
    queries: StreamLength = Field(description="expected number of the tenant's queries in the stream")


class Pacing(Value):
    """A stream of single queries with a common budget and other common limits.

    The store keeps the stream's ledger of spending.
    """

    ledger: Name = Field(
        description="name of the stream's ledger, for this portfolio in all versions. The first query sets the "
        "total and the number of queries. The ledger expires 90 days after its last query; use a new "
        "name for a new stream"
    )
    total: Cost = Field(
        description="total budget of the stream, in the artifact's unit; never exceeded: while the store cannot "
        "be reached, queries are refused (503)"
    )
    queries: StreamLength = Field(
        description="expected number of queries of the stream; further queries are answered while budget remains"
    )
    resources: dict[Label, StreamResource] = Field(
        default={}, max_length=MAX_STREAM_LIMITS, description="further totals of the stream, by resource name"
    )
    classifiers: dict[Label, RateLimit] = Field(
        default={}, max_length=MAX_STREAM_LIMITS, description="rate limits, by classifier name"
    )
    tenant: Tenant | None = Field(default=None, description="the tenant that sent the query; null: none")


class LedgerState(Value):
    """What a stream has spent so far."""

    ledger: Name = Field(description="the ledger's name")
    spent: float = Field(description="cost of the stream so far, including this query")
    queries: int = Field(description="number of queries so far, including this one")
    tenant_spent: float | None = Field(default=None, description="cost of the tenant's queries so far; null: no tenant")
    resources: dict[str, float] = Field(default={}, description="use of each resource so far")
    remaining_calls: dict[str, int] = Field(
        default={}, description="remaining calls of each classifier with a rate limit at this time"
    )
