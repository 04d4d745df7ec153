"""Requests and replies of portfolios: assignments of queries within a budget.

A query is the embedding of an item: d numbers, like the dataset's embeddings. Costs and budgets are in the dataset's
unit. In docstrings, *OCCAM* refers to the paper of Ding, Xu, and Lakshmanan.
"""

from typing import Annotated, Any, Literal

from pydantic import (
    ConfigDict,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
    model_validator,
)

from models.artifact import DecisionFacts
from models.base import LARGEST, ExcludedNames, ItemId, Items, Label, RequestBody, Value, Vector
from models.chat_options import ChatOptions
from models.conversation import ConversationOptions
from models.cost import Amount
from models.evaluation import HasCompleteItems
from models.limit_prices import LimitPrice
from models.limits import Budget, HasBudget
from models.portfolio_streams import Cost, LedgerState, Pacing

Objective = Literal["mean", "min"]
Sampling = Literal["iid", "disjoint"]
EstimatorName = Literal["occam", "stacked"]
Text = Annotated[str, Field(min_length=1, max_length=1_000_000)]
QuerySize = Annotated[float, Field(ge=0, le=LARGEST)]
QuerySizes = Annotated[
    Annotated[QuerySize, Tag("constrained-number")]
    | Annotated[Items[QuerySize], Field(min_length=1, max_length=8), Tag("list[number]")],
    Discriminator(lambda size: "list[number]" if isinstance(size, list | tuple) else "constrained-number"),
]
"""Tags are as pydantic calls members of a union, which faults leave out."""
Regularization = Annotated[float, Field(ge=0, le=1e6)]


SAMPLING_OPTIONS = ("samples", "max_items", "sampling", "temperature")
"""Options on samples of labelled items."""


class Samples(Value):
    """Number of samples of labeled items, and their size."""

    count: int = Field(ge=1, le=1000, description="the number of samples, K")
    size: int = Field(ge=1, le=1_000_000, description="the number of items of each sample, s")


class PortfolioOptions(ChatOptions):
    """Options of a portfolio build (``params``)."""

    estimator: Literal["auto", "occam"] = Field(
        default="auto",
        description="estimator of the probability that each classifier is correct. occam: mean over samples of labeled "
        "items; auto: mean of those regressions on the embedding that cross-validation chooses (random forest, kernel "
        "ridge regression, logistic regressions), or occam if samples are given. Only occam uses the options on "
        "samples and temperature",
    )
    confidence: float = Field(
        default=0.9,
        ge=0.5,
        lt=1,
        description="probability with which the mean cost of single queries is within the budget; not used by occam",
    )
    samples: Literal["auto"] | Samples = Field(
        default="auto",
        description="number and size of the samples; auto: those with the most accurate routing of validation rows",
    )
    max_items: int = Field(
        default=40_000, ge=1, le=10_000_000, description="with auto: maximum number of items in all samples together"
    )
    sampling: Sampling = Field(
        default="iid", description="iid: each sample is drawn from all items; disjoint: no item is in two samples"
    )
    temperature: float = Field(
        default=1e-3,
        gt=0,
        le=1e3,
        description="temperature of the softmax over a classifier's scores, if the trace has scores; without "
        "scores, an answer counts as correct or wrong",
    )
    regularization: Literal["auto"] | Regularization = Field(
        default="auto",
        description="number of standard deviations of an estimate's error that are subtracted from the estimate; "
        "auto: for occam the number with the most accurate routing of validation rows, else 0",
    )
    feature_classifier: Label | None = Field(
        default=None,
        description="the classifier that computes the embeddings. It is called for every query, so its cost is "
        "subtracted from the budget, and its answers are free. null: embeddings are free",
    )
    embedder: Label | None = Field(
        default=None,
        description="the endpoint that computes a query's embedding from its text, or `words`, the built-in embedder; "
        "null: `words` if it made the dataset's embeddings (`text` in the spec), else requests have embeddings",
    )
    conversation: ConversationOptions | None = Field(
        default=None,
        description="how chats are embedded; null: as the dataset stores it, else by the last user message",
    )
    pareto_only: bool = Field(
        default=False, description="whether to exclude classifiers that another one dominates in cost and accuracy"
    )
    curve_points: int = Field(default=21, ge=2, le=201, description="number of budgets of the curve")

    @model_serializer(mode="wrap")
    def _leave_out_unused(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Omit sample options from the serialized options if samples are not used."""
        options: dict[str, Any] = serialize(self)
        return options if self.takes_samples else {k: v for k, v in options.items() if k not in SAMPLING_OPTIONS}

    @property
    def takes_samples(self) -> bool:
        """Whether the paper's estimator (``occam``) is selected, by name or by samples."""
        return self.estimator == "occam" or (self.estimator == "auto" and self.samples != "auto")


MinAccuracy = Annotated[
    float | None,
    Field(
        ge=0,
        le=1,
        description="lower bound on accuracy, from 0 to 1: selects the least budget at which holdout rows reached "
        "it; ``budget`` is then an upper bound",
        examples=[0.9],
    ),
]


def _refuse_all_but_one_of(**fields: object) -> None:
    given = [name for name, value in fields.items() if value is not None]
    if len(given) != 1:
        message = " and ".join(given) or "none"
        raise ValueError(f"exactly one of {', '.join(fields)} is required, got {message}")


class BatchBudget(HasBudget):
    """Budget of a batch: mean per query, or total."""

    budget_total: Cost | None = Field(
        default=None,
        description="total budget of all queries, instead of budget, in the artifact's unit",
        examples=[None],
    )

    @model_validator(mode="after")
    def _is_one(self) -> "BatchBudget":
        if self.budget is not None and self.budget_total is not None:
            raise ValueError("budget (per query) cannot be combined with budget_total")
        return self

    @property
    def has_budget(self) -> bool:
        """Whether a budget is set."""
        return self.budget is not None or self.budget_total is not None


class AssignmentOptions(BatchBudget):
    """Options of an assignment."""

    budget: Budget | None = Field(
        default=None,
        description="upper bound on the mean cost per query, in the artifact's unit, or as a share, such as "
        '"60%", of the cost of the most expensive classifier; null: the least budget that reaches '
        "min_accuracy",
        examples=["60%"],
    )
    min_accuracy: MinAccuracy = None
    objective: Objective = Field(
        default="mean",
        description="mean: maximize the mean of the estimates minus regularization; min: maximize the least "
        "estimate, then the mean, without regularization",
        examples=["mean"],
    )
    regularization: Regularization | None = Field(
        default=None,
        description="number of standard deviations of an estimate's error that are subtracted from the estimate, "
        "for the objective mean; null: as built",
        examples=[1.0],
    )
    gap: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="maximum distance from the optimum, as a share of its value; 0: the exact optimum; null: "
        "1e-6, or 1e-4 with several limits",
        examples=[1e-6],
    )
    time_limit_s: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="time limit in seconds, after which the best assignment so far is returned; null: the "
        "server's limit",
        examples=[2.0],
    )

    @property
    def requires_accuracy(self) -> bool:
        """Whether the assignment must have a minimum accuracy."""
        return self.min_accuracy is not None

    @model_validator(mode="after")
    def _has_a_limit(self) -> "AssignmentOptions":
        if not self.has_budget and self.min_accuracy is None:
            raise ValueError("budget or min_accuracy is required")
        if self.objective == "min" and self.regularization:
            raise ValueError("regularization is not supported for objective min")
        return self


