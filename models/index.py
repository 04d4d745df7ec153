"""Cost-sensitive prediction: which feature set, and model, for an item of a size within a budget.

Sizes are numbers, or one number for each of the dataset's size columns; costs and budgets are in the dataset's unit.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from models.artifact import ArtifactRef, DecisionFacts
from models.base import Items, Json, Label, Sent, Value, Without
from models.evaluation import HasCompleteItems
from models.limits import Budget, HasBudget

Method = Literal["poly-dom", "greedy", "greedy-acc", "greedy-cost", "naive"]
Size = Annotated[float, Field(gt=0, le=1e12)]
AtLeastOne = Annotated[float, Field(ge=1, le=1e12)]
SizeOrSizes = Size | Annotated[Items[Size], Field(min_length=1, max_length=8)]
ImportPath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$", max_length=200)]


class IndexOptions(Value):
    """How to build an index from a table of features (``params`` of a build)."""

    learner: ImportPath = Field(
        default="sklearn.linear_model.LogisticRegression", description="the import path of the classifier to train"
    )
    learner_params: dict[str, Json] = Field(
        default_factory=dict, description="the classifier's parameters; what is left out takes its default"
    )
    standardize: bool = Field(
        default=True, description="whether columns are shifted to mean 0 and scaled to deviation 1 before training"
    )
    folds: int = Field(
        default=5, ge=2, le=100, description="folds of the cross-validation that gives a feature set its accuracy"
    )
    alpha: float = Field(
        default=0.0,
        ge=0,
        description="an answer's accuracy, times 1 + alpha, is at least that of every feature set within the budget",
    )
    tolerance: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="by how much accuracy may fall when features are added, as a share of all items: what it falls by "
        "more can hide an answer",
    )
    covering: bool = Field(
        default=False,
        description="whether to skip by the covering property, too; it fails where features are useful only together",
    )
    max_models: int | None = Field(
        default=None, ge=1, description="the most feature sets to train; alpha is raised as far as that needs"
    )
    max_seconds: float | None = Field(
        default=60.0,
        gt=0,
        description="the most seconds to search for, where all feature sets are estimated to take longer: then alpha "
        "is raised as far as that needs, and depends on the machine; null: no limit",
    )
    fixed_size: AtLeastOne | Annotated[Items[AtLeastOne], Field(min_length=1, max_length=8)] | None = Field(
        default=None, description="the only item size of queries, a number or one for each dimension"
    )
    fixed_budget: float | None = Field(
        default=None, ge=0, description="the only budget of queries, in the dataset's unit"
    )
    max_size: AtLeastOne | None = Field(
        default=None, description="the largest item size of queries; for sizes of one number only"
    )
    any_time: bool = Field(
        default=True,
        description="whether to keep also the models of feature sets that are the best ones only when some features "
        "are computed already; without them spent and computed choose among fewer sets",
    )
    lambdas: Items[Annotated[float, Field(ge=0)]] | None = Field(
        default=None,
        description="greedy sequences weigh cost by these, in accuracy per unit of cost; null: 0.01, 0.1, 1 and 10, "
        "each divided by what all features cost at the median size",
    )
    median_size: SizeOrSizes | None = Field(
        default=None,
        description="the size at which greedy sequences weigh cost; null: the fixed size, else the median of the "
        "dataset's sizes, else of the timings' sizes, else 1",
    )

    @model_validator(mode="after")
    def _budgets_make_sense(self) -> "IndexOptions":
        if self.fixed_size is not None and self.max_size is not None:
            raise ValueError(f"fixed_size {self.fixed_size} leaves no room for max_size {self.max_size}")
        return self


class IndexLimits(HasBudget):
    """Within what an index decides."""

    budget: Budget | None = Field(
        default=None,
        description="the most that computing features may cost, in the artifact's unit; null: no limit with "
        "min_accuracy, else what the artifact's headline spends",
        examples=[3.5],
    )
    min_accuracy: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="how often it must be right, with a standard error to spare: then the cheapest feature set within "
        "the budget that is; null: the most accurate within it",
        examples=[0.9],
    )
    one_standard_error: bool = Field(
        default=False,
        description="whether to spend no more than the rows can show to be of use: the cheapest feature set whose "
        "accuracy is within one standard error of the most accurate one within the budget",
        examples=[True],
    )
    method: Method = Field(
        default="poly-dom",
        description="poly-dom: the optimum, by the index; naive: the same by a scan; greedy, greedy-acc (largest rise "
        "in accuracy first), greedy-cost (least cost first): along a sequence of features",
        examples=["poly-dom"],
    )
    excluded: Without = ()


class IndexQuery(IndexLimits):
    """A query to an index."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"size": 64, "budget": 3.5}]})

    size: SizeOrSizes | None = Field(
        default=None,
        description="the item's size, at least 1: a number, or one for each dimension; null only where costs do not "
        "depend on it",
        examples=[64.0],
    )
    spent: float | None = Field(
        default=None,
        ge=0,
        description="what was spent already, in the artifact's unit; null: what the computed features were to cost",
        examples=[1.2],
    )
    computed: Annotated[Items[Label], Field(max_length=64)] = Field(
        default=(), description="the features that were computed already", examples=[["glucose"]]
    )


