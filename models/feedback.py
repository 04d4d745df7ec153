"""Feedback: what became of decisions, held against what the artifact had estimated."""

import re
from typing import Annotated, Any, Literal, Self
from urllib.parse import parse_qsl

from pydantic import ConfigDict, Field, model_validator

from models.artifact import ArtifactRef
from models.base import LARGEST, NAME_PATTERN, Items, Label, Sent, Value, Vector
from models.columns import shorten_text
from models.errors import Fault, InvalidRequest

Amount = Annotated[float, Field(ge=0, le=LARGEST)]
Cell = str | bool | Annotated[float, Field(ge=-1e30, le=1e30)] | None
"""A cell of a row. Its length is checked with the dataset's spec: only names of items may be long."""
MOST_OUTCOMES = 10_000
QUANTITIES = ("accuracy", "coverage", "cost", "time")
DRIFT_QUANTITIES = (*QUANTITIES, "classifiers")
"""What can drift: the quantities of a version, and the accuracies of its classifiers on the rows that come."""
HASH_DIGITS = 12
"""Of the SHA-256 of an artifact's bytes, in the id of a decision."""
_ID = re.compile(rf"([a-z]{{1,40}})/({NAME_PATTERN[1:-1]})/([1-9][0-9]{{0,14}})(?:@([0-9a-f]{{{HASH_DIGITS}}}))?\?(.*)")
"""Solver, name, version, the beginning of the hash, which ids of decisions have, and what was expected."""


class Estimates(Value):
    """What an artifact expects of the items that it decides for; null where it expects nothing."""

    accuracy: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None, description="the share of answers that are right, from 0 to 1"
    )
    coverage: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None, description="the share of items that get an answer, which the accuracy is of; null: each does"
    )
    cost: Amount | None = Field(default=None, description="what an item costs, in the artifact's unit")
    time: Amount | None = Field(default=None, description="how long an item takes, in the artifact's unit")

    @classmethod
    def from_figures(cls, **values: float | None) -> Self:
        """Make estimates of a plan's figures; a cost or time above ``LARGEST`` is omitted.

        >>> Estimates.from_figures(accuracy=0.9, cost=1e150).cost is None
        True
        """
        return cls(**{name: value for name, value in values.items() if value is not None and value <= LARGEST})


class Expectations(Estimates):
    """Estimates as an artifact makes them: with how far those that are means of rows are usually off."""

    cost_error: Amount | None = Field(default=None, description="the standard error of the cost, in the same unit")
    time_error: Amount | None = Field(default=None, description="the standard error of the time, in the same unit")
    rows: int | None = Field(
        default=None, description="on how many rows the accuracy was counted; null: on all that the build judged by"
    )


def decision_id(ref: ArtifactRef, sha256: str, estimates: Estimates) -> str:
    """Write a decision's id: which version decided, the hash of its bytes, and what it expected.

    It finds them again with nothing stored.

    >>> digits = ArtifactRef(kind="index", name="digits", version=3)
    >>> decision_id(digits, "0123456789abcdef", Estimates(accuracy=0.9, cost=1.5))
    'index/digits/3@0123456789ab?accuracy=0.9&cost=1.5'
    """
    values = {name: getattr(estimates, name) for name in Estimates.model_fields}
    message = [f"{name}={value!r}" for name, value in values.items() if value is not None]
    return f"{ref.spelt}@{sha256[:HASH_DIGITS]}?{'&'.join(message)}".replace("+", "")  # of 1e+16: a plus is a space


def read_decision_id(text: str) -> tuple[ArtifactRef, str, Estimates]:
    """Read a decision's id: the version, the beginning of its hash (empty: not given), and what it expected.

    Raises InvalidRequest for what is none.

    >>> ref, digits, estimates = read_decision_id("index/digits/3@0123456789ab?accuracy=0.9")
    >>> ref.version, digits, estimates.accuracy
    (3, '0123456789ab', 0.9)
    """
    match = _ID.fullmatch(text)
    message = parse_qsl(match[5], keep_blank_values=True) if match else []
    if match is None or len(dict(message)) < len(message):
        raise InvalidRequest.from_faults(Fault((), "must be the decision field of a reply"))
    ref = ArtifactRef(kind=match[1], name=match[2], version=int(match[3]))
    return ref, match[4] or "", Estimates.model_validate_strings(dict(message))


class Outcome(Value):
    """What became of one decision: what is known of it; the rest is left out."""

    decision: Annotated[str, Field(max_length=320)] | None = Field(
        default=None, description="the decision's id, from the reply; else send artifact and inputs"
    )
    artifact: ArtifactRef | None = Field(default=None, description="the version that decided, without an id")
    inputs: dict[str, Any] | None = Field(default=None, description="the query of the decision route")
    classifier: Label | None = Field(
        default=None, description="the classifier or sensor whose answer was taken in the end"
    )
    correct: bool | None = Field(default=None, description="whether the answer was right; left out: unknown or none")
    quality: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None, description="instead of correct: how good the answer was, where the dataset's are graded"
    )
    answered: bool | None = Field(
        default=None, description="whether the item got an answer, where some get none; left out: unknown"
    )
    cost: Amount | None = Field(default=None, description="what the item really cost, in the artifact's unit")
    time: Amount | None = Field(default=None, description="how long it really took, in the artifact's unit")
    row: dict[Label, Cell] | None = Field(
        default=None,
        description="the item as a row of the artifact's dataset, every column that its spec names: what a rebuild "
        "learns from",
    )
    embedding: Vector | None = Field(default=None, description="the row's embedding, where the dataset has embeddings")

    @model_validator(mode="after")
    def _says_something(self) -> "Outcome":
        if (self.decision is None) == (self.artifact is None):
            raise ValueError("give the decision's id, or the artifact with its inputs")
        if self.decision is not None and self.inputs is not None:
            raise ValueError("send decision, or artifact with inputs, not both")
        if self.correct is not None and self.quality is not None:
            raise ValueError("send correct or quality, not both")
        if all(sent is None for sent in (self.right, self.answered, self.cost, self.time, self.row)):
            raise ValueError("at least one of correct, quality, answered, cost, time, and row is required")
        if self.embedding is not None and self.row is None:
            raise ValueError("embedding requires row")
        return self

    @property
    def stored_row(self) -> dict[str, Cell]:
        """The row as a rebuild reads it: long names of items are replaced by their hash, as in a dataset."""
        cells = (self.row or {}).items()
        return {name: shorten_text(cell) if isinstance(cell, str) else cell for name, cell in cells}

    @property
    def right(self) -> float | None:
        """How good the answer was, from 0 to 1; None if that is not known."""
        return self.quality if self.correct is None else float(self.correct)


