"""Feedback: actual outcomes of decisions, compared with the estimates."""

import re
from typing import Annotated, Any, Literal, NamedTuple, Self
from urllib.parse import parse_qsl

from pydantic import ConfigDict, Field, model_validator

from models.artifact import ArtifactRef
from models.base import LARGEST, NAME_PATTERN, ItemId, Items, Label, RequestBody, Value, Vector
from models.columns import shorten_text
from models.errors import Fault, InvalidRequest
from models.losses import LossPrices

Amount = Annotated[float, Field(ge=0, le=LARGEST)]
Cell = str | bool | Annotated[float, Field(ge=-1e30, le=1e30)] | None
"""A cell of a row. Its length is checked with the dataset's spec: only names of items may be long."""
MAX_OUTCOMES = 10_000
GRADES = ("correct", "quality", "loss", "truth")
"""Fields of an outcome that grade the answer; at most one is sent."""
QUANTITIES = ("accuracy", "coverage", "cost", "time")
DRIFT_QUANTITIES = (*QUANTITIES, "classifiers")
"""What can drift: the quantities of a version, and the accuracies of its classifiers on the rows that come."""
HASH_DIGITS = 12
"""Of the SHA-256 of an artifact's bytes, in the id of a decision."""
_DRAWN = "drawn"
_ID = re.compile(rf"([a-z]{{1,40}})/({NAME_PATTERN[1:-1]})/([1-9][0-9]{{0,14}})(?:@([0-9a-f]{{{HASH_DIGITS}}}))?\?(.*)")
"""Solver, name, version, the beginning of the hash, which ids of decisions have, and what was expected."""


class Estimates(Value):
    """Expected outcome of a decision; null for figures that do not apply."""

    accuracy: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None, description="accuracy: share of correct answers, from 0 to 1"
    )
    coverage: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="coverage: share of items that get an answer; without losses, the accuracy is that of "
        "these items; null: every item gets one",
    )
    cost: Amount | None = Field(default=None, description="mean cost per item, in the artifact's unit")
    time: Amount | None = Field(default=None, description="mean time per item, in the artifact's unit")

    def known_values(self) -> dict[str, float]:
        """Return the estimates that are not None, without their standard errors."""
        fields = vars(self)
        return {name: fields[name] for name in ESTIMATED if fields[name] is not None}

    @classmethod
    def from_figures(cls, **values: float | None) -> Self:
        """Return estimates; a cost or time above ``LARGEST`` is omitted.

        >>> Estimates.from_figures(accuracy=0.9, cost=1e150).cost is None
        True
        """
        return cls(**{name: value for name, value in values.items() if value is not None and value <= LARGEST})


ESTIMATED = tuple(Estimates.model_fields)


class Expectations(Estimates):
    """Estimates, with standard errors for those that are means over rows."""

    cost_error: Amount | None = Field(default=None, description="standard error of the cost, in the artifact's unit")
    time_error: Amount | None = Field(default=None, description="standard error of the time, in the artifact's unit")
    rows: int | None = Field(
        default=None,
        description="number of rows that the accuracy is measured on; null: all rows behind the build's estimates",
    )


class ParsedDecisionId(NamedTuple):
    """Contents of a decision id; ``digits``, the start of the hash, may be empty."""

    artifact: ArtifactRef
    digits: str
    estimates: Estimates
    is_randomized: bool = False


def encode_decision_id(ref: ArtifactRef, sha256: str, estimates: Estimates, *, is_randomized: bool = False) -> str:
    """Return the id of a decision, which encodes version, hash, and estimates.

    So the id can be decoded without stored state.

    Args:
        is_randomized: whether a canary chose the version at random.

    >>> digits = ArtifactRef(kind="index", name="digits", version=3)
    >>> encode_decision_id(digits, "0123456789abcdef", Estimates(accuracy=0.9, cost=1.5))
    'index/digits/3@0123456789ab?accuracy=0.9&cost=1.5'
    """
    message = [f"{name}={value!r}" for name, value in estimates.known_values().items()]
    message += [f"{_DRAWN}=1"] * is_randomized
    return f"{ref.full_name}@{sha256[:HASH_DIGITS]}?{'&'.join(message)}".replace("+", "")  # of 1e+16: a plus is a space


