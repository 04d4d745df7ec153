"""Resumable uploads: the tus protocol, version 1.0.0.

Of the protocol, this is the core, creation, expiration, and termination (https://tus.io/protocols/resumable-upload), so
that tus clients of any language work. The library ``tuspyserver`` is not used: its errors are not problem details, its
locks wait, and it accepts any file name as an id. ``X-HTTP-Method-Override`` is not supported,
because it would bypass limits that depend on the method.
"""

import asyncio
from collections.abc import Callable, Coroutine
from email.utils import format_datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Request, Response
from fastapi.routing import APIRoute

from app.http.json_bodies import require_media_type
from app.http.problem_details import make_error_response
from app.routes.dependencies import AppContext, InContext, error_responses, require_store
from app.store.disk_space import require_disk_space
from app.store.resumable_uploads import ResumableUploads, UploadState, UploadWriter
from models.errors import ParsimonyError, PreconditionFailed, RequestTimeout
from models.upload import Upload

TUS_VERSION = "1.0.0"
TUS_EXTENSIONS = "creation,expiration,termination"
PATCH_TYPE = "application/offset+octet-stream"
IDLE_TIMEOUT_S = 30.0
"""Seconds without a byte after which a part is given up, so that its client can continue on another connection."""
REPLY_HEADERS = (
    "Tus-Resumable",
    "Tus-Version",
    "Tus-Extension",
    "Tus-Max-Size",
    "Upload-Offset",
    "Upload-Length",
    "Upload-Metadata",
    "Upload-Expires",
)
"""Headers of replies that the protocol defines."""
_WRITE_BYTES = 2**20
_MAX_METADATA = 4096
_SENT_BYTES: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {PATCH_TYPE: {"schema": {"type": "string", "format": "binary"}, "example": "(bytes)"}},
    }
}


class TusRoute(APIRoute):
    """Route that names the protocol's version in each reply."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return FastAPI's handler with the protocol's headers."""
        handle = super().get_route_handler()

        async def handle_tus(request: Request) -> Response:
            headers = {"Tus-Resumable": TUS_VERSION, "Cache-Control": "no-store"}
            try:
                reply = await handle(request)
            except ParsimonyError as error:
                reply = make_error_response(error, request.url.path, request.state.request_id)
                headers |= {"Tus-Version": TUS_VERSION} if isinstance(error, PreconditionFailed) else {}
            reply.headers.update(headers)
            return reply

        return handle_tus


router = APIRouter(prefix="/v1/uploads", tags=["datasets"], dependencies=[Depends(require_store)], route_class=TusRoute)
UploadId = Annotated[str, Path(description="id of the upload", examples=["0123456789abcdef0123456789abcdef"])]
Offset = Annotated[int, Header(alias="Upload-Offset", ge=0, description="number of bytes received so far")]


@router.options("", summary="Show the limits of uploads", status_code=204, include_in_schema=False)
async def show_tus_options(context: InContext) -> Response:
    """Return the protocol's versions and extensions, and the maximum length, as headers."""
    most = str(context.settings.max_upload_bytes)
    headers = {"Tus-Version": TUS_VERSION, "Tus-Extension": TUS_EXTENSIONS, "Tus-Max-Size": most}
    return Response(status_code=204, headers=headers)


@router.post(
    "",
    summary="Create a resumable upload",
    status_code=201,
    response_model=Upload,
    responses=error_responses(412, 413, 503),
)
async def create_upload(
    request: Request,
    context: InContext,
    length: Annotated[int, Header(alias="Upload-Length", ge=0, description="number of bytes of the whole upload")],
    metadata: Annotated[
        str, Header(alias="Upload-Metadata", max_length=_MAX_METADATA, description="is returned unchanged")
    ] = "",
) -> Response:
    """Create an empty upload; its address is in the header `Location`.

    The protocol is [tus](https://tus.io/protocols/resumable-upload) 1.0.0. Expired uploads are deleted.
    """
    uploads = _open_for_tus(request, context)
    with require_disk_space(uploads.folder):
        await asyncio.to_thread(uploads.delete_expired)
        state = await asyncio.to_thread(uploads.create_upload, length, metadata)
    headers = _describe_state(state) | {"Location": f"/v1/uploads/{state.id}"}
    made = Upload(id=state.id, length=state.length, expires_at=state.expires_at.isoformat(timespec="seconds"))
    return Response(made.model_dump_json(), 201, headers, media_type="application/json")


