"""The portfolio: which classifier for each query of a batch, or for a single one, within a budget.

A query is the embedding of an item: d numbers, as the dataset's embeddings. Costs and budgets are in the dataset's
unit. *OCCAM* in docstrings is the paper of Ding, Xu and Lakshmanan.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from models.artifact import ArtifactRef, DecisionFacts
from models.base import LARGEST, ItemId, Items, Label, Name, Sent, Value

Metric = Literal["linf", "l1", "l2"]
Objective = Literal["mean", "min"]
Sampling = Literal["iid", "disjoint"]
EstimatorName = Literal["occam", "neighbours", "forest", "boosting", "logistic", "stacked"]
Cost = Annotated[float, Field(ge=0, le=LARGEST)]
Coordinate = Annotated[float, Field(ge=-1e30, le=1e30)]
Query = Annotated[Items[Coordinate], Field(min_length=1, max_length=100_000)]
QuerySize = Annotated[float, Field(ge=0, le=LARGEST)]
QuerySizes = QuerySize | Annotated[Items[QuerySize], Field(min_length=1, max_length=8)]
Regularization = Annotated[float, Field(ge=0, le=1e6)]


class Samples(Value):
    """How many samples of labelled items are drawn, and how many items each has."""

    count: int = Field(ge=1, le=1000, description="the number of samples, K")
    size: int = Field(ge=1, le=1_000_000, description="the items of each sample, s")


class PortfolioOptions(Value):
    """How to build a portfolio from a trace with embeddings (``params`` of a build)."""

    estimator: Literal["auto"] | EstimatorName = Field(
        default="auto",
        description="what says how likely each classifier is right: occam, the mean over samples of labelled items; "
        "neighbours, forest, boosting or logistic, a regression on the embedding; stacked, the mean of these four; "
        "auto: of the last five the one that routes best, by rows that it had not seen, or occam where samples are "
        "given. The options on samples, metric and temperature are for occam",
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
    metric: Metric = Field(
        default="linf", description="the distance of embeddings: the largest difference, the sum of all, Euclid's"
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
        description="the endpoint that makes an item's embedding of its text, for runs; null: callers send embeddings",
    )
    pareto_only: bool = Field(
        default=False, description="whether to leave out classifiers that another one beats in cost and accuracy"
    )
    curve_points: int = Field(default=21, ge=2, le=201, description="budgets at which the curve is drawn")

    @property
    def takes_samples(self) -> bool:
        """Whether the paper's estimator was asked for, by its name or by its samples."""
        return self.estimator == "occam" or (self.estimator == "auto" and self.samples != "auto")


class Budget(Value):
    """What a batch may cost: exactly one of the three."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"fraction": 0.6}]})

    total: Cost | None = Field(
        default=None, description="for all queries together, in the artifact's unit", examples=[600.0]
    )
    per_query: Cost | None = Field(
        default=None, description="for a query on average, in the artifact's unit", examples=[0.6]
    )
    fraction: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None, description="as a share of what the dearest classifier costs for all queries", examples=[0.6]
    )

    @model_validator(mode="after")
    def _is_one(self) -> "Budget":
        _refuse_all_but_one(self)
        return self


class RouteBudget(Value):
    """What a query may cost on average: exactly one of the two."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"fraction": 0.5}]})

    per_query: Cost | None = Field(
        default=None, description="for a query on average, in the artifact's unit", examples=[0.6]
    )
    fraction: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None, description="as a share of what the dearest classifier costs"
    )

    @model_validator(mode="after")
    def _is_one(self) -> "RouteBudget":
        _refuse_all_but_one(self)
        return self


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


def _refuse_neither(budget: Budget | RouteBudget | None, min_accuracy: float | None) -> None:
    if budget is None and min_accuracy is None:
        raise ValueError("give a budget, or a min_accuracy, or both; there is neither")


def _refuse_all_but_one(budget: Budget | RouteBudget) -> None:
    names = list(type(budget).model_fields)
    given = [name for name in names if getattr(budget, name) is not None]
    if len(given) != 1:
        said = " and ".join(given) or "none"
        raise ValueError(f"give exactly one of {', '.join(names)}; there is {said}")


