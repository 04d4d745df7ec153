"""Warnings about datasets whose figures are less certain than they appear."""

from typing import Literal

from pydantic import Field

from models.base import Value


class DataWarning(Value):
    """A property of the rows that makes figures less certain."""

    code: Literal["repeated-rows", "conflicting-outcomes", "label-spellings", "partial-calls", "reference-labels"] = (
        Field(description="the kind of warning")
    )
    share: float = Field(ge=0, le=1, description="share of the affected rows")
    message: str = Field(description="the finding, and what to do")