@router.head(
    "/{upload_id}",
    summary="Show how much of an upload was received",
    response_class=Response,
    responses=error_responses(404, 412, 503),
)
async def show_upload(upload_id: UploadId, request: Request, context: InContext) -> Response:
    """Return the offset at which to continue, in the header `Upload-Offset`."""
    return Response(headers=_describe_state(_open_for_tus(request, context).get(upload_id)))


@router.patch(
    "/{upload_id}",
    summary="Append to an upload",
    status_code=204,
    response_class=Response,
    responses=error_responses(404, 409, 412, 413, 415, 503),
    openapi_extra=_SENT_BYTES,
)
async def append_upload(upload_id: UploadId, request: Request, context: InContext, offset: Offset) -> Response:
    """Append the body to an upload. If the connection breaks, the bytes that arrived are kept.

    `Upload-Offset` must be the number of bytes received so far.
    """
    uploads = _open_for_tus(request, context)
    require_media_type(request, PATCH_TYPE)
    with require_disk_space(uploads.folder), uploads.open_writer(upload_id, offset) as writer:
        await _receive_bytes(request, writer)
    return Response(status_code=204, headers=_describe_state(uploads.get(upload_id)))


@router.delete(
    "/{upload_id}",
    summary="Delete an upload",
    status_code=204,
    response_class=Response,
    responses=error_responses(404, 409, 412, 503),
)
async def delete_upload(upload_id: UploadId, request: Request, context: InContext) -> Response:
    """Delete an upload and its bytes, unless a request or a build uses it."""
    await asyncio.to_thread(_open_for_tus(request, context).delete, upload_id)
    return Response(status_code=204)


def open_uploads(context: AppContext) -> ResumableUploads:
    """Return the uploads of the settings' folder; raises InvalidRequest if there is none."""
    return ResumableUploads(context.settings.find_upload_dir(), context.settings.max_upload_bytes)


async def _receive_bytes(request: Request, writer: UploadWriter) -> None:
    """Write the body in chunks; what arrived before an error is written, too, and nothing twice."""
    writer.require_room(int(request.headers.get("content-length", 0)))
    chunks, received = request.stream(), bytearray()
    try:
        while chunk := await _next_chunk(chunks):
            writer.require_room(len(received) + len(chunk))
            received += chunk
            if len(received) >= _WRITE_BYTES:
                full, received = bytes(received), bytearray()
                await _write_in_thread(writer, full)
    finally:
        await _write_in_thread(writer, bytes(received))


async def _write_in_thread(writer: UploadWriter, data: bytes) -> None:
    """Write bytes in a thread, completely, also if the request is cancelled meanwhile."""
    writing = asyncio.ensure_future(asyncio.to_thread(writer.write, data))
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        await asyncio.wait([writing])
        raise


async def _next_chunk(chunks: Any) -> bytes:
    """Return the next bytes of a body; empty at its end. Raises RequestTimeout if none arrive."""
    try:
        async with asyncio.timeout(IDLE_TIMEOUT_S):
            return bytes(await anext(chunks, b""))
    except TimeoutError as error:
        raise RequestTimeout(f"no byte was received for {IDLE_TIMEOUT_S:g} s; continue the upload") from error


def _open_for_tus(request: Request, context: AppContext) -> ResumableUploads:
    """Return the uploads; raises PreconditionFailed for another version of the protocol.

    A page of another site cannot send the header without asking first.
    """
    version = request.headers.get("tus-resumable")
    if version != TUS_VERSION:
        raise PreconditionFailed(f"Tus-Resumable must be {TUS_VERSION}, got {version or 'none'}")
    return open_uploads(context)


def _describe_state(state: UploadState) -> dict[str, str]:
    headers = {"Upload-Offset": str(state.offset), "Upload-Length": str(state.length)}
    metadata = {"Upload-Metadata": state.metadata} if state.metadata else {}
    return headers | metadata | {"Upload-Expires": format_datetime(state.expires_at, usegmt=True)}
