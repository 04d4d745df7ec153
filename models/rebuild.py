"""Rebuilds: selection of the rows for the next version of an artifact."""

from datetime import datetime
from typing import Annotated

from pydantic import AwareDatetime, BeforeValidator, ConfigDict, Field

from models.artifact import Build
from models.base import Name, RequestBody


def _read_time(value: object) -> object:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


class RebuildRequest(RequestBody):
    """Rows to train the next version on.

    By default, these are the rows since the change point of the last drift alarm, if there are enough.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"only_new": True}, {"half_life": 30.0}, {}]})

    since: Annotated[AwareDatetime | None, BeforeValidator(_read_time)] = Field(
        default=None,
        description="exclude rows before this time, with UTC offset; rows of the old dataset count as of the time "
        "when it was stored",
        examples=["2026-01-31T12:00:00Z"],
    )
    only_new: bool | None = Field(
        default=None,
        description="true: only feedback rows; false: also the rows of the old dataset, even after drift",
    )
    half_life: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        default=None,
        description="half-life of rows in days: a row of this age is kept with half the probability of the "
        "newest row, drawn with the build's seed",
    )
    dataset: Name | None = Field(
        default=None, description="name of the new dataset; null: the old name with the next version's number"
    )
    activate: bool = Field(
        default=True, description="whether the new version becomes the active one; false: it waits for a rollout"
    )


class Rebuild(Build):
    """The build of the next version, and its numbers of rows."""

    old_rows: int = Field(description="number of rows of the old dataset")
    new_rows: int = Field(description="number of feedback rows")
    change_point: int | None = Field(
        description="number of the first outcome whose row is used, from the last drift alarm; null: all rows, or "
        "those that the request selects"
    )