Sizes = Annotated[
    Items[QuerySizes] | None,
    Field(
        description="the size of each query, if costs depend on size: a number, or one number per size column of "
        "the dataset; null: mean costs apply",
        examples=[None],
    ),
]


class AssignmentRequest(AssignmentOptions):
    """Queries to assign to classifiers."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "queries": [[0.6, 0.3, 0.1, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]],
                    "budget": "60%",
                },
                {"texts": ["Is this invoice paid?", "Summarise the contract."], "budget": "60%"},
            ]
        }
    )

    queries: Annotated[Items[Vector], Field(min_length=1)] = Field(
        default_factory=tuple, description="the embedding of each query"
    )
    texts: Annotated[Items[Text], Field(min_length=1)] | None = Field(
        default=None,
        description="instead of ``queries``, the text of each query, which the artifact's embedder embeds",
        examples=[None],
    )
    sizes: Sizes = None

    @property
    def count(self) -> int:
        """The number of queries."""
        return len(self.queries if self.texts is None else self.texts)

    @model_validator(mode="after")
    def _has_a_size_for_each(self) -> "AssignmentRequest":
        _refuse_all_but_one_of(queries=self.queries or None, texts=self.texts)
        if self.sizes is not None and len(self.sizes) != self.count:
            raise ValueError(f"sizes must have {self.count} rows, one per query, got {len(self.sizes)}")
        return self


class AssignmentFigures(Value):
    """The classifier of each query, and the expected totals."""

    assignments: Items[str] = Field(description="the classifier of each query")
    estimated_accuracy: float = Field(
        description="expected accuracy, from 0 to 1: the mean estimate, corrected for the winner's curse of each "
        "classifier. The correction is measured on holdout rows at this budget"
    )
    raw_estimate: float = Field(description="the mean estimate before the correction")
    min_estimate: float = Field(description="lowest estimate, from 0 to 1")
    cost: float = Field(description="cost of the assignment, including embeddings, in the artifact's unit")
    gap: float = Field(description="proved gap: the optimum exceeds the value by at most this share")
    usage: dict[str, int] = Field(description="number of queries of each classifier")
    prices: Items[LimitPrice] = Field(
        description="each limit with its use and shadow price; empty for the objective min"
    )


class Assignment(AssignmentFigures):
    """The classifier of each query, within a budget."""

    budget: float = Field(description="the budget for the whole batch, in the artifact's unit")


class Embedding(Value):
    """Cost and time of the embedder's calls."""

    endpoint: str = Field(description="the embedder that was called")
    cost: float = Field(description="cost of the embedder's calls, in the artifact's unit")
    seconds: float = Field(description="time of the embedder's calls in seconds")