class IndexCurveQuery(Value):
    """The part of an index's trade-off curve to return."""

    size: SizeOrSizes | None = Field(
        default=None,
        description="the items' size, at least 1: a number, or one for each dimension; null: the median size that the "
        "index was built with",
        examples=[64.0],
    )


class IndexEvaluateLimits(IndexLimits):
    """Within what an index decides, for items of one size."""

    size: SizeOrSizes | None = Field(
        default=None, description="the size of the items that have none of their own", examples=[64.0]
    )


class IndexEvaluateRequest(Sent, IndexEvaluateLimits, HasCompleteItems):
    """Complete items to classify, each with the model that the index chooses for its size and budget."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"budget": 3.5, "items": [{"size": 64, "values": {"glucose": 148, "insulin": 94, "age": 50}}]}]
        }
    )


class IndexDecision(Value):
    """The features to compute, and what to expect of the model trained on them."""

    features: Items[str] = Field(description="the features to compute, in the dataset's order; none: most common class")
    accuracy: float = Field(
        description="cross-validated accuracy of the model on these features, from 0 to 1, by which they were chosen: "
        "in the region of the item's size where accuracies depend on it; the best of many looks better than it is: "
        "what that comes to is taken off in expected"
    )
    cost: float = Field(
        description="what these features cost for this size, those computed already left out, in the artifact's unit"
    )
    method: Method = Field(description="the method that chose")
    skyline_position: int | None = Field(
        description="the place, from 0, among the undominated feature sets in order of cost; null for greedy methods "
        "and where features were computed already"
    )


class IndexReply(IndexDecision, DecisionFacts):
    """A decision together with the artifact it came from."""


class SkylineItem(Value):
    """A feature set that no other one both undercuts and reaches in accuracy."""

    features: Items[str] = Field(description="the features, in the dataset's order")
    accuracy: float = Field(
        description="cross-validated accuracy of the model on these features, from 0 to 1, by which they were chosen"
    )
    expected_accuracy: float = Field(
        description="the share of right answers to expect: that accuracy, less what being the best of many makes it "
        "too high by"
    )
    cost: float = Field(description="what they cost for this size, in the artifact's unit")


class SkylineReply(Value):
    """All undominated feature sets at one size, by increasing cost and accuracy."""

    size: SizeOrSizes | None = Field(description="the requested size, null if none")
    items: Items[SkylineItem] = Field(description="the feature sets, the cheapest first")
    unit: str = Field(description="the unit of the costs")
    artifact: ArtifactRef = Field(description="the artifact that answered")


class CurvesQuery(Value):
    """Which part of an index to draw."""

    low: AtLeastOne | None = Field(
        default=None,
        description="the least size; null: an eighth of the median size that the index was built with, or 1",
        examples=[16.0],
    )
    high: AtLeastOne | None = Field(
        default=None,
        description="the largest size; null: eight times the median size that the index was built with, 1000 if it "
        "knew none, and never above the largest size that it was built for",
        examples=[1024.0],
    )
    points: int = Field(default=40, ge=2, le=200, description="the number of sizes", examples=[40])
    budgets: int = Field(default=40, ge=2, le=200, description="the number of budgets", examples=[40])


class FeatureSetCurve(Value):
    """What a feature set costs over the size."""

    features: Items[str] = Field(description="the features, in the dataset's order; none: most common class")
    accuracy: float = Field(description="cross-validated accuracy of the model on these features, from 0 to 1")
    costs: Items[float] = Field(
        description="what they cost at each of the sizes, in the artifact's unit; one number where there are no sizes"
    )


class Crossing(Value):
    """A size at which two cost curves cross, so that the skyline changes."""

    size: float = Field(description="the size")
    cost: float = Field(description="what both feature sets cost there, in the artifact's unit")
    first: int = Field(description="the place of the one feature set among the feature sets, from 0")
    second: int = Field(description="the place of the other one, which is larger")


class IndexCurves(Value):
    """An index over sizes and budgets."""

    sizes: Items[float] = Field(
        description="the sizes, rising evenly by their logarithms; none where costs do not depend on the size, or the "
        "index was built for one size only"
    )
    budgets: Items[float] = Field(
        description="the budgets, in the artifact's unit, rising evenly by their logarithms from the least cost to the "
        "largest, but over four powers of ten at most; the one that the index was built for, if there is one"
    )
    feature_sets: Items[FeatureSetCurve] = Field(
        description="the feature sets that are on the skyline at any size of the range, by rising accuracy"
    )
    intersections: Items[Crossing] = Field(description="where the skyline changes, by rising size")
    winners: Items[Items[int]] = Field(
        description="for each budget, and in it for each size, what the method poly-dom decides: the place of that "
        "feature set among the feature sets, from 0; one place for each budget where there are no sizes"
    )


class CurvesReply(IndexCurves):
    """An index over sizes and budgets, together with the artifact."""

    unit: str = Field(description="the unit of costs and budgets")
    artifact: ArtifactRef = Field(description="the artifact that was drawn")


def sizes_of(size: Any) -> tuple[float, ...]:
    """Give a size as one number for each dimension; none gives none.

    >>> sizes_of(64.0), sizes_of((640.0, 480.0)), sizes_of(None)
    ((64.0,), (640.0, 480.0), ())
    """
    if size is None:
        return ()
    return tuple(float(part) for part in size) if isinstance(size, tuple) else (float(size),)
