"""Datasets in the store, as the API shows them."""

from pydantic import Field

from models.artifact import ArtifactRef
from models.base import Items, Name, Value
from models.data_warning import DataWarning
from models.dataset import DatasetFacts


class DatasetInfo(DatasetFacts):
    """A dataset, as the API shows it."""

    name: Name = Field(description="the dataset's name")
    sha256: str = Field(description="the SHA-256 of the checked table")
    bytes: int = Field(description="the size of the checked table, in bytes")
    created_at: str = Field(description="when it was stored, UTC, ISO 8601")
    warnings: Items[DataWarning] = Field(
        default=(), description="what makes figures from this dataset less certain than they look, and what to do"
    )


class Replaced(Value):
    """The dataset that a newer one took the place of."""

    rows: int = Field(description="how many rows it had")
    sha256: str = Field(description="the SHA-256 of its checked table")
    created_at: str = Field(description="when it was stored, UTC, ISO 8601")


class StoredDataset(DatasetInfo):
    """A dataset that was just stored, and what it took the place of."""

    replaced: Replaced | None = Field(
        description="the dataset that had this name before, and is gone: what was built from it answers on, but cannot "
        "be built again; null: the name is new"
    )


class ShownDataset(DatasetInfo):
    """A dataset, and whether there is advice on it."""

    advised: bool = Field(description="whether there is advice on it")


class DeletedDataset(Value):
    """A dataset that was deleted, and what was built from it."""

    name: Name = Field(description="the dataset's name")
    artifacts: Items[ArtifactRef] = Field(
        description="the active artifacts that were built from it: they answer on, but cannot be built again"
    )
