"""Constraints of a batch in addition to one budget: capacities, commitments, further budgets, floors, tenants.

Limits are named in replies and errors by their path in the request: ``classifiers.gpt-4.at_most``,
``resources.latency``, ``groups.acme.budget``.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from models.artifact import DecisionFacts
from models.base import Items, Label, Value
from models.cost import Amount, told_by
from models.portfolio import (
    AssignmentFigures,
    AssignmentOptions,
    AssignmentRequest,
    BatchBudget,
    Embedded,
    Sizes,
)
from models.trace import MOST_RESOURCES

Goal = Literal["accuracy", "cost"]
Share = Annotated[float, Field(ge=0, le=1)]
MOST_QUERIES = 10**12
MOST_LABELS = 1000


class ShareOfQueries(Value):
    """A share of all queries, or of those of the group."""

    share: Share = Field(description="from 0 to 1; the most is rounded down, the least up", examples=[0.3])


Queries = Annotated[
    Annotated[int, Field(ge=0, le=MOST_QUERIES), Tag("amount")] | Annotated[ShareOfQueries, Tag("share")],
    told_by({"share": ShareOfQueries}),
]
Floor = Annotated[float, Field(ge=0, le=1)]


class AtLeast(Value):
    """A floor of the share of right answers: of the mean estimate, less what such estimates were too high by on
    held-out items and a standard error, or less what the regularization takes off, if that is more."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"at_least": 0.95}]})

    at_least: Floor = Field(description="from 0 to 1", examples=[0.95])


class ClassifierLimits(Value):
    """What one classifier may or must answer; one of these at least."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"at_most": {"share": 0.3}}]})

    at_least: Queries | None = Field(
        default=None, description="the fewest queries: a minimum commitment; a number, or a share", examples=[10]
    )
    at_most: Queries | None = Field(
        default=None, description="the most queries: a rate limit or quota; a number, or a share", examples=[100]
    )
    max_cost: Amount | None = Field(
        default=None, description="what its answers may cost together, in the artifact's unit", examples=[50.0]
    )

    @model_validator(mode="after")
    def _limits_something(self) -> "ClassifierLimits":
        if self.at_least is None and self.at_most is None and self.max_cost is None:
            raise ValueError("give at_least, at_most or max_cost; there is none")
        return self


class ResourceLimit(Value):
    """How much of a resource there is: exactly one of the two."""

    total: Amount | None = Field(default=None, description="for all queries together", examples=[3000.0])
    per_query: Amount | None = Field(default=None, description="for a query on average", examples=[3.0])

    @model_validator(mode="after")
    def _is_one(self) -> "ResourceLimit":
        if (self.total is None) == (self.per_query is None):
            message = "none" if self.total is None else "total and per_query"
            raise ValueError(f"give exactly one of total, per_query; there is {message}")
        return self


Matrix = Annotated[Items[Annotated[Items[Amount], Field(min_length=1, max_length=200)]], Field(min_length=1)]


def _how_told(uses: Any) -> str:
    return "of_each" if isinstance(uses, Mapping) else "matrix"


Uses = Annotated[
    Annotated[dict[Label, Amount], Tag("of_each")] | Annotated[Matrix, Tag("matrix")], Discriminator(_how_told)
]


class Resource(ResourceLimit):
    """A further budget, in a unit of its own."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"per_query": 3.0, "uses": {"small": 1, "large": 5}}]})

    uses: Uses | None = Field(
        default=None,
        description="what a query uses of it: for each classifier a number; or for each query a list of one number for "
        "each classifier, in the artifact's order; null: from the trace, for the resource of this name",
    )


class GroupLimits(BatchBudget):
    """What the queries of one label are held to; shares and amounts for a query are of these queries."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"budget": 2.0}]})

    accuracy: AtLeast | None = Field(
        default=None, description="a floor of the share of right answers to them", examples=[{"at_least": 0.9}]
    )
    classifiers: dict[Label, ClassifierLimits] = Field(
        default={}, max_length=200, description="for classifiers by name, what each may answer of them"
    )
    resources: dict[Label, ResourceLimit] = Field(
        default={},
        max_length=MOST_RESOURCES,
        description="for resources of the request by name, how much they may use of each",
    )


class Groups(Value):
    """Whose queries they are, and what each group is held to."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"labels": ["acme", "basic"], "limits": {"acme": {"accuracy": {"at_least": 0.9}}}}]
        }
    )

    labels: Annotated[Items[Label], Field(min_length=1)] = Field(
        description="for each query its label: a tenant, a region, a priority"
    )
    limits: dict[Label, GroupLimits] = Field(
        default={}, max_length=MOST_LABELS, description="for labels what their queries are held to"
    )


