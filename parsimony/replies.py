"""Types of the API's replies. Written by ``tools/write_client_types.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired  # noqa: UP035 - Python 3.10


class Abort(TypedDict):
    """Rules for withdrawing the candidate."""

    max_accuracy_loss: NotRequired[float]
    max_extra_cost: NotRequired[float | None]


class AcceptedRows(TypedDict):
    """The number of rows or truths that are on disk."""

    accepted: int


class Advice(TypedDict):
    """The recommended artifact kind, and the figures of each kind on the same rows."""

    budget: NotRequired[float | None]
    deadline: NotRequired[float | None]
    min_accuracy: NotRequired[float | None]
    dataset: str
    dataset_sha256: str
    unit: str
    rows: AdviceRows
    recommended: str
    summary: str
    kinds: list[KindAdvice]
    alternatives: list[SimpleBaseline]
    excluded: list[ExcludedKind]
    warnings: NotRequired[list[DataWarning]]


class AdviceRows(TypedDict):
    """Number of rows for each purpose."""

    training: int
    validation: int
    holdout: int


class Agreement(TypedDict):
    """For each pair of classifiers, how often one is correct when the other is wrong."""

    classifiers: list[str]
    wrong: list[int]
    right: list[list[int]]
    share: list[list[float | None]]


class Alarm(TypedDict):
    """A change that a drift detector found."""

    quantity: str
    classifier: NotRequired[str | None]
    direction: Literal["above", "below"]
    change_point: int
    changed_at: str
    detected: int
    before: float
    after: float


class ArtifactList(TypedDict):
    """A page of artifacts."""

    next: str | None
    total: int
    items: list[ArtifactRecord]


class ArtifactRecord(TypedDict):
    """One version of an artifact, as it is stored and as the API returns it."""

    kind: str
    name: str
    dataset: str
    params: dict[str, Any]
    seed: int
    unit: str
    summary: dict[str, Any]
    version: int
    active: NotRequired[bool]
    created_at: str
    sha256: str
    bytes: int
    dataset_sha256: NotRequired[str]
    savings: NotRequired[Savings | None]
    losses: NotRequired[LossPrices | None]
    guarantees: NotRequired[GuaranteeReport | None]
    drift: NotRequired[list[str]]


class ArtifactRef(TypedDict):
    """Kind, name, and version of an artifact."""

    kind: str
    name: str
    version: int


class AssignmentReply(TypedDict):
    """An assignment, and the artifact that decided."""

    artifact: ArtifactRef
    decision: str
    expected: ExpectedOutcome
    open_circuits: NotRequired[list[str]]
    assignments: list[str]
    estimated_accuracy: float
    raw_estimate: float
    min_estimate: float
    cost: float
    gap: float
    usage: dict[str, int]
    prices: list[LimitPrice]
    budget: float
    embedding: NotRequired[Embedding | None]


class Automation(TypedDict):
    """The automatic steps of an artifact after drift, and the steps taken so far."""

    kind: str
    name: str
    spec: AutomationSpec
    drifted_version: int | None
    build: str | None
    rollout_version: int | None
    problem: str | None
    events: list[AutomationEvent]


class AutomationEvent(TypedDict):
    """An automatic step after drift, or the reason why it failed."""

    at: str
    event: Literal["waiting", "rebuild", "rollout", "failed"]
    reason: str


class AutomationList(TypedDict):
    """The automations of artifacts."""

    items: list[Automation]


class AutomationSpec(TypedDict):
    """Automatic steps after drift: rebuild, rollout, and promotion by its rules."""

    rebuild_on_drift: NotRequired[bool]
    recording: NotRequired[str | None]
    rollout: NotRequired[RolloutRules | None]


class Baseline(TypedDict):
    """A simple alternative to the artifact, at one or more budgets."""

    name: str
    points: list[BaselinePoint]
    rows: int


class BaselinePoint(TypedDict):
    """Accuracy and cost of a baseline."""

    accuracy: float
    accuracy_interval: list[Any] | None
    loss: NotRequired[float | None]
    cost: float


class Batch(TypedDict):
    """A batch: facts, status, progress, and costs."""

    id: str
    artifact: ArtifactRef
    limits: RunLimits
    max_concurrency: int
    total: int
    divided: NotRequired[bool]
    unit: str
    key: NotRequired[str | None]
    team: NotRequired[str | None]
    created_at: str
    status: Literal["queued", "running", "succeeded", "failed", "cancelled"]
    done: int
    failed: int
    spent: Spent
    started_at: NotRequired[str | None]
    finished_at: NotRequired[str | None]
    error: NotRequired[str | None]
    open_circuits: NotRequired[list[str]]
    confidence_problems: NotRequired[list[str]]


class BatchList(TypedDict):
    """A page of batches."""

    next: str | None
    total: int
    items: list[Batch]


class BudgetBalance(TypedDict):
    """State of one bound of a budget in the current period."""

    quantity: Literal["cost", "requests", "tokens"]
    amount: float
    spent: float
    reserved: float
    released: float
    remaining: float
    resets_at: str | None


class BudgetList(TypedDict):
    """All budgets."""

    items: list[ShownBudget]


class BudgetSpec(TypedDict):
    """An amount per period, limits per minute, and what happens when they are spent."""

    scope: Literal["key", "team", "artifact"]
    target: str
    amount: NotRequired[float | None]
    unit: NotRequired[str]
    period: NotRequired[Literal["hour", "day", "month", "total"]]
    is_paced: NotRequired[bool]
    when_spent: NotRequired[Literal["cheapest", "refuse", "alert"]]
    requests_per_minute: NotRequired[int | None]
    tokens_per_minute: NotRequired[int | None]
    offline_share: NotRequired[float]


class Build(TypedDict):
    """A build job: request, status, progress, and result."""

    id: str
    kind: str
    name: str
    dataset: str
    params: dict[str, Any]
    seed: int
    guarantees: NotRequired[Guarantees | None]
    activate: NotRequired[bool]
    status: Literal["queued", "running", "succeeded", "failed", "cancelled"]
    progress: BuildProgress
    created_at: str
    started_at: NotRequired[str | None]
    finished_at: NotRequired[str | None]
    error: NotRequired[str | None]
    artifact: NotRequired[ArtifactRef | None]


class BuildList(TypedDict):
    """A page of builds."""

    next: str | None
    total: int
    items: list[Build]
    open: int


class BuildProgress(TypedDict):
    """Progress of a build."""

    done: NotRequired[int]
    total: NotRequired[int]
    message: NotRequired[str]


class CalibrationBin(TypedDict):
    """Mean confidence and accuracy of items with similar confidence."""

    low: float
    high: float
    confidence: float
    accuracy: float
    rows: int


class CallCoverage(TypedDict):
    """Shares of rows that each classifier answered, by group."""

    by: Literal["label", "length", "hour"]
    rows: int
    classifiers: list[str]
    groups: list[CoverageGroup]


class CascadeDecision(TypedDict):
    """The cascade to run: call its classifiers in order until one answers."""

    cascade: list[str]
    expected_duration: float
    maximum_duration: float
    deadline: float | None
    algorithm: Literal[
        "ratio-order",
        "ratio-frontier",
        "power-order",
        "power-frontier",
        "group-states",
        "group-beam",
        "set-states",
        "frontier",
    ]
    optimal: bool
    lower_bound: float
    discarded: NotRequired[list[Discarded]]


class ChangedItem(TypedDict):
    """A logged item for which the two versions decide differently."""

    id: str
    before: ItemDecision
    after: ItemDecision


class ChangedShare(TypedDict):
    """The share of items that use a classifier or feature, before and after."""

    name: str
    called_before: float
    called_after: float
    answers_before: float | None
    answers_after: float | None


class ChatEndpoint(TypedDict):
    """A language model with OpenAI's chat API."""

    url: str
    timeout_s: NotRequired[float]
    concurrency: NotRequired[int]
    retries: NotRequired[Retries]
    prices: NotRequired[Prices | None]
    secret: NotRequired[str | None]
    secret_header: NotRequired[str]
    max_reply_bytes: NotRequired[int]
    protocol: Literal["openai-chat"]
    preset: NotRequired[
        Literal["openai", "openai-reasoning", "azure", "vllm", "ollama", "anthropic", "bedrock-openai"] | None
    ]
    model: str
    system: NotRequired[str | None]
    answer: NotRequired[Choice | JsonAnswer | Pattern | WholeText]
    piece_timeout_s: NotRequired[float]
    total_timeout_s: NotRequired[float | None]
    max_tokens: NotRequired[int | None]
    temperature: NotRequired[float | None]
    drops: NotRequired[list[str]]
    renames: NotRequired[dict[str, Any]]
    logprobs: NotRequired[bool]
    judge: NotRequired[str | None]
    samples: NotRequired[int]


