"""Sources of datasets: Parquet files that are read in place, and resumable uploads."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from models.base import Items, Value

MAX_FILES = 10_000
"""Maximum number of files of one source: all are listed in the dataset's record."""
MAX_URL = 1000
UPLOAD_ID_PATTERN = r"^[0-9a-f]{32}$"
"""Ids of resumable uploads: 128 random bits."""


class DatasetSource(Value):
    """Parquet files that a dataset refers to, or an uploaded table, and how many rows builds use."""

    url: Annotated[str, Field(min_length=1, max_length=MAX_URL)] | None = Field(
        default=None,
        description="a folder, whose `.parquet` files are read, including subfolders, or a pattern with `*`, `?`, and "
        "`[…]`: `file:///data/calls/2026-*/*.parquet`, `s3://bucket/calls`, `gs://…`, or `az://container/…`",
        examples=["s3://logs/calls/2026-11-*.parquet"],
    )
    upload: Annotated[str, Field(pattern=UPLOAD_ID_PATTERN)] | None = Field(
        default=None,
        description="instead of `url`: the id of a complete resumable upload of a CSV, JSON Lines, or Parquet table",
        examples=[None],
    )
    sample_rows: Annotated[int, Field(ge=100, le=10_000_000)] = Field(
        default=100_000, description="expected number of sampled rows; with fewer rows, all are used"
    )
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(default=0, description="random seed of the sample")

    @model_validator(mode="after")
    def _has_one_location(self) -> Self:
        if (self.url is None) == (self.upload is None):
            raise ValueError(f"must have either url or upload, got {'neither' if self.url is None else 'both'}")
        return self


class SourceFile(Value):
    """A file of a source, in its state when its rows were checked."""

    url: str = Field(description="the file's URL")
    rows: int = Field(description="number of rows")
    bytes: int = Field(description="size in bytes")
    sha256: str = Field(description="SHA-256 of the file")
    modified: str = Field(description="time of the last change, UTC, ISO 8601")


class SourceFacts(DatasetSource):
    """A source whose rows were checked, and the sample of rows that builds use."""

    rows: int = Field(description="number of rows in all files; every row was checked")
    bytes: int = Field(description="size of all files, in bytes")
    max_standard_error: float = Field(
        description="largest standard error that sampling causes in a share, such as an accuracy"
    )
    files: Items[SourceFile] = Field(
        default=(), description="the files; a build fails if one of them has changed; empty for an upload"
    )
    sha256: str | None = Field(default=None, description="SHA-256 of the upload; null for files")
