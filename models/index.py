"""Requests and replies of indexes: feature sets by item size and budget.

Sizes are numbers, or one number per size column of the dataset. Costs and budgets are in the dataset's unit.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from models.artifact import ArtifactRef, DecisionFacts
from models.base import ExcludedNames, Items, Json, Label, RequestBody, Value
from models.evaluation import HasCompleteItems
from models.limits import Budget, HasBudget

Method = Literal["poly-dom", "greedy", "greedy-acc", "greedy-cost", "naive"]
Size = Annotated[float, Field(gt=0, le=1e12)]
AtLeastOne = Annotated[float, Field(ge=1, le=1e12)]
SizeOrSizes = Size | Annotated[Items[Size], Field(min_length=1, max_length=8)]
ImportPath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$", max_length=200)]


class IndexOptions(Value):
    """Options of an index build (``params``)."""

    learner: ImportPath = Field(
        default="sklearn.linear_model.LogisticRegression", description="the import path of the classifier to train"
    )
    learner_params: dict[str, Json] = Field(
        default_factory=dict, description="the classifier's parameters; omitted ones have their defaults"
    )
    standardize: bool = Field(
        default=True, description="whether columns are standardized (mean 0, standard deviation 1) before training"
    )
    folds: int = Field(
        default=5, ge=2, le=100, description="number of folds of the cross-validation that estimates accuracies"
    )
    alpha: float = Field(
        default=0.0,
        ge=0,
        description="guarantee: the accuracy of the selected feature set, times 1 + alpha, is at least that of "
        "every feature set within the budget",
    )
    tolerance: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="maximum decrease of accuracy that is expected when features are added, as a share of all "
        "items; with larger decreases, the guarantee may not hold",
    )
    covering: bool = Field(
        default=False,
        description="whether to prune by the covering property, too; it does not hold if features are useful only "
        "together",
    )
    max_models: int | None = Field(
        default=None, ge=1, description="maximum number of feature sets to train; alpha is raised if necessary"
    )
    max_seconds: float | None = Field(
        default=60.0,
        gt=0,
        description="time limit of the search in seconds. It applies if training all feature sets is estimated to take "
        "longer. Then alpha is raised if necessary, and depends on the machine. null: no limit",
    )
    fixed_size: AtLeastOne | Annotated[Items[AtLeastOne], Field(min_length=1, max_length=8)] | None = Field(
        default=None, description="fixed item size of all queries: a number, or one number per dimension"
    )
    fixed_budget: float | None = Field(
        default=None, ge=0, description="fixed budget of all queries, in the dataset's unit"
    )
    max_size: AtLeastOne | None = Field(
        default=None, description="maximum item size of queries; only for sizes of one dimension"
    )
    any_time: bool = Field(
        default=True,
        description="whether to also keep models of feature sets that are best only if some features are already "
        "computed; without these models, ``spent`` and ``computed`` choose among fewer sets",
    )
    lambdas: Items[Annotated[float, Field(ge=0)]] | None = Field(
        default=None,
        description="weights of cost in greedy sequences, in accuracy per unit of cost; null: 0.01, 0.1, 1, and "
        "10, each divided by the cost of all features at the median size",
    )
    median_size: SizeOrSizes | None = Field(
        default=None,
        description="the size at which costs are weighed in greedy sequences; null: the fixed size, else the "
        "median of the dataset's sizes, else of the timings' sizes, else 1",
    )

    @model_validator(mode="after")
    def _budgets_make_sense(self) -> "IndexOptions":
        if self.fixed_size is not None and self.max_size is not None:
            raise ValueError(f"fixed_size must be less than max_size ({self.max_size}), got {self.fixed_size}")
        return self


class IndexLimits(HasBudget):
    """Limits of an index's decisions."""

    budget: Budget | None = Field(
        default=None,
        description="maximum cost of the features, in the artifact's unit; null: no limit with min_accuracy, else "
        "the budget of the default operating point",
        examples=[3.5],
    )
    min_accuracy: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="lower bound on accuracy. The cheapest feature set within the budget that reaches it, with a "
        "margin of one standard error, is selected. null: the most accurate set within the budget",
        examples=[0.9],
    )
    one_standard_error: bool = Field(
        default=False,
        description="whether to select the cheapest feature set whose accuracy is within one standard error of "
        "the most accurate set within the budget",
        examples=[True],
    )
    method: Method = Field(
        default="poly-dom",
        description="poly-dom: the optimum, by the index; naive: the optimum, by a scan; greedy, greedy-acc "
        "(largest increase of accuracy first), greedy-cost (least cost first): along a sequence of "
        "features",
        examples=["poly-dom"],
    )
    excluded: ExcludedNames = ()


class IndexQuery(IndexLimits):
    """A query to an index."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"size": 64, "budget": 3.5}]})

    size: SizeOrSizes | None = Field(
        default=None,
        description="the item's size, at least 1: a number, or one number per dimension; null only if costs do "
        "not depend on size",
        examples=[64.0],
    )
    spent: float | None = Field(
        default=None,
        ge=0,
        description="cost so far, in the artifact's unit; null: the planned cost of the computed features",
        examples=[1.2],
    )
    computed: Annotated[Items[Label], Field(max_length=64)] = Field(
        default=(), description="features that are already computed", examples=[["glucose"]]
    )


class IndexCurveQuery(Value):
    """The part of an index's trade-off curve to return."""

    size: SizeOrSizes | None = Field(
        default=None,
        description="the items' size, at least 1: a number, or one number per dimension; null: the median size of "
        "the build",
        examples=[64.0],
    )