class AssignmentOptions(Value):
    """How to assign a batch, beside its queries."""

    budget: Budget | None = Field(
        default=None, description="what the batch may cost; null: what min_accuracy needs", examples=[{"fraction": 0.6}]
    )
    min_accuracy: MinAccuracy = None
    objective: Objective = Field(
        default="mean",
        description="mean: the highest mean of the estimates; min: the highest least estimate, then the highest mean; "
        "both of estimates less what the regularization takes off",
        examples=["mean"],
    )
    regularization: Regularization | None = Field(
        default=None,
        description="how many standard deviations of its error are taken off an estimate; null: as built",
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
        _refuse_neither(self.budget, self.min_accuracy)
        return self


class AssignmentRequest(AssignmentOptions):
    """Queries to assign to classifiers."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "queries": [[0.6, 0.3, 0.1, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]],
                    "budget": {"fraction": 0.6},
                }
            ]
        }
    )

    queries: Annotated[Items[Query], Field(min_length=1)] = Field(description="the embedding of each query")
    sizes: Items[QuerySizes] | None = Field(
        default=None,
        description="the size of each query, a number or one for each of the dataset's size columns, where costs are "
        "functions of it; null: they cost what they cost on average",
        examples=[None],
    )

    @model_validator(mode="after")
    def _has_a_size_for_each(self) -> "AssignmentRequest":
        if self.sizes is not None and len(self.sizes) != len(self.queries):
            raise ValueError(f"there are {len(self.sizes)} sizes for {len(self.queries)} queries")
        return self


class AssignmentFigures(Value):
    """Which classifier is to answer each query, and what that comes to."""

    assignments: Items[str] = Field(description="for each query the classifier")
    estimated_accuracy: float = Field(
        description="the share of right answers to expect, from 0 to 1: the mean estimate, less what such estimates "
        "were too high by, classifier by classifier, on held-out items at this budget"
    )
    raw_estimate: float = Field(description="the mean estimate, which the programme adds up, before that is taken off")
    least_estimate: float = Field(description="the least estimate, from 0 to 1")
    cost: float = Field(description="what the assignment costs, the embeddings included, in the artifact's unit")
    gap: float = Field(description="proved: the optimum is at most this share of the value above it")
    usage: dict[str, int] = Field(description="for each classifier the number of queries that it gets")


class Assignment(AssignmentFigures):
    """Which classifier is to answer each query, within a budget."""

    budget: float = Field(description="the budget for the whole batch, in the artifact's unit")


class AssignmentReply(Assignment, DecisionFacts):
    """An assignment together with the artifact it came from."""


class Pacing(Value):
    """A stream of single queries that share a budget, counted in the store."""

    ledger: Name = Field(
        description="the name under which the stream's spending is counted, for this portfolio in all its versions; "
        "the first query sets the total and the number of queries; it is forgotten 90 days after its last query, and a "
        "further stream needs a further name"
    )
    total: Cost = Field(description="what the whole stream may cost, in the artifact's unit; never exceeded")
    queries: int = Field(
        ge=1, le=10**12, description="how many queries the stream will have; more are answered while something is left"
    )


class RouteQuery(Sent):
    """A single query to route."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": [0.6, 0.3, 0.1, 0, 0, 0, 0, 0, 0, 0], "budget": {"fraction": 0.5}}]}
    )

    query: Query = Field(description="the embedding of the query")
    size: QuerySizes | None = Field(
        default=None,
        description="the query's size, a number or one for each of the dataset's size columns, where costs are "
        "functions of it; null: it costs what queries cost on average",
        examples=[None],
    )
    item: ItemId | None = Field(
        default=None,
        description="the query's id: where two classifiers are equal at a price it draws one, always the same; "
        "null: the embedding's numbers do, which share a budget evenly only where embeddings differ",
        examples=[None],
    )
    budget: RouteBudget | None = Field(
        default=None,
        description="what a query may cost on average; null: what min_accuracy needs",
        examples=[{"fraction": 0.5}],
    )
    min_accuracy: MinAccuracy = None

    @model_validator(mode="after")
    def _has_a_limit(self) -> "RouteQuery":
        _refuse_neither(self.budget, self.min_accuracy)
        return self


class RouteRequest(RouteQuery):
    """A single query to route, on its own or as one of a stream."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "query": [0.6, 0.3, 0.1, 0, 0, 0, 0, 0, 0, 0],
                    "budget": {"fraction": 0.5},
                    "budget_pacing": {"ledger": "today", "total": 100000, "queries": 10000},
                }
            ]
        }
    )

    budget_pacing: Pacing | None = Field(
        default=None,
        description="a stream's ledger, whose total then counts and not the budget, unless the store is away; it "
        "plans with mean costs, so no size goes with it",
    )

    @model_validator(mode="after")
    def _is_paced_by_mean_costs(self) -> "RouteRequest":
        if self.budget_pacing is not None and self.size is not None:
            raise ValueError("budget_pacing plans with mean costs: leave size out, or budget_pacing")
        return self


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


class LedgerState(Value):
    """How far a stream has come."""

    ledger: Name = Field(description="the ledger's name")
    corrected: bool = Field(description="whether the price was corrected; not while the store cannot be reached")
    spent: float | None = Field(description="what the stream has spent, this query included; null if not known")
    queries: int | None = Field(description="how many queries it has had, this one included; null if not known")


class RouteReply(RouteDecision, DecisionFacts):
    """A decision together with the artifact it came from."""

    budget_pacing: LedgerState | None = Field(description="the stream's ledger, null if there is none")


class CurvePoint(Value):
    """What one method reaches at one budget on held-out items."""

    budget: float = Field(description="what a query may cost on average, in the artifact's unit")
    estimated_accuracy: float | None = Field(
        description="the mean of the method's estimates, uncorrected, from 0 to 1; null if it has none"
    )
    accuracy: float = Field(description="the share of items, from 0 to 1, that were answered rightly")
    cost: float = Field(
        description="what a query really cost on average, in the artifact's unit; above the budget where held-out "
        "items were dearer than those that the build learned the costs from"
    )
    usage: dict[str, int] = Field(description="for each classifier the number of queries that it got")


class Curve(Value):
    """What a method reaches over budgets."""

    method: str = Field(
        description="occam: whole batches; route: single queries by shadow price; single_best, random, frugal_mct, "
        "oracle: baselines"
    )
    points: Items[CurvePoint] = Field(description="by rising budget")


class ShadowPrice(Value):
    """The price of cost at one budget."""

    budget: float = Field(description="what a query may cost on average, in the artifact's unit")
    price: float = Field(description="the accuracy that a further unit of cost brings there")


class CurveReply(Value):
    """Accuracy against budget, the methods side by side."""

    curves: Items[Curve] = Field(description="each method, on the items that the build has not seen")
    prices: Items[ShadowPrice] = Field(description="the shadow prices that single queries are routed by")
    items: int = Field(description="the number of held-out items")
    unit: str = Field(description="the unit of costs and budgets")
    artifact: ArtifactRef = Field(description="the artifact that answered")
