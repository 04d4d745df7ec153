"""Guarantees of builds: bounds on recall and false positive rates by class, on accuracy, and on coverage."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from models.base import Items, Label, Value

Share = Annotated[float, Field(gt=0, lt=1)]
Shares = Annotated[dict[Label, Share], Field(max_length=2)]
Limit = Literal["min_recall", "max_false_positive_rate", "min_accuracy", "min_coverage"]
MAX_GUARANTEES = 2
"""Guarantees of one build; each more divides the allowed error further."""


class Guarantees(Value):
    """Bounds that an artifact's default decisions must keep on unseen items, with a stated confidence."""

    min_recall: Shares = Field(
        default={},
        description="by class: lower bound on the share of its items that get this answer, or are sent to a person",
        examples=[{"sick": 0.95}],
    )
    max_false_positive_rate: Shares = Field(
        default={}, description="by class: upper bound on the share of items of other classes that get this answer"
    )
    min_accuracy: Share | None = Field(
        default=None,
        description="lower bound on the share of correct answers among answered items, that is, those that are not "
        "sent to a person",
    )
    min_coverage: Share | None = Field(
        default=None,
        description="lower bound on the share of items that get an answer; requires reject_cost in the dataset's spec",
    )
    confidence: Annotated[float, Field(ge=0.5, le=0.999)] = Field(
        default=0.95, description="the probability that a build which succeeds keeps all its guarantees"
    )

    @model_validator(mode="after")
    def _has_some(self) -> "Guarantees":
        if not 1 <= len(self.bounds) <= MAX_GUARANTEES:
            raise ValueError(
                f"must have 1 to {MAX_GUARANTEES} bounds in all, got {len(self.bounds)}: each class of min_recall and "
                "max_false_positive_rate, min_accuracy, and min_coverage"
            )
        return self

    @property
    def bounds(self) -> list[tuple[Limit, str | None, float]]:
        """The limit, the class (None for all classes), and the value of each bound."""
        by_class: list[tuple[Limit, str | None, float]] = [
            *(("min_recall", label, value) for label, value in self.min_recall.items()),
            *(("max_false_positive_rate", label, value) for label, value in self.max_false_positive_rate.items()),
        ]
        overall: list[tuple[Limit, float | None]] = [
            ("min_accuracy", self.min_accuracy),
            ("min_coverage", self.min_coverage),
        ]
        return by_class + [(limit, None, value) for limit, value in overall if value is not None]


class KeptGuarantee(Value):
    """A guarantee that was verified on rows that the build did not use."""

    limit: Limit = Field(description="the bounded quantity")
    label: str | None = Field(default=None, description="the class; null: all classes")
    value: float = Field(description="the requested bound")
    measured: float = Field(description="the measured value of the bounded quantity")
    bound: float = Field(description="the confidence bound of the share: at least, or at most, the requested value")
    rows: int = Field(description="the number of independent rows that were measured")
    factor: float = Field(description="the factor by which losses were raised to keep the guarantee")


class GuaranteeReport(Value):
    """Guarantees of an artifact: the request, and the measured values."""

    request: Guarantees = Field(description="the requested guarantees")
    kept: Items[KeptGuarantee] = Field(description="values measured on rows that the build did not learn from")