class Choice(TypedDict):
    """The label is the choice that equals the answer."""

    kind: NotRequired[Literal["choice"]]
    labels: list[str]


class ClassRows(TypedDict):
    """The number of items of a class."""

    name: str
    rows: int


class ClassifierOutcomes(TypedDict):
    """Outcomes of the decisions that accepted a classifier's answer."""

    classifier: str
    outcomes: int
    correct: int


class ClassifierProfile(TypedDict):
    """Accuracy, cost, and calibration of a classifier in a trace."""

    name: str
    group: str | None
    accuracy: float
    calls: int
    effective_calls: float | None
    mean_cost: float
    mean_confidence: float | None
    no_class: float
    calibration: list[CalibrationBin]


class ClassifierSetup(TypedDict):
    """Set-up work of some classifiers, for example to transcribe a call: an item pays for it once."""

    name: str
    cost: float | Polynomial | Terms | Timings
    time: NotRequired[float | None]
    classifiers: list[str]


class ComparedBaseline(TypedDict):
    """The baseline with which savings are compared."""

    name: str
    accuracy: float
    cost: float
    loss: NotRequired[float | None]
    kind: Literal["single", "random_mixture"]


class ComparedDecision(TypedDict):
    """The decision of one artifact, or the error."""

    artifact: ArtifactRef
    unit: str
    decision: dict[str, Any] | None
    savings: Savings | None
    ignored: list[str]
    refusal: str | None


class Comparison(TypedDict):
    """Mean estimate and mean actual value of one quantity."""

    outcomes: int
    estimated: float | None
    actual: float | None
    low: float | None
    high: float | None
    drift: bool


class ConstrainedReply(TypedDict):
    """An assignment within several limits, and the artifact that decided."""

    artifact: ArtifactRef
    decision: str
    expected: ExpectedOutcome
    open_circuits: NotRequired[list[str]]
    assignments: list[str]
    estimated_accuracy: float
    raw_estimate: float
    min_estimate: float
    cost: float
    gap: float
    usage: dict[str, int]
    prices: list[LimitPrice]
    budget: float | None
    embedding: NotRequired[Embedding | None]


