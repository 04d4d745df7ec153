"""Dataset routes: upload, list, show, and delete datasets."""

import asyncio
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field, ValidationError
from starlette.datastructures import FormData

from app.http.json_bodies import JsonRouter, require_media_type
from app.processes.clock import current_timestamp
from app.routes.dataset_uploads import receive_form, reply_stored
from app.routes.dependencies import (
    AppContext,
    InContext,
    PathName,
    error_responses,
    find_build_owner,
    require_store,
    run_in_solver,
)
from app.routes.entity_tags import IfMatch, IfNoneMatch, check_preconditions, make_etag
from app.routes.forms import copy_part, read_bytes_part, read_file_part
from app.routes.paging import DEFAULT_LIMIT, Cursor, Limit, PageFields
from app.routes.team_names import OWN_NAME
from app.routes.uploads import open_uploads
from app.sources.locations import require_allowed_location
from app.store.dataset_upload import DatasetUpload, store_upload
from app.store.disk_space import require_disk_space
from app.store.table_heads import read_table_head
from app.store.table_types import CSV_TYPES, JSON_LINES_TYPES, PARQUET, PARQUET_TYPES
from app.store.uploads import parse_spec, run_in_reader
from models import Build, Fault, InvalidRequest
from models.dataset_profile import FeaturesProfileReply, ProfileReply, TraceProfile, TraceProfileReply
from models.dataset_source import DatasetSource
from models.errors import UnknownDataset
from models.spec_draft import SpecDraft, make_spec_draft
from models.stored_dataset import DatasetInfo, DeletedDataset, ReplacedDataset, ShownDataset, StoredDataset
from solvers.dataset_profile import profile_dataset

router = JsonRouter(prefix="/v1/datasets", tags=["datasets"], dependencies=[Depends(require_store)])
_PARTS = ("spec", "table", "embeddings", "source")
SHOWN_ROW_COUNT = 6
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
                    "required": ["spec"],
                    "anyOf": [{"required": ["table"]}, {"required": ["source"]}],
                    "properties": {
                        "spec": {
                            "oneOf": [
                                {"$ref": "#/components/schemas/TraceSpec"},
                                {"$ref": "#/components/schemas/FeaturesSpec"},
                            ],
                            "description": "the spec: describes the columns of the table",
                        },
                        "table": {
                            "type": "string",
                            "format": "binary",
                            "description": "text/csv or application/jsonl, also gzipped, or Parquet",
                        },
                        "embeddings": {
                            "type": "string",
                            "format": "binary",
                            "description": ".npy, float32, one row per row of the table",
                        },
                        "source": {
                            "$ref": "#/components/schemas/DatasetSource",
                            "description": "instead of table: Parquet files in place, or a resumable upload",
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


class DatasetList(PageFields):
    """A page of datasets."""

    items: Annotated[list[DatasetInfo], Field(description="the datasets, by name")]


@router.put(
    "/{name}",
    summary="Store a dataset",
    dependencies=[OWN_NAME],
    status_code=201,
    response_model=StoredDataset,
    responses={
        200: {"model": StoredDataset, "description": "an existing dataset was replaced"},
        202: {"model": Build, "description": "a build that checks the files of the source was queued"},
        **error_responses(404, 409, 412, 413, 415, 429, 503),
    },
    openapi_extra=_UPLOAD,
)
async def put_dataset(
    name: PathName, request: Request, context: InContext, if_match: IfMatch = None, if_none_match: IfNoneMatch = None
) -> Response:
    """Validate a table and store it as a dataset.

    All errors are listed, each with its field and first row. With `If-Match`, the upload replaces only the dataset with
    that tag. With `If-None-Match: *`, it replaces no dataset.

    With `source` instead of `table`, a build checks every row of Parquet files, or of a resumable upload, and stores a
    sample of them. The reply is the build; follow it like any other build. An upload is deleted after it was stored.
    """
    allow = partial(check_preconditions, name, if_match, if_none_match)
    stored = await receive_form(request, "a dataset", _PARTS, partial(_store_or_enqueue, context, name, allow))
    if isinstance(stored, Build):
        headers = {"Location": f"/v1/builds/{stored.id}"}
        return Response(stored.model_dump_json(), 202, headers, media_type="application/json")
    info, replaced = stored
    return reply_stored(StoredDataset(**dict(info), replaced=replaced))


@router.get("", summary="List the datasets", responses=error_responses(503))
def list_datasets(context: InContext, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None) -> DatasetList:
    """List the datasets by name, in pages."""
    page = context.repos.datasets.list_page(limit=limit, cursor=cursor)
    return DatasetList(items=page.items, next=page.next, total=page.total)


@router.get("/{name}", summary="Show a dataset", responses=error_responses(404, 503))
def show_dataset(name: PathName, context: InContext, response: Response) -> ShownDataset:
    """Return a dataset: spec, size, and whether it has advice.

    Use the reply's `ETag` in `If-Match`.
    """
    shown = context.repos.datasets.get_dataset_reply(name)
    response.headers["ETag"] = make_etag(shown.sha256)
    return shown


@router.get(
    "/{name}/profile",
    summary="Profile a dataset's classifiers or features",
    response_model=ProfileReply,
    responses=error_responses(404, 503, 504),
)
async def show_profile(name: PathName, context: InContext) -> Response:
    """Return the profile of a dataset.

    For a trace: accuracy, cost, and calibration of its classifiers, and their agreement. For a feature table: the
    costs of the features by item size.
    """
    reply = await run_in_solver(context, _profile, context, name)
    return Response(reply.model_dump_json(), media_type="application/json")


def _profile(context: AppContext, name: str) -> TraceProfileReply | FeaturesProfileReply:
    info = context.repos.datasets.get_info(name)
    facts = profile_dataset(context.repos.datasets.load(info))
    reply = TraceProfileReply if isinstance(facts, TraceProfile) else FeaturesProfileReply
    return reply(**dict(facts), name=info.name, sha256=info.sha256)


@router.delete(
    "/{name}",
    summary="Delete a dataset",
    dependencies=[OWN_NAME],
    status_code=204,
    responses={
        200: {
            "model": DeletedDataset,
            "description": "deleted; lists active artifacts that were built from the dataset and continue to answer",
        },
        **error_responses(404, 409, 412, 503),
    },
)
def delete_dataset(name: PathName, context: InContext, if_match: IfMatch = None) -> Response:
    """Delete a dataset, unless a queued or running build uses it.

    With `If-Match`, only the dataset with that tag is deleted.
    """
    built = [context.catalog.plans[one].ref for one in context.catalog.list_built_from(name)]
    context.repos.datasets.delete(name, allow=partial(check_preconditions, name, if_match, None))
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
            "description": "the table; the first lines of a CSV or JSON Lines file are enough",
            "content": {
                kind: {"schema": {"type": "string", "format": "binary"}, "example": "(file)"}
                for kind in (CSV_TYPES[0], JSON_LINES_TYPES[0], PARQUET)
            },
        }
    },
)
async def draft_spec(request: Request, context: InContext) -> Response:
    """Return a draft of a table's spec, from column names and first rows.

    Nothing is stored.
    """
    kind = require_media_type(request, *CSV_TYPES, *JSON_LINES_TYPES, *PARQUET_TYPES)
    with require_disk_space(), tempfile.TemporaryDirectory(prefix="parsimony-") as folder:
        path = Path(folder) / "table"
        with path.open("wb") as out:
            async for chunk in request.stream():
                out.write(chunk)
        made = await asyncio.to_thread(_draft, context, path, kind)
    return Response(made.model_dump_json(), media_type="application/json")


