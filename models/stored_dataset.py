"""Datasets in the store, as the API returns them."""

from pydantic import Field

from models.artifact import ArtifactRef
from models.base import Items, Name, Value
from models.data_warning import DataWarning
from models.dataset import DatasetFacts
from models.dataset_source import SourceFacts


class DatasetInfo(DatasetFacts):
    """Facts of a stored dataset."""

    name: Name = Field(description="the dataset's name")
    sha256: str = Field(description="the SHA-256 of the checked table")
    bytes: int = Field(description="the size of the checked table, in bytes")
    created_at: str = Field(description="time of storage, UTC, ISO 8601")
    warnings: Items[DataWarning] = Field(
        default=(),
        description="problems that make figures from this dataset less certain than they seem, and what to do",
    )
    source: SourceFacts | None = Field(
        default=None, description="the files whose rows were sampled; null: the table was uploaded"
    )


class ReplacedDataset(Value):
    """The previous dataset of the same name."""

    rows: int = Field(description="number of rows")
    sha256: str = Field(description="SHA-256 of the checked table")
    created_at: str = Field(description="time of storage, UTC, ISO 8601")


class StoredDataset(DatasetInfo):
    """A dataset after its upload, and the dataset that it replaced."""

    replaced: ReplacedDataset | None = Field(
        description="the replaced dataset, which is deleted. Artifacts built from it continue to answer, but cannot be "
        "built again. null: the name is new"
    )


class ShownDataset(DatasetInfo):
    """A dataset, and whether it has advice."""

    advised: bool = Field(description="whether there is advice on the dataset")


class DeletedDataset(Value):
    """A deleted dataset, and the artifacts that were built from it."""

    name: Name = Field(description="the dataset's name")
    artifacts: Items[ArtifactRef] = Field(
        description="active artifacts built from the dataset: they continue to answer, but cannot be built again"
    )