class ConversationWindow(TypedDict):
    """The part of a conversation to embed, and how; stored in datasets and artifacts."""

    window_tokens: NotRequired[int]
    older_chunks: NotRequired[int]
    system: NotRequired[bool]
    template: NotRequired[str]


class CostColumn(TypedDict):
    """A cost that was measured per item."""

    column: str


class CoverageGroup(TypedDict):
    """A group of rows, and the share of its rows that each classifier answered."""

    group: str | None
    rows: int
    answered: dict[str, float]


class Crossing(TypedDict):
    """A size at which two cost curves cross and the skyline changes."""

    size: float
    cost: float
    first: int
    second: int


class CurrentBaseline(TypedDict):
    """Current cost and accuracy without the artifact, and the share that it saves."""

    name: str
    accuracy: float
    cost: float
    loss: NotRequired[float | None]
    saved: float | None
    saved_interval: list[Any] | None
    gained: NotRequired[float | None]
    gained_interval: NotRequired[list[Any] | None]


class CurvePoint(TypedDict):
    """One operating point."""

    limits: dict[str, JsonValue]
    expected: ExpectedOutcome
    decision: dict[str, Any]


class CurveReply(TypedDict):
    """The trade-off curve: accuracy and cost of operating points and baselines."""

    points: list[CurvePoint]
    baselines: list[Baseline]
    default: dict[str, JsonValue]
    rows: int
    unit: str
    artifact: ArtifactRef


class CurvesReply(TypedDict):
    """Cost curves and best feature sets, and the artifact that they are from."""

    sizes: list[float]
    budgets: list[float]
    feature_sets: list[FeatureSetCurve]
    intersections: list[Crossing]
    winners: list[list[int]]
    unit: str
    artifact: ArtifactRef


class DataWarning(TypedDict):
    """A property of the rows that makes figures less certain."""

    code: Literal["repeated-rows", "conflicting-outcomes", "label-spellings", "partial-calls", "reference-labels"]
    share: float
    message: str


class DatasetInfo(TypedDict):
    """Facts of a stored dataset."""

    spec: FeaturesSpec | TraceSpec
    rows: int
    items: NotRequired[int | None]
    columns: list[str]
    classes: list[str]
    embedding_dimensions: int
    complete_rows: NotRequired[int | None]
    name: str
    sha256: str
    bytes: int
    created_at: str
    warnings: NotRequired[list[DataWarning]]
    source: NotRequired[SourceFacts | None]


class DatasetList(TypedDict):
    """A page of datasets."""

    next: str | None
    total: int
    items: list[DatasetInfo]


class DeadlineRange(TypedDict):
    """A range of deadlines, and its best cascade."""

    deadline_from: float
    deadline_to: float | None
    cascade: list[str]
    expected_duration: float
    maximum_duration: float
    accuracy: NotRequired[float | None]


class DeadlinesReply(TypedDict):
    """The best cascade for each range of deadlines."""

    items: list[DeadlineRange]
    unit: str
    artifact: ArtifactRef


class DecisionsReply(TypedDict):
    """The decisions of all active artifacts with the same name."""

    items: list[ComparedDecision]


class DeletedDataset(TypedDict):
    """A deleted dataset, and the artifacts that were built from it."""

    name: str
    artifacts: list[ArtifactRef]


class DescribedVersion(TypedDict):
    """One of the compared versions."""

    artifact: ArtifactRef
    dataset: str
    created_at: str
    active: bool
    limits: dict[str, JsonValue]
    decision: dict[str, Any]
    expected: ExpectedOutcome | None


class DetectionDelay(TypedDict):
    """A decrease of accuracy, and the number of outcomes until the alarm."""

    drop: float
    outcomes: int | None


class Differences(TypedDict):
    """Differences of the version from another decision rule."""

    accuracy: PairedDifference
    cost: PairedDifference
    loss: PairedDifference | None


class Discarded(TypedDict):
    """A classifier that was excluded before solving, and the reason."""

    name: str
    reason: str


class Embedding(TypedDict):
    """Cost and time of the embedder's calls."""

    endpoint: str
    cost: float
    seconds: float


class EmbeddingsEndpoint(TypedDict):
    """A model with OpenAI's embeddings API."""

    url: str
    timeout_s: NotRequired[float]
    concurrency: NotRequired[int]
    retries: NotRequired[Retries]
    prices: NotRequired[Prices | None]
    secret: NotRequired[str | None]
    secret_header: NotRequired[str]
    max_reply_bytes: NotRequired[int]
    protocol: Literal["openai-embeddings"]
    model: str
    dimensions: NotRequired[int | None]
    max_texts: NotRequired[int]
    fallback: NotRequired[str | None]


class EndpointList(TypedDict):
    """A page of endpoints."""

    next: str | None
    total: int
    items: list[ShownEndpoint]


class Estimated(TypedDict):
    """A mean over all rows, with its 95 % confidence interval."""

    value: float
    interval: list[Any]
    effective_rows: float


class EstimatedFigure(TypedDict):
    """A figure of a version, and the method of its estimate."""

    value: float
    interval: list[Any]
    effective_rows: float
    method: Literal["replay", "doubly_robust"]
    snips: Estimated | None


class EvaluatedItem(TypedDict):
    """Answer, cost, and correctness of one evaluated item."""

    id: str
    label: str | None
    confidence: float | None
    probabilities: dict[str, float] | None
    classifier: str | None
    accepted: bool
    cost: float
    path: list[str]
    correct: float | None
    loss: NotRequired[float | None]
    weight: NotRequired[float]


