"""Dataset profiles: accuracy and calibration of the classifiers of a trace, or costs of the features of a table.

Costs are in the dataset's unit. ``solvers/dataset_profile.py`` computes it.
"""

from typing import Annotated, Literal

from pydantic import Field

from models.base import Items, Name, Value

Share = Annotated[float, Field(ge=0, le=1)]


class ClassRows(Value):
    """How often a class is true."""

    name: str = Field(description="the class")
    rows: int = Field(description="the number of items of this class; 0 if it is answered and never true")


class CalibrationBin(Value):
    """Items on which a classifier was about equally sure."""

    low: float = Field(description="the least confidence among these items")
    high: float = Field(description="the largest confidence among these items")
    confidence: float = Field(description="the mean confidence, as the classifier gives it")
    accuracy: Share = Field(description="share of these items that it answered correctly, from 0 to 1")
    rows: int = Field(description="the number of items")


class ClassifierProfile(Value):
    """How one classifier of a trace does."""

    name: str = Field(description="the classifier's name")
    group: str | None = Field(description="its group, if it has one")
    accuracy: Share = Field(
        description="share of all items that it answered correctly, from 0 to 1; the mean quality where graded"
    )
    mean_cost: float = Field(description="what an item cost on average, in the dataset's unit")
    mean_confidence: float | None = Field(
        description="the mean confidence, as the classifier gives it; null if it gives none"
    )
    no_class: Share = Field(
        description="the share of all items, from 0 to 1, for which it answered what is never the true class, as one "
        "that abstains does"
    )
    calibration: Items[CalibrationBin] = Field(
        description="at most 10 bins of about equally many items, by rising confidence; none if it gives no confidence"
    )


class Agreement(Value):
    """Who is right when who is wrong: rows and columns are classifiers, in the same order. A graded answer counts as
    right from 0.5 on."""

    classifiers: Items[str] = Field(description="the classifiers' names")
    wrong: Items[int] = Field(description="for each classifier the number of items that it answered wrongly")
    right: Items[Items[int]] = Field(
        description="for each classifier, on how many of the items that each one answered wrongly it was right"
    )
    share: Items[Items[Share | None]] = Field(
        description="the same as shares, from 0 to 1, of the items answered wrongly; null where there are none"
    )


class TraceProfile(Value):
    """The profile of a trace."""

    kind: Literal["trace"] = Field(default="trace", description="a trace")
    rows: int = Field(description="the number of items")
    unit: str = Field(description="the unit of all costs")
    classes: Items[ClassRows] = Field(description="the classes, the true ones first")
    classifiers: Items[ClassifierProfile] = Field(description="the classifiers, in the dataset's order")
    agreement: Agreement = Field(description="who is right when who is wrong")


class Timing(Value):
    """A measured cost."""

    size: float = Field(description="the item's size")
    cost: float = Field(description="what was measured, in the dataset's unit")


class FeatureProfile(Value):
    """What one feature costs."""

    name: str = Field(description="the feature's name")
    columns: Items[str] = Field(description="the columns that it fills")
    cost: float | None = Field(description="what it costs, in the dataset's unit; null if that depends on the size")
    costs: Items[float | None] = Field(
        description="what it costs at each of the sizes, in the dataset's unit; null where that is too large to be "
        "computed"
    )
    timings: Items[Timing] = Field(
        description="the measured costs, where these were given; of sizes of several dimensions those that are equal"
    )


class FeaturesProfile(Value):
    """The profile of a feature table."""

    kind: Literal["features"] = Field(default="features", description="a table of features")
    rows: int = Field(description="the number of items")
    unit: str = Field(description="the unit of all costs")
    classes: Items[ClassRows] = Field(description="the classes")
    dimensions: int = Field(description="the numbers that an item's size has; 0 if no cost depends on it")
    sizes: Items[float] = Field(
        description="40 sizes from the smallest to the largest of the table's rows and of the timings, or from 1 "
        "to 1000 "
        "where neither has sizes; empty if no cost depends on it. All dimensions have that size"
    )
    features: Items[FeatureProfile] = Field(description="the features, in the dataset's order")


class OfDataset(Value):
    """Which dataset a profile is of."""

    name: Name = Field(description="the dataset's name")
    sha256: str = Field(description="the SHA-256 of the checked table")


class TraceProfileReply(TraceProfile, OfDataset):
    """The profile of a trace."""


class FeaturesProfileReply(FeaturesProfile, OfDataset):
    """The profile of a table of features."""


ProfileReply = Annotated[TraceProfileReply | FeaturesProfileReply, Field(discriminator="kind")]
