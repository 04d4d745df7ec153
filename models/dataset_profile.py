"""Dataset profiles: accuracy and calibration of classifiers, or feature costs.

Costs are in the dataset's unit. ``solvers/dataset_profile.py`` computes profiles.
"""

from typing import Annotated, Literal

from pydantic import Field

from models.base import Items, Name, Value

Share = Annotated[float, Field(ge=0, le=1)]


class ClassRows(Value):
    """The number of items of a class."""

    name: str = Field(description="the class")
    rows: int = Field(
        description="number of items whose true label is this class; 0: classifiers answer it, but it is never true"
    )


class CalibrationBin(Value):
    """Mean confidence and accuracy of items with similar confidence."""

    low: float = Field(description="lowest confidence of these items")
    high: float = Field(description="the largest confidence among these items")
    confidence: float = Field(description="mean confidence of the classifier")
    accuracy: Share = Field(description="accuracy on these items, from 0 to 1")
    rows: int = Field(description="the number of items")


class ClassifierProfile(Value):
    """Accuracy, cost, and calibration of a classifier in a trace."""

    name: str = Field(description="the classifier's name")
    group: str | None = Field(description="group of dependent classifiers; null: none")
    accuracy: Share = Field(
        description="accuracy on all items, from 0 to 1; for graded answers, the mean quality. If the classifier was "
        "not called for all items, its calls are weighted by inverse propensities, unless there are too few",
    )
    calls: int = Field(description="number of items for which it was called")
    effective_calls: float | None = Field(
        description="effective sample size of the classifier's calls: the number of calls for randomly drawn items "
        "that would be as informative. It is smaller if the called items differ from all items. null: too few calls to "
        "estimate it"
    )
    mean_cost: float = Field(description="mean cost per item alone, with its set-up groups, in the dataset's unit")
    mean_confidence: float | None = Field(description="mean confidence of the classifier; null: it has no confidences")
    no_class: Share = Field(
        description="share of all items, from 0 to 1, that were answered with a label that is never true, such as "
        "the label of a classifier that abstains"
    )
    calibration: Items[CalibrationBin] = Field(
        description="at most 10 bins with about equally many items, by rising confidence; empty without confidences"
    )


class Agreement(Value):
    """For each pair of classifiers, how often one is correct when the other is wrong.

    Rows and columns are classifiers in the same order. A graded answer counts as correct if its quality is at least
    0.5.
    """

    classifiers: Items[str] = Field(description="the classifiers' names")
    wrong: Items[int] = Field(description="number of wrong answers of each classifier")
    right: Items[Items[int]] = Field(
        description="row i, column j: number of items that classifier j answered wrongly and classifier i correctly"
    )
    share: Items[Items[Share | None]] = Field(
        description="``right`` as a share of classifier j's wrong answers, from 0 to 1; null if it has no wrong answers"
    )


class TraceProfile(Value):
    """The profile of a trace."""

    kind: Literal["trace"] = Field(default="trace", description="a trace")
    rows: int = Field(description="the number of items")
    unit: str = Field(description="the unit of all costs")
    classes: Items[ClassRows] = Field(description="the classes, the true ones first")
    classifiers: Items[ClassifierProfile] = Field(description="the classifiers, in the dataset's order")
    agreement: Agreement = Field(description="how often one classifier is correct when another is wrong")


class MeasuredCost(Value):
    """A measured cost at one size."""

    size: float = Field(description="the item's size")
    cost: float = Field(description="the measured cost, in the dataset's unit")


class CostProfile(Value):
    """Cost of a feature, or of set-up work."""

    name: str = Field(description="the name")
    cost: float | None = Field(description="the cost, in the dataset's unit; null if it depends on the size")
    costs: Items[float | None] = Field(
        description="the cost at each size, in the dataset's unit; null if it is too large to compute"
    )


class FeatureProfile(CostProfile):
    """Cost of a feature."""

    columns: Items[str] = Field(description="columns of the feature")
    timings: Items[MeasuredCost] = Field(
        description="the measured costs of the spec, if any; for sizes of several dimensions, only those whose "
        "numbers are equal"
    )


class SetupProfile(CostProfile):
    """Cost of set-up work that features share."""

    features: Items[str] = Field(description="the features that need it")


class FeaturesProfile(Value):
    """The profile of a feature table."""

    kind: Literal["features"] = Field(default="features", description="a table of features")
    rows: int = Field(description="the number of items")
    unit: str = Field(description="the unit of all costs")
    classes: Items[ClassRows] = Field(description="the classes")
    dimensions: int = Field(description="number of dimensions of an item's size; 0 if no cost depends on size")
    sizes: Items[float] = Field(
        description="40 sizes from the smallest to the largest of the rows and of the timings, or from 1 to 1000 "
        "if there are none; empty if no cost depends on size. All dimensions have the same value"
    )
    features: Items[FeatureProfile] = Field(description="the features, in the dataset's order")
    setup: Items[SetupProfile] = Field(
        default=(), description="set-up work that features share, which an item pays for once"
    )


class ProfiledDataset(Value):
    """The profiled dataset."""

    name: Name = Field(description="the dataset's name")
    sha256: str = Field(description="the SHA-256 of the checked table")


class TraceProfileReply(TraceProfile, ProfiledDataset):
    """The profile of a trace."""


class FeaturesProfileReply(FeaturesProfile, ProfiledDataset):
    """The profile of a feature table."""


ProfileReply = Annotated[TraceProfileReply | FeaturesProfileReply, Field(discriminator="kind")]