class EvaluatedRecording(TypedDict):
    """A recording on which a version was evaluated."""

    recorded_rows: int
    unused: dict[str, int]
    name: str


class EvaluationReply(TypedDict):
    """Outcome of each evaluated item, and their summary."""

    items: list[EvaluatedItem]
    summary: EvaluationSummary
    unit: str
    artifact: ArtifactRef


class EvaluationSummary(TypedDict):
    """Accuracy, cost, and coverage of all evaluated items, with 95 % intervals."""

    items: int
    coverage: float
    coverage_interval: list[Any]
    cost: float
    cost_interval: list[Any] | None
    accuracy: float | None
    accuracy_interval: list[Any] | None
    loss: NotRequired[float | None]
    loss_interval: NotRequired[list[Any] | None]
    reliability: NotRequired[list[ReliabilityBin]]
    ignored: list[str]


class ExcludedKind(TypedDict):
    """An artifact kind that could not be built, and the reason."""

    kind: str
    reason: str
    timed_out: NotRequired[bool]


class ExpectedOutcome(TypedDict):
    """Expected accuracy, cost, time, and coverage of a decision, from holdout rows."""

    accuracy: NotRequired[float | None]
    accuracy_interval: NotRequired[list[Any] | None]
    coverage: NotRequired[float | None]
    coverage_interval: NotRequired[list[Any] | None]
    loss: NotRequired[float | None]
    loss_interval: NotRequired[list[Any] | None]
    cost: NotRequired[float | None]
    cost_interval: NotRequired[list[Any] | None]
    time: NotRequired[float | None]
    time_interval: NotRequired[list[Any] | None]


class FailedRun(TypedDict):
    """An item without an answer, and the error."""

    id: NotRequired[str | None]
    error: str
    status: int
    steps: NotRequired[list[RunStep]]


class FeatureProfile(TypedDict):
    """Cost of a feature."""

    name: str
    cost: float | None
    costs: list[float | None]
    columns: list[str]
    timings: list[MeasuredCost]


class FeatureSetCurve(TypedDict):
    """Cost of a feature set by size."""

    features: list[str]
    accuracy: float
    costs: list[float]


class FeatureSpec(TypedDict):
    """A feature: its columns, and the cost to compute it."""

    name: str
    columns: list[str]
    cost: float | Polynomial | Terms | Timings
    time: NotRequired[float | None]


class FeaturesProfileReply(TypedDict):
    """The profile of a feature table."""

    name: str
    sha256: str
    kind: NotRequired[Literal["features"]]
    rows: int
    unit: str
    classes: list[ClassRows]
    dimensions: int
    sizes: list[float]
    features: list[FeatureProfile]
    setup: NotRequired[list[SetupProfile]]


class FeaturesSpec(TypedDict):
    """Spec of a feature table: items with features and a label."""

    weights: NotRequired[str | dict[str, float] | None]
    losses: NotRequired[dict[str, dict[str, float]] | None]
    reject_cost: NotRequired[float | dict[str, float] | None]
    loss_unit: NotRequired[str | None]
    loss_weight: NotRequired[float | None]
    kind: Literal["features"]
    label: str
    unit: str
    size: NotRequired[str | list[str] | None]
    item: NotRequired[str | None]
    features: list[FeatureSpec]
    setup: NotRequired[list[SetupSpec]]
    categorical: NotRequired[list[str]]
    missing: NotRequired[bool]
    time_unit: NotRequired[str | None]


class FeedbackReply(TypedDict):
    """Numbers of added outcomes, and new alarms."""

    accepted: int
    rows: int
    drift: dict[str, list[str]]
    alarms: dict[str, list[Alarm]]


class FeedbackReport(TypedDict):
    """Estimates compared with actual outcomes, for one version of an artifact."""

    artifact: ArtifactRef
    unit: str
    outcomes: int
    rows: int
    accuracy: Comparison
    loss: NotRequired[Comparison | None]
    coverage: Comparison
    cost: Comparison
    time: Comparison
    classifiers: list[ClassifierOutcomes]
    drift: list[str]
    alarms: list[Alarm]
    reference: float | None
    detects: list[DetectionDelay]
    false_alarm_rate: float


class FrozenDataset(TypedDict):
    """A dataset made from recorded rows, and the numbers of unused rows."""

    recorded_rows: int
    unused: dict[str, int]
    spec: FeaturesSpec | TraceSpec
    rows: int
    items: NotRequired[int | None]
    columns: list[str]
    classes: list[str]
    embedding_dimensions: int
    complete_rows: NotRequired[int | None]
    name: str
    sha256: str
    bytes: int
    created_at: str
    warnings: NotRequired[list[DataWarning]]
    source: NotRequired[SourceFacts | None]
    replaced: ReplacedDataset | None


class GuaranteeReport(TypedDict):
    """Guarantees of an artifact: the request, and the measured values."""

    request: Guarantees
    kept: list[KeptGuarantee]


class Guarantees(TypedDict):
    """Bounds that an artifact's default decisions must keep on unseen items, with a stated confidence."""

    min_recall: NotRequired[dict[str, float]]
    max_false_positive_rate: NotRequired[dict[str, float]]
    min_accuracy: NotRequired[float | None]
    min_coverage: NotRequired[float | None]
    confidence: NotRequired[float]