Embedded = Annotated[
    Embedding | None,
    Field(description="the embedder's calls, whose cost is not included in the decision's cost; omitted without calls"),
]


class AssignmentReply(Assignment, DecisionFacts):
    """An assignment, and the artifact that decided."""

    embedding: Embedded = None


class RouteLimits(HasBudget):
    """Limits of routing decisions."""

    budget: Budget | None = Field(
        default=None,
        description="upper bound on the mean cost per query, in the artifact's unit, or as a share, such as "
        '"50%", of the cost of the most expensive classifier; null: the least budget that reaches '
        "min_accuracy or, without it, the default operating point (``savings.query``)",
        examples=["50%"],
    )
    min_accuracy: MinAccuracy = None
    excluded: ExcludedNames = ()


class RouteEvaluateRequest(RequestBody, RouteLimits, HasCompleteItems):
    """Complete items to route, each separately."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "budget": "50%",
                    "items": [
                        {
                            "embedding": [0.6, 0.3, 0.1, 0, 0, 0, 0, 0, 0, 0],
                            "truth": "3",
                            "values": {"large-jury": "3", "neighbors": "5"},
                        }
                    ],
                }
            ]
        }
    )


class RouteQuery(RequestBody, RouteLimits):
    """A single query to route."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": [0.6, 0.3, 0.1, 0, 0, 0, 0, 0, 0, 0], "budget": "50%"}]}
    )

    query: Vector = Field(default_factory=tuple, description="the embedding of the query")
    text: Text | None = Field(
        default=None,
        description="instead of ``query``, the query's text, which the artifact's embedder embeds",
        examples=[None],
    )
    size: QuerySizes | None = Field(
        default=None,
        description="the query's size, if costs depend on size: a number, or one number per size column of the "
        "dataset; null: mean costs apply",
        examples=[None],
    )
    costs: Annotated[Items[Amount], Field(min_length=1, max_length=200)] | None = Field(
        default=None,
        description="cost of the query with each classifier, in the artifact's order and unit, without the "
        "embedding; null: costs by its size, else mean costs",
        examples=[None],
    )
    item: ItemId | None = Field(
        default=None,
        description="the query's id, which breaks ties between classifiers of equal value at the shadow price. The "
        "same id always gets the same classifier. null: the embedding breaks ties; then the budget is spent correctly "
        "only if embeddings differ",
        examples=[None],
    )

    @model_validator(mode="after")
    def _has_a_limit(self) -> "RouteQuery":
        _refuse_all_but_one_of(query=self.query or None, text=self.text)
        if self.costs is not None and self.size is not None:
            raise ValueError("costs cannot be combined with size")
        return self


class RouteRequest(RouteQuery):
    """A single query to route, alone or as part of a stream."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "query": [0.6, 0.3, 0.1, 0, 0, 0, 0, 0, 0, 0],
                    "budget": "50%",
                    "budget_pacing": {"ledger": "today", "total": 100000, "queries": 10000},
                },
                {"text": "Is this invoice paid?", "budget": "50%"},
            ]
        }
    )

    budget_pacing: Pacing | None = Field(
        default=None,
        description="ledger of a stream, whose total replaces the budget; the reply is 503 while the store is "
        "unavailable",
    )


class RouteDecision(Value):
    """The classifier of a query."""

    classifier: str = Field(description="the classifier")
    estimated_accuracy: float = Field(
        description="expected accuracy of the classifier on this query, from 0 to 1: the estimate, corrected for the "
        "classifier's winner's curse. The correction is measured on holdout rows at this budget"
    )
    raw_estimate: float = Field(description="the estimate before the correction")
    cost: float = Field(description="cost of the query, including its embedding, in the artifact's unit")
    price: float = Field(description="shadow price of cost: accuracy per unit of cost")
    budget: float = Field(description="mean budget per query, in the artifact's unit")


class RouteReply(RouteDecision, DecisionFacts):
    """A routing decision, and the artifact that decided."""

    budget_pacing: LedgerState | None = Field(description="the stream's ledger; null: none")
    embedding: Embedded = None
