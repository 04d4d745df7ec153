"""The portfolio: which classifier for each query of a batch, or for a single one, within a budget.

A query is the embedding of an item: d numbers, as the dataset's embeddings. Costs and budgets are in the dataset's
unit. *OCCAM* in docstrings is the paper of Ding, Xu and Lakshmanan.
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
from models.base import LARGEST, ItemId, Items, Label, Sent, Value, Vector, Without
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


OF_SAMPLES = ("samples", "max_items", "sampling", "temperature")
"""Options on samples of labelled items."""


class Samples(Value):
    """How many samples of labelled items are drawn, and how many items each has."""

    count: int = Field(ge=1, le=1000, description="the number of samples, K")
    size: int = Field(ge=1, le=1_000_000, description="the items of each sample, s")


class PortfolioOptions(Value):
    """How to build a portfolio from a trace with embeddings (``params`` of a build)."""

    estimator: Literal["auto", "occam"] = Field(
        default="auto",
        description="the estimator of each classifier's probability to be correct: occam, the mean over samples "
        "of labelled items; "
        "auto: the mean of a random forest and kernel ridge regression on the embedding (stacked), or "
        "occam where samples are given. The options on samples and temperature are for occam, and only its artifacts "
        "report them",
    )
    confidence: float = Field(
        default=0.9,
        ge=0.5,
        lt=1,
        description="not for occam: how sure it is to be that single queries cost no more on average than the budget",
    )
    samples: Literal["auto"] | Samples = Field(
        default="auto", description="the samples; auto: those that route the validation part most accurately"
    )
    max_items: int = Field(
        default=40_000, ge=1, le=10_000_000, description="auto: at most so many items in all samples together"
    )
    sampling: Sampling = Field(
        default="iid", description="iid: each sample is drawn from all items; disjoint: no item is in two samples"
    )
    temperature: float = Field(
        default=1e-3,
        gt=0,
        le=1e3,
        description="temperature of the softmax over a classifier's scores, where the trace has them; else an answer "
        "is right or wrong",
    )
    regularization: Literal["auto"] | Regularization = Field(
        default="auto",
        description="how many standard deviations of its error are taken off an estimate; auto: as many as route the "
        "validation part most accurately; but for occam none",
    )
    feature_classifier: Label | None = Field(
        default=None,
        description="the classifier that the embeddings come from: it is called for every query, so its cost is taken "
        "off the budget and its own answers are free; null: embeddings cost nothing",
    )
    embedder: Label | None = Field(
        default=None,
        description="the endpoint that makes a query's embedding of its text; null: callers send embeddings",
    )
    pareto_only: bool = Field(
        default=False, description="whether to leave out classifiers that another one beats in cost and accuracy"
    )
    curve_points: int = Field(default=21, ge=2, le=201, description="budgets at which the curve is drawn")

    @model_serializer(mode="wrap")
    def _leave_out_unused(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the options on samples where these are not used."""
        options: dict[str, Any] = serialize(self)
        return options if self.takes_samples else {k: v for k, v in options.items() if k not in OF_SAMPLES}

    @property
    def takes_samples(self) -> bool:
        """Whether the paper's estimator is selected, by its name or by its samples."""
        return self.estimator == "occam" or (self.estimator == "auto" and self.samples != "auto")


MinAccuracy = Annotated[
    float | None,
    Field(
        ge=0,
        le=1,
        description="the least share of right answers, from 0 to 1: the budget is then the least at which held-out "
        "items reached it, and what is given as budget the most it may be",
        examples=[0.9],
    ),
]


def _refuse_all_but_one_of(**fields: object) -> None:
    given = [name for name, value in fields.items() if value is not None]
    if len(given) != 1:
        message = " and ".join(given) or "none"
        raise ValueError(f"give exactly one of {', '.join(fields)}; there is {message}")


class BatchBudget(HasBudget):
    """What queries may cost: on average, or all together."""

    budget_total: Cost | None = Field(
        default=None,
        description="what all together may cost, instead of budget, in the artifact's unit",
        examples=[None],
    )

    @model_validator(mode="after")
    def _is_one(self) -> "BatchBudget":
        if self.budget is not None and self.budget_total is not None:
            raise ValueError("give budget, per query, or budget_total, not both")
        return self

    @property
    def has_budget(self) -> bool:
        """Whether there is one."""
        return self.budget is not None or self.budget_total is not None


class AssignmentOptions(BatchBudget):
    """How to assign a batch, in addition to its queries."""

    budget: Budget | None = Field(
        default=None,
        description='what a query may cost on average, in the artifact\'s unit, or "60%" of what the most expensive '
        "classifier costs; null: what min_accuracy needs",
        examples=["60%"],
    )
    min_accuracy: MinAccuracy = None
    objective: Objective = Field(
        default="mean",
        description="mean: the highest mean of the estimates, less what the regularization takes off; min: the highest "
        "least estimate, then the highest mean, of estimates as they are",
        examples=["mean"],
    )
    regularization: Regularization | None = Field(
        default=None,
        description="how many standard deviations of its error are taken off an estimate, for the objective mean; "
        "null: as built",
        examples=[1.0],
    )
    gap: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="how far the answer may be from the optimum, as a share of its value; 0: the exact optimum; null: "
        "1e-6, within several limits 1e-4",
        examples=[1e-6],
    )
    time_limit_s: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="seconds after which the best assignment so far is the answer; null: the server's limit",
        examples=[2.0],
    )

    @model_validator(mode="after")
    def _has_a_limit(self) -> "AssignmentOptions":
        if not self.has_budget and self.min_accuracy is None:
            raise ValueError("give a budget, or a min_accuracy, or both; there is neither")
        if self.objective == "min" and self.regularization:
            raise ValueError("regularization is not supported for the objective min, which takes estimates as they are")
        return self


