"""Rebuilds: which rows the next version of an artifact learns from."""

from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, BeforeValidator, ConfigDict, Field

from models.artifact import Build
from models.base import Name, Sent


def _read_time(value: object) -> object:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


class RebuildRequest(Sent):
    """Which rows to learn from; by default those since the last drift alarm's change point, if there are enough."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"only_new": True}, {"half_life": 30.0}, {}]})

    since: Annotated[AwareDatetime | None, BeforeValidator(_read_time)] = Field(
        default=None,
        description="leave out rows that came before this time, with its UTC offset; the old dataset's came when "
        "it was stored",
        examples=["2026-01-31T12:00:00Z"],
    )
    only_new: bool | None = Field(
        default=None,
        description="true: only rows that came as feedback; false: also the rows of the old dataset, whatever drifted",
    )
    half_life: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        default=None,
        description="in days: a row that is older by this time counts half; realized by keeping each row with that "
        "probability, by the build's seed",
    )
    dataset: Name | None = Field(
        default=None, description="the name of the new dataset; null: the old one's, with the next version's number"
    )


class Rebuild(Build):
    """A build of the next version, and the rows that it learns from."""

    old_rows: int = Field(description="rows of the old dataset")
    new_rows: int = Field(description="rows that came as feedback")
    change_point: int | None = Field(
        description="the number of the outcome since which rows are taken, by the last drift alarm; null: all rows, or "
        "those that the request names"
    )
