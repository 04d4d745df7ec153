"""Artifacts: list, show, roll back, delete, export, import."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from app.clock import now
from app.routes.context import InContext, PathName, errors, json_only, needs_store
from models import ArtifactRecord, Value
from models.errors import UnsupportedMediaType

router = APIRouter(prefix="/v1/artifacts", tags=["artifacts"], dependencies=[Depends(needs_store)])
MEDIA_TYPE = "application/vnd.parsimony.artifact"
Version = Annotated[int, Path(ge=1, description="the version", examples=[1])]
Solver = Annotated[str, Path(description="the solver", examples=["cascade"])]


class ArtifactList(BaseModel):
    """Several artifacts."""

    items: Annotated[list[ArtifactRecord], Field(description="the artifacts, by solver and name, or by version")]


class Activation(Value):
    """Which version is to answer."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"version": 1}]})

    version: int = Field(ge=1, description="the version that is to answer from now on", examples=[1])


@router.get("", summary="List the artifacts", responses=errors(503))
def list_all(
    context: InContext,
    solver: Annotated[str | None, Query(description="of this solver only", examples=["cascade"])] = None,
    name: Annotated[str | None, Query(description="of this name only", examples=["digits-joint"])] = None,
) -> ArtifactList:
    """List the active version of every artifact."""
    return ArtifactList(items=context.parts.feedback.told_of(context.parts.artifacts.active(solver, name)))


@router.get("/{solver}/{name}", summary="Show an artifact", responses=errors(404, 503))
def show(solver: Solver, name: PathName, context: InContext) -> ArtifactRecord:
    """Tell of the active version: where it came from and what the build found."""
    return context.parts.feedback.told_of([context.parts.artifacts.record(solver, name)])[0]


@router.get("/{solver}/{name}/versions", summary="List the versions of an artifact", responses=errors(404, 503))
def versions(solver: Solver, name: PathName, context: InContext) -> ArtifactList:
    """List every version, the oldest first."""
    return ArtifactList(items=context.parts.feedback.told_of(context.parts.artifacts.versions(solver, name)))


@router.put(
    "/{solver}/{name}/active",
    summary="Roll back or forward",
    dependencies=[Depends(json_only)],
    responses=errors(404, 413, 415, 503),
)
def activate(solver: Solver, name: PathName, body: Activation, context: InContext) -> ArtifactRecord:
    """Let a version answer from now on, in every server within a second."""
    return context.parts.artifacts.activate(solver, name, body.version)


@router.delete(
    "/{solver}/{name}/versions/{version}",
    summary="Delete a version",
    status_code=204,
    responses=errors(404, 409, 503),
)
def delete(solver: Solver, name: PathName, version: Version, context: InContext) -> None:
    """Delete a version that is not active."""
    context.parts.artifacts.delete(solver, name, version)


@router.get(
    "/{solver}/{name}/versions/{version}/export",
    summary="Export a version",
    response_class=Response,
    responses={200: {"content": {MEDIA_TYPE: {}}, "description": "the artifact's bytes"}, **errors(404, 503)},
)
def export(solver: Solver, name: PathName, version: Version, context: InContext) -> Response:
    """Give the bytes of a version; they carry their own checksum and everything that an import needs."""
    record = context.parts.artifacts.record(solver, name, version)
    headers = {
        "Content-Disposition": f'attachment; filename="{solver}-{name}-{version}.parsimony"',
        "X-SHA256": record.sha256,
    }
    return Response(context.parts.artifacts.data(record), media_type=MEDIA_TYPE, headers=headers)


@router.post(
    "/import",
    summary="Import an artifact",
    status_code=201,
    responses=errors(413, 415, 503),
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "the bytes that an export gave",
            "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}, "example": "(file)"}},
        }
    },
)
async def import_(request: Request, context: InContext) -> ArtifactRecord:
    """Publish exported bytes as the next version of their solver and name, once their checksum holds."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (MEDIA_TYPE, "application/octet-stream"):
        raise UnsupportedMediaType(f"the body is {kind or 'of no stated type'}, must be {MEDIA_TYPE}")
    data = await request.body()
    return await asyncio.to_thread(context.parts.artifacts.publish, data, created_at=now())
