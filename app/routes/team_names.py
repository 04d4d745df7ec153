"""Names of teams: only a team changes the objects whose names begin with its prefix."""

from fastapi import Depends

from app.routes.dependencies import AppContext, InContext, PathName
from app.settings import Settings
from models.budget import BudgetSpec
from models.errors import Forbidden
from models.team_quota import find_owner_of_name, require_own_name


def require_own_names(context: AppContext, *names: str) -> None:
    """Raise Forbidden if the sender's team may not change the objects of these names.

    Without configured keys, all names are allowed.
    """
    if context.settings.api_keys:
        for name in names:
            require_own_name(context.settings.team_quotas, context.payer.team, name)


def has_team_names(context: AppContext) -> bool:
    """Return whether any team has names of its own."""
    return bool(context.settings.api_keys) and any(one.names for one in context.settings.team_quotas.values())


async def require_own_path_name(name: PathName, context: InContext) -> None:
    """Raise Forbidden if the sender's team may not change the object that the path names."""
    require_own_names(context, name)


OWN_NAME = Depends(require_own_path_name)
"""Dependency of routes that change the object that their path names."""


def require_own_work(context: AppContext, team: str) -> None:
    """Raise Forbidden if another team with names pays for the work that the sender changes."""
    settings = context.settings
    if settings.api_keys and team != context.payer.team and settings.find_quota(team).names is not None:
        raise Forbidden(
            f"team {team!r} pays for this batch, the key is of team {context.payer.team!r} (PARSIMONY_TEAM_QUOTAS); "
            "use a key of that team"
        )


def require_own_target(context: AppContext, budget: BudgetSpec) -> None:
    """Raise Forbidden if a budget limits another team, one of its keys, or one of its artifacts.

    Only teams with names are protected. Keys without a team may limit every team.
    """
    settings, team = context.settings, context.payer.team
    limited = _find_limited_team(settings, budget)
    if team in ("", limited) or all(settings.find_quota(one).names is None for one in (team, limited)):
        return
    whose = f"of team {limited!r}" if limited else "of no team"
    raise Forbidden(
        f"target {budget.target!r} is {whose}, the key is of team {team!r} (PARSIMONY_TEAM_QUOTAS); use a key of that "
        "team, or one without a team"
    )


def _find_limited_team(settings: Settings, budget: BudgetSpec) -> str:
    """Return the team that a budget limits as a whole or in part; empty for none."""
    if budget.scope == "team":
        return budget.target
    if budget.scope == "key":
        return settings.find_team_of_key(budget.target)
    return find_owner_of_name(settings.team_quotas, budget.target.partition("/")[2])