def parse_decision_id(text: str) -> ParsedDecisionId:
    """Return the contents of a decision id; raises InvalidRequest for malformed ids.

    >>> read = parse_decision_id("index/digits/3@0123456789ab?accuracy=0.9&drawn=1")
    >>> read.artifact.version, read.digits, read.estimates.accuracy, read.is_randomized
    (3, '0123456789ab', 0.9, True)
    """
    match = _ID.fullmatch(text)
    message = parse_qsl(match[5], keep_blank_values=True) if match else []
    if match is None or len(dict(message)) < len(message):
        raise InvalidRequest.from_faults(Fault((), "must be the decision field of a reply"))
    ref = ArtifactRef(kind=match[1], name=match[2], version=int(match[3]))
    values = dict(message)
    is_randomized = values.pop(_DRAWN, None) is not None
    return ParsedDecisionId(ref, match[4] or "", Estimates.model_validate_strings(values), is_randomized)


class Outcome(Value):
    """Actual outcome of one decision; unknown fields are omitted."""

    decision: Annotated[str, Field(max_length=320)] | None = Field(
        default=None, description="the decision's id, from the reply; without it, send artifact and inputs"
    )
    artifact: ArtifactRef | None = Field(
        default=None, description="the artifact version that decided, if no id is sent"
    )
    inputs: dict[str, Any] | None = Field(default=None, description="the query of the decision, if no id is sent")
    classifier: Label | None = Field(default=None, description="the classifier or sensor whose answer was accepted")
    correct: bool | None = Field(
        default=None,
        description="whether the answer was correct; omit it if this is unknown, or if there was no answer",
    )
    quality: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None, description="quality of the answer from 0 to 1, instead of ``correct``, for graded datasets"
    )
    loss: Amount | None = Field(
        default=None,
        description="instead of correct: the loss of the answer or the reject, in the artifact's unit, if the "
        "dataset has losses",
    )
    truth: Label | None = Field(
        default=None,
        description="instead of correct: the true class; the server compares it with answer, or looks up the loss",
    )
    item: ItemId | None = Field(
        default=None,
        description="the item's id in its run. With an id, the recordings of the artifact also get the truth, or the "
        "classifier's correct or quality",
    )
    answer: Label | None = Field(default=None, description="with truth: the label that was answered; null: rejected")
    answered: bool | None = Field(
        default=None, description="whether the item got an answer, if the artifact can reject items; omit it if unknown"
    )
    cost: Amount | None = Field(default=None, description="actual cost of the item, in the artifact's unit")
    time: Amount | None = Field(default=None, description="actual time of the item, in the artifact's unit")
    row: dict[Label, Cell] | None = Field(
        default=None,
        description="the item as a row of the artifact's dataset, with every column of the spec; rebuilds train "
        "on these rows",
    )
    embedding: Vector | None = Field(default=None, description="the row's embedding, if the dataset has embeddings")

    @model_validator(mode="after")
    def _says_something(self) -> "Outcome":
        if (self.decision is None) == (self.artifact is None):
            raise ValueError("decision, or artifact with inputs, is required")
        if self.decision is not None and self.inputs is not None:
            raise ValueError("decision cannot be combined with artifact and inputs")
        graded = [name for name in GRADES if getattr(self, name) is not None]
        if len(graded) > 1:
            raise ValueError(f"{graded[0]} cannot be combined with {graded[1]}")
        if self.answered is False and self.right is not None:
            raise ValueError(f"{graded[0]} cannot be combined with answered=false: a rejected item has no answer")
        if self.answer is not None and self.truth is None:
            raise ValueError("answer requires truth")
        if self.truth is not None and (self.answer is None) == (self.answered is not False):
            raise ValueError("truth requires answer, or answered=false for a rejected item")
        if not graded and all(sent is None for sent in (self.answered, self.cost, self.time, self.row)):
            raise ValueError(f"at least one of {', '.join(GRADES)}, answered, cost, time, and row is required")
        if self.item is not None and self.truth is None and (self.classifier is None or self.right is None):
            raise ValueError("item requires truth, or classifier with correct or quality")
        if self.embedding is not None and self.row is None:
            raise ValueError("embedding requires row")
        return self

    @property
    def stored_row(self) -> dict[str, Cell]:
        """The row for rebuilds; long item names are replaced by their hash."""
        cells = (self.row or {}).items()
        return {name: shorten_text(cell) if isinstance(cell, str) else cell for name, cell in cells}

    @property
    def right(self) -> float | None:
        """Quality of the answer, from 0 to 1; None if unknown."""
        return self.quality if self.correct is None else float(self.correct)


