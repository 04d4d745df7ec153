"""Savings of an artifact compared with the best baseline, on holdout rows."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from models.base import Items, Value

Verdict = Literal["significant", "not significant", "worse"]
Interval = Annotated[tuple[float, float], Field(strict=False)]
"""A 95 % confidence interval, lower bound first."""
ROUNDED = 1e-9
"""Shares that differ by less are equal: sums of the same rows round differently."""


class ExpectedOutcome(Value):
    """Expected accuracy, cost, time, and coverage of a decision, from holdout rows.

    Figures that do not apply are omitted, as are intervals that cannot be estimated from these rows.
    """

    accuracy: float | None = Field(default=None, description="share of answers that are correct, from 0 to 1")
    accuracy_interval: Interval | None = Field(default=None, description="its 95 % confidence interval")
    coverage: float | None = Field(
        default=None, description="share of items that get an answer; null: every item gets one"
    )
    coverage_interval: Interval | None = Field(default=None, description="its 95 % confidence interval")
    loss: float | None = Field(
        default=None,
        description="mean loss of an item by wrong answers and rejects, in the artifact's unit, in place of the "
        "accuracy if the dataset has losses",
    )
    loss_interval: Interval | None = Field(default=None, description="its 95 % confidence interval")
    cost: float | None = Field(default=None, description="mean cost of an item, in the artifact's unit")
    cost_interval: Interval | None = Field(default=None, description="its 95 % confidence interval")
    time: float | None = Field(default=None, description="mean time of an item, in the artifact's unit")
    time_interval: Interval | None = Field(default=None, description="its 95 % confidence interval")


ACCURACY = (
    "share of items answered correctly, from 0 to 1; with losses, 1 less the mean loss as a share of the largest one"
)
LOSS = "mean loss of an item by wrong answers and rejects, in the artifact's unit; null: all errors are equal"


class SimpleBaseline(Value):
    """A simple alternative to an artifact, measured on the same rows."""

    name: str = Field(description="a classifier that always answers, a fixed set of features, a tuned two-stage rule")
    accuracy: float = Field(ge=0, le=1, description=ACCURACY)
    cost: float = Field(ge=0, description="mean cost of an item, in the artifact's unit")
    loss: float | None = Field(default=None, description=LOSS)


class ComparedBaseline(SimpleBaseline):
    """The baseline with which savings are compared.

    A random mixture has the mean figures of its two baselines.
    """

    kind: Literal["single", "random_mixture"] = Field(description="one baseline, or a random mixture of two")


class CurrentBaseline(SimpleBaseline):
    """Current cost and accuracy without the artifact, and the share that it saves.

    For a portfolio from a log in which most rows have one call, the figures are those of the logged calls. The
    exception are recordings in which one draw decides on all calls of a row (``joint_propensity`` is smallest). In all
    other cases, they are those of the most accurate classifier. For feature tables, this classifier uses all features.
    """

    saved: float | None = Field(description="share of the current cost that is saved; null: the current cost is 0")
    saved_interval: Interval | None = Field(description="its 95 % confidence interval")
    gained: float | None = Field(
        default=None,
        description="the artifact's accuracy minus the current one, at different costs; null: the dataset has losses, "
        "or the artifact was built by an older version",
    )
    gained_interval: Interval | None = Field(default=None, description="its 95 % confidence interval")


class Savings(Value):
    """Savings and gain of an artifact compared with the best simple baseline.

    All figures are measured on holdout rows. The baselines are ``baselines`` and random mixtures of any two of them,
    which cover every budget in between. With losses, sums of cost and loss are compared. Intervals are from a paired
    bootstrap over the rows. For a learned portfolio, they include the error of its cost due to the choice of training
    rows.
    """

    decision: str = Field(description="the decision that the figures are about", examples=["without a deadline"])
    accuracy: float = Field(ge=0, le=1, description=ACCURACY)
    cost: float = Field(ge=0, description="its mean cost of an item, in the artifact's unit")
    loss: float | None = Field(default=None, description=LOSS)
    baseline: ComparedBaseline = Field(
        description="the cheapest baseline that is at least as accurate, else the most accurate one"
    )
    saved: float | None = Field(
        description="share of the baseline's cost that is saved; with losses, share of its cost plus loss; "
        "null: the baseline costs nothing"
    )
    saved_interval: Interval | None = Field(description="its 95 % confidence interval")
    gained: float = Field(description="accuracy minus the best accuracy of baselines at the artifact's cost")
    gained_interval: Interval = Field(description="its 95 % confidence interval")
    rows: int = Field(ge=0, description="number of holdout rows")
    verdict: Verdict = Field(
        description="significant: the interval of saved or of gained is above 0; worse: the interval of saved "
        "is below 0; "
        "not significant: neither"
    )
    headline: str = Field(description="the verdict and the figures in one sentence")
    advice: str | None = Field(description="what to change if savings are not significant; else null")
    baselines: Items[SimpleBaseline] = Field(description="all baselines, by rising cost")
    unit: str = Field(default="", description="the unit of costs")
    query: dict[str, JsonValue] = Field(
        default={},
        description="the limits of ``decision``, which is the default operating point of queries without limits",
    )
    today: CurrentBaseline | None = Field(
        default=None,
        description="current cost and accuracy without the artifact, and the share of the cost that is saved",
    )

    @property
    def has_savings(self) -> bool:
        """Whether the savings are significant: the confidence interval is above 0."""
        return self.saved_interval is not None and self.saved_interval[0] > ROUNDED

    @property
    def _quality(self) -> str:
        return f"{self.accuracy:.1%} correct" if self.loss is None else f"loss {self.loss:.4g} per item"

    @property
    def brief(self) -> str:
        """Return the verdict in a few words, such as ``gains 2.1 points``."""
        match self.verdict:
            case "significant" if self.has_savings:
                return f"saves {format_share(self.saved, self.saved_interval)}, {self._quality}"
            case "significant":
                return f"gains {100 * self.gained:.1f} points"
            case "worse":
                return f"worse than {self.baseline.name}"
            case _:
                return "no significant savings"


def format_share(value: float | None, interval: Interval | None) -> str:
    """Format a share and its interval as percentages.

    >>> format_share(0.31, (0.18, 0.42))
    '31 % (18 to 42 %)'
    """
    if value is None or interval is None:
        return "unknown"
    return f"{round(100 * value)} % ({round(100 * interval[0])} to {round(100 * interval[1])} %)"