class ImportedDataset(TypedDict):
    """A dataset made from a log of calls, and the numbers of used and unused records."""

    spec: FeaturesSpec | TraceSpec
    rows: int
    items: NotRequired[int | None]
    columns: list[str]
    classes: list[str]
    embedding_dimensions: int
    complete_rows: NotRequired[int | None]
    name: str
    sha256: str
    bytes: int
    created_at: str
    warnings: NotRequired[list[DataWarning]]
    source: NotRequired[SourceFacts | None]
    replaced: ReplacedDataset | None
    records: int
    calls: int
    unused: dict[str, int]
    shortened_calls: int
    models: list[ImportedModel]
    coverage: CallCoverage
    embedding_cost: float | None


class ImportedModel(TypedDict):
    """The calls of a model in a log."""

    name: str
    calls: int
    mean_outcome: float
    mean_cost: float


class ItemDecision(TypedDict):
    """A version's decision for a logged item."""

    path: list[str]
    classifier: str | None
    label: str | None


class JsonAnswer(TypedDict):
    """The answer is JSON, and one of its fields is the label."""

    kind: NotRequired[Literal["json"]]
    label: NotRequired[str]
    confidence: NotRequired[str | None]
    confidence_scale: NotRequired[Literal["probability", "logprob", "percent", "logit"]]


class JsonEndpoint(TypedDict):
    """An HTTP service that exchanges JSON."""

    url: str
    timeout_s: NotRequired[float]
    concurrency: NotRequired[int]
    retries: NotRequired[Retries]
    prices: NotRequired[Prices | None]
    secret: NotRequired[str | None]
    secret_header: NotRequired[str]
    max_reply_bytes: NotRequired[int]
    protocol: Literal["json"]
    method: NotRequired[Literal["GET", "POST", "PUT"]]
    body: NotRequired[JsonValue]
    label: NotRequired[str | None]
    labels: NotRequired[list[str]]
    confidence: NotRequired[str | None]
    confidence_scale: NotRequired[Literal["probability", "logprob", "percent", "logit"]]
    scores: NotRequired[str | None]
    values: NotRequired[str | None]
    cost: NotRequired[str | None]


JsonValue: TypeAlias = "Any"


class KeptGuarantee(TypedDict):
    """A guarantee that was verified on rows that the build did not use."""

    limit: Literal["min_recall", "max_false_positive_rate", "min_accuracy", "min_coverage"]
    label: NotRequired[str | None]
    value: float
    measured: float
    bound: float
    rows: int
    factor: float


class KindAdvice(TypedDict):
    """The best setting of one artifact kind within the limits."""

    kind: str
    verdict: Literal["best", "similar", "worse", "infeasible"]
    params: dict[str, Any]
    query: dict[str, Any]
    accuracy: float | None
    accuracy_interval: list[Any] | None
    loss: NotRequired[float | None]
    cost: float | None
    cost_interval: list[Any] | None
    savings: Savings | None
    points: list[TradeOffPoint]


class LimitPrice(TypedDict):
    """Use and shadow price of a limit."""

    limit: str
    at_least: float | None
    at_most: float | None
    used: float
    price: float


class LoggedDiff(TypedDict):
    """Differences between the decisions on logged rows."""

    dataset: str | None
    recording: NotRequired[EvaluatedRecording | None]
    rows: int
    compared_rows: int
    changed_rows: int
    shares: list[ChangedShare]
    before: RuleFigures | None
    after: RuleFigures | None
    differences: Differences | None
    refusal: str | None
    examples: list[ChangedItem]


class LossPrices(TypedDict):
    """Losses of an artifact, by class names, in the artifact's unit."""

    largest: float
    matrix: NotRequired[dict[str, dict[str, float]]]
    reject: NotRequired[dict[str, float]]
    reject_loss: NotRequired[float | None]


class MeasuredCost(TypedDict):
    """A measured cost at one size."""

    size: float
    cost: float


class OpenInferenceEndpoint(TypedDict):
    """A server with the Open Inference Protocol (KServe v2)."""

    url: str
    timeout_s: NotRequired[float]
    concurrency: NotRequired[int]
    retries: NotRequired[Retries]
    prices: NotRequired[Prices | None]
    secret: NotRequired[str | None]
    secret_header: NotRequired[str]
    max_reply_bytes: NotRequired[int]
    protocol: Literal["open-inference"]
    model: str
    input: NotRequired[str]
    datatype: NotRequired[Literal["FP32", "FP64", "INT32", "INT64", "BYTES"]]
    label_output: NotRequired[str | None]
    probabilities_output: NotRequired[str | None]
    labels: NotRequired[list[str]]
    confidence_scale: NotRequired[Literal["probability", "logprob", "percent", "logit"]]


class Pacing(TypedDict):
    """A stream of single queries with a common budget and other common limits."""

    ledger: str
    total: float
    queries: int
    resources: NotRequired[dict[str, StreamResource]]
    classifiers: NotRequired[dict[str, RateLimit]]
    tenant: NotRequired[Tenant | None]


class PairedDifference(TypedDict):
    """The version's figure minus that of the other rule, on the same rows."""

    value: float
    interval: list[Any]


class Pattern(TypedDict):
    """The label is the first group of a regular expression, or its whole match."""

    kind: NotRequired[Literal["pattern"]]
    pattern: str


class Polynomial(TypedDict):
    """Coefficients of 1, s, s², … in the item size s, each at least 0."""

    polynomial: list[float]


class Prices(TypedDict):
    """Prices of calls, in the unit of the artifacts that use the endpoint."""

    per_call: NotRequired[float]
    input_per_million: NotRequired[float]
    cached_input_per_million: NotRequired[float | None]
    output_per_million: NotRequired[float]


