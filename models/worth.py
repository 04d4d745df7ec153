"""What a plan is worth: what it saves or gains beside the strongest simple thing that a person could do instead."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from models.base import Items, Value

Verdict = Literal["saves", "gains", "nothing", "worse"]
Interval = Annotated[tuple[float, float], Field(strict=False)]
"""The least and the most that a figure may be, with 95 % confidence."""


class Expected(Value):
    """What is expected of items that are decided so, as counted on rows that the build had not learned from. What does
    not apply is left out, and intervals where the rows allow none."""

    accuracy: float | None = Field(default=None, description="the share of answers that are right, from 0 to 1")
    accuracy_interval: Interval | None = Field(default=None, description="where it lies, with 95 % confidence")
    coverage: float | None = Field(default=None, description="the share of items that get an answer, where not all do")
    coverage_interval: Interval | None = Field(default=None, description="where it lies, with 95 % confidence")
    cost: float | None = Field(default=None, description="what an item costs, in the artifact's unit")
    cost_interval: Interval | None = Field(default=None, description="where its mean lies, with 95 % confidence")
    time: float | None = Field(default=None, description="how long an item takes, in the artifact's unit")
    time_interval: Interval | None = Field(default=None, description="where its mean lies, with 95 % confidence")


class Alternative(Value):
    """A simple thing to do instead, on the same rows."""

    name: str = Field(description="what it is: a classifier that always answers, a fixed set of features")
    accuracy: float = Field(ge=0, le=1, description="the share of items answered correctly, from 0 to 1")
    cost: float = Field(ge=0, description="what an item costs on average, in the artifact's unit")


class Beside(Alternative):
    """The alternative that a plan is held against; of a coin the point that it reaches."""

    kind: Literal["alone", "coin"] = Field(description="one alternative, or a coin between two")


class Today(Alternative):
    """What people pay for today: always the most accurate classifier, or all features; and what is saved of it."""

    saved: float | None = Field(description="the share of today's cost that is saved; null: it costs nothing")
    saved_interval: Interval | None = Field(description="where that lies, with 95 % confidence")


class Worth(Value):
    """What a plan saves and gains beside the strongest simple alternative, on rows that had no part in choosing it.

    An alternative is each of ``alternatives`` and, between two of them, a coin that sends an item to the one or the
    other: so any budget can be spent simply. Intervals are from a paired bootstrap of the rows.
    """

    decision: str = Field(description="the decision that it is about", examples=["without a deadline"])
    accuracy: float = Field(ge=0, le=1, description="the share of items that the plan answers correctly, from 0 to 1")
    cost: float = Field(ge=0, description="what an item costs it on average, in the artifact's unit")
    beside: Beside = Field(
        description="the cheapest alternative that is at least as accurate, or the most accurate one"
    )
    saved: float | None = Field(description="the share of its cost that is saved; null: it costs nothing")
    saved_interval: Interval | None = Field(description="where that lies, with 95 % confidence")
    gained: float = Field(description="accuracy above what alternatives reach at the plan's cost")
    gained_interval: Interval = Field(description="where that lies, with 95 % confidence")
    rows: int = Field(ge=0, description="how many rows say so")
    verdict: Verdict = Field(
        description="saves: the interval of saved is above 0; gains: that of gained is; worse: that of saved is "
        "below 0, and that of gained not above; nothing can be shown otherwise"
    )
    headline: str = Field(description="the same in one sentence")
    advice: str | None = Field(description="what would help where nothing is saved or gained; else null")
    alternatives: Items[Alternative] = Field(description="by rising cost")
    unit: str = Field(default="", description="the unit of costs")
    query: dict[str, JsonValue] = Field(
        default={}, description="the limits of that decision, by which a query without any limit is answered, too"
    )
    today: Today | None = Field(default=None, description="what people pay for today, and what is saved of it")

    @property
    def brief(self) -> str:
        """Say it in a few words, for lists."""
        match self.verdict:
            case "saves":
                return f"saves {share(self.saved, self.saved_interval)}, {self.accuracy:.1%} right"
            case "gains":
                return f"gains {100 * self.gained:.1f} points"
            case "worse":
                return f"worse than {self.beside.name}"
            case _:
                return "nothing shown"


def share(value: float | None, interval: Interval | None) -> str:
    """Write a share and where it lies.

    >>> share(0.31, (0.18, 0.42))
    '31 % (18 to 42 %)'
    """
    if value is None or interval is None:
        return "unknown"
    return f"{round(100 * value)} % ({round(100 * interval[0])} to {round(100 * interval[1])} %)"
