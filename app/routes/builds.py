"""Build routes: start, follow, and cancel builds."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Path, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from app.http.json_bodies import JsonRouter
from app.processes.clock import current_timestamp, seconds_between
from app.routes.dependencies import AppContext, InContext, error_responses, find_build_owner, require_store
from app.routes.paging import DEFAULT_LIMIT, Cursor, Limit, PageFields
from app.routes.team_names import has_team_names, require_own_names
from models import Build, BuildRequest, ParsimonyError

router = JsonRouter(prefix="/v1/builds", tags=["builds"], dependencies=[Depends(require_store)])
_POLL_INTERVAL_S = 0.2
LOAD_TIMEOUT_S = 5.0
"""Seconds after a build in which its version may not be loaded yet."""
BuildId = Annotated[str, Path(description="the build's id", examples=["7d0c3b9a5e4f4d6c8a1b2c3d4e5f6a7b"])]


class BuildList(PageFields):
    """A page of builds."""

    items: Annotated[list[Build], Field(description="the builds, newest first")]
    open: Annotated[int, Field(description="number of queued and running builds, on all pages")]


@router.post(
    "",
    summary="Start a build",
    status_code=202,
    responses=error_responses(404, 409, 413, 415, 429, 503),
)
def start_build(request: BuildRequest, context: InContext, response: Response) -> Build:
    """Queue a build, which a worker runs.

    Equal datasets, params, and seeds result in equal artifacts, byte for byte.
    """
    require_own_names(context, request.name)
    build = context.repos.builds.enqueue_build(request, owner=find_build_owner(context))
    response.headers["Location"] = f"/v1/builds/{build.id}"
    return build


@router.get("", summary="List the builds", responses=error_responses(503))
def list_builds(context: InContext, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None) -> BuildList:
    """List the builds, newest first, in pages."""
    builds = context.repos.builds
    page = builds.list_page(limit=limit, cursor=cursor)
    return BuildList(items=page.items, next=page.next, total=page.total, open=builds.count_open())


@router.get("/{build_id}", summary="Show a build", responses=error_responses(404, 503))
async def show_build(build_id: BuildId, context: InContext) -> Build:
    """Return a build: progress and result. Once it has succeeded, this server decides with the new version."""
    build = await asyncio.to_thread(context.repos.builds.get, build_id)
    await _wait_until_loaded(context, build)
    return build


@router.get(
    "/{build_id}/events",
    summary="Follow a build by server-sent events",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"text/event-stream": {}}, "description": "one event for each change"},
        **error_responses(404, 503),
    },
)
async def build_events(build_id: BuildId, context: InContext) -> StreamingResponse:
    """Stream a build's state as server-sent events, one per change.

    The last event has the final state.
    """
    first = await asyncio.to_thread(context.repos.builds.get, build_id)
    stream = _changes(context, first)
    return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


@router.delete("/{build_id}", summary="Cancel a build", responses=error_responses(404, 503))
def cancel_build(build_id: BuildId, context: InContext) -> Build:
    """Cancel a build; a build that has ended does not change.

    Builds of a team's names are canceled by that team only.
    """
    if has_team_names(context):
        require_own_names(context, context.repos.builds.get(build_id).name)
    return context.repos.builds.cancel(build_id)


async def _wait_until_loaded(context: AppContext, build: Build) -> None:
    """Wait up to ``LOAD_TIMEOUT_S`` until this server has loaded the version of an ended build."""
    ref = build.artifact
    if ref is None or build.finished_at is None or not build.activate:
        return
    while seconds_between(build.finished_at, current_timestamp()) < LOAD_TIMEOUT_S:
        loaded = context.catalog.plans.get((ref.kind, ref.name))
        if loaded is not None and loaded.ref.version >= ref.version:
            return
        await asyncio.sleep(_POLL_INTERVAL_S / 10)


async def _changes(context: AppContext, build: Build) -> AsyncIterator[str]:
    yield _event(build)
    while not build.ended:
        await asyncio.sleep(_POLL_INTERVAL_S)
        try:
            latest = await asyncio.to_thread(context.repos.builds.get, build.id)
        except ParsimonyError as error:  # the store is unavailable: the build may continue, and the caller must retry
            yield f"event: error\ndata: {json.dumps({'detail': str(error)})}\n\n"
            return
        if latest != build:
            build = latest
            await _wait_until_loaded(context, build)
            yield _event(build)


def _event(build: Build) -> str:
    return f"event: {'end' if build.ended else 'progress'}\ndata: {build.model_dump_json()}\n\n"
