"""Artifact routes: list, show, roll back, delete, export, and import."""

import asyncio
from functools import partial
from typing import Annotated

from fastapi import Depends, Path, Query, Request, Response
from pydantic import ConfigDict, Field

from app.building.rebuild import start_rebuild
from app.http.json_bodies import JsonRouter, require_media_type
from app.processes.clock import current_timestamp
from app.routes.dependencies import AppContext, InContext, PathName, error_responses, find_build_owner, require_store
from app.routes.dependencies import Version as ActiveVersion
from app.routes.paging import DEFAULT_LIMIT, Cursor, Limit, PageFields
from app.routes.team_names import OWN_NAME, require_own_names
from app.serving.loaded_artifact import get_original_bytes
from app.store.paging import Page
from models import ArtifactRecord, Value
from models.errors import NotFound, StoreRefused, StoreUnavailable
from models.rebuild import Rebuild, RebuildRequest

router = JsonRouter(prefix="/v1/artifacts", tags=["artifacts"], dependencies=[Depends(require_store)])
MEDIA_TYPE = "application/vnd.parsimony.artifact"
Version = Annotated[int, Path(ge=1, description="the version", examples=[1])]
KindName = Annotated[str, Path(description="the artifact kind", examples=["cascade"])]


class ArtifactList(PageFields):
    """A page of artifacts."""

    items: Annotated[list[ArtifactRecord], Field(description="the artifacts, by kind and name, or by version")]


