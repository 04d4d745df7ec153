"""The trade-off curve: accuracy and cost of each operating point, and of the baselines."""

from typing import Any

from pydantic import Field, JsonValue

from models.artifact import ArtifactRef
from models.base import Items, Value
from models.savings import ExpectedOutcome, Interval


class CurvePoint(Value):
    """One operating point."""

    limits: dict[str, JsonValue] = Field(description="the limits by which a decision is made at this point")
    expected: ExpectedOutcome = Field(description="what is expected of items that are decided so, with 95 % intervals")
    decision: dict[str, Any] = Field(description="what is decided there, as of the decision route; empty: by item")


class BaselinePoint(Value):
    """What a baseline reaches."""

    accuracy: float = Field(description="the share of items answered correctly, from 0 to 1")
    accuracy_interval: Interval | None = Field(description="where it lies, with 95 % confidence; null: unknown")
    cost: float = Field(description="what an item costs on average, in the artifact's unit")


class Baseline(Value):
    """A simple thing to do instead."""

    name: str = Field(description="what it is: a classifier that always answers, a fixed set of features, a router")
    points: Items[BaselinePoint] = Field(description="one, or by rising cost where it has a budget")
    rows: int = Field(description="the number of rows that they were counted on; 0: unknown")


class CurveReply(Value):
    """Accuracy against cost: the artifact's operating points, and the baselines."""

    points: Items[CurvePoint] = Field(description="the operating points, by rising cost")
    baselines: Items[Baseline] = Field(description="what could be done instead")
    default: dict[str, JsonValue] = Field(description="the limits by which a query without any is answered")
    rows: int = Field(description="the number of rows that the points were counted on; 0: unknown")
    unit: str = Field(description="the unit of costs")
    artifact: ArtifactRef = Field(description="the artifact that answered")
