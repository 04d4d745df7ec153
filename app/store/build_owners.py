"""The teams that have requested the queued and running builds, and their maximum number."""

from typing import NamedTuple, cast

from app.store.client import Pipeline, make_store_key
from models.errors import TooManyBuilds

_TEAMS = make_store_key("builds", "teams")


class BuildOwner(NamedTuple):
    """The team that requests a build, and how many open builds it may have; None for no limit."""

    team: str = ""
    most: int | None = None


NO_TEAM = BuildOwner()


def require_team_room(pipe: Pipeline, owner: BuildOwner) -> None:
    """Raise TooManyBuilds if a team has its maximum number of queued and running builds."""
    if owner.most is None:
        return
    count = cast("list[bytes]", pipe.hvals(_TEAMS)).count(owner.team.encode())
    if count >= owner.most:
        raise TooManyBuilds(
            f"open builds of team {owner.team!r}: {count}, maximum is {owner.most} (PARSIMONY_TEAM_QUOTAS); "
            "retry when one has ended"
        )


def add_owner(pipe: Pipeline, build_id: str, owner: BuildOwner) -> None:
    """Queue the write of a build's team."""
    if owner.team:
        pipe.hset(_TEAMS, build_id, owner.team)


def remove_owner(pipe: Pipeline, build_id: str) -> None:
    """Queue the removal of an ended build's team."""
    pipe.hdel(_TEAMS, build_id)
