"""Resumable uploads, as the API returns them."""

from pydantic import Field

from models.base import Value


class Upload(Value):
    """A resumable upload."""

    id: str = Field(description="id of the upload", examples=["0123456789abcdef0123456789abcdef"])
    length: int = Field(description="number of bytes of the complete upload")
    expires_at: str = Field(
        description="time from which the upload may be deleted, unless it changes before, UTC, ISO 8601"
    )
