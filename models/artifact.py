"""Artifact references, records, and builds."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from models.base import Items, Name, RequestBody, Value
from models.guarantees import GuaranteeReport, Guarantees
from models.losses import LossPrices
from models.savings import ExpectedOutcome, Savings


class ArtifactRef(Value):
    """Kind, name, and version of an artifact."""

    kind: str = Field(description="the artifact kind that built it")
    name: Name = Field(description="the artifact's name")
    version: int = Field(ge=1, description="version, counted from 1 for each kind and name")

    @property
    def full_name(self) -> str:
        """The reference as ``kind/name/version``.

        >>> ArtifactRef(kind="index", name="digits", version=3).full_name
        'index/digits/3'
        """
        return f"{self.kind}/{self.name}/{self.version}"


DecisionId = Annotated[str, Field(description="the decision's id: send it with the outcome to POST /v1/feedback")]
"""The id of a decision, for feedback."""


class DecisionFacts(Value):
    """Fields that every reply has in addition to the decision."""

    artifact: ArtifactRef = Field(description="the artifact that answered")
    decision: DecisionId
    expected: ExpectedOutcome = Field(description="expected outcome of items with this decision")
    open_circuits: Items[str] = Field(
        default=(),
        description="classifiers, sensors, or features whose circuit breaker is open; excluded if the limits can "
        "be kept without them",
    )


class Provenance(Value):
    """Dataset, parameters, seed, and build summary of an artifact."""

    kind: str = Field(description="the artifact kind that built it")
    name: Name = Field(description="the artifact's name")
    dataset: str = Field(description="the dataset it was built from")
    params: dict[str, Any] = Field(description="build parameters, including defaults")
    seed: int = Field(description="random seed of the build")
    unit: str = Field(description="unit of costs, durations, budgets, and deadlines")
    summary: dict[str, Any] = Field(description="summary of the build; its fields depend on the kind")


class ArtifactManifest(Provenance):
    """The metadata in an artifact's bytes. Equal builds have equal manifests."""

    format: int = Field(description="the format of the bytes")
    dataset_sha256: str = Field(description="the SHA-256 of the dataset")

    @property
    def savings(self) -> Savings | None:
        """The savings in the summary; raises ValidationError if they are malformed."""
        stored = self.summary.get("savings")
        return None if stored is None else Savings.model_validate(stored)

    @property
    def losses(self) -> LossPrices | None:
        """The losses in the summary; raises ValidationError if they are malformed."""
        stored = self.summary.get("losses")
        return None if stored is None else LossPrices.model_validate(stored)

    @property
    def guarantees(self) -> GuaranteeReport | None:
        """The guarantees in the summary; raises ValidationError if they are malformed."""
        stored = self.summary.get("guarantees")
        return None if stored is None else GuaranteeReport.model_validate(stored)


class ArtifactRecord(Provenance):
    """One version of an artifact, as it is stored and as the API returns it."""

    version: int = Field(ge=1, description="version, counted from 1 for each kind and name")
    active: bool = Field(default=False, description="whether this is the active version")
    created_at: str = Field(description="time of publication, UTC, ISO 8601")
    sha256: str = Field(description="SHA-256 of the artifact's bytes")
    bytes: int = Field(description="number of the artifact's bytes")
    dataset_sha256: str = Field(default="", description="SHA-256 of the dataset; empty if unknown")
    savings: Savings | None = Field(
        default=None, description="savings compared with simple baselines; null: not measured"
    )
    losses: LossPrices | None = Field(
        default=None, description="losses of errors and rejects; null: all errors are equal"
    )
    guarantees: GuaranteeReport | None = Field(
        default=None, description="guarantees of decisions without limits on unseen items; null: none were requested"
    )
    drift: Items[str] = Field(
        default=(),
        description="quantities whose feedback raised a drift alarm: accuracy, coverage, cost, time, classifiers",
    )

    @property
    def ref(self) -> ArtifactRef:
        """The reference of this version."""
        return ArtifactRef(kind=self.kind, name=self.name, version=self.version)


BuildStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]


class BuildProgress(Value):
    """Progress of a build."""

    done: int = Field(default=0, ge=0, description="completed steps")
    total: int = Field(default=0, ge=0, description="total number of steps; 0 while unknown")
    message: str = Field(default="", description="description of the current step")


class BuildRequest(RequestBody):
    """Request to build an artifact."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "kind": "cascade",
                    "name": "digits-strict",
                    "dataset": "digits",
                    "params": {"dependence": "joint", "target_precision": 0.99},
                    "seed": 0,
                },
                {"kind": "index", "name": "documents", "dataset": "documents", "params": {"alpha": 0.05}},
                {
                    "kind": "portfolio",
                    "name": "digits",
                    "dataset": "digits-embedded",
                    "params": {"feature_classifier": "neighbors"},
                },
            ]
        }
    )

    kind: str = Field(description="the artifact kind", examples=["cascade"])
    name: Name = Field(description="name of the artifact to build", examples=["digits"])
    dataset: Name = Field(description="the dataset to learn from", examples=["digits"])
    params: dict[str, Any] = Field(
        default_factory=dict,
        description="build parameters; omitted ones have their defaults",
        examples=[{"dependence": "joint", "target_precision": 0.95}],
    )
    seed: int = Field(default=0, ge=0, lt=2**63, description="random seed of the build")
    guarantees: Guarantees | None = Field(
        default=None,
        description="bounds on recall and false positive rates that decisions without limits must keep; the build "
        "proves them on reserved rows, and fails if it cannot; null: none",
    )
    activate: bool = Field(
        default=True,
        description="whether the new version becomes active; if false, it waits for a rollout or an activation; the "
        "first version of an artifact always becomes active",
    )


class Build(Value):
    """A build job: request, status, progress, and result."""

    id: str = Field(description="the build's id")
    kind: str = Field(description="the artifact kind")
    name: Name = Field(description="the artifact's name")
    dataset: Name = Field(description="the dataset to learn from")
    params: dict[str, Any] = Field(description="build parameters, including defaults")
    seed: int = Field(description="random seed of the build")
    guarantees: Guarantees | None = Field(default=None, description="requested guarantees; null: none")
    activate: bool = Field(default=True, description="whether the new version becomes the active one")
    status: BuildStatus = Field(description="queued, running, succeeded, failed, or cancelled")
    progress: BuildProgress = Field(description="progress of the build")
    created_at: str = Field(description="time when the build was queued, UTC, ISO 8601")
    started_at: str | None = Field(default=None, description="time when a worker started the build, UTC, ISO 8601")
    finished_at: str | None = Field(default=None, description="time when the build ended, UTC, ISO 8601")
    error: str | None = Field(default=None, description="reason of the failure")
    artifact: ArtifactRef | None = Field(default=None, description="the published artifact")

    @property
    def ended(self) -> bool:
        """Whether the build has a final status."""
        return self.status in ("succeeded", "failed", "cancelled")
