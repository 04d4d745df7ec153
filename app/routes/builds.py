"""Builds: start, follow, cancel."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Path, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from app.http.json_bodies import JsonRouter
from app.routes.dependencies import InContext, error_responses, needs_store
from app.routes.paging import DEFAULT_LIMIT, Cursor, Limit, Listed
from app.store.repositories import Repositories
from models import Build, BuildRequest, ParsimonyError

router = JsonRouter(prefix="/v1/builds", tags=["builds"], dependencies=[Depends(needs_store)])
_LOOK_S = 0.2
BuildId = Annotated[str, Path(description="the build's id", examples=["7d0c3b9a5e4f4d6c8a1b2c3d4e5f6a7b"])]


class BuildList(Listed):
    """A page of the builds that are remembered."""

    items: Annotated[list[Build], Field(description="the builds, the newest first")]
    open: Annotated[int, Field(description="how many builds are queued or running, on all pages together")]


@router.post(
    "",
    summary="Start a build",
    status_code=202,
    responses=error_responses(404, 413, 415, 429, 503),
)
def start_build(request: BuildRequest, context: InContext, response: Response) -> Build:
    """Queue a build; a worker takes it. Same dataset, params and seed give the same artifact, byte for byte."""
    build = context.repos.builds.enqueue_build(request)
    response.headers["Location"] = f"/v1/builds/{build.id}"
    return build


@router.get("", summary="List the builds", responses=error_responses(503))
def list_builds(context: InContext, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None) -> BuildList:
    """List the builds that are remembered, the newest first, a page at a time."""
    builds = context.repos.builds
    page = builds.list_page(limit=limit, cursor=cursor)
    return BuildList(items=page.items, next=page.next, total=page.total, open=builds.count_open())


@router.get("/{build_id}", summary="Show a build", responses=error_responses(404, 503))
def show_build(build_id: BuildId, context: InContext) -> Build:
    """Show a build: progress and result."""
    return context.repos.builds.get(build_id)


@router.get(
    "/{build_id}/events",
    summary="Follow a build",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"text/event-stream": {}}, "description": "one event a change"},
        **error_responses(404, 503),
    },
)
async def build_events(build_id: BuildId, context: InContext) -> StreamingResponse:
    """Send the build as a server-sent event at each change; the last one is final."""
    first = await asyncio.to_thread(context.repos.builds.get, build_id)
    stream = _changes(context.repos, first)
    return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


@router.delete("/{build_id}", summary="Cancel a build", responses=error_responses(404, 503))
def cancel_build(build_id: BuildId, context: InContext) -> Build:
    """Stop a build wherever it is; one that has ended stays as it is."""
    return context.repos.builds.cancel(build_id)


async def _changes(repos: Repositories, build: Build) -> AsyncIterator[str]:
    yield _event(build)
    while not build.ended:
        await asyncio.sleep(_LOOK_S)
        try:
            latest = await asyncio.to_thread(repos.builds.get, build.id)
        except ParsimonyError as error:  # the store is away: the build may go on, the caller is to ask again
            yield f"event: error\ndata: {json.dumps({'detail': str(error)})}\n\n"
            return
        if latest != build:
            build = latest
            yield _event(build)


def _event(build: Build) -> str:
    return f"event: {'end' if build.ended else 'progress'}\ndata: {build.model_dump_json()}\n\n"
