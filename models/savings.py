"""Savings of an artifact: what it saves or gains compared with the best simple baseline, on holdout rows."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from models.base import Items, Value

Verdict = Literal["significant", "not significant", "worse"]
Interval = Annotated[tuple[float, float], Field(strict=False)]
"""A 95 % confidence interval, lower bound first."""
ROUNDED = 1e-9
"""Shares that differ by less are equal: sums of the same rows round differently."""


class ExpectedOutcome(Value):
    """What a decision is expected to achieve, measured on holdout rows.

    Figures that do not apply are omitted, and so are intervals that the rows do not allow.
    """

    accuracy: float | None = Field(default=None, description="share of answers that are correct, from 0 to 1")
    accuracy_interval: Interval | None = Field(default=None, description="its 95 % confidence interval")
    coverage: float | None = Field(default=None, description="share of items that get an answer, where not all do")
    coverage_interval: Interval | None = Field(default=None, description="its 95 % confidence interval")
    cost: float | None = Field(default=None, description="mean cost of an item, in the artifact's unit")
    cost_interval: Interval | None = Field(default=None, description="its 95 % confidence interval")
    time: float | None = Field(default=None, description="mean time of an item, in the artifact's unit")
    time_interval: Interval | None = Field(default=None, description="its 95 % confidence interval")


class SimpleBaseline(Value):
    """A simple alternative to an artifact, measured on the same rows."""

    name: str = Field(description="a classifier that always answers, a fixed set of features, a tuned two-stage rule")
    accuracy: float = Field(ge=0, le=1, description="share of items answered correctly, from 0 to 1")
    cost: float = Field(ge=0, description="mean cost of an item, in the artifact's unit")


class ComparedBaseline(SimpleBaseline):
    """The baseline that savings are relative to; for a random mixture, the point it reaches."""

    kind: Literal["single", "random_mixture"] = Field(description="one baseline, or a random mixture of two")


class CurrentBaseline(SimpleBaseline):
    """The status quo: always the most accurate classifier, or all features; and the share of its cost that is saved."""

    saved: float | None = Field(description="share of the current cost that is saved; null: it costs nothing")
    saved_interval: Interval | None = Field(description="its 95 % confidence interval")


class Savings(Value):
    """What an artifact saves and gains compared with the best simple baseline, on holdout rows.

    Baselines are ``baselines`` and random mixtures of any two of them, which reach each budget in between. Intervals
    are from a paired bootstrap over the rows.
    """

    decision: str = Field(description="the decision that the figures are about", examples=["without a deadline"])
    accuracy: float = Field(ge=0, le=1, description="share of items that the artifact answers correctly, from 0 to 1")
    cost: float = Field(ge=0, description="its mean cost of an item, in the artifact's unit")
    baseline: ComparedBaseline = Field(
        description="the cheapest baseline that is at least as accurate, else the most accurate one"
    )
    saved: float | None = Field(description="share of the baseline's cost that is saved; null: it costs nothing")
    saved_interval: Interval | None = Field(description="its 95 % confidence interval")
    gained: float = Field(description="accuracy above the best that baselines reach at the artifact's cost")
    gained_interval: Interval = Field(description="its 95 % confidence interval")
    rows: int = Field(ge=0, description="number of holdout rows")
    verdict: Verdict = Field(
        description="significant: the interval of saved or of gained is above 0; worse: that of saved is below 0; "
        "not significant: neither"
    )
    headline: str = Field(description="the same in one sentence")
    advice: str | None = Field(description="what to change where savings are not significant; else null")
    baselines: Items[SimpleBaseline] = Field(description="all baselines, by rising cost")
    unit: str = Field(default="", description="the unit of costs")
    query: dict[str, JsonValue] = Field(
        default={}, description="the limits of that decision: the default operating point of queries without limits"
    )
    today: CurrentBaseline | None = Field(default=None, description="the status quo, and what is saved of its cost")

    @property
    def has_savings(self) -> bool:
        """Whether savings are significant: their interval is above 0."""
        return self.saved_interval is not None and self.saved_interval[0] > ROUNDED

    @property
    def brief(self) -> str:
        """A few words for lists."""
        match self.verdict:
            case "significant" if self.has_savings:
                return f"saves {format_share(self.saved, self.saved_interval)}, {self.accuracy:.1%} correct"
            case "significant":
                return f"gains {100 * self.gained:.1f} points"
            case "worse":
                return f"worse than {self.baseline.name}"
            case _:
                return "no significant savings"


def format_share(value: float | None, interval: Interval | None) -> str:
    """Write a share and its interval.

    >>> format_share(0.31, (0.18, 0.42))
    '31 % (18 to 42 %)'
    """
    if value is None or interval is None:
        return "unknown"
    return f"{round(100 * value)} % ({round(100 * interval[0])} to {round(100 * interval[1])} %)"