class LimitedOptions(AssignmentOptions):
    """The constraints of a batch, and what each of its queries has in addition to its embedding."""

    sizes: Sizes = None
    goal: Goal = Field(
        default="accuracy",
        description="accuracy: the highest mean of the estimates, less what the regularization takes off; cost: the "
        "least cost",
        examples=["accuracy"],
    )
    accuracy: AtLeast | None = Field(
        default=None, description="a floor of the share of right answers to all queries", examples=[{"at_least": 0.5}]
    )
    classifiers: dict[Label, ClassifierLimits] = Field(
        default={}, max_length=200, description="for classifiers by name, what each may or must answer", examples=[{}]
    )
    resources: dict[Label, Resource] = Field(
        default={},
        max_length=MOST_RESOURCES,
        description="further budgets, by the names of the trace's resources or of your own",
        examples=[{}],
    )
    groups: Groups | None = Field(
        default=None, description="a label for each query, and what each label is held to", examples=[None]
    )
    min_group_accuracy: Floor | None = Field(
        default=None, description="a floor of the share of right answers to every group", examples=[None]
    )
    costs: Matrix | None = Field(
        default=None,
        description="what each query costs with each classifier, without its embedding, in the artifact's unit: "
        "for each "
        "query a list of one number for each classifier, in the artifact's order; null: by their sizes, else "
        "the means",
        examples=[None],
    )

    @property
    def is_constrained(self) -> bool:
        """Whether there is any constraint in addition to a single budget."""
        given = (self.accuracy, self.groups, self.min_group_accuracy)
        return bool(self.goal == "cost" or self.classifiers or self.resources or any(one is not None for one in given))

    @model_validator(mode="after")
    def _has_a_limit(self) -> "LimitedOptions":
        if not self.is_constrained:
            if not self.has_budget and self.min_accuracy is None:
                raise ValueError("give a budget, or a min_accuracy, or both, or other limits; there is none")
            return self
        if self.min_accuracy is not None:
            raise ValueError("min_accuracy finds one budget: with other limits give accuracy, with at_least")
        if self.objective != "mean":
            raise ValueError("objective min goes with one budget: with other limits give min_group_accuracy")
        return self

    def refuse_unfit(self, n: int) -> None:
        """Raise ValueError unless what each query has of its own is there for n queries."""
        if self.sizes is not None and len(self.sizes) != n:
            raise ValueError(f"there are {len(self.sizes)} sizes for {n} queries")
        if self.costs is not None and self.sizes is not None:
            raise ValueError("give costs or sizes, not both")
        if self.costs is not None and len(self.costs) != n:
            raise ValueError(f"there are {len(self.costs)} rows of costs for {n} queries")
        if self.min_group_accuracy is not None and self.groups is None:
            raise ValueError("min_group_accuracy requires groups, which label each query")
        if self.groups is not None:
            self._refuse_other_groups(self.groups, n)
        for name, resource in self.resources.items():
            if isinstance(resource.uses, tuple) and len(resource.uses) != n:
                raise ValueError(f"there are {len(resource.uses)} rows of uses of {name!r} for {n} queries")

    def _refuse_other_groups(self, groups: Groups, n: int) -> None:
        if len(groups.labels) != n:
            raise ValueError(f"there are {len(groups.labels)} labels of groups for {n} queries")
        if (many := len(set(groups.labels))) > MOST_LABELS:
            raise ValueError(f"there are {many} different labels of groups, at most {MOST_LABELS} are taken")
        if absent := sorted(set(groups.limits) - set(groups.labels)):
            there = ", ".join(sorted(set(groups.labels))[:8])
            raise ValueError(f"groups limit {absent[0]!r}, a label that no query has; there are {there}")
        named = {name for limits in groups.limits.values() for name in limits.resources}
        if stranger := sorted(named - set(self.resources)):
            raise ValueError(f"unknown resource {stranger[0]!r} in groups")


class ConstrainedRequest(LimitedOptions, AssignmentRequest):
    """Queries to assign to classifiers within a budget, or within several limits at once."""

    @model_validator(mode="after")
    def _fits_its_queries(self) -> "ConstrainedRequest":
        self.refuse_unfit(self.count)
        return self


class ConstrainedAssignment(AssignmentFigures):
    """Which classifier is to answer each query, within several limits."""

    budget: float | None = Field(
        description="the budget for the whole batch, in the artifact's unit; null if there is none"
    )


class ConstrainedReply(ConstrainedAssignment, DecisionFacts):
    """An assignment within several limits together with the artifact it came from."""

    embedding: Embedded = None