class FeedbackRequest(Sent):
    """Outcomes of decisions."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "items": [
                        {"decision": "cascade/digits/1@0123456789ab?accuracy=0.97", "correct": True, "time": 1.1},
                        {
                            "artifact": {"kind": "cascade", "name": "digits", "version": 1},
                            "inputs": {"deadline": 25.0},
                            "classifier": "profiles-lda",
                            "correct": False,
                            "time": 1.4,
                        },
                    ]
                }
            ]
        }
    )

    items: Annotated[Items[Outcome], Field(min_length=1, max_length=MOST_OUTCOMES)] = Field(
        description="the outcomes, in any order; all are counted or none is"
    )


class Alarm(Value):
    """A change that a drift detector found."""

    quantity: str = Field(description="accuracy, coverage, cost, time, or classifiers")
    classifier: str | None = Field(default=None, description="whose accuracy changed; null unless classifiers")
    direction: Literal["above", "below"] = Field(description="above: the mean rose; below: it fell")
    change_point: int = Field(
        description="the estimated change point: the number, in this version, of the first outcome after the change"
    )
    changed_at: str = Field(description="when that outcome came, UTC, ISO 8601")
    detected: int = Field(description="the number of the outcome that raised the alarm")
    before: float = Field(
        description="the mean of the promise and the outcomes before the change; of cost and time as a multiple of "
        "the estimate"
    )
    after: float = Field(description="the mean of the outcomes since the change, in the same unit")


class FeedbackReply(Value):
    """What was counted."""

    accepted: int = Field(description="the number of outcomes")
    rows: int = Field(description="how many of them carried a row for a rebuild")
    drift: dict[str, Items[str]] = Field(
        description="for each artifact of the request, as kind/name/version, the quantities with an alarm since the "
        "feedback was last deleted"
    )
    alarms: dict[str, Items[Alarm]] = Field(
        description="the alarms that these outcomes raised, for each artifact with any"
    )


class Comparison(Value):
    """One quantity: what was estimated of the decisions, and what became of them."""

    outcomes: int = Field(
        description="number of outcomes that report it, of decisions with an estimate; of all, if none had one"
    )
    estimated: float | None = Field(description="the mean of what was estimated of these; null: nothing was")
    actual: float | None = Field(description="the mean of the actual outcomes; null: none")
    low: float | None = Field(description="with 95 % confidence the mean to come lies between this; null: too few")
    high: float | None = Field(description="and this; null: too few outcomes")
    drift: bool = Field(description="whether an alarm was raised, by the drift detector")


class ClassifierOutcomes(Value):
    """How one classifier did where its answer was taken."""

    classifier: str = Field(description="the classifier or sensor")
    outcomes: int = Field(description="number of outcomes that report whether it was correct")
    correct: int = Field(description="how often it was right")


class Detection(Value):
    """A fall of accuracy, and when it is seen."""

    drop: float = Field(description="by how much true accuracy is below its estimate, from 0 to 1")
    outcomes: int | None = Field(
        description="the number of outcomes after the change until the alarm, nine times in ten; null: it may stay "
        "undetected, for the reference itself is uncertain by as much"
    )


class FeedbackReport(Value):
    """Estimated against actual, for one version of an artifact."""

    artifact: ArtifactRef = Field(description="the version")
    unit: str = Field(description="the unit of cost and time")
    outcomes: int = Field(description="the outcomes counted")
    rows: int = Field(description="rows kept for a rebuild: the newest ones")
    accuracy: Comparison = Field(description="shares of right answers, from 0 to 1")
    coverage: Comparison = Field(description="shares of items that got an answer, from 0 to 1")
    cost: Comparison = Field(description="costs of an item")
    time: Comparison = Field(description="times of an item")
    classifiers: Items[ClassifierOutcomes] = Field(description="by classifier, where outcomes named one")
    drift: Items[str] = Field(
        description="the quantities with an alarm, until the feedback is deleted: accuracy, coverage, cost, time, "
        "classifiers"
    )
    alarms: Items[Alarm] = Field(description="the newest alarms, the oldest of these first")
    reference: float | None = Field(
        description="the number of outcomes that the reference for accuracy counts as: those before now, and the "
        "promise as the rows behind it; null: unknown"
    )
    detects: Items[Detection] = Field(
        description="number of outcomes after which a drop of accuracy by 2, 5, or 10 points raises an alarm; "
        "empty where "
        "neither outcomes nor ``savings`` give an accuracy"
    )
    false_alarm_rate: float = Field(description="the number of false alarms per outcome while nothing changes, at most")
