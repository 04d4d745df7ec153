"""What identifies a built plan, and what is recorded of it."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from models.base import Items, Name, Sent, Value
from models.savings import ExpectedOutcome, Savings


class ArtifactRef(Value):
    """Which version of which artifact answered."""

    kind: str = Field(description="the artifact kind that built it")
    name: Name = Field(description="the artifact's name")
    version: int = Field(ge=1, description="its version, counted from 1 for each kind and name")

    @property
    def spelt(self) -> str:
        """Write it as one word.

        >>> ArtifactRef(kind="index", name="digits", version=3).spelt
        'index/digits/3'
        """
        return f"{self.kind}/{self.name}/{self.version}"


DecisionId = Annotated[str, Field(description="the decision's id: send it with the outcome to POST /v1/feedback")]
"""The id of a decision, for feedback."""


class DecisionFacts(Value):
    """Fields of each reply in addition to the decision."""

    artifact: ArtifactRef = Field(description="the artifact that answered")
    decision: DecisionId
    expected: ExpectedOutcome = Field(description="what is expected of items that are decided so")
    open_circuits: Items[str] = Field(
        default=(),
        description="classifiers, sensors or features of the artifact whose endpoint failed again and again: left out "
        "where the limits can be kept without them",
    )


class Provenance(Value):
    """Where a plan came from, and what its build found."""

    kind: str = Field(description="the artifact kind that built it")
    name: Name = Field(description="the artifact's name")
    dataset: str = Field(description="the dataset it was built from")
    params: dict[str, Any] = Field(description="the artifact kind's parameters, defaults filled in")
    seed: int = Field(description="the seed of everything random in the build")
    unit: str = Field(description="the unit of its costs, durations, budgets and deadlines")
    summary: dict[str, Any] = Field(description="what the build found, each kind its own")


class ArtifactManifest(Provenance):
    """The metadata in an artifact's bytes. Equal builds have equal manifests."""

    format: int = Field(description="the format of the bytes")
    dataset_sha256: str = Field(description="the SHA-256 of the dataset")

    @property
    def savings(self) -> Savings | None:
        """The savings in the summary; raises ValidationError if they are malformed."""
        stored = self.summary.get("savings")
        return None if stored is None else Savings.model_validate(stored)


class ArtifactRecord(Provenance):
    """One version of an artifact, as the store keeps it and the API shows it."""

    version: int = Field(ge=1, description="its version, counted from 1 for each kind and name")
    active: bool = Field(default=False, description="whether this is the active version")
    created_at: str = Field(description="when it was published, UTC, ISO 8601")
    sha256: str = Field(description="the SHA-256 of its bytes")
    bytes: int = Field(description="the number of its bytes")
    dataset_sha256: str = Field(default="", description="the SHA-256 of its dataset; empty if unknown")
    savings: Savings | None = Field(
        default=None, description="savings compared with simple baselines; null: not measured"
    )
    drift: Items[str] = Field(
        default=(),
        description="the quantities with a drift alarm, by feedback: accuracy, coverage, cost, time, classifiers",
    )

    @property
    def ref(self) -> ArtifactRef:
        """Name it."""
        return ArtifactRef(kind=self.kind, name=self.name, version=self.version)


BuildStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]


class BuildProgress(Value):
    """How far a build has come."""

    done: int = Field(default=0, ge=0, description="steps done")
    total: int = Field(default=0, ge=0, description="steps in all; 0 while unknown")
    message: str = Field(default="", description="what is being done")


class BuildRequest(Sent):
    """What to build."""

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
                {"kind": "index", "name": "digits", "dataset": "digits-features", "params": {"alpha": 0.05}},
                {
                    "kind": "portfolio",
                    "name": "digits-moved",
                    "dataset": "digits-moved",
                    "params": {"feature_classifier": "gradients-logistic"},
                },
            ]
        }
    )

    kind: str = Field(description="the artifact kind", examples=["cascade"])
    name: Name = Field(description="the name of the artifact to be", examples=["digits"])
    dataset: Name = Field(description="the dataset to learn from", examples=["digits"])
    params: dict[str, Any] = Field(
        default_factory=dict,
        description="the artifact kind's parameters; what is left out takes its default",
        examples=[{"dependence": "joint", "target_precision": 0.95}],
    )
    seed: int = Field(default=0, ge=0, lt=2**63, description="the seed of everything random in the build")


class Build(Value):
    """An offline job and what became of it."""

    id: str = Field(description="the build's id")
    kind: str = Field(description="the artifact kind")
    name: Name = Field(description="the artifact's name")
    dataset: Name = Field(description="the dataset it learns from")
    params: dict[str, Any] = Field(description="the artifact kind's parameters, defaults filled in")
    seed: int = Field(description="the seed of everything random in the build")
    status: BuildStatus = Field(description="queued, running, succeeded, failed or cancelled")
    progress: BuildProgress = Field(description="how far it has come")
    created_at: str = Field(description="when it was queued, UTC, ISO 8601")
    started_at: str | None = Field(default=None, description="when a worker took it, UTC, ISO 8601")
    finished_at: str | None = Field(default=None, description="when it ended, UTC, ISO 8601")
    error: str | None = Field(default=None, description="why it failed")
    artifact: ArtifactRef | None = Field(default=None, description="what it published")

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.status in ("succeeded", "failed", "cancelled")
