"""Spend report: costs by key, team, artifact, and model, compared with always calling the strongest classifier."""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from models.base import Items, Value

SpendColumn = Literal["day", "key", "team", "artifact", "model"]
SPEND_COLUMNS: tuple[SpendColumn, ...] = ("day", "key", "team", "artifact", "model")


@dataclass(frozen=True, slots=True)
class SpendKey:
    """The properties of a call by which costs are summed.

    Attributes:
        day: UTC, ISO 8601.
        key: id of the API key; empty: none.
        team: team of the key; empty: none.
        artifact: kind/name.
        model: the called classifier, feature, or embedder.
        unit: the artifact's unit.
    """

    day: str
    key: str
    team: str
    artifact: str
    model: str
    unit: str


@dataclass(frozen=True, slots=True)
class SpendAmounts:
    """Number and cost of calls."""

    calls: int = 0
    cost: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    strongest_cost: float = 0.0

    def __add__(self, other: "SpendAmounts") -> "SpendAmounts":
        return SpendAmounts(
            self.calls + other.calls,
            self.cost + other.cost,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.strongest_cost + other.strongest_cost,
        )


class SpendRow(Value):
    """Costs of one group; columns that are not grouped by are null."""

    day: str | None = Field(default=None, description="day, UTC, ISO 8601")
    key: str | None = Field(default=None, description="id of the API key; empty: requests without a known key")
    team: str | None = Field(default=None, description="team of the key; empty: none")
    artifact: str | None = Field(default=None, description="the artifact, as kind/name")
    model: str | None = Field(default=None, description="the called classifier, feature, or embedder")
    unit: str = Field(description="unit of the costs")
    calls: int = Field(description="number of calls")
    cost: float = Field(description="cost of these calls")
    input_tokens: int = Field(description="number of input tokens, if endpoints report them")
    output_tokens: int = Field(description="number of output tokens, if endpoints report them")
    strongest_cost: float = Field(
        description="cost of the same items if only the most expensive classifier of their artifact had been "
        "called: by its prices for the tokens of the answer, else its mean cost in the artifact's dataset"
    )


class SpendReport(Value):
    """Costs of runs, chats, and batches from one day to another."""

    start: str = Field(description="first day, UTC, ISO 8601")
    end: str = Field(description="last day, UTC, ISO 8601")
    rows: Items[SpendRow] = Field(description="costs by group")
    totals: Items[SpendRow] = Field(description="costs of all groups, by unit")


def group_spend(spend: dict[SpendKey, SpendAmounts], by: tuple[SpendColumn, ...]) -> tuple[SpendRow, ...]:
    """Return the costs by unit and these columns, sorted by them."""
    groups: dict[tuple[str, ...], SpendAmounts] = {}
    for key, amounts in spend.items():
        group = (*(getattr(key, column) for column in by), key.unit)
        groups[group] = groups.get(group, SpendAmounts()) + amounts
    return tuple(
        SpendRow(
            **dict(zip((*by, "unit"), group, strict=True)),
            calls=one.calls,
            cost=one.cost,
            input_tokens=one.input_tokens,
            output_tokens=one.output_tokens,
            strongest_cost=one.strongest_cost,
        )
        for group, one in sorted(groups.items())
    )
