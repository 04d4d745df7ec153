"""Constraints of batches: capacities, commitments, resources, floors, and groups.

Replies and errors name a limit by its path in the request: ``classifiers.gpt-4.at_most``, ``resources.latency``,
``groups.acme.budget``.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from models.artifact import DecisionFacts
from models.base import Items, Label, Value
from models.cost import Amount, choose_by_field
from models.portfolio import (
    AssignmentFigures,
    AssignmentOptions,
    AssignmentRequest,
    BatchBudget,
    Embedded,
    Sizes,
)
from models.trace_spec import MAX_RESOURCES

Goal = Literal["accuracy", "cost"]
Share = Annotated[float, Field(ge=0, le=1)]
MAX_QUERIES = 10**12
MAX_LABELS = 1000


class ShareOfQueries(Value):
    """A share of all queries, or of a group's queries."""

    share: Share = Field(
        description="share from 0 to 1; upper bounds are rounded down, lower bounds up", examples=[0.3]
    )


Queries = Annotated[
    Annotated[int, Field(ge=0, le=MAX_QUERIES), Tag("amount")] | Annotated[ShareOfQueries, Tag("share")],
    choose_by_field({"share": ShareOfQueries}),
]
Floor = Annotated[float, Field(ge=0, le=1)]


class AtLeast(Value):
    """A lower bound on the share of correct answers (accuracy floor).

    The mean estimate, minus a correction, must reach the bound. The correction is the larger of two: the winner's curse
    on holdout items plus one standard error, and the reduction by regularization.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"at_least": 0.95}]})

    at_least: Floor = Field(description="lower bound on accuracy, from 0 to 1", examples=[0.95])


class ClassifierLimits(Value):
    """Limits on the queries of one classifier; at least one is required."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"at_most": {"share": 0.3}}]})

    at_least: Queries | None = Field(
        default=None, description="minimum number of queries, such as a commitment: a number or a share", examples=[10]
    )
    at_most: Queries | None = Field(
        default=None,
        description="maximum number of queries, such as a rate limit or quota: a number or a share",
        examples=[100],
    )
    max_cost: Amount | None = Field(
        default=None,
        description="maximum total cost of the classifier's answers, in the artifact's unit",
        examples=[50.0],
    )

    @model_validator(mode="after")
    def _limits_something(self) -> "ClassifierLimits":
        if self.at_least is None and self.at_most is None and self.max_cost is None:
            raise ValueError("at_least, at_most, or max_cost is required")
        return self


class ResourceLimit(Value):
    """Available amount of a resource: either a total or a mean per query."""

    total: Amount | None = Field(
        default=None, description="amount for all queries together, in the resource's unit", examples=[3000.0]
    )
    per_query: Amount | None = Field(
        default=None, description="mean amount per query, in the resource's unit", examples=[3.0]
    )

    @model_validator(mode="after")
    def _is_one(self) -> "ResourceLimit":
        if (self.total is None) == (self.per_query is None):
            message = "none" if self.total is None else "total and per_query"
            raise ValueError(f"exactly one of total and per_query is required, got {message}")
        return self


Matrix = Annotated[Items[Annotated[Items[Amount], Field(min_length=1, max_length=200)]], Field(min_length=1)]


def _how_told(uses: Any) -> str:
    return "of_each" if isinstance(uses, Mapping) else "matrix"


Uses = Annotated[
    Annotated[dict[Label, Amount], Tag("of_each")] | Annotated[Matrix, Tag("matrix")], Discriminator(_how_told)
]


class Resource(ResourceLimit):
    """An additional budget, in its own unit."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"per_query": 3.0, "uses": {"small": 1, "large": 5}}]})

    uses: Uses | None = Field(
        default=None,
        description="use of the resource: one number per classifier; or for each query a list of one number per "
        "classifier, in the artifact's order; null: the uses in the trace of the resource with this name",
    )


class GroupLimits(BatchBudget):
    """Limits for the queries of a group; shares and means refer to these queries."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"budget": 2.0}]})

    accuracy: AtLeast | None = Field(
        default=None, description="lower bound on the accuracy of the group's answers", examples=[{"at_least": 0.9}]
    )
    classifiers: dict[Label, ClassifierLimits] = Field(
        default={}, max_length=200, description="limits of classifiers for the group's queries, by name"
    )
    resources: dict[Label, ResourceLimit] = Field(
        default={},
        max_length=MAX_RESOURCES,
        description="limits of the request's resources for the group's queries, by name",
    )


