"""Artifacts: list, show, roll back, delete, export, import."""

import asyncio
from typing import Annotated

from fastapi import Depends, Path, Query, Request, Response
from pydantic import ConfigDict, Field

from app.building.rebuild import start_rebuild
from app.http.json_bodies import JsonRouter, refuse_other_types
from app.processes.clock import current_time
from app.routes.dependencies import Context, InContext, PathName, error_responses, needs_store
from app.routes.dependencies import Version as ActiveVersion
from app.routes.paging import DEFAULT_LIMIT, Cursor, Limit, Listed
from app.serving.loading import bytes_of
from app.store.pages import Page
from models import ArtifactRecord, Value
from models.errors import NotFound, StoreRefused, StoreUnavailable
from models.rebuild import Rebuild, RebuildRequest

router = JsonRouter(prefix="/v1/artifacts", tags=["artifacts"], dependencies=[Depends(needs_store)])
MEDIA_TYPE = "application/vnd.parsimony.artifact"
Version = Annotated[int, Path(ge=1, description="the version", examples=[1])]
KindName = Annotated[str, Path(description="the artifact kind", examples=["cascade"])]


class ArtifactList(Listed):
    """A page of artifacts."""

    items: Annotated[list[ArtifactRecord], Field(description="the artifacts, by kind and name, or by version")]


class Activation(Value):
    """Which version is to answer."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"version": 1}]})

    version: int = Field(ge=1, description="the version that is to answer from now on", examples=[1])


@router.get("", summary="List the artifacts", responses=error_responses(503))
def list_artifacts(
    context: InContext,
    kind: Annotated[str | None, Query(description="of this kind only", examples=["cascade"])] = None,
    name: Annotated[str | None, Query(description="of this name only", examples=["digits"])] = None,
    prefix: Annotated[
        str | None, Query(max_length=63, description="of names that begin so only", examples=["digits"])
    ] = None,
    dataset: Annotated[
        str | None, Query(description="built from this dataset only, of those that are in memory", examples=["digits"])
    ] = None,
    summary: Annotated[
        bool, Query(description="false: with empty summaries, which are most of a record", examples=[True])
    ] = True,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> ArtifactList:
    """List the active version of every artifact, by kind and name, a page at a time.

    What is published or deleted between two pages makes no other artifact come twice or not at all.
    """
    if dataset is None:
        page = context.repos.artifacts.list_page(kind, name, prefix=prefix or "", limit=limit, cursor=cursor)
    else:
        built = context.catalog.built_from(dataset)
        ids = [one for one in built if kind in (None, one[0]) and name in (None, one[1])]
        asked = [one for one in ids if one[1].startswith(prefix or "")]
        page = context.repos.artifacts.page_of(asked, limit=limit, cursor=cursor)
    return _listed(context, page, summary)


def _listed(context: Context, page: Page[ArtifactRecord], summary: bool = True) -> ArtifactList:
    records = context.repos.feedback.with_drift(page.items)
    if not summary:
        records = [record.model_copy(update={"summary": {}}) for record in records]
    return ArtifactList(items=records, next=page.next, total=page.total)


@router.get("/{kind}/{name}", summary="Show an artifact", responses=error_responses(404, 503))
def show_artifact(kind: KindName, name: PathName, context: InContext) -> ArtifactRecord:
    """Show the active version: its provenance and the build's results."""
    return context.repos.feedback.with_drift([context.repos.artifacts.get_record(kind, name)])[0]


@router.delete("/{kind}/{name}", summary="Delete an artifact", status_code=204, responses=error_responses(404, 503))
def delete_artifact(kind: KindName, name: PathName, context: InContext) -> None:
    """Delete every version of an artifact, the active one too, with its bytes and its feedback, for good.

    Servers answer 404 within a second. Its versions are counted on: should the name be used again, no version has a
    number that an old decision's id names. A build of the name that is queued or running is not cancelled; it publishes
    the next version.
    """
    context.repos.artifacts.delete_all(kind, name)