def _draft(context: AppContext, path: Path, kind: str) -> SpecDraft:
    limit = context.settings.max_body_bytes
    columns, rows = read_table_head(path, kind, max_bytes=limit, run_in=context.table_sandbox)
    spec, guesses = make_spec_draft(columns, rows)
    return SpecDraft(spec=spec, columns=tuple(columns), rows=tuple(map(tuple, rows[:SHOWN_ROW_COUNT])), guesses=guesses)


def _store_or_enqueue(
    context: AppContext, name: str, allow: Callable[[str | None], None], form: FormData
) -> tuple[DatasetInfo, ReplacedDataset | None] | Build:
    """Store the table of a form, or queue the build that checks its source."""
    if "source" not in form:
        return _store(context, name, allow, form)
    other = next((part for part in ("table", "embeddings") if part in form), None)
    if other is not None:
        raise InvalidRequest.from_faults(Fault((other,), "must not be sent with source"))
    spec = parse_spec(read_bytes_part(form, "spec"))
    try:
        source = DatasetSource.model_validate_json(read_bytes_part(form, "source"))
    except ValidationError as error:
        raise InvalidRequest.from_validation(error, "source") from error
    if source.url is None:
        open_uploads(context).require_complete(str(source.upload))
    else:
        require_allowed_location(source.url, context.settings.allowed_sources())
    try:
        allow(context.repos.datasets.get_info(name).sha256)
    except UnknownDataset:
        allow(None)
    return context.repos.builds.enqueue_source(name, spec, source, find_build_owner(context))


def _store(
    context: AppContext, name: str, allow: Callable[[str | None], None], form: FormData
) -> tuple[DatasetInfo, ReplacedDataset | None]:
    """Check and store the form's parts, which are on disk, in another process."""
    table, spec = read_file_part(form, "table"), read_bytes_part(form, "spec")
    with tempfile.TemporaryDirectory(prefix="parsimony-") as folder:
        path = copy_part(table, Path(folder) / "table")
        vectors = None
        if "embeddings" in form:
            vectors = copy_part(read_file_part(form, "embeddings"), Path(folder) / "vectors")
        upload = DatasetUpload(spec, path, table.content_type or "", vectors, context.settings.max_body_bytes)
        store = context.repos.make_dataset_store()
        work = partial(store_upload, upload, store, name, current_timestamp(), allow)
        return run_in_reader(context.upload_sandbox, work)
