"""Quotas of teams: their names, how much a team may store under them, and how much it may request."""

from collections.abc import Mapping
from itertools import permutations
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from models.base import LARGEST, Value
from models.errors import Forbidden

EVERY_TEAM = "*"
"""The name for the quota of all teams without a quota of their own."""
MAX_PREFIX_LENGTH = 32
"""Longest prefix of names: names that are derived from a team's name, such as those of rebuilds, keep its prefix."""
NamePrefix = Annotated[str, StringConstraints(pattern=rf"^[a-z0-9][a-z0-9._-]{{0,{MAX_PREFIX_LENGTH - 1}}}$")]
STORED = ("datasets", "artifacts", "bytes")
"""The quotas of what is stored under the names of a team."""
MAX_STORED = 10**15
MaxStored = Annotated[int, Field(ge=1, le=MAX_STORED)]


class TeamQuota(Value):
    """What a team may have; null: no limit."""

    names: NamePrefix | None = Field(
        default=None,
        description="prefix of the team's names: only the team may change objects whose names begin with it, and the "
        "team may change no others",
    )
    datasets: MaxStored | None = Field(default=None, description="maximum number of datasets under the team's names")
    artifacts: MaxStored | None = Field(
        default=None, description="maximum number of artifacts of all kinds under the team's names"
    )
    bytes: MaxStored | None = Field(
        default=None, description="maximum bytes of datasets and of artifact versions under the team's names"
    )
    open_builds: Annotated[int, Field(ge=1, le=10**6)] | None = Field(
        default=None, description="maximum number of queued and running builds"
    )
    requests_per_second: Annotated[float, Field(gt=0, le=LARGEST)] | None = Field(
        default=None,
        description="maximum requests per second of all keys of the team, for each server process; further requests "
        "wait up to half a second, and are refused if that is not enough",
    )

    @model_validator(mode="after")
    def _stores_under_names(self) -> Self:
        limited = [field for field in STORED if getattr(self, field) is not None]
        if limited and self.names is None:
            raise ValueError(f"{limited[0]} requires names, the prefix of the names that count")
        return self


NO_QUOTA = TeamQuota()


def check_name_prefixes(quotas: Mapping[str, TeamQuota]) -> None:
    """Raise ValueError if names could be those of two teams, or of every team."""
    prefixes = {team: quota.names for team, quota in quotas.items() if quota.names is not None}
    if EVERY_TEAM in prefixes:
        raise ValueError(f"names is not supported for {EVERY_TEAM!r}: a prefix is for one team")
    for (team, prefix), (other, longer) in permutations(prefixes.items(), 2):
        if longer.startswith(prefix):
            raise ValueError(
                f"names must not overlap: {longer!r} of team {other!r} begins with {prefix!r} of team {team!r}"
            )


def find_owner_of_name(quotas: Mapping[str, TeamQuota], name: str) -> str:
    """Return the team whose prefix a name has; empty if it has the prefix of no team.

    >>> find_owner_of_name({"search": TeamQuota(names="search-")}, "search-intent")
    'search'
    """
    return next((team for team, one in quotas.items() if one.names is not None and name.startswith(one.names)), "")


def require_same_owner(quotas: Mapping[str, TeamQuota], dataset: str, artifact: str) -> None:
    """Raise Forbidden if a dataset that is made for an artifact would have the prefix of another team."""
    owner = find_owner_of_name(quotas, dataset)
    if owner != find_owner_of_name(quotas, artifact):
        reason = f"has the prefix of team {owner!r}" if owner else "has the prefix of no team"
        raise Forbidden(
            f"dataset {dataset!r} {reason}, artifact {artifact!r} does not (PARSIMONY_TEAM_QUOTAS); choose another name"
        )


def require_own_name(quotas: Mapping[str, TeamQuota], team: str, name: str) -> None:
    """Raise Forbidden if a team may not change the object of a name.

    Args:
        team: the team of the sender's key; empty for keys without a team.
    """
    owner = find_owner_of_name(quotas, name)
    if owner == team:
        return
    if owner:
        raise Forbidden(
            f"name {name!r} has the prefix {quotas[owner].names!r} of team {owner!r} (PARSIMONY_TEAM_QUOTAS); use a "
            "key of that team, or another name"
        )
    if (own := quotas.get(team, NO_QUOTA).names) is not None:
        raise Forbidden(
            f"name {name!r} must begin with {own!r}, the prefix of team {team!r} (PARSIMONY_TEAM_QUOTAS); choose such "
            "a name, or use a key of another team"
        )