@router.get("/{kind}/{name}/versions", summary="List the versions of an artifact", responses=error_responses(404, 503))
def list_versions(
    kind: KindName, name: PathName, context: InContext, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> ArtifactList:
    """List the versions, the oldest first, a page at a time."""
    return _listed(context, context.repos.artifacts.versions_page(kind, name, limit=limit, cursor=cursor))


@router.put(
    "/{kind}/{name}/active",
    summary="Roll back or forward",
    responses=error_responses(404, 413, 415, 503),
)
def activate_version(kind: KindName, name: PathName, body: Activation, context: InContext) -> ArtifactRecord:
    """Let a version answer from now on, in every server within a second."""
    return context.repos.artifacts.activate(kind, name, body.version)


@router.post(
    "/{kind}/{name}/rebuild",
    summary="Build the next version from feedback",
    status_code=202,
    responses=error_responses(404, 409, 413, 415, 429, 503),
)
def rebuild_artifact(
    kind: KindName,
    name: PathName,
    body: RebuildRequest,
    context: InContext,
    response: Response,
    version: ActiveVersion = None,
) -> Rebuild:
    """Store rows of the version's dataset and of its feedback as a dataset, and queue a build of the next version.

    After a drift alarm it learns from the rows since the change point alone, if at least 200 came, so that what the new
    version promises holds in the changed world. `since`, `only_new`, and `half_life` choose other rows.
    """
    started = start_rebuild(context.repos, context.repos.artifacts.get_record(kind, name, version), body)
    response.headers["Location"] = f"/v1/builds/{started.id}"
    return started


@router.delete(
    "/{kind}/{name}/versions/{version}",
    summary="Delete a version",
    status_code=204,
    responses=error_responses(404, 409, 503),
)
def delete_version(
    kind: KindName,
    name: PathName,
    version: Version,
    context: InContext,
    even_active: Annotated[
        bool, Query(description="true: delete it although it is the active version", examples=[True])
    ] = False,
) -> None:
    """Delete a version and its feedback; the active one only with `even_active=true`.

    Then the highest of the versions that remain answers, or the artifact is gone if it was the last.
    """
    context.repos.artifacts.delete(kind, name, version, even_active=even_active)


exports = JsonRouter(prefix="/v1/artifacts", tags=["artifacts"])


@exports.get(
    "/{kind}/{name}/versions/{version}/export",
    summary="Export a version",
    response_class=Response,
    responses={200: {"content": {MEDIA_TYPE: {}}, "description": "the artifact's bytes"}, **error_responses(404, 503)},
)
def export_version(kind: KindName, name: PathName, version: Version, context: InContext) -> Response:
    """Give the bytes of a version; they carry their own checksum and everything that an import needs.

    While the store is away, or has lost it, the version that answers is written from memory.
    """
    record, data = _kept(context, kind, name, version)
    headers = {
        "Content-Disposition": f'attachment; filename="{kind}-{name}-{version}.parsimony"',
        "X-SHA256": record.sha256,
    }
    return Response(data, media_type=MEDIA_TYPE, headers=headers)


def _kept(context: Context, kind: str, name: str, version: int) -> tuple[ArtifactRecord, bytes]:
    """Give a version's record and bytes, from the store or from memory."""
    try:
        context.catalog.refuse_if_away()
        record = context.repos.artifacts.get_record(kind, name, version)
        return record, context.repos.artifacts.get_bytes(record)
    except (StoreUnavailable, StoreRefused, NotFound) as error:
        loaded = context.catalog.plans.get((kind, name))
        is_deleted = isinstance(error, NotFound) and (kind, name) not in context.catalog.problems
        if loaded is None or loaded.ref.version != version or is_deleted:
            raise
        return loaded.record, bytes_of(loaded)


@router.post(
    "/import",
    summary="Import an artifact",
    status_code=201,
    responses=error_responses(413, 415, 503),
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "the bytes that an export gave",
            "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}, "example": "(file)"}},
        }
    },
)
async def import_artifact(request: Request, context: InContext) -> ArtifactRecord:
    """Publish exported bytes as the next version of their kind and name, once their checksum holds."""
    refuse_other_types(request, MEDIA_TYPE, "application/octet-stream")
    data = await request.body()
    return await asyncio.to_thread(context.repos.artifacts.publish, data, created_at=current_time())
