"""Advice: which of the methods that a dataset allows to take within the limits that matter, and why."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from models.base import LARGEST, Items, Name, Sent, Value
from models.data_warning import DataWarning
from models.savings import Interval, Savings, SimpleBaseline

Limit = Annotated[float, Field(ge=0, le=LARGEST)]
AdviceVerdict = Literal["best", "similar", "worse", "infeasible"]


class AdviceLimits(Value):
    """What an item may cost, how long it may take, how often answers must be right; none asks for what is nearly as
    accurate as the best, at the least cost."""

    budget: Limit | None = Field(
        default=None, description="what an item may cost on average, in the dataset's unit", examples=[5.0]
    )
    deadline: Limit | None = Field(
        default=None, description="what any one item may cost, or take, in the dataset's unit", examples=[20.0]
    )
    min_accuracy: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None, description="the least share of right answers, from 0 to 1", examples=[0.9]
    )


class AdviceRequest(Sent, AdviceLimits):
    """What to give advice on."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"dataset": "digits", "budget": 5.0}]})

    dataset: Name = Field(description="the dataset to learn from", examples=["digits"])
    time_limit_s: Annotated[float, Field(ge=1, le=86_400)] = Field(
        default=600.0, description="seconds for all methods together; what does not end in its share is left out"
    )
    seed: int = Field(default=0, ge=0, lt=2**63, description="the seed of everything random")


class TradeOffPoint(Value):
    """What a method reaches at one of its settings, on the rows that report."""

    accuracy: float = Field(description="the share of items answered rightly, from 0 to 1")
    cost: float = Field(description="what an item costs on average, in the dataset's unit")


class KindAdvice(Value):
    """What one method can do within the limits."""

    kind: str = Field(description="the artifact kind")
    verdict: AdviceVerdict = Field(
        description="best: what to build; level: not shown to be worse; behind: shown to be dearer or less accurate; "
        "none: nothing of it is within the limits"
    )
    params: dict[str, Any] = Field(description="the parameters to build it with")
    query: dict[str, Any] = Field(description="the query to ask it with")
    accuracy: float | None = Field(description="the share of items answered rightly, from 0 to 1; null: none")
    accuracy_interval: Interval | None = Field(description="where it lies, with 95 % confidence")
    cost: float | None = Field(description="what an item costs on average, in the dataset's unit")
    cost_interval: Interval | None = Field(description="where it lies, with 95 % confidence")
    savings: Savings | None = Field(description="what it saves or gains beside the simple alternatives; null: none")
    points: Items[TradeOffPoint] = Field(description="all its settings that were looked at, by rising cost")


class ExcludedKind(Value):
    """A method that could not be built."""

    kind: str = Field(description="the artifact kind")
    reason: str = Field(description="why not")
    timed_out: bool = Field(default=False, description="whether there was not enough time for it")


class AdviceRows(Value):
    """How the rows were used, each for one purpose."""

    training: int = Field(description="rows that everything learned from")
    validation: int = Field(description="rows by which settings and methods were chosen")
    holdout: int = Field(description="rows that every figure is from, and that chose nothing")


class Advice(AdviceLimits):
    """Which method to take, and what every one reached on the same rows."""

    dataset: Name = Field(description="the dataset")
    dataset_sha256: str = Field(description="the SHA-256 of the dataset")
    unit: str = Field(description="the unit of costs and limits")
    rows: AdviceRows = Field(description="how the rows were used")
    recommended: str = Field(description="what to take: a kind, or a simple alternative", examples=["policy"])
    summary: str = Field(description="the advice in one sentence")
    kinds: Items[KindAdvice] = Field(description="the methods, the best first")
    alternatives: Items[SimpleBaseline] = Field(description="what could be done without any, by rising cost")
    excluded: Items[ExcludedKind] = Field(description="methods that could not be built, and why")
    warnings: Items[DataWarning] = Field(
        default=(), description="what makes these figures less certain than they look, and what to do"
    )
