"""Spend report: costs by key, team, artifact, and model.

Costs are compared with always calling the strongest classifier.
"""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from models.base import Items, Value

SpendColumn = Literal["day", "key", "team", "artifact", "model"]
SPEND_COLUMNS: tuple[SpendColumn, ...] = ("day", "key", "team", "artifact", "model")


@dataclass(frozen=True, slots=True)
class SpendKey:
    """The properties of a call by which costs are summed.

    Attributes:
        day: UTC, ISO 8601.
        key: id of the API key; empty if there is none.
        team: team of the key; empty if there is none.
        artifact: kind/name.
        model: the called classifier, feature, or embedder.
        unit: the artifact's unit.
        is_planned: whether costs are planned costs of an assignment instead of costs of calls.
    """

    day: str
    key: str
    team: str
    artifact: str
    model: str
    unit: str
    is_planned: bool = False


@dataclass(frozen=True, slots=True)
class SpendAmounts:
    """Number and cost of calls, or of assigned items."""

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
    """Costs of one group, either of calls or of assigned items.

    Columns that are not used for grouping are null.
    """

    day: str | None = Field(default=None, description="day, UTC, ISO 8601")
    key: str | None = Field(default=None, description="id of the API key; empty: requests without a known key")
    team: str | None = Field(default=None, description="team of the key; empty: none")
    artifact: str | None = Field(default=None, description="the artifact, as kind/name")
    model: str | None = Field(default=None, description="the called classifier, feature, or embedder")
    unit: str = Field(description="unit of the costs")
    is_planned: bool = Field(
        description="true: planned costs of items that were assigned to classifiers; if these items are also run, the "
        "cost of their calls is in other rows. False: costs of calls"
    )
    calls: int = Field(description="number of calls; if is_planned, of assigned items")
    cost: float = Field(description="cost of these calls; if is_planned, of the assigned items with their embeddings")
    input_tokens: int = Field(description="number of input tokens, if endpoints report them")
    output_tokens: int = Field(description="number of output tokens, if endpoints report them")
    strongest_cost: float = Field(
        description="cost of the same items if only the most expensive classifier of their artifact had been called. "
        "It is computed from its prices for the tokens of the answer, else from its mean cost in the artifact's dataset"
    )


class SpendReport(Value):
    """Costs of runs, chats, batches, and assignments in a range of days."""

    start: str = Field(description="first day, UTC, ISO 8601")
    end: str = Field(description="last day, UTC, ISO 8601")
    rows: Items[SpendRow] = Field(description="costs by group")
    totals: Items[SpendRow] = Field(description="costs of all groups, by unit and is_planned")


def group_spend(spend: dict[SpendKey, SpendAmounts], by: tuple[SpendColumn, ...]) -> tuple[SpendRow, ...]:
    """Return the costs grouped and sorted by these columns, unit, and ``is_planned``."""
    groups: dict[tuple[Any, ...], SpendAmounts] = {}
    for key, amounts in spend.items():
        group = (*(getattr(key, column) for column in by), key.unit, key.is_planned)
        groups[group] = groups.get(group, SpendAmounts()) + amounts
    return tuple(
        SpendRow(
            **dict(zip((*by, "unit", "is_planned"), group, strict=True)),
            calls=one.calls,
            cost=one.cost,
            input_tokens=one.input_tokens,
            output_tokens=one.output_tokens,
            strongest_cost=one.strongest_cost,
        )
        for group, one in sorted(groups.items())
    )