Sizes = Annotated[
    Items[QuerySizes] | None,
    Field(
        description="the size of each query, a number or one for each of the dataset's size columns, where costs are "
        "functions of it; null: they cost what they cost on average",
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
        description="the text of each query instead, of which the artifact's embedder makes the embedding",
        examples=[None],
    )
    sizes: Sizes = None

    @property
    def count(self) -> int:
        """How many queries there are."""
        return len(self.queries if self.texts is None else self.texts)

    @model_validator(mode="after")
    def _has_a_size_for_each(self) -> "AssignmentRequest":
        _refuse_all_but_one_of(queries=self.queries or None, texts=self.texts)
        if self.sizes is not None and len(self.sizes) != self.count:
            raise ValueError(f"there are {len(self.sizes)} sizes for {self.count} queries")
        return self


class AssignmentFigures(Value):
    """Which classifier is to answer each query, and what that comes to."""

    assignments: Items[str] = Field(description="for each query the classifier")
    estimated_accuracy: float = Field(
        description="the share of right answers to expect, from 0 to 1: the mean estimate, less what such estimates "
        "were too high by, classifier by classifier, on held-out items at this budget"
    )
    raw_estimate: float = Field(description="the mean estimate, which the programme adds up, before that is taken off")
    min_estimate: float = Field(description="the least estimate, from 0 to 1")
    cost: float = Field(description="what the assignment costs, the embeddings included, in the artifact's unit")
    gap: float = Field(description="proved: the optimum is at most this share of the value above it")
    usage: dict[str, int] = Field(description="for each classifier the number of queries that it gets")
    prices: Items[LimitPrice] = Field(
        description="each limit, with its use and its shadow price; none where the objective is the lowest estimate"
    )


class Assignment(AssignmentFigures):
    """Which classifier is to answer each query, within a budget."""

    budget: float = Field(description="the budget for the whole batch, in the artifact's unit")


class Embedding(Value):
    """What the embedder took that was called for the decision."""

    endpoint: str = Field(description="the embedder that was called")
    cost: float = Field(description="what its calls cost, in the artifact's unit")
    seconds: float = Field(description="how long the decision waited for it")


Embedded = Annotated[
    Embedding | None,
    Field(description="the embedder's call, in addition to the decision's cost; omitted: there was none"),
]


class AssignmentReply(Assignment, DecisionFacts):
    """An assignment together with the artifact it came from."""

    embedding: Embedded = None


class RouteLimits(HasBudget):
    """Within what queries are routed."""

    budget: Budget | None = Field(
        default=None,
        description='what a query may cost on average, in the artifact\'s unit, or "50%" of what the most expensive '
        "classifier costs; null: what min_accuracy needs, without it that of the "
        "artifact's headline (``savings.query``)",
        examples=["50%"],
    )
    min_accuracy: MinAccuracy = None
    excluded: Without = ()


class RouteEvaluateRequest(Sent, RouteLimits, HasCompleteItems):
    """Complete items to route, each on its own."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "budget": "50%",
                    "items": [
                        {
                            "embedding": [0.6, 0.3, 0.1, 0, 0, 0, 0, 0, 0, 0],
                            "truth": "3",
                            "values": {"jury": "3", "profiles-lda": "5"},
                        }
                    ],
                }
            ]
        }
    )


class RouteQuery(Sent, RouteLimits):
    """A single query to route."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": [0.6, 0.3, 0.1, 0, 0, 0, 0, 0, 0, 0], "budget": "50%"}]}
    )

    query: Vector = Field(default_factory=tuple, description="the embedding of the query")
    text: Text | None = Field(
        default=None,
        description="the query's text instead, of which the artifact's embedder makes the embedding",
        examples=[None],
    )
    size: QuerySizes | None = Field(
        default=None,
        description="the query's size, a number or one for each of the dataset's size columns, where costs are "
        "functions of it; null: it costs what queries cost on average",
        examples=[None],
    )
    costs: Annotated[Items[Amount], Field(min_length=1, max_length=200)] | None = Field(
        default=None,
        description="what the query costs with each classifier, without its embedding, in the artifact's unit "
        "and order; "
        "null: by its size, else the means",
        examples=[None],
    )
    item: ItemId | None = Field(
        default=None,
        description="the query's id: where two classifiers are equal at a price it draws one, always the same; "
        "null: the embedding's numbers do, which share a budget evenly only where embeddings differ",
        examples=[None],
    )

    @model_validator(mode="after")
    def _has_a_limit(self) -> "RouteQuery":
        _refuse_all_but_one_of(query=self.query or None, text=self.text)
        if self.costs is not None and self.size is not None:
            raise ValueError("give costs or size, not both")
        return self


class RouteRequest(RouteQuery):
    """A single query to route, on its own or as one of a stream."""

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
        description="a stream's ledger, whose total counts instead of the budget; 503 while the store is unavailable",
    )


class RouteDecision(Value):
    """Which classifier is to answer the query."""

    classifier: str = Field(description="the classifier")
    estimated_accuracy: float = Field(
        description="how likely it is right, from 0 to 1: the estimate, less what estimates of chosen classifiers were "
        "too high by, classifier by classifier, on held-out items at this budget"
    )
    raw_estimate: float = Field(description="the estimate before that is taken off")
    cost: float = Field(description="what the query costs, its embedding included, in the artifact's unit")
    price: float = Field(description="the shadow price: the accuracy that a unit of cost must bring")
    budget: float = Field(description="what a query may cost on average, in the artifact's unit")


class RouteReply(RouteDecision, DecisionFacts):
    """A decision together with the artifact it came from."""

    budget_pacing: LedgerState | None = Field(description="the stream's ledger, null if there is none")
    embedding: Embedded = None