class IndexEvaluateLimits(IndexLimits):
    """Limits for the decisions of an index on items of one size."""

    size: SizeOrSizes | None = Field(default=None, description="size of items that have no ``size``", examples=[64.0])


class IndexEvaluateRequest(RequestBody, IndexEvaluateLimits, HasCompleteItems):
    """Complete items to evaluate with an index.

    Each item is classified by the model for its size and budget.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"budget": 3.5, "items": [{"size": 64, "values": {"glucose": 148, "insulin": 94, "age": 50}}]}]
        }
    )


class IndexDecision(Value):
    """The features to compute, and the expected outcome of their model."""

    features: Items[str] = Field(
        description="the features to compute, in the dataset's order; empty: answer the most common class"
    )
    accuracy: float = Field(
        description="cross-validated accuracy, from 0 to 1, by which the feature set was chosen; if accuracies depend "
        "on size, that of the item's region of sizes. ``expected`` has the accuracy corrected for the winner's curse"
    )
    cost: float = Field(
        description="cost of the features for this size, without those already computed, in the artifact's unit"
    )
    method: Method = Field(description="the method that decided")
    skyline_position: int | None = Field(
        description="index of the set among the undominated feature sets by rising cost, from 0; null for greedy "
        "methods, and if features are already computed"
    )


class IndexReply(IndexDecision, DecisionFacts):
    """A decision, and the artifact that decided."""


class SkylineItem(Value):
    """A feature set that no other set dominates in cost and accuracy."""

    features: Items[str] = Field(description="the features, in the dataset's order")
    accuracy: float = Field(description="cross-validated accuracy by which feature sets are chosen, from 0 to 1")
    expected_accuracy: float = Field(description="expected accuracy: ``accuracy``, corrected for the winner's curse")
    cost: float = Field(description="cost of the features for this size, in the artifact's unit")


class SkylineReply(Value):
    """All undominated feature sets at one size, cheapest first."""

    size: SizeOrSizes | None = Field(description="the requested size; null: none")
    items: Items[SkylineItem] = Field(description="the feature sets, the cheapest first")
    unit: str = Field(description="the unit of the costs")
    artifact: ArtifactRef = Field(description="the artifact that answered")


class CurvesQuery(Value):
    """The sizes and budgets of an index's chart."""

    low: AtLeastOne | None = Field(
        default=None,
        description="smallest size; null: an eighth of the median size of the build, or 1",
        examples=[16.0],
    )
    high: AtLeastOne | None = Field(
        default=None,
        description="the largest size; null: eight times the median size of the build, or 1000 if the build had "
        "no sizes; at most the maximum size of the index",
        examples=[1024.0],
    )
    points: int = Field(default=40, ge=2, le=200, description="the number of sizes", examples=[40])
    budgets: int = Field(default=40, ge=2, le=200, description="the number of budgets", examples=[40])


class FeatureSetCurve(Value):
    """Cost of a feature set by size."""

    features: Items[str] = Field(
        description="the features, in the dataset's order; empty: answer the most common class"
    )
    accuracy: float = Field(description="cross-validated accuracy of the model on these features, from 0 to 1")
    costs: Items[float] = Field(
        description="cost of the features at each size, in the artifact's unit; one number if there are no sizes"
    )


class Crossing(Value):
    """A size at which two cost curves cross and the skyline changes."""

    size: float = Field(description="the size")
    cost: float = Field(description="cost of both feature sets at this size, in the artifact's unit")
    first: int = Field(description="index in ``feature_sets`` of one of the two sets, from 0")
    second: int = Field(description="index in ``feature_sets`` of the other set, which is larger")


class IndexCurves(Value):
    """Cost curves and best feature sets of an index, by size and budget."""

    sizes: Items[float] = Field(
        description="the sizes, evenly spaced by logarithm; empty if costs do not depend on size, or the index "
        "has a fixed size"
    )
    budgets: Items[float] = Field(
        description="the budgets, in the artifact's unit, evenly spaced by logarithm from the least to the "
        "largest cost, over at most four powers of ten; only the fixed budget if the index has one"
    )
    feature_sets: Items[FeatureSetCurve] = Field(
        description="the feature sets that are on the skyline at any size of the range, by rising accuracy"
    )
    intersections: Items[Crossing] = Field(description="sizes at which the skyline changes, rising")
    winners: Items[Items[int]] = Field(
        description="winners[budget][size]: index in ``feature_sets`` of the set that the method poly-dom "
        "selects, from 0; one entry per budget if there are no sizes"
    )


class CurvesReply(IndexCurves):
    """Cost curves and best feature sets, and the artifact that they are from."""

    unit: str = Field(description="the unit of costs and budgets")
    artifact: ArtifactRef = Field(description="the artifact")


def size_to_tuple(size: Any) -> tuple[float, ...]:
    """Return a size as one number per dimension; empty for None.

    >>> size_to_tuple(64.0), size_to_tuple((640.0, 480.0)), size_to_tuple(None)
    ((64.0,), (640.0, 480.0), ())
    """
    if size is None:
        return ()
    return tuple(float(part) for part in size) if isinstance(size, tuple) else (float(size),)


def size_from_lengths(lengths: Sequence[float]) -> float | tuple[float, ...] | None:
    """Return the size of a query from one number per dimension; the inverse of ``size_to_tuple``.

    >>> size_from_lengths([64.0]), size_from_lengths([640.0, 480.0]), size_from_lengths([])
    (64.0, (640.0, 480.0), None)
    """
    return tuple(lengths) if len(lengths) > 1 else next(iter(lengths), None)
