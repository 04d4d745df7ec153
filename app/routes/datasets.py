"""Datasets: upload, list, show, delete."""

import asyncio
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.datastructures import FormData, UploadFile

from app.http.json_bodies import JsonRouter, refuse_other_types
from app.processes.clock import current_time
from app.routes.dependencies import Context, InContext, PathName, error_responses, needs_store, run_in_solver
from app.routes.entity_tags import IfMatch, IfNoneMatch, make_etag, refuse_changed
from app.routes.forms import read_form, room_on_disk
from app.routes.paging import DEFAULT_LIMIT, Cursor, Limit, Listed
from app.store.dataset_upload import Upload, store_upload
from app.store.table_heads import head_of
from app.store.table_types import CSV_TYPES, JSON_LINES_TYPES, PARQUET, PARQUET_TYPES
from app.store.uploads import in_reader
from models import Fault, InvalidRequest
from models.dataset_profile import FeaturesProfileReply, ProfileReply, TraceProfile, TraceProfileReply
from models.spec_draft import SpecDraft, draft_of
from models.stored_dataset import DatasetInfo, DeletedDataset, Replaced, ShownDataset, StoredDataset
from solvers.dataset_profile import profile_dataset

router = JsonRouter(prefix="/v1/datasets", tags=["datasets"], dependencies=[Depends(needs_store)])
_CHUNK = 2**20
SHOWN = 6
"""Rows of a table that a draft shows."""

EXAMPLE_SPEC: dict[str, Any] = {
    "kind": "trace",
    "label": "truth",
    "unit": "ms",
    "classifiers": [
        {"name": "fast", "cost": 1.5, "prediction": "fast_says", "confidence": "fast_confidence"},
        {"name": "strong", "cost": {"column": "strong_ms"}, "prediction": "strong_says"},
    ],
}
_UPLOAD: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["spec", "table"],
                    "properties": {
                        "spec": {
                            "oneOf": [
                                {"$ref": "#/components/schemas/TraceSpec"},
                                {"$ref": "#/components/schemas/FeaturesSpec"},
                            ],
                            "description": "how the table is to be read",
                        },
                        "table": {
                            "type": "string",
                            "format": "binary",
                            "description": "text/csv or application/jsonl, also gzipped, or Parquet",
                        },
                        "embeddings": {
                            "type": "string",
                            "format": "binary",
                            "description": ".npy, float32, one row for each row of the table",
                        },
                    },
                },
                "example": {"spec": EXAMPLE_SPEC, "table": "(file)"},
                "encoding": {
                    "spec": {"contentType": "application/json"},
                    "table": {"contentType": "text/csv, application/jsonl, application/vnd.apache.parquet"},
                },
            }
        },
    }
}


drafts = JsonRouter(prefix="/v1/drafts", tags=["datasets"])


class DatasetList(Listed):
    """A page of the datasets."""

    items: Annotated[list[DatasetInfo], Field(description="the datasets, by name")]


@router.put(
    "/{name}",
    summary="Store a dataset",
    status_code=201,
    response_model=StoredDataset,
    responses={
        200: {"model": StoredDataset, "description": "it took the place of an older one"},
        **error_responses(412, 413, 415, 503),
    },
    openapi_extra=_UPLOAD,
)
async def put_dataset(
    name: PathName, request: Request, context: InContext, if_match: IfMatch = None, if_none_match: IfNoneMatch = None
) -> Response:
    """Check a table once and completely, and keep it; every fault names the field and the first offending row.

    With `If-Match` it only takes the place of the dataset that the caller knows; with `If-None-Match: *` of none.
    """
    refuse_other_types(request, "multipart/form-data")
    with room_on_disk():
        form = await read_form(request, 3, _CHUNK)
        try:
            allow = partial(refuse_changed, name, if_match, if_none_match)
            info, replaced = await asyncio.to_thread(_store, context, name, form, allow)
        finally:
            await form.close()
    stored = StoredDataset(**dict(info), replaced=replaced)
    return JSONResponse(stored.model_dump(mode="json"), 200 if replaced else 201, {"ETag": make_etag(info.sha256)})


@router.get("", summary="List the datasets", responses=error_responses(503))
def list_datasets(context: InContext, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None) -> DatasetList:
    """List the datasets by name, a page at a time."""
    page = context.repos.datasets.list_page(limit=limit, cursor=cursor)
    return DatasetList(items=page.items, next=page.next, total=page.total)


@router.get("/{name}", summary="Show a dataset", responses=error_responses(404, 503))
def show_dataset(name: PathName, context: InContext, response: Response) -> ShownDataset:
    """Show a dataset: spec, size, and whether there is advice on it; its `ETag` is for `If-Match`."""
    shown = context.repos.datasets.get_shown(name)
    response.headers["ETag"] = make_etag(shown.sha256)
    return shown


