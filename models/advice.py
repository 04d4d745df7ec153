"""Advice: which artifact kind to build for a dataset within given limits, and why."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from models.base import LARGEST, Items, Name, RequestBody, Value
from models.data_warning import DataWarning
from models.savings import LOSS, Interval, Savings, SimpleBaseline

Limit = Annotated[float, Field(ge=0, le=LARGEST)]
AdviceVerdict = Literal["best", "similar", "worse", "infeasible"]


class AdviceLimits(Value):
    """Limits of the advice.

    Without limits, the cheapest setting that is nearly as accurate as the best one is selected. For a log in which most
    prompts have one call, it is the cheapest setting that is as accurate as the log.
    """

    budget: Limit | None = Field(
        default=None, description="limit on the mean cost per item, in the dataset's unit", examples=[5.0]
    )
    deadline: Limit | None = Field(
        default=None, description="hard limit on the cost or time of each item, in the dataset's unit", examples=[20.0]
    )
    min_accuracy: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None, description="lower bound on the share of correct answers, from 0 to 1", examples=[0.9]
    )


class AdviceRequest(RequestBody, AdviceLimits):
    """A request for advice on a dataset."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"dataset": "digits", "budget": 5.0}]})

    dataset: Name = Field(description="the dataset to learn from", examples=["digits"])
    time_limit_s: Annotated[float, Field(ge=1, le=86_400)] = Field(
        default=600.0, description="seconds for all artifact kinds together; a kind that exceeds its share is excluded"
    )
    seed: int = Field(default=0, ge=0, lt=2**63, description="random seed")


class TradeOffPoint(Value):
    """Accuracy and cost of one setting of a kind, on holdout rows."""

    accuracy: float = Field(description="share of items answered correctly, from 0 to 1")
    cost: float = Field(description="mean cost of an item, in the dataset's unit")


class KindAdvice(Value):
    """The best setting of one artifact kind within the limits."""

    kind: str = Field(description="the artifact kind")
    verdict: AdviceVerdict = Field(
        description="best: build this kind; similar: no significant difference from the best; worse: "
        "significantly less accurate or more expensive; none: no setting is within the limits"
    )
    params: dict[str, Any] = Field(description="the build parameters of this setting")
    query: dict[str, Any] = Field(description="the query that selects this setting")
    accuracy: float | None = Field(description="share of items answered correctly, from 0 to 1; null: infeasible")
    accuracy_interval: Interval | None = Field(description="its 95 % confidence interval")
    loss: float | None = Field(default=None, description=LOSS)
    cost: float | None = Field(description="mean cost of an item, in the dataset's unit")
    cost_interval: Interval | None = Field(description="95 % confidence interval")
    savings: Savings | None = Field(description="savings compared with simple baselines; null: none")
    points: Items[TradeOffPoint] = Field(description="all settings that were measured, by rising cost")


class ExcludedKind(Value):
    """An artifact kind that could not be built, and the reason."""

    kind: str = Field(description="the artifact kind")
    reason: str = Field(description="why the kind could not be built")
    timed_out: bool = Field(default=False, description="whether the kind exceeded its share of the time limit")


class AdviceRows(Value):
    """Number of rows for each purpose."""

    training: int = Field(description="rows that models learned from")
    validation: int = Field(description="rows that settings and kinds were chosen on")
    holdout: int = Field(description="rows that all figures are measured on")


class Advice(AdviceLimits):
    """The recommended artifact kind, and the figures of each kind on the same rows."""

    dataset: Name = Field(description="the dataset")
    dataset_sha256: str = Field(description="the SHA-256 of the dataset")
    unit: str = Field(description="the unit of costs and limits")
    rows: AdviceRows = Field(description="how the rows were used")
    recommended: str = Field(description="the recommended kind, or a simple baseline", examples=["policy"])
    summary: str = Field(description="the advice in one sentence")
    kinds: Items[KindAdvice] = Field(description="the artifact kinds, best first")
    alternatives: Items[SimpleBaseline] = Field(description="simple baselines, by rising cost")
    excluded: Items[ExcludedKind] = Field(description="kinds that could not be built, and why")
    warnings: Items[DataWarning] = Field(
        default=(), description="problems of the data that make these figures less certain, and what to do"
    )