class ProbeReply(TypedDict):
    """Result of a test call of an endpoint."""

    label: NotRequired[str | None]
    text: NotRequired[str | None]
    confidence: NotRequired[float | None]
    scores: NotRequired[dict[str, float] | None]
    values: NotRequired[list[float | None] | None]
    cost: NotRequired[float | None]
    warnings: NotRequired[list[str]]
    seconds: float
    attempts: int
    error: NotRequired[str | None]


class Promotion(TypedDict):
    """Rules for promoting the candidate to the active version."""

    max_accuracy_loss: NotRequired[float]
    min_saving: NotRequired[float | None]


class RateLimit(TypedDict):
    """Rate limit of a classifier."""

    at_most: int
    window_s: float


class Rebuild(TypedDict):
    """The build of the next version, and its numbers of rows."""

    id: str
    kind: str
    name: str
    dataset: str
    params: dict[str, Any]
    seed: int
    guarantees: NotRequired[Guarantees | None]
    activate: NotRequired[bool]
    status: Literal["queued", "running", "succeeded", "failed", "cancelled"]
    progress: BuildProgress
    created_at: str
    started_at: NotRequired[str | None]
    finished_at: NotRequired[str | None]
    error: NotRequired[str | None]
    artifact: NotRequired[ArtifactRef | None]
    old_rows: int
    new_rows: int
    change_point: int | None


class RecordedArtifact(TypedDict):
    """The artifact whose runs are recorded; all versions are included."""

    kind: str
    name: str


class RecordingList(TypedDict):
    """A page of recordings."""

    next: str | None
    total: int
    items: list[ShownRecording]


class RecordingReport(TypedDict):
    """A recording, and counts of its rows."""

    name: str
    recording: RecordingSpec
    unit: str
    created_at: str
    bytes: int
    explored_cost: float
    rows: int
    oldest: str | None
    newest: str | None
    explored_share: float
    rows_with_truth: int
    coverage: NotRequired[CallCoverage | None]


class RecordingSpec(TypedDict):
    """The shares of runs to record and to explore, and the fields to record."""

    artifact: NotRequired[RecordedArtifact | None]
    unit: NotRequired[str | None]
    sample: NotRequired[float]
    explore: NotRequired[float]
    explore_budget: NotRequired[float | None]
    keeps_items: NotRequired[bool]
    drops: NotRequired[list[str]]
    max_bytes: NotRequired[int]
    max_age_days: NotRequired[float]
    reference: NotRequired[str | None]
    classifiers: NotRequired[list[str]]


class ReliabilityBin(TypedDict):
    """Items of similar confidence: mean confidence, and share of correct answers."""

    items: int
    confidence: float
    accuracy: float
    accuracy_interval: list[Any]


class ReplacedDataset(TypedDict):
    """The previous dataset of the same name."""

    rows: int
    sha256: str
    created_at: str


class Retries(TypedDict):
    """Retries of failed calls that the provider cannot have charged for."""

    attempts: NotRequired[int]
    statuses: NotRequired[list[int]]
    backoff_s: NotRequired[float]
    max_retry_after_s: NotRequired[float]


class RolloutComparison(TypedDict):
    """Outcomes of both versions, and the evidence for promotion and abort."""

    active: VersionOutcomeSummary
    candidate: VersionOutcomeSummary
    difference: float | None
    difference_interval: list[Any] | None
    promote_evidence: float | None
    abort_evidence: float | None
    history: list[RolloutPoint]


class RolloutEvent(TypedDict):
    """A change of a rollout."""

    at: str
    event: str
    by: str
    reason: str


class RolloutList(TypedDict):
    """The last rollouts of artifacts."""

    items: list[VersionRollout]


class RolloutPoint(TypedDict):
    """Means and confidence intervals after a number of outcomes."""

    outcomes: int
    active: float
    candidate: float
    interval: list[Any]


class RolloutRequest(TypedDict):
    """A candidate version and its rules."""

    mode: NotRequired[Literal["shadow", "canary"]]
    share: NotRequired[float]
    promote: NotRequired[Promotion | None]
    abort: NotRequired[Abort]
    max_item_cost: NotRequired[float | None]
    version: int


class RolloutRules(TypedDict):
    """Traffic share of a candidate, and rules for its promotion or withdrawal."""

    mode: NotRequired[Literal["shadow", "canary"]]
    share: NotRequired[float]
    promote: NotRequired[Promotion | None]
    abort: NotRequired[Abort]
    max_item_cost: NotRequired[float | None]


class RuleFigures(TypedDict):
    """Accuracy, cost, and loss of one decision rule."""

    accuracy: EstimatedFigure
    cost: EstimatedFigure
    loss: EstimatedFigure | None


class RunLimits(TypedDict):
    """Limits of a run, for each item."""

    deadline: NotRequired[float | None]
    timeout_s: NotRequired[float]
    budget: NotRequired[float | str | None]
    max_item_cost: NotRequired[float | None]
    min_accuracy: NotRequired[float | None]
    min_coverage: NotRequired[float | None]
    tradeoff: NotRequired[float | None]
    budget_pacing: NotRequired[Pacing | None]


class RunReply(TypedDict):
    """A run, and the artifact that decided."""

    artifact: ArtifactRef
    decision: str
    expected: ExpectedOutcome
    open_circuits: NotRequired[list[str]]
    label: str | None
    confidence: NotRequired[float | None]
    probabilities: NotRequired[dict[str, float] | None]
    steps: list[RunStep]
    spent: Spent
    degraded: NotRequired[str | None]
    id: NotRequired[str | None]


