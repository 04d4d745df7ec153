"""Warnings about a dataset: what makes figures that are computed from it less certain than they look."""

from typing import Literal

from pydantic import Field

from models.base import Value


class DataWarning(Value):
    """One property of the rows that a reader of the figures should know."""

    code: Literal["repeated-rows", "conflicting-outcomes"] = Field(description="the kind of warning")
    share: float = Field(ge=0, le=1, description="the share of the rows that it concerns")
    message: str = Field(description="what was found, and what to do")
