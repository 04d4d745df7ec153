"""Evaluations of a version on logged rows.

The version is compared with the log, the active version, and single classifiers.
"""

from typing import Any, Literal

from pydantic import ConfigDict, Field, JsonValue

from models.artifact import ArtifactRef
from models.base import Items, Value
from models.recording import UsedRows
from models.savings import ACCURACY, Interval

ComparedWith = Literal["logged", "active", "best_single"]
EXAMPLE_FIGURE: dict[str, JsonValue] = {
    "method": "doubly_robust",
    "value": 0.912,
    "interval": [0.891, 0.929],
    "effective_rows": 412.6,
    "snips": {"value": 0.909, "interval": [0.887, 0.927], "effective_rows": 412.6},
}


class Estimated(Value):
    """A mean over all rows, with its 95 % confidence interval."""

    value: float = Field(description="the estimated mean")
    interval: Interval = Field(description="its 95 % confidence interval; rows of one item count together")
    effective_rows: float = Field(
        description="effective sample size: as many rows drawn at random would be as informative as the weighted ones"
    )


class EstimatedFigure(Estimated):
    """A figure of a version, and the method of its estimate."""

    method: Literal["replay", "doubly_robust"] = Field(
        description="replay: each row has all calls that are made, so the figure is the mean of known outcomes; "
        "doubly_robust: the mean of predictions for all rows, corrected by the errors in rows with all calls, weighted "
        "by inverse propensities. It is unbiased if the propensities are correct"
    )
    snips: Estimated | None = Field(
        description="of doubly_robust, the self-normalized inverse propensity score for comparison: the weighted mean "
        "of rows with all calls; if it disagrees with the value, the propensities are doubtful; null: replay"
    )


class RuleFigures(Value):
    """Accuracy, cost, and loss of one decision rule."""

    accuracy: EstimatedFigure = Field(description=ACCURACY)
    cost: EstimatedFigure = Field(description="mean cost of an item, in the artifact's unit")
    loss: EstimatedFigure | None = Field(
        description="mean loss of an item, in the artifact's unit; null: all errors are equal"
    )


class PairedDifference(Value):
    """The version's figure minus that of the other rule, on the same rows."""

    value: float = Field(description="the difference")
    interval: Interval = Field(description="its 95 % confidence interval, from paired rows")


class Differences(Value):
    """Differences of the version from another decision rule."""

    accuracy: PairedDifference = Field(description="difference of the accuracies")
    cost: PairedDifference = Field(description="difference of the mean costs, in the artifact's unit")
    loss: PairedDifference | None = Field(description="difference of the mean losses; null: all errors are equal")


class VersionComparison(Value):
    """Another decision rule on the same rows, and the version's differences from it."""

    compared_with: ComparedWith = Field(
        description="logged: the classifiers whose answers were used in the log; active: the active version; "
        "best_single: the most accurate classifier (with losses, of the least cost and loss), chosen on these rows"
    )
    name: str = Field(description="version or classifier")
    figures: RuleFigures | None = Field(description="figures of this version or classifier; null: refused")
    differences: Differences | None = Field(
        description="figures of the evaluated version minus these figures; null: refused"
    )
    refusal: str | None = Field(description="why there are no figures; null: figures exist")


class EvaluatedRecording(UsedRows):
    """A recording on which a version was evaluated."""

    name: str = Field(description="the recording")


class VersionEvaluation(Value):
    """Cost, accuracy, and loss of a version on logged rows."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "artifact": {"kind": "portfolio", "name": "digits", "version": 2},
                    "dataset": "digits-logged",
                    "rows": 2000,
                    "items": 2000,
                    "supported_rows": 804,
                    "unit": "ms",
                    "limits": {"budget": 9.0},
                    "figures": {"accuracy": EXAMPLE_FIGURE, "cost": {**EXAMPLE_FIGURE, "value": 8.9}, "loss": None},
                    "comparisons": [],
                }
            ]
        }
    )

    artifact: ArtifactRef = Field(description="the version that was evaluated")
    dataset: str | None = Field(description="the dataset; null: a recording")
    recording: EvaluatedRecording | None = Field(default=None, description="the recording; null: a dataset")
    rows: int = Field(description="number of rows; at most 20,000, drawn at random from a longer dataset")
    items: int = Field(description="number of different items; intervals count rows of one item together")
    supported_rows: int = Field(description="rows in which all calls that the version makes were logged")
    unit: str = Field(description="unit of costs and losses")
    limits: dict[str, Any] = Field(description="limits of the decisions; empty: no limits, not even the default ones")
    figures: RuleFigures = Field(description="the figures of the version")
    comparisons: Items[VersionComparison] = Field(description="other decision rules on the same rows")