class RunStep(TypedDict):
    """One call of a run."""

    classifier: str
    label: NotRequired[str | None]
    confidence: NotRequired[float | None]
    accepted: bool
    cost: float
    seconds: float
    attempts: NotRequired[int]
    tokens: NotRequired[list[Any]]
    error: NotRequired[str | None]


class RunsReply(TypedDict):
    """The runs of several items, in the order of the request."""

    items: list[RunReply | FailedRun]
    spent: Spent


class Savings(TypedDict):
    """Savings and gain of an artifact compared with the best simple baseline."""

    decision: str
    accuracy: float
    cost: float
    loss: NotRequired[float | None]
    baseline: ComparedBaseline
    saved: float | None
    saved_interval: list[Any] | None
    gained: float
    gained_interval: list[Any]
    rows: int
    verdict: Literal["significant", "not significant", "worse"]
    headline: str
    advice: str | None
    baselines: list[SimpleBaseline]
    unit: NotRequired[str]
    query: NotRequired[dict[str, JsonValue]]
    today: NotRequired[CurrentBaseline | None]


class SetupProfile(TypedDict):
    """Cost of set-up work that features share."""

    name: str
    cost: float | None
    costs: list[float | None]
    features: list[str]


class SetupSpec(TypedDict):
    """Set-up work of some features, for example to draw blood: an item pays for it once, with the first of them."""

    name: str
    cost: float | Polynomial | Terms | Timings
    time: NotRequired[float | None]
    features: list[str]


class ShadowSummary(TypedDict):
    """Decisions of both versions for the same items."""

    decisions: int
    errors: int
    differing: int
    active_cost: float | None
    candidate_cost: float | None


class ShownBudget(TypedDict):
    """A budget and its state."""

    name: str
    budget: BudgetSpec
    balances: list[BudgetBalance]
    warnings: NotRequired[list[str]]


class ShownDataset(TypedDict):
    """A dataset, and whether it has advice."""

    spec: FeaturesSpec | TraceSpec
    rows: int
    items: NotRequired[int | None]
    columns: list[str]
    classes: list[str]
    embedding_dimensions: int
    complete_rows: NotRequired[int | None]
    name: str
    sha256: str
    bytes: int
    created_at: str
    warnings: NotRequired[list[DataWarning]]
    source: NotRequired[SourceFacts | None]
    advised: bool


class ShownEndpoint(TypedDict):
    """A registered endpoint, and the state of its calls."""

    name: str
    endpoint: JsonEndpoint | OpenInferenceEndpoint | ChatEndpoint | EmbeddingsEndpoint
    circuit: Literal["closed", "open", "half-open"]
    secret_known: bool | None
    warnings: NotRequired[list[str]]


class ShownRecording(TypedDict):
    """A recording, and its size on this server's disk."""

    name: str
    recording: RecordingSpec
    unit: str
    created_at: str
    bytes: int
    explored_cost: float


class SimpleBaseline(TypedDict):
    """A simple alternative to an artifact, measured on the same rows."""

    name: str
    accuracy: float
    cost: float
    loss: NotRequired[float | None]


class SkylineItem(TypedDict):
    """A feature set that no other set dominates in cost and accuracy."""

    features: list[str]
    accuracy: float
    expected_accuracy: float
    cost: float


class SkylineReply(TypedDict):
    """All undominated feature sets at one size, cheapest first."""

    size: float | list[float] | None
    items: list[SkylineItem]
    unit: str
    artifact: ArtifactRef


class SourceFacts(TypedDict):
    """A source whose rows were checked, and the sample of rows that builds use."""

    url: NotRequired[str | None]
    upload: NotRequired[str | None]
    sample_rows: NotRequired[int]
    seed: NotRequired[int]
    rows: int
    bytes: int
    max_standard_error: float
    files: NotRequired[list[SourceFile]]
    sha256: NotRequired[str | None]


class SourceFile(TypedDict):
    """A file of a source, in its state when its rows were checked."""

    url: str
    rows: int
    bytes: int
    sha256: str
    modified: str


class SpecDraft(TypedDict):
    """A draft of a spec to review, and the rows from which it was made."""

    spec: dict[str, Any]
    columns: list[str]
    rows: list[list[str]]
    guesses: list[str]


class SpendReport(TypedDict):
    """Costs of runs, chats, batches, and assignments in a range of days."""

    start: str
    end: str
    rows: list[SpendRow]
    totals: list[SpendRow]


class SpendRow(TypedDict):
    """Costs of one group, either of calls or of assigned items."""

    day: NotRequired[str | None]
    key: NotRequired[str | None]
    team: NotRequired[str | None]
    artifact: NotRequired[str | None]
    model: NotRequired[str | None]
    unit: str
    is_planned: bool
    calls: int
    cost: float
    input_tokens: int
    output_tokens: int
    strongest_cost: float


class Spent(TypedDict):
    """Cost and duration of a run."""

    cost: float
    seconds: float
    unit: str


class StoredDataset(TypedDict):
    """A dataset after its upload, and the dataset that it replaced."""

    spec: FeaturesSpec | TraceSpec
    rows: int
    items: NotRequired[int | None]
    columns: list[str]
    classes: list[str]
    embedding_dimensions: int
    complete_rows: NotRequired[int | None]
    name: str
    sha256: str
    bytes: int
    created_at: str
    warnings: NotRequired[list[DataWarning]]
    source: NotRequired[SourceFacts | None]
    replaced: ReplacedDataset | None


class StreamResource(TypedDict):
    """Total amount of a resource that is available to a stream."""

    total: float
    uses: NotRequired[dict[str, float] | None]