@router.get(
    "/{name}/profile",
    summary="How good the classifiers are, or what features cost",
    response_model=ProfileReply,
    responses=error_responses(404, 503, 504),
)
async def show_profile(name: PathName, context: InContext) -> Response:
    """Show the profile of a trace: accuracy, cost, and calibration of its classifiers, and their agreement; of a table
    of features what they cost over the item's size."""
    reply = await run_in_solver(context, _profile, context, name)
    return Response(reply.model_dump_json(), media_type="application/json")


def _profile(context: Context, name: str) -> TraceProfileReply | FeaturesProfileReply:
    info = context.repos.datasets.get_info(name)
    facts = profile_dataset(context.repos.datasets.load(info))
    reply = TraceProfileReply if isinstance(facts, TraceProfile) else FeaturesProfileReply
    return reply(**dict(facts), name=info.name, sha256=info.sha256)


@router.delete(
    "/{name}",
    summary="Delete a dataset",
    status_code=204,
    responses={
        200: {"model": DeletedDataset, "description": "active artifacts were built from it, and answer on"},
        **error_responses(404, 409, 412, 503),
    },
)
def delete_dataset(name: PathName, context: InContext, if_match: IfMatch = None) -> Response:
    """Delete a dataset; one that a queued or running build needs cannot be deleted.

    With `If-Match` only the one that the caller knows.
    """
    built = [context.catalog.plans[one].ref for one in context.catalog.built_from(name)]
    context.repos.datasets.delete(name, allow=partial(refuse_changed, name, if_match, None))
    if not built:
        return Response(status_code=204)
    return JSONResponse(DeletedDataset(name=name, artifacts=tuple(built)).model_dump(mode="json"))


@drafts.post(
    "",
    summary="Draft a spec from a table",
    response_model=SpecDraft,
    responses=error_responses(413, 415, 504),
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "the table itself; of a CSV, or of JSON Lines, its first lines are enough",
            "content": {
                kind: {"schema": {"type": "string", "format": "binary"}, "example": "(file)"}
                for kind in (CSV_TYPES[0], JSON_LINES_TYPES[0], PARQUET)
            },
        }
    },
)
async def draft_spec(request: Request, context: InContext) -> Response:
    """Guess the spec of a table from its column names and first rows; nothing is stored."""
    kind = refuse_other_types(request, *CSV_TYPES, *JSON_LINES_TYPES, *PARQUET_TYPES)
    with room_on_disk(), tempfile.TemporaryDirectory(prefix="parsimony-") as folder:
        path = Path(folder) / "table"
        with path.open("wb") as out:
            async for chunk in request.stream():
                out.write(chunk)
        made = await asyncio.to_thread(_draft, context, path, kind)
    return Response(made.model_dump_json(), media_type="application/json")


def _draft(context: Context, path: Path, kind: str) -> SpecDraft:
    limit = context.settings.max_body_bytes
    columns, rows = head_of(path, kind, max_bytes=limit, run_in=context.table_sandbox)
    spec, guesses = draft_of(columns, rows)
    return SpecDraft(spec=spec, columns=tuple(columns), rows=tuple(map(tuple, rows[:SHOWN])), guesses=guesses)


def _store(
    context: Context, name: str, form: FormData, allow: Callable[[str | None], None]
) -> tuple[DatasetInfo, Replaced | None]:
    """Let another process check the parts of the form, which are on disk already, and keep what they hold."""
    unknown = sorted(set(form) - {"spec", "table", "embeddings"})
    if unknown:
        raise InvalidRequest.from_faults(
            Fault((unknown[0],), "is not a part of a dataset; available: spec, table, embeddings")
        )
    table, spec = _file(form, "table"), _bytes(form, "spec")
    with tempfile.TemporaryDirectory(prefix="parsimony-") as folder:
        path = _copied(table, Path(folder) / "table")
        vectors = _copied(_file(form, "embeddings"), Path(folder) / "vectors") if "embeddings" in form else None
        upload = Upload(spec, path, table.content_type or "", vectors, context.settings.max_body_bytes)
        url = context.repos.store.url
        work = partial(store_upload, upload, url, name, current_time(), allow)
        return in_reader(context.upload_sandbox, work)


def _bytes(form: FormData, part: str) -> bytes:
    value = form.get(part)
    if value is None:
        raise InvalidRequest.from_faults(Fault((part,), "is missing"))
    return value.file.read() if isinstance(value, UploadFile) else value.encode()


def _file(form: FormData, part: str) -> UploadFile:
    value = form.get(part)
    if not isinstance(value, UploadFile):
        raise InvalidRequest.from_faults(Fault((part,), "is missing" if value is None else "must be sent as a file"))
    return value


def _copied(upload: UploadFile, path: Path) -> Path:
    """Give a received file a path that another process can open; the kernel copies it."""
    source, length = upload.file.fileno(), upload.size or 0  # the first moves it from memory to disk
    upload.file.flush()
    with path.open("wb") as out:
        at = 0
        while at < length:
            at += os.sendfile(out.fileno(), source, at, length - at)
    return path
