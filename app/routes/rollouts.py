"""Rollout routes: start, show, and stop the rollout of a version."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, TypeVar

from fastapi import Depends, Query, Response
from pydantic import Field

from app.building.start_rollout import start_rollout
from app.http.json_bodies import JsonRouter
from app.routes.artifacts import KindName
from app.routes.dependencies import AppContext, InContext, PathName, error_responses, require_store
from app.routes.team_names import OWN_NAME
from app.store.pointers import Id
from app.store.rollouts import Observations
from models import Fault, InvalidRequest
from models.base import Value
from models.rollout import Automation, AutomationSpec, RolloutRequest, VersionRollout

router = JsonRouter(prefix="/v1/artifacts", tags=["artifacts"], dependencies=[Depends(require_store)])
lists = JsonRouter(prefix="/v1", tags=["artifacts"], dependencies=[Depends(require_store)])
R = TypeVar("R")
ANONYMOUS = "anonymous"
"""Who starts and stops rollouts without an API key."""


class RolloutList(Value):
    """The last rollouts of artifacts."""

    items: Annotated[list[VersionRollout], Field(description="the rollouts, by kind and name")]


class AutomationList(Value):
    """The automations of artifacts."""

    items: Annotated[list[Automation], Field(description="the automations, by kind and name")]


OfKind = Annotated[str | None, Query(description="only artifacts of this kind", examples=["cascade"])]
OfName = Annotated[str | None, Query(description="only artifacts of this name", examples=["digits"])]


@lists.get("/rollouts", summary="List the rollouts", responses=error_responses(503))
def list_rollouts(context: InContext, kind: OfKind = None, name: OfName = None) -> RolloutList:
    """List the last rollout of each artifact, running or ended."""
    found = _select(context.repos.rollouts.get_all(), kind, name)
    return RolloutList(items=[rollout.to_reply(artifact) for artifact, rollout in found])


@lists.get("/automations", summary="List the automations", responses=error_responses(503))
def list_automations(context: InContext, kind: OfKind = None, name: OfName = None) -> AutomationList:
    """List the automation of each artifact that has one, with its latest steps and failures."""
    found = _select(context.repos.automations.get_all(), kind, name)
    return AutomationList(items=[record.to_reply(artifact) for artifact, record in found])


def _select(records: Mapping[Id, R], kind: str | None, name: str | None) -> list[tuple[Id, R]]:
    """Return the records of a kind or name, or all records, by artifact."""
    return [
        one
        for one in sorted(records.items(), key=lambda one: one[0])
        if kind in (None, one[0][0]) and name in (None, one[0][1])
    ]


@router.put(
    "/{kind}/{name}/rollout",
    summary="Start the rollout of a version",
    dependencies=[OWN_NAME],
    responses={
        201: {"model": VersionRollout, "description": "the first rollout"},
        **error_responses(404, 409, 413, 415, 503),
    },
)
async def put_rollout(
    kind: KindName, name: PathName, rules: RolloutRequest, context: InContext, response: Response
) -> VersionRollout:
    """Start a rollout of a candidate version.

    In a shadow rollout, the candidate decides in addition to the active version. In a canary, it decides for a share of
    items. A sequential test compares feedback and costs of runs. The candidate becomes the active version once outcomes
    prove all rules of `promote`. The probability of promoting a version that violates a rule is at most 5 %. The
    candidate is withdrawn once outcomes prove that a bound of `abort` is exceeded. A new rollout replaces an earlier
    one and its evidence. Items of one request or batch are divided by their ids; items without an id get the active
    version. The candidate decides neither assignments nor requests or batches with a `version`.
    """
    by = context.payer.key or ANONYMOUS
    is_new = await asyncio.to_thread(start_rollout, context.repos, (kind, name), rules, by)
    response.status_code = 201 if is_new else 200
    return await _show(context, (kind, name))


@router.get("/{kind}/{name}/rollout", summary="Show the rollout of an artifact", responses=error_responses(404, 503))
async def show_rollout(kind: KindName, name: PathName, context: InContext) -> VersionRollout:
    """Return the running rollout, or the last one: outcomes of both versions, evidence, and events."""
    return await _show(context, (kind, name))


@router.delete(
    "/{kind}/{name}/rollout",
    summary="Stop a rollout",
    dependencies=[OWN_NAME],
    responses=error_responses(404, 503),
)
async def stop_rollout(kind: KindName, name: PathName, context: InContext) -> VersionRollout:
    """Stop a rollout: the active version decides for all items again.

    To promote the candidate by hand, activate its version.
    """
    await asyncio.to_thread(context.repos.artifacts.get_record, kind, name)
    await asyncio.to_thread(context.repos.rollouts.stop_rollout, (kind, name), context.payer.key or ANONYMOUS)
    return await _show(context, (kind, name))


async def _show(context: AppContext, artifact: tuple[str, str]) -> VersionRollout:
    await asyncio.to_thread(context.repos.artifacts.get_record, *artifact)
    await asyncio.to_thread(context.repos.rollouts.add_observations, {artifact: Observations()})
    rollout = await asyncio.to_thread(context.repos.rollouts.get, artifact)
    await asyncio.to_thread(context.rollouts.refresh_rollouts, context.catalog.load_version)
    return rollout.to_reply(artifact)


@router.put(
    "/{kind}/{name}/automation",
    summary="Set what follows from drift",
    dependencies=[OWN_NAME],
    responses={
        201: {"model": Automation, "description": "nothing was set before"},
        **error_responses(404, 413, 415, 503),
    },
)
def put_automation(
    kind: KindName, name: PathName, spec: AutomationSpec, context: InContext, response: Response
) -> Automation:
    """Set the automatic steps after drift: a rebuild, its rollout, and its promotion by the rollout's rules.

    Each step is off by default. A drift alarm of a version starts one rebuild.
    """
    context.repos.artifacts.get_record(kind, name)
    if spec.recording is not None:
        _refuse_other_recording(context, (kind, name), spec.recording)
    response.status_code = 201 if context.repos.automations.put((kind, name), spec) else 200
    return context.repos.automations.get((kind, name)).to_reply((kind, name))


def _refuse_other_recording(context: AppContext, artifact: tuple[str, str], name: str) -> None:
    """Raise UnknownRecording, or InvalidRequest if it records another artifact."""
    recorded = context.repos.recordings.get(name).artifact
    if recorded != artifact:
        held = "posted rows" if recorded is None else f"{recorded[0]} {recorded[1]!r}"
        message = f"must be a recording of {artifact[0]} {artifact[1]!r}, got one of {held}"
        raise InvalidRequest.from_faults(Fault(("recording",), message))


@router.get("/{kind}/{name}/automation", summary="Show what follows from drift", responses=error_responses(404, 503))
def show_automation(kind: KindName, name: PathName, context: InContext) -> Automation:
    """Return the configuration, and the last automatic rebuild and rollout."""
    context.repos.artifacts.get_record(kind, name)
    return context.repos.automations.get((kind, name)).to_reply((kind, name))
