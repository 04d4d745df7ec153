"""What a plan is worth: what it saves or gains beside the strongest simple thing that a person could do instead."""

from typing import Literal

from pydantic import Field

from models.base import Items, Value

Verdict = Literal["saves", "gains", "nothing", "worse"]


class Estimate(Value):
    """A figure with the interval that its rows allow."""

    value: float = Field(description="the figure")
    low: float = Field(description="with 95 % confidence it lies between this")
    high: float = Field(description="and this")

    @property
    def percent(self) -> str:
        """Write a share.

        >>> Estimate(value=0.31, low=0.18, high=0.42).percent
        '31 % (18 to 42 %)'
        """
        return f"{100 * self.value:.0f} % ({100 * self.low:.0f} to {100 * self.high:.0f} %)"


class Figure(Value):
    """What is expected, with an interval where the rows that said so allow one."""

    value: float = Field(description="the figure")
    low: float | None = Field(description="with 95 % confidence the mean over items lies between this; null: unknown")
    high: float | None = Field(description="and this; null: unknown")


class Expected(Value):
    """What is expected of items that are decided so, as counted on rows that the build had not learned from."""

    accuracy: Figure | None = Field(description="the share of answers that are right, from 0 to 1; null: unknown")
    coverage: Figure | None = Field(description="the share of items that get an answer, from 0 to 1; null: each does")
    cost: Figure | None = Field(description="what an item costs, in the artifact's unit; null: see time")
    time: Figure | None = Field(description="how long an item takes, in the artifact's unit; null: see cost")


class Alternative(Value):
    """A simple thing to do instead, on the same rows."""

    name: str = Field(description="what it is: a classifier that always answers, a fixed set of features")
    accuracy: float = Field(description="the share of items answered rightly, from 0 to 1")
    cost: float = Field(description="what an item costs on average, in the artifact's unit")


class Worth(Value):
    """What a plan saves and gains beside the strongest simple alternative, on rows that had no part in choosing it.

    An alternative is each of ``alternatives`` and, between two of them, a coin that sends an item to the one or the
    other: so any budget can be spent simply. Intervals are from a paired bootstrap of the rows.
    """

    decision: str = Field(description="the decision that it is about", examples=["without a deadline"])
    accuracy: float = Field(description="the share of items that the plan answers rightly, from 0 to 1")
    cost: float = Field(description="what an item costs it on average, in the artifact's unit")
    beside: str = Field(description="the cheapest alternative that is at least as accurate, or the most accurate one")
    saved: Estimate | None = Field(
        description="the share of that alternative's cost that is saved; null: it costs nothing"
    )
    gained: Estimate = Field(description="accuracy above what alternatives reach at the plan's cost")
    rows: int = Field(description="how many rows say so")
    verdict: Verdict = Field(
        description="saves: the interval of saved is above 0; gains: that of gained is; worse: both are below; nothing "
        "can be shown otherwise"
    )
    headline: str = Field(description="the same in one sentence")
    advice: str | None = Field(description="what would help where nothing is saved or gained; else null")
    alternatives: Items[Alternative] = Field(description="by rising cost")

    @property
    def brief(self) -> str:
        """Say it in a few words, for lists."""
        match self.verdict:
            case "saves":
                assert self.saved is not None  # else it could not have been shown
                return f"saves {self.saved.percent}"
            case "gains":
                return f"gains {100 * self.gained.value:.1f} points"
            case "worse":
                return f"worse than {self.beside}"
            case _:
                return "nothing shown"