class Tenant(TypedDict):
    """The tenant of a query, and the tenant's total budget in the stream."""

    name: str
    total: float
    queries: int


class Term(TypedDict):
    """One term of a polynomial in several sizes: coefficient · ∏ size_i ^ power_i."""

    coefficient: float
    powers: list[int]


class Terms(TypedDict):
    """A polynomial in a size of several dimensions, for example length and width."""

    terms: list[Term]


class Timings(TypedDict):
    """Measured costs at several item sizes; index builds fit a polynomial to them."""

    timings: list[list[float]]
    degree: NotRequired[int]
    quantile: NotRequired[float]


class TraceClassifier(TypedDict):
    """A classifier of a trace: its columns of answers, confidences, and costs."""

    name: str
    cost: float | CostColumn | Polynomial | Terms
    prediction: NotRequired[str | None]
    correct: NotRequired[str | None]
    quality: NotRequired[str | None]
    loss: NotRequired[str | None]
    confidence: NotRequired[str | None]
    confidence_scale: NotRequired[Literal["probability", "logprob", "percent", "logit"] | None]
    scores: NotRequired[dict[str, str] | None]
    resources: NotRequired[dict[str, float | CostColumn | Polynomial | Terms]]
    time: NotRequired[float | None]
    propensity: NotRequired[str | None]
    group: NotRequired[str | None]


class TraceProfileReply(TypedDict):
    """The profile of a trace."""

    name: str
    sha256: str
    kind: NotRequired[Literal["trace"]]
    rows: int
    unit: str
    classes: list[ClassRows]
    classifiers: list[ClassifierProfile]
    agreement: Agreement


class TraceSpec(TypedDict):
    """Spec of a trace: items with the outcomes of several classifiers."""

    weights: NotRequired[str | dict[str, float] | None]
    losses: NotRequired[dict[str, dict[str, float]] | None]
    reject_cost: NotRequired[float | dict[str, float] | None]
    loss_unit: NotRequired[str | None]
    loss_weight: NotRequired[float | None]
    kind: Literal["trace"]
    label: NotRequired[str | None]
    unit: str
    size: NotRequired[str | list[str] | None]
    item: NotRequired[str | None]
    classifiers: list[TraceClassifier]
    setup: NotRequired[list[ClassifierSetup]]
    text: NotRequired[str | None]
    embedder: NotRequired[str | None]
    conversation: NotRequired[ConversationWindow | None]
    time_unit: NotRequired[str | None]
    joint_propensity: NotRequired[Literal["product", "smallest"]]
    label_source: NotRequired[str | None]


class TradeOffPoint(TypedDict):
    """Accuracy and cost of one setting of a kind, on holdout rows."""

    accuracy: float
    cost: float


class TrafficEdge(TypedDict):
    """The number of items that continue from one set of sensors to a larger one."""

    source: int
    target: int
    sensors: list[str]
    cost: float
    items: float
    share: float


class TrafficNode(TypedDict):
    """A set of acquired sensors; counts of items that reach, leave, or stop at it."""

    sensors: list[str]
    cost: float
    items: float
    share: float
    stopped: float
    correct: float
    wrong: float


class TrafficPoint(TypedDict):
    """A point of the curve, and the number of items decided at this point."""

    tradeoff: float | None
    cost: float
    cost_bound: float
    error: float
    loss: NotRequired[float | None]
    sensors: float
    share: float


class TrafficReply(TypedDict):
    """Traffic through the DAG, and the artifact."""

    points: list[TrafficPoint]
    cost: float
    error: float
    rows: int
    nodes: list[TrafficNode]
    edges: list[TrafficEdge]
    unit: str
    artifact: ArtifactRef


class Upload(TypedDict):
    """A resumable upload."""

    id: str
    length: int
    expires_at: str


class VersionChange(TypedDict):
    """A value that differs between the versions."""

    what: str
    before: JsonValue
    after: JsonValue


class VersionComparison(TypedDict):
    """Another decision rule on the same rows, and the version's differences from it."""

    compared_with: Literal["logged", "active", "best_single"]
    name: str
    figures: RuleFigures | None
    differences: Differences | None
    refusal: str | None


class VersionDiff(TypedDict):
    """Changes from one version of an artifact to another."""

    before: DescribedVersion
    after: DescribedVersion
    unit: str
    changes: list[VersionChange]
    other_changes: int
    logged: LoggedDiff | None


class VersionEvaluation(TypedDict):
    """Cost, accuracy, and loss of a version on logged rows."""

    artifact: ArtifactRef
    dataset: str | None
    recording: NotRequired[EvaluatedRecording | None]
    rows: int
    items: int
    supported_rows: int
    unit: str
    limits: dict[str, Any]
    figures: RuleFigures
    comparisons: list[VersionComparison]


class VersionOutcomeSummary(TypedDict):
    """Outcomes of a version during the rollout."""

    outcomes: int
    mean: float | None


class VersionRollout(TypedDict):
    """A rollout: its rules, its state, and the evidence so far."""

    kind: str
    name: str
    active_version: int
    rules: RolloutRequest
    mode: Literal["shadow", "canary"]
    status: Literal["running", "promoted", "aborted", "stopped"]
    unit: str
    accuracy: RolloutComparison
    answered: RolloutComparison
    cost: RolloutComparison
    cost_source: Literal["runs", "feedback"] | None
    costs_above_bound: int
    shadow: ShadowSummary
    events: list[RolloutEvent]


class WholeText(TypedDict):
    """The label is the complete text of the answer."""

    kind: NotRequired[Literal["text"]]
