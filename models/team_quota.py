"""Quotas of teams: how many open builds a team may have, and how many requests it may send."""

from typing import Annotated

from pydantic import Field

from models.base import LARGEST, Value

EVERY_TEAM = "*"
"""The name for the quota of all teams without a quota of their own."""


class TeamQuota(Value):
    """What a team may have; null: no limit."""

    open_builds: Annotated[int, Field(ge=1, le=10**6)] | None = Field(
        default=None, description="maximum number of queued and running builds"
    )
    requests_per_second: Annotated[float, Field(gt=0, le=LARGEST)] | None = Field(
        default=None,
        description="maximum requests per second of all keys of the team, for each server process; further requests "
        "wait up to half a second, and are refused if that is not enough",
    )


NO_QUOTA = TeamQuota()