def grade_outcome(outcome: Outcome, prices: LossPrices | None) -> Outcome:
    """Return an outcome with its loss or truth converted to a quality.

    Args:
        prices: the losses of the artifact; None if all errors are equal.
    Raises:
        InvalidRequest: an unknown class, a loss above the artifact's largest one, or a loss for an artifact without
            losses.
    """
    loss = outcome.loss
    if loss is not None and (prices is None or loss > prices.largest):
        most = (
            "is not supported: the dataset has no losses" if prices is None else f"must be at most {prices.largest:g}"
        )
        raise InvalidRequest.from_faults(Fault(("loss",), f"{most}, got {loss:g}"))
    if outcome.truth is not None and prices is not None and prices.matrix:
        loss = prices.find_loss(outcome.truth, outcome.answer)
        if loss is None:
            raise InvalidRequest.from_faults(_explain_unknown_loss(outcome, prices))
    elif outcome.truth is not None and outcome.answer is not None:
        return outcome.model_copy(update={"quality": float(outcome.truth == outcome.answer), **_coverage(outcome)})
    if prices is not None and outcome.answered is False and (loss, outcome.right, outcome.classifier) == (None,) * 3:
        loss = prices.reject_loss
    if loss is None or prices is None:
        return outcome
    return outcome.model_copy(update={"quality": 1 - loss / prices.largest, **_coverage(outcome)})


def _coverage(outcome: Outcome) -> dict[str, bool]:
    """Return that the item was answered, if its answer is known."""
    return {} if outcome.answer is None else {"answered": True}


def _explain_unknown_loss(outcome: Outcome, prices: LossPrices) -> Fault:
    known = ", ".join(list(prices.matrix)[:20])
    if outcome.truth not in prices.matrix:
        return Fault(("truth",), f"must be a class: {known}; got {outcome.truth!r}")
    if outcome.answer is not None:
        return Fault(("answer",), f"must be a class: {known}; got {outcome.answer!r}")
    return Fault(("answered",), "must not be false: the artifact rejects no items, its dataset has no reject_cost")