class Groups(Value):
    """The group of each query, and the limits of each group."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"labels": ["acme", "basic"], "limits": {"acme": {"accuracy": {"at_least": 0.9}}}}]
        }
    )

    labels: Annotated[Items[Label], Field(min_length=1)] = Field(
        description="label of each query, such as a tenant, a region, or a priority"
    )
    limits: dict[Label, GroupLimits] = Field(
        default={}, max_length=MAX_LABELS, description="limits of the queries with each label"
    )


class LimitedOptions(AssignmentOptions):
    """Constraints of a batch, and additional values of its queries."""

    sizes: Sizes = None
    goal: Goal = Field(
        default="accuracy",
        description="accuracy: maximize the mean of the estimates minus regularization; cost: minimize the cost",
        examples=["accuracy"],
    )
    accuracy: AtLeast | None = Field(
        default=None, description="lower bound on the accuracy of all answers", examples=[{"at_least": 0.5}]
    )
    classifiers: dict[Label, ClassifierLimits] = Field(
        default={}, max_length=200, description="limits of classifiers, by name", examples=[{}]
    )
    resources: dict[Label, Resource] = Field(
        default={},
        max_length=MAX_RESOURCES,
        description="further budgets, by the name of a resource of the trace, or by any other name",
        examples=[{}],
    )
    groups: Groups | None = Field(
        default=None, description="label of each query, and limits of each label", examples=[None]
    )
    min_group_accuracy: Floor | None = Field(
        default=None, description="lower bound on the accuracy of every group", examples=[None]
    )
    costs: Matrix | None = Field(
        default=None,
        description="cost of each query with each classifier, in the artifact's unit, without the embedding: for "
        "each query a list of one number per classifier, in the artifact's order; null: costs by size, else mean costs",
        examples=[None],
    )

    @property
    def requires_accuracy(self) -> bool:
        """Whether the assignment, or one of its groups, must have a minimum accuracy."""
        floors = (self.min_accuracy, self.accuracy, self.groups, self.min_group_accuracy)
        return any(one is not None for one in floors)

    @property
    def is_constrained(self) -> bool:
        """Whether there are constraints other than a single budget."""
        given = (self.accuracy, self.groups, self.min_group_accuracy)
        return bool(self.goal == "cost" or self.classifiers or self.resources or any(one is not None for one in given))

    @model_validator(mode="after")
    def _has_a_limit(self) -> "LimitedOptions":
        if not self.is_constrained:
            if not self.has_budget and self.min_accuracy is None:
                raise ValueError("budget, min_accuracy, or another limit is required")
            return self
        if self.min_accuracy is not None:
            raise ValueError("min_accuracy cannot be combined with other limits; use accuracy.at_least")
        if self.objective != "mean":
            raise ValueError("objective min cannot be combined with other limits; use min_group_accuracy")
        return self

    def check_lengths(self, n: int) -> None:
        """Raise ValueError if a list of values per query does not have length n."""
        if self.sizes is not None and len(self.sizes) != n:
            raise ValueError(f"sizes must have {n} rows, one per query, got {len(self.sizes)}")
        if self.costs is not None and self.sizes is not None:
            raise ValueError("costs cannot be combined with sizes")
        if self.costs is not None and len(self.costs) != n:
            raise ValueError(f"costs must have {n} rows, one per query, got {len(self.costs)}")
        if self.min_group_accuracy is not None and self.groups is None:
            raise ValueError("min_group_accuracy requires groups, which label each query")
        if self.groups is not None:
            self._refuse_other_groups(self.groups, n)
        for name, resource in self.resources.items():
            if isinstance(resource.uses, tuple) and len(resource.uses) != n:
                raise ValueError(f"uses of {name!r} must have {n} rows, one per query, got {len(resource.uses)}")

    def _refuse_other_groups(self, groups: Groups, n: int) -> None:
        if len(groups.labels) != n:
            raise ValueError(f"groups must have {n} labels, one per query, got {len(groups.labels)}")
        if (many := len(set(groups.labels))) > MAX_LABELS:
            raise ValueError(f"groups must have at most {MAX_LABELS} different labels, got {many}")
        if absent := sorted(set(groups.limits) - set(groups.labels)):
            there = ", ".join(sorted(set(groups.labels))[:8])
            raise ValueError(f"group {absent[0]!r} not found in the labels of the queries; available: {there}")
        named = {name for limits in groups.limits.values() for name in limits.resources}
        if stranger := sorted(named - set(self.resources)):
            raise ValueError(f"unknown resource {stranger[0]!r} in groups")


class ConstrainedRequest(LimitedOptions, AssignmentRequest):
    """Queries to assign to classifiers within a budget or several limits."""

    @model_validator(mode="after")
    def _fits_its_queries(self) -> "ConstrainedRequest":
        self.check_lengths(self.count)
        return self


class ConstrainedAssignment(AssignmentFigures):
    """The classifier of each query, within several limits."""

    budget: float | None = Field(description="total budget of the batch, in the artifact's unit; null: none")


class ConstrainedReply(ConstrainedAssignment, DecisionFacts):
    """An assignment within several limits, and the artifact that decided."""

    embedding: Embedded = None