class Activation(Value):
    """The version to activate."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"version": 1}]})

    version: int = Field(ge=1, description="the version to activate", examples=[1])


@router.get("", summary="List the artifacts", responses=error_responses(503))
def list_artifacts(
    context: InContext,
    kind: Annotated[str | None, Query(description="only artifacts of this kind", examples=["cascade"])] = None,
    name: Annotated[str | None, Query(description="only artifacts of this name", examples=["digits"])] = None,
    prefix: Annotated[
        str | None,
        Query(max_length=63, description="only artifacts whose name begins with this prefix", examples=["digits"]),
    ] = None,
    dataset: Annotated[
        str | None, Query(description="only loaded artifacts that were built from this dataset", examples=["digits"])
    ] = None,
    summary: Annotated[
        bool, Query(description="false: omit the summaries, which are most of a record", examples=[True])
    ] = True,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
) -> ArtifactList:
    """List the active versions, sorted by kind and name, in pages.

    Pages neither repeat nor omit artifacts if other artifacts are published or deleted between two requests.
    """
    if dataset is None:
        page = context.repos.artifacts.list_page(kind, name, prefix=prefix or "", limit=limit, cursor=cursor)
    else:
        built = context.catalog.list_built_from(dataset)
        ids = [one for one in built if kind in (None, one[0]) and name in (None, one[1])]
        asked = [one for one in ids if one[1].startswith(prefix or "")]
        page = context.repos.artifacts.page_of(asked, limit=limit, cursor=cursor)
    return _listed(context, page, summary)


def _listed(context: AppContext, page: Page[ArtifactRecord], summary: bool = True) -> ArtifactList:
    records = context.repos.feedback.with_drift(page.items)
    if not summary:
        records = [record.model_copy(update={"summary": {}}) for record in records]
    return ArtifactList(items=records, next=page.next, total=page.total)


@router.get("/{kind}/{name}", summary="Show an artifact", responses=error_responses(404, 503))
def show_artifact(kind: KindName, name: PathName, context: InContext) -> ArtifactRecord:
    """Return the active version: its dataset, parameters, and build summary."""
    return context.repos.feedback.with_drift([context.repos.artifacts.get_record(kind, name)])[0]


@router.delete(
    "/{kind}/{name}",
    summary="Delete an artifact",
    dependencies=[OWN_NAME],
    status_code=204,
    responses=error_responses(404, 503),
)
def delete_artifact(kind: KindName, name: PathName, context: InContext) -> None:
    """Delete all versions of an artifact, with their feedback, permanently.

    Servers reply 404 within a second. The version counter remains, so a reused name never repeats a version number in
    the id of an old decision. Queued and running builds of the name are not canceled. They publish the next version.
    """
    context.repos.artifacts.delete_all(kind, name)


@router.get("/{kind}/{name}/versions", summary="List the versions of an artifact", responses=error_responses(404, 503))
def list_versions(
    kind: KindName, name: PathName, context: InContext, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> ArtifactList:
    """List the versions of an artifact, oldest first, in pages."""
    return _listed(context, context.repos.artifacts.versions_page(kind, name, limit=limit, cursor=cursor))


@router.put(
    "/{kind}/{name}/active",
    summary="Activate a version: roll back or forward",
    dependencies=[OWN_NAME],
    responses=error_responses(404, 413, 415, 503),
)
def activate_version(kind: KindName, name: PathName, body: Activation, context: InContext) -> ArtifactRecord:
    """Activate a version on all servers, within a second."""
    return context.repos.artifacts.activate(kind, name, body.version)


@router.post(
    "/{kind}/{name}/rebuild",
    summary="Build the next version from feedback",
    dependencies=[OWN_NAME],
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
    """Queue a build of the next version from the dataset and the feedback.

    The selected rows are stored as a dataset. After a drift alarm, only rows since the change point are used, if there
    are at least 200. So the new version fits the changed data. `since`, `only_new`, and `half_life` select other rows.
    """
    if body.dataset is not None:
        require_own_names(context, body.dataset)
    record, owner = context.repos.artifacts.get_record(kind, name, version), find_build_owner(context)
    started = start_rebuild(context.repos, record, body, owner)
    response.headers["Location"] = f"/v1/builds/{started.id}"
    return started


@router.delete(
    "/{kind}/{name}/versions/{version}",
    summary="Delete a version",
    dependencies=[OWN_NAME],
    status_code=204,
    responses=error_responses(404, 409, 503),
)
def delete_version(
    kind: KindName,
    name: PathName,
    version: Version,
    context: InContext,
    even_active: Annotated[
        bool, Query(description="true: delete the version even if it is active", examples=[True])
    ] = False,
) -> None:
    """Delete a version and its feedback.

    The active version is deleted only with `even_active=true`. The highest remaining version then becomes active. If
    none remains, the artifact is deleted.
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
    """Return the bytes of a version, with their checksum, for a later import.

    If the store is unavailable or has lost the version, the loaded active version is returned.
    """
    record, data = _kept(context, kind, name, version)
    headers = {
        "Content-Disposition": f'attachment; filename="{kind}-{name}-{version}.parsimony"',
        "X-SHA256": record.sha256,
    }
    return Response(data, media_type=MEDIA_TYPE, headers=headers)


def _kept(context: AppContext, kind: str, name: str, version: int) -> tuple[ArtifactRecord, bytes]:
    """Return the record and bytes of a version, from the store or from memory."""
    try:
        context.catalog.require_reachable_store()
        record = context.repos.artifacts.get_record(kind, name, version)
        return record, context.repos.artifacts.get_bytes(record)
    except (StoreUnavailable, StoreRefused, NotFound) as error:
        loaded = context.catalog.plans.get((kind, name))
        is_deleted = isinstance(error, NotFound) and (kind, name) not in context.catalog.problems
        if loaded is None or loaded.ref.version != version or is_deleted:
            raise
        return loaded.record, get_original_bytes(loaded)


@router.post(
    "/import",
    summary="Import an artifact",
    status_code=201,
    responses=error_responses(409, 413, 415, 503),
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "bytes of an export",
            "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}, "example": "(file)"}},
        }
    },
)
async def import_artifact(request: Request, context: InContext) -> ArtifactRecord:
    """Publish exported bytes as the next version, after checking their checksum."""
    require_media_type(request, MEDIA_TYPE, "application/octet-stream")
    data = await request.body()
    allow = partial(require_own_names, context)
    publish = partial(context.repos.artifacts.publish, data, created_at=current_timestamp(), allow=allow)
    return await asyncio.to_thread(publish)
