"""Budgets: how much a key, a team, or an artifact may spend in a period.

A budget also defines what happens when it is spent.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from models.base import LARGEST, Items, Name, RequestBody, Value

Period = Literal["hour", "day", "month", "total"]
Scope = Literal["key", "team", "artifact"]
WhenSpent = Literal["cheapest", "refuse", "alert"]
Quantity = Literal["cost", "requests", "tokens"]
MAX_RATE = 1_000_000_000
"""Upper bound of requests and tokens per minute."""
_DOLLARS = frozenset(("usd", "$", "us$", "dollar", "dollars", "us dollar", "us dollars"))


def is_same_unit(one: str, other: str) -> bool:
    """Return whether two units of cost are the same; case is ignored.

    >>> is_same_unit("usd", "US dollars"), is_same_unit("ms", "MS"), is_same_unit("ms", "s")
    (True, True, False)
    """
    first, second = one.strip().casefold(), other.strip().casefold()
    return first == second or {first, second} <= _DOLLARS


class BudgetSpec(RequestBody):
    """An amount per period, limits per minute, and what happens when they are spent."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "scope": "team",
                    "target": "search",
                    "amount": 500.0,
                    "unit": "USD",
                    "period": "month",
                    "when_spent": "cheapest",
                    "requests_per_minute": 600,
                }
            ]
        }
    )

    scope: Scope = Field(description="the object that the budget limits: an API key, a team, or an artifact")
    target: Annotated[str, Field(min_length=1, max_length=130)] = Field(
        description="the key's id, as in the log (the first 8 hexadecimal digits of its SHA-256), the team, or the "
        "artifact as kind/name",
        examples=["search", "cascade/chat"],
    )
    amount: Annotated[float, Field(ge=0, le=LARGEST)] | None = Field(
        default=None, description="upper bound on the cost of a period; null: no bound"
    )
    unit: Annotated[str, Field(min_length=1, max_length=40)] = Field(
        default="USD", description="unit of the amount; only runs of artifacts with this unit count"
    )
    period: Period = Field(
        default="month", description="hour, day, or month: by UTC; total: the amount is never renewed"
    )
    is_paced: bool = Field(
        default=False,
        description="whether the amount is released evenly over the period. At any time, a tenth of the amount plus "
        "the elapsed share of it may be spent. Portfolios then plan with the remaining amount per item expected in the "
        "rest of the period. Not supported for total",
    )
    when_spent: WhenSpent = Field(
        default="refuse",
        description="what happens when the amount is spent: cheapest: only the cheapest classifier is called, "
        "even beyond the amount; refuse: items get 402; alert: items run, and headers, metrics, and the log report it",
    )
    requests_per_minute: Annotated[int, Field(ge=1, le=MAX_RATE)] | None = Field(
        default=None,
        description="maximum number of items run in a minute; further ones get 429, unless when_spent is alert",
        examples=[None],
    )
    tokens_per_minute: Annotated[int, Field(ge=1, le=MAX_RATE)] | None = Field(
        default=None,
        description="maximum number of input and output tokens in a minute; further items get 429, unless when_spent "
        "is alert",
        examples=[None],
    )
    offline_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="share of each bound that a server process may spend while the store is unavailable; 0: such items "
        "get 503",
    )

    @model_validator(mode="after")
    def _limits_something(self) -> "BudgetSpec":
        if self.amount is None and self.requests_per_minute is None and self.tokens_per_minute is None:
            raise ValueError("amount, requests_per_minute, or tokens_per_minute is required")
        if self.is_paced and (self.amount is None or self.period == "total"):
            raise ValueError("is_paced requires an amount and a period other than total")
        if self.scope == "artifact" and not all(self.target.partition("/")):
            raise ValueError(f"target must be an artifact as kind/name, got {self.target!r}")
        return self

    def account_changes(self, other: "BudgetSpec") -> bool:
        """Return whether spending recorded for the other budget must not count here."""
        return (self.scope, self.target, self.unit) != (other.scope, other.target, other.unit)


class BudgetBalance(Value):
    """State of one bound of a budget in the current period."""

    quantity: Quantity = Field(description="the bounded quantity: cost in the budget's unit, requests, or tokens")
    amount: float = Field(description="the bound")
    spent: float = Field(description="amount used in this period by items that have ended")
    reserved: float = Field(description="planned maximum of the items in flight")
    released: float = Field(description="part of the amount that may be spent by now, for is_paced")
    remaining: float = Field(description="amount minus spent and reserved, at least 0")
    resets_at: str | None = Field(description="end of the period, UTC, ISO 8601; null: never")


class ShownBudget(Value):
    """A budget and its state."""

    name: Name = Field(description="the budget's name", examples=["search"])
    budget: BudgetSpec = Field(description="the budget")
    balances: Items[BudgetBalance] = Field(description="the state of each bound")
    warnings: Items[str] = Field(
        default=(), description="active artifacts in the budget's scope whose runs do not count, with the reason"
    )


@dataclass(frozen=True, slots=True)
class Payer:
    """The key and the team that pay for an item.

    Attributes:
        key: id of the API key; empty if the key is unknown.
        team: team of the key; empty if there is none.
    """

    key: str = ""
    team: str = ""


NO_PAYER = Payer()
"""Who pays for requests without a known key."""