class FeedbackRequest(RequestBody):
    """Outcomes of several decisions."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "items": [
                        {"decision": "cascade/digits/1@0123456789ab?accuracy=0.97", "correct": True, "time": 1.1},
                        {
                            "artifact": {"kind": "cascade", "name": "digits", "version": 1},
                            "inputs": {"deadline": 25.0},
                            "classifier": "neighbors",
                            "correct": False,
                            "time": 1.4,
                        },
                    ]
                }
            ]
        }
    )

    items: Annotated[Items[Outcome], Field(min_length=1, max_length=MAX_OUTCOMES)] = Field(
        description="the outcomes, in any order; either all are counted or none"
    )


class Alarm(Value):
    """A change that a drift detector found."""

    quantity: str = Field(description="accuracy, coverage, cost, time, or classifiers")
    classifier: str | None = Field(
        default=None, description="classifier whose accuracy changed; null for other quantities"
    )
    direction: Literal["above", "below"] = Field(description="above: the mean rose; below: the mean fell")
    change_point: int = Field(
        description="the estimated change point: the number, in this version, of the first outcome after the change"
    )
    changed_at: str = Field(description="arrival time of this outcome, UTC, ISO 8601")
    detected: int = Field(description="the number of the outcome that raised the alarm")
    before: float = Field(
        description="mean of the reference: the estimate and the outcomes before the change; for cost and time as "
        "a multiple of the estimate"
    )
    after: float = Field(description="the mean of the outcomes since the change, in the same unit")


class FeedbackReply(Value):
    """Numbers of added outcomes, and new alarms."""

    accepted: int = Field(description="the number of outcomes")
    rows: int = Field(description="number of outcomes with a row for rebuilds")
    drift: dict[str, Items[str]] = Field(
        description="for each artifact of the request, as kind/name/version, the quantities with an alarm since "
        "its feedback was last deleted"
    )
    alarms: dict[str, Items[Alarm]] = Field(description="the alarms that these outcomes raised, by artifact")


class Comparison(Value):
    """Mean estimate and mean actual value of one quantity."""

    outcomes: int = Field(
        description="number of outcomes that report this quantity and whose decision had an estimate; if none had, all "
        "outcomes that report it"
    )
    estimated: float | None = Field(description="mean estimate for these outcomes; null: no estimates")
    actual: float | None = Field(description="the mean of the actual outcomes; null: none")
    low: float | None = Field(
        description="lower end of the 95 % confidence interval of the mean; null: too few outcomes"
    )
    high: float | None = Field(
        description="upper end of the 95 % confidence interval of the mean; null: too few outcomes"
    )
    drift: bool = Field(description="whether the drift detector has raised an alarm")

    def to_loss(self, largest: float) -> "Comparison":
        """Convert a comparison of qualities to a comparison of losses.

        >>> quality = Comparison(outcomes=9, estimated=0.5, actual=0.75, low=0.5, high=1.0, drift=False)
        >>> quality.to_loss(8.0)
        Comparison(outcomes=9, estimated=4.0, actual=2.0, low=0.0, high=4.0, drift=False)
        """
        converted = {"estimated": self.estimated, "actual": self.actual, "low": self.high, "high": self.low}
        losses = {name: None if value is None else largest * (1 - value) for name, value in converted.items()}
        return self.model_copy(update=losses)


class ClassifierOutcomes(Value):
    """Outcomes of the decisions that accepted a classifier's answer."""

    classifier: str = Field(description="the classifier or sensor")
    outcomes: int = Field(description="number of outcomes that report whether it was correct")
    correct: int = Field(description="number of correct answers")


class DetectionDelay(Value):
    """A decrease of accuracy, and the number of outcomes until the alarm."""

    drop: float = Field(description="decrease of the true accuracy below its estimate, from 0 to 1")
    outcomes: int | None = Field(
        description="number of outcomes after the change within which the alarm is raised in nine of ten cases; null: "
        "the change may remain undetected, because the reference is too uncertain"
    )


class FeedbackReport(Value):
    """Estimates compared with actual outcomes, for one version of an artifact."""

    artifact: ArtifactRef = Field(description="the version")
    unit: str = Field(description="the unit of cost and time")
    outcomes: int = Field(description="number of outcomes")
    rows: int = Field(description="number of rows that are kept for rebuilds; the newest rows are kept")
    accuracy: Comparison = Field(description="accuracy: shares of correct answers, from 0 to 1")
    loss: Comparison | None = Field(
        default=None,
        description="loss per item, if the dataset has losses; accuracy is then 1 minus the loss as a share of "
        "the largest loss; null: all errors are equal",
    )
    coverage: Comparison = Field(description="coverage: shares of items that got an answer, from 0 to 1")
    cost: Comparison = Field(description="cost per item")
    time: Comparison = Field(description="time per item")
    classifiers: Items[ClassifierOutcomes] = Field(
        description="results by classifier, for outcomes that name a classifier"
    )
    drift: Items[str] = Field(
        description="the quantities with an alarm, until the feedback is deleted: accuracy, coverage, cost, time, "
        "classifiers"
    )
    alarms: Items[Alarm] = Field(description="the latest alarms, oldest first")
    reference: float | None = Field(
        description="effective number of outcomes behind the reference for accuracy. It includes earlier outcomes and "
        "the rows on which the estimate was measured. null: unknown"
    )
    detects: Items[DetectionDelay] = Field(
        description="number of outcomes after which a drop of accuracy by 2, 5, or 10 points raises an alarm; "
        "empty if neither outcomes nor ``savings`` have an accuracy"
    )
    false_alarm_rate: float = Field(
        description="upper bound on the rate of false alarms: alarms per outcome while nothing changes"
    )
